//! Predictions for transfers from earlier ones between the same stores.

use std::collections::HashMap;

use penstock_api::queue::QueueRule;
use penstock_api::transfer::{TransferRequest, TransferState};
use penstock_cluster::state::{ListOrder, Listed, SiteState, StateError, TransferRecord};
use penstock_proto::id::Name;

use super::user_groups::UserGroups;

/// Records of earlier transfers that are read at the start of a manager.
const RECORDS_READ: usize = 500;
/// Bytes below which a transfer is no evidence of a rate.
const RATE_BYTES_MIN: u64 = 16 << 20;
/// Weight of the newest transfer in the typical duration, of 1.
const NEWEST: f64 = 0.25;

/// The knowledge of a manager at its start: the rules, the groups of users, and the last transfers
/// that have ended.
#[derive(Default)]
pub(crate) struct Memory {
    pub(super) rules: Vec<QueueRule>,
    pub(super) groups: UserGroups,
    /// The oldest first.
    pub(super) ended: Vec<TransferRecord>,
}

impl Memory {
    /// Reads it.
    ///
    /// # Errors
    /// The state cannot be read.
    pub(crate) fn read(state: &dyn SiteState) -> Result<Self, StateError> {
        let listed = state.overview(ListOrder::NewestFirst, None, RECORDS_READ)?.into_iter().rev();
        let ended = listed.filter_map(|listed| match listed {
            Listed::Own(record) if record.state.is_ended() => Some(*record),
            _ => None,
        });
        let groups = UserGroups::of(&state.users()?);
        Ok(Self { rules: state.queue_rules()?, groups, ended: ended.collect() })
    }
}

/// Source site and store, target site and store.
type Stores = (Name, Name, Name, Name);

/// Rates and durations of transfers that have ended.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Bits per second of the last one that moved enough.
    rates: HashMap<Stores, f64>,
    /// Typical seconds.
    seconds: HashMap<Stores, f64>,
}

impl History {
    /// Handles a transfer that has ended.
    pub(super) fn handle_ended(&mut self, record: &TransferRecord) {
        let progress = &record.progress;
        if record.state != TransferState::Done || progress.seconds <= 0.0 {
            return;
        }
        let stores = stores_of(&record.request);
        if progress.bytes_verified >= RATE_BYTES_MIN {
            self.rates.insert(stores.clone(), progress.mean_bits_per_s());
        }
        let typical = self.seconds.entry(stores).or_insert(progress.seconds);
        *typical += NEWEST * (progress.seconds - *typical);
    }

    /// Returns the rate of the last transfer between the stores of a request that moved enough, but
    /// no more than the request allows, in bits per second.
    pub(super) fn rate(&self, request: &TransferRequest) -> Option<f64> {
        let known = self.rates.get(&stores_of(request)).copied();
        let own = request.options.limits.rate_bits_per_s.map(|rate| rate as f64);
        match (known, own) {
            (Some(known), Some(own)) => Some(known.min(own)),
            (known, _) => known,
        }
    }

    /// Returns the seconds that transfers between these stores usually take.
    pub(super) fn typical_seconds(&self, request: &TransferRequest) -> Option<u64> {
        self.seconds.get(&stores_of(request)).map(|seconds| seconds.ceil() as u64)
    }
}

fn stores_of(request: &TransferRequest) -> Stores {
    let (from, to) = (&request.source, &request.target);
    (from.site.clone(), from.store.clone(), to.site.clone(), to.store.clone())
}
