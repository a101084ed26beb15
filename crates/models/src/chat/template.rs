//! A model's chat template. It is rendered with placeholders for the messages, and only the text around the
//! placeholders is parsed for control tokens: no text of a person or a document passes through the template.

use std::ffi::{CStr, CString};

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value, context};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::llama::{Message, Vocabulary, Weights};
use super::load_error::ModelError;

/// Upper bound on the template engine's steps, so that no template loops forever.
const MAX_STEPS: u64 = 1_000_000;

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    System,
    User,
    Assistant,
}

/// The chat template of a model.
#[derive(Debug)]
pub(super) struct Template {
    template: CString,
    bos: String,
    eos: String,
    /// Whether prompts begin with the BOS token anyway, so that the template must not add it.
    adds_bos: bool,
}

impl Template {
    /// The template in the metadata of a model's file.
    pub(super) fn of(weights: &Weights) -> Result<Self, ModelError> {
        let template = weights.chat_template().ok_or(ModelError::ChatTemplate(
            "its file has no chat template, so it was not made to answer questions: use an instruct model",
        ))?;
        Self::new(template, weights.vocabulary())
    }

    fn new(template: CString, vocabulary: Vocabulary<'_>) -> Result<Self, ModelError> {
        let (bos, eos) = vocabulary.bos_and_eos();
        Self { template, bos, eos, adds_bos: vocabulary.bos().is_some() }.checked()
    }

    fn checked(self) -> Result<Self, ModelError> {
        let all = [Role::System, Role::User, Role::Assistant, Role::User];
        for conversation in [all.as_slice(), &all[1..], &all[..2]] {
            self.around(conversation).ok_or(ModelError::ChatTemplate(
                "its chat template can neither be rendered nor is it a known one",
            ))?;
        }
        Ok(self)
    }

    /// The text before, between and after messages of these roles, up to the assistant's turn: one more than there are
    /// roles. None if the template reorders them.
    pub(super) fn around(&self, roles: &[Role]) -> Option<Vec<String>> {
        // Some templates reject roles that llama.cpp's own version of them supports, such as system messages.
        let rendered = self.render(roles).ok().and_then(|rendered| split(&rendered, roles.len()));
        let mut around = rendered.or_else(|| split(&self.render_known(roles)?, roles.len()))?;
        if self.adds_bos
            && let Some(rest) = around[0].strip_prefix(&self.bos)
        {
            around[0] = rest.to_owned();
        }
        Some(around)
    }

    /// Renders the template with a Jinja engine.
    fn render(&self, roles: &[Role]) -> Result<String, Error> {
        let unreadable = |_| Error::new(ErrorKind::SyntaxError, "it is not UTF-8");
        let source = self.template.to_str().map_err(unreadable)?;
        let mut environment = Environment::new();
        environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment.set_unknown_method_callback(unknown_method_callback);
        environment.set_fuel(Some(MAX_STEPS));
        environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        let message = |(number, role): (usize, &Role)| context! { role => role.name().to_str().unwrap_or_default(), content => placeholder(number) };
        let messages: Vec<Value> = roles.iter().enumerate().map(message).collect();
        environment.render_str(
            source,
            context! { messages, add_generation_prompt => true, bos_token => self.bos.as_str(), eos_token => self.eos.as_str() },
        )
    }

    /// Renders the template with llama.cpp, if it knows it.
    fn render_known(&self, roles: &[Role]) -> Option<String> {
        let message = |(number, role): (usize, &Role)| {
            Some(Message { role: role.name(), content: CString::new(placeholder(number)).ok()? })
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

/// The text around `count` placeholders; none if one is missing, out of order or repeated.
fn split(rendered: &str, count: usize) -> Option<Vec<String>> {
    let mut rest = rendered;
    let mut around = Vec::with_capacity(count + 1);
    for number in 0..count {
        let (before, after) = rest.split_once(&placeholder(number))?;
        around.push(before.to_owned());
        rest = after;
    }
    around.push(rest.to_owned());
    around.iter().all(|text| !text.contains(PLACEHOLDER)).then_some(around)
}

/// A character that no template contains.
const PLACEHOLDER: char = '\u{1}';

fn placeholder(number: usize) -> String {
    format!("{PLACEHOLDER}{number}\u{2}")
}

#[cfg(test)]
mod tests;
