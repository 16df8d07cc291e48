//! The part of the configuration about the HTTPS API.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::WebConfigError;

/// Port of the HTTPS API unless configured.
pub const WEB_PORT_DEFAULT: u16 = 7443;

/// The HTTPS API for users on other hosts. Without this table there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebConfig {
    /// Where the API listens. Default: port 7443 of 127.0.0.1.
    #[serde(default = "listen_default")]
    pub listen: Vec<SocketAddr>,
    /// DNS names and addresses by which users reach this host, for the certificate. Default: the
    /// addresses of `listen` and of `advertise`, and `localhost`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The operator's own certificate with its chain, PEM; with `key`. Default: one of the site's
    /// authority, which `penstock site ca` prints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// Its private key, PEM; for its owner alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

fn listen_default() -> Vec<SocketAddr> {
    vec![SocketAddr::from((Ipv4Addr::LOCALHOST, WEB_PORT_DEFAULT))]
}

impl Default for WebConfig {
    fn default() -> Self {
        Self { listen: listen_default(), names: Vec::new(), certificate: None, key: None }
    }
}

impl WebConfig {
    /// Returns every statement that cannot be followed, with its key.
    pub(crate) fn wrong_statements(&self) -> Vec<(&'static str, WebConfigError)> {
        let mut wrong = Vec::new();
        if self.listen.is_empty() {
            wrong.push(("listen", WebConfigError::NoAddress));
        }
        if self.certificate.is_some() != self.key.is_some() {
            let alone = if self.key.is_some() { "key" } else { "certificate" };
            wrong.push((alone, WebConfigError::HalfPair));
        }
        let bad = self.names.iter().filter(|name| !is_name(name));
        wrong.extend(bad.map(|name| ("names", WebConfigError::Name(name.clone()))));
        wrong
    }

    /// Returns the operator's own certificate and key, if there are any. Relative paths are taken
    /// from the site directory.
    pub(crate) fn own_files(&self, directory: &Path) -> Option<(PathBuf, PathBuf)> {
        let (certificate, key) = (self.certificate.as_ref()?, self.key.as_ref()?);
        Some((directory.join(certificate), directory.join(key)))
    }
}

/// Returns whether a text is an address, or a DNS name with letters, digits, `-`, `_` and `*`
/// between dots (RFC 1123, RFC 6125).
fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'*');
        !label.is_empty() && label.len() <= 63 && label.bytes().all(allowed)
    };
    text.parse::<IpAddr>().is_ok() || (text.len() <= 253 && text.split('.').all(is_label))
}
