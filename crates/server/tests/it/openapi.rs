//! The description of the calls: it is the committed one, and sound.

use std::path::Path;
use std::{env, fs};

use serde_json::Value;

use crate::harness::Setup;

const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contracts/openapi.json");

async fn served() -> Value {
    let world = Setup::of("fake").start().await;
    world.get("/openapi.json").await.json(200).await
}

/// `make openapi` writes it anew.
#[tokio::test]
async fn the_description_that_is_served_is_the_committed_one() {
    let served = served().await;
    if env::var_os("WELLSPRING_WRITE_OPENAPI").is_some() {
        fs::write(COMMITTED, format!("{served:#}\n")).expect("contracts can be written");
    }
    let committed = fs::read(Path::new(COMMITTED)).expect("the description is committed");
    let committed: Value = serde_json::from_slice(&committed).expect("the description is JSON");
    assert!(
        served == committed,
        "calls have changed: look at what `make openapi` changes in contracts/openapi.json"
    );
}
