//! A model's own chat template. It is rendered with marks in place of what is said, and what lies around the marks
//! is all that is ever read for control tokens: no text of a person or a document comes near the template.

use std::ffi::{CStr, CString};

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value, context};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::llama::{Message, Vocabulary, Weights};

/// More steps than any template takes, so that none can go on forever.
const STEPS: u64 = 1_000_000;

/// Who says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The instructions.
    System,
    /// Who asks.
    User,
    /// The model.
    Assistant,
}

/// The chat template of a model.
#[derive(Debug)]
pub(super) struct Template {
    template: CString,
    /// What the template may call its beginning and its end by.
    beginning: String,
    end: String,
    /// Whether a prompt has the beginning already when what the template writes comes after it.
    begun: bool,
}

impl Template {
    /// The template that a model's file has.
    pub(super) fn of(weights: &Weights) -> Result<Self, String> {
        let template = weights.chat_template().ok_or(
            "its file has no chat template, so it was not made to answer questions: use an instruct model",
        )?;
        Self::new(template, weights.vocabulary())
    }

    fn new(template: CString, vocabulary: Vocabulary<'_>) -> Result<Self, String> {
        let (beginning, end) = vocabulary.ends_of_texts();
        Self { template, beginning, end, begun: vocabulary.beginning().is_some() }.checked()
    }

    fn checked(self) -> Result<Self, String> {
        let whole = [Role::System, Role::User, Role::Assistant, Role::User];
        for conversation in [whole.as_slice(), &whole[1..], &whole[..2]] {
            self.around(conversation)
                .ok_or("its chat template can neither be rendered nor is it a known one")?;
        }
        Ok(self)
    }

    /// What the template writes before, between and after what these say, up to where the model speaks: one text
    /// more than there are roles. None if the template does not keep to their order.
    pub(super) fn around(&self, roles: &[Role]) -> Option<Vec<String>> {
        // Some templates refuse what llama.cpp knows how to say in them, such as instructions.
        let rendered = self.render(roles).ok().and_then(|rendered| split(&rendered, roles.len()));
        let mut around = rendered.or_else(|| split(&self.render_known(roles)?, roles.len()))?;
        if self.begun
            && let Some(rest) = around[0].strip_prefix(&self.beginning)
        {
            around[0] = rest.to_owned();
        }
        Some(around)
    }

    /// The template as it is written, in Jinja.
    fn render(&self, roles: &[Role]) -> Result<String, Error> {
        let unreadable = |_| Error::new(ErrorKind::SyntaxError, "it is no text");
        let source = self.template.to_str().map_err(unreadable)?;
        let mut environment = Environment::new();
        environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_unknown_method_callback(unknown_method_callback);
        environment.set_fuel(Some(STEPS));
        environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        let message = |(number, role): (usize, &Role)| context! { role => role.name().to_str().unwrap_or_default(), content => mark(number) };
        let messages: Vec<Value> = roles.iter().enumerate().map(message).collect();
        environment.render_str(
            source,
            context! { messages, add_generation_prompt => true, bos_token => self.beginning.as_str(), eos_token => self.end.as_str() },
        )
    }

    /// What llama.cpp makes of it, if it is one that it knows.
    fn render_known(&self, roles: &[Role]) -> Option<String> {
        let message = |(number, role): (usize, &Role)| {
            Some(Message { role: role.name(), content: CString::new(mark(number)).ok()? })
        };
        let messages: Option<Vec<_>> = roles.iter().enumerate().map(message).collect();
        Weights::apply_template(&self.template, &messages?)
    }
}

impl Role {
    fn name(self) -> &'static CStr {
        match self {
            Self::System => c"system",
            Self::User => c"user",
            Self::Assistant => c"assistant",
        }
    }
}

/// What lies around so many marks; none if one is missing, out of order or there twice.
fn split(rendered: &str, marks: usize) -> Option<Vec<String>> {
    let mut rest = rendered;
    let mut around = Vec::with_capacity(marks + 1);
    for number in 0..marks {
        let (before, after) = rest.split_once(&mark(number))?;
        around.push(before.to_owned());
        rest = after;
    }
    around.push(rest.to_owned());
    around.iter().all(|text| !text.contains(MARK)).then_some(around)
}

/// Something that no template writes by itself.
const MARK: char = '\u{1}';

fn mark(number: usize) -> String {
    format!("{MARK}{number}\u{2}")
}

#[cfg(test)]
mod tests;
