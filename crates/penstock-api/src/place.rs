//! Paths and places in stores, as users and sites write them.

use std::fmt;
use std::str::FromStr;

use penstock_proto::id::Name;
use penstock_proto::name;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A path as bytes, written in JSON with [`name::escape`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(example = &"run7"))]
#[serde(try_from = "String", into = "String")]
pub struct PathText(pub Vec<u8>);

impl TryFrom<String> for PathText {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        name::unescape(&text).map(Self).ok_or("an escape in the path is not complete")
    }
}

impl From<PathText> for String {
    fn from(path: PathText) -> Self {
        name::escape(&path.0)
    }
}

impl fmt::Display for PathText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name::escape(&self.0))
    }
}

/// A place in a store of a site: `SITE:STORE/PATH`. In JSON it is an object; requests may also give
/// the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(try_from = "LocationForm")]
pub struct Location {
    /// The site.
    pub site: Name,
    /// The store at the site.
    pub store: Name,
    /// Relative path within the store, without slashes at its ends; empty for the store's root.
    pub path: PathText,
    /// True if it was written with a slash at its end. For a source this means its contents; for a
    /// target, a directory to put the source into.
    pub slash: bool,
}

/// The forms of a location in JSON. The schema is that of users' requests.
#[derive(Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(untagged)]
enum LocationForm {
    /// A text such as `lab:raw/run7`.
    Text(String),
    /// Its parts.
    Parts { site: Name, store: Name, path: PathText, slash: bool },
}

impl TryFrom<LocationForm> for Location {
    type Error = ParseLocationError;

    fn try_from(form: LocationForm) -> Result<Self, Self::Error> {
        match form {
            LocationForm::Text(text) => text.parse(),
            LocationForm::Parts { site, store, path, slash } => {
                Ok(Self { site, store, path, slash })
            }
        }
    }
}

/// Reads a location in a user's request: a text, or an object without unknown fields. Elsewhere an
/// object may have more fields, as sites and records of later releases may write them.
///
/// # Errors
/// The text is no location, or a field is unknown, wrong or missing.
pub fn requested<'de, D: Deserializer<'de>>(from: D) -> Result<Location, D::Error> {
    from.deserialize_any(RequestedLocation)
}

/// Reads the two forms without [`LocationForm`], whose errors name neither field nor reason.
struct RequestedLocation;

/// An object that is a location in a user's request.
#[derive(Deserialize)]
#[serde(remote = "Location", deny_unknown_fields)]
struct RequestedParts {
    site: Name,
    store: Name,
    path: PathText,
    slash: bool,
}

impl<'de> Visitor<'de> for RequestedLocation {
    type Value = Location;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text SITE:STORE/PATH, or an object with `site`, `store`, `path`, `slash`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Location, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Location, A::Error> {
        RequestedParts::deserialize(MapAccessDeserializer::new(fields))
    }
}

/// Error: a text is not a location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not SITE:STORE/PATH: {why}")]
pub struct ParseLocationError {
    text: String,
    why: String,
}

impl FromStr for Location {
    type Err = ParseLocationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |why: String| ParseLocationError { text: text.to_owned(), why };
        let (site, rest) = text.split_once(':').ok_or_else(|| error("it has no `:`".to_owned()))?;
        let (store, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = path.trim_start_matches('/');
        let trimmed = path.trim_end_matches('/');
        let slash = rest.ends_with('/');
        name::check_relative(trimmed.as_bytes()).map_err(|_| {
            error("the path must not hold `.`, `..` or empty components".to_owned())
        })?;
        Ok(Self {
            site: site.parse().map_err(|cause| error(format!("{cause}")))?,
            store: store.parse().map_err(|cause| error(format!("{cause}")))?,
            path: PathText(trimmed.as_bytes().to_vec()),
            slash,
        })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}/{}", self.site, self.store, self.path)?;
        if self.slash && !self.path.0.is_empty() { f.write_str("/") } else { Ok(()) }
    }
}
