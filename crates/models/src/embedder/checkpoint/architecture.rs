//! The sizes of a model, and whether this embedder can run them.

use super::Linear;
use crate::embedder::invalid_model::UnsupportedModel;

/// The sizes of a BERT-like model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Architecture {
    /// Dimension of a token's vector, and of a text's.
    pub(crate) hidden: usize,
    pub(crate) layers: usize,
    /// Attention heads, which divide the hidden dimension among them.
    pub(crate) heads: usize,
    /// Dimension between the two feed-forward products.
    pub(crate) intermediate: usize,
    /// Number of token embeddings.
    pub(crate) vocabulary: usize,
    /// Number of position embeddings.
    pub(crate) positions: usize,
    /// The position of the first token.
    pub(crate) position_offset: usize,
    /// Tokens of a text that count, the special ones included.
    pub(crate) token_limit: usize,
    /// Epsilon of the layer norms.
    pub(crate) epsilon: f32,
    pub(crate) pooling: Pooling,
}

/// How the vectors of a text's tokens become the text's vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pooling {
    /// The first token's vector (CLS).
    First,
    /// The mean of the tokens' vectors.
    Mean,
}

impl Architecture {
    /// Bound of all sizes, so that products of two cannot overflow.
    const MAX_SIZE: usize = 1 << 20;

    /// Checks that the sizes are in bounds and consistent.
    pub(crate) fn check(&self) -> Result<(), UnsupportedModel> {
        let sizes =
            [self.hidden, self.layers, self.heads, self.intermediate, self.vocabulary, self.positions];
        if sizes.iter().any(|size| *size == 0 || *size > Self::MAX_SIZE) {
            return Err(UnsupportedModel::Sizes { max: Self::MAX_SIZE, sizes });
        }
        if !self.hidden.is_multiple_of(self.heads) {
            return Err(UnsupportedModel::Heads { heads: self.heads, hidden: self.hidden });
        }
        if self.token_limit < 2 || self.token_limit + self.position_offset > self.positions {
            let (token_limit, offset) = (self.token_limit, self.position_offset);
            return Err(UnsupportedModel::Positions { token_limit, offset });
        }
        if !(self.epsilon > 0.0 && self.epsilon < 1.0) {
            return Err(UnsupportedModel::Epsilon(self.epsilon));
        }
        Ok(())
    }

    /// Scales the query matrix by 1/√(head size), which attention would otherwise apply to every score.
    pub(super) fn scale_queries(&self, queries: &mut Linear) {
        let scale = 1.0 / ((self.hidden / self.heads) as f32).sqrt();
        queries.weights.iter_mut().chain(&mut queries.bias).for_each(|number| *number *= scale);
    }
}
