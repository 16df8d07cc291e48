//! The choice of transfers for one action on many.

use penstock_api::problem::Problem;
use penstock_api::queue::BulkFilter;
use penstock_api::rest::{Action, LIST_MAX};
use penstock_api::transfer::TransferState;
use penstock_cluster::state::{ListOrder, Listed, SiteState, TransferRecord, Wish};
use penstock_proto::id::{Name, TransferId};

use super::transfer_table::TransferTable;
use crate::manager::caller::Caller;

/// Most records of ended transfers that are looked through for those to retry.
const ENDED_MAX: usize = 10_000;

/// Returns the transfers of the site `own` that fit an action and a filter, and that a caller may
/// steer: the oldest first, up to `most`.
///
/// # Errors
/// The state cannot be read.
pub(crate) fn chosen(
    (table, state): (&TransferTable, &dyn SiteState),
    (action, filter): (Action, &BulkFilter),
    (caller, own): (&Caller, &Name),
    most: usize,
) -> Result<Vec<TransferId>, Problem> {
    let fits = |record: &TransferRecord| {
        fits_action(record, action)
            && fits(record, filter, own)
            && caller.may_see(record)
            && caller.check_steers(record.owner.as_ref()).is_ok()
    };
    let key = |record: &TransferRecord| (record.created, record.id());
    let mut found: Vec<_> = match action {
        Action::Retry => failed(state, fits)?,
        _ => {
            let table = table.lock();
            let records = table.live.values().map(|live| &live.record);
            records.filter(|record| fits(record)).map(key).collect()
        }
    };
    found.sort_unstable();
    found.truncate(most);
    Ok(found.into_iter().map(|(_, id)| id).collect())
}

/// Returns the failed transfers that fit, among the last [`ENDED_MAX`].
fn failed(
    state: &dyn SiteState,
    fits: impl Fn(&TransferRecord) -> bool,
) -> Result<Vec<(u64, TransferId)>, Problem> {
    let (mut before, mut found) = (None, Vec::new());
    for _ in 0..ENDED_MAX / LIST_MAX {
        let part = state.overview(ListOrder::NewestFirst, before, LIST_MAX)?;
        before = part.last().map(Listed::key);
        found.extend(part.iter().filter_map(|listed| match listed {
            Listed::Own(record) if fits(record) => Some((record.created, record.id())),
            _ => None,
        }));
        if part.len() < LIST_MAX {
            break;
        }
    }
    Ok(found)
}

/// Returns whether an action would change something.
fn fits_action(record: &TransferRecord, action: Action) -> bool {
    let state = record.state;
    match action {
        Action::Pause => {
            let may_pause = matches!(state, TransferState::Queued | TransferState::Running);
            may_pause && record.wish == Wish::None
        }
        Action::Resume => state == TransferState::Paused,
        Action::Cancel => !state.is_ended() && record.wish != Wish::Cancel,
        Action::Retry => state == TransferState::Failed,
    }
}

fn fits(record: &TransferRecord, filter: &BulkFilter, own: &Name) -> bool {
    let (source, target) = (&record.request.source, &record.request.target);
    let has_store = |store: &Name| {
        [source, target].iter().any(|place| place.site == *own && place.store == *store)
    };
    filter.user.as_ref().is_none_or(|user| *user == record.user_text())
        && filter.store.as_ref().is_none_or(has_store)
        && filter.site.as_ref().is_none_or(|site| source.site == *site && *site != *own)
        && filter.label.as_ref().is_none_or(|part| record.request.label.contains(part))
        && filter.state.is_none_or(|state| state == record.state)
}
