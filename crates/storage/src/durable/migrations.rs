//! The tables of `history.db`, version by version. A migration, once released, never changes.

use rusqlite::Connection;

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
    CREATE INDEX prompts_by_time ON prompts (created_at);
    CREATE UNIQUE INDEX one_running_prompt ON prompts (tenant, session) WHERE status = 'in-flight';

    CREATE TABLE logs (
        tenant TEXT    NOT NULL,
        prompt BLOB    NOT NULL,
        format INTEGER NOT NULL,
        body   BLOB    NOT NULL,
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
    CREATE INDEX idx_conversations_session_created ON conversations (session_id, created_at DESC);",
];

/// Runs the migrations that the database does not have yet, each in a transaction of its own.
pub(crate) fn run(connection: &mut Connection) -> rusqlite::Result<()> {
    let version = connection.pragma_query_value(None, "user_version", |row| row.get::<_, usize>(0))?;
    for (number, migration) in (1..).zip(MIGRATIONS).skip(version) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", number)?;
        transaction.commit()?;
    }
    Ok(())
}
