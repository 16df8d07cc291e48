//! Reading of fields for people, from any writer: the result is short and in one line.

use std::net::SocketAddr;

use penstock_proto::id::Name;
use penstock_proto::text;
use serde::{Deserialize, Deserializer};

/// Reads a field for people, for `#[serde(deserialize_with)]`; see [`text::field`].
///
/// # Errors
/// It is no string.
pub fn field<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(text::field(&String::deserialize(from)?))
}

/// Reads pairs of an address and a field for people.
pub(crate) fn by_address<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Vec<(SocketAddr, String)>, D::Error> {
    let pairs: Vec<(SocketAddr, String)> = Vec::deserialize(from)?;
    Ok(pairs.into_iter().map(|(address, said)| (address, text::field(&said))).collect())
}

/// Reads pairs of a name and a field for people.
pub(crate) fn by_name<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(Name, String)>, D::Error> {
    let pairs: Vec<(Name, String)> = Vec::deserialize(from)?;
    Ok(pairs.into_iter().map(|(name, said)| (name, text::field(&said))).collect())
}
