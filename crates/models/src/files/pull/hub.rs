//! Downloads from the model hub over HTTP. An interrupted download resumes with a range request if the hub
//! supports it, else from the start; within a pull and across pulls.

use std::error::Error;
use std::time::Duration;

use reqwest::header::{CONTENT_RANGE, RANGE};
use reqwest::{Client, NoProxy, Response, StatusCode};

use super::fetch::{SourceError, time_limit};
use super::partial_file::PartialFile;
use crate::files::manifest::HubFile;

/// Requests for one file while responses are interrupted.
const MAX_ATTEMPTS: usize = 5;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The model hub, or a mirror of it.
#[derive(Clone)]
pub struct Hub {
    /// Base URL such as `https://huggingface.co`, without a slash at its end.
    pub address: String,
    /// The proxy to reach the hub through.
    pub proxy: Option<HubProxy>,
}

/// An HTTP proxy. It has no `Debug`, since the address may contain a password.
#[derive(Clone)]
pub struct HubProxy {
    /// The proxy's URL.
    pub address: String,
    /// Hosts that are reached without it, separated by commas.
    pub except: String,
}

impl Hub {
    pub(super) fn url(&self, file: &HubFile) -> String {
        let HubFile { repository, revision, path } = file;
        format!("{}/{repository}/resolve/{revision}/{path}", self.address)
    }

    /// Downloads the part of a file that is missing.
    pub(super) async fn download(
        &self,
        file: &HubFile,
        partial: &mut PartialFile<'_>,
        on_bytes: &mut dyn FnMut(u64),
    ) -> Result<(), SourceError> {
        let (client, url) = (self.client()?, self.url(file));
        let mut attempts = 1;
        loop {
            match request(&client, &url, partial, on_bytes).await {
                Err(SourceError::Interrupted(_)) if attempts < MAX_ATTEMPTS => attempts += 1,
                outcome => return outcome,
            }
        }
    }

    fn client(&self) -> Result<Client, SourceError> {
        // This fails if a crypto provider is already installed, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder =
            Client::builder().no_proxy().connect_timeout(CONNECT_TIMEOUT).read_timeout(READ_TIMEOUT);
        if let Some(HubProxy { address, except }) = &self.proxy {
            let proxy = reqwest::Proxy::all(address).map_err(|error| refused(&error))?;
            builder = builder.proxy(proxy.no_proxy(NoProxy::from_string(except)));
        } else if self.address.starts_with("http://") {
            // Without TLS, a machine without root certificates must do.
            builder = builder.tls_certs_only([]);
        }
        builder.build().map_err(|error| refused(&error))
    }
}

/// Sends one request. What was received before a failure stays in the partial file.
async fn request(
    client: &Client,
    url: &str,
    partial: &mut PartialFile<'_>,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<(), SourceError> {
    let mut request = client.get(url).timeout(time_limit(partial.expected_bytes()));
    if partial.written() > 0 {
        request = request.header(RANGE, format!("bytes={}-", partial.written()));
    }
    let mut response = request.send().await.map_err(|error| send_error(&error))?;
    match response.status() {
        StatusCode::OK => partial.clear()?,
        StatusCode::PARTIAL_CONTENT if starts_at(&response, partial.written()) => {}
        StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
            partial.clear()?;
            return Err(SourceError::Interrupted("it does not resume an interrupted download".to_owned()));
        }
        status => return Err(SourceError::Refused(format!("it answers {status}"))),
    }
    let interrupted = |error| SourceError::Interrupted(reason(&error));
    while let Some(bytes) = response.chunk().await.map_err(interrupted)? {
        partial.write(&bytes)?;
        on_bytes(partial.written());
    }
    if partial.is_complete() {
        return Ok(());
    }
    let (written, expected) = (partial.written(), partial.expected_bytes());
    Err(SourceError::Interrupted(format!("it ends after {written} of {expected} bytes")))
}

/// Whether a partial response starts at this byte.
fn starts_at(response: &Response, start: u64) -> bool {
    let range = response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
    range.is_some_and(|range| range.starts_with(&format!("bytes {start}-")))
}

fn send_error(error: &reqwest::Error) -> SourceError {
    if error.is_connect() { SourceError::Unreachable(reason(error)) } else { refused(error) }
}

fn refused(error: &reqwest::Error) -> SourceError {
    SourceError::Refused(reason(error))
}

/// The root cause: reqwest's own messages repeat the URL and leave the cause out.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    if error.is_timeout() { format!("it was silent for too long ({cause})") } else { cause.to_string() }
}
