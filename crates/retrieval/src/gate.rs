//! The relevance gate: whether anything that was found is likely to answer the question. It decides only whether
//! nothing was found; it leaves no passage out.

use domain::Candidate;

/// The model whose cosines the gate was calibrated with. Those of another mean something else, so that the gate is
/// open for it.
const MODEL: &str = "granite-embedding-30m-english";

/// The cosine that the best candidate of a question has at least, if anything answers it. Of ClapNQ's
/// development questions that a passage answers none is below it; docs/retrieval.md tells how it was settled.
const LEAST: f32 = 0.60;

/// Whether any candidate is likely to answer the question, by the cosines that a model gave them. Candidates
/// without a vector yet speak for themselves: nobody knows what they are worth.
pub(crate) fn lets_through(model: &str, candidates: &[Candidate]) -> bool {
    let reaches = |candidate: &Candidate| candidate.cosine.is_none_or(|cosine| cosine >= LEAST);
    candidates.iter().any(|candidate| model != MODEL || reaches(candidate))
}

#[cfg(test)]
mod tests {
    use domain::{ChunkId, DocumentId};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn one_candidate_that_is_near_enough_opens_the_gate() {
        check(MODEL, &[Some(0.45), Some(0.70)], true);
        check(MODEL, &[Some(LEAST)], true);
        check(MODEL, &[Some(0.45), Some(0.55)], false);
    }

    #[test]
    fn nothing_is_never_relevant() {
        check(MODEL, &[], false);
        check("another-model", &[], false);
    }

    #[test]
    fn the_gate_is_open_for_models_it_was_not_calibrated_for() {
        check("another-model", &[Some(0.1)], true);
    }

    #[test]
    fn a_chunk_without_a_vector_yet_may_be_relevant() {
        check(MODEL, &[Some(0.45), None], true);
    }

    fn check(model: &str, cosines: &[Option<f32>], expected: bool) {
        let candidate = |cosine| Candidate {
            chunk: ChunkId(Uuid::nil()),
            document: DocumentId(Uuid::nil()),
            is_code: false,
            lexical: Some((0, 1.0)),
            dense: None,
            cosine,
        };
        let candidates: Vec<Candidate> = cosines.iter().copied().map(candidate).collect();
        assert_eq!(lets_through(model, &candidates), expected, "{model}: {cosines:?}");
    }
}
