//! The choice of transfers for one action on many.

use data_encoding::BASE64URL_NOPAD;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::queue::BulkFilter;
use penstock_api::rest::{Action, LIST_MAX};
use penstock_api::transfer::TransferState;
use penstock_cluster::state::{
    ListKey, ListOrder, Listed, SiteState, StoredIn, TransferRecord, Wish,
};
use penstock_proto::id::{Name, TransferId};

use super::transfer_table::TransferTable;
use crate::manager::caller::Caller;

/// Bytes of the text of a place: seconds, id.
const PLACE_BYTES: usize = 8 + 16;

/// Returns the text of a place in the order of submissions.
pub(crate) fn place_text((created, id): ListKey) -> String {
    let mut bytes = created.to_be_bytes().to_vec();
    bytes.extend(id.0);
    BASE64URL_NOPAD.encode(&bytes)
}

/// Returns the place of a text.
///
/// # Errors
/// Code `cursor`: the text is none that a reply gave.
pub(crate) fn parse_place(text: &str) -> Result<ListKey, Problem> {
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok();
    let bytes = bytes.and_then(|bytes| <[u8; PLACE_BYTES]>::try_from(bytes).ok());
    let bytes = bytes.ok_or_else(|| {
        let title = "`after` is not the `next` of a reply";
        Problem::new(ProblemCode::Cursor, title).at("/after")
    })?;
    let (mut created, mut id) = ([0; 8], [0; 16]);
    created.copy_from_slice(&bytes[..8]);
    id.copy_from_slice(&bytes[8..]);
    Ok((u64::from_be_bytes(created), TransferId(id)))
}

/// Returns the transfers of the site `own` that fit an action and a filter, and that a caller may
/// steer, behind a place: the oldest first, up to `most`.
///
/// # Errors
/// The state cannot be read.
pub(crate) fn chosen(
    (table, state): (&TransferTable, &dyn SiteState),
    (action, filter): (Action, &BulkFilter),
    (caller, own): (&Caller, &Name),
    (after, most): (Option<ListKey>, usize),
) -> Result<Vec<ListKey>, Problem> {
    let fits = |record: &TransferRecord| {
        fits_action(record, action)
            && fits(record, filter, own)
            && caller.may_see(record)
            && caller.check_steers(record.owner.as_ref()).is_ok()
    };
    let key = |record: &TransferRecord| (record.created, record.id());
    let mut found: Vec<_> = match action {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the text of a place leads to it, and another text is refused.
    #[test]
    fn a_place_is_read_as_it_was_written() {
        let place = (1_795_342_649, TransferId([7; 16]));
        assert_eq!(parse_place(&place_text(place)), Ok(place));
        for bad in ["", "AAAA", &place_text(place)[1..]] {
            assert_eq!(parse_place(bad).unwrap_err().code, ProblemCode::Cursor, "`{bad}`");
        }
    }
}
