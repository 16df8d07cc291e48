//! Lists in parts.

use serde::{Deserialize, Serialize};

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(rename = "{T}Page"))]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Value of `cursor` for the next part; absent at the end. It is opaque, and holds for the
    /// same filter and order only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// Returns a list that has one part only.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next: None }
    }
}
