//! The table `conversations`, which other programs may read with SQL.

use domain::{CancelReason, EndCause, FailureKind, RetrievedPassages, SearchScope, Step};
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::data_folder::DataFolder;
use crate::harness::{cancelled, done, failed, new_prompt, selected, session, start};

const COLUMNS: [(&str, &str); 10] = [
    ("id", "TEXT"),
    ("session_id", "TEXT"),
    ("query", "TEXT"),
    ("response", "TEXT"),
    ("sources", "TEXT"),
    ("mode", "TEXT"),
    ("selected_text", "TEXT"),
    ("chunks_retrieved", "INTEGER"),
    ("latency_ms", "REAL"),
    ("created_at", "TEXT"),
];

fn rows(database: &Connection, query: &str) -> Vec<Vec<Value>> {
    let mut statement = database.prepare(query).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|column| row.get(column)).collect());
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn it_has_the_documented_columns_and_indexes() {
    let folder = DataFolder::new();
    let _store = folder.open(0);
    let database = folder.connect();
    let columns = rows(&database, "SELECT name, type FROM pragma_table_info('conversations') ORDER BY cid");
    let text = |text: &str| Value::Text(text.to_owned());
    assert_eq!(columns, COLUMNS.map(|(name, kind)| vec![text(name), text(kind)]));
    let indexes = rows(
        &database,
        "SELECT list.name, columns.name, columns.desc FROM pragma_index_list('conversations') AS list
         JOIN pragma_index_xinfo(list.name) AS columns ON columns.key WHERE list.origin = 'c'
         ORDER BY list.name, columns.seqno",
    );
    let column = |index, name, descending| vec![text(index), text(name), Value::Integer(descending)];
    assert_eq!(
        indexes,
        [
            column("idx_conversations_session_created", "session_id", 0),
            column("idx_conversations_session_created", "created_at", 1),
            column("idx_conversations_session_id", "session_id", 0),
        ]
    );
}

#[tokio::test]
async fn every_answer_with_text_has_a_row() {
    let folder = DataFolder::new();
    let store = folder.open(0);
    let session = session(&store, 0).await;
    let client = EndCause::Client(CancelReason::UserInitiated);
    let mut expected = Vec::new();
    for (seconds, question, answer, ended) in [
        (10, "why?", "because of 🙂", done()),
        (20, "and?", "so it", cancelled(client)),
        (30, "what?", "", failed(FailureKind::Unavailable)),
        (40, "how?", "by", failed(FailureKind::Died)),
        (50, "who?", "", cancelled(client)),
    ] {
        let mut running = start(&store, new_prompt(session, question, seconds)).await;
        let id = running.id();
        if !answer.is_empty() {
            running.append(&store, answer).await;
            expected.push(vec![
                Value::Text(id.to_string()),
                Value::Text(session.to_string()),
                Value::Text(question.to_owned()),
                Value::Text(answer.to_owned()),
                Value::Text("[]".to_owned()),
                Value::Text("general".to_owned()),
                Value::Null,
                Value::Integer(0),
                Value::Real(2_000.0),
                Value::Text(crate::harness::at(seconds).to_string()),
            ]);
        }
        running.end(&store, ended, seconds + 2).await;
    }
    assert_eq!(rows(&folder.connect(), "SELECT * FROM conversations ORDER BY created_at"), expected);
}

#[tokio::test]
async fn the_sources_of_a_selection_have_their_ranges() {
    let folder = DataFolder::new();
    let store = folder.open(0);
    let session = session(&store, 0).await;
    let text = format!("🙂 first line\r\n{}\nthird", "ß".repeat(600));
    let mut new = new_prompt(session, "what?", 10);
    new.accepted.question.scope = SearchScope::Selection(text.as_str().into());
    let mut running = start(&store, new).await;
    let rest: String = text.chars().skip(14).collect();
    let passages = RetrievedPassages { found: 2, in_prompt: vec![selected(&rest, (14, 620), (2, 3))] };
    running.append_step(&store, Step::Passages(Box::new(passages))).await;
    running.append(&store, "that").await;
    running.end(&store, done(), 12).await;

    let row =
        rows(&folder.connect(), "SELECT mode, selected_text, chunks_retrieved, sources FROM conversations");
    let [mode, selection, retrieved, Value::Text(sources)] = &row[0][..] else { panic!("{row:?}") };
    assert_eq!((mode, selection), (&Value::Text("selected_text".to_owned()), &Value::Text(text.clone())));
    assert_eq!(retrieved, &Value::Integer(2));
    let sources: serde_json::Value = serde_json::from_str(sources).unwrap();
    let source = &sources[0];
    assert_eq!(source["source_url"], "selected_text");
    assert_eq!(
        (&source["page_title"], &source["section_heading"]),
        (&"User Selection".into(), &"Selected Text".into())
    );
    let at = |name: &str| usize::try_from(source[name].as_u64().unwrap()).unwrap();
    let quoted: String = text.chars().take(at("char_end")).skip(at("char_start")).collect();
    assert_eq!(source["chunk_text"], quoted, "the quote is cut, and its range with it");
    assert_eq!((at("char_start"), at("char_end"), at("line_start"), at("line_end")), (14, 514, 2, 2));
}
