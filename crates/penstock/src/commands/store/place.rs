//! Places in stores on the command line.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use clap::builder::{OsStringValueParser, TypedValueParser};
use penstock_api::place::PathText;
use penstock_proto::id::Name;
use penstock_proto::name::unescape_in_list;

/// A place `[SITE:]STORE[/PATH]`. Its path is read as `store ls` prints names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The site; none for the own one.
    pub(super) site: Option<Name>,
    pub(super) store: Name,
    /// Path within the store; empty for its root.
    pub(super) path: PathText,
}

impl TryFrom<OsString> for Place {
    type Error = String;

    fn try_from(text: OsString) -> Result<Self, Self::Error> {
        let bytes = text.as_bytes();
        let (head, path) = match bytes.iter().position(|byte| *byte == b'/') {
            Some(at) => (&bytes[..at], &bytes[at + 1..]),
            None => (bytes, &[][..]),
        };
        let head = std::str::from_utf8(head).map_err(|_| "give [SITE:]STORE[/PATH]")?;
        let (site, store) = match head.split_once(':') {
            Some((site, store)) => (Some(site), store),
            None => (None, head),
        };
        let name = |text: &str| {
            text.parse::<Name>().map_err(|error| format!("give [SITE:]STORE[/PATH]: {error}"))
        };
        let trimmed = path.strip_suffix(b"/").unwrap_or(path);
        Ok(Self {
            site: site.map(name).transpose()?,
            store: name(store)?,
            path: PathText(unescape_in_list(trimmed)),
        })
    }
}

/// Returns the parser of a place.
pub(super) fn place_parser() -> impl TypedValueParser<Value = Place> {
    OsStringValueParser::new().try_map(Place::try_from)
}

/// Returns the parser of a place that is a whole store.
pub(super) fn store_parser() -> impl TypedValueParser<Value = Place> {
    OsStringValueParser::new().try_map(|text| match Place::try_from(text)? {
        place if place.path.0.is_empty() => Ok(place),
        _ => Err("give [SITE:]STORE, without a path".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    /// Promise (j): a place is read as it is printed, whatever its bytes are.
    #[test]
    fn j_places_are_read_as_they_are_printed() {
        let read = |bytes: &[u8]| Place::try_from(OsStr::from_bytes(bytes).to_owned());
        let place = |site: Option<&str>, path: &[u8]| Place {
            site: site.map(|site| site.parse().unwrap()),
            store: "raw".parse().unwrap(),
            path: PathText(path.to_vec()),
        };
        assert_eq!(read(b"raw").unwrap(), place(None, b""));
        assert_eq!(read(b"raw/").unwrap(), place(None, b""));
        assert_eq!(read(b"lab:raw/a:b/c/").unwrap(), place(Some("lab"), b"a:b/c"));
        assert_eq!(read(b"raw/a\\x0ab\\xff\xfe").unwrap(), place(None, b"a\nb\xff\xfe"));
        for wrong in [&b""[..], b"/raw", b":raw", b"lab:", b"Raw", b"\xff/a", b"a:b:c"] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
