//! Texts that are too long or empty.

use domain::{Embedder, EmbeddingPriority};
use testing::FakeModel;

use super::{KINDS, Kind, check_vectors, embedder, numbered, plain};

#[tokio::test]
async fn a_text_that_is_too_long_is_cut_and_does_not_fail_the_others() {
    let fake = FakeModel::start().await;
    let embedder = embedder(Kind::OpenAi, &fake, "fake,longest=10", |settings| settings.token_limit = 10);
    let mut texts = numbered(8);
    texts[5] = "word ".repeat(25);
    let vectors = embedder.embed(texts.clone(), EmbeddingPriority::Bulk).await.unwrap();
    // At four bytes per token, ten tokens are eight of these words.
    texts[5] = "word ".repeat(8);
    check_vectors(&vectors, &texts);
    let sizes: Vec<_> = fake.embeddings().iter().map(|seen| seen.texts().len()).collect();
    assert_eq!(sizes, [8, 4, 4, 2, 1, 1, 1, 2], "the half with the long text is halved until it is alone");
}

#[tokio::test]
async fn a_text_that_stays_too_long_fails_in_the_end() {
    let fake = FakeModel::start().await;
    let embedder = embedder(Kind::OpenAi, &fake, "fake,longest=0", |settings| settings.token_limit = 10);
    let failure = embedder.embed(vec!["word ".repeat(25)], EmbeddingPriority::Bulk).await.unwrap_err();
    assert!(failure.message.contains("a text has more than 0 words"), "{failure}");
    assert_eq!(fake.embeddings().len(), 5, "whole, and at four, three, two and one bytes per token");
}

#[tokio::test]
async fn ollama_cuts_long_texts_itself() {
    let fake = FakeModel::start().await;
    let embedder = plain(Kind::Ollama, &fake, "fake,longest=2");
    let vectors =
        embedder.embed(vec!["one two three".to_owned()], EmbeddingPriority::Interactive).await.unwrap();
    check_vectors(&vectors, &["one two".to_owned()]);
}

#[tokio::test]
async fn no_texts_need_no_call_and_an_empty_text_has_a_vector() {
    for kind in KINDS {
        let fake = FakeModel::start().await;
        let embedder = plain(kind, &fake, "fake");
        assert_eq!(
            embedder.embed(Vec::new(), EmbeddingPriority::Interactive).await.unwrap(),
            Vec::<Vec<f32>>::new()
        );
        assert_eq!(fake.embeddings().len(), 0, "{kind:?}");
        embedder.embed(vec![String::new()], EmbeddingPriority::Interactive).await.unwrap();
        assert_eq!(fake.embeddings()[0].texts(), [" "], "{kind:?}");
    }
}
