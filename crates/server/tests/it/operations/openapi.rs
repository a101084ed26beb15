//! The OpenAPI document: the served one is the committed one and valid, and it has an HTML page.

use std::collections::BTreeSet;
use std::{env, fs};

use jsonschema::draft202012;
use serde_json::{Value, json};

use crate::support::builder::TestServerBuilder;

const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contracts/openapi.json");
const PUBLISHED_DELTA: &str = include_str!("../../../../../contracts/generation-delta.schema.json");

async fn served() -> Value {
    let server = TestServerBuilder::with_model("fake").start().await;
    server.get("/openapi.json").await.json(200).await
}

/// `make openapi` updates the committed document.
#[tokio::test]
async fn the_description_that_is_served_is_the_committed_one() {
    let served = served().await;
    if env::var_os("WELLSPRING_WRITE_OPENAPI").is_some() {
        fs::write(COMMITTED, format!("{served:#}\n")).expect("contracts can be written");
    }
    let committed = fs::read(COMMITTED).expect("the description is committed");
    let committed: Value = serde_json::from_slice(&committed).expect("the description is JSON");
    assert!(served == committed, "the API has changed: run `make openapi` and review contracts/openapi.json");
}

/// Collects every value of a key, at any depth.
fn all<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(key));
            fields.values().for_each(|value| all(value, key, found));
        }
        Value::Array(values) => values.iter().for_each(|value| all(value, key, found)),
        _ => {}
    }
}

#[tokio::test]
async fn every_reference_of_the_description_resolves() {
    let description = served().await;
    let mut references = Vec::new();
    all(&description, "$ref", &mut references);
    assert!(!references.is_empty());
    for reference in references.into_iter().filter_map(Value::as_str) {
        assert!(description.pointer(&reference[1..]).is_some(), "{reference}");
    }
    let (mut ids, mut links) = (Vec::new(), Vec::new());
    for operation in description["paths"].as_object().expect("paths").values().flat_map(Value::as_object) {
        ids.extend(operation.values().filter_map(|operation| operation["operationId"].as_str()));
        operation.values().for_each(|operation| all(&operation["responses"], "operationId", &mut links));
    }
    let unique: BTreeSet<_> = ids.iter().copied().collect();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
    assert!(links.iter().all(|link| link.as_str().is_some_and(|id| unique.contains(id))), "{links:?}");
}

#[tokio::test]
async fn every_example_matches_its_schema() {
    let description = served().await;
    let mut examples = 0;
    for (name, schema) in description["components"]["schemas"].as_object().expect("schemas") {
        let whole = json!({"allOf": [schema], "components": description["components"]});
        let validator = draft202012::new(&whole).expect("the schema is valid");
        for example in schema["examples"].as_array().into_iter().flatten() {
            assert!(validator.is_valid(example), "{name}: {example}");
            examples += 1;
        }
    }
    assert!(examples >= 8, "{examples}");
}

/// The described delta may add to the published one, and may not contradict it.
#[tokio::test]
async fn the_described_delta_matches_the_published_schema() {
    let description = &served().await["components"]["schemas"]["GenerationDelta"];
    let published: Value = serde_json::from_str(PUBLISHED_DELTA).expect("it is JSON");
    assert_eq!(description["required"], published["required"]);
    let names = |schema: &Value| -> BTreeSet<String> {
        schema["properties"].as_object().expect("a delta has fields").keys().cloned().collect()
    };
    assert_eq!(names(description), names(&published));
    assert_eq!(description["properties"]["type"], published["properties"]["type"]);
    for name in ["promptId", "seq", "text"] {
        for (keyword, value) in published["properties"][name].as_object().expect("a schema") {
            assert_eq!(&description["properties"][name][keyword], value, "{name}: {keyword}");
        }
    }
}

#[tokio::test]
async fn the_documentation_page_loads_nothing_from_elsewhere() {
    let server = TestServerBuilder::with_model("fake").start().await;
    let page = server.get("/docs").await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.header("content-security-policy").expect("it has a policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'self';"), "{policy}");
    let page = String::from_utf8(page.body().await).expect("it is text");
    let sheet = page.split("href=\"").nth(1).and_then(|link| link.split('"').next()).expect("it has a style");
    let style = server.get(sheet).await;
    assert_eq!((style.status, style.header("content-type")), (200, Some("text/css; charset=utf-8")));
    assert!(!String::from_utf8(style.body().await).expect("it is text").contains("url("));
}
