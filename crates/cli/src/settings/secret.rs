//! Secrets: printing, logging or serializing one yields a mask; only `expose` returns the text.

use std::fmt;

use serde::{Serialize, Serializer};
use url::Url;

const MASK: &str = "****";

/// A key or a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }

    /// The text, to be sent to its provider.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// A URL that may have a password in it, as those of databases and proxies do.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SecretUrl(Url);

impl SecretUrl {
    pub(crate) fn new(url: Url) -> Self {
        Self(url)
    }

    /// The URL with its password.
    pub(crate) fn expose(&self) -> &Url {
        &self.0
    }
}

/// A given text in quotes, as it may be repeated in a message: if it is a URL, its password is masked.
pub(crate) fn masked(given: &str) -> String {
    let url = Url::parse(given).ok().filter(Url::has_host).map(|url| SecretUrl(url).to_string());
    format!("{:?}", url.as_deref().unwrap_or(given))
}

/// Words of parameters that carry secrets.
const SECRET_PARAMETERS: [&str; 4] = ["key", "password", "secret", "token"];

/// Masks what may be secret in a URL: a password, a user name without a password (often a token), and parameters whose
/// name has one of [`SECRET_PARAMETERS`].
impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut url = self.0.clone();
        // Both calls fail only for a URL without a host, which has no user either.
        if url.password().is_some() {
            let _ = url.set_password(Some(MASK));
        } else if !url.username().is_empty() {
            let _ = url.set_username(MASK);
        }
        if url.query().is_some() {
            let masked = self.0.query_pairs().map(|(name, value)| {
                let lower = name.to_ascii_lowercase();
                let is_secret = SECRET_PARAMETERS.iter().any(|word| lower.contains(word));
                (name, if is_secret { MASK.into() } else { value })
            });
            url.query_pairs_mut().clear().extend_pairs(masked);
        }
        fmt::Display::fmt(&url, f)
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for SecretUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_masked(url: &str, expected: &str) {
        let secret = SecretUrl::new(Url::parse(url).unwrap());
        assert_eq!(secret.to_string(), expected);
        assert_eq!(format!("{secret:?}"), expected);
        assert_eq!(secret.expose().as_str(), url);
    }

    #[test]
    fn a_url_shows_no_password() {
        check_masked(
            "postgres://app:hunter2@db/wells?sslmode=require",
            "postgres://app:****@db/wells?sslmode=require",
        );
        check_masked("redis://:hunter2@cache:6379/0", "redis://:****@cache:6379/0");
        check_masked("http://token@proxy:3128/", "http://****@proxy:3128/");
        check_masked("http://host/v1?api_key=hunter2", "http://host/v1?api_key=****");
        check_masked(
            "postgres://db/wells?user=app&password=hunter2",
            "postgres://db/wells?user=app&password=****",
        );
        check_masked("redis://cache:6379/0", "redis://cache:6379/0");
    }

    #[test]
    fn a_secret_is_not_in_debug_output() {
        let secret = Secret::new("sk-hunter2".to_owned());
        assert_eq!(format!("{:?}", Some(&secret)), "Some(****)");
        assert_eq!(secret.expose(), "sk-hunter2");
    }
}
