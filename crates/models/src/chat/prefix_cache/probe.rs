//! Checks once per model that rotating keys moves a KV state: the same tokens are computed at two positions, and the
//! rotated state of one must equal the other. Otherwise the model's prompts are prefilled as a whole.

use super::kv_state::KvLayout;
use crate::chat::llama::{Batch, Context, DecodeOutcome, Sequence, Token};

/// Upper bounds on the relative difference by rounding: in the first layer, and in any, where it has accumulated. A
/// wrong rotation gives differences near 1.
const MAX_DIFFERENCE: (f32, f32) = (0.01, 0.15);

/// The distance of the two positions.
const SHIFT: u16 = 4_000;

/// The layout of a model's KV states, or why they cannot be moved.
pub(crate) fn probe(context: &mut Context, [first, second]: [Sequence; 2]) -> Result<KvLayout, NotMovable> {
    let rotation = context.weights().rotation().ok_or(NotMovable::UnknownRotation)?;
    let mut batch = Batch::default();
    let size = context.weights().vocabulary().size().max(1);
    for (sequence, start) in [(first, 0), (second, usize::from(SHIFT))] {
        for index in 0..8 {
            let token = Token::try_from((100 + index * 61) % size).unwrap_or(0);
            batch.push(sequence, start + index, token, false);
        }
    }
    let outcome = context.decode(&mut batch, &|| false);
    let states = (context.export(first), context.export(second));
    context.truncate(first, 0);
    context.truncate(second, 0);
    let (DecodeOutcome::Done, (Some(first), Some(second))) = (outcome, states) else {
        return Err(NotMovable::ProbeFailed(outcome));
    };
    let layout = KvLayout::of(&first, rotation).ok_or(NotMovable::UnknownLayout)?;
    let states = (layout.parse(&first), layout.parse(&second));
    let (Some(first), Some(second)) = states else { return Err(NotMovable::UnknownLayout) };
    let differences = layout.differences(&first, &second, i32::from(SHIFT));
    let (first, largest) = (differences[0], differences.iter().copied().fold(0.0, f32::max));
    tracing::debug!(first, largest, "difference of a KV state that was moved");
    if first > MAX_DIFFERENCE.0 || largest > MAX_DIFFERENCE.1 {
        return Err(NotMovable::Differs { first, largest });
    }
    Ok(layout)
}

/// Why a model's KV states cannot be moved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotMovable {
    #[error("its rotary position embedding is of an unknown kind")]
    UnknownRotation,
    #[error("its KV state is not one 16-bit key and value per token and layer")]
    UnknownLayout,
    #[error("the probe of it failed: {0:?}")]
    ProbeFailed(DecodeOutcome),
    #[error("a KV state that was moved differs by {first} to {largest}, which is more than rounding")]
    Differs { first: f32, largest: f32 },
}
