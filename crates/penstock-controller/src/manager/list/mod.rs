//! The list of transfers: filtered, in an order, in parts.
//!
//! Each part begins behind a place in the order of submissions, so that no transfer is twice or not
//! at all in a list to which others are added meanwhile.

mod cursor;
mod filter;

pub use filter::TransferFilter;

use std::sync::Arc;

use penstock_api::problem::Problem;
use penstock_api::rest::{LIST_MAX, Page, TransferSummary};
use penstock_api::transfer::TransferReport;
use penstock_cluster::state::{ListKey, Listed, SiteState};
use penstock_proto::id::Name;

use super::caller::Caller;
use super::queue::{Live, TransferTable};
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
    line: Listed,
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
        let stubs = found.iter().filter_map(|found| match &found.line {
            Listed::Stub(stub) => Some(stub.as_ref().clone()),
            Listed::Own(_) => None,
        });
        let mut shown = self.stubs.refresh_all(stubs.collect());
        let items = found.into_iter().map(|found| {
            let newer = match found.line {
                Listed::Stub(stub) => shown.remove(&stub.view.id),
                Listed::Own(_) => None,
            };
            TransferSummary::of(&newer.unwrap_or(found.report), &self.site)
        });
        Ok(Page { items: items.collect(), next })
    }

    /// Returns up to `limit` transfers and stubs that a caller sees and a filter lets through.
    fn find(
        &self,
        filter: &TransferFilter,
        mut after: Option<ListKey>,
        limit: usize,
        caller: &Caller,
    ) -> Result<Vec<Found>, Problem> {
        // Most lines may be those of others.
        let is_all = caller.sees_all_transfers() && *filter == TransferFilter::default();
        let page = if is_all { limit } else { LIST_MAX };
        let mut all = Vec::new();
        loop {
            let part = self.state.overview(filter.order, after, page)?;
            after = part.last().map(Listed::key);
            let is_last = part.len() < page || after.is_some_and(|key| filter.is_behind(key));
            let seen = part.into_iter().filter(|line| match line {
                Listed::Own(record) => caller.may_see(record),
                Listed::Stub(stub) => caller.may_see_stub(stub),
            });
            all.extend(seen.map(|line| self.found(line)).filter(|it| filter.matches(&it.report)));
            if is_last || all.len() >= limit {
                all.truncate(limit);
                return Ok(all);
            }
        }
    }

    fn found(&self, line: Listed) -> Found {
        let report = match &line {
            Listed::Own(record) => {
                let table = self.table.lock();
                table.live.get(&record.id()).map_or_else(|| record.brief(), Live::brief)
            }
            Listed::Stub(stub) => TransferReport { owner: stub.user.clone(), ..stub.view.clone() },
        };
        Found { key: line.key(), line, report }
    }
}
