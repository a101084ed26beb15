//! The tables of `history.db`, version by version. A migration, once released, never changes.

use rusqlite::Connection;

use super::database::Fault;

const MIGRATIONS: &[&str] = &[
    // 1: sessions, prompts, their logs and turns.
    "CREATE TABLE sessions (
        tenant         TEXT    NOT NULL,
        id             BLOB    NOT NULL,
        owner          TEXT,
        context        TEXT    NOT NULL,
        title          TEXT,
        created_at     INTEGER NOT NULL,
        last_active_at INTEGER NOT NULL,
        ended          TEXT,
        prompt_count   INTEGER NOT NULL DEFAULT 0,
        token_count    INTEGER NOT NULL DEFAULT 0,
        last_turn      BLOB,
        PRIMARY KEY (tenant, id)
    ) WITHOUT ROWID;

    CREATE INDEX sessions_by_activity ON sessions (last_active_at);

    CREATE TABLE prompts (
        tenant      TEXT    NOT NULL,
        id          BLOB    NOT NULL,
        session     BLOB    NOT NULL,
        key         TEXT,
        text        TEXT    NOT NULL,
        follows     BLOB,
        accepted    BLOB    NOT NULL,
        status      TEXT    NOT NULL,
        retryable   INTEGER NOT NULL DEFAULT 0,
        token_count INTEGER NOT NULL DEFAULT 0,
        created_at  INTEGER NOT NULL,
        PRIMARY KEY (tenant, id),
        FOREIGN KEY (tenant, session) REFERENCES sessions (tenant, id) ON DELETE CASCADE
    ) WITHOUT ROWID;
    CREATE INDEX prompts_of_session ON prompts (tenant, session, id);
    CREATE INDEX prompts_by_key ON prompts (tenant, session, key, id) WHERE key IS NOT NULL;
    CREATE INDEX prompts_by_status ON prompts (tenant, status, id);
    CREATE INDEX prompts_by_time ON prompts (created_at);
    CREATE UNIQUE INDEX one_running_prompt ON prompts (tenant, session) WHERE status = 'in-flight';

    CREATE TABLE logs (
        tenant   TEXT    NOT NULL,
        prompt   BLOB    NOT NULL,
        format   INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        body     BLOB    NOT NULL,
        PRIMARY KEY (tenant, prompt),
        FOREIGN KEY (tenant, prompt) REFERENCES prompts (tenant, id) ON DELETE CASCADE
    );

    CREATE TABLE conversations (
        id               TEXT    PRIMARY KEY,
        session_id       TEXT    NOT NULL,
        query            TEXT    NOT NULL,
        response         TEXT    NOT NULL,
        sources          TEXT    NOT NULL,
        mode             TEXT    NOT NULL,
        selected_text    TEXT,
        chunks_retrieved INTEGER NOT NULL,
        latency_ms       REAL    NOT NULL,
        created_at       TEXT    NOT NULL
    );
    CREATE INDEX idx_conversations_session_id ON conversations (session_id);
    CREATE INDEX idx_conversations_session_created ON conversations (session_id, created_at DESC);

    -- What the foreign keys are looked up by: one tenant has very many prompts, a session has few. Without
    -- being told, SQLite takes the primary key for the better way to the prompts of a session.
    ANALYZE;
    INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
        ('prompts', 'prompts', '1000000 1000000 1'),
        ('prompts', 'prompts_of_session', '1000000 1000000 20 1');
    ANALYZE sqlite_schema;",
];

/// Runs the migrations that the database does not have yet, each in a transaction of its own.
pub(crate) fn run(connection: &mut Connection) -> Result<(), Fault> {
    let version = connection.pragma_query_value(None, "user_version", |row| row.get::<_, usize>(0))?;
    let latest = MIGRATIONS.len();
    if version > latest {
        return Err(Fault::Other(format!(
            "history.db: a newer release has written it (its tables are of version {version}, and this release knows {latest}): \
             use that release, or a folder of its own for this one (data_dir)"
        )));
    }
    for (number, migration) in (1..).zip(MIGRATIONS).skip(version) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", number)?;
        transaction.commit()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_of_every_earlier_version_is_brought_up_to_date_once() {
        for version in 0..=MIGRATIONS.len() {
            let mut database = Connection::open_in_memory().unwrap();
            for migration in &MIGRATIONS[..version] {
                database.execute_batch(migration).unwrap();
            }
            database.pragma_update(None, "user_version", version).unwrap();
            for _ in 0..2 {
                run(&mut database).unwrap();
                let now = database.pragma_query_value(None, "user_version", |row| row.get::<_, usize>(0));
                assert_eq!(now.unwrap(), MIGRATIONS.len());
            }
        }
    }

    #[test]
    fn the_prompts_of_a_deleted_session_are_not_searched_among_all() {
        let mut database = Connection::open_in_memory().unwrap();
        run(&mut database).unwrap();
        database.pragma_update(None, "foreign_keys", true).unwrap();
        let plan = "EXPLAIN QUERY PLAN DELETE FROM sessions WHERE tenant = 'local' AND id = x'00'";
        let mut statement = database.prepare(plan).unwrap();
        let steps = statement.query_map([], |row| row.get::<_, String>("detail")).unwrap();
        let steps = steps.collect::<Result<Vec<_>, _>>().unwrap().join("; ");
        assert!(steps.contains("prompts_of_session (tenant=? AND session=?)"), "{steps}");
    }

    #[test]
    fn the_database_of_a_newer_release_is_left_alone() {
        let mut database = Connection::open_in_memory().unwrap();
        database.pragma_update(None, "user_version", MIGRATIONS.len() + 1).unwrap();
        let Err(Fault::Other(message)) = run(&mut database) else { panic!("it is no damage") };
        assert!(message.contains("newer release") && message.contains("data_dir"), "{message}");
    }
}
