//! Which questions of a collection are asked.

use std::collections::HashMap;

use bench::collection::{Question, ReferenceAnswer};
use clap::{Args, ValueEnum};

#[derive(Args)]
pub(crate) struct Selection {
    /// Asks the questions on even or on odd lines, counted from 0
    #[arg(long, value_enum)]
    half: Option<Half>,
    /// Asks only questions that the documents answer
    #[arg(long)]
    answerable: bool,
    /// The most questions to ask, taken evenly from all of them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    most: Option<u32>,
}

/// Half of the questions: one for choosing settings, the other for reporting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Half {
    Even,
    Odd,
}

impl Selection {
    pub(crate) fn select<'a>(
        &self,
        questions: &'a [Question],
        references: &HashMap<String, ReferenceAnswer>,
    ) -> Vec<&'a Question> {
        let in_half = |line: usize| match self.half {
            Some(Half::Even) => line.is_multiple_of(2),
            Some(Half::Odd) => !line.is_multiple_of(2),
            None => true,
        };
        // A question without a reference is an error when it is asked.
        let is_answerable =
            |question: &Question| references.get(&question.id).is_none_or(|reference| reference.answerable);
        let selected = questions.iter().enumerate().filter(|(line, _)| in_half(*line));
        let selected = selected.map(|(_, question)| question);
        let selected: Vec<_> =
            selected.filter(|question| !self.answerable || is_answerable(question)).collect();
        let most = self.most.map_or(selected.len(), |most| selected.len().min(most as usize));
        (0..most).map(|number| selected[number * selected.len() / most]).collect()
    }
}
