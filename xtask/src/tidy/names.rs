//! The names that a Rust file gives to things, read from its syntax tree.
//!
//! Types, traits, enum variants, fields, inline modules, and the strings by which clap renames
//! commands and flags. Functions and local variables are not names of things and are left out, and so is what
//! a macro generates, because it is not in the tree.

use super::workspace::TextFile;
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Type,
    Variant,
    Field,
    Command,
    Module,
}

impl Kind {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Variant => "variant",
            Self::Field => "field",
            Self::Command => "command or flag",
            Self::Module => "module",
        }
    }
}

/// A name, and where it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) kind: Kind,
    pub(super) text: String,
    pub(super) line: usize,
}

/// All names of a file in the order of the text.
pub(super) fn names(file: &TextFile) -> syn::Result<Vec<Name>> {
    let tree = syn::parse_file(&file.text)?;
    let mut collector = Collector::default();
    collector.visit_file(&tree);
    Ok(collector.names)
}

#[derive(Default)]
struct Collector {
    names: Vec<Name>,
}

impl Collector {
    fn add(&mut self, kind: Kind, ident: &syn::Ident) {
        let text = ident.to_string();
        let text = text.strip_prefix("r#").unwrap_or(&text).to_owned();
        self.names.push(Name { kind, text, line: ident.span().start().line });
    }

    /// Finds `name = "..."` and its like anywhere inside the attribute.
    fn add_commands(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for three in tokens.windows(3) {
            let [TokenTree::Ident(key), TokenTree::Punct(equals), TokenTree::Literal(value)] =
                three
            else {
                continue;
            };
            let renames = ["name", "long", "alias", "visible_alias", "value_name"];
            if equals.as_char() == '=' && renames.iter().any(|word| key == word) {
                let text = value.to_string().trim_matches('"').to_owned();
                let line = value.span().start().line;
                self.names.push(Name { kind: Kind::Command, text, line });
            }
        }
    }
}

impl<'tree> Visit<'tree> for Collector {
    fn visit_item_struct(&mut self, item: &'tree syn::ItemStruct) {
        self.add(Kind::Type, &item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'tree syn::ItemEnum) {
        self.add(Kind::Type, &item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_union(&mut self, item: &'tree syn::ItemUnion) {
        self.add(Kind::Type, &item.ident);
        visit::visit_item_union(self, item);
    }

    fn visit_item_trait(&mut self, item: &'tree syn::ItemTrait) {
        self.add(Kind::Type, &item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'tree syn::ItemType) {
        self.add(Kind::Type, &item.ident);
        visit::visit_item_type(self, item);
    }

    fn visit_item_mod(&mut self, item: &'tree syn::ItemMod) {
        self.add(Kind::Module, &item.ident);
        visit::visit_item_mod(self, item);
    }

    fn visit_variant(&mut self, variant: &'tree syn::Variant) {
        self.add(Kind::Variant, &variant.ident);
        visit::visit_variant(self, variant);
    }

    fn visit_field(&mut self, field: &'tree syn::Field) {
        if let Some(ident) = &field.ident {
            self.add(Kind::Field, ident);
        }
        visit::visit_field(self, field);
    }

    fn visit_attribute(&mut self, attribute: &'tree syn::Attribute) {
        let clap = ["command", "arg", "clap", "value"];
        if clap.iter().any(|word| attribute.path().is_ident(word))
            && let syn::Meta::List(list) = &attribute.meta
        {
            self.add_commands(list.tokens.clone());
        }
    }
}

/// Splits `worker_id`, `JobQueue`, `HTTPServer` and `dry-run` into lower-case words.
pub(super) fn segments(name: &str) -> Vec<String> {
    let mut segments = Vec::new();
    let mut current = String::new();
    let letters: Vec<char> = name.chars().collect();
    for (index, &letter) in letters.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|at| letters.get(at));
        let after = letters.get(index.saturating_add(1));
        let separator = !letter.is_alphanumeric();
        let starts = letter.is_uppercase()
            && (before.is_some_and(|c| !c.is_uppercase())
                || after.is_some_and(|c| c.is_lowercase()));
        if (separator || starts) && !current.is_empty() {
            segments.push(std::mem::take(&mut current));
        }
        if !separator {
            current.extend(letter.to_lowercase());
        }
    }
    if !current.is_empty() {
        segments.push(current);
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::{Kind, names, segments};
    use crate::tidy::workspace::TextFile;

    #[test]
    fn names_are_split_at_case_and_separators() {
        assert_eq!(segments("worker_id"), ["worker", "id"]);
        assert_eq!(segments("JobQueue"), ["job", "queue"]);
        assert_eq!(segments("HTTPServer"), ["http", "server"]);
        assert_eq!(segments("dry-run"), ["dry", "run"]);
        assert_eq!(segments("Eip712"), ["eip712"]);
        assert_eq!(segments("_"), Vec::<String>::new());
    }

    #[test]
    fn types_variants_fields_modules_and_commands_are_collected_with_their_lines() {
        let text = r#"//! Header.
mod inner {
    #[derive(Parser)]
    #[command(name = "do-it")]
    pub enum Command {
        Start {
            #[arg(long = "how-long")]
            duration: u64,
        },
    }
}
fn not_collected() { let nor_this = 1; }
"#;
        let file = TextFile { path: "a.rs".into(), text: text.into() };
        let mut found: Vec<_> =
            names(&file).unwrap().into_iter().map(|n| (n.line, n.kind, n.text)).collect();
        found.sort_by_key(|(line, ..)| *line);
        let wanted = [
            (2, Kind::Module, "inner".to_owned()),
            (4, Kind::Command, "do-it".to_owned()),
            (5, Kind::Type, "Command".to_owned()),
            (6, Kind::Variant, "Start".to_owned()),
            (7, Kind::Command, "how-long".to_owned()),
            (8, Kind::Field, "duration".to_owned()),
        ];
        assert_eq!(found, wanted);
    }
}
