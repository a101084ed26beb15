//! Whether keys can be moved as it is thought: the same tokens are computed at two places, and what was kept of them
//! at one must be what was kept at the other, turned. If it is not, prompts of this model are read as a whole.

use super::state::Shape;
use crate::chat::llama::{Batch, Context, Decoded, Sequence, Token};

/// What rounding may come to in the first layer, and after all of them, where it has added up. A rotation that is wrong
/// makes differences as large as the numbers themselves.
const NEAR: (f32, f32) = (0.01, 0.15);

/// So far apart.
const PLACES: u16 = 4_000;

/// The shape of a model's states, or why they cannot be moved.
pub(crate) fn shape_of(context: &mut Context, [here, there]: [Sequence; 2]) -> Result<Shape, String> {
    let rotation = context.weights().rotation().ok_or("it rotates keys in a way that is not known")?;
    let mut batch = Batch::default();
    let size = context.weights().vocabulary().size();
    for (sequence, place) in [(here, 0), (there, usize::from(PLACES))] {
        for number in 0..8 {
            let token = Token::try_from((100 + number * 61) % size.max(1)).unwrap_or(0);
            batch.push(sequence, place + number, token, false);
        }
    }
    let decoded = context.decode(&mut batch, &|| false);
    let states = (context.state(here), context.state(there));
    context.cut(here, 0);
    context.cut(there, 0);
    let (Decoded::Done, (Some(here), Some(there))) = (decoded, states) else {
        return Err(format!("a test of it failed: {decoded:?}"));
    };
    let shape =
        Shape::of(&here, rotation).ok_or("its state is not a key and a value of 16 bits for each token")?;
    let (Some(here), Some(there)) = (shape.read(&here), shape.read(&there)) else {
        return Err("its state has another form each time".to_owned());
    };
    let differences = shape.differences(&here, &there, i32::from(PLACES));
    let (first, most) = (differences[0], differences.iter().copied().fold(0.0, f32::max));
    tracing::debug!(first, most, "a state against the same one at another place");
    if first > NEAR.0 || most > NEAR.1 {
        return Err(format!(
            "its state at another place differs by {first} to {most}, which is more than rounding"
        ));
    }
    Ok(shape)
}
