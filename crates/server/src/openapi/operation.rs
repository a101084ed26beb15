//! The description of one operation: its parameters, its body, its responses and its errors.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

use crate::api_error::ApiError;

/// Adds a type's schema to a generator.
pub(super) type SchemaFn = fn(&mut SchemaGenerator) -> Schema;

/// The description of an operation: a method of a path.
pub(crate) struct Operation {
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<BodyDoc>,
    pub(super) responses: Vec<(u16, ResponseDoc)>,
    pub(super) errors: Vec<ApiError>,
}

/// A parameter in the query or in a header.
pub(super) struct Parameter {
    /// `query` or `header`.
    pub(super) location: &'static str,
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) schema: Value,
}

/// A request body.
pub(super) struct BodyDoc {
    pub(super) schema: SchemaFn,
    pub(super) required: bool,
}

impl Operation {
    /// An operation with its id, which generated clients name a function after, and a summary of a few words.
    pub(crate) fn new(id: &'static str, summary: &'static str) -> Self {
        Self {
            id,
            summary,
            description: "",
            parameters: Vec::new(),
            body: None,
            responses: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Adds what the summary does not say.
    pub(crate) fn description(self, description: &'static str) -> Self {
        Self { description, ..self }
    }

    pub(crate) fn query(self, name: &'static str, schema: Value, description: &'static str) -> Self {
        self.parameter(Parameter { location: "query", name, description, schema })
    }

    pub(crate) fn header(self, name: &'static str, schema: Value, description: &'static str) -> Self {
        self.parameter(Parameter { location: "header", name, description, schema })
    }

    fn parameter(mut self, parameter: Parameter) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// Requires a body of this type.
    pub(crate) fn body<T: JsonSchema>(self) -> Self {
        Self { body: Some(BodyDoc { schema: SchemaGenerator::subschema_for::<T>, required: true }), ..self }
    }

    /// Accepts a body of this type.
    pub(crate) fn optional_body<T: JsonSchema>(self) -> Self {
        Self { body: Some(BodyDoc { schema: SchemaGenerator::subschema_for::<T>, required: false }), ..self }
    }

    /// Adds a response that is not an error.
    pub(crate) fn response(mut self, status: u16, response: ResponseDoc) -> Self {
        self.responses.push((status, response));
        self
    }

    /// Adds errors of this operation, beside those that middleware and bodies return everywhere.
    pub(crate) fn errors<E: Into<ApiError>>(mut self, errors: impl IntoIterator<Item = E>) -> Self {
        self.errors.extend(errors.into_iter().map(Into::into));
        self
    }
}

/// The description of a response that is not an error.
pub(crate) struct ResponseDoc {
    pub(super) description: &'static str,
    /// Schemas by media type.
    pub(super) content: Vec<(&'static str, SchemaFn)>,
    /// Whether its headers name the prompt and the session.
    pub(super) has_prompt_headers: bool,
    pub(super) links: Vec<Link>,
}

/// An operation that can be called next with values of a response.
pub(super) struct Link {
    pub(super) name: &'static str,
    /// The id of that operation.
    pub(super) operation: &'static str,
    /// Parameters of that operation, with the expressions of their values.
    pub(super) parameters: Vec<(&'static str, &'static str)>,
    /// Fields of its body, with the expressions of their values.
    pub(super) fields: Vec<(&'static str, &'static str)>,
}

impl ResponseDoc {
    /// A response without a body.
    pub(crate) fn empty(description: &'static str) -> Self {
        Self { description, content: Vec::new(), has_prompt_headers: false, links: Vec::new() }
    }

    pub(crate) fn json<T: JsonSchema>(description: &'static str) -> Self {
        Self::empty(description).content("application/json", SchemaGenerator::subschema_for::<T>)
    }

    /// Text of another media type.
    pub(crate) fn text(media_type: &'static str, description: &'static str) -> Self {
        Self::empty(description).content(media_type, SchemaGenerator::subschema_for::<String>)
    }

    pub(super) fn content(mut self, media_type: &'static str, schema: SchemaFn) -> Self {
        self.content.push((media_type, schema));
        self
    }

    /// Adds the headers that name the prompt and the session.
    pub(crate) fn prompt_headers(self) -> Self {
        Self { has_prompt_headers: true, ..self }
    }

    /// Links to an operation whose parameters are values of this response.
    pub(crate) fn link(
        self,
        name: &'static str,
        operation: &'static str,
        parameters: &[(&'static str, &'static str)],
    ) -> Self {
        self.with_link(Link { name, operation, parameters: parameters.to_vec(), fields: Vec::new() })
    }

    /// Links to an operation whose body has values of this response.
    pub(crate) fn link_body(
        self,
        name: &'static str,
        operation: &'static str,
        fields: &[(&'static str, &'static str)],
    ) -> Self {
        self.with_link(Link { name, operation, parameters: Vec::new(), fields: fields.to_vec() })
    }

    fn with_link(mut self, link: Link) -> Self {
        self.links.push(link);
        self
    }
}
