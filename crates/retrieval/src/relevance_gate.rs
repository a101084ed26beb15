//! The relevance gate: decides whether anything that was found is likely to answer the question. It removes
//! no passage; it only says that nothing relevant was found.

use domain::Candidate;

/// The embedding model whose cosines the gate is calibrated for. Cosines of other models have another range,
/// so the gate lets everything through for them.
const CALIBRATED_MODEL: &str = "granite-embedding-30m-english";

/// Minimum cosine of the best candidate. No answerable question of ClapNQ's development set has a best
/// candidate below it; docs/retrieval.md describes the calibration.
const MIN_COSINE: f32 = 0.60;

/// Whether any candidate is likely to answer the question, by the cosines of `model`. A candidate without a
/// vector always passes, since its similarity is unknown.
pub(crate) fn passes(model: &str, candidates: &[Candidate]) -> bool {
    let is_similar = |candidate: &Candidate| candidate.cosine.is_none_or(|cosine| cosine >= MIN_COSINE);
    candidates.iter().any(|candidate| model != CALIBRATED_MODEL || is_similar(candidate))
}

#[cfg(test)]
mod tests {
    use domain::{ChunkId, DocumentId};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn one_similar_candidate_passes() {
        check(CALIBRATED_MODEL, &[Some(0.45), Some(0.70)], true);
        check(CALIBRATED_MODEL, &[Some(MIN_COSINE)], true);
        check(CALIBRATED_MODEL, &[Some(0.45), Some(0.55)], false);
    }

    #[test]
    fn no_candidates_do_not_pass() {
        check(CALIBRATED_MODEL, &[], false);
        check("another-model", &[], false);
    }

    #[test]
    fn any_candidate_of_an_uncalibrated_model_passes() {
        check("another-model", &[Some(0.1)], true);
    }

    #[test]
    fn a_candidate_without_a_vector_passes() {
        check(CALIBRATED_MODEL, &[Some(0.45), None], true);
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
        assert_eq!(passes(model, &candidates), expected, "{model}: {cosines:?}");
    }
}
