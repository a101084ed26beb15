//! Documents of a call, taken into a real catalog.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    Catalog, DocumentLocation, IndexSync, Ingest, IngestFailure, IngestStage, IngestedDocument, Principal,
    RawDocument, Rejection, StorageError,
};
use ingest::{Pipeline, Ports, Settings};
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

fn stages(fates: &[Result<IngestedDocument, IngestFailure>]) -> Vec<Option<IngestStage>> {
    fates.iter().map(|fate| fate.as_ref().err().map(|why| why.stage)).collect()
}

#[tokio::test]
async fn documents_are_filed_under_the_ids_of_their_places() {
    let library = Library::new();
    let documents = vec![raw("a.md", "# A\n\nText.\n"), raw("b/c.py", "def f():\n    pass\n")];
    let ids: Vec<_> = documents.iter().map(|document| document.place.document()).collect();
    let fates = ingest(&library, documents.clone()).await;
    let expected: Vec<_> = ids.iter().map(|id| Ok(IngestedDocument { document: *id, chunks: 1 })).collect();
    assert_eq!(fates, expected);
    assert_eq!(library.unembedded().await, 0);
    assert_eq!(library.embedder.take_embedded().len(), 2);
    assert_eq!(ingest(&library, documents).await, expected);
    assert_eq!(
        library.embedder.take_embedded(),
        Vec::<String>::new(),
        "what did not change is not embedded again"
    );
}

#[tokio::test]
async fn a_given_title_module_and_url_are_kept() {
    let library = Library::new();
    let mut document = raw("docs/guide/a.md", "# Heading\n\nText.\n");
    document.title = Some("Given".to_owned());
    document.metadata.insert("module".to_owned(), "\"mine\"".to_owned());
    document.metadata.insert("url".to_owned(), "\"https://example.org/a\"".to_owned());
    ingest(&library, vec![document.clone()]).await;
    let filed = library.documents().await.remove("docs/guide/a.md").unwrap().document;
    assert_eq!((filed.title.as_str(), filed.module.as_deref()), ("Given", Some("mine")));
    assert_eq!(filed.url.as_deref(), Some("https://example.org/a"));
    document.metadata.insert("url".to_owned(), "5".to_owned());
    document.title = Some("Another".to_owned());
    ingest(&library, vec![document]).await;
    let filed = library.documents().await.remove("docs/guide/a.md").unwrap().document;
    assert_eq!(
        (filed.title.as_str(), filed.url),
        ("Another", None),
        "a name that changed changes the document"
    );
}

#[tokio::test]
async fn one_bad_document_stops_no_other() {
    let library = Library::new();
    let documents = vec![
        raw("good.md", "# Good\n"),
        raw("nul.md", "a\0b"),
        raw("refused.md", "# No\n\nREFUSED\n"),
        raw("fine.md", "# Fine\n"),
    ];
    let fates = ingest(&library, documents).await;
    assert_eq!(stages(&fates), [None, Some(IngestStage::Parsing), Some(IngestStage::Embedding), None]);
    assert_eq!(
        library.paths().await,
        ["fine.md", "good.md", "refused.md"],
        "it is found by its words at least"
    );
    assert_eq!(library.unembedded().await, 1);
    let why = fates[2].as_ref().unwrap_err();
    assert!(why.message.contains("the embedder refuses a text"), "{}", why.message);
}

#[tokio::test]
async fn an_embedder_that_refuses_everything_is_not_asked_for_ever() {
    let library = Library::new();
    let document = |number| raw(&format!("{number}.md"), "# No\n\nREFUSED\n");
    let fates = ingest(&library, (0..300).map(document).collect()).await;
    assert!(stages(&fates).iter().all(|stage| *stage == Some(IngestStage::Embedding)));
}

#[tokio::test]
async fn a_call_embeds_its_own_documents_and_not_what_others_left() {
    let library = Library::new();
    ingest(&library, vec![raw("left.md", "# Left\n\nBROKEN\n")]).await;
    assert_eq!(stages(&ingest(&library, vec![raw("mine.md", "# Mine\n")]).await), [None]);
    assert_eq!(library.unembedded().await, 1);
}

#[tokio::test]
async fn a_document_twice_in_a_call_is_filed_as_the_later_one_and_the_earlier_one_is_refused() {
    let library = Library::new();
    let documents = vec![raw("a.md", "# Old\n"), raw("b.md", "# B\n"), raw("a.md", "# New\n")];
    let fates = ingest(&library, documents).await;
    assert_eq!(stages(&fates), [Some(IngestStage::Filing), None, None]);
    let why = fates[0].as_ref().unwrap_err();
    assert_eq!(why.message, "the same place comes again later in this request: send each place once");
    assert_eq!(why.place.file_path, "a.md");
    assert_eq!(library.documents().await["a.md"].document.title, "New");
    assert_eq!(library.embedder.take_embedded().len(), 2, "what is not filed is not embedded");
}

#[tokio::test]
async fn a_byte_order_mark_is_no_part_of_a_text() {
    let library = Library::new();
    ingest(&library, vec![raw("a.md", "\u{feff}---\ntags: [a]\n---\n# A\n")]).await;
    let id = raw("a.md", "").place.document();
    let filed = library.knowledge.document(&Principal::local(), id).await.unwrap().unwrap();
    assert_eq!(filed.document.text, "---\ntags: [a]\n---\n# A\n");
    assert_eq!(filed.document.tags, ["a"]);
}

#[tokio::test]
async fn equal_paragraphs_are_chunks_that_can_be_told_apart() {
    let library = Library::new();
    let paragraph = "The same words once more. ".repeat(80);
    let text = format!("{paragraph}\n\n").repeat(20);
    let fates = ingest(&library, (0..40).map(|n| raw(&format!("{n}.txt"), &text)).collect()).await;
    assert!(fates.iter().all(|fate| fate.as_ref().unwrap().chunks > 10));
}

/// An index that never catches up.
struct Behind;

#[async_trait]
impl IndexSync for Behind {
    async fn wait_until_searchable(&self) -> Result<(), StorageError> {
        Err(StorageError::other("the index is read-only".to_owned()))
    }
}

#[tokio::test]
async fn a_call_is_not_answered_with_success_before_its_documents_are_searchable() {
    let library = Library::new();
    let ports = Ports {
        catalog: library.knowledge.clone(),
        embedder: Arc::new(FakeEmbedder::new()),
        clock: Arc::new(PausedClock::new()),
        published: Some(Arc::new(Behind)),
    };
    let pipeline = Pipeline::new(ports, Settings::default());
    let fates = pipeline.ingest(&Principal::local(), vec![raw("a.md", "# A\n")]).await.unwrap();
    assert_eq!(stages(&fates), [Some(IngestStage::Indexing)]);
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
async fn a_call_too_many_is_refused() {
    let library = Library::new();
    let ports = Ports {
        catalog: library.knowledge.clone(),
        embedder: library.embedder.clone(),
        clock: Arc::new(PausedClock::new()),
        published: None,
    };
    let pipeline = Pipeline::new(ports, Settings { calls: 0, ..Settings::default() });
    let refused = pipeline.ingest(&Principal::local(), vec![raw("a.md", "# A\n")]).await;
    assert!(matches!(refused, Err(Rejection::Overloaded { .. })), "{refused:?}");
}
