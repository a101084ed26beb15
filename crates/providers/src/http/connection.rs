//! The HTTP client of one provider: address, key, proxy and TLS.

use std::error::Error;
use std::io;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Proxy, Url};

use crate::settings::{HttpProviderSettings, InvalidSettings, Secret};

/// TCP keep-alive interval: an idle connection to a dead machine is closed after about this long.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Builds the client. All calls of a provider share its connections.
pub(crate) fn client(settings: &HttpProviderSettings, base: &Url) -> Result<Client, InvalidSettings> {
    // Fails if a crypto provider is already installed, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .connect_timeout(settings.connect)
        .tcp_nodelay(true)
        .tcp_keepalive(KEEP_ALIVE);
    // A dead machine is noticed as soon on an established connection as on a new one.
    #[cfg(target_os = "linux")]
    {
        builder = builder.tcp_user_timeout(settings.connect);
    }
    if let Some(proxy) = &settings.proxy {
        let proxy = Proxy::all(proxy.reveal()).map_err(|error| InvalidSettings {
            key: "proxy",
            message: format!("{}: an address like http://127.0.0.1:3128 is needed", root_cause(&error)),
        })?;
        builder = builder.proxy(proxy);
    } else if base.scheme() == "http" {
        // Without TLS, a machine needs no root certificates.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| InvalidSettings {
        key: "base_url",
        message: format!("cannot prepare connections: {}", root_cause(&error)),
    })
}

/// Parses the base URL of a server's API.
pub(crate) fn base_address(base_url: &str) -> Result<Url, InvalidSettings> {
    let invalid = |why: &str| InvalidSettings {
        key: "base_url",
        message: format!("{why}: an address like http://127.0.0.1:11434 is needed"),
    };
    let url = Url::parse(base_url).map_err(|error| invalid(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("it begins with neither http:// nor https://"));
    }
    Ok(url)
}

/// The headers of every request: the key as a bearer token, if there is one.
pub(crate) fn headers(api_key: Option<&Secret>) -> Result<HeaderMap, InvalidSettings> {
    let mut headers = HeaderMap::new();
    if let Some(key) = api_key {
        let bearer = HeaderValue::try_from(format!("Bearer {}", key.reveal()));
        let mut bearer = bearer.map_err(|_| InvalidSettings {
            key: "api_key_env",
            message: "the key has characters that no HTTP header may have, such as a line end".to_owned(),
        })?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    Ok(headers)
}

/// The message of an error's root cause.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    match cause.downcast_ref::<io::Error>() {
        Some(error) if error.raw_os_error().is_some() => error.kind().to_string(),
        _ => cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_http_is_an_invalid_setting() {
        for address in ["", "localhost:11434", "ftp://h", "http://"] {
            assert_eq!(base_address(address).unwrap_err().key, "base_url", "{address}");
        }
    }

    #[test]
    fn a_key_that_no_header_can_carry_is_an_invalid_setting() {
        assert_eq!(headers(Some(&Secret::from("sk-1\n"))).unwrap_err().key, "api_key_env");
    }
}
