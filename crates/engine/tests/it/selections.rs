//! Questions about a selection, over the real retriever with a knowledge base that matches them too.

use std::sync::Arc;

use domain::{
    Catalog, Chunk, Document, DocumentLocation, Index, NewDocument, Passage, Principal, Retriever,
    SearchScope, SourceKind, Step, Timestamp, line_ends,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use retrieval::{EmbeddedIndex, Fusion, HybridRetriever};
use storage::SqliteCatalog;
use testing::FakeEmbedder;

use crate::harness::{Harness, StorePorts, ask, limits, read_all};

/// A word that only the knowledge base has.
const ELSEWHERE: &str = "elsewhere";

/// A retriever whose knowledge base answers every question with words that no selection has.
async fn retriever() -> Arc<dyn Retriever> {
    let text = format!("{ELSEWHERE} why what how cats dogs words ß 🙂 あ\n");
    let place = DocumentLocation { collection: "c".into(), repo_url: "r".into(), file_path: "f.md".into() };
    let id = place.document();
    let chunk = Chunk {
        id: Chunk::id(id, "", &text, 0),
        bytes: 0..text.len(),
        lines: (1, 1),
        kind: None,
        section: None,
        subsection: None,
        anchor: None,
        context: String::new(),
    };
    let document = Document {
        id,
        place,
        source: SourceKind::Api,
        title: ELSEWHERE.to_owned(),
        language: None,
        url: None,
        module: None,
        tags: Vec::new(),
        metadata: Default::default(),
        text,
    };
    let new = NewDocument { document, chunks: vec![chunk], digest: [0; 32], at: Timestamp::from_micros(1) };
    let catalog = Arc::new(SqliteCatalog::in_memory());
    catalog.put(&Principal::local(), vec![new]).await.expect("a sound document is stored");
    let changes = catalog.changes_since(0, FakeEmbedder::MODEL, 9).await.expect("the changes are readable");
    let index = EmbeddedIndex::in_memory(FakeEmbedder::MODEL).expect("an index in memory");
    index.apply(changes).await.expect("sound changes are applied");
    Arc::new(HybridRetriever::new(catalog, Arc::new(index), Arc::new(FakeEmbedder::new()), Fusion::Weighted))
}

/// Checks that a passage is at its characters and lines of the selection.
fn check_position(passage: &Passage, selection: &str) {
    let ((start, end), (first, last)) = (passage.chars.expect("characters"), passage.lines.expect("lines"));
    let until = |chars: u32| selection.chars().take(chars as usize).collect::<String>();
    let quoted: String = selection.chars().take(end as usize).skip(start as usize).collect();
    assert_eq!(passage.text, quoted);
    assert_eq!((first, last), (1 + line_ends(&until(start)), 1 + line_ends(&until(end))), "{passage:?}");
}

#[tokio::test(start_paused = true)]
async fn only_the_selection_reaches_the_model_and_every_passage_has_its_true_position() {
    let retriever = retriever().await;
    let limits = engine::Limits { question_chars: 20_000, ..limits() };
    let mut harness = Harness::with(StorePorts { retriever, ..StorePorts::memory() }, limits);
    let general = harness.start_session().await;
    let _reader = harness.ask(general, "why cats?", None).await.expect("it is admitted");
    let found = harness.calls.next().await.request().passages.clone();
    assert!(
        found.iter().any(|passage| passage.text.contains(ELSEWHERE)),
        "the knowledge base matches the question"
    );

    let text = "([a-zß🙂あ]{1,12}[ .。\t\r\n]{0,4}){0,400}[a-z]";
    let cases = (text, "(why|what|how) (cats|dogs|words|🙂|あ)\\?", 1_u32..=20);
    let mut runner = TestRunner::new(Config::default());
    for _ in 0..200 {
        let (selection, question, top_k) = cases.new_tree(&mut runner).expect("a case").current();
        let session = harness.start_session().await;
        let mut asked = ask(session, &question, None);
        asked.question.scope = SearchScope::Selection(selection.as_str().into());
        asked.question.top_k = top_k;
        let mut reader = harness.submit(asked).await.expect("it is admitted");
        let call = harness.calls.next().await;
        let request = call.request().clone();
        call.text("So.");
        call.finish();
        let log = read_all(&mut reader).await;
        assert!(!request.passages.is_empty() && request.passages.len() <= top_k as usize);
        request.passages.iter().for_each(|passage| check_position(passage, &selection));
        assert!(!format!("{request:?}").contains(ELSEWHERE), "{request:?}");
        let logged = log.iter().find_map(|event| match &event.step {
            Step::Passages(passages) => Some(&passages.in_prompt),
            _ => None,
        });
        assert_eq!(logged, Some(&request.passages), "the log has what the model got");
    }
}
