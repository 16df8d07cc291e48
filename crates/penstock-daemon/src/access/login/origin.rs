//! The client of a request, as the peer that it came to saw it.

use std::net::IpAddr;

use penstock_api::access::Secret;
use serde::{Deserialize, Serialize};

use crate::access::admission::Source;

/// The client of a request, as the peer that it came to saw it. It travels to the controller with
/// the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClientOrigin {
    /// Its address, behind proxies that are trusted; none at the Unix socket.
    pub(crate) from: Option<IpAddr>,
    /// Address by which it reached the HTTPS API, as `https://HOST[:PORT][/PATH]`. The path is that
    /// of a proxy that is trusted.
    pub(crate) url: Option<String>,
    /// The program, as it names itself.
    pub(crate) agent: String,
    /// Cookie of a browser that has begun a log-in at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) browser: Option<Secret>,
}

impl ClientOrigin {
    /// Returns the address in words; empty if there is none.
    pub(crate) fn address_text(&self) -> String {
        self.from.map(|from| from.to_canonical().to_string()).unwrap_or_default()
    }

    /// Returns the source by which failures are counted.
    pub(super) fn source(&self) -> Option<Source> {
        self.from.map(Source::of)
    }
}
