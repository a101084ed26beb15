//! The overhead of the chat dialect: the same question in the generation dialect and as a plain chat, in turns and in one
//! session, each until its last byte.

use std::time::Instant;

use crate::client::{self, Response, percentile};
use crate::processes::Processes;

const ROUNDS: usize = 500;

pub(crate) async fn measure(processes: &Processes) {
    let server = &processes.server.address;
    let session = client::session(server).await;
    let chat_body = format!(r#"{{"session_id":"{session}","query":"Why is the sky blue?"}}"#);
    let (mut generation, mut chat) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let answer = client::ask(server, &session, "application/x-ndjson").await.whole().await;
        generation.push(started.elapsed().as_secs_f64() * 1e3);
        assert!(answer.contains("\"finishReason\":\"stop\""), "{answer}");

        let started = Instant::now();
        let answer = Response::to(server, "POST", "/chat", "*/*", &chat_body).await.whole().await;
        chat.push(started.elapsed().as_secs_f64() * 1e3);
        assert!(answer.contains("\"answer\":"), "{answer}");
    }
    generation.sort_by(f64::total_cmp);
    chat.sort_by(f64::total_cmp);
    for (name, times) in [("in the generation dialect", &generation), ("as a plain chat", &chat)] {
        println!(
            "whole answer {name}: p50 {:.2} ms, p99 {:.2} ms",
            percentile(times, 50.0),
            percentile(times, 99.0)
        );
    }
    println!(
        "the chat dialect adds {:+.2} ms at p50, {:+.2} ms at p99",
        percentile(&chat, 50.0) - percentile(&generation, 50.0),
        percentile(&chat, 99.0) - percentile(&generation, 99.0)
    );
}
