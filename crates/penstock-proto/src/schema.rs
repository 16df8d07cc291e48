//! JSON Schemas of types whose form in JSON does not follow from attributes of serde.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::id::{Name, TransferId};

impl JsonSchema for Name {
    fn schema_name() -> Cow<'static, str> {
        "Name".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A name of a site, a peer, a store or a user.",
            "pattern": "^[a-z0-9][a-z0-9_-]{0,62}$",
            "examples": ["lab"],
        })
    }
}

impl JsonSchema for TransferId {
    fn schema_name() -> Cow<'static, str> {
        "TransferId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "Identifier of a transfer at every site: 128 random bits.",
            "pattern": "^[0-9a-f]{32}$",
            "examples": ["7f3a90c25be14d068a1e52c7f0b94d11"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the examples in the schemas of names and ids are names and ids.
    #[test]
    fn examples_can_be_read() {
        let example = |schema: Schema| {
            let examples = schema.get("examples").unwrap();
            examples[0].as_str().unwrap().to_owned()
        };
        let mut generator = SchemaGenerator::default();
        let name = example(Name::json_schema(&mut generator));
        assert_eq!(name.parse::<Name>().unwrap().as_str(), name);
        let id = example(TransferId::json_schema(&mut generator));
        assert_eq!(id.parse::<TransferId>().unwrap().to_string(), id);
    }
}
