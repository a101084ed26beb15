//! Synthetic chunks and questions, the same in every run: word frequencies as in a language, vectors in clusters as an
//! embedder's are.

use std::collections::HashMap;

use domain::{
    Chunk, ChunkId, ChunkKind, Document, DocumentLocation, IndexedChunk, Metadata, NewDocument, Principal,
    SourceKind, Timestamp,
};

const DIMENSION: usize = 384;
const WORDS_IN_CHUNK: usize = 120;
const WORDS_IN_QUESTION: usize = 8;
const CHUNKS_IN_DOCUMENT: usize = 10;
const CLUSTERS: u64 = 1000;
const VOCABULARY: f64 = 50_000.0;

/// Documents filed, or chunks indexed, in one batch.
const AT_ONCE: usize = 4096;

/// A number of chunks.
pub(crate) struct Synthetic {
    chunks: usize,
    numbers: HashMap<ChunkId, u64>,
}

impl Synthetic {
    pub(crate) fn new(chunks: usize) -> Self {
        let numbers = (0..chunks).map(|number| (id(number), number as u64)).collect();
        Self { chunks, numbers }
    }

    /// All documents, some at once.
    pub(crate) fn documents(&self) -> impl Iterator<Item = Vec<NewDocument>> {
        let batch = AT_ONCE / CHUNKS_IN_DOCUMENT * CHUNKS_IN_DOCUMENT;
        let starts = (0..self.chunks).step_by(batch);
        starts.map(move |start| {
            let documents = (start..self.chunks.min(start + batch)).step_by(CHUNKS_IN_DOCUMENT);
            documents.map(|first| document(first..self.chunks.min(first + CHUNKS_IN_DOCUMENT))).collect()
        })
    }

    /// All chunks as an index takes them, some at once.
    pub(crate) fn indexed(&self) -> impl Iterator<Item = Vec<IndexedChunk>> {
        let starts = (0..self.chunks).step_by(AT_ONCE);
        starts.map(move |start| (start..self.chunks.min(start + AT_ONCE)).map(indexed).collect())
    }

    /// The vector of a chunk.
    pub(crate) fn vector_of(&self, chunk: ChunkId) -> Vec<f32> {
        vector(self.numbers[&chunk])
    }

    /// A question's words and vector.
    pub(crate) fn question(&self, number: usize) -> (String, Vec<f32>) {
        let seed = u64::MAX / 2 + number as u64;
        (words(seed, WORDS_IN_QUESTION), vector(seed))
    }
}

fn place(first: usize) -> DocumentLocation {
    DocumentLocation {
        collection: "default".to_owned(),
        repo_url: "https://example.org/synthetic".to_owned(),
        file_path: format!("{}.txt", first / CHUNKS_IN_DOCUMENT),
    }
}

fn id(number: usize) -> ChunkId {
    let first = number / CHUNKS_IN_DOCUMENT * CHUNKS_IN_DOCUMENT;
    Chunk::id(place(first).document(), "", "", number - first)
}

fn indexed(number: usize) -> IndexedChunk {
    let place = place(number);
    IndexedChunk {
        who: Principal::local(),
        chunk: id(number),
        document: place.document(),
        title: String::new(),
        file_path: place.file_path,
        context: String::new(),
        text: words(number as u64, WORDS_IN_CHUNK),
        is_code: false,
        vector: Some(vector(number as u64)),
    }
}

fn document(numbers: std::ops::Range<usize>) -> NewDocument {
    let place = place(numbers.start);
    let mut text = String::new();
    let chunks = (1..).zip(numbers).map(|(line, number)| {
        let start = text.len();
        text.push_str(&words(number as u64, WORDS_IN_CHUNK));
        let bytes = start..text.len();
        text.push('\n');
        Chunk {
            id: id(number),
            bytes,
            lines: (line, line),
            kind: Some(ChunkKind::ParagraphGroup),
            section: None,
            subsection: None,
            anchor: None,
            context: String::new(),
        }
    });
    let chunks = chunks.collect();
    let document = Document {
        id: place.document(),
        source: SourceKind::Api,
        title: place.file_path.clone(),
        language: None,
        url: None,
        module: None,
        tags: Vec::new(),
        metadata: Metadata::new(),
        text,
        place,
    };
    NewDocument { document, chunks, digest: [0; 32], at: Timestamp::from_micros(0) }
}

/// Words whose frequency falls with their rank, as Zipf found it.
fn words(seed: u64, count: usize) -> String {
    let mut random = Random(seed);
    let word = |_| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 1 up to the vocabulary's size"
        )]
        let rank = VOCABULARY.powf(random.fraction()) as u64;
        // Letters only: digits would be words of their own.
        let letters = [rank, rank / 26, rank / 676, rank / 17_576].map(|digit| b'a' + (digit % 26) as u8);
        format!("w{}", letters.map(char::from).iter().collect::<String>())
    };
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}

/// A vector of length one near the middle of its cluster.
fn vector(seed: u64) -> Vec<f32> {
    let mut random = Random(seed ^ 0x5eed);
    let mut middle = Random(random.next() % CLUSTERS);
    let numbers = (0..DIMENSION).map(|_| middle.centred() + 0.8 * random.centred());
    let mut numbers: Vec<f32> = numbers.collect();
    let length = numbers.iter().map(|number| number * number).sum::<f32>().sqrt();
    numbers.iter_mut().for_each(|number| *number /= length);
    numbers
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// About a bell around 0.
    #[expect(clippy::cast_possible_truncation, reason = "chance need not be exact")]
    fn centred(&mut self) -> f32 {
        (0..4).map(|_| self.fraction() as f32 - 0.5).sum()
    }
}
