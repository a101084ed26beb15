//! The server answers as its own description says: schemathesis calls it in every way that the description allows, and
//! in many that it does not.

use std::env;
use std::time::Duration;

use testing::FakeModel;
use tokio::process::Command;
use tokio::time::timeout;

use crate::binary::Home;
use crate::client::get;
use crate::ingest::embedding_by;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/schemathesis");

/// The same few thousand calls each time, or as many as there are in ten minutes.
fn effort() -> (Vec<&'static str>, Duration) {
    if env::var_os("WELLSPRING_SOAK").is_some() {
        return (vec!["--max-examples=1000", "--max-time=600"], Duration::from_secs(1800));
    }
    (vec!["--max-examples=8", "--generation-deterministic"], Duration::from_secs(240))
}

#[tokio::test]
async fn the_server_conforms_to_its_openapi_description() {
    let (fake, home) = (FakeModel::start().await, Home::new());
    home.write(
        "mine.toml",
        &format!(
            "[providers.local]\nkind = 'ollama'\nbase_url = '{}'\nmodel = 'fake,tokens=8'\n",
            fake.url()
        ),
    );
    let server = home.serve(&["--config", "mine.toml"], &embedding_by(&fake)).await;
    let (flags, patience) = effort();
    let mut checking = Command::new(SCRIPT);
    let checked = checking.arg(server.url()).args(flags).kill_on_drop(true).output();
    let checked = timeout(patience, checked).await.expect("it ends in time").expect("the script can be run");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&checked.stdout), text(&checked.stderr));
    assert!(checked.status.success(), "{out}{err}");
    assert_eq!(get(&server, "/health").await.expect("it still answers").status, 200);
}
