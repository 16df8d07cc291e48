//! The cryptography of TLS: cipher suites, key exchange, the algorithms that check certificates.

use std::sync::{Arc, OnceLock};

use penstock_proto::frame::CipherSuite;
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

/// Returns all suites, the one that is fastest on this CPU first.
pub fn preferred_suites() -> [CipherSuite; 3] {
    let [aes128, aes256, chacha20] = CipherSuite::ALL;
    if cpu_has_aes() { [aes128, aes256, chacha20] } else { [chacha20, aes128, aes256] }
}

fn cpu_has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// Returns rustls' implementation of a suite.
fn supported(suite: CipherSuite) -> SupportedCipherSuite {
    match suite {
        CipherSuite::Aes128Gcm => cipher_suite::TLS13_AES_128_GCM_SHA256,
        CipherSuite::Aes256Gcm => cipher_suite::TLS13_AES_256_GCM_SHA384,
        CipherSuite::Chacha20Poly1305 => cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    }
}

/// Returns aws-lc-rs with the given suites, and hybrid key exchange first.
pub(super) fn provider(suites: &[CipherSuite]) -> Result<Arc<CryptoProvider>, TrustError> {
    if suites.is_empty() {
        return Err(rustls::Error::General("no cipher suite is allowed".to_owned()).into());
    }
    Ok(Arc::new(CryptoProvider {
        cipher_suites: suites.iter().map(|suite| supported(*suite)).collect(),
        kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1],
        ..aws_lc_rs::default_provider()
    }))
}

/// Returns the provider whose signature algorithms check certificates: all that aws-lc-rs has.
pub(super) fn provider_for_checks() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(aws_lc_rs::default_provider())))
}
