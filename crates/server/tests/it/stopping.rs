//! A server that stops ends every stream in good order.

use crate::deltas::ENCODINGS;
use crate::harness::Setup;
use crate::world::question;

#[tokio::test]
async fn every_stream_is_told_when_the_server_stops() {
    let world = Setup::of("fake,stall=3").start().await;
    let mut streams = Vec::new();
    for encoding in ENCODINGS {
        let mut stream = world.stream(encoding, &question(&world.session().await)).await;
        stream.tokens(3).await;
        streams.push(stream);
    }
    let calls = world.fake.requests().len();
    assert_eq!(calls, 2);
    let stopped = world.stop();
    for mut stream in streams {
        let rest = stream.rest().await;
        assert_eq!(rest.len(), 1, "{rest:?}");
        assert_eq!(rest[0]["metadata"]["code"], "interrupted");
        assert_eq!(rest[0]["metadata"]["retryable"], true);
    }
    stopped.await;
}
