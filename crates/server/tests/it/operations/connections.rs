//! The timeouts and the bound of connections.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::builder::TestServerBuilder;
use crate::support::http::with_timeout;
use crate::support::test_server::{TestServer, advance_time};

const HEAD: &str = "GET /health/live HTTP/1.1\r\nHost: localhost\r\n";

async fn connect(server: &TestServer, bytes: &str) -> TcpStream {
    let mut connection = TcpStream::connect(server.address).await.expect("the server listens");
    connection.write_all(bytes.as_bytes()).await.expect("the server takes it");
    server.settle().await;
    connection
}

/// Checks that the connection ends after this many seconds, and not earlier.
async fn check_end(mut connection: TcpStream, seconds: u64) {
    advance_time(Duration::from_secs(seconds - 2)).await;
    connection.write_all(b"").await.expect("it is open");
    let mut rest = [0; 1];
    assert!(connection.try_read(&mut rest).is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
    advance_time(Duration::from_secs(4)).await;
    let end = with_timeout(connection.read(&mut rest)).await;
    assert_eq!(end.expect("sent bytes are not discarded"), 0);
}

#[tokio::test]
async fn an_incomplete_request_head_times_out() {
    let server = TestServerBuilder::with_model("fake").start().await;
    check_end(connect(&server, HEAD).await, 30).await;
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let server = TestServerBuilder::with_model("fake").start().await;
    check_end(connect(&server, "").await, 75).await;
    let mut reused = connect(&server, &format!("{HEAD}\r\n")).await;
    check_live(&mut reused).await;
    check_end(reused, 75).await;
}

#[tokio::test]
async fn a_stream_whose_model_is_silent_is_not_idle() {
    let builder = TestServerBuilder::with_model("fake,stall=3")
        .limits(|limits| limits.stall = Duration::from_secs(3600));
    let server = builder.start().await;
    let session = server.session().await;
    let mut stream = server.ask(&session).await;
    stream.tokens(3).await;
    advance_time(Duration::from_secs(300)).await;
    server.cancel(&session, &stream.prompt()).await.assert_no_content();
    let rest = stream.rest().await;
    assert_eq!(rest[0]["metadata"]["finishReason"], "cancelled", "{rest:?}");
}

#[tokio::test]
async fn a_connection_beyond_the_limit_waits_until_one_closes() {
    let server =
        TestServerBuilder::with_model("fake").settings(|settings| settings.connections.max = 1).start().await;
    let mut first = connect_only(&server).await;
    send_request(&mut first).await;
    check_live(&mut first).await;
    let mut second = connect_only(&server).await;
    send_request(&mut second).await;
    // By then the server would have answered the second one too, had it accepted it.
    for _ in 0..50 {
        send_request(&mut first).await;
        check_live(&mut first).await;
    }
    let early = second.try_read(&mut [0; 1]);
    assert!(early.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "the bound is reached");
    drop(first);
    check_live(&mut second).await;
}

async fn connect_only(server: &TestServer) -> TcpStream {
    TcpStream::connect(server.address).await.expect("the server listens")
}

async fn send_request(connection: &mut TcpStream) {
    connection.write_all(format!("{HEAD}\r\n").as_bytes()).await.expect("the system takes it");
}

/// Reads a response to its end.
async fn check_live(connection: &mut TcpStream) {
    let mut answer = Vec::new();
    while !answer.ends_with(b"{\"status\":\"live\"}") {
        with_timeout(connection.read_buf(&mut answer)).await.expect("the server responds");
    }
}
