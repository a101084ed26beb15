//! The retriever over the real catalog, the real index and a remote embedder with a fake model server.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use domain::{
    Embedder, EmbeddingPriority, EmbeddingShape, Failure, FilterField, Filters, Index, IndexSync, Principal,
    RetrievalQuery, Retrieved, Retriever, SearchScope, Stage, StageName, StorageError, TokenCounter,
};
use providers::{BatchLimits, HttpEmbedderSettings, RemoteEmbedder, RetryLimits};
use retrieval::{EmbeddedIndex, Fusion, HybridRetriever, IndexFollower};
use testing::FakeModel;

use crate::catalog::TestCatalog;
use crate::fixtures::{MODEL, tenant};

/// A fake model with vectors like those of the test catalog.
const FAKE: &str = "fake,dimension=16";

/// The model that the relevance gate is calibrated for.
const GATED: &str = "granite-embedding-30m-english";

#[tokio::test]
async fn a_passage_has_the_location_of_its_chunk() {
    let world = World::new(FAKE, Fusion::Weighted).await;
    let found = world.ask("cats sleep").await;
    let passage = &found.passages[0].passage;
    assert_eq!(passage.text, "cats sleep");
    assert_eq!(passage.title, "cats.md");
    assert_eq!(passage.repo_url.as_deref(), Some("https://example.org/it"));
    assert_eq!(passage.file_path.as_deref(), Some("cats.md"));
    assert_eq!(passage.url.as_deref(), Some("/cats.md#line-1"));
    assert_eq!(passage.lines, Some((1, 1)));
    assert!(found.is_relevant);
    assert_eq!(found.candidates, 3);
}

#[tokio::test]
async fn a_passage_score_is_the_cosine_of_question_and_chunk() {
    let world = World::new(FAKE, Fusion::Weighted).await;
    let question = "cats.md cats sleep";
    let question_vector =
        world.embedder.embed(vec![question.to_owned()], EmbeddingPriority::Interactive).await.unwrap();
    for hit in world.ask(question).await.passages {
        let chunk = format!("{}\n{}", hit.passage.title, hit.passage.text);
        let chunk = world.embedder.embed(vec![chunk], EmbeddingPriority::Bulk).await.unwrap();
        let cosine: f32 = question_vector[0].iter().zip(&chunk[0]).map(|(left, right)| left * right).sum();
        assert!((hit.passage.score - cosine).abs() < 1e-5, "{} is not {cosine}", hit.passage.score);
    }
}

#[tokio::test]
async fn filters_limit_and_threshold_exclude_passages() {
    let world = World::new(FAKE, Fusion::Weighted).await;
    let dogs = Filters::from([(FilterField::FilePath, ["dogs.md".to_owned()].into())]);
    let no_match = Filters::from([(FilterField::FilePath, ["birds.md".to_owned()].into())]);
    for (query, expected) in [
        (RetrievalQuery { scope: SearchScope::Knowledge(dogs), ..query("cats sleep") }, 1),
        (RetrievalQuery { scope: SearchScope::Knowledge(no_match), ..query("cats sleep") }, 0),
        (RetrievalQuery { limit: 2, ..query("cats sleep") }, 2),
        (RetrievalQuery { threshold: Some(0.99), ..query("cats.md cats sleep") }, 1),
        (RetrievalQuery { threshold: Some(1.1), ..query("cats sleep") }, 0),
    ] {
        let found = world.retrieve(&Principal::local(), query.clone()).await.0;
        assert_eq!(found.passages.len(), expected, "{query:?}");
        assert_eq!(found.is_relevant, expected > 0);
    }
}

#[tokio::test]
async fn a_tenant_finds_no_passages_of_another() {
    let world = World::new(FAKE, Fusion::Weighted).await;
    let found = world.retrieve(&tenant("another"), query("cats sleep")).await.0;
    assert_eq!(found, Retrieved::default());
}

#[tokio::test]
async fn a_filter_by_source_url_excludes_the_other_chunks_of_the_document() {
    let world = World::new(FAKE, Fusion::Weighted).await;
    let many: Vec<String> = (0..300).map(|number| format!("cats sleep {number}")).collect();
    world.catalog.put("many.md", &many.iter().map(String::as_str).collect::<Vec<_>>()).await;
    world.follower.wait_until_searchable().await.unwrap();
    // More chunks of the same document rank before them than a search returns.
    let urls = ["/many.md#line-280", "/cats.md#line-2"].map(str::to_owned);
    let scope = SearchScope::Knowledge(Filters::from([(FilterField::SourceUrl, urls.into())]));
    let found = world.retrieve(&Principal::local(), RetrievalQuery { scope, ..query("cats sleep") }).await.0;
    let mut texts: Vec<_> = found.passages.iter().map(|hit| hit.passage.text.as_str()).collect();
    texts.sort_unstable();
    assert_eq!(texts, ["cats eat", "cats sleep 279"]);
    assert_eq!(found.candidates, 2);
}

#[tokio::test]
async fn a_selected_text_is_searched_instead_of_the_knowledge_base() {
    for name in [MODEL, GATED] {
        let world = World::named(name, FAKE, Fusion::Weighted).await;
        let text = format!("dogs bark {}\r\n\r\ncats 🙂 purr {}", "loud ".repeat(150), "soft ".repeat(150));
        let scope = SearchScope::Selection(text.as_str().into());
        let (found, stages) = world
            .retrieve(&Principal::local(), RetrievalQuery { scope, ..query("who is soft, and purrs soft") })
            .await;
        let passages: Vec<_> = found.passages.iter().map(|hit| &hit.passage).collect();
        assert_eq!(passages.len(), 2);
        assert!(passages[0].text.starts_with("cats 🙂 purr") && passages[0].lines == Some((3, 3)));
        for passage in passages {
            let (start, end) = passage.chars.expect("a passage of a selection has its characters");
            let quoted: String = text.chars().take(end as usize).skip(start as usize).collect();
            assert_eq!(quoted, passage.text);
        }
        // The relevance gate does not apply, even with the model it is calibrated for.
        assert!(found.is_relevant);
        let expected = [(StageName::Retrieval, 2), (StageName::Reranking, 2)];
        assert_eq!(names_and_counts(&stages), expected);
        let text: Arc<str> = text.into();
        let limited = RetrievalQuery {
            scope: SearchScope::Selection(text.clone()),
            limit: 1,
            ..query("who is soft, and purrs soft")
        };
        assert_eq!(world.retrieve(&Principal::local(), limited).await.0.passages.len(), 1);
        let best = found.passages[0].passage.score;
        for (threshold, expected) in [(best, 1), (1.1, 0)] {
            let scope = SearchScope::Selection(text.clone());
            let near =
                RetrievalQuery { scope, threshold: Some(threshold), ..query("who is soft, and purrs soft") };
            let found = world.retrieve(&Principal::local(), near).await.0;
            assert_eq!((found.passages.len(), found.is_relevant), (expected, expected > 0), "{threshold}");
        }
        assert_eq!(world.ask("purr").await.candidates, 3, "the selection is not indexed");
    }
}

#[tokio::test]
async fn a_selected_text_is_searched_though_the_knowledge_base_is_empty() {
    let world = World::new(FAKE, Fusion::Weighted).await;
    let empty = HybridRetriever::new(
        TestCatalog::new().catalog(),
        Arc::new(EmbeddedIndex::in_memory(MODEL).unwrap()),
        Arc::clone(&world.embedder) as Arc<dyn Embedder>,
        Fusion::Weighted,
    );
    let scope = SearchScope::Selection("cats purr".into());
    let found = empty
        .retrieve(&Principal::local(), RetrievalQuery { scope, ..query("cats") }, &|_| {})
        .await
        .unwrap();
    assert_eq!(found.passages.len(), 1);
}

#[tokio::test]
async fn a_question_finds_a_document_stored_before_it() {
    let world = World::new(FAKE, Fusion::Weighted).await;
    for number in 1..4 {
        world.catalog.put("birds.md", &[&format!("birds sing {number}")]).await;
        let found = world.ask("birds").await;
        let texts: Vec<_> = found.passages.iter().map(|hit| hit.passage.text.as_str()).collect();
        assert!(texts.contains(&&*format!("birds sing {number}")), "{texts:?}");
    }
}

#[tokio::test]
async fn a_question_finds_the_first_document_of_an_empty_index() {
    let world = World::empty(MODEL, FAKE, Fusion::Weighted).await;
    assert_eq!(world.ask("birds").await.candidates, 0);
    world.catalog.put("birds.md", &["birds sing"]).await;
    assert_eq!(world.ask("birds").await.candidates, 1);
}

#[tokio::test]
async fn a_question_does_not_wait_for_an_index_that_is_not_in_sync() {
    let world = World::new(FAKE, Fusion::Weighted).await;
    world.follower.stop().await;
    assert_eq!(world.ask("purr").await.candidates, 3, "the index is searched as it is");
    let world =
        World { retriever: world.retriever.with_index_sync(Arc::new(NeverInSync), Duration::ZERO), ..world };
    assert_eq!(world.ask("purr").await.candidates, 3);
}

#[tokio::test]
async fn stages_are_reported_as_they_begin_and_end() {
    let found_and_reranked = [(StageName::Retrieval, 3), (StageName::Reranking, 2)];
    check_stages(Fusion::Weighted, MODEL, None, &found_and_reranked).await;
    check_stages(Fusion::ReciprocalRank, MODEL, None, &found_and_reranked[..1]).await;
}

#[tokio::test]
async fn no_reranking_is_reported_without_relevant_candidates() {
    let no_candidates = Filters::from([(FilterField::FilePath, ["birds.md".to_owned()].into())]);
    let world = World::new(FAKE, Fusion::Weighted).await;
    let (_, stages) = world
        .retrieve(
            &Principal::local(),
            RetrievalQuery { scope: SearchScope::Knowledge(no_candidates), ..query("cats") },
        )
        .await;
    assert_eq!(names_and_counts(&stages), [(StageName::Retrieval, 0)]);

    check_stages(Fusion::Weighted, MODEL, Some(1.1), &[(StageName::Retrieval, 3)]).await;
    check_stages(Fusion::Weighted, GATED, None, &[(StageName::Retrieval, 3)]).await;
}

/// Checks the stages that are reported for a question with a limit of two passages.
async fn check_stages(fusion: Fusion, model: &str, threshold: Option<f32>, expected: &[(StageName, usize)]) {
    let world = World::named(model, FAKE, fusion).await;
    let query = RetrievalQuery { limit: 2, threshold, ..query("quartz glows purple") };
    let (_, stages) = world.retrieve(&Principal::local(), query).await;
    assert_eq!(names_and_counts(&stages), expected);
}

fn names_and_counts(stages: &[Stage]) -> Vec<(StageName, usize)> {
    let stages = stages.chunks(2).map(|stage| match stage {
        [Stage::Began(began), Stage::Ended { name, count, .. }] if began == name => (*name, *count),
        other => panic!("not a stage: {other:?}"),
    });
    stages.collect()
}

#[tokio::test]
async fn the_duration_of_a_stage_is_in_whole_microseconds_like_in_a_stored_log() {
    let world = World::new(FAKE, Fusion::Weighted).await;
    for _ in 0..5 {
        for stage in world.retrieve(&Principal::local(), query("cats")).await.1 {
            if let Stage::Ended { took, .. } = stage {
                assert_eq!(took.subsec_nanos() % 1000, 0, "{took:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_passage_has_no_blank_lines_around_it_and_keeps_its_indentation() {
    let world = World::new(FAKE, Fusion::Weighted).await;
    world.catalog.put("birds.md", &["\n \r\n    birds sing\n\n  and fly \n\n"]).await;
    world.follower.wait_until_searchable().await.unwrap();
    let found = world.ask("birds sing and fly").await;
    assert_eq!(found.passages[0].passage.text, "    birds sing\n\n  and fly");
}

#[tokio::test]
async fn a_chunk_that_the_catalog_has_removed_is_excluded() {
    let world = World::new(FAKE, Fusion::Weighted).await;
    world.follower.stop().await;
    world.catalog.put("cats.md", &["cats eat"]).await;
    let found = world.ask("cats").await;
    assert!(found.passages.iter().all(|hit| hit.passage.text != "cats sleep"));
    assert_eq!(found.passages.len(), 2);
}

#[tokio::test]
async fn a_failure_of_the_embedder_is_named_in_the_message() {
    let world = World::new("fake,status=401", Fusion::Weighted).await;
    let failure = world.retriever.retrieve(&Principal::local(), query("cats"), &|_| {}).await.unwrap_err();
    assert!(failure.message.starts_with("embedding the question failed: "), "{failure}");
    assert!(failure.message.contains("401"), "{failure}");
}

struct World {
    _server: FakeModel,
    catalog: TestCatalog,
    follower: Arc<IndexFollower>,
    embedder: Arc<RenamedEmbedder>,
    retriever: HybridRetriever,
}

impl World {
    /// Two documents with three chunks, indexed, and a fake model for questions.
    async fn new(model: &str, fusion: Fusion) -> Self {
        Self::named(MODEL, model, fusion).await
    }

    /// The same, with another name for the fake model.
    async fn named(name: &str, model: &str, fusion: Fusion) -> Self {
        let world = Self::empty(name, model, fusion).await;
        world.catalog.put("cats.md", &["cats sleep", "cats eat"]).await;
        world.catalog.put("dogs.md", &["dogs sleep"]).await;
        world.follower.wait_until_searchable().await.expect("the follower runs");
        world
    }

    /// The same, without documents.
    async fn empty(name: &str, model: &str, fusion: Fusion) -> Self {
        let server = FakeModel::start().await;
        let embedder = RemoteEmbedder::ollama(settings(server.url(), model)).expect("the settings are valid");
        let embedder = Arc::new(RenamedEmbedder { name: name.to_owned(), embedder });
        let catalog = TestCatalog::new();
        let index = Arc::new(EmbeddedIndex::in_memory(MODEL).expect("an index in memory"));
        let follower =
            Arc::new(IndexFollower::start(catalog.catalog(), Arc::clone(&index) as Arc<dyn Index>, MODEL));
        let retriever = HybridRetriever::new(
            catalog.catalog(),
            index,
            Arc::clone(&embedder) as Arc<dyn Embedder>,
            fusion,
        )
        .with_index_sync(follower.clone(), Duration::MAX);
        Self { _server: server, catalog, follower, embedder, retriever }
    }

    async fn ask(&self, text: &str) -> Retrieved {
        self.retrieve(&Principal::local(), query(text)).await.0
    }

    /// The result and the reported stages.
    async fn retrieve(&self, who: &Principal, query: RetrievalQuery) -> (Retrieved, Vec<Stage>) {
        let stages = Mutex::new(Vec::new());
        let on_stage = |stage| stages.lock().expect("the lock is not poisoned").push(stage);
        let found = self.retriever.retrieve(who, query, &on_stage).await.expect("the retrieval succeeds");
        (found, stages.into_inner().expect("the lock is not poisoned"))
    }
}

/// An embedder whose model has another name.
struct RenamedEmbedder {
    name: String,
    embedder: RemoteEmbedder,
}

#[async_trait]
impl Embedder for RenamedEmbedder {
    fn model(&self) -> &str {
        &self.name
    }

    async fn shape(&self) -> Result<EmbeddingShape, Failure> {
        self.embedder.shape().await
    }

    async fn token_counter(&self) -> Result<TokenCounter, Failure> {
        self.embedder.token_counter().await
    }

    async fn embed(&self, texts: Vec<String>, priority: EmbeddingPriority) -> Result<Vec<Vec<f32>>, Failure> {
        self.embedder.embed(texts, priority).await
    }

    async fn health(&self) -> Result<(), Failure> {
        self.embedder.health().await
    }
}

fn query(text: &str) -> RetrievalQuery {
    RetrievalQuery { text: text.to_owned(), scope: SearchScope::default(), threshold: None, limit: 10 }
}

fn settings(base_url: &str, model: &str) -> HttpEmbedderSettings {
    HttpEmbedderSettings {
        name: MODEL.to_owned(),
        base_url: base_url.to_owned(),
        model: model.to_owned(),
        api_key: None,
        connect: Duration::from_secs(5),
        proxy: None,
        dimension: None,
        token_limit: 512,
        batches: BatchLimits { texts: 32, bytes: 1 << 20, calls: 1 },
        timeout: Duration::from_secs(60),
        retries: RetryLimits { attempts: 1, within: Duration::from_secs(1) },
    }
}

/// A sync that never completes.
struct NeverInSync;

#[async_trait]
impl IndexSync for NeverInSync {
    async fn wait_until_searchable(&self) -> Result<(), StorageError> {
        pending().await
    }
}
