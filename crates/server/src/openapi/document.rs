//! The OpenAPI document of all routes.

use std::collections::BTreeMap;

use dialects::{ErrorFormat, chat, generation};
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use super::errors::{ErrorDoc, by_status};
use super::operation::{BodyDoc, Link, Operation, ResponseDoc, SchemaFn};
use super::routes::{DescribedRoute, Routes};
use super::schemas::Schemas;
use crate::api_error::ApiError;
use crate::{middleware, request_body, routes};

/// Describes these routes.
pub(crate) fn document(routes: &Routes) -> Value {
    let mut document = Document {
        schemas: Schemas::new(),
        error_responses: BTreeMap::new(),
        common_errors: middleware::errors(),
    };
    let (mut paths, mut groups) = (Map::new(), Vec::new());
    for route in &routes.described {
        let DescribedRoute { group, method, path, .. } = route;
        if !groups.contains(group) {
            groups.push(group);
        }
        let path = paths.entry(*path).or_insert_with(|| json!({}));
        path[method.as_str().to_ascii_lowercase()] = document.operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Wellspring",
            "summary": "Answers questions about a team's own code and documents, token by token",
            "description": ABOUT,
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": groups.iter().map(|name| json!({"name": name})).collect::<Vec<_>>(),
        "paths": paths,
        "components": {
            "headers": headers(),
            "responses": document.error_responses,
            "schemas": document.schemas.definitions(),
        },
    })
}

const ABOUT: &str = "Unknown fields of requests are ignored, and `null` is the same as leaving a field out. \
    Fields of responses that have no value are left out. Timestamps are UTC, RFC 3339. Lengths count Unicode \
    scalar values. The trace id of a request is in the `X-Trace-Id` header of its response, in the server's log \
    and in error bodies; it is that of the request's `traceparent`, if it has one.";

/// The headers of every response.
const EVERYWHERE: [&str; 4] =
    ["X-Trace-Id", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];

struct Document {
    schemas: Schemas,
    /// Shared error responses, by name.
    error_responses: BTreeMap<String, Value>,
    /// Errors that every operation can return.
    common_errors: Vec<ApiError>,
}

impl Document {
    fn operation(&mut self, route: &DescribedRoute) -> Value {
        let DescribedRoute { group, path, operation, .. } = route;
        let mut described =
            json!({"operationId": operation.id, "tags": [group], "summary": operation.summary});
        if !operation.description.is_empty() {
            described["description"] = operation.description.into();
        }
        let parameters: Vec<_> = path_parameters(path).chain(parameters(operation)).collect();
        if !parameters.is_empty() {
            described["parameters"] = parameters.into();
        }
        if let Some(BodyDoc { schema, required }) = &operation.body {
            let schema = self.schemas.request(*schema);
            described["requestBody"] =
                json!({"required": required, "content": {"application/json": {"schema": schema}}});
        }
        described["responses"] = self.responses(path, operation);
        described
    }

    fn responses(&mut self, path: &str, operation: &Operation) -> Value {
        let format = routes::error_format_of(path);
        let body_errors = operation.body.as_ref().map(|_| request_body::errors()).unwrap_or_default();
        let errors: Vec<_> =
            operation.errors.iter().chain(&body_errors).chain(&self.common_errors).cloned().collect();
        let mut responses = BTreeMap::new();
        for (status, error) in by_status(format, &errors) {
            responses.insert(status.to_string(), self.error_response(format, status, &error));
        }
        for (status, response) in &operation.responses {
            responses.insert(status.to_string(), self.response(response));
        }
        json!(responses)
    }

    fn response(&mut self, doc: &ResponseDoc) -> Value {
        let mut names = EVERYWHERE.to_vec();
        if doc.has_prompt_headers {
            names.extend(["X-Prompt-Id", "X-Session-Id"]);
        }
        let mut response = json!({"description": doc.description, "headers": header_references(names)});
        for (media_type, schema) in &doc.content {
            response["content"][media_type]["schema"] = self.schemas.response(*schema);
        }
        for Link { name, operation, parameters, fields } in &doc.links {
            let link = &mut response["links"][name];
            link["operationId"] = (*operation).into();
            for (parameter, value) in parameters {
                link["parameters"][parameter] = (*value).into();
            }
            for (field, value) in fields {
                link["requestBody"][field] = (*value).into();
            }
        }
        response
    }

    /// A reference to the response of these errors, which many operations share.
    fn error_response(&mut self, format: ErrorFormat, status: u16, error: &ErrorDoc) -> Value {
        let (prefix, schema): (_, SchemaFn) = match format {
            ErrorFormat::Generation => {
                ("generation", SchemaGenerator::subschema_for::<generation::wire::ErrorBody<'_>>)
            }
            ErrorFormat::Chat => ("chat", SchemaGenerator::subschema_for::<chat::wire::ErrorBody<'_>>),
        };
        let codes: Vec<_> = error.messages.keys().copied().collect();
        let name = format!("{prefix}-{status}-{}", codes.join("-"));
        if !self.error_responses.contains_key(&name) {
            let messages = error.messages.iter().map(|(code, message)| format!("`{code}`: {message}"));
            let mut names = EVERYWHERE.to_vec();
            if error.retry_after {
                names.push("Retry-After");
            }
            let response = json!({
                "description": messages.collect::<Vec<_>>().join("\n\n"),
                "headers": header_references(names),
                "content": {"application/json": {"schema": self.schemas.response(schema)}},
            });
            self.error_responses.insert(name.clone(), response);
        }
        json!({"$ref": format!("#/components/responses/{name}")})
    }
}

/// The parameters in a path, all of which are UUIDs.
fn path_parameters(path: &str) -> impl Iterator<Item = Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.map(|name| {
        json!({
            "name": name, "in": "path", "required": true, "schema": {"type": "string", "format": "uuid"},
        })
    })
}

fn parameters(operation: &Operation) -> impl Iterator<Item = Value> {
    operation.parameters.iter().map(|parameter| {
        json!({
            "name": parameter.name,
            "in": parameter.location,
            "description": parameter.description,
            "schema": parameter.schema,
        })
    })
}

fn header_references(names: Vec<&str>) -> Value {
    let reference = |name| (name, json!({"$ref": format!("#/components/headers/{name}")}));
    names.into_iter().map(reference).collect::<BTreeMap<_, _>>().into_iter().collect()
}

fn headers() -> Value {
    let number =
        |description| json!({"description": description, "schema": {"type": "integer", "minimum": 0}});
    let id = |description| {
        let schema = json!({"type": "string", "format": "uuid"});
        json!({"description": description, "required": true, "schema": schema})
    };
    json!({
        "X-Trace-Id": {
            "description": "The trace id of the request.",
            "required": true,
            "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
        },
        "X-Prompt-Id": id("The prompt that the response answers."),
        "X-Session-Id": id("The session of that prompt."),
        "X-RateLimit-Limit": number("Requests that an address may send in a minute; only if limits.requests_per_minute is set."),
        "X-RateLimit-Remaining": number("Requests that are left now; only if a limit is set."),
        "X-RateLimit-Reset": number("Seconds until all of them are left again; only if a limit is set."),
        "Retry-After": number("Seconds after which a retry may succeed."),
    })
}
