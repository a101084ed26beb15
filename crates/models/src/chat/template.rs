//! A model's own chat template. It is rendered with marks in place of what is said, and what lies around the marks
//! is all that is ever read for control tokens: no text of a person or a document comes near the template.

use std::ffi::{CStr, CString};

use super::llama::{Message, Weights};

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
}

impl Template {
    /// The template that a model's file has.
    pub(super) fn of(weights: &Weights) -> Result<Self, String> {
        let template = weights.chat_template().ok_or(
            "its file has no chat template, so it was not made to answer questions: use an instruct model",
        )?;
        Self::new(template)
    }

    fn new(template: CString) -> Result<Self, String> {
        let template = Self { template };
        let whole = [Role::System, Role::User, Role::Assistant, Role::User];
        for conversation in [whole.as_slice(), &whole[1..], &whole[..2]] {
            template.around(conversation).ok_or("its chat template is none that llama.cpp knows")?;
        }
        Ok(template)
    }

    /// What the template writes before, between and after what these say, up to where the model speaks: one text
    /// more than there are roles. None if the template does not keep to their order.
    pub(super) fn around(&self, roles: &[Role]) -> Option<Vec<String>> {
        let message = |(number, role): (usize, &Role)| {
            Some(Message { role: role.name(), content: CString::new(mark(number)).ok()? })
        };
        let messages: Option<Vec<_>> = roles.iter().enumerate().map(message).collect();
        let rendered = Weights::apply_template(&self.template, &messages?)?;
        let mut rest = rendered.as_str();
        let mut around = Vec::with_capacity(roles.len() + 1);
        for number in 0..roles.len() {
            let (before, after) = rest.split_once(&mark(number))?;
            around.push(before.to_owned());
            rest = after;
        }
        around.push(rest.to_owned());
        Some(around)
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

/// Something that no template writes by itself.
fn mark(number: usize) -> String {
    format!("\u{1}{number}\u{2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHATML: &CStr = c"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}";

    #[test]
    fn what_lies_around_the_messages_is_the_templates_own() {
        let template = Template::new(CHATML.to_owned()).unwrap();
        let around = template.around(&[Role::System, Role::User]).unwrap();
        assert_eq!(
            around,
            ["<|im_start|>system\n", "<|im_end|>\n<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"]
        );
    }

    #[test]
    fn a_template_that_nobody_knows_is_refused() {
        let message = Template::new(c"{{ secret_sauce }}".to_owned()).unwrap_err();
        assert_eq!(message, "its chat template is none that llama.cpp knows");
    }

    #[test]
    fn conversations_of_any_length_are_rendered() {
        let template = Template::new(CHATML.to_owned()).unwrap();
        let roles = [Role::User, Role::Assistant].repeat(50);
        assert_eq!(template.around(&roles).map(|around| around.len()), Some(101));
    }
}
