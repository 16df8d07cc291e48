//! The document: paths, operations, answers.

use serde_json::{Map, Value, json};

use super::components::Components;
use super::dialect::{Side, drop_null};
use super::example::example;
use super::operation::{Media, Message, Operation};
use crate::access::Right;
use crate::endpoints::{AnsweredBy, Endpoint, Method, TABLE};
use crate::problem::ProblemDocument;

/// Release since which all endpoints that have no later one are served.
const FIRST_RELEASE: &str = "0.1.0";
/// The promises of the API, for those who write clients.
const ABOUT: &str = "\
Bodies are JSON in snake_case, with units in the names of fields. A text that may hold any bytes, \
such as a path, writes those that are not UTF-8 as escapes.

Within `/api/v1` a later release adds paths, optional fields of requests, fields of answers, \
words of enumerations (`x-extensible-enum`), types of events and codes of problems. It takes none \
away. A client therefore ignores fields and events that it does not know, and survives such words. \
A request is strict: a field that its schema does not allow is refused.

An error is a problem (RFC 9457) with a stable `code`. `x-penstock-repeat` says what a second \
request does when the answer to the first was lost, `x-penstock-right` what a caller needs, and \
`x-penstock-answered-by` which peer of a site answers. `x-item-schema` is the schema of each line \
of `application/jsonl`, and of the data of each event of `text/event-stream`.";

/// Problems that any operation may answer, by their statuses: a name, and a description.
const PROBLEMS: [(&str, &str, &str); 7] = [
    ("400", "BadRequest", "The request is malformed, or asks for something that makes no sense."),
    ("401", "Unauthorized", "The request has no token, or one that is not accepted."),
    ("403", "Forbidden", "The caller lacks the right."),
    ("404", "NotFound", "The object does not exist, or the caller may not see it."),
    ("409", "Conflict", "The state of the object, or a guard, does not allow it."),
    ("503", "Unavailable", "The site cannot answer now; a later request may succeed."),
    ("default", "Problem", "Any other problem."),
];

/// Returns the OpenAPI document of these operations as JSON text, with the keys of its objects in
/// alphabetical order.
pub fn document(operations: &[Operation]) -> String {
    let mut components = Components::new();
    let mut paths = Map::new();
    for operation in operations {
        let path = paths.entry(operation.endpoint.path).or_insert_with(|| json!({}));
        let method = operation.endpoint.method.as_str().to_lowercase();
        path[method] = operation_object(operation, &mut components);
    }
    let problem = Message { media: Media::Json, schema: subschema::<ProblemDocument> };
    let problem = components.schema(Side::Answer, problem.schema);
    let responses = PROBLEMS.map(|(_, name, description)| {
        let content = json!({ "application/problem+json": { "schema": problem } });
        (name.to_owned(), json!({ "description": description, "content": content }))
    });
    let mut document = json!({
        "paths": paths,
        "components": { "responses": Map::from_iter(responses) },
    });
    let schemas = components.name(&mut document);
    add_examples(&mut document["paths"], &schemas);
    document["components"]["schemas"] = Value::Object(schemas);
    document["components"]["securitySchemes"] = security_schemes();
    document["security"] = json!([{ "bearer": [] }, { "session": [] }]);
    head(&mut document);
    // A text that is a string, a number and maps of them always has a JSON form.
    let mut text = serde_json::to_string_pretty(&sorted(document)).unwrap_or_default();
    text.push('\n');
    text
}

fn subschema<T: schemars::JsonSchema>(
    generator: &mut schemars::SchemaGenerator,
) -> schemars::Schema {
    generator.subschema_for::<T>()
}

/// Adds what the document says of itself.
fn head(document: &mut Value) {
    document["openapi"] = json!("3.1.0");
    document["info"] = json!({
        "title": "Penstock API",
        "version": env!("CARGO_PKG_VERSION"),
        "summary": "Transfers between sites, their queue, peers and users.",
        "description": ABOUT,
        "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
    });
    document["servers"] = json!([
        {
            "url": "https://{host}:{port}",
            "description": "The HTTPS listener of a peer, for users with tokens.",
            "variables": {
                "host": { "default": "localhost" },
                "port": { "default": "7443" },
            },
        },
        {
            "url": "http://localhost",
            "description": "The Unix socket `penstock.sock` of the site directory, for root and \
                            the user of the daemon, or the one for accounts of the host.",
        },
    ]);
    let tags = TABLE.iter().map(|group| json!({ "name": group.name }));
    document["tags"] = tags.collect();
}

fn operation_object(operation: &Operation, components: &mut Components) -> Value {
    let endpoint = operation.endpoint;
    let group = TABLE.iter().find(|group| group.endpoints.contains(&endpoint));
    let mut object = json!({
        "operationId": endpoint.name.to_lowercase(),
        "tags": [group.map(|group| group.name)],
        "summary": endpoint.summary,
        "responses": responses(operation, components),
        "x-penstock-right": endpoint.right.as_str(),
        "x-penstock-repeat": endpoint.repeat.as_str().replace(' ', "-"),
        "x-penstock-answered-by": endpoint.answered_by.as_str().replace(' ', "-"),
        "x-penstock-since": FIRST_RELEASE,
    });
    let parameters = parameters(operation, components);
    if !parameters.is_empty() {
        object["parameters"] = Value::Array(parameters);
    }
    if let Some(body) = operation.body {
        let content = content(body, Side::Request, components);
        object["requestBody"] = json!({ "required": true, "content": content });
    }
    if operation.is_deprecated {
        object["deprecated"] = json!(true);
    }
    match endpoint.right {
        Right::Public => object["security"] = json!([]),
        Right::LocalRoot => {
            object["description"] =
                json!("Only at the Unix socket: root and the user of the daemon.");
        }
        _ => {}
    }
    object
}

fn parameters(operation: &Operation, components: &mut Components) -> Vec<Value> {
    let segments = operation.endpoint.path.split('/');
    let names = segments.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<_> = names
        .zip(operation.path)
        .map(|(name, schema)| {
            let schema = components.schema(Side::Request, *schema);
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        })
        .collect();
    for name in operation.headers {
        let schema = json!({ "type": "string" });
        parameters.push(json!({ "name": name, "in": "header", "schema": schema }));
    }
    let Some(query) = operation.query else { return parameters };
    let query = components.schema(Side::Request, query);
    let required = query["required"].as_array().cloned().unwrap_or_default();
    for (name, schema) in query["properties"].as_object().into_iter().flatten() {
        let mut schema = schema.clone();
        drop_null(&mut schema);
        let description = schema.as_object_mut().and_then(|fields| fields.remove("description"));
        let is_required = required.contains(&json!(name));
        let mut parameter =
            json!({ "name": name, "in": "query", "required": is_required, "schema": schema });
        if let Some(description) = description {
            parameter["description"] = description;
        }
        parameters.push(parameter);
    }
    parameters
}

fn responses(operation: &Operation, components: &mut Components) -> Map<String, Value> {
    let mut responses = Map::new();
    for (status, body) in operation.answers {
        let description = match status {
            201 => "It is made.",
            204 => "It is done.",
            303 => "The browser goes to the address in `Location`.",
            _ => "The answer.",
        };
        let response = responses
            .entry(status.to_string())
            .or_insert_with(|| json!({ "description": description }));
        if let Some(body) = body {
            response["content"][body.media.as_str()] =
                content(*body, Side::Answer, components)[body.media.as_str()].take();
        }
    }
    for (status, name, _) in PROBLEMS {
        if may_answer(operation.endpoint, operation, status) {
            let reference = format!("#/components/responses/{name}");
            responses.entry(status).or_insert_with(|| json!({ "$ref": reference }));
        }
    }
    responses
}

/// Returns the ways by which a request names its user.
fn security_schemes() -> Value {
    json!({
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "A token of a user (docs/users.md). The Unix socket needs none: the \
                            kernel names its user.",
        },
        "session": {
            "type": "apiKey",
            "in": "cookie",
            "name": "__Host-penstock",
            "description": "The session of a browser, which `POST /sessions` begins.",
        },
    })
}

/// Returns whether an operation may answer with a problem of a status.
fn may_answer(endpoint: &Endpoint, operation: &Operation, status: &str) -> bool {
    let is_public = endpoint.right == Right::Public;
    match status {
        "401" | "403" => !is_public,
        "404" => !operation.path.is_empty(),
        "409" => endpoint.method != Method::Get,
        "503" => endpoint.answered_by == AnsweredBy::Controller,
        _ => true,
    }
}

/// Returns the `content` of a body. Of values that are many only a text can be validated.
fn content(message: Message, side: Side, components: &mut Components) -> Value {
    let schema = components.schema(side, message.schema);
    let body = match message.media {
        Media::Json | Media::Form | Media::Csv | Media::Text => json!({ "schema": schema }),
        Media::JsonLines => json!({ "schema": { "type": "string" }, "x-item-schema": schema }),
        // Tools disagree whether a schema is of the stream or of an event.
        Media::Events => json!({ "schema": {}, "x-item-schema": schema }),
        Media::Bytes => json!({ "schema": { "type": "string", "format": "binary" } }),
    };
    json!({ message.media.as_str(): body })
}

/// Adds an example to each JSON body.
fn add_examples(paths: &mut Value, schemas: &Map<String, Value>) {
    let operations = paths.as_object_mut().into_iter().flatten();
    let operations = operations.flat_map(|(_, path)| path.as_object_mut().into_iter().flatten());
    for (_, operation) in operations {
        let mut bodies = Vec::new();
        for (name, part) in operation.as_object_mut().into_iter().flatten() {
            match name.as_str() {
                "requestBody" => bodies.push(part),
                "responses" => bodies.extend(
                    part.as_object_mut().into_iter().flatten().map(|(_, response)| response),
                ),
                _ => {}
            }
        }
        for body in bodies {
            if let Some(json) = body.pointer_mut("/content/application~1json") {
                json["example"] = example(&json["schema"], schemas);
            }
        }
    }
}

/// Returns a value with the keys of its objects in alphabetical order, whatever order a map keeps
/// (the feature `preserve_order` of `serde_json`, which any crate of a build may ask for).
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> =
                fields.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            fields.sort_by(|one, other| one.0.cmp(&other.0));
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        value => value,
    }
}
