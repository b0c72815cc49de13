//! What a program says of itself.

use super::size::ByteSize;
use crate::fault::Refusal;
use opengpu_types::ProgramKind as Kind;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// Segments where a manifest is silent.
const SEGMENTS: u32 = 256;
/// Most segments of a run: a trace stays small.
const MOST_SEGMENTS: u32 = 131_072;
/// Bytes of the largest state that any program may have: it is sent in one message.
const MOST_STATE: u64 = 256 << 20;
/// Tolerance where a manifest is silent.
const TOLERANCE: f32 = 1e-4;
/// Largest tolerance: with more, another program passes for the same.
const MOST_TOLERANCE: f32 = 0.01;
/// Most pixels of a row.
const MOST_SIDE: u32 = 65_536;

/// A manifest, read and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// What people call it.
    pub name: String,
    /// What it does, in a line.
    pub about: String,
    /// What runs it.
    pub kind: Kind,
    /// The file that is executed.
    pub code: Option<String>,
    /// How two executions are compared.
    pub class: Class,
    /// Largest error of a number in class `tolerance`, relative to the largest number.
    pub tolerance: f32,
    /// What the output looks like in class `perceptual`.
    pub picture: Option<Picture>,
    /// Input for those who give none.
    pub input: Option<String>,
    /// Segments that are wanted; a run with fewer steps has fewer.
    pub segments: u32,
    /// What it may use.
    pub limits: Limits,
    /// Settings of its kind.
    pub settings: toml::Table,
    more: Vec<String>,
}

/// How two executions of a program are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Bit for bit.
    Exact,
    /// Numbers within a relative error.
    Tolerance,
    /// Text by the likelihood that the model gives it.
    Likelihood,
    /// Pictures by what an eye sees.
    Perceptual,
    /// Not at all.
    None,
}

/// How 8-bit samples make a picture: row by row, the samples of a pixel side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Picture {
    /// Pixels of a row.
    pub width: u32,
    /// Samples of a pixel.
    pub channels: u32,
}

/// What a run may use. Each is a limit of one run on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory.
    pub memory: u64,
    /// Wall time.
    pub time: Duration,
    /// Fuel of one segment.
    pub fuel: u64,
    /// Bytes of a state.
    pub state: u64,
    /// Bytes of an input.
    pub input: u64,
    /// Bytes of the output.
    pub output: u64,
}

/// The text of a manifest.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    name: String,
    #[serde(default)]
    about: String,
    #[serde(deserialize_with = "word")]
    kind: Kind,
    code: Option<String>,
    class: Class,
    #[serde(default = "tolerance")]
    tolerance: f32,
    picture: Option<Picture>,
    input: Option<String>,
    #[serde(default = "segments")]
    segments: u32,
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    limits: LimitsForm,
    gpu: Option<toml::Table>,
    llm: Option<toml::Table>,
    native: Option<toml::Table>,
    onnx: Option<toml::Table>,
    train: Option<toml::Table>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LimitsForm {
    memory: ByteSize,
    seconds: u64,
    fuel: u64,
    state: ByteSize,
    input: ByteSize,
    output: ByteSize,
}

/// A type that is written as a word.
fn word<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

const fn segments() -> u32 {
    SEGMENTS
}

const fn tolerance() -> f32 {
    TOLERANCE
}

impl Default for LimitsForm {
    fn default() -> Self {
        Self {
            memory: ByteSize::mebibytes(512),
            seconds: 600,
            fuel: 100_000_000_000,
            state: ByteSize::mebibytes(64),
            input: ByteSize::mebibytes(256),
            output: ByteSize::mebibytes(256),
        }
    }
}

impl Manifest {
    /// Reads a manifest's text.
    pub fn parse(text: &[u8]) -> Result<Self, Refusal> {
        let text = std::str::from_utf8(text).map_err(|_| Refusal::program("not UTF-8"))?;
        let form: Form = toml::from_str(text).map_err(|error| {
            Refusal::program(format_args!("program.toml: {}", error.to_string().trim_end()))
        })?;
        form.check()
    }

    /// Its files, each once.
    pub(super) fn files(&self) -> BTreeSet<&str> {
        self.code.iter().chain(&self.more).map(String::as_str).collect()
    }
}

impl Form {
    fn check(self) -> Result<Manifest, Refusal> {
        let names = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let letters = self.name.chars().all(names) && !self.name.starts_with('.');
        if self.name.is_empty() || self.name.len() > 64 || !letters {
            return Err(Refusal::program(
                "`name` has 1 to 64 characters out of letters, digits, `-`, `_` and `.`, and does \
                 not begin with `.`",
            ));
        }
        if self.limits.state.bytes() > MOST_STATE {
            let most = MOST_STATE >> 20;
            return Err(Refusal::program(format_args!("`state` is at most {most} MiB")));
        }
        if self.segments == 0 || self.segments > MOST_SEGMENTS {
            return Err(Refusal::program(format_args!("`segments` is 1 to {MOST_SEGMENTS}")));
        }
        if !(f32::MIN_POSITIVE..=MOST_TOLERANCE).contains(&self.tolerance) {
            let most = MOST_TOLERANCE;
            return Err(Refusal::program(format_args!("`tolerance` is over 0, up to {most}")));
        }
        let sides = self.picture.map(|picture| [picture.width, picture.channels]);
        if sides.is_some_and(|sides| sides.iter().any(|side| !(1..=MOST_SIDE).contains(side))) {
            let reason = format_args!("`width` and `channels` of a picture are 1 to {MOST_SIDE}");
            return Err(Refusal::program(reason));
        }
        let tables = [
            (Kind::Gpu, self.gpu),
            (Kind::Llm, self.llm),
            (Kind::Native, self.native),
            (Kind::Onnx, self.onnx),
            (Kind::Train, self.train),
        ];
        let mut settings = toml::Table::new();
        for (kind, table) in tables {
            match table {
                Some(table) if kind == self.kind => settings = table,
                Some(_) => {
                    return Err(Refusal::program(format_args!(
                        "settings for `{kind}` in a program of kind `{}`",
                        self.kind
                    )));
                }
                None => {}
            }
        }
        Ok(Manifest {
            name: self.name,
            about: self.about,
            kind: self.kind,
            code: self.code,
            class: self.class,
            tolerance: self.tolerance,
            picture: self.picture,
            input: self.input,
            segments: self.segments,
            limits: self.limits.into(),
            settings,
            more: self.files,
        })
    }
}

impl From<LimitsForm> for Limits {
    fn from(form: LimitsForm) -> Self {
        Self {
            memory: form.memory.bytes(),
            time: Duration::from_secs(form.seconds),
            fuel: form.fuel,
            state: form.state.bytes(),
            input: form.input.bytes(),
            output: form.output.bytes(),
        }
    }
}

impl std::fmt::Display for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Exact => "exact",
            Self::Tolerance => "tolerance",
            Self::Likelihood => "likelihood",
            Self::Perceptual => "perceptual",
            Self::None => "none",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = 'a'\nkind = 'gpu'\ncode = 'a.wgsl'\nclass = 'exact'\n";

    #[test]
    fn what_is_not_said_has_a_limit_anyway() {
        let manifest = Manifest::parse(TEXT.as_bytes()).unwrap();
        assert_eq!(manifest.segments, 256);
        assert_eq!(manifest.limits.memory, 512 << 20);
        assert_eq!(manifest.files().into_iter().collect::<Vec<_>>(), ["a.wgsl"]);
        let said =
            format!("{TEXT}files = ['b', 'a.wgsl']\n[limits]\nmemory = '1 GiB'\n[gpu]\nx = 1");
        let manifest = Manifest::parse(said.as_bytes()).unwrap();
        assert_eq!(manifest.limits.memory, 1 << 30);
        assert_eq!(manifest.files().len(), 2);
        assert!(manifest.settings.contains_key("x"));
    }

    #[test]
    fn what_is_misspelt_or_senseless_is_refused_by_name() {
        for (more, word) in [
            ("colour = 1", "colour"),
            ("segments = 0", "segments"),
            ("segments = 131073", "segments"),
            ("tolerance = 0.0", "tolerance"),
            ("tolerance = nan", "tolerance"),
            ("tolerance = 0.5", "tolerance"),
            ("picture = { width = 0, channels = 3 }", "width"),
            ("[limits]\nmemory = '12 parsecs'", "parsecs"),
            ("[limits]\nfule = 3", "fule"),
            ("[limits]\nstate = '257 MiB'", "256 MiB"),
            ("[train]\nx = 1", "train"),
        ] {
            let refusal = Manifest::parse(format!("{TEXT}{more}").as_bytes()).unwrap_err();
            assert!(refusal.to_string().contains(word), "{refusal}");
        }
        for name in ["", "a b", "../a", ".a", &"a".repeat(65)] {
            let text = TEXT.replace("'a'", &format!("'{name}'"));
            assert!(Manifest::parse(text.as_bytes()).is_err(), "{name}");
        }
        assert!(Manifest::parse(b"\xff").is_err());
    }
}
