//! The CPU time of a token: 32 streams at once, each as fast as the model server can send.

use std::time::Instant;

use bench::client::{self, Response};

use crate::processes::Processes;

const STREAMS: u64 = 32;

/// Returns CPU-seconds per million tokens.
pub(crate) async fn measure(processes: &Processes, accept: &str, tokens: u64) -> f64 {
    let (server, address) = (&processes.server, &processes.server.address);
    let mut streams = Vec::new();
    let (cpu, started) = (server.cpu_seconds(), Instant::now());
    for _ in 0..STREAMS {
        let session = client::session(address).await;
        streams.push(tokio::spawn(read(client::ask(address, &session, accept).await)));
    }
    let (mut bytes, mut deltas) = (0, 0);
    for stream in streams {
        let (read_bytes, read_deltas) = stream.await.expect("a reader ends");
        bytes += read_bytes;
        deltas += read_deltas;
    }
    assert_eq!(deltas, STREAMS * (tokens + 1), "every token and every end arrived");
    let (cpu, took) = (server.cpu_seconds() - cpu, started.elapsed().as_secs_f64());
    let millions = (STREAMS * tokens) as f64 / 1e6;
    println!(
        "burst, {}, {accept}: {:.2} CPU-seconds per million tokens ({millions:.1} M tokens in {took:.1} s, \
         {:.0} tokens/s, {:.0} MB sent, {:.0} MB resident at most)",
        processes.title,
        cpu / millions,
        millions * 1e6 / took,
        bytes as f64 / 1e6,
        server.memory_mb().1,
    );
    cpu / millions
}

/// Counts the bytes and the deltas of a stream.
async fn read(mut response: Response) -> (u64, u64) {
    const MARK: &[u8] = b"\"promptId\"";
    let (mut bytes, mut deltas, mut matched) = (0, 0, 0);
    loop {
        let read = response.more().await;
        if read.is_empty() {
            return (bytes, deltas);
        }
        bytes += read.len() as u64;
        for byte in read {
            matched = if *byte == MARK[matched] { matched + 1 } else { usize::from(*byte == MARK[0]) };
            if matched == MARK.len() {
                deltas += 1;
                matched = 0;
            }
        }
    }
}
