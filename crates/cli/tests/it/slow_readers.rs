//! Clients that do not read: they take little memory, delay no other client, and are closed in the end.

use std::fs;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use testing::FakeModel;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::sleep;

use crate::binary::{Home, Server, soon};
use crate::client::{ask, post};

const STALLED: usize = 100;
const MOST_BYTES: u64 = 64 * 1024;

async fn server(fake: &FakeModel, unread_seconds: &str) -> Server {
    let variables = [
        ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", fake.url()),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "fake,tokens=30000"),
        ("WELLSPRING__PROVIDERS__PACED__KIND", "ollama"),
        ("WELLSPRING__PROVIDERS__PACED__BASE_URL", fake.url()),
        ("WELLSPRING__PROVIDERS__PACED__MODEL", "fake,tokens=100,pace=10ms"),
        ("WELLSPRING__PROVIDERS__LOCAL__KIND", "ollama"),
        ("WELLSPRING__GENERATION__MAX_TOKENS", "30000"),
        ("WELLSPRING__SERVER__UNREAD_SECONDS", unread_seconds),
        ("WELLSPRING__SERVER__DRAIN_SECONDS", "0"),
    ];
    Home::new().serve(&[], &variables).await
}

/// A long answer, several megabytes of deltas, that was read to its end.
async fn long_answer(server: &Server) -> String {
    let stream = ask(server, "why?").await;
    let prompt = stream.header("x-prompt-id").to_owned();
    assert_eq!(stream.answer().await.1["metadata"]["tokenCount"], 30_000);
    prompt
}

/// A client that requests a whole answer and reads only its beginning. Its receive buffer is small.
async fn stalled(server: &Server, prompt: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("there are sockets");
    socket.set_recv_buffer_size(4096).expect("it can be small");
    let address = server.address.parse().expect("it is an address");
    let mut connection = socket.connect(address).await.expect("the server listens");
    let request =
        format!("GET /api/generation/prompts/{prompt}/stream HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
    connection.write_all(request.as_bytes()).await.expect("the server takes it");
    let mut begun = [0; 200];
    soon("the beginning", connection.read_exact(&mut begun)).await.expect("it answers");
    assert!(begun.starts_with(b"HTTP/1.1 200 OK"), "{}", String::from_utf8_lossy(&begun));
    connection
}

/// The bytes in the kernel's send queues of this server's connections.
fn unsent(server: &Server) -> Vec<u64> {
    let port = server.address.rsplit_once(':').expect("it has a port").1.parse::<u16>().expect("a number");
    let table = fs::read_to_string("/proc/net/tcp").expect("the system tells");
    let from_server = |fields: &Vec<&str>| fields[1].ends_with(&format!(":{port:04X}")) && fields[3] == "01";
    let connections = table.lines().skip(1).map(|line| line.split_whitespace().collect()).filter(from_server);
    let queued = connections.map(|fields| fields[4].split_once(':').expect("two queues").0.to_owned());
    queued.map(|queued| u64::from_str_radix(&queued, 16).expect("hexadecimal")).collect()
}

/// The time between two tokens that only one in a hundred exceeds, over some streams that are read.
async fn slow_gap(server: &Server) -> Duration {
    let gaps = join_all((0..10).map(|_| async {
        let session = post(server, "/api/generation/session", "", &json!({})).await.json().await;
        let body = json!({"sessionId": session["sessionId"], "prompt": "why?", "provider": "paced"});
        let mut stream = post(server, "/api/generation/stream", "", &body).await;
        let (mut gaps, mut last) = (Vec::new(), None);
        while stream.delta().await.is_some() {
            let now = Instant::now();
            gaps.extend(last.replace(now).map(|last| now - last));
        }
        gaps
    }));
    let mut gaps = gaps.await.concat();
    gaps.sort_unstable();
    gaps[gaps.len() * 99 / 100]
}

#[tokio::test]
async fn a_hundred_stalled_readers_take_little_memory_and_delay_no_other() {
    let fake = FakeModel::start().await;
    let server = server(&fake, "600").await;
    let prompt = long_answer(&server).await;
    let _first = stalled(&server, &prompt).await;
    // The machine may be at something else just then.
    let mut tries = 3;
    loop {
        let usual = slow_gap(&server).await;
        let before = server.memory();
        let _stalled = join_all((0..STALLED).map(|_| stalled(&server, &prompt))).await;
        let slow = slow_gap(&server).await;
        let in_process = server.memory().saturating_sub(before) / STALLED as u64;
        let in_system = unsent(&server).into_iter().max().expect("there are connections");
        println!(
            "each holds {in_process} + {in_system} bytes; the slow gap was {usual:?}, and is {slow:?} with them"
        );
        assert!(
            in_process + in_system <= MOST_BYTES,
            "{in_process} bytes in the process, {in_system} in the system"
        );
        tries -= 1;
        if slow <= 2 * usual {
            return;
        }
        assert!(tries > 0, "{usual:?} without them, {slow:?} with them");
    }
}

#[tokio::test]
async fn a_stalled_reader_does_not_delay_the_shutdown() {
    let fake = FakeModel::start().await;
    let server = server(&fake, "600").await;
    let prompt = long_answer(&server).await;
    let _connection = stalled(&server, &prompt).await;
    let is_full = async {
        while unsent(&server).into_iter().all(|bytes| bytes == 0) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    soon("what does not fit on its side", is_full).await;
    server.signal("TERM").await;
    assert_eq!(server.ended().await.code, Some(0));
}

#[tokio::test]
async fn a_stalled_reader_is_disconnected_and_logged() {
    let fake = FakeModel::start().await;
    let mut server = server(&fake, "0.5").await;
    let prompt = long_answer(&server).await;
    let mut connection = stalled(&server, &prompt).await;
    let line = server.logged("does not read").await;
    assert!(line.contains(&connection.local_addr().unwrap().to_string()), "{line}");
    let mut rest = Vec::new();
    let read = soon("the end", connection.read_to_end(&mut rest)).await;
    assert!(read.is_err(), "what it had not read is gone");
    // A client that reads still gets all of it.
    assert_eq!(long_answer(&server).await.len(), prompt.len());
}
