//! What the daemons know of transfers between two places.

use penstock_api::benchmark::BenchmarkList;
use penstock_api::endpoints::{LIST_BENCHMARKS, LIST_STORES, SHOW_STATUS, SHOW_TRANSFER};
use penstock_api::place::Location;
use penstock_api::rest::{
    LIST_MAX, Page, StatusView, StoreView, TransferQuery, TransferSummary, TransferView,
};
use penstock_exit::{ExitCode, Failure};
use penstock_proto::id::Name;

use super::arguments::ForecastArgs;
use super::history::{Mode, Past};
use super::network_time::{LABEL, run_of};
use super::outlook::{Evidence, StoreEvidence};
use crate::client::Client;

/// Most past transfers that are looked at one by one, the newest ones.
const PAST_MAX: usize = 100;

/// The daemons that are asked.
struct Daemons<'a> {
    own: (Name, &'a Client),
    other: Option<(Name, Client)>,
}

/// Asks the daemon, and the other site's one if the user names it.
///
/// # Errors
/// A daemon does not answer; none of the places is of its site; a store is not there.
pub(super) fn ask(client: &Client, args: &ForecastArgs) -> anyhow::Result<Evidence> {
    let (source, target) = (&args.source, &args.target);
    let status: StatusView = client.get(&SHOW_STATUS.uri(&[]))?;
    let own = status.site.name;
    if ![&source.site, &target.site].contains(&&own) {
        let message = format!("neither source nor target is of site `{own}`, which is asked");
        return Err(Failure::new(ExitCode::Usage, message)
            .hint("ask a daemon of one of them, by `--dir` or `PENSTOCK_URL`")
            .into());
    }
    let other = [&source.site, &target.site].into_iter().find(|site| **site != own).cloned();
    let other = match (&args.other_daemon, other) {
        (Some(daemon), Some(site)) => Some(other_daemon(site, daemon)?),
        _ => None,
    };
    let daemons = Daemons { own: (own, client), other };
    let mode = args.mode();
    let query = TransferQuery {
        site: Some(source.site.clone()),
        store: Some(target.store.clone()),
        ..TransferQuery::default()
    };
    let is_pair = |summary: &TransferSummary| {
        let (from, to) = (&summary.source, &summary.target);
        (&from.site, &from.store) == (&source.site, &source.store)
            && (&to.site, &to.store) == (&target.site, &target.store)
    };
    Ok(Evidence {
        source: source.clone(),
        target: target.clone(),
        mode,
        past: past(client, query, mode, &is_pair)?,
        network: network(client, source, target, mode)?,
        read: daemons.store(source)?,
        write: daemons.store(target)?,
    })
}

fn other_daemon(site: Name, daemon: &str) -> anyhow::Result<(Name, Client)> {
    let client = Client::named(daemon)?;
    let status: StatusView = client.get(&SHOW_STATUS.uri(&[]))?;
    if status.site.name != site {
        let is = &status.site.name;
        let message = format!("`{daemon}` is a daemon of site `{is}`, not of `{site}`");
        let hint = format!("give `--other-daemon` a daemon of site `{site}`");
        return Err(Failure::new(ExitCode::Usage, message).hint(hint).into());
    }
    Ok((site, client))
}

impl Daemons<'_> {
    /// Asks the site of a place for what it has measured of its store.
    fn store(&self, place: &Location) -> anyhow::Result<StoreEvidence> {
        let (site, store) = (&place.site, &place.store);
        let client = match &self.other {
            _ if *site == self.own.0 => self.own.1,
            Some((_, client)) => client,
            None => {
                let why = format!("site {site} was not asked: `--other-daemon` names its daemon");
                return Ok(StoreEvidence::Unknown(why));
            }
        };
        let stores: Vec<StoreView> = client.list(&LIST_STORES.uri(&[]))?;
        let is_virtual = |known: &StoreView| {
            known.name == *store && (known.place == "null:" || known.place.starts_with("mem:"))
        };
        if stores.iter().any(is_virtual) {
            return Ok(StoreEvidence::Virtual);
        }
        let list: BenchmarkList = client.get(&LIST_BENCHMARKS.uri(&[store]))?;
        Ok(StoreEvidence::Results(list.items))
    }
}

/// Returns the transfers that are done and of use, newest first.
fn past(
    client: &Client,
    query: TransferQuery,
    mode: Mode,
    is_wanted: &dyn Fn(&TransferSummary) -> bool,
) -> anyhow::Result<Vec<Past>> {
    let mut query = TransferQuery { state: "done".to_owned(), limit: Some(LIST_MAX), ..query };
    let mut found = Vec::new();
    loop {
        let page: Page<TransferSummary> = client.get(&query.uri())?;
        for summary in page.items.iter().filter(|summary| is_wanted(summary)) {
            let view: TransferView = client.get(&SHOW_TRANSFER.uri(&[&summary.id]))?;
            found.extend(Past::of(&view, mode));
            if found.len() == PAST_MAX {
                return Ok(found);
            }
        }
        let Some(next) = page.next else { return Ok(found) };
        query.cursor = Some(next);
    }
}

/// Returns the transfers of the newest benchmark of the way from one site to another.
fn network(
    client: &Client,
    source: &Location,
    target: &Location,
    mode: Mode,
) -> anyhow::Result<Vec<Past>> {
    let query = TransferQuery {
        site: Some(source.site.clone()),
        label: LABEL.to_owned(),
        ..TransferQuery::default()
    };
    let run = std::cell::OnceCell::new();
    let is_wanted = |summary: &TransferSummary| {
        let is_way = summary.source.site == source.site && summary.target.site == target.site;
        let of = run_of(&summary.label).filter(|_| is_way);
        // The newest comes first.
        of.is_some_and(|of| run.get_or_init(|| of.to_owned()) == of)
    };
    past(client, query, mode, &is_wanted)
}
