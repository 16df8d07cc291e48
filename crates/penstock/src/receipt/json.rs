//! Reads JSON that has one meaning only: a key that stands twice in an object is refused, for
//! readers differ in which of the two they show, and only one of them was signed.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The value that `text` holds.
///
/// # Errors
/// It is not JSON, or a key stands twice.
pub(super) fn read(text: &[u8]) -> Result<Value, serde_json::Error> {
    let mut input = serde_json::Deserializer::from_slice(text);
    let value = Unique.deserialize(&mut input)?;
    input.end().map(|()| value)
}

struct Unique;

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Value, D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element_seed(Unique)? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format_args!("`{key}` appears twice")));
            }
            let value = fields.next_value_seed(Unique)?;
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: what is read is what serde_json reads, but for a key that stands twice, at whatever
    /// depth.
    #[test]
    fn a_key_that_stands_twice_is_refused() {
        let text = br#"{"a": [1, -2, 0.5, true, null, {"b": "\u00e9"}], "c": {"a": {}}}"#;
        assert_eq!(read(text).unwrap(), serde_json::from_slice::<Value>(text).unwrap());
        for twice in [r#"{"a": 1, "a": 1}"#, r#"{"c": [{"a": 1, "\u0061": 2}]}"#] {
            let error = read(twice.as_bytes()).unwrap_err();
            assert!(error.to_string().contains("appears twice"), "{error}");
        }
        assert!(read(b"{} {}").is_err());
    }
}
