//! Identifiers of transfers, sites, peers, stores and lanes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::wire::{DecodeError, Reader, Writer};

/// Error: a text is not a name or an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseIdError {
    /// The name has characters outside the allowed set, or a wrong length.
    #[error(
        "`{0}` is not a name: use 1 to 63 of a-z, 0-9, `-` and `_`, starting with a letter or digit"
    )]
    Name(String),
    /// The text is not 32 hexadecimal digits.
    #[error("`{0}` is not a transfer id: 32 hexadecimal digits")]
    TransferId(String),
}

/// Identifier of one transfer at every site, for ever: 128 random bits, written as 32 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub [u8; 16]);

impl TransferId {
    /// Returns the first eight digits, for people.
    pub fn short(&self) -> String {
        data_encoding::HEXLOWER.encode(&self.0[..4])
    }

    pub(crate) fn encode(self, out: &mut Writer) {
        out.raw(&self.0);
    }

    pub(crate) fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        input.array("transfer").map(Self)
    }
}

impl fmt::Display for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for TransferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransferId({self})")
    }
}

impl FromStr for TransferId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        data_encoding::HEXLOWER_PERMISSIVE
            .decode(text.as_bytes())
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
            .ok_or_else(|| ParseIdError::TransferId(text.to_owned()))
    }
}

impl Serialize for TransferId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TransferId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A name that an operator chose for a site, a peer or a store: 1 to 63 of `a-z`, `0-9`, `-`, `_`,
/// starting with a letter or digit. It is safe in a file name, a URI and a certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

impl Name {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Name {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        let bytes = text.as_bytes();
        let starts_well = bytes.first().is_some_and(u8::is_ascii_alphanumeric);
        if bytes.len() > 63 || !starts_well || !bytes.iter().copied().all(allowed) {
            return Err(ParseIdError::Name(text.to_owned()));
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for Name {
    type Error = ParseIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

/// A host of a site, as its certificate says: `penstock://SITE/PEER`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PeerId {
    /// The administrative domain.
    pub site: Name,
    /// The host within it.
    pub peer: Name,
}

impl PeerId {
    /// Returns the URI in the subject alternative name of the peer's certificate (D4).
    pub fn uri(&self) -> String {
        format!("penstock://{}/{}", self.site, self.peer)
    }

    /// Reads the URI of a certificate.
    pub fn from_uri(uri: &str) -> Option<Self> {
        let (site, peer) = uri.strip_prefix("penstock://")?.split_once('/')?;
        Some(Self { site: site.parse().ok()?, peer: peer.parse().ok()? })
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.site, self.peer)
    }
}

/// Number of a target peer within one run of a transfer, counted by the run's controller from 0 as
/// peers join; never used twice within a run. A peer that joins again gets another number, and
/// messages under the old one no longer count (B4).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct PeerNumber(pub u16);

impl fmt::Display for PeerNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Identity of a target peer in ledgers, markers and temporary names, for as long as the peer has
/// its name.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WriterId(pub u64);

impl WriterId {
    /// The only peer of a site without a cluster, for any name.
    pub const SOLE: Self = Self(0);

    /// Returns the identity of a peer of a cluster: the first eight bytes of the BLAKE3 of
    /// [`PeerId::uri`], little-endian; never [`WriterId::SOLE`].
    pub fn of(peer: &PeerId) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = *blake3::hash(peer.uri().as_bytes()).as_bytes();
        Self(u64::from_le_bytes([a, b, c, d, e, f, g, h]).max(1))
    }
}

impl fmt::Display for WriterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for WriterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WriterId({self})")
    }
}

/// Number of a lane of one task, counted by the target peer; never used twice within a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a name that could escape a directory, a URI or a certificate is refused.
    #[test]
    fn hostile_names_are_refused() {
        for bad in ["", ".", "..", "a/b", "A", "-a", "a b", "a\n", "é", &"a".repeat(64)] {
            assert!(bad.parse::<Name>().is_err(), "`{bad}` must be refused");
        }
        assert!("lab-1_x".parse::<Name>().is_ok());
        assert_eq!(PeerId::from_uri("penstock://a/b/c"), None);
        let id = PeerId { site: "lab".parse().unwrap(), peer: "dtn1".parse().unwrap() };
        assert_eq!(PeerId::from_uri(&id.uri()), Some(id));
    }
}
