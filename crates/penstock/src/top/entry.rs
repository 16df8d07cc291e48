//! Places of transfers in the lists of the overview.

use penstock_proto::id::TransferId;

/// A list of transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Attention,
    Running,
    Waiting,
    Ended,
}

/// A transfer in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) section: Section,
    pub(super) id: TransferId,
}

/// The order of the transfers that run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// The newest first.
    #[default]
    Newest,
    /// The fastest first.
    Rate,
    /// The one that ends first.
    Left,
    /// The one that is nearest to its end first.
    Done,
}

impl Sort {
    /// Returns the next order, for a key that goes through all.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Newest => Self::Rate,
            Self::Rate => Self::Left,
            Self::Left => Self::Done,
            Self::Done => Self::Newest,
        }
    }

    /// Returns the order in words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Newest => "newest first",
            Self::Rate => "by rate",
            Self::Left => "by time left",
            Self::Done => "by share done",
        }
    }
}
