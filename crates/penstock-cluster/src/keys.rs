//! Keys of a site in etcd.

use penstock_proto::id::Name;

use crate::etcd::Compare;

/// The names of keys.
#[derive(Clone, Debug)]
pub struct Keys(String);

impl Keys {
    /// Returns the keys of a site.
    pub fn of(site: &Name) -> Self {
        Self(format!("/penstock/{site}/"))
    }

    /// Returns one key, or the prefix of several.
    pub fn at(&self, rest: &str) -> String {
        format!("{}{rest}", self.0)
    }

    /// Returns the key of the format of all records.
    pub fn format(&self) -> String {
        self.at("format")
    }

    /// Returns the key that is written with every record, and by no other write. The revision of
    /// its last write shows how far the records have come. The revision of etcd as a whole does
    /// not, since any peer's card raises it.
    pub fn tail(&self) -> String {
        self.at("tail")
    }

    /// Returns the key of the incarnation, the history of the site to which the records belong.
    pub fn incarnation(&self) -> String {
        self.at("incarnation")
    }

    /// Returns the comparison that the records are of this incarnation.
    pub fn incarnation_is(&self, incarnation: u64) -> Compare {
        Compare::Value(self.incarnation(), incarnation_text(incarnation))
    }

    /// Returns the key that exists while a host changes the incarnation of the records.
    pub fn recovering(&self) -> String {
        self.at("recovering")
    }

    /// Returns the leader's key.
    pub fn leader(&self) -> String {
        self.at("leader")
    }
}

/// Returns an incarnation as etcd holds it.
pub(crate) fn incarnation_text(incarnation: u64) -> Vec<u8> {
    format!("{incarnation:016x}").into_bytes()
}

/// Returns the incarnation in a value of etcd; 0 for none.
pub(crate) fn incarnation_of(text: &[u8]) -> u64 {
    u64::from_str_radix(&String::from_utf8_lossy(text), 16).unwrap_or(0)
}
