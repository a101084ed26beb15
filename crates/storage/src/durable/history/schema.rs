//! The tables of `history.db`.

use std::time::Duration;

use crate::sqlite::Schema;

/// The file and tables of the history.
pub(crate) const HISTORY_SCHEMA: Schema = Schema {
    file: "history.db",
    busy_timeout: Duration::from_secs(1),
    page_size: 4096,
    migrations: MIGRATIONS,
};

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

    -- Statistics for the lookups of foreign keys: a tenant has very many prompts, a session has few. Without them SQLite
    -- prefers the primary key to find the prompts of a session.
    ANALYZE;
    INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
        ('prompts', 'prompts', '1000000 1000000 1'),
        ('prompts', 'prompts_of_session', '1000000 1000000 20 1');
    ANALYZE sqlite_schema;",
];

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn deleting_a_session_finds_its_prompts_by_index() {
        let database = Connection::open_in_memory().unwrap();
        HISTORY_SCHEMA.migrations.iter().for_each(|migration| database.execute_batch(migration).unwrap());
        database.pragma_update(None, "foreign_keys", true).unwrap();
        let plan = "EXPLAIN QUERY PLAN DELETE FROM sessions WHERE tenant = 'local' AND id = x'00'";
        let mut statement = database.prepare(plan).unwrap();
        let steps = statement.query_map([], |row| row.get::<_, String>("detail")).unwrap();
        let steps = steps.collect::<Result<Vec<_>, _>>().unwrap().join("; ");
        assert!(steps.contains("prompts_of_session (tenant=? AND session=?)"), "{steps}");
    }
}
