//! A model hub on a local port, with faults: interrupted responses, no range requests, no response.

#![expect(clippy::unwrap_used, reason = "what surprises a test fails it")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// The content of each path.
pub(crate) type HubFiles = BTreeMap<String, Vec<u8>>;

/// A hub that runs until the tests end.
pub(crate) struct LocalHub {
    /// A base URL such as `http://127.0.0.1:40123`.
    pub(crate) address: String,
    requests: Arc<Mutex<Vec<HubRequest>>>,
    release: Option<Sender<()>>,
}

/// A request that the hub received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HubRequest {
    pub(crate) path: String,
    /// The range header, such as `bytes=1000-`.
    pub(crate) range: Option<String>,
}

/// The faults of a hub.
#[derive(Clone, Copy)]
pub(crate) struct HubBehaviour {
    /// Whether it supports range requests.
    pub(crate) ranges: bool,
    /// The first responses are interrupted: their number, and the bytes after which they are.
    pub(crate) interrupted: (usize, usize),
    /// Whether it responds only after `release`.
    pub(crate) held: bool,
}

impl Default for HubBehaviour {
    fn default() -> Self {
        Self { ranges: true, interrupted: (0, 0), held: false }
    }
}

impl LocalHub {
    pub(crate) fn start(files: HubFiles, behaviour: HubBehaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("a bound port"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (release, gate) = channel();
        let release = behaviour.held.then_some(release);
        let received = requests.clone();
        thread::spawn(move || {
            let mut interruptions = behaviour.interrupted.0;
            for stream in listener.incoming().map_while(Result::ok) {
                // A client may disconnect.
                let _ = respond(stream, &files, behaviour, &mut interruptions, &received, &gate);
            }
        });
        Self { address, requests, release }
    }

    /// Lets a held hub respond.
    pub(crate) fn release(&mut self) {
        self.release = None;
    }

    /// The requests so far, in order.
    pub(crate) fn requests(&self) -> Vec<HubRequest> {
        self.requests.lock().unwrap().clone()
    }
}

fn respond(
    mut stream: TcpStream,
    files: &HubFiles,
    behaviour: HubBehaviour,
    interruptions: &mut usize,
    received: &Mutex<Vec<HubRequest>>,
    gate: &Receiver<()>,
) -> std::io::Result<()> {
    let request = read(&stream)?;
    let range = request.range.clone().filter(|_| behaviour.ranges);
    let found = files.get(&request.path);
    received.lock().unwrap().push(request);
    // The sender is dropped on release, and at the start of a hub that is not held; then this returns at
    // once.
    let _ = gate.recv();
    let Some(bytes) = found else {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    };
    let from = range.as_ref().and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    let (status, from) = from.map_or(("200 OK", 0), |from: usize| ("206 Partial Content", from));
    let (rest, all) = (&bytes[from..], bytes.len());
    let range = format!("content-range: bytes {from}-{}/{all}\r\n", all - 1);
    let length = rest.len();
    write!(stream, "HTTP/1.1 {status}\r\nconnection: close\r\n{range}content-length: {length}\r\n\r\n")?;
    if *interruptions > 0 {
        *interruptions -= 1;
        return stream.write_all(&rest[..behaviour.interrupted.1]);
    }
    stream.write_all(rest)
}

fn read(stream: &TcpStream) -> std::io::Result<HubRequest> {
    let mut request = HubRequest { path: String::new(), range: None };
    for line in BufReader::new(stream).lines() {
        let line = line?;
        if let Some(rest) = line.strip_prefix("GET ") {
            request.path = rest.split(' ').next().unwrap_or_default().to_owned();
        } else if let Some((name, value)) = line.split_once(": ") {
            if name.eq_ignore_ascii_case("range") {
                request.range = Some(value.to_owned());
            }
        } else if line.is_empty() {
            break;
        }
    }
    Ok(request)
}
