//! Addresses of repositories: validation against injected options and programs, and removal of credentials.

use std::path::Path;

use url::Url;

use crate::sources::InvalidAddress;

/// The accepted URL schemes. Others may run programs, such as `ext`.
pub(crate) const SCHEMES: [&str; 5] = ["https", "http", "ssh", "git", "file"];

/// Hosts whose repository addresses often lack the `.git`.
const FORGES: [&str; 4] = ["bitbucket.org", "codeberg.org", "github.com", "gitlab.com"];

/// Rejects an address that git or `ssh` could take for an option or for a program to run.
pub(super) fn check(address: &str) -> Result<(), InvalidAddress> {
    if address.is_empty() || address.starts_with('-') || address.contains(['\n', '\r', '\0']) {
        return Err(InvalidAddress::Malformed);
    }
    if address.contains("://") {
        let url = Url::parse(address).map_err(|_| InvalidAddress::NotAUrl)?;
        if !SCHEMES.contains(&url.scheme()) {
            return Err(InvalidAddress::Scheme(url.scheme().to_owned()));
        }
        if is_option(url.username()) || url.host_str().is_some_and(is_option) {
            return Err(InvalidAddress::HostIsOption);
        }
        return Ok(());
    }
    if address.contains("::") {
        return Err(InvalidAddress::RemoteHelper);
    }
    match scp(address) {
        Some((host, _)) if host.split('@').any(is_option) => Err(InvalidAddress::HostIsOption),
        Some(_) => Ok(()),
        None => Err(InvalidAddress::Unknown),
    }
}

/// Whether `ssh` could take a user or host name for an option. Git decodes percent escapes and strips
/// brackets.
fn is_option(name: &str) -> bool {
    let name = name.trim_start_matches('[');
    name.starts_with('-') || name.starts_with("%2d") || name.starts_with("%2D")
}

/// Whether an argument is a repository rather than a page.
pub(super) fn looks_like_a_repository(typed: &str) -> bool {
    if check(typed).is_err() {
        return false;
    }
    let Some(url) = Url::parse(typed).ok().filter(|_| typed.contains("://")) else { return true };
    let parts = url.path().split('/').filter(|part| !part.is_empty()).count();
    let is_forge = url.host_str().is_some_and(|host| FORGES.contains(&host));
    !matches!(url.scheme(), "http" | "https") || url.path().ends_with(".git") || is_forge && parts == 2
}

/// The address without user name, password, query and fragment. It identifies the repository.
pub(crate) fn without_credentials(address: &str) -> String {
    if let Some((scheme, rest)) = address.split_once("://") {
        let Some(mut url) = Url::parse(address).ok().filter(|url| !url.cannot_be_a_base()) else {
            // The position of the host is unknown: everything before the last `@` may be a password.
            let rest = rest.rsplit('@').next().unwrap_or(rest);
            let rest = rest.split(['?', '#']).next().unwrap_or(rest);
            return format!("{scheme}://{}", rest.trim_end_matches('/'));
        };
        // This fails only for a URL without a host, which has no credentials.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_query(None);
        url.set_fragment(None);
        return url.to_string().trim_end_matches('/').to_owned();
    }
    match scp(address) {
        Some((host, path)) => {
            let host = host.rsplit('@').next().unwrap_or(host);
            format!("ssh://{host}/{}", path.trim_start_matches('/'))
        }
        None => file_url(Path::new(address)),
    }
}

pub(crate) fn file_url(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// The parts of an address that may be secret, as written: user and password, query and fragment.
pub(super) fn secrets(address: &str) -> impl Iterator<Item = &str> {
    let rest = address.split_once("://").map_or("", |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let credentials = authority.rsplit_once('@').map(|(credentials, _)| credentials);
    let query = rest.split_once(['?', '#']).map(|(_, query)| query);
    credentials.into_iter().chain(query).filter(|secret| !secret.is_empty())
}

/// Host and path of an address in `scp` syntax, such as `git@example.org:team/project`.
fn scp(address: &str) -> Option<(&str, &str)> {
    let (host, path) = address.split_once(':')?;
    (!host.is_empty() && !host.contains('/') && !path.is_empty()).then_some((host, path))
}

#[cfg(test)]
mod tests {
    use testing::fuzz_text;

    use super::*;

    #[test]
    fn an_address_that_could_run_a_program_or_be_an_option_is_rejected() {
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
            "ssh://-oProxyCommand=evil:x/a",
            "ssh://%2DoProxyCommand=evil/a",
            "ssh://me@-oProxyCommand=evil/a",
            "-oProxyCommand=evil:a",
            "me@-oProxyCommand=evil:a",
            "[-oProxyCommand=evil]:a",
            "https://me:secret@example.org:x/a",
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
    fn credentials_query_and_fragment_are_removed() {
        for (address, expected) in [
            ("https://me:secret@example.org/a.git", "https://example.org/a.git"),
            ("https://token@example.org:8443/a", "https://example.org:8443/a"),
            ("https://example.org/a/", "https://example.org/a"),
            ("ssh://git@example.org/a/b.git", "ssh://example.org/a/b.git"),
            ("git@example.org:a/b.git", "ssh://example.org/a/b.git"),
            ("/srv/git/a.git", "file:///srv/git/a.git"),
            ("file:///srv/a@b.git", "file:///srv/a@b.git"),
            ("https://example.org/a.git?token=secret#secret", "https://example.org/a.git"),
            ("https://me:secret@example.org:x/a?token=secret", "https://example.org:x/a"),
            ("https://me:sec/ret@example.org:x/a", "https://example.org:x/a"),
            ("ext::https://me:secret@example.org/a", "ext::https://example.org/a"),
        ] {
            assert_eq!(without_credentials(address), expected);
        }
    }

    #[test]
    fn user_password_and_query_are_secrets() {
        for (address, expected) in [
            ("https://me:secret@example.org/a@b", vec!["me:secret"]),
            ("https://me@example.org/a?token=secret", vec!["me", "token=secret"]),
            ("https://example.org/a@b?", vec![]),
            ("git@example.org:a", vec![]),
        ] {
            assert_eq!(secrets(address).collect::<Vec<_>>(), expected, "{address}");
        }
    }

    #[test]
    fn a_repository_is_distinguished_from_a_page() {
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

    #[test]
    fn fuzz_nearly_right_addresses() {
        let seeds = [
            "https://user:secret@example.com:8443/team/service.git?x=1#y",
            "git@example.com:team/service.git",
            "ssh://git@[::1]:22/~team/service",
            "file:///srv/git/service",
        ];
        fuzz_text(
            &seeds,
            &["-", "--upload-pack=", "ext::", "@", ":", "//", "%2d", "[", "]", "..", "\u{200b}"],
            |address| {
                looks_like_a_repository(address);
                if check(address).is_ok() {
                    assert!(!address.starts_with('-') && !address.contains(['\n', '\r', '\0']), "{address}");
                    assert!(!address.to_ascii_lowercase().starts_with("ext::"), "{address}");
                }
            },
        );
    }
}
