//! The table `conversations`: the one that others may read with SQL.

use domain::{CancelReason, Cause, FailureKind};
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::folder::Folder;
use crate::world::{cancelled, done, failed, new_prompt, session, start};

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
async fn its_columns_and_indexes_are_the_promised_ones() {
    let folder = Folder::new();
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
async fn every_answer_with_text_is_a_row() {
    let folder = Folder::new();
    let store = folder.open(0);
    let session = session(&store, 0).await;
    let client = Cause::Client(CancelReason::UserInitiated);
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
            running.say(&store, answer).await;
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
                Value::Text(crate::world::at(seconds).to_string()),
            ]);
        }
        running.end(&store, ended, seconds + 2).await;
    }
    assert_eq!(rows(&folder.connect(), "SELECT * FROM conversations ORDER BY created_at"), expected);
}
