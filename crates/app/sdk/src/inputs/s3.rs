//! Objects of S3 and of what speaks like it: an address that is signed here and good for minutes.
//!
//! | variable | meaning |
//! |---|---|
//! | `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` | who asks; without them only public buckets are read |
//! | `AWS_SESSION_TOKEN` | with both, for a while |
//! | `AWS_REGION`, `AWS_DEFAULT_REGION` | where the bucket is; `us-east-1` |
//! | `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL` | another server than Amazon's |

use super::{InputError, Origin, Variable};
use rusty_s3::{Bucket, Credentials, S3Action as _, UrlStyle};
use std::time::Duration;
use url::Url;

/// How long a signed address is good.
const GOOD: Duration = Duration::from_secs(300);
/// Where buckets are when nothing is said.
const REGION: &str = "us-east-1";
/// Bytes of the longest key.
const LONGEST: usize = 1024;

/// Who asks, and whom.
pub(super) struct Access {
    credentials: Option<Credentials>,
    region: String,
    endpoint: Option<Url>,
}

/// `BUCKET/KEY`.
pub(super) fn name(text: &str) -> Result<Origin, InputError> {
    let (bucket, key) = text.split_once('/').unwrap_or((text, ""));
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(plain) || bucket.contains("..") {
        return Err(InputError::Object("a bucket has 3 to 63 letters, digits, `-`, `_` and `.`"));
    }
    if key.is_empty() || key.len() > LONGEST {
        return Err(InputError::Object("a key has 1 to 1024 bytes"));
    }
    // No address can say them: they would be taken for folders.
    if key.split('/').any(|part| matches!(part, "." | "..")) || key.chars().any(char::is_control) {
        return Err(InputError::Object("`.`, `..` and control characters cannot be asked for"));
    }
    Ok(Origin::Object { bucket: bucket.to_owned(), key: key.to_owned() })
}

impl Access {
    /// What the environment says. An empty variable is none.
    pub(super) fn of(variable: Variable<'_>) -> Result<Self, InputError> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let half = |has: &str, lacks: &str| {
            Err(InputError::Setting(format!("{has} is set, and {lacks} is not")))
        };
        let (id, secret) = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
        let credentials = match (variable(id), variable(secret)) {
            (None, None) => None,
            (Some(_), None) => return half(id, secret),
            (None, Some(_)) => return half(secret, id),
            (Some(key), Some(secret)) => Some(match variable("AWS_SESSION_TOKEN") {
                Some(token) => Credentials::new_with_token(key, secret, token),
                None => Credentials::new(key, secret),
            }),
        };
        let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
        let region = region.unwrap_or_else(|| REGION.to_owned());
        if !region.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err(InputError::Setting(
                "AWS_REGION is no region such as eu-west-1".to_owned(),
            ));
        }
        let endpoint = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        let endpoint = endpoint.map(|text| text.parse::<Url>()).transpose();
        let endpoint = endpoint.map_err(|_| wrong_endpoint())?;
        Ok(Self { credentials, region, endpoint })
    }

    /// The address of an object: signed, if there is somebody who asks.
    pub(super) fn url(&self, bucket: &str, key: &str) -> Result<Url, InputError> {
        // A name that is no part of a host, and servers that are reached by number.
        let odd = |c: char| c.is_ascii_uppercase() || "._".contains(c);
        let by_path = self.endpoint.is_some() || bucket.contains(odd);
        let style = if by_path { UrlStyle::Path } else { UrlStyle::VirtualHost };
        let endpoint = match &self.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => {
                let text = format!("https://s3.{}.amazonaws.com", self.region);
                text.parse().map_err(|_| wrong_endpoint())?
            }
        };
        let bucket = Bucket::new(endpoint, style, bucket.to_owned(), self.region.clone())
            .map_err(|_| wrong_endpoint())?;
        Ok(bucket.get_object(self.credentials.as_ref(), key).sign(GOOD))
    }
}

fn wrong_endpoint() -> InputError {
    InputError::Setting("AWS_ENDPOINT_URL is no address such as https://s3.example.org".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(variables: &[(&str, &str)], bucket: &str, key: &str) -> Result<String, InputError> {
        let found = |name: &str| variables.iter().find(|it| it.0 == name).map(|it| it.1.to_owned());
        Ok(Access::of(&found)?.url(bucket, key)?.to_string())
    }

    const KEYS: [(&str, &str); 2] =
        [("AWS_ACCESS_KEY_ID", "AKID"), ("AWS_SECRET_ACCESS_KEY", "very-secret")];

    #[test]
    fn variables_choose_server_region_and_who_asks() {
        let public = url(&[], "bucket", "a/b c").unwrap();
        assert_eq!(public, "https://bucket.s3.us-east-1.amazonaws.com/a/b%20c");
        let region = [("AWS_REGION", ""), ("AWS_DEFAULT_REGION", "eu-west-1")];
        assert!(url(&region, "my.bucket", "k").unwrap().contains("s3.eu-west-1.amazonaws.com/my"));
        let endpoints =
            [("AWS_ENDPOINT_URL", "http://a"), ("AWS_ENDPOINT_URL_S3", "http://b:9000")];
        assert_eq!(url(&endpoints, "bucket", "k").unwrap(), "http://b:9000/bucket/k");

        let signed = url(&KEYS, "bucket", "k").unwrap();
        assert!(signed.contains("X-Amz-Signature=") && signed.contains("AKID"), "{signed}");
        assert!(!signed.contains("very-secret") && !signed.contains("Security-Token"));
        let token = [&KEYS[..], &[("AWS_SESSION_TOKEN", "token")]].concat();
        assert!(url(&token, "bucket", "k").unwrap().contains("X-Amz-Security-Token=token"));
    }

    #[test]
    fn half_of_a_setting_is_none_and_no_setting_is_shown() {
        for variables in [&KEYS[..1], &KEYS[1..], &[("AWS_REGION", "evil.org/")]] {
            let error = url(variables, "bucket", "k").unwrap_err().to_string();
            assert!(error.contains("AWS_") && !error.contains("very-secret"), "{error}");
        }
        let endpoint = [("AWS_ENDPOINT_URL", "ftp://secret@a")];
        let error = url(&endpoint, "bucket", "k").unwrap_err().to_string();
        assert!(error.contains("AWS_ENDPOINT_URL") && !error.contains("secret"), "{error}");
    }
}
