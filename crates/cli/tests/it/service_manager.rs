//! The server reports its state to the service manager and to `wellspring health`.

use testing::FakeModel;
use tokio::net::UnixDatagram;

use crate::binary::{Home, soon};

async fn word(manager: &UnixDatagram) -> String {
    let mut word = vec![0; 64];
    let read = soon("a word", manager.recv(&mut word)).await.expect("the socket holds");
    word.truncate(read);
    String::from_utf8(word).expect("words are text")
}

#[tokio::test]
async fn the_service_manager_is_notified_of_readiness_and_shutdown() {
    let home = Home::new();
    let socket = home.path("notify");
    let manager = UnixDatagram::bind(&socket).expect("the home can be written to");
    let server = home.serve(&[], &[("NOTIFY_SOCKET", socket.to_str().expect("a plain path"))]).await;
    assert_eq!(word(&manager).await, "READY=1");
    server.signal("TERM").await;
    assert_eq!(word(&manager).await, "STOPPING=1");
    assert_eq!(server.ended().await.code, Some(0));
}

#[tokio::test]
async fn health_prints_the_state_of_each_part_and_exits_accordingly() {
    let (fake, home) = (FakeModel::start().await, Home::new());
    let ran = home.run(&["health"], &[]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    let data = home.path(".local/share/wellspring");
    assert!(
        ran.err.contains(&format!("no server runs on the data folder {}", data.display())),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("--config") && ran.err.contains("--server"), "{}", ran.err);

    let variables = [
        ("WELLSPRING__PROVIDERS__LOCAL__KIND", "ollama"),
        ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", fake.url()),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "fake"),
        ("WELLSPRING__GENERATION__HEALTH_SECONDS", "0.1"),
    ];
    let server = home.serve(&[], &variables).await;
    let ran = home.run(&["health"], &[]).await;
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(ran.out.starts_with("degraded\n") && ran.out.contains("  storage: up\n"), "{}", ran.out);
    assert!(
        ran.out.contains("  embedding: degraded ") && ran.out.contains("  providers.local: up\n"),
        "{}",
        ran.out
    );
    for arguments in [&["health", "--ready"][..], &["health", "--ready", "--server", &server.url()]] {
        let ran = home.run(arguments, &[]).await;
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (Some(0), "", ""));
    }

    fake.stop().await;
    let unwell = async {
        loop {
            let ran = home.run(&["health"], &[]).await;
            if ran.code == Some(1) {
                break ran.out;
            }
        }
    };
    let told = soon("the end of its only provider", unwell).await;
    assert!(told.starts_with("unhealthy\n") && told.contains("  providers.local: down "), "{told}");
    assert_eq!(home.run(&["health", "--ready"], &[]).await.code, Some(0), "prompts are taken all the same");
    server.stopped().await;
}
