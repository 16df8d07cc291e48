//! Networks: what their interfaces are for, and where a peer is reached for data.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::id::Name;

/// Most data addresses of one site that another one looks at.
pub const ADDRESSES_MAX: usize = 64;

/// What a network is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Lanes, and requests between sites.
    #[default]
    Data,
    /// Requests between sites; no lanes.
    Control,
    /// Nothing of ours.
    Never,
}

impl Role {
    /// Its word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Control => "control",
            Self::Never => "never",
        }
    }
}

/// An address at which a peer takes lanes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataAddress {
    /// The peer.
    pub peer: Name,
    /// Where it listens.
    pub address: SocketAddr,
    /// The network on which that is, if it has a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Name>,
    /// What the interface carries, if its operator has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bits_per_s: Option<u64>,
}
