//! The lateness of tokens: 256 streams at once, each at 20 ms a token. A token's lateness is its delay against the stream's
//! own rhythm.

use std::time::{Duration, Instant};

use bench::client::{self, Response, percentile};

use crate::processes::Processes;

pub(crate) const MODEL: &str = "fake,tokens=250,pace=20ms";

const STREAMS: usize = 256;
const PACE: Duration = Duration::from_millis(20);

/// Returns the 99th percentile of the lateness, in milliseconds.
pub(crate) async fn measure(processes: &Processes) -> f64 {
    let address = &processes.server.address;
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let session = client::session(address).await;
        streams.push(tokio::spawn(arrivals(client::ask(address, &session, "application/x-ndjson").await)));
    }
    let cpu = processes.server.cpu_seconds();
    let mut late = Vec::new();
    for stream in streams {
        late.extend(lateness(&stream.await.expect("a reader ends")));
    }
    let cpu = processes.server.cpu_seconds() - cpu;
    late.sort_by(f64::total_cmp);
    println!(
        "paced, {}: tokens are late by p50 {:.2} ms, p99 {:.2} ms ({STREAMS} streams, {} tokens, {cpu:.1} CPU-seconds)",
        processes.title,
        percentile(&late, 50.0),
        percentile(&late, 99.0),
        late.len(),
    );
    percentile(&late, 99.0)
}

/// When each token arrived.
async fn arrivals(mut response: Response) -> Vec<Instant> {
    let mut arrivals = Vec::new();
    loop {
        let read = response.more().await;
        if read.is_empty() {
            return arrivals;
        }
        let now = Instant::now();
        let tokens = read.windows(7).filter(|window| *window == b"\"token\"").count();
        arrivals.extend(std::iter::repeat_n(now, tokens));
    }
}

/// The delay of each token in milliseconds; the earliest one sets the rhythm.
fn lateness(arrivals: &[Instant]) -> Vec<f64> {
    let Some(first) = arrivals.first() else { return Vec::new() };
    let place =
        |(index, at): (u32, &Instant)| at.duration_since(*first).as_secs_f64() - (PACE * index).as_secs_f64();
    let places: Vec<f64> = (0..).zip(arrivals).map(place).collect();
    let earliest = places.iter().copied().fold(f64::INFINITY, f64::min);
    places.into_iter().map(|place| (place - earliest) * 1e3).collect()
}
