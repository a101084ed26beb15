//! Writes revisions: one commit contains all changes of a revision and its label.

use domain::CatalogChanges;
use tantivy::indexer::{IndexWriterOptions, LogMergePolicy};
use tantivy::{Index, IndexWriter};

use super::commit_label::CommitLabel;
use super::schema::{ChunkDocument, Fields};

/// Memory for documents before a segment is written; tantivy's minimum is 15 MB.
const MEMORY_BYTES: usize = 48 << 20;

/// Share of deleted documents above which a segment is rewritten.
const MAX_DELETED_SHARE: f32 = 0.3;

/// The only writer of an index.
pub(crate) struct RevisionWriter {
    index: Index,
    fields: Fields,
    /// None after a failed commit: dropping tantivy's writer discards what it had collected.
    writer: Option<IndexWriter<ChunkDocument>>,
}

impl RevisionWriter {
    pub(crate) fn open(index: Index, fields: Fields) -> tantivy::Result<Self> {
        let writer = Some(open_writer(&index)?);
        Ok(Self { index, fields, writer })
    }

    /// Commits changes with their label. After a failure the same changes can be committed again.
    pub(crate) fn commit(&mut self, changes: CatalogChanges, label: &CommitLabel) -> tantivy::Result<()> {
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => open_writer(&self.index)?,
        };
        let written = write(&writer, self.fields, changes);
        // A failure of an indexing thread is only reported when the threads are joined, which this does.
        let mut commit = writer.prepare_commit()?;
        written?;
        commit.set_payload(&label.to_string());
        commit.commit()?;
        self.writer = Some(writer);
        Ok(())
    }
}

fn open_writer(index: &Index) -> tantivy::Result<IndexWriter<ChunkDocument>> {
    let options = IndexWriterOptions::builder()
        .memory_budget_per_thread(MEMORY_BYTES)
        .num_worker_threads(1)
        .num_merge_threads(1)
        .build();
    let writer = index.writer_with_options(options)?;
    let mut merges = LogMergePolicy::default();
    merges.set_del_docs_ratio_before_merge(MAX_DELETED_SHARE);
    writer.set_merge_policy(Box::new(merges));
    Ok(writer)
}

/// Changes of revision 0 empty the index, which belonged to another catalog.
fn write(
    writer: &IndexWriter<ChunkDocument>,
    fields: Fields,
    changes: CatalogChanges,
) -> tantivy::Result<()> {
    if changes.revision == 0 {
        writer.delete_all_documents()?;
        return Ok(());
    }
    for (who, chunk) in changes.removed {
        writer.delete_term(fields.chunk_key(&who, chunk));
    }
    for chunk in changes.added {
        writer.delete_term(fields.chunk_key(&chunk.who, chunk.chunk));
        writer.add_document(ChunkDocument::new(fields, chunk))?;
    }
    Ok(())
}
