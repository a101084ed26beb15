//! Connections that wait for something are not waited for without end.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::in_time;
use crate::harness::Setup;
use crate::world::{World, time_passes};

const HEAD: &str = "GET /health/live HTTP/1.1\r\nHost: localhost\r\n";

async fn connect(world: &World, bytes: &str) -> TcpStream {
    let mut connection = TcpStream::connect(world.address).await.expect("the server listens");
    connection.write_all(bytes.as_bytes()).await.expect("the server takes it");
    world.settle().await;
    connection
}

/// Whether the connection ends within so many seconds, and not before them.
async fn check_end(mut connection: TcpStream, seconds: u64) {
    time_passes(Duration::from_secs(seconds - 2)).await;
    connection.write_all(b"").await.expect("it is open");
    let mut rest = [0; 1];
    assert!(connection.try_read(&mut rest).is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
    time_passes(Duration::from_secs(4)).await;
    let end = in_time(connection.read(&mut rest)).await;
    assert_eq!(end.expect("what was sent to it is not thrown away"), 0);
}

#[tokio::test]
async fn a_head_that_does_not_come_whole_is_given_up() {
    let world = Setup::of("fake").start().await;
    check_end(connect(&world, HEAD).await, 30).await;
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let world = Setup::of("fake").start().await;
    check_end(connect(&world, "").await, 75).await;
    let mut kept = connect(&world, &format!("{HEAD}\r\n")).await;
    check_live(&mut kept).await;
    check_end(kept, 75).await;
}

#[tokio::test]
async fn a_stream_that_waits_for_its_model_is_not_idle() {
    let setup = Setup::of("fake,stall=3").limits(|limits| limits.stall = Duration::from_secs(3600));
    let world = setup.start().await;
    let session = world.session().await;
    let mut stream = world.ask(&session).await;
    stream.tokens(3).await;
    time_passes(Duration::from_secs(300)).await;
    world.cancel(&session, &stream.prompt()).await.no_content();
    let rest = stream.rest().await;
    assert_eq!(rest[0]["metadata"]["finishReason"], "cancelled", "{rest:?}");
}

#[tokio::test]
async fn whoever_finds_no_room_waits_at_the_door() {
    let world = Setup::of("fake").settings(|settings| settings.connections.max = 1).start().await;
    let mut first = connect_only(&world).await;
    call(&mut first).await;
    check_live(&mut first).await;
    let mut second = connect_only(&world).await;
    call(&mut second).await;
    // By then the server would have answered the second as well, if it had let it in.
    for _ in 0..50 {
        call(&mut first).await;
        check_live(&mut first).await;
    }
    let early = second.try_read(&mut [0; 1]);
    assert!(early.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "there was no room for it");
    drop(first);
    check_live(&mut second).await;
}

async fn connect_only(world: &World) -> TcpStream {
    TcpStream::connect(world.address).await.expect("the server listens")
}

async fn call(connection: &mut TcpStream) {
    connection.write_all(format!("{HEAD}\r\n").as_bytes()).await.expect("the system takes it");
}

/// Reads an answer to its end.
async fn check_live(connection: &mut TcpStream) {
    let mut answer = Vec::new();
    while !answer.ends_with(b"{\"status\":\"live\"}") {
        in_time(connection.read_buf(&mut answer)).await.expect("it is answered");
    }
}
