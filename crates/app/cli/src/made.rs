//! Programs that are made of a single script or of an image, for whoever has no `program.toml`.
//!
//! ```text
//!   train.py, --file helper.py, -- 10   ──►  home/programs/train-1f2e…/{program.toml, train.py, helper.py}
//! ```
//!
//! They are programs like all others, addressed by their content, and stay in the home folder because
//! runs that are kept name them. What lies beside a script is left where it is: files go with it only if
//! they are named. Nobody can compare two executions of what may do anything, so their class is `none`.

use crate::exit::Complaint;
use anyhow::{Context as _, Result};
use opengpu_exec::{Program, artifact, program::MANIFEST, scratch::Scratch};
use opengpu_link::folder::FilePath;
use opengpu_types::Millis;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};
use toml::{Table, Value};

/// Where they are kept, in the home folder.
const PROGRAMS: &str = "programs";
/// How an unfinished one begins.
const UNFINISHED: &str = ".making-";
/// Digits of its id in the name of its folder.
const DIGITS: usize = 12;
/// Bytes of a first line that names what runs a script.
const LINE: u64 = 256;
/// What stands before the name of an image.
const IMAGE: &str = "image:";
/// The name of an image's files in its program.
#[cfg(target_os = "linux")]
const LAYOUT: &str = "image";

/// What is said of it on the command line.
#[derive(Debug)]
pub(crate) struct Making<'a> {
    /// Files that go with it.
    pub(crate) files: &'a [PathBuf],
    /// What it is given as its arguments.
    pub(crate) arguments: &'a [String],
    /// Whether its input is a folder.
    pub(crate) folder: bool,
    /// Memory in MiB.
    pub(crate) memory: Option<u32>,
    /// How long it may run.
    pub(crate) longest: Option<Millis>,
}

/// What a word on the command line means, if it means a script or an image.
enum Meant<'a> {
    Script(&'a Path),
    Named(&'a str),
    Layout(&'a Path),
}

/// The program of a script or an image; none if it is neither.
pub(crate) fn open(home: &Path, given: &Path, making: &Making<'_>) -> Result<Option<Program>> {
    let Some(meant) = meant(given) else { return Ok(None) };
    let mut parts = Parts { files: BTreeMap::new(), native: Table::new(), saved: None };
    let name = match meant {
        Meant::Script(path) => parts.script(path)?,
        Meant::Named(name) => parts.named(home, name)?,
        Meant::Layout(path) => parts.layout(path)?,
    };
    for file in making.files {
        parts.add(file)?;
    }
    parts.keep(home, &name, making).map(Some)
}

fn meant(given: &Path) -> Option<Meant<'_>> {
    if let Some(name) = given.to_str().and_then(|text| text.strip_prefix(IMAGE)) {
        return Some(Meant::Named(name));
    }
    if given.is_dir() {
        let layout = !given.join(MANIFEST).exists() && given.join("index.json").is_file();
        return layout.then_some(Meant::Layout(given));
    }
    if !given.is_file() || given.file_name().is_some_and(|name| name == MANIFEST) {
        return None;
    }
    let tar = given.extension().is_some_and(|ending| ending == "tar");
    Some(if tar { Meant::Layout(given) } else { Meant::Script(given) })
}

/// What a program is made of.
struct Parts {
    /// Its files by name, and where they are now.
    files: BTreeMap<String, PathBuf>,
    /// `[native]` of its manifest.
    native: Table,
    /// Where an image was saved that goes with it.
    saved: Option<Scratch>,
}

impl Parts {
    fn script(&mut self, path: &Path) -> Result<String> {
        let name = self.add(path)?;
        let (command, options) = interpreter(path)?;
        if let Some(command) = command {
            self.native.insert("command".to_owned(), command.into());
            let options: Vec<_> = options.into_iter().map(Value::from).collect();
            self.native.insert("options".to_owned(), options.into());
        }
        self.native.insert("code".to_owned(), name.clone().into());
        Ok(name)
    }

    /// Adds a file by its name, and gives the name.
    fn add(&mut self, path: &Path) -> Result<String> {
        let wrong = |why: &str| Complaint::usage(format!("{}: {why}", path.display()));
        if path.is_dir() {
            let hint = "name its files one by one, or give the folder as the input: --input";
            return Err(wrong("it is a folder").hint(hint).into());
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let name = FilePath::new(name).map_err(|error| wrong(&error.to_string()))?.to_string();
        if !path.is_file() {
            return Err(wrong("there is no such file").into());
        }
        if name == MANIFEST || self.files.insert(name.clone(), path.to_owned()).is_some() {
            let hint = "files go with a script by their names, without folders: rename one";
            return Err(wrong("another file of the program has this name").hint(hint).into());
        }
        Ok(name)
    }

    /// An image that an engine of this machine has; its files go with the program, because a provider
    /// may not have it.
    #[cfg(target_os = "linux")]
    fn named(&mut self, home: &Path, name: &str) -> Result<String> {
        use opengpu_exec::native::image;
        let saved = Scratch::make(&home.join(PROGRAMS), UNFINISHED)?;
        let place = saved.path().join(LAYOUT);
        let limits = image::ImageLimits::default();
        image::save(name, &place, limits).map_err(crate::exec::of_image)?;
        self.saved = Some(saved);
        self.layout(&place)?;
        Ok(name.to_owned())
    }

    /// An image in files, which go with the program.
    #[cfg(target_os = "linux")]
    fn layout(&mut self, path: &Path) -> Result<String> {
        use opengpu_exec::native::image;
        use opengpu_link::folder::{FolderLimits, list};
        let limits = image::ImageLimits::default();
        let found = image::unpack(path, &image::cache(), limits);
        self.image(LAYOUT, &found.map_err(crate::exec::of_image)?);
        if path.is_dir() {
            for found in list(path, &FolderLimits::default())? {
                let name = found.path.as_str();
                self.files.insert(format!("{LAYOUT}/{name}"), path.join(name));
            }
        } else {
            self.files.insert(LAYOUT.to_owned(), path.to_owned());
        }
        let stem = path.file_stem().unwrap_or_default();
        Ok(stem.to_string_lossy().into_owned())
    }

    #[cfg(target_os = "linux")]
    fn image(&mut self, name: &str, image: &opengpu_exec::native::image::Image) {
        self.native.insert("image".to_owned(), name.into());
        self.native.insert("digest".to_owned(), format!("sha256:{}", image.id).into());
    }

    #[cfg(not(target_os = "linux"))]
    fn named(&mut self, _: &Path, _: &str) -> Result<String> {
        Err(Complaint::usage("images are opened on Linux alone").into())
    }

    #[cfg(not(target_os = "linux"))]
    fn layout(&mut self, _: &Path) -> Result<String> {
        Err(Complaint::usage("images are opened on Linux alone").into())
    }

    /// The text of its manifest.
    fn manifest(&self, name: &str, making: &Making<'_>) -> Result<String> {
        let mut native = self.native.clone();
        let code = native.remove("code");
        let texts = |texts: &[String]| texts.iter().cloned().map(Value::from).collect::<Vec<_>>();
        if !making.arguments.is_empty() {
            native.insert("arguments".to_owned(), texts(making.arguments).into());
        }
        if making.folder {
            native.insert("input".to_owned(), "folder".into());
        }
        let mut manifest = Table::new();
        let mut say = |key: &str, value: Value| manifest.insert(key.to_owned(), value);
        say("name", title(name).into());
        say("kind", "native".into());
        say("class", "none".into());
        say("segments", 1.into());
        let more: Vec<_> = self.files.keys().cloned().collect();
        say("files", texts(&more).into());
        if let Some(code) = code {
            say("code", code);
        }
        let mut limits = Table::new();
        if let Some(memory) = making.memory {
            limits.insert("memory".to_owned(), format!("{memory} MiB").into());
        }
        if let Some(longest) = making.longest {
            let seconds = i64::try_from(longest.0.div_ceil(1_000))?;
            limits.insert("seconds".to_owned(), seconds.into());
        }
        say("limits", limits.into());
        say("native", native.into());
        Ok(toml::to_string(&manifest)?)
    }

    /// Puts all of it into the home folder.
    fn keep(&self, home: &Path, name: &str, making: &Making<'_>) -> Result<Program> {
        let programs = home.join(PROGRAMS);
        let unfinished = Scratch::make(&programs, UNFINISHED)
            .with_context(|| format!("making {}", programs.display()))?;
        for (name, path) in &self.files {
            let place = unfinished.path().join(name);
            fs::create_dir_all(place.parent().unwrap_or(&place))?;
            fs::copy(path, &place).with_context(|| format!("copying {}", path.display()))?;
        }
        let manifest = self.manifest(name, making)?;
        artifact::write(&unfinished.path().join(MANIFEST), manifest.as_bytes())?;
        let program = Program::open(unfinished.path())?;
        let id = program.id.to_string();
        let id: String = id.trim_start_matches("0x").chars().take(DIGITS).collect();
        let place = programs.join(format!("{}-{id}", program.manifest.name));
        if Program::open(&place).is_ok_and(|kept| kept.id == program.id) {
            return Ok(Program::open(&place)?);
        }
        if place.exists() {
            fs::remove_dir_all(&place).with_context(|| format!("removing {}", place.display()))?;
        }
        match fs::rename(unfinished.path(), &place) {
            // Somebody else made the same meanwhile.
            Err(_) if place.is_dir() => {}
            moved => moved.with_context(|| format!("keeping {}", place.display()))?,
        }
        Ok(Program::open(&place)?)
    }
}

/// What runs a script, and its options: Python if it says nothing else.
fn interpreter(path: &Path) -> Result<(Option<String>, Vec<String>)> {
    use std::io::Read as _;
    let mut start = Vec::new();
    let file = fs::File::open(path).with_context(|| format!("opening {}", path.display()))?;
    file.take(LINE).read_to_end(&mut start)?;
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = std::str::from_utf8(line).unwrap_or_default();
    let ending = path.extension().and_then(|ending| ending.to_str());
    let Some(words) = line.strip_prefix("#!") else {
        return match ending {
            Some("py") => Ok((None, Vec::new())),
            Some("sh") => Ok((Some("sh".to_owned()), Vec::new())),
            _ => {
                let told = format!("{} is neither a program nor a script", path.display());
                let hint = "a script ends in .py or .sh, or begins with a line such as \
                            #!/usr/bin/env python3";
                Err(Complaint::usage(told).hint(hint).into())
            }
        };
    };
    let mut words = words.split_whitespace().map(str::to_owned).peekable();
    let mut command = words.next().unwrap_or_default();
    if command.rsplit('/').next() == Some("env") {
        words.next_if(|word| word == "-S");
        command = words.next().unwrap_or_default();
    }
    if command.is_empty() {
        let told = format!("{}: its first line names nothing that runs it", path.display());
        return Err(Complaint::usage(told).into());
    }
    let options: Vec<_> = words.collect();
    let python = command.rsplit('/').next().is_some_and(|name| name.starts_with("python"));
    Ok(if python && options.is_empty() { (None, options) } else { (Some(command), options) })
}

/// A name in the letters that a program's name may have, without an ending.
fn title(name: &str) -> String {
    let stem = name.rsplit('/').next().unwrap_or_default();
    let stem = stem.trim_start_matches('.').split(['.', ':', '@']).next().unwrap_or_default();
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
    let title: String = stem.chars().map(allowed).take(64).collect();
    if title.is_empty() { "script".to_owned() } else { title }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Making<'_> =
        Making { files: &[], arguments: &[], folder: false, memory: None, longest: None };

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.0.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        }

        fn open(&self, path: &Path, making: &Making<'_>) -> Result<Option<Program>> {
            open(&self.0.path().join("home"), path, making)
        }
    }

    #[test]
    fn a_script_is_a_program_of_what_was_named_and_nothing_beside_it() {
        let place = Place::new();
        let script = place.write("own/train.py", "print(1)\n");
        place.write("own/secret.txt", "not mine to give");
        let helper = place.write("elsewhere/helper.py", "x = 1\n");
        let (files, arguments) = ([helper], ["--lr".to_owned(), "0.1\n\"".to_owned()]);
        let making = Making {
            files: &files,
            arguments: &arguments,
            folder: true,
            memory: Some(700),
            longest: Some(Millis(1_500)),
        };
        let program = place.open(&script, &making).unwrap().unwrap();
        let manifest = &program.manifest;
        assert_eq!(manifest.name, "train");
        assert_eq!(manifest.class, opengpu_exec::program::Class::None);
        assert_eq!((manifest.limits.memory, manifest.limits.time.as_secs()), (700 << 20, 2));
        assert!(program.files().keys().eq(["helper.py", "train.py"]), "{:?}", program.files());
        assert!(program.takes_folder());
        assert_eq!(manifest.settings["arguments"].as_array().unwrap()[1].as_str(), Some("0.1\n\""));
        assert!(fs::read_dir(program.folder()).unwrap().count() == 3);

        // The same again is the same, and what was changed in between is made again.
        let again = place.open(&script, &making).unwrap().unwrap();
        assert_eq!((again.id, again.folder()), (program.id, program.folder()));
        fs::write(program.folder().join("train.py"), "print(2)\n").unwrap();
        assert_eq!(place.open(&script, &making).unwrap().unwrap().id, program.id);
        assert_ne!(place.open(&script, &PLAIN).unwrap().unwrap().id, program.id);
    }

    #[test]
    fn a_first_line_or_an_ending_says_what_runs_a_script() {
        let place = Place::new();
        let command = |name: &str, text: &str| {
            let settings = place.open(&place.write(name, text), &PLAIN).unwrap().unwrap();
            let native = settings.manifest.settings;
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let options = native.get("options").and_then(|it| it.as_array());
            let options = options.into_iter().flatten().map(text);
            native.get("command").map(text).into_iter().chain(options).collect::<Vec<_>>()
        };
        assert!(command("a.py", "print(1)").is_empty());
        assert!(command("a", "#!/usr/bin/env python3\n").is_empty());
        assert_eq!(command("a.sh", "echo 1"), ["sh"]);
        assert_eq!(command("b.py", "#!/usr/bin/python3 -O\n"), ["/usr/bin/python3", "-O"]);
        assert_eq!(command("c", "#!/bin/bash -eu\necho"), ["/bin/bash", "-eu"]);
        assert_eq!(command("d", "#! /usr/bin/env -S perl -w\n"), ["perl", "-w"]);
    }

    #[test]
    fn what_is_no_script_and_files_that_cannot_go_with_one_are_refused() {
        let place = Place::new();
        for (name, text) in [("notes.txt", "hello"), ("empty", "#!"), ("bin", "\u{7f}ELF")] {
            assert!(place.open(&place.write(name, text), &PLAIN).is_err(), "{name}");
        }
        let script = place.write("train.py", "");
        let same = place.write("other/train.py", "");
        let manifest = place.write("other/program.toml", "");
        let folder = place.0.path().join("other");
        let missing = place.0.path().join("missing");
        for file in [same, manifest.clone(), folder, missing] {
            let files = [file.clone()];
            let making = Making { files: &files, ..PLAIN };
            assert!(place.open(&script, &making).is_err(), "{}", file.display());
        }
        assert!(place.open(&manifest, &PLAIN).unwrap().is_none(), "a program is no script");
        assert!(place.open(Path::new("path-tracer"), &PLAIN).unwrap().is_none());
    }
}
