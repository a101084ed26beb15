//! Migrations of a database's tables, version by version.

use domain::StorageError;
use rusqlite::{Connection, TransactionBehavior};

use super::Schema;
use super::error::storage_error;

/// Runs the missing migrations, each in its own transaction. Fails if a newer release has written the database.
pub(super) fn run(schema: &Schema, connection: &mut Connection) -> Result<(), StorageError> {
    let latest = schema.migrations.len();
    loop {
        let version = version(connection).map_err(|error| storage_error(schema.file, error))?;
        if version > latest {
            return Err(StorageError::other(format!(
                "{}: a newer release has written it (its tables are of version {version}, and this release knows {latest}): \
                 use that release, or a folder of its own for this one (data_dir)",
                schema.file
            )));
        }
        let Some(migration) = schema.migrations.get(version) else { return Ok(()) };
        run_one(connection, version, migration).map_err(|error| storage_error(schema.file, error))?;
    }
}

/// Runs the migration that follows version `before`, unless another process has run it meanwhile.
fn run_one(connection: &mut Connection, before: usize, migration: &str) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if version(&transaction)? == before {
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", before + 1)?;
    }
    transaction.commit()
}

/// Writes the version that is stored already, to check that the database can be written.
pub(super) fn rewrite_version(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "user_version", version(connection)?)
}

fn version(connection: &Connection) -> rusqlite::Result<usize> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use domain::StorageErrorKind;

    use super::*;
    use crate::{catalog, durable};

    const SCHEMAS: [&Schema; 2] = [&durable::HISTORY_SCHEMA, &catalog::CATALOG_SCHEMA];

    #[test]
    fn a_database_of_every_earlier_version_is_migrated_once() {
        for schema in SCHEMAS {
            for earlier in 0..=schema.migrations.len() {
                let mut database = Connection::open_in_memory().unwrap();
                for migration in &schema.migrations[..earlier] {
                    database.execute_batch(migration).unwrap();
                }
                database.pragma_update(None, "user_version", earlier).unwrap();
                for _ in 0..2 {
                    run(schema, &mut database).unwrap();
                    assert_eq!(version(&database), Ok(schema.migrations.len()));
                }
            }
        }
    }

    #[test]
    fn the_database_of_a_newer_release_is_left_alone() {
        for schema in SCHEMAS {
            let mut database = Connection::open_in_memory().unwrap();
            database.pragma_update(None, "user_version", schema.migrations.len() + 1).unwrap();
            let error = run(schema, &mut database).unwrap_err();
            assert_eq!(error.kind(), StorageErrorKind::Other, "a newer release is no damage");
            let message = error.to_string();
            assert!(message.starts_with(schema.file), "{message}");
            assert!(message.contains("newer release") && message.contains("data_dir"), "{message}");
        }
    }
}
