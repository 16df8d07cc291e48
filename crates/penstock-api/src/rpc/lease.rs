//! Leases that a controller gives to peers on other hosts, and how a peer asks about one
//! (docs/protocol.md, 15).
//!
//! A peer asks before it acts by a lease, and counts from its question for how long the lease
//! holds. A lease that was delayed in a socket, or met a host that slept, therefore allows nothing
//! (B1, B4). `penstock_engine::lease` does the counting.

use std::time::Duration;

use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

/// The path under which a controller is asked about its leases.
pub const LEASES: &str = "/peer/v1/leases/";

/// Identity of a lease among all of its site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseId {
    /// Epoch of the tenure under which it is given.
    pub epoch: u64,
    /// Random number; 0 is the tenure itself.
    pub number: u64,
}

impl LeaseId {
    /// Returns the identity of a tenure.
    pub fn of_tenure(epoch: u64) -> Self {
        Self { epoch, number: 0 }
    }

    /// Returns whether it is a tenure.
    pub fn is_tenure(self) -> bool {
        self.number == 0
    }

    /// Returns the path at which the controller is asked about it.
    pub fn path(self) -> String {
        format!("{LEASES}{:016x}-{:016x}", self.epoch, self.number)
    }

    /// Reads a path of [`LeaseId::path`]; `None` for any other.
    pub fn from_path(path: &str) -> Option<Self> {
        let (epoch, number) = path.strip_prefix(LEASES)?.split_once('-')?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 16);
        Some(Self { epoch: hex(epoch)?, number: hex(number)? })
    }
}

/// What a lease allows, beside what the tenure allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseKind {
    /// To delete the items of one request.
    Deletion,
    /// To list one data set at its source, to hash and to remove files of it. Its holder asks
    /// repeatedly, for as long as the transfer needs the data set.
    Scan,
}

impl LeaseKind {
    /// Returns the time for which a holder may act after each question that was answered.
    pub fn holds_for(self) -> Duration {
        match self {
            Self::Deletion => Duration::from_secs(10),
            Self::Scan => Duration::from_secs(6),
        }
    }
}

/// A lease as its controller gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its identity.
    pub id: LeaseId,
    /// What it allows.
    pub kind: LeaseKind,
    /// The peer that it is given to; no other is told that it holds.
    pub holder: Name,
}

/// Time for which a lease holds at least, from the moment of the answer, if it is not ended before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LeaseLeft {
    /// Milliseconds; 0 if the lease is over, or was never given to the peer that asks.
    pub left_ms: u64,
}

impl From<Duration> for LeaseLeft {
    fn from(left: Duration) -> Self {
        Self { left_ms: left.as_millis().try_into().unwrap_or(u64::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Promise (B4): a path names one lease, and what is no such path names none.
    #[test]
    fn b4_a_path_names_one_lease() {
        for id in [LeaseId::of_tenure(u64::MAX), LeaseId { epoch: 3, number: 7 }] {
            assert_eq!(LeaseId::from_path(&id.path()), Some(id));
        }
        for other in ["", "1-2", "0000000000000001", "000000000000000g-0000000000000001"] {
            assert_eq!(LeaseId::from_path(&format!("{LEASES}{other}")), None, "{other}");
        }
    }
}
