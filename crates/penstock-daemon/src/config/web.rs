//! The part of the configuration about the HTTPS API.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::WebConfigError;
use crate::networks::Prefix;

/// Port of the HTTPS API unless configured.
pub const WEB_PORT_DEFAULT: u16 = 7443;

/// The HTTPS API for users on other hosts. Without this table it is not served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebConfig {
    /// The addresses at which the API listens. Default: port 7443 of 127.0.0.1.
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
    /// Prefixes of addresses from which metrics may be read without a token, as `10.0.0.0/8`.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics_from: Vec<Prefix>,
    /// Prefixes of proxies, as `10.0.0.5/32`, whose headers `X-Forwarded-For` and
    /// `X-Forwarded-Prefix` are believed. Default: `[]`, the headers are ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) trusted_proxies: Vec<Prefix>,
}

fn listen_default() -> Vec<SocketAddr> {
    vec![SocketAddr::from((Ipv4Addr::LOCALHOST, WEB_PORT_DEFAULT))]
}

impl Default for WebConfig {
    fn default() -> Self {
        let (certificate, key, metrics_from, trusted_proxies) = Default::default();
        let (listen, names) = (listen_default(), Vec::new());
        Self { listen, names, certificate, key, metrics_from, trusted_proxies }
    }
}

impl WebConfig {
    /// Returns the defaults, but for the address to listen at.
    pub fn at(address: SocketAddr) -> Self {
        Self { listen: vec![address], ..Self::default() }
    }

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

    /// Returns whether a client at this address may read metrics without a token.
    pub(crate) fn may_read_metrics(&self, from: IpAddr) -> bool {
        let from = from.to_canonical();
        self.metrics_from.iter().any(|prefix| prefix.contains(from))
    }

    /// Returns the address by which users reach the API, as `https://HOST:PORT`, for links: the
    /// first of `names`, else the first address that is of one host; `port` is the one that is
    /// bound.
    pub(crate) fn url(&self, port: u16, advertised: &[SocketAddr]) -> String {
        let addresses = self.listen.iter().chain(advertised).map(SocketAddr::ip);
        let address = addresses.into_iter().find(|address| !address.is_unspecified());
        let host = self.names.first().cloned().unwrap_or_else(|| match address {
            Some(address) => address.to_string(),
            None => "localhost".to_owned(),
        });
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        format!("https://{host}:{port}")
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
