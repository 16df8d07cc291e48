//! Entity tags, by which a client changes only a state that it has read (RFC 9110, 8.8.3 and
//! 13.1.1).

use std::fmt;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use serde::Serialize;

/// Bytes of the digest in a tag.
const TAG_BYTES: usize = 8;

/// The tag of an object: a digest of those of its fields that a request can change. Figures that
/// change by themselves are not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntityTag(String);

impl EntityTag {
    /// Returns the tag of these fields.
    pub(crate) fn of(fields: &impl Serialize) -> Self {
        // Our own types always have a JSON form.
        let json = serde_json::to_vec(fields).unwrap_or_default();
        let digest = blake3::hash(&json).to_hex();
        Self(format!("\"{}\"", &digest[..2 * TAG_BYTES]))
    }

    /// Returns the value of the header `ETag`.
    pub(crate) fn header(&self) -> HeaderValue {
        // Quotes and hexadecimal digits are fit for a header.
        HeaderValue::from_str(&self.0).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
    }
}

impl fmt::Display for EntityTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The header `If-Match` of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct IfMatch(Option<String>);

impl IfMatch {
    /// Returns whether a request may change an object; a new one has no tag.
    pub(crate) fn is_met_by(&self, tag: Option<&EntityTag>) -> bool {
        let Some(wanted) = &self.0 else { return true };
        let Some(tag) = tag else { return false };
        wanted.split(',').map(str::trim).any(|wanted| wanted == "*" || wanted == tag.0)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let values = parts.headers.get_all(header::IF_MATCH).iter();
        // An invalid text matches no tag.
        let texts: Vec<_> = values.map(|value| value.to_str().unwrap_or_default()).collect();
        Ok(Self((!texts.is_empty()).then(|| texts.join(","))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a change to a state that another client has changed meanwhile is found, and a
    /// change without a condition is made.
    #[test]
    fn a_condition_holds_for_what_was_read() {
        let (old, new) = (EntityTag::of(&("label", 5)), EntityTag::of(&("label", 6)));
        assert_eq!(old, EntityTag::of(&("label", 5)));
        let holds = |text: Option<&str>, tag| IfMatch(text.map(str::to_owned)).is_met_by(tag);
        assert!(holds(None, Some(&new)) && holds(None, None));
        assert!(holds(Some("*"), Some(&new)) && !holds(Some("*"), None));
        assert!(holds(Some(&format!("\"x\", {new}")), Some(&new)));
        assert!(!holds(Some(&old.to_string()), Some(&new)) && !holds(Some(""), Some(&new)));
    }
}
