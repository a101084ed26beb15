//! Resuming: a stream that was cut anywhere, any number of times, continues byte for byte.

use std::sync::Arc;

use serde_json::Value;
use tokio::task::JoinSet;

use crate::support::builder::TestServerBuilder;
use crate::support::delta_stream::{DeltaStream, ENCODINGS, Encoding, parse};
use crate::support::http::{Request, Response};
use crate::support::seeded_random::{SeededRandom, soak};
use crate::support::test_server::{TestServer, question};

fn stream_path(prompt: &str) -> String {
    format!("/api/generation/prompts/{prompt}/stream")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_cut_at_random_resume_byte_for_byte() {
    const CONCURRENT: usize = 16;
    let server = Arc::new(TestServerBuilder::with_model("fake,tokens=60,pace=1ms").start().await);
    let mut cutting = JoinSet::new();
    let (mut cuts, mut seed) = (0, 0);
    while cuts < soak(1_000, 10_000) {
        while cutting.len() < CONCURRENT {
            cutting.spawn(cut_and_join(server.clone(), seed));
            seed += 1;
        }
        cuts += cutting.join_next().await.expect("streams are running").expect("a cut stream resumes");
    }
    while let Some(joined) = cutting.join_next().await {
        joined.expect("a cut stream resumes");
    }
}

/// Cuts one stream up to eight times and compares the joined bytes with the uncut stream. Returns the number
/// of cuts.
async fn cut_and_join(server: Arc<TestServer>, seed: u64) -> usize {
    let mut random = SeededRandom::new(seed);
    let encoding = ENCODINGS[random.below(2)];
    let mut stream = server.stream(encoding, &question(&server.session().await)).await;
    let prompt = stream.prompt();
    let (mut joined, mut cuts) = (Vec::new(), 0);
    for _ in 0..=random.below(8) {
        let (bytes, ended) = stream.cut_after(random.below(3_000)).await;
        joined.extend(bytes);
        stream = resume_after(&server, encoding, &prompt, &joined, &mut random).await;
        if ended {
            break;
        }
        cuts += 1;
    }
    joined.extend(stream.cut_after(usize::MAX).await.0);
    let uncut = server.resume(encoding, &prompt, None).await.all().await;
    assert_eq!(uncut.deltas.len(), 61);
    assert!(joined == uncut.bytes, "seed {seed}: {:?}", String::from_utf8_lossy(&joined));
    cuts
}

/// Resumes after the bytes read so far, by the header or by the query.
async fn resume_after(
    server: &TestServer,
    encoding: Encoding,
    prompt: &str,
    read: &[u8],
    random: &mut SeededRandom,
) -> DeltaStream {
    let last = parse(encoding, read).last().map(|delta| delta["seq"].to_string());
    let request = match last {
        Some(seq) if random.below(2) == 0 => Request::get(stream_path(prompt)).header("Last-Event-ID", seq),
        Some(seq) => Request::get(format!("{}?after={seq}", stream_path(prompt))),
        None => Request::get(stream_path(prompt)),
    };
    let answer = server.call(request.header("Accept", encoding.media_type())).await;
    if answer.status == 204 {
        assert_eq!(encoding, Encoding::Sse);
        return server.resume(Encoding::Ndjson, prompt, Some(u64::MAX)).await;
    }
    DeltaStream::new(answer, encoding).await
}

#[tokio::test]
async fn every_position_of_an_ended_stream_can_be_resumed() {
    let server = TestServerBuilder::with_model("fake,tokens=20").start().await;
    for encoding in ENCODINGS {
        let whole = server.stream(encoding, &question(&server.session().await)).await.all().await;
        for seq in 0..20 {
            let rest = server.resume(encoding, &whole.prompt, Some(seq)).await.rest().await;
            let expected: Vec<_> =
                whole.deltas.iter().filter(|delta| delta["seq"].as_u64() > Some(seq)).collect();
            assert_eq!(rest.iter().collect::<Vec<_>>(), expected, "after {seq}");
        }
    }
}

#[tokio::test]
async fn a_resumed_running_prompt_is_followed_live() {
    let server = TestServerBuilder::with_model("fake,stall=5").start().await;
    let session = server.session().await;
    let mut stream = server.ask(&session).await;
    stream.tokens(5).await;
    let prompt = stream.prompt();
    for encoding in ENCODINGS {
        let mut resumed = server.resume(encoding, &prompt, Some(2)).await;
        let seqs: Vec<Value> = [resumed.next().await, resumed.next().await]
            .map(|delta| delta.expect("the stream continues")["seq"].clone())
            .into();
        assert_eq!(seqs, [3, 4]);
    }
    let waiting = server.resume(Encoding::Sse, &prompt, Some(4)).await;
    let from_the_start = server.resume(Encoding::Sse, &prompt, None).await;
    server.cancel(&session, &prompt).await.assert_no_content();
    assert_eq!(waiting.last().await["seq"], 5);
    assert_eq!(from_the_start.all().await.deltas.len(), 6);
}

#[tokio::test]
async fn last_event_id_takes_precedence_over_the_query() {
    let server = TestServerBuilder::with_model("fake,tokens=9").start().await;
    let whole = server.ask(&server.session().await).await.all().await;
    let request =
        Request::get(format!("{}?after=1", stream_path(&whole.prompt))).header("Last-Event-ID", "6");
    let rest = DeltaStream::new(server.call(request).await, Encoding::Ndjson).await.rest().await;
    assert_eq!(rest, whole.deltas[7..]);
}

#[tokio::test]
async fn past_the_end_an_event_source_gets_204_and_ndjson_is_empty() {
    let server = TestServerBuilder::with_model("fake,tokens=9").start().await;
    let prompt = server.ask(&server.session().await).await.all().await.prompt;
    for after in [9, 10, u64::MAX] {
        let request = Request::get(format!("{}?after={after}", stream_path(&prompt)));
        server.call(request.clone().header("Accept", "text/event-stream")).await.assert_no_content();
        let lines = server.call(request).await;
        assert_eq!((lines.status, lines.header("content-type")), (200, Some("application/x-ndjson")));
        assert_eq!(lines.body().await, b"");
    }
}

#[tokio::test]
async fn an_invalid_position_is_refused() {
    let server = TestServerBuilder::with_model("fake,tokens=9").start().await;
    let prompt = server.ask(&server.session().await).await.all().await.prompt;
    let refused = async |answer: Response, name: &str| {
        let error = answer.error(400, "invalid_request").await;
        assert!(error["message"].as_str().unwrap().contains(name), "{error}");
    };
    for position in ["", "x", "-1", "1.5", "1%202", "0x1", "99999999999999999999999"] {
        refused(server.get(&format!("{}?after={position}", stream_path(&prompt))).await, "after").await;
    }
    for position in ["", "x", "-1", "1.5", "1 2", "\"1\"", "99999999999999999999999"] {
        let request =
            Request::get(format!("{}?after=1", stream_path(&prompt))).header("Last-Event-ID", position);
        refused(server.call(request).await, "Last-Event-ID").await;
    }
    let request = Request::get(stream_path(&prompt)).header("Last-Event-ID", b"\xff".to_vec());
    refused(server.call(request).await, "Last-Event-ID").await;
}
