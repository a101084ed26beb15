//! Token usage: fills in the counts that a server does not report.

use std::sync::Arc;

use domain::{ModelEvent, Request, Usage};

use crate::cl100k::count_tokens;
use crate::messages::prompt_tokens;

/// Counts the tokens of a request and its answer with `cl100k_base`, where the server reports no counts.
pub(crate) struct UsageCounter {
    request: Arc<Request>,
    window: usize,
    answer: String,
    is_reported: bool,
}

impl UsageCounter {
    pub(crate) fn new(request: Arc<Request>, window: usize) -> Self {
        Self { request, window, answer: String::new(), is_reported: false }
    }

    /// Observes an event of the answer. Counts that are missing in a usage event are filled in.
    pub(crate) fn observe(&mut self, event: &mut ModelEvent) {
        match event {
            ModelEvent::Text(text) | ModelEvent::Reasoning(text) => self.answer.push_str(text),
            ModelEvent::ToolCall(call) => self.answer.extend([call.name.as_str(), call.arguments.as_str()]),
            ModelEvent::Usage(usage) => {
                self.complete(usage);
                self.is_reported = true;
            }
            ModelEvent::Started(_) | ModelEvent::Waiting | ModelEvent::Finish(_) => {}
        }
    }

    /// The usage of an answer that has ended without a usage event. None if there was one, or at a second call.
    pub(crate) fn missing(&mut self) -> Option<Usage> {
        if self.is_reported {
            return None;
        }
        self.is_reported = true;
        let mut usage = Usage::default();
        self.complete(&mut usage);
        Some(usage)
    }

    fn complete(&self, usage: &mut Usage) {
        if usage.input.is_none() {
            usage.input = prompt_tokens(&self.request, self.window);
        }
        if usage.output.is_none() {
            usage.output = Some(count_tokens(&self.answer) as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::Text;

    use super::*;

    fn counter() -> UsageCounter {
        let request =
            Request { system: "Be brief.".to_owned(), question: "Why?".to_owned(), ..Request::default() };
        let mut counter = UsageCounter::new(Arc::new(request), 4096);
        for word in ["Hello", " wor", "ld"] {
            counter.observe(&mut ModelEvent::Text(Text::from(word)));
        }
        counter
    }

    fn completed(usage: Usage) -> Usage {
        let (mut counter, mut event) = (counter(), ModelEvent::Usage(usage));
        counter.observe(&mut event);
        assert_eq!(counter.missing(), None);
        let ModelEvent::Usage(usage) = event else { unreachable!("the event keeps its kind") };
        usage
    }

    #[test]
    fn a_servers_own_counts_are_kept() {
        let usage = Usage { input: Some(70), output: Some(7), cached: Some(1) };
        assert_eq!(completed(usage), usage);
    }

    #[test]
    fn missing_counts_are_filled_in() {
        // "Be", " brief", "." and "Why", "?"; "Hello", " world".
        let counted = Usage { input: Some(5), output: Some(2), cached: None };
        let mut counter = counter();
        assert_eq!((counter.missing(), counter.missing()), (Some(counted), None));
        assert_eq!(
            completed(Usage { input: Some(70), ..Usage::default() }),
            Usage { input: Some(70), ..counted }
        );
        assert_eq!(
            completed(Usage { output: Some(7), ..Usage::default() }),
            Usage { output: Some(7), ..counted }
        );
    }
}
