//! Requests of a target's controller to a source about removing what was moved (`--remove-source`).
//!
//! An order names entries of one page by their index. Their kind and version are in the page that
//! the source made itself. An order that comes twice, or late, does no harm: an entry that is not
//! the version that was listed stays.

use penstock_proto::compared::EntrySet;
use penstock_proto::manifest::PAGE_ENTRIES_MAX;
use serde::{Deserialize, Serialize};

/// Order to remove entries of one page, from the last to the first, so that directories come after
/// their content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveOrder {
    /// Number of the page.
    pub page: u32,
    /// Digest of the encoded page, in hex: the source refuses an order for another one.
    pub digest: String,
    /// The entries, as ascending runs: the first of each, and the index behind its last.
    pub entries: Vec<(u32, u32)>,
    /// Only the entries below this one: the others are done.
    pub below: u32,
}

impl RemoveOrder {
    /// Returns the entries as a set; `None` if the order names more than a page has.
    pub fn wanted(&self) -> Option<EntrySet> {
        let fits = |(first, end): &(u32, u32)| first < end && *end as usize <= PAGE_ENTRIES_MAX;
        let sound = self.entries.len() <= PAGE_ENTRIES_MAX && self.entries.iter().all(fits);
        let ascending = self.entries.windows(2).all(|pair| pair[0].1 < pair[1].0);
        (sound && ascending)
            .then(|| self.entries.iter().flat_map(|(first, end)| *first..*end).collect())
    }
}

/// Result of an order.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveReply {
    /// Items that are gone from the source. A directory that holds something stays, and is neither
    /// counted here nor a failure.
    pub removed: u64,
    /// Items that stay although they were to go.
    pub failures: Vec<RemoveFailure>,
    /// Entries from here on are done; 0 when all are. A source answers after some seconds, even if
    /// entries remain, and is asked again with this in `below`.
    pub next: u32,
}

/// An item that stays at the source although it was to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveFailure {
    /// Index of the entry in its page.
    pub entry: u32,
    /// errno(3); 0 if it is not what was moved.
    pub errno: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: an order from outside never makes the source look beyond a page.
    #[test]
    fn an_order_is_bounded() {
        let order = |entries: &[(u32, u32)]| RemoveOrder {
            page: 0,
            digest: String::new(),
            entries: entries.to_vec(),
            below: u32::MAX,
        };
        let wanted = order(&[(0, 2), (5, 6)]).wanted().unwrap();
        assert_eq!(wanted.iter().collect::<Vec<_>>(), [0, 1, 5]);
        assert!(order(&[]).wanted().unwrap().is_empty());
        for bad in
            [&[(0, u32::MAX)][..], &[(3, 3)], &[(4, 2)], &[(5, 6), (0, 2)], &[(0, 9), (3, 4)]]
        {
            assert!(order(bad).wanted().is_none(), "{bad:?}");
        }
    }
}
