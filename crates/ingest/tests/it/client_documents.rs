//! Documents of a client's call, ingested into a real catalog.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    Catalog, DocumentLocation, IndexSync, Ingest, IngestFailure, IngestStage, IngestedDocument, Principal,
    RawDocument, Rejection, StorageError,
};
use ingest::{Pipeline, PipelinePorts, PipelineSettings};
use testing::{FakeEmbedder, PausedClock};

use crate::library::Library;

fn raw(path: &str, text: &str) -> RawDocument {
    let place = DocumentLocation {
        collection: "default".to_owned(),
        repo_url: "https://example.org/it".to_owned(),
        file_path: path.to_owned(),
    };
    RawDocument {
        place,
        source: domain::SourceKind::Api,
        title: None,
        text: text.to_owned(),
        metadata: Default::default(),
    }
}

async fn ingest(
    library: &Library,
    documents: Vec<RawDocument>,
) -> Vec<Result<IngestedDocument, IngestFailure>> {
    library.pipeline.ingest(&Principal::local(), documents).await.unwrap()
}

fn stages(results: &[Result<IngestedDocument, IngestFailure>]) -> Vec<Option<IngestStage>> {
    results.iter().map(|result| result.as_ref().err().map(|failure| failure.stage)).collect()
}

#[tokio::test]
async fn documents_get_the_ids_of_their_locations() {
    let library = Library::new();
    let documents = vec![raw("a.md", "# A\n\nText.\n"), raw("b/c.py", "def f():\n    pass\n")];
    let ids: Vec<_> = documents.iter().map(|document| document.place.document()).collect();
    let results = ingest(&library, documents.clone()).await;
    let expected: Vec<_> = ids.iter().map(|id| Ok(IngestedDocument { document: *id, chunks: 1 })).collect();
    assert_eq!(results, expected);
    assert_eq!(library.unembedded().await, 0);
    assert_eq!(library.embedder.take_embedded().len(), 2);
    assert_eq!(ingest(&library, documents).await, expected);
    assert_eq!(
        library.embedder.take_embedded(),
        Vec::<String>::new(),
        "an unchanged document is not embedded again"
    );
}

#[tokio::test]
async fn a_given_title_module_and_url_take_precedence() {
    let library = Library::new();
    let mut document = raw("docs/guide/a.md", "# Heading\n\nText.\n");
    document.title = Some("Given".to_owned());
    document.metadata.insert("module".to_owned(), "\"mine\"".to_owned());
    document.metadata.insert("url".to_owned(), "\"https://example.org/a\"".to_owned());
    ingest(&library, vec![document.clone()]).await;
    let stored = library.documents().await.remove("docs/guide/a.md").unwrap().document;
    assert_eq!((stored.title.as_str(), stored.module.as_deref()), ("Given", Some("mine")));
    assert_eq!(stored.url.as_deref(), Some("https://example.org/a"));
    document.metadata.insert("url".to_owned(), "5".to_owned());
    document.title = Some("Another".to_owned());
    ingest(&library, vec![document]).await;
    let stored = library.documents().await.remove("docs/guide/a.md").unwrap().document;
    assert_eq!(
        (stored.title.as_str(), stored.url),
        ("Another", None),
        "a new title or URL replaces the document"
    );
}

#[tokio::test]
async fn a_bad_document_does_not_affect_the_others() {
    let library = Library::new();
    let documents = vec![
        raw("good.md", "# Good\n"),
        raw("nul.md", "a\0b"),
        raw("refused.md", "# No\n\nREFUSED\n"),
        raw("fine.md", "# Fine\n"),
    ];
    let results = ingest(&library, documents).await;
    assert_eq!(stages(&results), [None, Some(IngestStage::Parsing), Some(IngestStage::Embedding), None]);
    assert_eq!(
        library.paths().await,
        ["fine.md", "good.md", "refused.md"],
        "a document without vectors is still stored"
    );
    assert_eq!(library.unembedded().await, 1);
    let failure = results[2].as_ref().unwrap_err();
    assert!(failure.message.contains("the embedder refuses a text"), "{}", failure.message);
}

#[tokio::test]
async fn embedding_stops_when_the_embedder_refuses_everything() {
    let library = Library::new();
    let document = |number| raw(&format!("{number}.md"), "# No\n\nREFUSED\n");
    let results = ingest(&library, (0..300).map(document).collect()).await;
    assert!(stages(&results).iter().all(|stage| *stage == Some(IngestStage::Embedding)));
}

#[tokio::test]
async fn a_call_embeds_only_its_own_documents() {
    let library = Library::new();
    ingest(&library, vec![raw("left.md", "# Left\n\nBROKEN\n")]).await;
    assert_eq!(stages(&ingest(&library, vec![raw("mine.md", "# Mine\n")]).await), [None]);
    assert_eq!(library.unembedded().await, 1);
}

#[tokio::test]
async fn of_duplicate_documents_in_a_call_the_last_is_stored_and_the_others_are_rejected() {
    let library = Library::new();
    let documents = vec![raw("a.md", "# Old\n"), raw("b.md", "# B\n"), raw("a.md", "# New\n")];
    let results = ingest(&library, documents).await;
    assert_eq!(stages(&results), [Some(IngestStage::Filing), None, None]);
    let failure = results[0].as_ref().unwrap_err();
    assert_eq!(failure.message, "the same place comes again later in this request: send each place once");
    assert_eq!(failure.place.file_path, "a.md");
    assert_eq!(library.documents().await["a.md"].document.title, "New");
    assert_eq!(library.embedder.take_embedded().len(), 2, "a rejected document is not embedded");
}

#[tokio::test]
async fn a_byte_order_mark_is_not_part_of_the_text() {
    let library = Library::new();
    ingest(&library, vec![raw("a.md", "\u{feff}---\ntags: [a]\n---\n# A\n")]).await;
    let id = raw("a.md", "").place.document();
    let stored = library.knowledge.document(&Principal::local(), id).await.unwrap().unwrap();
    assert_eq!(stored.document.text, "---\ntags: [a]\n---\n# A\n");
    assert_eq!(stored.document.tags, ["a"]);
}

#[tokio::test]
async fn equal_paragraphs_get_different_chunk_ids() {
    let library = Library::new();
    let paragraph = "The same words once more. ".repeat(80);
    let text = format!("{paragraph}\n\n").repeat(20);
    let results = ingest(&library, (0..40).map(|n| raw(&format!("{n}.txt"), &text)).collect()).await;
    assert!(results.iter().all(|result| result.as_ref().unwrap().chunks > 10));
}

/// An index that cannot follow the catalog.
struct FailingIndex;

#[async_trait]
impl IndexSync for FailingIndex {
    async fn wait_until_searchable(&self) -> Result<(), StorageError> {
        Err(StorageError::other("the index is read-only".to_owned()))
    }
}

#[tokio::test]
async fn a_document_that_does_not_become_searchable_fails() {
    let library = Library::new();
    let ports = PipelinePorts {
        catalog: library.knowledge.clone(),
        embedder: Arc::new(FakeEmbedder::new()),
        clock: Arc::new(PausedClock::new()),
        index_sync: Some(Arc::new(FailingIndex)),
    };
    let pipeline = Pipeline::new(ports, PipelineSettings::default());
    let results = pipeline.ingest(&Principal::local(), vec![raw("a.md", "# A\n")]).await.unwrap();
    assert_eq!(stages(&results), [Some(IngestStage::Indexing)]);
    assert!(
        library
            .knowledge
            .document(&Principal::local(), raw("a.md", "").place.document())
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test]
async fn a_call_beyond_the_maximum_is_rejected() {
    let library = Library::new();
    let ports = PipelinePorts {
        catalog: library.knowledge.clone(),
        embedder: library.embedder.clone(),
        clock: Arc::new(PausedClock::new()),
        index_sync: None,
    };
    let pipeline = Pipeline::new(ports, PipelineSettings { max_calls: 0, ..PipelineSettings::default() });
    let result = pipeline.ingest(&Principal::local(), vec![raw("a.md", "# A\n")]).await;
    assert!(matches!(result, Err(Rejection::Overloaded { .. })), "{result:?}");
}
