//! The choice of transfers for one action on many.

use penstock_api::problem::Problem;
use penstock_api::queue::BulkFilter;
use penstock_api::rest::{Action, LIST_MAX, Steering};
use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::TransferState;
use penstock_cluster::state::{
    ListKey, ListOrder, Listed, SiteState, StoredIn, TransferRecord, Wish,
};
use penstock_proto::id::Name;

use super::transfer_table::TransferTable;
use crate::manager::caller::Caller;

/// Returns the transfers of the site `own` that fit an action and a filter, and that a caller may
/// steer, behind a place: the oldest first, up to `most`.
///
/// # Errors
/// The state cannot be read.
pub(crate) fn chosen(
    (table, state): (&TransferTable, &dyn SiteState),
    (steering, filter): (Steering, &BulkFilter),
    (caller, own): (&Caller, &Name),
    (after, most): (Option<ListKey>, usize),
) -> Result<Vec<ListKey>, Problem> {
    let fits = |record: &TransferRecord| {
        fits_action(record, steering)
            && fits(record, filter, own)
            && caller.may_see(record)
            && caller.check_steers(record.owner.as_ref()).is_ok()
    };
    let key = |record: &TransferRecord| (record.created, record.id());
    let mut found: Vec<_> = match steering.action {
        Action::Retry => failed(state, (after, most), fits)?,
        _ => {
            let table = table.lock();
            let records = table.live.values().map(|live| &live.record);
            records.filter(|record| fits(record)).map(key).collect()
        }
    };
    found.retain(|key| after.is_none_or(|after| *key > after));
    found.sort_unstable();
    found.truncate(most);
    Ok(found)
}

/// Returns the failed transfers that fit behind a place, at least `most` if there are so many.
fn failed(
    state: &dyn SiteState,
    (mut after, most): (Option<ListKey>, usize),
    fits: impl Fn(&TransferRecord) -> bool,
) -> Result<Vec<ListKey>, Problem> {
    let stored = StoredIn { state: TransferState::Failed, own: true };
    let mut found = Vec::new();
    loop {
        let part = state.overview_in(stored, ListOrder::OldestFirst, after, LIST_MAX)?;
        after = part.last().map(Listed::key);
        found.extend(part.iter().filter_map(|listed| match listed {
            Listed::Own(record) if fits(record) => Some((record.created, record.id())),
            _ => None,
        }));
        if part.len() < LIST_MAX || found.len() >= most {
            return Ok(found);
        }
    }
}

/// Returns whether an action would change something.
fn fits_action(record: &TransferRecord, Steering { action, until }: Steering) -> bool {
    let state = record.state;
    match action {
        Action::Pause => {
            let may_pause = matches!(state, TransferState::Queued | TransferState::Running);
            // A transfer that is paused without an end was not meant to resume by itself.
            let end = record.attempts.pause.as_ref().and_then(|pause| pause.until_ms);
            let moves_end = end.is_some() && end != until.map(Timestamp::ms);
            may_pause && record.wish == Wish::None || record.wish == Wish::Pause && moves_end
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

#[cfg(test)]
mod tests {
    use penstock_api::transfer::{PathText, TransferRequest};
    use penstock_cluster::state::SqliteState;
    use penstock_proto::id::TransferId;

    use super::*;
    use crate::manager::config::ManagerConfig;
    use crate::manager::queue::{Memory, Table};
    use crate::manager::record::record_of;

    /// Promise: failed transfers are found before and behind any number of others.
    #[test]
    fn failures_are_found_among_many() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let state = SqliteState::open(&directory.path().join("state.db")).unwrap();
        let put = |number: u32, label: &str| {
            let mut id = TransferId([0; 16]);
            id.0[..4].copy_from_slice(&number.to_be_bytes());
            let (source, target) = ("lab:raw/a".parse().unwrap(), "hpc:s/1".parse().unwrap());
            let request = TransferRequest {
                label: label.to_owned(),
                ..TransferRequest::new(id, source, target, Default::default())
            };
            let record = record_of(&request, "hpc".parse().unwrap(), PathText::default());
            let (created, failed) = (u64::from(number), TransferState::Failed);
            state.put_transfer(&TransferRecord { created, state: failed, ..record }).unwrap();
            (created, id)
        };
        let first = put(1, "wanted");
        let parts = 3 * LIST_MAX as u32;
        for number in 2..parts {
            put(number, "other");
        }
        let last = put(parts, "wanted");
        let config = ManagerConfig::new("hpc".parse().unwrap(), "journal".into());
        let table = TransferTable::new(Table::new(&config, [], Memory::default()));
        let filter = BulkFilter { label: Some("wanted".to_owned()), ..BulkFilter::default() };
        let (wish, own) = ((Action::Retry.into(), &filter), "hpc".parse().unwrap());
        let found = chosen((&table, &state), wish, (&Caller::local(), &own), (None, 501));
        assert_eq!(found.unwrap(), [first, last]);
        let behind = chosen((&table, &state), wish, (&Caller::local(), &own), (Some(first), 501));
        assert_eq!(behind.unwrap(), [last]);
    }
}
