//! `[server]` and `[auth]`: where the HTTP server listens, which proxies and origins it trusts, who may use it.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use url::Url;

use super::invalid_setting::InvalidSetting;
use super::secret::masked;
use super::validator::{Validator, in_seconds};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ServerSettings {
    pub(crate) bind: SocketAddr,
    /// As browsers write them; `*` for all.
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) trusted_proxies: Vec<Network>,
    #[serde(rename = "drain_seconds", serialize_with = "in_seconds")]
    pub(crate) drain: Duration,
    #[serde(rename = "head_seconds", serialize_with = "in_seconds")]
    pub(crate) head: Duration,
    #[serde(rename = "idle_seconds", serialize_with = "in_seconds")]
    pub(crate) idle: Duration,
    #[serde(rename = "unread_seconds", serialize_with = "in_seconds")]
    pub(crate) unread: Duration,
}

/// Who may use the server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AuthSettings {
    /// How clients authenticate.
    pub(crate) mode: AuthMode,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AuthMode {
    /// not at all: every client that reaches the server may use it
    #[default]
    None,
}

/// The IP addresses that share their first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) address: IpAddr,
    /// How many bits they share.
    pub(crate) prefix: u8,
}

/// The HTTP server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ServerTable {
    /// The address to listen on, `host:port`; with port 0 the system chooses one.
    bind: String,
    /// Origins whose pages may call the server: `scheme://host[:port]`, or `"*"` for all.
    allowed_origins: Vec<String>,
    /// Proxies whose `X-Forwarded-For` or `Forwarded` header is believed: IP addresses, or networks such as
    /// `"10.0.0.0/8"`.
    trusted_proxies: Vec<String>,
    /// How long running prompts may go on after the server begins to stop.
    #[schemars(range(min = 0, max = 31_536_000))]
    drain_seconds: f64,
    /// How long the head of a request may take to arrive.
    #[schemars(range(min = 0.001, max = 31_536_000))]
    head_seconds: f64,
    /// How long a connection may be idle between requests; longer than a proxy in front of the server keeps it.
    #[schemars(range(min = 0.001, max = 31_536_000))]
    idle_seconds: f64,
    /// How long a client may leave a response unread before its connection is closed.
    #[schemars(range(min = 0.001, max = 31_536_000))]
    unread_seconds: f64,
}

impl Default for ServerTable {
    fn default() -> Self {
        Self {
            bind: "127.0.0.1:8080".to_owned(),
            allowed_origins: Vec::new(),
            trusted_proxies: Vec::new(),
            drain_seconds: 20.0,
            head_seconds: 30.0,
            idle_seconds: 75.0,
            unread_seconds: 30.0,
        }
    }
}

impl ServerTable {
    pub(super) fn resolve(self, validator: &mut Validator<'_>) -> ServerSettings {
        let unused = SocketAddr::from(([0, 0, 0, 0], 0));
        ServerSettings {
            bind: validator.valid("server.bind", address(&self.bind)).unwrap_or(unused),
            allowed_origins: each(validator, "server.allowed_origins", &self.allowed_origins, origin),
            trusted_proxies: each(validator, "server.trusted_proxies", &self.trusted_proxies, network),
            drain: validator.seconds("server.drain_seconds", self.drain_seconds),
            head: validator.seconds("server.head_seconds", self.head_seconds),
            idle: validator.seconds("server.idle_seconds", self.idle_seconds),
            unread: validator.seconds("server.unread_seconds", self.unread_seconds),
        }
    }
}

fn each<T>(
    validator: &mut Validator<'_>,
    key: &str,
    texts: &[String],
    check: impl Fn(&str) -> Result<T, InvalidSetting>,
) -> Vec<T> {
    (texts.iter().enumerate())
        .filter_map(|(index, text)| validator.valid(&format!("{key}[{index}]"), check(text)))
        .collect()
}

/// A host name is resolved once; of several addresses the first IPv4 one is taken.
fn address(given: &str) -> Result<SocketAddr, InvalidSetting> {
    if let Ok(address) = given.parse() {
        return Ok(address);
    }
    let invalid = |why: &str| {
        InvalidSetting::from(format!(
            "{given:?} is not an address to listen on ({why}); allowed is host:port, such as 127.0.0.1:8080, \
             [::1]:8080 or localhost:8080"
        ))
    };
    match given.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {}
        Some((host, _)) if !host.is_empty() => return Err(invalid("its port is not one of 0 to 65535")),
        _ => return Err(invalid("host or port is missing")),
    }
    let found: Vec<_> = given.to_socket_addrs().map_err(|error| invalid(&error.to_string()))?.collect();
    let chosen = found.iter().find(|address| address.is_ipv4()).or(found.first());
    chosen.copied().ok_or_else(|| invalid("the host has no address"))
}

/// An origin as browsers write it: lower case, without the scheme's own port.
fn origin(given: &str) -> Result<String, InvalidSetting> {
    if given == "*" {
        return Ok(given.to_owned());
    }
    let invalid = || {
        let given = masked(given);
        InvalidSetting::from(format!(
            "{given} is not an origin; allowed is scheme://host[:port] with nothing after it, or \"*\""
        ))
    };
    let url = Url::parse(given).map_err(|_| invalid())?;
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(invalid)?;
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let origin = format!("{}://{host}{port}", url.scheme());
    // The URL has nothing but its origin, and a slash that the parser adds for some schemes.
    let bare = url.as_str().trim_end_matches('/') == origin && !given.ends_with('/');
    if bare { Ok(origin) } else { Err(invalid()) }
}

fn network(given: &str) -> Result<Network, InvalidSetting> {
    let (address, prefix) = match given.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (given, None),
    };
    let parsed = address.parse::<IpAddr>().ok().and_then(|address| {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Some(longest), |prefix| prefix.parse().ok())?;
        (prefix <= longest).then_some(Network { address, prefix })
    });
    parsed.ok_or_else(|| {
        format!(
            "{given:?} is not a network; allowed is an IP address, or one with a prefix such as 10.0.0.0/8"
        )
        .into()
    })
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_name_for_its_host() {
        assert_eq!(address("[::1]:80").unwrap(), "[::1]:80".parse().unwrap());
        assert!(address("localhost:8080").unwrap().ip().is_loopback());
        for wrong in ["8080", ":8080", "localhost", "localhost:", "localhost:65536", "127.0.0.1:-1", ""] {
            let message = address(wrong).unwrap_err().to_string();
            assert!(message.contains("allowed is host:port"), "{wrong}: {message}");
        }
    }

    #[test]
    fn an_origin_is_written_as_browsers_write_it() {
        for (given, expected) in [
            ("https://Docs.Example", "https://docs.example"),
            ("https://docs.example:443", "https://docs.example"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://[::1]:3000", "http://[::1]:3000"),
            ("vscode-webview://abc", "vscode-webview://abc"),
            ("*", "*"),
        ] {
            assert_eq!(origin(given).unwrap(), expected);
        }
        for wrong in [
            "docs.example",
            "https://docs.example/",
            "https://a.b/c",
            "https://u:p@a.b",
            "https://a.b?c",
            "null",
            "",
        ] {
            origin(wrong).unwrap_err();
        }
    }

    #[test]
    fn a_network_is_an_address_with_or_without_a_prefix() {
        for (given, expected) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("192.0.2.7", "192.0.2.7/32"),
            ("::1", "::1/128"),
            ("fd00::/8", "fd00::/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
        ] {
            assert_eq!(network(given).unwrap().to_string(), expected);
        }
        for wrong in ["10.0.0.0/33", "::/129", "10.0.0/8", "proxy", "10.0.0.0/", "/8", ""] {
            network(wrong).unwrap_err();
        }
    }
}
