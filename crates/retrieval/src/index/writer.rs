//! The one who changes the index: a commit has all changes of a revision and its label, or it never happened.

use domain::CatalogChanges;
use tantivy::indexer::{IndexWriterOptions, LogMergePolicy};
use tantivy::{Index, IndexWriter};

use super::entry::{Entry, Fields};
use super::label::Label;

/// What is gathered in memory before a segment is written; the least that tantivy allows is 15 MB.
const BYTES: usize = 48 << 20;

/// A segment of which more is deleted is rewritten.
const MOST_DELETED: f32 = 0.3;

/// Writes into an index, as the only one who does.
pub(crate) struct Writer {
    index: Index,
    fields: Fields,
    /// None after something failed: what tantivy had gathered is gone with it.
    open: Option<IndexWriter<Entry>>,
}

impl Writer {
    pub(crate) fn open(index: Index, fields: Fields) -> tantivy::Result<Self> {
        let open = Some(open(&index)?);
        Ok(Self { index, fields, open })
    }

    /// Commits changes and their label. After a failure the same changes may be committed again.
    pub(crate) fn commit(&mut self, changes: CatalogChanges, label: &Label) -> tantivy::Result<()> {
        let mut writer = match self.open.take() {
            Some(writer) => writer,
            None => open(&self.index)?,
        };
        let written = write(&writer, self.fields, changes);
        // Threads write, and only their ends tell what went wrong in them.
        let mut commit = writer.prepare_commit()?;
        written?;
        commit.set_payload(&label.to_string());
        commit.commit()?;
        self.open = Some(writer);
        Ok(())
    }
}

fn open(index: &Index) -> tantivy::Result<IndexWriter<Entry>> {
    let options = IndexWriterOptions::builder()
        .memory_budget_per_thread(BYTES)
        .num_worker_threads(1)
        .num_merge_threads(1)
        .build();
    let writer = index.writer_with_options(options)?;
    let mut merges = LogMergePolicy::default();
    merges.set_del_docs_ratio_before_merge(MOST_DELETED);
    writer.set_merge_policy(Box::new(merges));
    Ok(writer)
}

/// Revision 0 has nothing in it: an index that is told of it has followed another catalog.
fn write(writer: &IndexWriter<Entry>, fields: Fields, changes: CatalogChanges) -> tantivy::Result<()> {
    if changes.revision == 0 {
        writer.delete_all_documents()?;
        return Ok(());
    }
    for (who, chunk) in changes.removed {
        writer.delete_term(fields.key(&who, chunk));
    }
    for chunk in changes.added {
        writer.delete_term(fields.key(&chunk.who, chunk.chunk));
        writer.add_document(Entry::new(fields, chunk))?;
    }
    Ok(())
}
