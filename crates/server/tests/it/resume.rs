//! Coming back: a stream that was cut anywhere, any number of times, is read on to the byte.

use std::sync::Arc;

use serde_json::Value;
use tokio::task::JoinSet;

use crate::client::{Answer, Call};
use crate::deltas::{ENCODINGS, Encoding, Stream, parse};
use crate::dice::{Dice, soak};
use crate::harness::Setup;
use crate::world::{World, question};

fn stream_path(prompt: &str) -> String {
    format!("/api/generation/prompts/{prompt}/stream")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_were_cut_at_random_join_to_the_byte() {
    const AT_ONCE: usize = 16;
    let world = Arc::new(Setup::of("fake,tokens=60,pace=1ms").start().await);
    let mut cutting = JoinSet::new();
    let (mut cuts, mut seed) = (0, 0);
    while cuts < soak(1_000, 10_000) {
        while cutting.len() < AT_ONCE {
            cutting.spawn(cut_and_join(world.clone(), seed));
            seed += 1;
        }
        cuts += cutting.join_next().await.expect("some are cutting").expect("a cut stream joins");
    }
    while let Some(joined) = cutting.join_next().await {
        joined.expect("a cut stream joins");
    }
}

/// Cuts one stream up to eight times, and compares what was read with the uncut stream. Tells how often.
async fn cut_and_join(world: Arc<World>, seed: u64) -> usize {
    let mut dice = Dice::new(seed);
    let encoding = ENCODINGS[dice.below(2)];
    let mut stream = world.stream(encoding, &question(&world.session().await)).await;
    let prompt = stream.prompt();
    let (mut joined, mut cuts) = (Vec::new(), 0);
    for _ in 0..=dice.below(8) {
        let (bytes, ended) = stream.cut_after(dice.below(3_000)).await;
        joined.extend(bytes);
        stream = come_back(&world, encoding, &prompt, &joined, &mut dice).await;
        if ended {
            break;
        }
        cuts += 1;
    }
    joined.extend(stream.cut_after(usize::MAX).await.0);
    let uncut = world.resume(encoding, &prompt, None).await.all().await;
    assert_eq!(uncut.deltas.len(), 61);
    assert!(joined == uncut.bytes, "seed {seed}: {:?}", String::from_utf8_lossy(&joined));
    cuts
}

/// Reads on behind what was read, by the header or by the query.
async fn come_back(world: &World, encoding: Encoding, prompt: &str, read: &[u8], dice: &mut Dice) -> Stream {
    let last = parse(encoding, read).last().map(|delta| delta["seq"].to_string());
    let call = match last {
        Some(seq) if dice.below(2) == 0 => Call::get(stream_path(prompt)).header("Last-Event-ID", seq),
        Some(seq) => Call::get(format!("{}?after={seq}", stream_path(prompt))),
        None => Call::get(stream_path(prompt)),
    };
    let answer = world.call(call.header("Accept", encoding.media_type())).await;
    if answer.status == 204 {
        assert_eq!(encoding, Encoding::Sse);
        return world.resume(Encoding::Ndjson, prompt, Some(u64::MAX)).await;
    }
    Stream::new(answer, encoding).await
}

#[tokio::test]
async fn every_position_of_a_stream_that_has_ended_can_be_resumed() {
    let world = Setup::of("fake,tokens=20").start().await;
    for encoding in ENCODINGS {
        let whole = world.stream(encoding, &question(&world.session().await)).await.all().await;
        for seq in 0..20 {
            let rest = world.resume(encoding, &whole.prompt, Some(seq)).await.rest().await;
            let expected: Vec<_> =
                whole.deltas.iter().filter(|delta| delta["seq"].as_u64() > Some(seq)).collect();
            assert_eq!(rest.iter().collect::<Vec<_>>(), expected, "after {seq}");
        }
    }
}

#[tokio::test]
async fn a_running_prompt_is_read_on_live() {
    let world = Setup::of("fake,stall=5").start().await;
    let session = world.session().await;
    let mut stream = world.ask(&session).await;
    stream.tokens(5).await;
    let prompt = stream.prompt();
    for encoding in ENCODINGS {
        let mut resumed = world.resume(encoding, &prompt, Some(2)).await;
        let seqs: Vec<Value> = [resumed.next().await, resumed.next().await]
            .map(|delta| delta.expect("it goes on")["seq"].clone())
            .into();
        assert_eq!(seqs, [3, 4]);
    }
    let waiting = world.resume(Encoding::Sse, &prompt, Some(4)).await;
    let from_the_start = world.resume(Encoding::Sse, &prompt, None).await;
    world.cancel(&session, &prompt).await.no_content();
    assert_eq!(waiting.last().await["seq"], 5);
    assert_eq!(from_the_start.all().await.deltas.len(), 6);
}

#[tokio::test]
async fn the_last_event_id_wins_over_the_query() {
    let world = Setup::of("fake,tokens=9").start().await;
    let whole = world.ask(&world.session().await).await.all().await;
    let call = Call::get(format!("{}?after=1", stream_path(&whole.prompt))).header("Last-Event-ID", "6");
    let rest = Stream::new(world.call(call).await, Encoding::Ndjson).await.rest().await;
    assert_eq!(rest, whole.deltas[7..]);
}

#[tokio::test]
async fn past_the_end_an_event_source_is_told_to_stop_and_a_line_reader_gets_nothing() {
    let world = Setup::of("fake,tokens=9").start().await;
    let prompt = world.ask(&world.session().await).await.all().await.prompt;
    for after in [9, 10, u64::MAX] {
        let call = Call::get(format!("{}?after={after}", stream_path(&prompt)));
        world.call(call.clone().header("Accept", "text/event-stream")).await.no_content();
        let lines = world.call(call).await;
        assert_eq!((lines.status, lines.header("content-type")), (200, Some("application/x-ndjson")));
        assert_eq!(lines.body().await, b"");
    }
}

#[tokio::test]
async fn a_position_that_is_no_seq_is_refused() {
    let world = Setup::of("fake,tokens=9").start().await;
    let prompt = world.ask(&world.session().await).await.all().await.prompt;
    let refused = async |answer: Answer, name: &str| {
        let refusal = answer.refusal(400, "invalid_request").await;
        assert!(refusal["message"].as_str().unwrap().contains(name), "{refusal}");
    };
    for position in ["", "x", "-1", "1.5", "1%202", "0x1", "99999999999999999999999"] {
        refused(world.get(&format!("{}?after={position}", stream_path(&prompt))).await, "after").await;
    }
    for position in ["", "x", "-1", "1.5", "1 2", "\"1\"", "99999999999999999999999"] {
        let call = Call::get(format!("{}?after=1", stream_path(&prompt))).header("Last-Event-ID", position);
        refused(world.call(call).await, "Last-Event-ID").await;
    }
    let call = Call::get(stream_path(&prompt)).header("Last-Event-ID", b"\xff".to_vec());
    refused(world.call(call).await, "Last-Event-ID").await;
}
