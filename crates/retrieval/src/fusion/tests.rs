use domain::DocumentId;
use uuid::Uuid;

use super::*;

#[test]
fn lexical_scores_count_more_in_prose_than_in_code() {
    let lexical_first = candidate(1, Some((0, 9.0)), None, 0.79);
    let dense_first = candidate(2, Some((1, 3.0)), Some(0), 0.81);
    let far = candidate(3, None, Some(1), 0.70);
    let prose = vec![lexical_first, dense_first, far];
    check(Fusion::Weighted, prose.clone(), &[1, 2, 3]);

    let code = prose.into_iter().map(|candidate| Candidate { is_code: true, ..candidate }).collect();
    check(Fusion::Weighted, code, &[2, 1, 3]);
}

#[test]
fn reciprocal_rank_fusion_puts_a_candidate_of_both_rankings_first() {
    let candidates = vec![
        candidate(1, Some((0, 9.0)), None, 0.5),
        candidate(2, Some((5, 3.0)), Some(5), 0.5),
        candidate(3, None, Some(0), 0.9),
    ];
    check(Fusion::ReciprocalRank, candidates, &[2, 1, 3]);
}

#[test]
fn reranking_keeps_the_rank_of_the_fusion() {
    let candidates = vec![
        candidate(1, Some((0, 9.0)), None, 0.79),
        candidate(2, Some((1, 3.0)), Some(0), 0.81),
        candidate(3, None, Some(1), 0.70),
    ];
    let ranks = |fusion: Fusion| {
        let ranked = fusion.rank(candidates.clone());
        let ranks = |ranked: &RankedCandidate| (ranked.fused.0, ranked.reranked.map(|(rank, _)| rank));
        ranked.iter().map(ranks).collect::<Vec<_>>()
    };
    assert_eq!(ranks(Fusion::Weighted), [(1, Some(0)), (0, Some(1)), (2, Some(2))]);
    assert_eq!(ranks(Fusion::ReciprocalRank), [(0, None), (1, None), (2, None)]);
    let reranked = &Fusion::Weighted.rank(candidates.clone())[1];
    assert_eq!(reranked.fused, Fusion::ReciprocalRank.rank(candidates)[0].fused);
}

#[test]
fn candidates_without_vectors_are_ordered_by_their_lexical_score() {
    let bare = |number, lexical| Candidate { cosine: None, ..candidate(number, Some(lexical), None, 0.0) };
    check(Fusion::Weighted, vec![bare(1, (1, 2.0)), bare(2, (0, 3.0)), bare(3, (2, 2.0))], &[2, 1, 3]);
}

#[test]
fn the_only_lexical_match_comes_before_candidates_of_equal_cosine() {
    let alike = |number, lexical| candidate(number, lexical, Some(0), 0.7);
    check(Fusion::Weighted, vec![alike(1, None), alike(2, Some((0, 3.0))), alike(3, None)], &[2, 1, 3]);
}

#[test]
fn empty_and_single_candidate_lists_are_ranked() {
    check(Fusion::Weighted, vec![], &[]);
    check(Fusion::Weighted, vec![candidate(1, None, Some(0), 0.5)], &[1]);
}

fn candidate(number: u128, lexical: Option<(usize, f32)>, dense: Option<usize>, cosine: f32) -> Candidate {
    Candidate {
        chunk: ChunkId(Uuid::from_u128(number)),
        document: DocumentId(Uuid::nil()),
        is_code: false,
        lexical,
        dense,
        cosine: Some(cosine),
    }
}

fn check(fusion: Fusion, candidates: Vec<Candidate>, expected: &[u128]) {
    let ranked = fusion.rank(candidates);
    assert_eq!(ranked.iter().map(|ranked| ranked.candidate.chunk.0.as_u128()).collect::<Vec<_>>(), expected);
}
