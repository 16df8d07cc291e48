//! The schemas of both directions, each type under one name where it has one form, under two where
//! it has not.

use std::collections::BTreeSet;

use schemars::generate::SchemaSettings;
use schemars::transform::Transform as _;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::dialect::{Dialect, Side};
use super::operation::SchemaOf;

/// The place of all schemas in the document.
const PLACE: &str = "#/components/schemas/";
/// The place of schemas of requests while they have no final names.
const REQUESTS: &str = "#/components/requests/";

/// The schemas that the document has needed so far.
pub(super) struct Components {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
}

impl Components {
    pub(super) fn new() -> Self {
        let settings = |place: &str| {
            let place = place.trim_start_matches('#').trim_end_matches('/').to_owned();
            SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = place.into())
        };
        let requests = settings(REQUESTS).for_deserialize().with_transform(Dialect(Side::Request));
        let answers = settings(PLACE).for_serialize().with_transform(Dialect(Side::Answer));
        Self { requests: requests.into_generator(), answers: answers.into_generator() }
    }

    /// Returns the schema of a type in one direction, which refers to components.
    pub(super) fn schema(&mut self, side: Side, of: SchemaOf) -> Value {
        let generator = match side {
            Side::Request => &mut self.requests,
            Side::Answer => &mut self.answers,
        };
        let mut schema: Schema = of(generator);
        Dialect(side).transform(&mut schema);
        match schema.to_value() {
            // Some tools do not know the short form of what allows any value.
            Value::Bool(true) => json!({}),
            schema => schema,
        }
    }

    /// Gives all schemas that `document` refers to their final names, there too, and returns them.
    pub(super) fn name(mut self, document: &mut Value) -> Map<String, Value> {
        let mut requests = self.requests.take_definitions(true);
        let mut components = self.answers.take_definitions(true);
        split_unions(&mut requests, REQUESTS);
        split_unions(&mut components, PLACE);
        let doubled = doubled(&requests, &components);
        let final_name = |name: &str| match doubled.contains(name) {
            true => format!("{PLACE}{name}Input"),
            false => format!("{PLACE}{name}"),
        };
        let rename = |reference: &mut String| {
            if let Some(name) = reference.strip_prefix(REQUESTS) {
                *reference = final_name(name);
            }
        };
        for (name, mut schema) in requests {
            references(&mut schema, &mut |reference| rename(reference));
            components.insert(final_name(&name)[PLACE.len()..].to_owned(), schema);
        }
        references(document, &mut |reference| rename(reference));
        let wanted = reachable(document, &mut components);
        components.retain(|name, _| wanted.contains(name));
        components
    }
}

/// Calls `each` with every reference in a value.
pub(super) fn references(value: &mut Value, each: &mut dyn FnMut(&mut String)) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::String(reference) if name == "$ref" => each(reference),
                    // A discriminator refers to schemas by its own words.
                    Value::Object(mapping) if name == "mapping" => {
                        for target in mapping.values_mut() {
                            if let Value::String(reference) = target {
                                each(reference);
                            }
                        }
                    }
                    field => references(field, each),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| references(item, each)),
        _ => {}
    }
}

/// Returns the names of types that have another form in requests than in answers.
fn doubled(requests: &Map<String, Value>, answers: &Map<String, Value>) -> BTreeSet<String> {
    let mut doubled = BTreeSet::new();
    let mut shared = Vec::new();
    for (name, schema) in requests {
        let Some(answer) = answers.get(name) else { continue };
        let (mut schema, mut uses) = (schema.clone(), BTreeSet::new());
        references(&mut schema, &mut |reference| {
            *reference = reference.replace(REQUESTS, PLACE);
            uses.insert(reference[PLACE.len()..].to_owned());
        });
        if schema == *answer {
            shared.push((name.clone(), uses));
        } else {
            doubled.insert(name.clone());
        }
    }
    loop {
        let before = doubled.len();
        for (name, uses) in &shared {
            if !uses.is_disjoint(&doubled) {
                doubled.insert(name.clone());
            }
        }
        if doubled.len() == before {
            return doubled;
        }
    }
}

/// Returns the names of the components that a document refers to, itself or through others.
fn reachable(document: &mut Value, components: &mut Map<String, Value>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = Vec::new();
    let note = |reference: &mut String, open: &mut Vec<String>| {
        open.extend(reference.strip_prefix(PLACE).map(str::to_owned));
    };
    references(document, &mut |reference| note(reference, &mut open));
    while let Some(name) = open.pop() {
        if found.insert(name.clone())
            && let Some(schema) = components.get_mut(&name)
        {
            references(schema, &mut |reference| note(reference, &mut open));
        }
    }
    found
}

/// Makes each variant of a union that is an object a schema of its own: generators name no other
/// ones well.
fn split_unions(schemas: &mut Map<String, Value>, place: &str) {
    let names: Vec<String> = schemas.keys().cloned().collect();
    for name in names {
        let Some(tag) = tag_of(&schemas[&name]) else {
            split_keyed_union(&name, schemas, place);
            continue;
        };
        let variants = schemas[&name]["oneOf"].as_array().cloned().unwrap_or_default();
        let (mut split, mut mapping) = (Vec::new(), Map::new());
        for variant in variants {
            let word = variant["properties"][&tag]["const"].as_str().unwrap_or_default().to_owned();
            let variant_name = format!("{name}{}", capitalised(&word));
            let reference = format!("{place}{variant_name}");
            mapping.insert(word, json!(reference));
            split.push(json!({ "$ref": reference }));
            let whole = with_fields(variant, schemas, place);
            schemas.insert(variant_name, whole);
        }
        let discriminator = json!({ "propertyName": tag, "mapping": mapping });
        if let Some(Value::Object(union)) = schemas.get_mut(&name) {
            union.insert("oneOf".to_owned(), Value::Array(split));
            union.insert("discriminator".to_owned(), discriminator);
        }
    }
}

/// Splits a union whose variants are words, and objects with one field each.
fn split_keyed_union(name: &str, schemas: &mut Map<String, Value>, place: &str) {
    let Some(variants) = schemas[name].get("oneOf").and_then(Value::as_array) else { return };
    let mut variants = variants.clone();
    for variant in &mut variants {
        let fields = variant.get("properties").and_then(Value::as_object);
        let Some(field) = fields.filter(|fields| fields.len() == 1).and_then(|it| it.keys().next())
        else {
            continue;
        };
        let variant_name = format!("{name}{}", capitalised(field));
        let reference = json!({ "$ref": format!("{place}{variant_name}") });
        schemas.insert(variant_name, std::mem::replace(variant, reference));
    }
    schemas[name]["oneOf"] = Value::Array(variants);
}

/// Returns the field that tells the variants of a union apart.
fn tag_of(schema: &Value) -> Option<String> {
    let variants = schema.get("oneOf")?.as_array()?;
    let fields = variants.first()?.get("properties")?.as_object()?;
    let is_tag = |name: &&String| {
        variants.iter().all(|variant| variant["properties"][name.as_str()]["const"].is_string())
    };
    fields.keys().find(is_tag).cloned()
}

/// Returns a variant together with the fields of the schema that it refers to.
fn with_fields(mut variant: Value, schemas: &Map<String, Value>, place: &str) -> Value {
    let Some(fields) = variant.as_object_mut() else { return variant };
    let Some(Value::String(reference)) = fields.remove("$ref") else { return variant };
    let held = reference.strip_prefix(place).and_then(|name| schemas.get(name));
    let Some(held) = held.and_then(Value::as_object) else { return variant };
    for (name, value) in held {
        match (fields.get_mut(name), value) {
            (Some(Value::Object(own)), Value::Object(more)) => {
                own.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
            }
            (Some(Value::Array(own)), Value::Array(more)) => own.extend(more.iter().cloned()),
            (Some(_), _) => {}
            (None, value) => drop(fields.insert(name.clone(), value.clone())),
        }
    }
    variant
}

/// Returns a name of a field or a variant as one of a type: `age_seconds` as `AgeSeconds`.
fn capitalised(word: &str) -> String {
    let parts = word.split(['_', '-']).flat_map(|part| {
        let mut letters = part.chars();
        letters.next().into_iter().flat_map(char::to_uppercase).chain(letters)
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlanLine;
    use crate::rest::{Event, SubmitRequest, TransferView};

    fn components(sides: &[(Side, SchemaOf)]) -> (Value, Map<String, Value>) {
        let mut components = Components::new();
        let schemas: Vec<_> =
            sides.iter().map(|(side, of)| components.schema(*side, *of)).collect();
        let mut document = Value::Array(schemas);
        let named = components.name(&mut document);
        (document, named)
    }

    /// Promise: a type that requests may leave parts out of has a schema for requests and one for
    /// answers; a type with one form has one schema.
    #[test]
    fn a_type_with_two_forms_has_two_names() {
        let (document, schemas) = components(&[
            (Side::Request, SchemaGenerator::subschema_for::<SubmitRequest>),
            (Side::Answer, SchemaGenerator::subschema_for::<TransferView>),
        ]);
        assert_eq!(document[0]["$ref"], "#/components/schemas/SubmitRequest");
        let forms = |schema: &Value| schema.as_object().unwrap().contains_key("anyOf");
        let location = &schemas["LocationInput"];
        assert!(forms(location) && !forms(&schemas["Location"]));
        assert_eq!(location["anyOf"][1]["additionalProperties"], false);
        assert_eq!(schemas["TransferOptionsInput"]["additionalProperties"], false);
        assert!(schemas["TransferOptions"].get("additionalProperties").is_none());
        assert!(schemas.contains_key("PathText") && !schemas.contains_key("PathTextInput"));
    }

    /// Promise: a generator of clients can tell the variants of a union apart, each of which has
    /// all its fields.
    #[test]
    fn unions_have_a_discriminator() {
        let (_, schemas) = components(&[
            (Side::Answer, SchemaGenerator::subschema_for::<Event>),
            (Side::Answer, SchemaGenerator::subschema_for::<PlanLine>),
        ]);
        let discriminator = &schemas["Event"]["discriminator"];
        assert_eq!(discriminator["propertyName"], "type");
        assert_eq!(discriminator["mapping"]["error"], "#/components/schemas/EventError");
        let event = &schemas["EventStatus"];
        assert_eq!(event["properties"]["type"]["const"], "status");
        assert!(event["properties"]["bytes_durable"].is_object(), "{event}");
        let required = event["required"].as_array().unwrap();
        assert!(required.contains(&json!("type")) && required.contains(&json!("state")));
        assert!(!schemas.contains_key("TransferEvent"), "nothing refers to it");
        assert!(schemas.contains_key("PlanLineEnd"));
    }

    /// Promise: no two types share a name, so that no schema has a number after it.
    #[test]
    fn names_of_schemas_are_those_of_types() {
        let (_, schemas) = components(&[
            (Side::Answer, SchemaGenerator::subschema_for::<crate::receipt::Receipt>),
            (Side::Answer, SchemaGenerator::subschema_for::<crate::access::MeView>),
        ]);
        assert!(schemas.contains_key("ReceiptRole") && schemas.contains_key("Role"));
        let numbered = schemas.keys().find(|name| name.ends_with(|end: char| end.is_ascii_digit()));
        assert_eq!(numbered, None);
    }
}
