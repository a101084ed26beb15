//! Shutdown ends every stream in an orderly way.

use crate::support::builder::TestServerBuilder;
use crate::support::delta_stream::ENCODINGS;
use crate::support::test_server::question;

#[tokio::test]
async fn shutdown_ends_every_stream_as_interrupted() {
    let server = TestServerBuilder::with_model("fake,stall=3").start().await;
    let mut streams = Vec::new();
    for encoding in ENCODINGS {
        let mut stream = server.stream(encoding, &question(&server.session().await)).await;
        stream.tokens(3).await;
        streams.push(stream);
    }
    let calls = server.fake.requests().len();
    assert_eq!(calls, 2);
    let stopped = server.stop();
    for mut stream in streams {
        let rest = stream.rest().await;
        assert_eq!(rest.len(), 1, "{rest:?}");
        assert_eq!(rest[0]["metadata"]["code"], "interrupted");
        assert_eq!(rest[0]["metadata"]["retryable"], true);
    }
    stopped.await;
}
