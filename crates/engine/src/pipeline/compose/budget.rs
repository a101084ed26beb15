//! Fits passages into a token budget: the best ones get the most room, and a passage that is too long is cut
//! to the sentences that the question is about. For a model with a prefix cache, passages go in whole or not
//! at all. Pure.

use domain::Passage;

use super::extract::extract;
use crate::text::words::content_words;

/// Lower bound on the tokens of a passage when passages share a budget: with fewer it would say nothing, so
/// the last ones are left out instead.
const MIN_PASSAGE_TOKENS: usize = 48;

/// The passages for a question in a budget of `room` tokens, best first, cut where they do not fit.
pub(super) fn cut_passages(
    passages: Vec<Passage>,
    question: &str,
    mut room: usize,
    count: impl Fn(&str) -> usize,
) -> Vec<Passage> {
    let costs: Vec<usize> = passages.iter().map(|passage| passage.tokens(&count)).collect();
    let taken = if costs.iter().sum::<usize>() <= room {
        passages.len()
    } else {
        // Each passage gets half of the room that those before it left; the last gets all of the rest.
        let halvings = (room / MIN_PASSAGE_TOKENS).checked_ilog2().unwrap_or(0) as usize;
        passages.len().min(1 + halvings)
    };
    let wanted = content_words(question);
    let mut fitted = Vec::with_capacity(taken);
    for (index, passage) in passages.into_iter().take(taken).enumerate() {
        // Half of the room, or all that the passages behind this one do not need.
        let behind: usize = costs[index + 1..taken].iter().sum();
        let share = (room / 2).max(room.saturating_sub(behind));
        let passage =
            if costs[index] <= share { Some(passage) } else { extract(&passage, &wanted, share, &count) };
        let Some(passage) = passage else { continue };
        room = room.saturating_sub(passage.tokens(&count));
        fitted.push(passage);
    }
    fitted
}

/// Whole passages, best first, in a budget of `most` tokens. The best one is taken even if it exceeds the
/// budget; it is cut only if the model's window has no `room` for it.
pub(super) fn whole_passages(
    passages: Vec<Passage>,
    question: &str,
    most: usize,
    room: usize,
    count: impl Fn(&str) -> usize,
) -> Vec<Passage> {
    let mut left = most.min(room);
    let mut taken = Vec::new();
    for passage in passages {
        let tokens = passage.tokens(&count);
        match left.checked_sub(tokens) {
            Some(rest) => left = rest,
            None if !taken.is_empty() => continue,
            None if tokens <= room => left = 0,
            None => return cut_passages(vec![passage], question, room, count),
        }
        taken.push(passage);
    }
    taken
}

#[cfg(test)]
mod tests;
