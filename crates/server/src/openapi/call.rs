//! What one call is: what it takes, what it answers, why it may be refused.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

use crate::refusal::Refusal;

/// A type as a schema, once there is somewhere to keep it.
pub(super) type Shape = fn(&mut SchemaGenerator) -> Schema;

/// The description of a call.
pub(crate) struct Call {
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) more: &'static str,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Body>,
    pub(super) answers: Vec<(u16, Answer)>,
    pub(super) refusals: Vec<Refusal>,
}

/// Something that is asked for beside the path and the body.
pub(super) struct Parameter {
    /// `query` or `header`.
    pub(super) place: &'static str,
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) schema: Value,
}

pub(super) struct Body {
    pub(super) shape: Shape,
    pub(super) required: bool,
}

impl Call {
    /// A call by the name that programs have for it, and what it does in a few words.
    pub(crate) fn new(id: &'static str, summary: &'static str) -> Self {
        Self {
            id,
            summary,
            more: "",
            parameters: Vec::new(),
            body: None,
            answers: Vec::new(),
            refusals: Vec::new(),
        }
    }

    /// What else there is to know about it.
    pub(crate) fn more(self, more: &'static str) -> Self {
        Self { more, ..self }
    }

    pub(crate) fn query(self, name: &'static str, schema: Value, description: &'static str) -> Self {
        self.parameter(Parameter { place: "query", name, description, schema })
    }

    pub(crate) fn header(self, name: &'static str, schema: Value, description: &'static str) -> Self {
        self.parameter(Parameter { place: "header", name, description, schema })
    }

    fn parameter(mut self, parameter: Parameter) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// It has a body of this type.
    pub(crate) fn takes<T: JsonSchema>(self) -> Self {
        Self { body: Some(Body { shape: SchemaGenerator::subschema_for::<T>, required: true }), ..self }
    }

    /// It may have a body of this type.
    pub(crate) fn may_take<T: JsonSchema>(self) -> Self {
        Self { body: Some(Body { shape: SchemaGenerator::subschema_for::<T>, required: false }), ..self }
    }

    pub(crate) fn answers(mut self, status: u16, answer: Answer) -> Self {
        self.answers.push((status, answer));
        self
    }

    /// Why it may be refused, beside what the door, bodies and bugs refuse everywhere.
    pub(crate) fn refuses<R: Into<Refusal>>(mut self, refusals: impl IntoIterator<Item = R>) -> Self {
        self.refusals.extend(refusals.into_iter().map(Into::into));
        self
    }
}

/// An answer that is no refusal.
pub(crate) struct Answer {
    pub(super) description: &'static str,
    /// By media type.
    pub(super) content: Vec<(&'static str, Shape)>,
    /// It names the prompt and the session in its headers.
    pub(super) names: bool,
    pub(super) links: Vec<Link>,
}

/// What can be called next with something of an answer.
pub(super) struct Link {
    pub(super) name: &'static str,
    /// The id of that call.
    pub(super) call: &'static str,
    /// What of the answer goes where: into a parameter, or into a field of the body.
    pub(super) parameters: Vec<(&'static str, &'static str)>,
    pub(super) fields: Vec<(&'static str, &'static str)>,
}

impl Answer {
    /// An answer without a body.
    pub(crate) fn empty(description: &'static str) -> Self {
        Self { description, content: Vec::new(), names: false, links: Vec::new() }
    }

    pub(crate) fn json<T: JsonSchema>(description: &'static str) -> Self {
        Self::empty(description).content("application/json", SchemaGenerator::subschema_for::<T>)
    }

    /// Text in some format of its own.
    pub(crate) fn text(media_type: &'static str, description: &'static str) -> Self {
        Self::empty(description).content(media_type, SchemaGenerator::subschema_for::<String>)
    }

    pub(super) fn content(mut self, media_type: &'static str, shape: Shape) -> Self {
        self.content.push((media_type, shape));
        self
    }

    /// Its headers name the prompt and the session.
    pub(crate) fn naming(self) -> Self {
        Self { names: true, ..self }
    }

    /// What of it goes into the parameters of another call.
    pub(crate) fn link(
        self,
        name: &'static str,
        call: &'static str,
        parameters: &[(&'static str, &'static str)],
    ) -> Self {
        self.linked(Link { name, call, parameters: parameters.to_vec(), fields: Vec::new() })
    }

    /// What of it goes into the body of another call.
    pub(crate) fn link_body(
        self,
        name: &'static str,
        call: &'static str,
        fields: &[(&'static str, &'static str)],
    ) -> Self {
        self.linked(Link { name, call, parameters: Vec::new(), fields: fields.to_vec() })
    }

    fn linked(mut self, link: Link) -> Self {
        self.links.push(link);
        self
    }
}
