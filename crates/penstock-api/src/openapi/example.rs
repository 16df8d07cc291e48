//! Examples of messages: of the main requests by hand, of all others from their schemas.

use serde_json::{Map, Value, json};

/// Greatest depth of a list that is not empty in an example.
const LIST_DEPTH_MAX: usize = 1;

/// Examples of requests, by the names of their schemas.
const REQUESTS: [(&str, &str); 4] = [
    (
        "SubmitRequest",
        r#"{
            "id": "7f3a90c25be14d068a1e52c7f0b94d11",
            "source": "lab:raw/run7",
            "target": "hpc:scratch/",
            "label": "run 7",
            "options": { "update": { "sync": true }, "proof": { "receipt": true } }
        }"#,
    ),
    ("UserRequest", r#"{ "role": "user", "grants": { "raw": { "list": true, "read": true } } }"#),
    ("TokenRequest", r#"{ "label": "nightly job", "scopes": ["transfers:write"], "days": 30 }"#),
    ("LimitRequest", r#"{ "rate_bits_per_s": 2000000000 }"#),
];

/// Returns an example of a schema of `components`.
pub(super) fn example(schema: &Value, components: &Map<String, Value>) -> Value {
    of(schema, components, 0)
}

fn of(schema: &Value, components: &Map<String, Value>, depth: usize) -> Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|place| place.rsplit('/').next()) {
        if let Some((_, text)) = REQUESTS.iter().find(|(known, _)| *known == name) {
            return serde_json::from_str(text).unwrap_or_default();
        }
        return components.get(name).map_or(Value::Null, |found| of(found, components, depth));
    }
    let first = |name: &str| schema[name].as_array().and_then(|values| values.first()).cloned();
    let told = schema.get("const").or_else(|| schema.get("default")).cloned();
    let told = first("examples").or(told).or_else(|| first("enum"));
    if let Some(value) = told.or_else(|| first("x-extensible-enum")) {
        return value;
    }
    if may_be_null(schema) {
        return Value::Null;
    }
    if let Some(variant) = first("oneOf").or_else(|| first("anyOf")) {
        return of(&variant, components, depth);
    }
    match schema["type"].as_str().unwrap_or_default() {
        "object" => object(schema, components, depth),
        "array" if schema["prefixItems"].is_array() => {
            let items = schema["prefixItems"].as_array().into_iter().flatten();
            items.map(|item| of(item, components, depth + 1)).collect()
        }
        "array" if depth <= LIST_DEPTH_MAX => json!([of(&schema["items"], components, depth + 1)]),
        "array" => json!([]),
        "integer" => schema.get("minimum").cloned().unwrap_or(json!(0)),
        "number" => json!(0.0),
        "boolean" => json!(false),
        "string" => json!(""),
        _ => Value::Null,
    }
}

/// Returns whether null is a value of a schema: nothing is there, or nothing is known.
fn may_be_null(schema: &Value) -> bool {
    let has_null =
        |list: &Value, null: Value| list.as_array().is_some_and(|all| all.contains(&null));
    has_null(&schema["type"], json!("null"))
        || has_null(&schema["anyOf"], json!({ "type": "null" }))
}

/// Returns an object with the fields that it must have.
fn object(schema: &Value, components: &Map<String, Value>, depth: usize) -> Value {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let fields = required
        .iter()
        .filter_map(Value::as_str)
        .map(|name| (name.to_owned(), of(&schema["properties"][name], components, depth + 1)));
    Value::Object(fields.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{TokenRequest, UserRequest};
    use crate::limits::LimitRequest;
    use crate::rest::SubmitRequest;

    /// Promise: the requests that the document shows can be sent.
    #[test]
    fn examples_of_requests_can_be_read() {
        let text = |name| REQUESTS.iter().find(|(known, _)| *known == name).unwrap().1;
        let transfer: SubmitRequest = serde_json::from_str(text("SubmitRequest")).unwrap();
        assert_eq!(transfer.target.to_string(), "hpc:scratch/");
        serde_json::from_str::<UserRequest>(text("UserRequest")).unwrap();
        serde_json::from_str::<TokenRequest>(text("TokenRequest")).unwrap();
        serde_json::from_str::<LimitRequest>(text("LimitRequest")).unwrap();
    }
}
