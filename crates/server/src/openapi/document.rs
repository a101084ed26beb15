//! The whole description: every route, in the order that routes are in.

use std::collections::BTreeMap;

use dialects::{Words, chat, generation};
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use super::call::{Answer, Body, Call, Link, Shape};
use super::refusals::{Refused, by_status};
use super::routes::{Described, Routes};
use super::schemas::Schemas;
use crate::refusal::Refusal;
use crate::{body, door, routes};

/// Describes routes.
pub(crate) fn document(routes: &Routes) -> Value {
    let mut document =
        Document { schemas: Schemas::new(), responses: BTreeMap::new(), refusals: door::refusals() };
    let (mut paths, mut groups) = (Map::new(), Vec::new());
    for described in &routes.described {
        let Described { group, method, path, .. } = described;
        if !groups.contains(group) {
            groups.push(group);
        }
        let path = paths.entry(*path).or_insert_with(|| json!({}));
        path[method.as_str().to_ascii_lowercase()] = document.operation(described);
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
            "responses": document.responses,
            "schemas": document.schemas.definitions(),
        },
    })
}

const ABOUT: &str = "Unknown fields of requests are ignored, and `null` is the same as leaving a field out. Fields of \
    answers that have no value are left out. Timestamps are UTC, RFC 3339. Lengths count Unicode scalar values. The \
    trace id of an answer is in its `X-Trace-Id` header, in the server's log and in the bodies of refusals; it is that \
    of the request's `traceparent`, if it has one.";

/// The headers of every answer.
const EVERYWHERE: [&str; 4] =
    ["X-Trace-Id", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];

struct Document {
    schemas: Schemas,
    /// Those of refusals, by name.
    responses: BTreeMap<String, Value>,
    /// What may be refused everywhere.
    refusals: Vec<Refusal>,
}

impl Document {
    fn operation(&mut self, described: &Described) -> Value {
        let Described { group, path, call, .. } = described;
        let mut operation = json!({"operationId": call.id, "tags": [group], "summary": call.summary});
        if !call.more.is_empty() {
            operation["description"] = call.more.into();
        }
        let parameters: Vec<_> = path_parameters(path).chain(parameters(call)).collect();
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        if let Some(Body { shape, required }) = &call.body {
            let schema = self.schemas.request(*shape);
            operation["requestBody"] =
                json!({"required": required, "content": {"application/json": {"schema": schema}}});
        }
        operation["responses"] = self.responses(path, call);
        operation
    }

    fn responses(&mut self, path: &str, call: &Call) -> Value {
        let words = routes::words(path);
        let of_body = call.body.as_ref().map(|_| body::refusals()).unwrap_or_default();
        let refusals: Vec<_> = call.refusals.iter().chain(&of_body).chain(&self.refusals).cloned().collect();
        let mut responses = BTreeMap::new();
        for (status, refused) in by_status(words, &refusals) {
            responses.insert(status.to_string(), self.refused(words, status, &refused));
        }
        for (status, answer) in &call.answers {
            responses.insert(status.to_string(), self.answer(answer));
        }
        json!(responses)
    }

    fn answer(&mut self, answer: &Answer) -> Value {
        let mut names = EVERYWHERE.to_vec();
        if answer.names {
            names.extend(["X-Prompt-Id", "X-Session-Id"]);
        }
        let mut response = json!({"description": answer.description, "headers": header_references(names)});
        for (media_type, shape) in &answer.content {
            response["content"][media_type]["schema"] = self.schemas.answer(*shape);
        }
        for Link { name, call, parameters, fields } in &answer.links {
            let link = &mut response["links"][name];
            link["operationId"] = (*call).into();
            for (parameter, of) in parameters {
                link["parameters"][parameter] = (*of).into();
            }
            for (field, of) in fields {
                link["requestBody"][field] = (*of).into();
            }
        }
        response
    }

    /// A reference to the response of these refusals, which many calls have in common.
    fn refused(&mut self, words: Words, status: u16, refused: &Refused) -> Value {
        let (prefix, shape): (_, Shape) = match words {
            Words::Generation => {
                ("generation", SchemaGenerator::subschema_for::<generation::wire::ErrorBody<'_>>)
            }
            Words::Chat => ("chat", SchemaGenerator::subschema_for::<chat::wire::ErrorBody<'_>>),
        };
        let codes: Vec<_> = refused.said.keys().copied().collect();
        let name = format!("{prefix}-{status}-{}", codes.join("-"));
        if !self.responses.contains_key(&name) {
            let said = refused.said.iter().map(|(code, said)| format!("`{code}`: {said}"));
            let mut names = EVERYWHERE.to_vec();
            if refused.retry_after {
                names.push("Retry-After");
            }
            let response = json!({
                "description": said.collect::<Vec<_>>().join("\n\n"),
                "headers": header_references(names),
                "content": {"application/json": {"schema": self.schemas.answer(shape)}},
            });
            self.responses.insert(name.clone(), response);
        }
        json!({"$ref": format!("#/components/responses/{name}")})
    }
}

/// Whatever a path names is named by a UUID.
fn path_parameters(path: &str) -> impl Iterator<Item = Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.map(|name| {
        json!({
            "name": name, "in": "path", "required": true, "schema": {"type": "string", "format": "uuid"},
        })
    })
}

fn parameters(call: &Call) -> impl Iterator<Item = Value> {
    call.parameters.iter().map(|parameter| {
        json!({
            "name": parameter.name,
            "in": parameter.place,
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
    let id = |description| json!({"description": description, "required": true, "schema": {"type": "string", "format": "uuid"}});
    json!({
        "X-Trace-Id": {
            "description": "The trace id of the request.",
            "required": true,
            "schema": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
        },
        "X-Prompt-Id": id("The prompt that is answered."),
        "X-Session-Id": id("The session that it was asked in."),
        "X-RateLimit-Limit": number("Requests of an address in a minute; only if they are limited (limits.requests_per_minute)."),
        "X-RateLimit-Remaining": number("How many are left now; only if they are limited."),
        "X-RateLimit-Reset": number("Seconds until all are left again; only if they are limited."),
        "Retry-After": number("Seconds until asking again may help."),
    })
}
