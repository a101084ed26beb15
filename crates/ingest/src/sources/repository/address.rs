//! Addresses of repositories: which are fetched at all, and what they are called without their credentials.

use std::path::Path;

use url::Url;

use crate::sources::SourceError;

/// The ways a repository is fetched. Others, `ext` before all, may run programs.
pub(super) const SCHEMES: [&str; 5] = ["https", "http", "ssh", "git", "file"];

/// Hosts of repositories, whose addresses often lack the `.git`.
const FORGES: [&str; 4] = ["bitbucket.org", "codeberg.org", "github.com", "gitlab.com"];

/// Refuses what git would take for an option or for a program to run.
pub(super) fn check(address: &str) -> Result<(), SourceError> {
    let refuse = |reason: &str| Err(SourceError(format!("this is no repository that can be read: {reason}")));
    if address.is_empty() || address.starts_with('-') || address.contains(['\n', '\r', '\0']) {
        return refuse("its address is empty, begins with `-` or has a line end in it");
    }
    if let Ok(url) = Url::parse(address)
        && address.contains("://")
    {
        if !SCHEMES.contains(&url.scheme()) {
            return refuse(&format!("{} is none of {}", url.scheme(), SCHEMES.join(", ")));
        }
        if url.host_str().is_some_and(|host| host.starts_with('-')) || url.username().starts_with('-') {
            return refuse("its host begins with `-`");
        }
        return Ok(());
    }
    if address.contains("::") {
        return refuse("`::` names a program to run");
    }
    match scp(address) {
        Some((host, _)) if host.starts_with('-') => refuse("its host begins with `-`"),
        Some(_) => Ok(()),
        None => refuse("it is neither a URL, nor host:path, nor a path that exists"),
    }
}

/// Whether this is more likely to be a repository than a page.
pub(super) fn looks_like_a_repository(typed: &str) -> bool {
    if check(typed).is_err() {
        return false;
    }
    let Some(url) = Url::parse(typed).ok().filter(|_| typed.contains("://")) else { return true };
    let parts = url.path().split('/').filter(|part| !part.is_empty()).count();
    let is_forge = url.host_str().is_some_and(|host| FORGES.contains(&host));
    !matches!(url.scheme(), "http" | "https") || url.path().ends_with(".git") || is_forge && parts == 2
}

/// What a repository is called: its address without user name and password.
pub(crate) fn without_credentials(address: &str) -> String {
    if let Ok(mut url) = Url::parse(address)
        && address.contains("://")
    {
        // Where there is no host there are no credentials either.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        return url.to_string().trim_end_matches('/').to_owned();
    }
    match scp(address) {
        Some((host, path)) => {
            let host = host.rsplit('@').next().unwrap_or(host);
            format!("ssh://{host}/{}", path.trim_start_matches('/'))
        }
        None => of_path(Path::new(address)),
    }
}

/// A path as an address.
pub(crate) fn of_path(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// What could be a secret in an address: its user and password as they are written.
pub(super) fn credentials(address: &str) -> Option<&str> {
    let (_, rest) = address.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    authority.rsplit_once('@').map(|(credentials, _)| credentials)
}

/// Host and path of an address in the manner of `scp`.
fn scp(address: &str) -> Option<(&str, &str)> {
    let (host, path) = address.split_once(':')?;
    (!host.is_empty() && !host.contains('/') && !path.is_empty()).then_some((host, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_run_a_program_or_be_an_option_is_refused() {
        for address in [
            "",
            "-uevil",
            "--upload-pack=evil",
            "ext::sh -c evil",
            "ext::ssh://a",
            "fd::17",
            "transport::https://a/b",
            "ftp://example.org/a.git",
            "ssh://-oProxyCommand=evil/a",
            "-oProxyCommand=evil:a",
            "https://example.org/a\n.git",
            "no/such/path",
        ] {
            assert!(check(address).is_err(), "{address}");
        }
        for address in
            ["https://example.org/a.git", "ssh://git@example.org/a", "git@example.org:a/b.git", "file:///a"]
        {
            assert_eq!(check(address), Ok(()), "{address}");
        }
    }

    #[test]
    fn a_name_has_no_credentials() {
        for (address, expected) in [
            ("https://me:secret@example.org/a.git", "https://example.org/a.git"),
            ("https://token@example.org:8443/a", "https://example.org:8443/a"),
            ("https://example.org/a/", "https://example.org/a"),
            ("ssh://git@example.org/a/b.git", "ssh://example.org/a/b.git"),
            ("git@example.org:a/b.git", "ssh://example.org/a/b.git"),
            ("/srv/git/a.git", "file:///srv/git/a.git"),
        ] {
            assert_eq!(without_credentials(address), expected);
        }
        assert_eq!(credentials("https://me:secret@example.org/a@b"), Some("me:secret"));
        assert_eq!(credentials("https://example.org/a@b"), None);
    }

    #[test]
    fn a_repository_is_told_from_a_page() {
        for address in [
            "https://github.com/a/b",
            "https://example.org/b.git",
            "git@example.org:a",
            "ssh://example.org/a",
        ] {
            assert!(looks_like_a_repository(address), "{address}");
        }
        for address in ["https://example.org/docs", "https://github.com/a/b/issues", "docs", "ext::sh"] {
            assert!(!looks_like_a_repository(address), "{address}");
        }
    }
}
