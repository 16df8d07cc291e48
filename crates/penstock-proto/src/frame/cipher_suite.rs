//! The cipher suites of TLS 1.3 (RFC 8446, appendix B.4) that lanes may use.

use std::fmt;
use std::str::FromStr;

/// A cipher suite of TLS 1.3, by the name that operators and users write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub enum CipherSuite {
    /// AES-128-GCM, SHA-256: the fastest where the CPU has AES instructions.
    #[serde(rename = "aes128-gcm")]
    Aes128Gcm,
    /// AES-256-GCM, SHA-384: where a policy asks for 256 bits; a fifth more CPU than AES-128.
    #[serde(rename = "aes256-gcm")]
    Aes256Gcm,
    /// ChaCha20-Poly1305, SHA-256: the fastest where the CPU has none.
    #[serde(rename = "chacha20-poly1305")]
    Chacha20Poly1305,
}

/// A text is no name of a cipher suite.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not one of `aes128-gcm`, `aes256-gcm`, `chacha20-poly1305`")]
pub struct UnknownCipherSuite(pub String);

impl CipherSuite {
    /// All suites.
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::Chacha20Poly1305];

    /// Returns the suite's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "aes128-gcm",
            Self::Aes256Gcm => "aes256-gcm",
            Self::Chacha20Poly1305 => "chacha20-poly1305",
        }
    }
}

impl fmt::Display for CipherSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CipherSuite {
    type Err = UnknownCipherSuite;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|suite| suite.name() == text);
        named.ok_or_else(|| UnknownCipherSuite(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: each suite has one name, in texts and in JSON alike, and other texts are refused
    /// with the names that are known.
    #[test]
    fn a_suite_has_one_name() {
        for suite in CipherSuite::ALL {
            assert_eq!(suite.name().parse(), Ok(suite));
            assert_eq!(serde_json::to_value(suite).unwrap(), suite.name());
        }
        let why = "rc4".parse::<CipherSuite>().unwrap_err().to_string();
        assert!(why.contains("`rc4`") && CipherSuite::ALL.iter().all(|s| why.contains(s.name())));
    }
}
