//! The list of transfers: filtered, in an order, in parts.
//!
//! Each part begins behind a place in the order of submissions, so that no transfer is twice or not
//! at all in a list to which others are added meanwhile.

pub(super) mod cursor;
mod filter;

use filter::Facts;
pub use filter::TransferFilter;

use std::cmp::Ordering;
use std::sync::Arc;

use penstock_api::problem::Problem;
use penstock_api::rest::{LIST_MAX, Page, TransferSummary};
use penstock_api::transfer::{TransferReport, TransferState};
use penstock_cluster::state::{ListKey, ListOrder, Listed, SiteState, StateError, StoredIn, Stub};
use penstock_proto::id::Name;

use super::caller::Caller;
use super::queue::{Live, Table, TransferTable};
use super::stubs::Stubs;

/// Lists transfers of this site, and those of other sites that concern it.
pub(super) struct TransferList {
    site: Name,
    state: Arc<dyn SiteState>,
    table: Arc<TransferTable>,
    stubs: Arc<Stubs>,
}

/// A transfer of a list, and its place in the order.
struct Found {
    key: ListKey,
    /// Set if another site owns it.
    stub: Option<Box<Stub>>,
    report: TransferReport,
}

impl TransferList {
    pub(super) fn new(
        site: Name,
        state: Arc<dyn SiteState>,
        table: Arc<TransferTable>,
        stubs: Arc<Stubs>,
    ) -> Self {
        Self { site, state, table, stubs }
    }

    /// Returns a part of the list, of at most [`LIST_MAX`] transfers that the caller may see. Waits
    /// for the owners of stubs for a moment only; a stub whose owner has not answered then is as it
    /// was last seen.
    ///
    /// # Errors
    /// Code `cursor`: it is not one of this filter. The database cannot be read.
    pub(super) fn part(
        &self,
        filter: &TransferFilter,
        cursor: Option<&str>,
        limit: usize,
        caller: &Caller,
    ) -> Result<Page<TransferSummary>, Problem> {
        let after = cursor.map(|text| cursor::parse(text, filter)).transpose()?;
        let limit = limit.clamp(1, LIST_MAX);
        let found = self.find(filter, after, limit, caller)?;
        let is_full = found.len() == limit;
        let next = found.last().filter(|_| is_full).map(|last| cursor::text(last.key, filter));
        let stubs = found.iter().filter_map(|found| found.stub.as_deref().cloned());
        let mut shown = self.stubs.refresh_all(stubs.collect());
        let items = found.into_iter().map(|found| {
            let newer = found.stub.and_then(|stub| shown.remove(&stub.view.id));
            TransferSummary::of(&newer.unwrap_or(found.report), &self.site)
        });
        Ok(Page { items: items.collect(), next })
    }

    /// Returns up to `limit` transfers and stubs that a caller sees and a filter lets through.
    fn find(
        &self,
        filter: &TransferFilter,
        after: Option<ListKey>,
        limit: usize,
        caller: &Caller,
    ) -> Result<Vec<Found>, Problem> {
        let search = Search { list: self, filter, after, limit, caller };
        match filter.only_states() {
            None => search.among(|after, page| self.state.overview(filter.order, after, page)),
            Some(states) => search.in_states(&states),
        }
    }
}

/// The search for one part of a list.
struct Search<'a> {
    list: &'a TransferList,
    filter: &'a TransferFilter,
    after: Option<ListKey>,
    limit: usize,
    caller: &'a Caller,
}

impl Search<'_> {
    /// Returns the first ones of those that `read` returns, behind a place and so many at a time.
    fn among(
        &self,
        read: impl Fn(Option<ListKey>, usize) -> Result<Vec<Listed>, StateError>,
    ) -> Result<Vec<Found>, Problem> {
        let mut after = self.after;
        // Most lines may be those of others.
        let is_all = TransferFilter { states: Vec::new(), ..self.filter.clone() }
            == TransferFilter { order: self.filter.order, ..TransferFilter::default() };
        let takes_all = is_all && self.caller.sees_all_transfers();
        let page = if takes_all { self.limit } else { LIST_MAX };
        let mut all = Vec::new();
        loop {
            let part = read(after, page)?;
            after = part.last().map(Listed::key);
            let is_last = part.len() < page || after.is_some_and(|key| self.filter.is_behind(key));
            let seen = part.into_iter().filter(|line| match line {
                Listed::Own(record) => self.caller.may_see(record),
                Listed::Stub(stub) => self.caller.may_see_stub(stub),
            });
            let table = self.list.table.lock();
            let found = seen.map(|line| found(&table, line));
            all.extend(found.filter(|found| self.filter.matches(&found.report)));
            if is_last || all.len() >= self.limit {
                all.truncate(self.limit);
                return Ok(all);
            }
        }
    }

    /// Returns the first ones of those in some states: transfers that have not ended as the table
    /// has them, others as they are stored. Costs little for each of the other transfers.
    fn in_states(&self, states: &[TransferState]) -> Result<Vec<Found>, Problem> {
        let order = self.filter.order;
        // The table first: a transfer that leaves the table meanwhile is stored by then.
        let mut all = self.among_live();
        for state in states.iter().copied() {
            let kinds: &[bool] = if state.is_ended() { &[true, false] } else { &[false] };
            for own in kinds.iter().copied() {
                let stored = StoredIn { state, own };
                let read = |after, page| self.list.state.overview_in(stored, order, after, page);
                all.extend(self.among(read)?);
            }
        }
        all.sort_by(|a, b| in_order(order, a.key, b.key));
        all.dedup_by(|a, b| a.key == b.key && a.stub.is_some() == b.stub.is_some());
        all.truncate(self.limit);
        Ok(all)
    }

    /// Returns the first ones of the transfers of this site that have not ended.
    fn among_live(&self) -> Vec<Found> {
        let (filter, order) = (self.filter, self.filter.order);
        let is_behind =
            |key: ListKey| self.after.is_none_or(|after| in_order(order, after, key).is_lt());
        let table = self.list.table.lock();
        let records = table.live.values().map(|live| &live.record);
        let fit = records.filter(|record| {
            filter.may_match(&Facts::of_record(record))
                && is_behind((record.created, record.id()))
                && self.caller.may_see(record)
        });
        let mut keys: Vec<_> = fit.map(|record| (record.created, record.id())).collect();
        drop(table);
        keys.sort_unstable_by(|a, b| in_order(order, *a, *b));
        let table = self.list.table.lock();
        let found = keys.into_iter().filter_map(|key| {
            let report = table.live.get(&key.1)?.brief();
            Some(Found { key, stub: None, report })
        });
        found.filter(|found| filter.matches(&found.report)).take(self.limit).collect()
    }
}

/// Returns the order of two places in a list.
fn in_order(order: ListOrder, a: ListKey, b: ListKey) -> Ordering {
    match order {
        ListOrder::NewestFirst => b.cmp(&a),
        ListOrder::OldestFirst => a.cmp(&b),
    }
}

/// Returns a line of the state as it is now.
fn found(table: &Table, line: Listed) -> Found {
    let key = line.key();
    match line {
        Listed::Own(record) => {
            let live = table.live.get(&record.id());
            Found { key, stub: None, report: live.map_or_else(|| record.brief(), Live::brief) }
        }
        Listed::Stub(stub) => {
            let report = TransferReport { owner: stub.user.clone(), ..stub.view.clone() };
            Found { key, stub: Some(stub), report }
        }
    }
}
