//! Passages that a model in this process reads ahead of any question, and keeps: all that are in the catalog, as they
//! would be given to it. Nobody waits for it, and it waits for everybody.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use domain::{
    Catalog, CatalogChanges, ChunkId, Failure, IndexedChunk, Passage, Principal, Provider, StorageError,
    WarmupProgress,
};
use models::chat::{Ahead, LlamaProvider, Read, Room};
use tokio::time::sleep;
use tracing::{debug, info, warn};

/// Chunks that are looked at together.
const CHUNKS: usize = 64;

/// Whose vectors the catalog is asked for: nobody's. A chunk would be told once more with its vector, which came later.
const NO_VECTORS: &str = "";

/// Passages that are read together: as many as a prompt has.
const PASSAGES: usize = 5;

/// How often it is looked whether there are new ones.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What reads ahead.
pub(crate) struct ReadAhead {
    catalog: Arc<dyn Catalog>,
    model: Arc<LlamaProvider>,
    /// All up to this revision were read.
    revision: u64,
}

/// What came of reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Passages that were looked at.
    pub(crate) passages: usize,
    /// Those that had to be read; the others were kept already.
    pub(crate) read: usize,
    /// Passages that are too long for the model.
    pub(crate) too_long: usize,
    /// What is kept of these, and of those that were kept already.
    bytes: u64,
    held: u64,
    /// There was no room to keep the rest.
    pub(crate) full: bool,
}

impl ReadAhead {
    pub(crate) fn new(catalog: Arc<dyn Catalog>, model: Arc<LlamaProvider>) -> Self {
        Self { catalog, model, revision: 0 }
    }

    /// Reads what there is, as long as there is room for it; then what comes, in place of what was used longest ago. How
    /// that goes is told by the model's standing.
    pub(crate) async fn keep_reading(mut self) {
        let model = self.model.clone();
        let (mut all, mut room) = (Outcome::default(), Room::Left);
        model.note_reading_ahead(all.told(Some("the model is being loaded".to_owned())));
        model.ready().await;
        loop {
            let before = all;
            let tell = |outcome: &Outcome| {
                all = before.and(outcome);
                model.note_reading_ahead(all.told(None));
            };
            let state = match self.read(None, room, tell).await {
                Ok(outcome @ Outcome { read, passages, full, .. }) => {
                    all = before.and(&outcome);
                    if read > 0 {
                        debug!(passages, read, "passages read ahead");
                    }
                    if full {
                        info!(
                            "there is no room to keep more passages (models.kept_disk_bytes): the rest is read when asked about"
                        );
                    }
                    room = Room::Made;
                    None
                }
                Err(Trouble::Passing(reason)) => {
                    warn!("passages cannot be read ahead now: {reason}");
                    Some(reason)
                }
                Err(Trouble::Lasting(reason)) => {
                    warn!("passages are not read ahead: {reason}");
                    return model.note_reading_ahead(all.told(Some(reason)));
                }
            };
            model.note_reading_ahead(all.told(state));
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Reads what is new, of one collection or of all, and tells how far it is around every few passages. What there is
    /// no room for is passed over.
    pub(crate) async fn read(
        &mut self,
        collection: Option<&str>,
        room: Room,
        mut tell: impl FnMut(&Outcome),
    ) -> Result<Outcome, Trouble> {
        let mut outcome = Outcome::default();
        loop {
            let changes = self.catalog.changes_since(self.revision, NO_VECTORS, CHUNKS).await;
            let CatalogChanges { revision, more, added, .. } = changes?;
            for (who, chunks) in by_owner(added) {
                if outcome.full {
                    break;
                }
                for passages in self.passages(&who, &chunks, collection).await?.chunks(PASSAGES) {
                    tell(&outcome);
                    self.read_some(passages, room, &mut outcome).await?;
                    tell(&outcome);
                    if outcome.full {
                        break;
                    }
                }
            }
            self.revision = revision;
            if !more {
                return Ok(outcome);
            }
        }
    }

    /// How many passages `read` will look at, if there is room for all.
    pub(crate) async fn count(&self, collection: Option<&str>) -> Result<usize, Trouble> {
        let (mut counted, mut revision) = (0, self.revision);
        loop {
            let changes = self.catalog.changes_since(revision, NO_VECTORS, CHUNKS).await?;
            for (who, chunks) in by_owner(changes.added) {
                counted += self.passages(&who, &chunks, collection).await?.len();
            }
            revision = changes.revision;
            if !changes.more {
                return Ok(counted);
            }
        }
    }

    async fn passages(
        &self,
        who: &Principal,
        chunks: &[ChunkId],
        collection: Option<&str>,
    ) -> Result<Vec<Passage>, Trouble> {
        let pieces = self.catalog.pieces(who, chunks).await?;
        let wanted = pieces.into_iter().filter(|piece| {
            collection.is_none_or(|collection| collection == piece.document.place.collection)
        });
        Ok(wanted.map(|piece| piece.into_passage(0.0)).collect())
    }

    async fn read_some(
        &self,
        passages: &[Passage],
        room: Room,
        outcome: &mut Outcome,
    ) -> Result<(), Trouble> {
        // Half of the room is theirs, whatever is left there of other models and of documents that are gone.
        let theirs = self.model.most_kept_bytes() / 2;
        let room = if outcome.bytes + outcome.held < theirs { Room::Made } else { room };
        match self.read_together(passages, room).await? {
            // Each by itself may fit.
            Ahead::TooLong if passages.len() > 1 => {
                for passage in passages.chunks(1) {
                    let ahead = self.read_together(passage, room).await?;
                    self.note(passage, ahead, outcome);
                }
            }
            ahead => self.note(passages, ahead, outcome),
        }
        Ok(())
    }

    async fn read_together(&self, passages: &[Passage], room: Room) -> Result<Ahead, Trouble> {
        let request = Arc::new(engine::passages_request(passages.to_vec()));
        let failed = |failure: Failure| Trouble::Lasting(failure.to_string());
        match self.model.read_ahead(request, room).await.map_err(failed)? {
            Ahead::Never => Err(Trouble::Lasting("this model reads each prompt as a whole".to_owned())),
            ahead => Ok(ahead),
        }
    }

    fn note(&self, passages: &[Passage], ahead: Ahead, outcome: &mut Outcome) {
        outcome.passages += passages.len();
        match ahead {
            Ahead::Kept(Read { passages, bytes, held, too_long }) => {
                outcome.read += passages;
                outcome.bytes += bytes;
                outcome.held += held;
                outcome.too_long += too_long;
                // More would take the place of what was just read.
                outcome.full |= outcome.bytes >= self.model.most_kept_bytes();
            }
            Ahead::TooLong => outcome.too_long += passages.len(),
            Ahead::Full => outcome.full = true,
            Ahead::Never => {}
        }
    }
}

fn by_owner(added: Vec<IndexedChunk>) -> BTreeMap<Principal, Vec<ChunkId>> {
    let mut chunks: BTreeMap<Principal, Vec<ChunkId>> = BTreeMap::new();
    for indexed in added {
        chunks.entry(indexed.who).or_default().push(indexed.chunk);
    }
    chunks
}

impl Outcome {
    /// What came of this, and then of more.
    fn and(self, more: &Self) -> Self {
        Self {
            passages: self.passages + more.passages,
            read: self.read + more.read,
            too_long: self.too_long + more.too_long,
            bytes: self.bytes + more.bytes,
            held: self.held + more.held,
            full: self.full || more.full,
        }
    }

    fn told(&self, paused: Option<String>) -> WarmupProgress {
        let (done, prefilled) = (self.passages as u64, self.read as u64);
        WarmupProgress { done, total: done, prefilled, paused }
    }
}

/// Why nothing is read.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It may be over the next time.
    Passing(String),
    /// It will not.
    Lasting(String),
}

impl From<StorageError> for Trouble {
    fn from(reason: StorageError) -> Self {
        Self::Passing(reason.to_string())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Passing(reason) | Self::Lasting(reason)) = self;
        f.write_str(reason)
    }
}
