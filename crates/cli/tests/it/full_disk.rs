//! Data folders on disks that are full, or that cannot be written to.

use std::time::Duration;

use serde_json::{Value, json};
use testing::FakeModel;
use tokio::time::sleep;

use crate::binary::{Home, Server, soon};
use crate::client::{Response, get, post};
use crate::mounts::{Disk, may_mount};

const STREAMS: usize = 32;
const KIBIBYTES: u32 = 4 * 1024;

#[tokio::test]
async fn a_full_disk_ends_all_streams_and_refuses_prompts_until_there_is_room() {
    if !may_mount("full_disk::a_full_disk_ends_all_streams_and_refuses_prompts_until_there_is_room") {
        return;
    }
    let (fake, home, disk) = (FakeModel::start().await, Home::new(), Disk::new(KIBIBYTES));
    let variables = [
        ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", fake.url()),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "fake,tokens=2000,pace=10ms"),
        ("WELLSPRING__DATA_DIR", disk.path().to_str().expect("a plain path")),
    ];
    let server = home.serve(&[], &variables).await;
    let idle = session(&server).await;
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let mut response = ask(&server, &session(&server).await).await;
        assert_eq!(response.delta().await.expect("the answer has begun")["type"], "token");
        streams.push((response.header("x-prompt-id").to_owned(), response));
    }

    disk.fill();
    let mut told = Vec::new();
    for (prompt, response) in streams {
        let (_, last) = response.answer().await;
        assert_eq!((&last["type"], &last["metadata"]["code"]), (&"error".into(), &"interrupted".into()));
        told.push((prompt, last));
    }
    for _ in 0..3 {
        let refused = ask(&server, &idle).await;
        assert_eq!(refused.status, 503);
        assert_eq!(refused.json().await["code"], "storage_unavailable");
    }

    check_replay(&server, &told[0]).await;

    disk.free();
    let mut works = ask(&server, &idle).await;
    assert_eq!(works.status, 200);
    assert_eq!(works.delta().await.expect("the answer has begun")["type"], "token");
    for told in &told {
        check_replay(&server, told).await;
    }
    let running = get(&server, "/api/prompts?status=in-flight").await.expect("an answer").json().await;
    assert_eq!(running["prompts"].as_array().map(Vec::len), Some(1), "{running}");
    drop(works);
    server.stopped().await;
}

#[tokio::test]
async fn health_reports_a_full_disk_before_new_prompts_fail() {
    if !may_mount("full_disk::health_reports_a_full_disk_before_new_prompts_fail") {
        return;
    }
    let (fake, home, disk) = (FakeModel::start().await, Home::new(), Disk::new(KIBIBYTES));
    let variables = [
        ("WELLSPRING__PROVIDERS__LOCAL__BASE_URL", fake.url()),
        ("WELLSPRING__PROVIDERS__LOCAL__MODEL", "fake"),
        ("WELLSPRING__DATA_DIR", disk.path().to_str().expect("a plain path")),
    ];
    let server = home.serve(&[], &variables).await;
    let session = session(&server).await;
    disk.fill();
    assert_eq!(ask(&server, &session).await.json().await["code"], "storage_unavailable");
    let health = get(&server, "/health").await.expect("an answer");
    assert_eq!(health.status, 503);
    let health = health.json().await;
    assert_eq!(health["services"]["storage"]["status"], "down", "{health}");

    disk.free();
    let is_well = async {
        while get(&server, "/health").await.expect("an answer").status != 200 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    soon("the news that there is room", is_well).await;
    server.stopped().await;
}

/// The stored end is the one that the reader got.
async fn check_replay(server: &Server, (prompt, last): &(String, Value)) {
    let path = format!("/api/generation/prompts/{prompt}/stream");
    let (_, replayed) = get(server, &path).await.expect("an answer").answer().await;
    assert_eq!(replayed, *last);
}

async fn session(server: &Server) -> Value {
    post(server, "/api/generation/session", "", &json!({})).await.json().await["sessionId"].clone()
}

async fn ask(server: &Server, session: &Value) -> Response {
    post(server, "/api/generation/stream", "", &json!({"sessionId": session, "prompt": "why?"})).await
}

#[tokio::test]
async fn a_data_folder_that_is_read_only_stops_the_start() {
    if !may_mount("full_disk::a_data_folder_that_is_read_only_stops_the_start") {
        return;
    }
    let (home, disk) = (Home::new(), Disk::new(KIBIBYTES));
    let data = disk.path().to_str().expect("a plain path");
    disk.set_read_only(true);
    let ran = home.run(&["serve", "--bind", "127.0.0.1:0"], &[("WELLSPRING__DATA_DIR", data)]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains("storage: ") && ran.err.contains("Read-only file system"), "{}", ran.err);
    disk.set_read_only(false);
    home.serve(&[], &[("WELLSPRING__DATA_DIR", data)]).await.stopped().await;
}

#[tokio::test]
async fn a_second_server_on_the_same_data_folder_stops_with_a_clear_message() {
    let home = Home::new();
    let server = home.serve(&[], &[]).await;
    let ran = home.run(&["serve", "--bind", "127.0.0.1:0"], &[]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains("is in use by another server") && ran.err.contains("data_dir"), "{}", ran.err);
    server.stopped().await;
}
