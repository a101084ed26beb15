//! The tables of `knowledge.db`.

use std::time::Duration;

use crate::sqlite::Schema;

/// The file and tables of the catalog.
pub(crate) const CATALOG_SCHEMA: Schema = Schema {
    file: "knowledge.db",
    // Another process may put a thousand documents in one transaction.
    busy_timeout: Duration::from_secs(10),
    // A page holds several vectors.
    page_size: 8192,
    migrations: MIGRATIONS,
};

const MIGRATIONS: &[&str] = &[
    // 1: documents, their texts and metadata, chunks, vectors, tombstones, and the revision.
    //
    // Documents and chunks have numbers beside their ids. Rows refer to each other by number, and a number is never
    // reused, so a higher one is always newer.
    "CREATE TABLE documents (
        number      INTEGER PRIMARY KEY AUTOINCREMENT,
        tenant      TEXT    NOT NULL,
        id          BLOB    NOT NULL,
        collection  TEXT    NOT NULL,
        repo_url    TEXT    NOT NULL,
        file_path   TEXT    NOT NULL,
        source      TEXT    NOT NULL,
        title       TEXT    NOT NULL,
        language    TEXT,
        url         TEXT,
        module      TEXT,
        tags        TEXT    NOT NULL,
        metadata    TEXT    NOT NULL,
        digest      BLOB    NOT NULL,
        chunk_count INTEGER NOT NULL,
        created_at  INTEGER NOT NULL,
        updated_at  INTEGER NOT NULL,
        revision    INTEGER NOT NULL,
        UNIQUE (tenant, id),
        UNIQUE (tenant, collection, repo_url, file_path)
    );
    CREATE INDEX documents_by_revision ON documents (revision, chunk_count);
    CREATE INDEX documents_in_order ON documents (tenant);
    CREATE INDEX documents_of_root ON documents (tenant, repo_url);
    CREATE INDEX documents_by_path ON documents (tenant, file_path, id);
    CREATE INDEX documents_by_language ON documents (tenant, language, file_path, id);
    CREATE INDEX documents_by_title ON documents (tenant, title);

    -- Apart from the documents, so that a scan of those does not read the texts.
    CREATE TABLE texts (
        document INTEGER PRIMARY KEY REFERENCES documents (number) ON DELETE CASCADE,
        body     TEXT    NOT NULL
    );

    -- The metadata again, each value as filters compare it.
    CREATE TABLE metadata_values (
        document INTEGER NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
        name     TEXT    NOT NULL,
        value    TEXT    NOT NULL,
        PRIMARY KEY (document, name)
    ) WITHOUT ROWID;
    CREATE INDEX documents_by_metadata ON metadata_values (name, value);

    CREATE TABLE chunks (
        number     INTEGER PRIMARY KEY AUTOINCREMENT,
        document   INTEGER NOT NULL REFERENCES documents (number) ON DELETE CASCADE,
        tenant     TEXT    NOT NULL,
        id         BLOB    NOT NULL,
        ordinal    INTEGER NOT NULL,
        first_byte INTEGER NOT NULL,
        end_byte   INTEGER NOT NULL,
        first_line INTEGER NOT NULL,
        last_line  INTEGER NOT NULL,
        kind       TEXT,
        section    TEXT,
        subsection TEXT,
        anchor     TEXT,
        context    TEXT    NOT NULL,
        UNIQUE (tenant, id)
    );
    CREATE INDEX chunks_of_document ON chunks (document, ordinal);

    -- A vector is its numbers as little-endian 32-bit floats.
    CREATE TABLE vectors (
        chunk    INTEGER NOT NULL REFERENCES chunks (number) ON DELETE CASCADE,
        model    TEXT    NOT NULL,
        revision INTEGER NOT NULL,
        vector   BLOB    NOT NULL,
        UNIQUE (chunk, model)
    );
    CREATE INDEX vectors_by_revision ON vectors (model, revision);

    -- Tombstones of removed chunks. `told` is the revision under which the change feed announces them.
    CREATE TABLE removed (
        tenant   TEXT    NOT NULL,
        chunk    BLOB    NOT NULL,
        document BLOB    NOT NULL,
        revision INTEGER NOT NULL,
        told     INTEGER NOT NULL,
        PRIMARY KEY (tenant, chunk)
    ) WITHOUT ROWID;
    CREATE INDEX removed_by_telling ON removed (told);
    CREATE INDEX removed_of_document ON removed (tenant, document, revision);

    -- Revisions count from the time at which the database was created, in milliseconds. So a revision of an earlier
    -- database, which was lost or set aside, is never mistaken for one of this database.
    CREATE TABLE revisions (
        begun  INTEGER NOT NULL,
        latest INTEGER NOT NULL
    );
    INSERT INTO revisions SELECT now, now FROM (SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) AS now);",
    // 2: indexes of documents by source URL, and of chunks by innermost heading.
    "CREATE INDEX documents_by_address ON documents (tenant, coalesce(url, repo_url || '/' || file_path));
    CREATE INDEX chunks_by_heading ON chunks (tenant, coalesce(subsection, section, ''));",
];
