//! Identifiers of tokens and sessions: 16 hexadecimal digits, no secrets.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

/// Error: a text is no identifier of this kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the id of a {kind}: 16 hexadecimal digits")]
pub struct ParseAccessIdError {
    kind: &'static str,
    text: String,
}

macro_rules! access_id {
    ($( #[doc = $doc:literal] $name:ident $kind:literal; )+) => { $(
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(pub [u8; 8]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&HEXLOWER.encode(&self.0))
            }
        }

        impl FromStr for $name {
            type Err = ParseAccessIdError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let bytes = HEXLOWER.decode(text.as_bytes()).ok();
                let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
                let wrong = || ParseAccessIdError { kind: $kind, text: text.to_owned() };
                bytes.map(Self).ok_or_else(wrong)
            }
        }

        impl TryFrom<String> for $name {
            type Error = ParseAccessIdError;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }
    )+ };
}

access_id! {
    /// Identifier of a token.
    TokenId "token";
    /// Identifier of a browser session.
    SessionId "session";
}
