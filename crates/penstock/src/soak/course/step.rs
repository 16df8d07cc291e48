//! A transfer of a soak: its purpose, its round, and the request that follows from both.

use std::fmt;

use penstock_api::transfer::{Location, TransferOptions, TransferRequest};
use penstock_proto::id::TransferId;

use crate::soak::record::SoakRecord;

/// The purpose of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Moves the data set.
    Move,
    /// Compares source and target after a move.
    Compare,
    /// Empties the soak's directory before the next move.
    Empty,
    /// Empties the soak's directory for a user who does not continue the soak.
    Clean,
}

impl Purpose {
    /// All purposes.
    pub(crate) const ALL: [Self; 4] = [Self::Move, Self::Compare, Self::Empty, Self::Clean];

    /// Returns the word for it, from which ids of transfers are made.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Move => "move",
            Self::Compare => "compare",
            Self::Empty => "empty",
            Self::Clean => "clean",
        }
    }
}

/// A transfer of a soak, which has the same id after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The number of its round. An emptying has that of the round before it.
    pub(crate) round: u64,
    /// Its purpose.
    pub(crate) purpose: Purpose,
}

impl Step {
    /// Returns the id of its transfer. A soak that was cleaned has other ids from then on, as the
    /// transfers with the earlier ones may be cancelled.
    pub(crate) fn transfer_id(self, soak: &SoakRecord) -> TransferId {
        let mut hasher = blake3::Hasher::new_derive_key("penstock soak transfers 1");
        hasher.update(&soak.id.0);
        hasher.update(&self.round.to_le_bytes());
        hasher.update(self.purpose.as_str().as_bytes());
        if soak.cleanings > 0 {
            hasher.update(&soak.cleanings.to_le_bytes());
        }
        let mut id = [0; 16];
        id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        TransferId(id)
    }

    /// Returns the request for its transfer from the source of the soak.
    pub(crate) fn request(
        self,
        soak: &SoakRecord,
        target: Location,
        mut options: TransferOptions,
    ) -> TransferRequest {
        options.proof.receipt = true;
        let id = self.transfer_id(soak);
        let mut request = TransferRequest::new(id, soak.source.clone(), target, options);
        request.label = format!("soak {}", soak.id.short());
        request
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let round = self.round;
        match self.purpose {
            Purpose::Move => write!(f, "round {round}"),
            Purpose::Compare => write!(f, "comparison of round {round}"),
            Purpose::Empty => write!(f, "emptying after round {round}"),
            Purpose::Clean => write!(f, "cleaning after round {round}"),
        }
    }
}
