//! The OpenAPI document as an HTML page. It has no script and loads nothing from elsewhere, so its content
//! security policy can forbid both.

mod html;
mod schema;

use serde_json::Value;

use super::Routes;
use html::{Html, prose, text};
use schema::{example, fields, kind};

/// The style sheet of the page.
pub(crate) const STYLE: &str = include_str!("docs_page/style.css");

/// Renders the document of these routes, in their order.
pub(crate) fn docs_page(document: &Value, routes: &Routes) -> String {
    let operations = operations(document, &routes.ids());
    let info = &document["info"];
    let mut page = Html::default();
    page.raw("<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    page.element("title", &format!("{}: API", text(&info["title"])));
    page.raw("<link rel=\"stylesheet\" href=\"/docs/style.css\"></head><body>");
    contents(&mut page, &operations);
    page.raw("<main>");
    page.element("h1", &format!("{} {}", text(&info["title"]), text(&info["version"])));
    page.element("p", &prose(&info["summary"]));
    page.element("p", &prose(&info["description"]));
    page.raw("<p>Machine-readable: <a href=\"/openapi.json\">openapi.json</a>, OpenAPI 3.1.</p>");
    for (path, method, operation) in operations {
        section(&mut page, document, path, method, operation);
    }
    schemas(&mut page, &document["components"]["schemas"]);
    page.raw("</main></body></html>\n");
    page.finish()
}

/// The path, the method and the description of every operation, in the order of these ids.
fn operations<'a>(document: &'a Value, order: &[&str]) -> Vec<(&'a str, &'a str, &'a Value)> {
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            operations.push((path.as_str(), method.as_str(), operation));
        }
    }
    operations.sort_by_key(|(.., operation)| order.iter().position(|id| operation["operationId"] == *id));
    operations
}

/// The table of contents, by tag.
fn contents(page: &mut Html, operations: &[(&str, &str, &Value)]) {
    page.raw("<nav>");
    let mut group = &Value::Null;
    for (path, method, operation) in operations {
        if operation["tags"][0] != *group {
            group = &operation["tags"][0];
            page.element("h2", &text(group));
        }
        let id = text(&operation["operationId"]);
        let (name, path) = (html::escape(&method.to_ascii_uppercase()), html::escape(path));
        page.raw(&format!(
            "<a href=\"#{id}\" title=\"{}\"><b>{name}</b> {path}</a>",
            text(&operation["summary"])
        ));
    }
    page.raw("<h2><a href=\"#schemas\">Schemas</a></h2></nav>");
}

fn section(page: &mut Html, document: &Value, path: &str, method: &str, operation: &Value) {
    let id = text(&operation["operationId"]);
    let (name, path) = (html::escape(&method.to_ascii_uppercase()), html::escape(path));
    page.raw(&format!("<section id=\"{id}\"><h2><b>{name}</b> <code>{path}</code></h2>"));
    page.element("p", &format!("{}.", prose(&operation["summary"])));
    page.element("p", &prose(&operation["description"]));
    if let Some(parameters) = operation["parameters"].as_array() {
        page.raw("<h3>Parameters</h3><table>");
        for parameter in parameters {
            let name = format!(
                "<code>{}</code> <small>{}</small>",
                text(&parameter["name"]),
                text(&parameter["in"])
            );
            page.row(&[name, kind(&parameter["schema"]), prose(&parameter["description"])]);
        }
        page.raw("</table>");
    }
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    if !body.is_null() {
        let optional = if operation["requestBody"]["required"] == true { "" } else { ", optionally" };
        page.element("p", &format!("Body: {} as JSON{optional}.", kind(body)));
        if let Some(example) = example(document, body) {
            page.element("pre", &html::escape(&format!("{example:#}")));
        }
    }
    responses(page, document, operation);
    page.raw("</section>");
}

fn responses(page: &mut Html, document: &Value, operation: &Value) {
    page.raw("<h3>Responses</h3><table class=\"responses\">");
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let response = match response["$ref"].as_str() {
            Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap_or(response),
            None => response,
        };
        let content = response["content"].as_object().into_iter().flatten();
        let content: Vec<_> = content
            .map(|(media_type, content)| {
                format!("{} <small>{}</small>", kind(&content["schema"]), html::escape(media_type))
            })
            .collect();
        let class = if status.starts_with('2') { "good" } else { "bad" };
        let status = format!("<b class=\"{class}\">{}</b>", html::escape(status));
        page.row(&[status, content.join("<br>"), prose(&response["description"])]);
    }
    page.raw("</table>");
}

fn schemas(page: &mut Html, schemas: &Value) {
    page.raw("<section id=\"schemas\"><h2>Schemas</h2>");
    for (name, schema) in schemas.as_object().into_iter().flatten() {
        let name = html::escape(name);
        page.raw(&format!("<h3 id=\"schema-{name}\">{name}</h3>"));
        page.element("p", &prose(&schema["description"]));
        fields(page, schema);
    }
    page.raw("</section>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi::document;
    use crate::routes::all;

    #[test]
    fn every_operation_and_schema_is_on_the_page_and_every_link_resolves() {
        let document = document(&all());
        let page = docs_page(&document, &all());
        let has_anchor = |id: &str| page.contains(&format!(" id=\"{id}\""));
        for (path, method, operation) in operations(&document, &[]) {
            assert!(has_anchor(operation["operationId"].as_str().expect("it has an id")), "{method} {path}");
        }
        for name in document["components"]["schemas"].as_object().expect("the document has schemas").keys() {
            assert!(has_anchor(&format!("schema-{name}")), "{name}");
        }
        for link in page.split("href=\"#").skip(1) {
            let target = link.split('"').next().unwrap_or_default();
            assert!(has_anchor(target), "{target}");
        }
    }

    #[test]
    fn the_page_loads_nothing_from_elsewhere_and_has_no_script() {
        let page = docs_page(&document(&all()), &all());
        for foreign in ["<script", "<iframe", "<img", "style=", "onclick", "href=\"http", "src="] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }
}
