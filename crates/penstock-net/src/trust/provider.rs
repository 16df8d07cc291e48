//! The cryptography of TLS: cipher suites, key exchange, the algorithms that check certificates.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use rustls::SupportedCipherSuite;
use rustls::crypto::aws_lc_rs::{cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, aws_lc_rs};

use super::error::TrustError;

/// ALPN protocol of lanes.
pub const ALPN_LANE: &[u8] = b"penstock-lane/1";
/// ALPN protocol of the site API over HTTP/2.
pub const ALPN_HTTP2: &[u8] = b"h2";
/// ALPN protocol of the site API over HTTP/1.1.
pub const ALPN_HTTP1: &[u8] = b"http/1.1";

/// A TLS 1.3 cipher suite that an operator may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CipherSuite {
    /// AES-128-GCM, SHA-256: the fastest where the CPU has AES instructions.
    Aes128Gcm,
    /// AES-256-GCM, SHA-384: where a policy asks for 256 bits; a fifth more CPU than AES-128.
    Aes256Gcm,
    /// ChaCha20-Poly1305, SHA-256: the fastest where the CPU has none.
    Chacha20Poly1305,
}

impl CipherSuite {
    /// Returns all suites, the one that is fastest on this CPU first.
    pub fn preferred() -> [Self; 3] {
        if cpu_has_aes() {
            [Self::Aes128Gcm, Self::Aes256Gcm, Self::Chacha20Poly1305]
        } else {
            [Self::Chacha20Poly1305, Self::Aes128Gcm, Self::Aes256Gcm]
        }
    }

    fn supported(self) -> SupportedCipherSuite {
        match self {
            Self::Aes128Gcm => cipher_suite::TLS13_AES_128_GCM_SHA256,
            Self::Aes256Gcm => cipher_suite::TLS13_AES_256_GCM_SHA384,
            Self::Chacha20Poly1305 => cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        }
    }
}

impl fmt::Display for CipherSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aes128Gcm => "aes128-gcm",
            Self::Aes256Gcm => "aes256-gcm",
            Self::Chacha20Poly1305 => "chacha20-poly1305",
        })
    }
}

impl FromStr for CipherSuite {
    type Err = TrustError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "aes128-gcm" => Ok(Self::Aes128Gcm),
            "aes256-gcm" => Ok(Self::Aes256Gcm),
            "chacha20-poly1305" => Ok(Self::Chacha20Poly1305),
            _ => Err(TrustError::Tls(rustls::Error::General(format!(
                "`{text}` is no cipher suite: aes128-gcm, aes256-gcm, chacha20-poly1305"
            )))),
        }
    }
}

fn cpu_has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// Returns aws-lc-rs with the given suites, and hybrid key exchange first.
pub(super) fn provider(suites: &[CipherSuite]) -> Result<Arc<CryptoProvider>, TrustError> {
    if suites.is_empty() {
        return Err(rustls::Error::General("no cipher suite is allowed".to_owned()).into());
    }
    Ok(Arc::new(CryptoProvider {
        cipher_suites: suites.iter().map(|suite| suite.supported()).collect(),
        kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1],
        ..aws_lc_rs::default_provider()
    }))
}

/// Returns the provider whose signature algorithms check certificates: all that aws-lc-rs has.
pub(super) fn provider_for_checks() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(aws_lc_rs::default_provider())))
}
