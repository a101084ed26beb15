//! Recorded requests and how they ended.

use serde_json::json;
use testing::{FakeModel, RequestEnding};
use tokio::io::AsyncReadExt;

use crate::client::{APIS, ask, ask_all, connect, get, send};

#[tokio::test]
async fn a_request_is_recorded_with_its_ending() {
    let fake = FakeModel::start().await;
    for path in APIS {
        for (model, ending, tokens) in [
            ("fake", RequestEnding::Completed, 16),
            ("fake,reasoning=4", RequestEnding::Completed, 20),
            ("fake,half", RequestEnding::Completed, 16),
            ("fake,die=5", RequestEnding::Failed, 5),
            ("fake,error=5", RequestEnding::Failed, 5),
            ("fake,status=500", RequestEnding::Failed, 0),
            ("fake,no-such-part", RequestEnding::Failed, 0),
        ] {
            ask_all(&fake, path, model).await;
            let seen = fake.requests().pop().unwrap();
            assert_eq!((seen.path.as_str(), seen.model()), (path, Some(model)));
            assert_eq!((seen.ending, seen.tokens), (ending, tokens), "{path} {model}");
        }
    }
}

#[tokio::test]
async fn a_disconnect_is_noticed_without_a_write() {
    let fake = FakeModel::start().await;
    for path in APIS {
        for model in ["fake,stall=3", "fake,tokens=100,pace=3600s", "fake,stall=0"] {
            let mut answer = ask(&fake, path, model).await;
            if model != "fake,stall=0" {
                answer.next().await.unwrap();
            }
            assert_eq!(fake.requests().pop().unwrap().ending, RequestEnding::Running, "{path} {model}");
            drop(answer);
            fake.wait_until(|seen| seen.back().unwrap().ending == RequestEnding::Closed).await;
        }
    }
}

#[tokio::test]
async fn a_disconnect_during_a_burst_is_noticed() {
    let fake = FakeModel::start().await;
    for path in APIS {
        let mut answer = ask(&fake, path, "fake,tokens=100000000").await;
        answer.next().await.unwrap();
        drop(answer);
        fake.wait_until(|seen| seen.back().unwrap().ending == RequestEnding::Closed).await;
    }
}

#[tokio::test]
async fn a_disconnect_before_the_headers_is_noticed() {
    let fake = FakeModel::start().await;
    let mut socket = connect(&fake).await;
    send(&mut socket, "/api/chat", &json!({"model": "fake,silence=3600s"})).await;
    fake.wait_until(|seen| seen.len() == 1).await;
    assert_eq!(fake.requests()[0].ending, RequestEnding::Running);
    drop(socket);
    let seen = fake.wait_until(|seen| seen[0].ending == RequestEnding::Closed).await;
    assert_eq!(seen[0].tokens, 0);
}

#[tokio::test]
async fn the_requests_route_lists_the_recorded_requests() {
    let fake = FakeModel::start().await;
    ask_all(&fake, "/api/chat", "fake,die=2").await;
    get(&fake, "/v1/models").await;
    let (status, report) = get(&fake, "/requests").await;
    assert_eq!(status, 200);
    assert_eq!(report[0]["path"], "/api/chat");
    assert_eq!(report[0]["body"]["model"], "fake,die=2");
    assert_eq!((&report[0]["ending"], &report[0]["tokens"]), (&json!("failed"), &json!(2)));
    assert_eq!(report[1]["authorization"], "Bearer secret");
    assert_eq!(report.as_array().unwrap().len(), 2);
    assert_eq!((fake.requests().len(), fake.chats().len()), (2, 1));
}

#[tokio::test]
async fn stopping_breaks_running_answers_off_and_closes_the_port() {
    let fake = FakeModel::start().await;
    let address = fake.url().trim_start_matches("http://").to_owned();
    let mut idle = connect(&fake).await;
    let mut silent = connect(&fake).await;
    send(&mut silent, "/api/chat", &json!({"model": "fake,silence=3600s"})).await;
    let stalled = ask(&fake, "/v1/chat/completions", "fake,stall=3").await;
    fake.wait_until(|seen| seen.len() == 2).await;

    fake.stop().await;
    assert!(!stalled.body().await.ended_properly);
    let mut rest = Vec::new();
    for socket in [&mut silent, &mut idle] {
        let _ = socket.read_to_end(&mut rest).await;
    }
    assert_eq!(rest, b"");
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn dropping_the_fake_stops_it() {
    let fake = FakeModel::start().await;
    let stalled = ask(&fake, "/api/chat", "fake,stall=3").await;
    drop(fake);
    assert!(!stalled.body().await.ended_properly);
}
