//! A model server as it is configured: its address, key and model, and the failures of calls to it.

use std::sync::Arc;
use std::time::Duration;

use domain::{Failure, FailureKind, ModelId};
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Client, RequestBuilder, Response, Url};

use super::connection::{base_address, client, headers, root_cause};
use super::error_body::ELLIPSIS;
use super::error_response::ErrorResponse;
use crate::settings::{HttpProviderSettings, InvalidSettings, Secret};

/// Time of a health check beyond the connect timeout.
const HEALTH_CHECK_EXTRA: Duration = Duration::from_secs(2);

/// Replaces the key in messages.
const MASK: &str = "***";

/// Bytes at the start of a key that reveal only its kind, such as `sk-proj-`.
const KEY_PREFIX_LENGTH: usize = 8;

/// A server, and the model to ask for.
pub(crate) struct ModelServer {
    client: Client,
    base: Url,
    /// The address without user, password and query, for messages.
    display_url: String,
    headers: HeaderMap,
    secret: Option<Secret>,
    connect: Duration,
    advice: Advice,
    name: Arc<str>,
    model: Option<Arc<str>>,
    /// The model's context window, in tokens.
    pub(crate) window: usize,
}

/// Advice in messages of failures whose remedy depends on the kind of server.
#[derive(Clone, Copy)]
pub(crate) struct Advice {
    /// For a failed connection.
    pub(crate) unreachable: &'static str,
    /// For a 404; `MODEL` stands for the model's name.
    pub(crate) not_found: &'static str,
}

impl ModelServer {
    pub(crate) fn new(settings: HttpProviderSettings, advice: Advice) -> Result<Self, InvalidSettings> {
        let base = base_address(&settings.base_url)?;
        Ok(Self {
            client: client(&settings, &base)?,
            display_url: format!(
                "{}{}",
                base.origin().ascii_serialization(),
                base.path().trim_end_matches('/')
            ),
            base,
            headers: headers(settings.api_key.as_ref())?,
            secret: settings.api_key,
            connect: settings.connect,
            advice,
            name: Arc::from(settings.name),
            model: settings.model.map(Arc::from),
            window: settings.context_window,
        })
    }

    /// The provider's name and the model's, which is empty if none is configured.
    pub(crate) fn model(&self) -> ModelId {
        ModelId { provider: self.name.clone(), model: self.model.clone().unwrap_or_else(|| Arc::from("")) }
    }

    /// The configured model; fails with advice if there is none.
    pub(crate) fn named_model(&self) -> Result<&str, Failure> {
        self.model.as_deref().ok_or_else(|| {
            let (name, upper) = (&self.name, self.name.to_uppercase());
            let message = format!(
                "no model is set: name one as providers.{name}.model in the settings file, \
                 or in the environment as WELLSPRING__PROVIDERS__{upper}__MODEL"
            );
            Failure::new(FailureKind::Refused, message)
        })
    }

    pub(crate) fn host(&self) -> Option<&str> {
        self.base.host_str()
    }

    /// Posts JSON; returns the response whatever its status.
    pub(crate) async fn post(&self, path: &[&str], body: Vec<u8>) -> Result<Response, Failure> {
        self.send(self.client.post(self.url(path)).header(CONTENT_TYPE, "application/json").body(body)).await
    }

    /// Sends a GET request; returns the response whatever its status.
    pub(crate) async fn get(&self, path: &[&str]) -> Result<Response, Failure> {
        self.send(self.client.get(self.url(path))).await
    }

    /// The failure that an error response means.
    pub(crate) fn failure_of(&self, response: &ErrorResponse) -> Failure {
        let model = self.model.as_deref().unwrap_or("MODEL");
        self.mask_secret(response.failure(&self.advice.not_found.replace("MODEL", model)))
    }

    /// Masks the key in a message, should the server have repeated it. The message may have been cut within the key,
    /// so a long prefix of it is masked as well.
    pub(crate) fn mask_secret(&self, mut failure: Failure) -> Failure {
        let Some(secret) = self.secret.as_ref().map(Secret::reveal).filter(|secret| !secret.is_empty())
        else {
            return failure;
        };
        failure.message = failure.message.replace(secret, MASK);
        for cut in (KEY_PREFIX_LENGTH..secret.len()).rev().filter_map(|end| secret.get(..end)) {
            failure.message = failure.message.replace(&format!("{cut}{ELLIPSIS}"), MASK);
        }
        failure
    }

    /// Runs a health check with a timeout.
    pub(crate) async fn check_in_time(
        &self,
        check: impl Future<Output = Result<(), Failure>>,
    ) -> Result<(), Failure> {
        let limit = self.connect + HEALTH_CHECK_EXTRA;
        tokio::time::timeout(limit, check).await.unwrap_or_else(|_| {
            let message = format!("{} did not answer within {limit:?}", self.display_url);
            Err(Failure::new(FailureKind::Unavailable, message))
        })
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        request.headers(self.headers.clone()).send().await.map_err(|error| self.unreachable(&error))
    }

    /// The failure of a call that got no complete response.
    pub(crate) fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let (display_url, cause, advice) = (&self.display_url, root_cause(error), self.advice.unreachable);
        let message = if !error.is_connect() {
            format!("{display_url} closed the connection without an answer: {cause}")
        } else if error.is_timeout() {
            format!("cannot connect to {display_url} within {:?}; {advice}", self.connect)
        } else {
            format!("cannot connect to {display_url}: {cause}; {advice}")
        };
        self.mask_secret(Failure::new(FailureKind::Unavailable, message))
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        url.path_segments_mut().expect("an http address has a path").pop_if_empty().extend(path);
        url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADVICE: Advice = Advice { unreachable: "is it running?", not_found: "pull MODEL" };

    fn server(base_url: &str) -> Result<ModelServer, InvalidSettings> {
        let settings = HttpProviderSettings {
            name: "remote".to_owned(),
            base_url: base_url.to_owned(),
            model: None,
            api_key: Some(Secret::from("sk-secret-0123456789")),
            context_window: 4096,
            connect: Duration::from_secs(1),
            proxy: None,
        };
        ModelServer::new(settings, ADVICE)
    }

    #[test]
    fn a_path_is_appended_to_the_base_url_and_its_query_stays() {
        for (base, expected) in [
            ("http://h:1", "http://h:1/api/chat"),
            ("http://h:1/", "http://h:1/api/chat"),
            ("http://h/v1/", "http://h/v1/api/chat"),
            ("http://h/v1?version=2", "http://h/v1/api/chat?version=2"),
        ] {
            assert_eq!(server(base).unwrap().url(&["api", "chat"]).as_str(), expected);
        }
    }

    #[test]
    fn messages_show_neither_password_nor_query_of_an_address() {
        assert_eq!(server("http://me:hidden@h:81/v1/?key=x").unwrap().display_url, "http://h:81/v1");
    }

    #[test]
    fn a_key_in_a_servers_message_is_masked() {
        let masked = |message: &str| {
            let failure = Failure::new(FailureKind::Refused, message);
            server("http://h").unwrap().mask_secret(failure).message
        };
        assert_eq!(masked("no such key: sk-secret-0123456789, really"), "no such key: ***, really");
        assert_eq!(masked("no such key: sk-secret-01…; check it"), "no such key: ***; check it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_health_check_has_a_timeout() {
        let began = tokio::time::Instant::now();
        let failure = server("http://h").unwrap().check_in_time(std::future::pending()).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unavailable);
        assert_eq!(began.elapsed(), Duration::from_secs(3));
    }

    #[test]
    fn a_missing_model_names_the_settings_that_set_it() {
        let failure = server("http://h").unwrap().named_model().unwrap_err();
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(failure.message.contains("providers.remote.model"), "{failure}");
        assert!(failure.message.contains("WELLSPRING__PROVIDERS__REMOTE__MODEL"), "{failure}");
    }
}
