//! Where the input of a task comes from: a file, standard input, a folder, the web, or S3.
//!
//! Whatever it is, it is fetched here, by the client, into one byte string within the limit of the
//! program, and then goes the way of every input: encrypted, to whoever runs the task. No provider
//! learns an address, and no credentials leave this machine but to the endpoint that they are for.
//!
//! Invariants of absence: no error and no progress names a signed address, a password or what follows a
//! `?`; a secure address leads to no other.

mod s3;
mod web;

use opengpu_exec::archive::{ArchiveError, Packer};
use opengpu_exec::artifact;
use opengpu_link::folder::{self, FolderError, FolderLimits, MOST_FILES};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Where an input is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Standard input.
    Stream,
    /// A file or a folder of this machine.
    Path(PathBuf),
    /// An address of the web.
    Web(String),
    /// An object in a bucket.
    Object {
        /// The bucket.
        bucket: String,
        /// Its name in it.
        key: String,
    },
}

/// Why there is no input.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// A file, or standard input.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// A folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A folder as one byte string.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// An address of no kind that is known.
    #[error("addresses with `{0}://` are not understood")]
    Scheme(String),
    /// An address that is none.
    #[error("it is no address")]
    Address,
    /// Not the name of an object.
    #[error("an object is named s3://BUCKET/KEY: {0}")]
    Object(&'static str),
    /// A setting for S3 that is missing or wrong.
    #[error("{0}")]
    Setting(String),
    /// The server refuses.
    #[error("the server answers {status}{}", .code.as_ref().map(|it| format!(" ({it})")).unwrap_or_default())]
    Status {
        /// The status of HTTP.
        status: u16,
        /// What S3 calls it.
        code: Option<String>,
    },
    /// More than the program takes.
    #[error("it has more than the {limit} bytes that the program takes")]
    TooLarge {
        /// The most.
        limit: u64,
    },
    /// Nobody answers.
    #[error("the server is not reached: {0}")]
    Unreachable(String),
    /// The server is not who it should be.
    #[error("there is no secure way to the server: {0}")]
    Insecure(String),
    /// It leads on and on.
    #[error("it leads to another address more than {0} times")]
    Redirects(u32),
    /// A secure address that leads to one which is not.
    #[error("it leads from https to an address without TLS")]
    Downgrade,
    /// Nothing comes any more.
    #[error("the server is silent")]
    Silent,
    /// What came is not all.
    #[error("it broke off after {got} bytes")]
    Broken {
        /// Bytes that came.
        got: u64,
    },
}

/// A variable of the environment.
pub type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;
/// Told how many bytes came, and of how many if that is known.
pub type Watch<'a> = &'a mut dyn FnMut(u64, Option<u64>);

impl Origin {
    /// What is meant by `-`, a path, or an address.
    pub fn of(given: &Path) -> Result<Self, InputError> {
        let Some(text) = given.to_str() else { return Ok(Self::Path(given.to_owned())) };
        if text == "-" {
            return Ok(Self::Stream);
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Ok(Self::Path(given.to_owned()));
        };
        match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" => web::check(text).map(|()| Self::Web(text.to_owned())),
            "s3" => s3::name(rest),
            _ if given.exists() => Ok(Self::Path(given.to_owned())),
            other => Err(InputError::Scheme(other.to_owned())),
        }
    }

    /// Whether it is not on this machine.
    pub const fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Web(_) | Self::Object { .. })
    }

    /// Whether it is a folder, whose archive is the input.
    pub fn is_folder(&self) -> bool {
        matches!(self, Self::Path(path) if path.is_dir())
    }

    /// Its bytes, at most so many.
    pub fn read(
        &self,
        limit: u64,
        variable: Variable<'_>,
        watch: Watch<'_>,
    ) -> Result<Vec<u8>, InputError> {
        match self {
            Self::Stream => Ok(artifact::take(io::stdin().lock(), limit)?),
            Self::Path(path) if path.is_dir() => pack(path, limit),
            Self::Path(path) => Ok(artifact::read(path, limit)?),
            Self::Web(url) => web::fetch(url, web::Redirects::Followed, limit, watch),
            Self::Object { bucket, key } => {
                let url = s3::Access::of(variable)?.url(bucket, key)?;
                web::fetch(url.as_str(), web::Redirects::Refused, limit, watch)
            }
        }
    }
}

impl InputError {
    /// What helps, for an input from there.
    pub fn fix(&self, origin: &Origin) -> Option<String> {
        let object = matches!(origin, Origin::Object { .. });
        let fix = match self {
            Self::Disk(_) | Self::Folder(_) | Self::Archive(_) => return None,
            Self::Scheme(_) => "name a file, a folder, `-`, http://, https:// or s3://",
            Self::Address => "an address is such as https://example.org/data.csv",
            Self::Object(_) => "such as s3://my-bucket/folder/data.csv",
            Self::Setting(_) => "see the AWS_* variables of this terminal",
            Self::Status { status, code } => match (status, code.as_deref()) {
                (301 | 307 | 308, _) | (_, Some("AuthorizationHeaderMalformed")) if object => {
                    "the bucket is in another region: set AWS_REGION to it"
                }
                (_, Some("NoSuchBucket")) => "check the name of the bucket, and AWS_ENDPOINT_URL",
                (401 | 403, _) if object => {
                    "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, and \
                     that they may read this object; without them only public buckets are read"
                }
                (401 | 403, _) => "it wants a login: fetch it yourself, and name the file",
                (404 | 410, _) => "nothing is there: check the address",
                (429 | 500..=599, _) => "the server is in trouble: try again later",
                _ => "open the address in a browser to see what it says",
            },
            Self::TooLarge { .. } => {
                "raise `input` under [limits] in program.toml, or give less of it"
            }
            Self::Unreachable(_) => "check the name of the server, and your network",
            Self::Insecure(_) => {
                "the server has no certificate that is known: check its name and this machine's clock"
            }
            Self::Redirects(_) => "name the address at which it ends",
            Self::Downgrade => "name the http:// address itself if that is meant",
            Self::Silent | Self::Broken { .. } => "try again",
        };
        Some(fix.to_owned())
    }
}

/// What people may see of it: no password, and nothing that follows a `?`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream => f.write_str("-"),
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Web(url) => f.write_str(&web::shown(url)),
            Self::Object { bucket, key } => write!(f, "s3://{bucket}/{key}"),
        }
    }
}

/// A folder as one byte string, of the files that a packed program would have.
fn pack(path: &Path, limit: u64) -> Result<Vec<u8>, InputError> {
    let mut packer = Packer::new(limit);
    for found in folder::list(path, &FolderLimits { files: MOST_FILES, bytes: limit })? {
        let (file, size, executable) = found.read()?;
        packer.add(found.path.as_str(), executable, size, file)?;
    }
    Ok(packer.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read(path: &Path, limit: u64) -> Result<Vec<u8>, InputError> {
        Origin::of(path)?.read(limit, &|_| None, &mut |_, _| {})
    }

    #[test]
    fn what_is_given_is_a_path_a_stream_or_an_address() {
        let of = |text: &str| Origin::of(Path::new(text));
        assert_eq!(of("-").unwrap(), Origin::Stream);
        assert_eq!(of("a/b").unwrap(), Origin::Path("a/b".into()));
        assert_eq!(of("https://a/b?c").unwrap(), Origin::Web("https://a/b?c".into()));
        let object = Origin::Object { bucket: "bucket".into(), key: "a/b c".into() };
        assert_eq!(of("s3://bucket/a/b c").unwrap(), object);
        for (text, hint) in [
            ("ftp://a/b", "https://"),
            ("file:///etc/passwd", "https://"),
            ("http://", "https://example"),
            ("https://a b/", "https://example"),
            ("s3://bucket", "s3://my-bucket"),
            ("s3:///key", "s3://my-bucket"),
            ("s3://b/key", "s3://my-bucket"),
            ("s3://bucket/../other/key", "s3://my-bucket"),
            ("s3://evil.example.org:8080/key", "s3://my-bucket"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.fix(&Origin::Stream).unwrap().contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn a_folder_is_the_same_bytes_whoever_packs_it_and_whenever() {
        let make = |times: bool| {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            fs::create_dir_all(at("b/.git")).unwrap();
            let names = ["b/two", "a", ".opengpuignore", "b/.git/config", "left.out"];
            let sorted =
                if times { names } else { [names[4], names[3], names[2], names[1], names[0]] };
            for name in sorted {
                let text = if name == ".opengpuignore" { "*.out\n" } else { name };
                fs::write(at(name), text).unwrap();
            }
            if times {
                let file = fs::File::options().write(true).open(at("a")).unwrap();
                file.set_modified(std::time::UNIX_EPOCH).unwrap();
            }
            read(folder.path(), 1 << 20).unwrap()
        };
        let bytes = make(true);
        assert_eq!(bytes, make(false));
        let target = tempfile::tempdir().unwrap();
        let place = target.path().join("new");
        opengpu_exec::archive::unpack(&bytes, &place).unwrap();
        assert_eq!(fs::read_to_string(place.join("b/two")).unwrap(), "b/two");
        assert!(place.join(".opengpuignore").exists());
        assert!(!place.join("left.out").exists() && !place.join("b/.git").exists());
    }

    #[cfg(unix)]
    #[test]
    fn links_strange_names_and_too_much_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a"), vec![1; 5_000]).unwrap();
        assert!(read(folder.path(), 10_000).is_ok());
        assert!(matches!(read(folder.path(), 4_999), Err(InputError::Folder(_))));
        assert!(matches!(read(folder.path(), 5_500), Err(InputError::Archive(_))));
        assert!(matches!(read(&at("a"), 4_999), Err(InputError::Disk(_))));
        std::os::unix::fs::symlink("/etc/passwd", at("link")).unwrap();
        let error = read(folder.path(), 1 << 20).unwrap_err();
        assert!(error.to_string().contains("links are not packed"), "{error}");
        fs::remove_file(at("link")).unwrap();
        fs::write(at("A"), "").unwrap();
        assert!(matches!(read(folder.path(), 1 << 20), Err(InputError::Folder(_))), "collision");
    }
}
