//! The tokens of a request and its answer, counted here where the server does not count them.

use std::sync::Arc;

use domain::{ModelEvent, Request, Usage};

use crate::cl100k::count_tokens;
use crate::messages::prompt_tokens;

/// What there is to count, until the server has told its own counts.
pub(crate) struct Tally {
    request: Arc<Request>,
    window: usize,
    said: String,
    is_told: bool,
}

impl Tally {
    pub(crate) fn new(request: Arc<Request>, window: usize) -> Self {
        Self { request, window, said: String::new(), is_told: false }
    }

    /// Takes an event of the answer, and adds what its server did not count.
    pub(crate) fn take(&mut self, event: &mut ModelEvent) {
        match event {
            ModelEvent::Text(text) | ModelEvent::Reasoning(text) => self.said.push_str(text),
            ModelEvent::ToolCall(call) => self.said.extend([call.name.as_str(), call.arguments.as_str()]),
            ModelEvent::Usage(usage) => {
                self.complete(usage);
                self.is_told = true;
            }
            ModelEvent::Started(_) | ModelEvent::Waiting | ModelEvent::Finish(_) => {}
        }
    }

    /// The counts, once, if the answer is over and its server told none.
    pub(crate) fn untold(&mut self) -> Option<Usage> {
        if self.is_told {
            return None;
        }
        self.is_told = true;
        let mut usage = Usage::default();
        self.complete(&mut usage);
        Some(usage)
    }

    fn complete(&self, usage: &mut Usage) {
        if usage.input.is_none() {
            usage.input = prompt_tokens(&self.request, self.window);
        }
        if usage.output.is_none() {
            usage.output = Some(count_tokens(&self.said) as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::Text;

    use super::*;

    fn tally() -> Tally {
        let request =
            Request { system: "Be brief.".to_owned(), question: "Why?".to_owned(), ..Request::default() };
        let mut tally = Tally::new(Arc::new(request), 4096);
        for word in ["Hello", " wor", "ld"] {
            tally.take(&mut ModelEvent::Text(Text::from(word)));
        }
        tally
    }

    fn told(usage: Usage) -> Usage {
        let (mut tally, mut event) = (tally(), ModelEvent::Usage(usage));
        tally.take(&mut event);
        assert_eq!(tally.untold(), None);
        let ModelEvent::Usage(usage) = event else { unreachable!("it stays what it was") };
        usage
    }

    #[test]
    fn a_server_that_counts_is_believed() {
        let usage = Usage { input: Some(70), output: Some(7), cached: Some(1) };
        assert_eq!(told(usage), usage);
    }

    #[test]
    fn what_a_server_does_not_count_is_counted_here() {
        // "Be", " brief", "." and "Why", "?"; "Hello", " world".
        let counted = Usage { input: Some(5), output: Some(2), cached: None };
        let mut tally = tally();
        assert_eq!((tally.untold(), tally.untold()), (Some(counted), None));
        assert_eq!(told(Usage { input: Some(70), ..Usage::default() }), Usage { input: Some(70), ..counted });
        assert_eq!(told(Usage { output: Some(7), ..Usage::default() }), Usage { output: Some(7), ..counted });
    }
}
