//! The record of an own transfer in the state database.

use penstock_api::plan::location_text;
use penstock_api::problem::Problem;
use penstock_api::transfer::{Attempts, PathText, Progress, TransferRequest, TransferState};
use penstock_cluster::clock::now_seconds;
use penstock_cluster::state::{Listing, SiteState, TransferRecord, Wish};
use penstock_proto::id::Name;

/// The reason shown for a cancelled transfer.
pub(super) const CANCELLED: &str = "cancelled by a user";

/// Returns the record of a transfer that is accepted.
pub(super) fn record_of(
    request: &TransferRequest,
    submitter: Name,
    claim: PathText,
) -> TransferRecord {
    TransferRecord {
        request: request.clone(),
        submitter,
        owner: None,
        account: None,
        created: now_seconds(),
        attempts: Attempts::default(),
        files_from_count: 0,
        listing: Listing::default(),
        state: TransferState::Queued,
        wish: Wish::None,
        reason: String::new(),
        claim,
        root: None,
        progress: Progress::default(),
        exit: None,
        failures: Vec::new(),
        durable_by: String::new(),
        idle_attempts: 0,
        promise: None,
    }
}

/// Returns source and target in the form that a plan shows.
pub(super) fn places_of(request: &TransferRequest) -> (PathText, PathText) {
    (location_text(&request.source), location_text(&request.target))
}

/// Stores a record; a failure is logged and shown, since the run itself is not at fault. Returns
/// whether it is stored.
pub(super) fn store(state: &dyn SiteState, record: &mut TransferRecord) -> bool {
    let Err(error) = state.put_transfer(record) else { return true };
    let problem = Problem::from(error);
    tracing::error!(transfer = %record.id(), %problem, "state not stored");
    let before = if record.reason.is_empty() { "" } else { "; " };
    record.reason.push_str(&format!("{before}its state could not be stored: {problem}"));
    false
}
