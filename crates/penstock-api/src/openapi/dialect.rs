//! The form of a schema that generators and validators agree on.
//!
//! A request is strict: unknown words are refused, and their schema says so. An answer is open: a
//! later release may add fields and words, so that its schema forbids neither.

use schemars::Schema;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Map, Value, json};

/// Direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// From a client.
    Request,
    /// To a client.
    Answer,
}

/// Rewriting of schemas of one side into the form of the document.
#[derive(Clone, Debug)]
pub(super) struct Dialect(pub(super) Side);

impl Transform for Dialect {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(fields) = schema.as_object_mut() else { return };
        describe(fields);
        gather_words(fields);
        bound_integer(fields);
        name_keys(fields);
        if fields.get("default").is_some_and(Value::is_null) {
            fields.remove("default");
        }
        if self.0 == Side::Answer {
            open(fields);
        }
    }
}

/// Takes the links of rustdoc out of a description, and joins its lines.
fn describe(fields: &mut Map<String, Value>) {
    let Some(Value::String(text)) = fields.get_mut("description") else { return };
    let is_target = |paragraph: &&str| !paragraph.starts_with('[') || !paragraph.contains("]: ");
    let paragraphs: Vec<_> = text
        .split("\n\n")
        .filter(is_target)
        .map(|paragraph| paragraph.replace('\n', " ").replace("[`", "`").replace("`]", "`"))
        .collect();
    let words = paragraphs.join("\n\n");
    // A path of a module is of no use outside of this program.
    let words: Vec<_> = words
        .split('`')
        .map(|word| match word.starts_with("crate::") {
            true => word.rsplit("::").next().unwrap_or_default(),
            false => word,
        })
        .collect();
    *text = words.join("`");
}

/// Makes one list of the words of an enumeration, whose meanings go into its description.
fn gather_words(fields: &mut Map<String, Value>) {
    let Some(variants) = fields.get("oneOf").and_then(Value::as_array) else { return };
    let (mut words, mut meanings) = (Vec::new(), String::new());
    for variant in variants {
        let several = variant.get("enum").or_else(|| variant.get("x-extensible-enum"));
        let one = variant.get("const");
        match (one, several.and_then(Value::as_array)) {
            (Some(Value::String(word)), _) => {
                words.push(Value::from(word.as_str()));
                if let Some(meaning) = variant.get("description").and_then(Value::as_str) {
                    meanings += &format!("\n- `{word}`: {}", meaning.replace('\n', " "));
                }
            }
            (None, Some(several)) => words.extend(several.iter().cloned()),
            _ => return,
        }
    }
    let known = fields.get("description").and_then(Value::as_str).unwrap_or_default();
    let text = format!("{known}\n{meanings}").trim().to_owned();
    fields.remove("oneOf");
    fields.insert("type".to_owned(), json!("string"));
    fields.insert("enum".to_owned(), Value::Array(words));
    fields.insert("description".to_owned(), Value::String(text));
}

/// Says the bounds of an integer that its format has.
fn bound_integer(fields: &mut Map<String, Value>) {
    let (least, most) = match fields.get("format").and_then(Value::as_str) {
        Some("uint32") => (json!(0), json!(u32::MAX)),
        Some("uint64" | "uint") => (json!(0), json!(u64::MAX)),
        Some("int32") => (json!(i32::MIN), json!(i32::MAX)),
        Some("int64" | "int") => (json!(i64::MIN), json!(i64::MAX)),
        _ => return,
    };
    if fields["format"] == "uint" {
        fields.insert("format".to_owned(), json!("uint64"));
    }
    fields.entry("minimum").or_insert(least);
    fields.entry("maximum").or_insert(most);
}

/// Says of a map which keys it may have, apart from its values.
fn name_keys(fields: &mut Map<String, Value>) {
    let Some(Value::Object(patterns)) = fields.get("patternProperties") else { return };
    let Some((pattern, value)) = patterns.iter().next().filter(|_| patterns.len() == 1) else {
        return;
    };
    let (keys, value) = (json!({ "pattern": pattern }), value.clone());
    fields.remove("patternProperties");
    fields.insert("propertyNames".to_owned(), keys);
    fields.insert("additionalProperties".to_owned(), value);
}

/// Allows what a later release may answer, and names what this one does.
fn open(fields: &mut Map<String, Value>) {
    if fields.get("additionalProperties") == Some(&Value::Bool(false)) {
        fields.remove("additionalProperties");
    }
    if let Some(words) = fields.remove("enum") {
        fields.insert("x-extensible-enum".to_owned(), words);
    }
    let required: Vec<String> = fields
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        .unwrap_or_default();
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        for (name, property) in properties {
            if !required.contains(name) {
                drop_null(property);
            }
        }
    }
}

/// Makes a value that may be null one that is absent instead.
pub(super) fn drop_null(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    if let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            fields.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(variants)) = fields.get_mut("anyOf") {
        variants.retain(|variant| variant.get("type") != Some(&json!("null")));
        if let [Value::Object(only)] = variants.as_slice() {
            let only = only.clone();
            fields.remove("anyOf");
            fields.extend(only);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_dialect(side: Side, schema: Value) -> Value {
        let mut schema = Schema::try_from(schema).unwrap();
        Dialect(side).transform(&mut schema);
        schema.to_value()
    }

    /// Promise: a client survives words and fields of a later release, and sends none that this
    /// one refuses.
    #[test]
    fn answers_are_open_and_requests_are_not() {
        let schema = json!({
            "type": "object",
            "properties": {
                "state": { "oneOf": [
                    { "type": "string", "const": "up", "description": "There." },
                    { "type": "string", "enum": ["lost"] },
                ] },
                "since": { "type": ["integer", "null"], "format": "uint64", "default": null },
            },
            "required": ["state"],
            "additionalProperties": false,
        });
        let state = json!({
            "type": "string", "enum": ["up", "lost"], "description": "- `up`: There.",
        });
        let request = in_dialect(Side::Request, schema.clone());
        assert_eq!(request["properties"]["state"], state);
        assert_eq!(request["additionalProperties"], false);
        let since = json!({
            "type": ["integer", "null"], "format": "uint64", "minimum": 0, "maximum": u64::MAX,
        });
        assert_eq!(request["properties"]["since"], since);
        let answer = in_dialect(Side::Answer, schema);
        assert_eq!(answer["properties"]["state"]["x-extensible-enum"], json!(["up", "lost"]));
        assert!(answer["properties"]["state"].get("enum").is_none());
        assert!(answer.get("additionalProperties").is_none());
        assert_eq!(answer["properties"]["since"]["type"], "integer");
    }

    /// Promise: descriptions hold no links that only rustdoc understands.
    #[test]
    fn descriptions_are_plain() {
        let text = "See [`A::b`],\nand [`crate::c::D`].\n\n[`A::b`]: crate::a::A::b";
        let schema = in_dialect(Side::Answer, json!({ "description": text }));
        assert_eq!(schema["description"], "See `A::b`, and `D`.");
    }
}
