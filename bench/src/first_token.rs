//! The overhead on the time to the first token: the same question straight to the model server and through Wellspring, in
//! turns.

use std::time::Instant;

use bench::client::{self, Response, percentile};

use crate::processes::Processes;

const ROUNDS: usize = 500;

pub(crate) async fn measure(processes: &Processes) {
    let (server, model) = (&processes.server.address, &processes.model.address);
    let session = client::session(server).await;
    let straight_body = format!(
        r#"{{"model":"{}","messages":[{{"role":"user","content":"Why is the sky blue?"}}]}}"#,
        processes.model_name
    );
    let (mut straight, mut through) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let mut answer = Response::to(model, "POST", "/api/chat", "*/*", &straight_body).await;
        answer.until("\"content\"").await;
        straight.push(started.elapsed().as_secs_f64() * 1e3);
        answer.whole().await;

        let started = Instant::now();
        let mut answer = client::ask(server, &session, "application/x-ndjson").await;
        answer.until("\"token\"").await;
        through.push(started.elapsed().as_secs_f64() * 1e3);
        answer.whole().await;
    }
    straight.sort_by(f64::total_cmp);
    through.sort_by(f64::total_cmp);
    for (name, times) in [("straight to the model server", &straight), ("through Wellspring", &through)] {
        println!(
            "first token {name}: p50 {:.2} ms, p99 {:.2} ms",
            percentile(times, 50.0),
            percentile(times, 99.0)
        );
    }
}
