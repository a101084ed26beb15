//! Files from the model hub, over HTTPS. A download that breaks off goes on where it was, if the hub can do
//! that, else from the start; in this pull as in the next.

use std::error::Error;
use std::time::Duration;

use reqwest::header::{CONTENT_RANGE, RANGE};
use reqwest::{Client, NoProxy, Response, StatusCode};

use super::fetch::{Trouble, patience};
use super::manifest::HubFile;
use super::part::Part;

/// How often one file is asked for when answers break off.
const ATTEMPTS: usize = 5;
const CONNECT: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_secs(30);

/// Where the model hub is, or a mirror of it.
#[derive(Clone)]
pub struct Hub {
    /// Such as `https://huggingface.co`, without a slash at its end.
    pub address: String,
    /// The proxy on the way to it.
    pub proxy: Option<Proxy>,
}

/// An HTTP proxy. It is not shown: there may be a password in it.
#[derive(Clone)]
pub struct Proxy {
    /// Its address.
    pub address: String,
    /// Hosts that are reached without it, separated by commas.
    pub except: String,
}

impl Hub {
    /// The address of a file.
    pub(super) fn url(&self, file: &HubFile) -> String {
        let HubFile { repository, revision, path } = file;
        format!("{}/{repository}/resolve/{revision}/{path}", self.address)
    }

    /// Downloads what is missing of a file.
    pub(super) async fn fetch(
        &self,
        file: &HubFile,
        part: &mut Part<'_>,
        tell: &mut dyn FnMut(u64),
    ) -> Result<(), Trouble> {
        let (client, url) = (self.client()?, self.url(file));
        let mut attempts = 1;
        loop {
            match attempt(&client, &url, part, tell).await {
                Err(Trouble::BrokenOff(_)) if attempts < ATTEMPTS => attempts += 1,
                outcome => return outcome,
            }
        }
    }

    fn client(&self) -> Result<Client, Trouble> {
        // This fails when a crypto provider is installed already, and that one serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder().no_proxy().connect_timeout(CONNECT).read_timeout(IDLE);
        if let Some(Proxy { address, except }) = &self.proxy {
            let proxy = reqwest::Proxy::all(address).map_err(|error| Trouble::Place(reason(&error)))?;
            builder = builder.proxy(proxy.no_proxy(NoProxy::from_string(except)));
        } else if self.address.starts_with("http://") {
            // Where no TLS is spoken, a machine without root certificates is good enough.
            builder = builder.tls_certs_only([]);
        }
        builder.build().map_err(|error| Trouble::Place(reason(&error)))
    }
}

/// Asks once. Whatever has come stays, for the next time.
async fn attempt(
    client: &Client,
    url: &str,
    part: &mut Part<'_>,
    tell: &mut dyn FnMut(u64),
) -> Result<(), Trouble> {
    let mut request = client.get(url).timeout(patience(part.wanted_bytes()));
    if part.written() > 0 {
        request = request.header(RANGE, format!("bytes={}-", part.written()));
    }
    let mut response = request.send().await.map_err(|error| not_answered(&error))?;
    match response.status() {
        StatusCode::OK => part.clear()?,
        StatusCode::PARTIAL_CONTENT if continues(&response, part.written()) => {}
        StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
            part.clear()?;
            return Err(Trouble::BrokenOff("it does not go on where a download broke off".to_owned()));
        }
        status => return Err(Trouble::Place(format!("it answers {status}"))),
    }
    while let Some(bytes) = response.chunk().await.map_err(|error| Trouble::BrokenOff(reason(&error)))? {
        part.write(&bytes)?;
        tell(part.written());
    }
    if part.is_full() {
        return Ok(());
    }
    Err(Trouble::BrokenOff(format!("it ends after {} of {} bytes", part.written(), part.wanted_bytes())))
}

/// Whether an answer begins where we are.
fn continues(response: &Response, written: u64) -> bool {
    let range = response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
    range.is_some_and(|range| range.starts_with(&format!("bytes {written}-")))
}

fn not_answered(error: &reqwest::Error) -> Trouble {
    let reason = reason(error);
    if error.is_connect() { Trouble::Unreachable(reason) } else { Trouble::Place(reason) }
}

/// What went wrong, down to its cause.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    if error.is_timeout() { format!("it was silent for too long ({cause})") } else { cause.to_string() }
}
