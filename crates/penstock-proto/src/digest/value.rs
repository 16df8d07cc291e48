//! A digest as a value: its bytes, its text, its encoding.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::wire::{DecodeError, Reader, Writer};

/// A 256-bit digest; XXH3-128 fills the first half, the rest is zero. In JSON it is the text of
/// [`Digest::to_hex`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Returns the digest as lower-case hexadecimal, as `b3sum` prints it.
    pub fn to_hex(self) -> String {
        data_encoding::HEXLOWER.encode(&self.0)
    }

    /// Reads the output of [`Digest::to_hex`]; `None` for anything else.
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }

    pub(crate) fn encode(self, out: &mut Writer) {
        out.raw(&self.0);
    }

    pub(crate) fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        input.array("digest").map(Self)
    }
}

impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::from_hex(&text).ok_or("a digest is 64 hexadecimal digits in lower case")
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_hex()
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.to_hex())
    }
}
