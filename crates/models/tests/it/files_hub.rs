//! A model hub on this machine, with the faults that downloads must survive.

#![expect(clippy::unwrap_used, reason = "what surprises a test fails it")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// Its answers: what is at each path.
pub(crate) type Shelf = BTreeMap<String, Vec<u8>>;

/// A hub that runs until the tests end.
pub(crate) struct LocalHub {
    /// Such as `http://127.0.0.1:40123`.
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    release: Option<Sender<()>>,
}

/// A request that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) path: String,
    /// Such as `bytes=1000-`.
    pub(crate) range: Option<String>,
}

/// How the hub behaves.
#[derive(Clone, Copy)]
pub(crate) struct Manners {
    /// Whether it can go on in the middle of a file.
    pub(crate) ranges: bool,
    /// So many answers break off after so many bytes.
    pub(crate) breaks: (usize, usize),
    /// Whether nothing is answered until `release`.
    pub(crate) held: bool,
}

impl Default for Manners {
    fn default() -> Self {
        Self { ranges: true, breaks: (0, 0), held: false }
    }
}

impl LocalHub {
    pub(crate) fn start(shelf: Shelf, manners: Manners) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port can be had");
        let address = format!("http://{}", listener.local_addr().expect("it is bound"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (release, gate) = channel();
        let release = manners.held.then_some(release);
        let seen = asked.clone();
        thread::spawn(move || {
            let mut breaks = manners.breaks.0;
            for stream in listener.incoming().map_while(Result::ok) {
                // A client that left is none of the hub's business.
                let _ = answer(stream, &shelf, manners, &mut breaks, &seen, &gate);
            }
        });
        Self { address, asked, release }
    }

    /// Lets a hub that is held answer.
    pub(crate) fn release(&mut self) {
        self.release = None;
    }

    /// What it was asked for, in order.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(
    mut stream: TcpStream,
    shelf: &Shelf,
    manners: Manners,
    breaks: &mut usize,
    seen: &Mutex<Vec<Asked>>,
    gate: &Receiver<()>,
) -> std::io::Result<()> {
    let asked = read(&stream)?;
    let range = asked.range.clone().filter(|_| manners.ranges);
    let found = shelf.get(&asked.path);
    seen.lock().unwrap().push(asked);
    // Once it is released, or if it was never held, nobody is at the other end, and this returns at once.
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
    if *breaks > 0 {
        *breaks -= 1;
        return stream.write_all(&rest[..manners.breaks.1]);
    }
    stream.write_all(rest)
}

fn read(stream: &TcpStream) -> std::io::Result<Asked> {
    let mut asked = Asked { path: String::new(), range: None };
    for line in BufReader::new(stream).lines() {
        let line = line?;
        if let Some(rest) = line.strip_prefix("GET ") {
            asked.path = rest.split(' ').next().unwrap_or_default().to_owned();
        } else if let Some((name, value)) = line.split_once(": ") {
            if name.eq_ignore_ascii_case("range") {
                asked.range = Some(value.to_owned());
            }
        } else if line.is_empty() {
            break;
        }
    }
    Ok(asked)
}
