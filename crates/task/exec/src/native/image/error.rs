//! Why an image was not taken, and what helps.

use super::engine;
use std::io;
use std::path::PathBuf;

/// Why an image was not taken.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The fault of whoever made it.
    #[error("the image is malformed: {what}")]
    Malformed {
        /// Where.
        what: String,
    },
    /// Something else than an image.
    #[error("`{}` is no image: {what}", path.display())]
    NoImage {
        /// What was named.
        path: PathBuf,
        /// What an image would have.
        what: &'static str,
    },
    /// An attempt to leave its folder.
    #[error("the image holds a path that leaves it: `{}`", path.display())]
    Escapes {
        /// The path.
        path: PathBuf,
    },
    /// Not what its name says.
    #[error("a part of the image is not {digest}")]
    Digest {
        /// What was expected.
        digest: String,
    },
    /// Neither a path that exists nor a name.
    #[error("there is no file or folder `{name}`, and no image can have that name")]
    Name {
        /// As it was asked for.
        name: String,
    },
    /// Nobody who would know an image by its name.
    #[error(
        "there is no file or folder `{name}`, and this machine has neither podman nor docker, \
         which would know an image of that name"
    )]
    NoEngine {
        /// As it was asked for.
        name: String,
    },
    /// No engine of this machine has it.
    #[error("there is no file or folder `{name}`, and no image of that name: {said}")]
    Unknown {
        /// As it was asked for.
        name: String,
        /// What each engine says.
        said: String,
    },
    /// Over a limit.
    #[error("the image has more than {limit} {what}")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// The most.
        limit: u64,
    },
    /// Made for other machines.
    #[error("the image has nothing for machines like this one ({architecture})")]
    Foreign {
        /// What this machine is.
        architecture: &'static str,
    },
    /// Packed in another way.
    #[error("the image cannot be used here: {what}")]
    Unsupported {
        /// Why.
        what: String,
    },
    /// This machine's fault.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The refusal.
        #[source]
        error: io::Error,
    },
}

/// What makes a folder or file that can be named, with one of the engines.
fn save(engine: &str) -> &'static str {
    match engine {
        "docker" => "docker save -o image.tar NAME",
        _ => "podman save --format oci-archive -o image.tar NAME",
    }
}

impl ImageError {
    /// What the owner of this machine can do about it, with the engine that is there.
    pub fn fix(&self) -> String {
        self.fix_with(engine::usual())
    }

    fn fix_with(&self, engine: &str) -> String {
        let save = save(engine);
        match self {
            Self::NoImage { .. } => format!("an image is what this writes: {save}"),
            Self::Name { .. } => "a name is like python:3.12; look at the spelling".to_owned(),
            Self::NoEngine { name } => format!(
                "install podman, then `podman pull {name}`; or name the file that this writes \
                 elsewhere: {save}"
            ),
            Self::Unknown { name, .. } => format!("fetch it first: {engine} pull {name}"),
            Self::Digest { .. } | Self::Malformed { .. } => {
                format!("it is damaged: fetch it again, or write it again with {save}")
            }
            Self::Escapes { .. } => "do not use it: it was made to do harm".to_owned(),
            Self::TooMany { .. } => "choose a smaller image".to_owned(),
            Self::Foreign { architecture } => {
                let option = if engine == "docker" { "--platform linux/" } else { "--arch " };
                format!("fetch the one for this machine: {engine} pull {option}{architecture} NAME")
            }
            Self::Unsupported { .. } => format!("write it again with {save}"),
            Self::System { .. } => {
                "see that the disk has room and that this user may write the folder of images, \
                 which OPENGPU_IMAGES names"
                    .to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ImageError;

    #[test]
    fn a_missing_image_is_told_with_what_brings_it() {
        let name = || "python:3.12".to_owned();
        let unknown = ImageError::Unknown { name: name(), said: "podman: no".to_owned() };
        assert!(unknown.to_string().contains("podman: no"), "{unknown}");
        for engine in ["podman", "docker"] {
            let fix = format!("fetch it first: {engine} pull python:3.12");
            assert_eq!(unknown.fix_with(engine), fix);
        }
        assert_eq!(unknown.fix(), unknown.fix_with(super::engine::usual()));
        let foreign = ImageError::Foreign { architecture: "amd64" };
        assert!(foreign.fix_with("docker").ends_with("docker pull --platform linux/amd64 NAME"));
        let nobody = ImageError::NoEngine { name: name() };
        assert!(nobody.to_string().contains("neither podman nor docker"), "{nobody}");
        assert!(nobody.fix().starts_with("install podman"), "{}", nobody.fix());
    }
}
