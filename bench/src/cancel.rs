//! The latency of cancellation: 100 streams paced at 20 ms, all cancelled.

use std::time::Instant;

use bench::client::{self, Response, header, percentile};

use crate::processes::Processes;

const STREAMS: usize = 100;

pub(crate) async fn measure(processes: &Processes) {
    let address = &processes.server.address;
    let mut running = Vec::new();
    for _ in 0..STREAMS {
        let session = client::session(address).await;
        let mut stream = client::ask(address, &session, "application/x-ndjson").await;
        let head = stream.until("\"token\"").await;
        running.push((session, header(&head, "x-prompt-id").to_owned(), stream));
    }
    let cancels: Vec<_> = running
        .into_iter()
        .map(|(session, prompt, mut stream)| {
            let address = address.clone();
            tokio::spawn(async move {
                let end = tokio::spawn(async move {
                    stream.until("\"done\"").await;
                    Instant::now()
                });
                let body = format!(r#"{{"sessionId":"{session}","promptId":"{prompt}"}}"#);
                let asked = Instant::now();
                let mut cancel = Response::to(&address, "POST", "/api/generation/cancel", "*/*", &body).await;
                cancel.until("204").await;
                let acknowledged = Instant::now();
                let ended = end.await.expect("the stream ends");
                let millis = |since: Instant| ended.saturating_duration_since(since).as_secs_f64() * 1e3;
                (millis(asked), millis(acknowledged))
            })
        })
        .collect();
    let (mut from_request, mut from_answer) = (Vec::new(), Vec::new());
    for cancel in cancels {
        let (asked, acknowledged) = cancel.await.expect("a cancel ends");
        from_request.push(asked);
        from_answer.push(acknowledged);
    }
    from_request.sort_by(f64::total_cmp);
    from_answer.sort_by(f64::total_cmp);
    println!(
        "cancel of {STREAMS} streams at once: the final delta after the 204: p50 {:.2} ms, p99 {:.2} ms; \
         after the request: p50 {:.2} ms, p99 {:.2} ms",
        percentile(&from_answer, 50.0),
        percentile(&from_answer, 99.0),
        percentile(&from_request, 50.0),
        percentile(&from_request, 99.0),
    );
}
