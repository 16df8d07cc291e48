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
use super::history::{Mode, PastTransfer};
use super::network_time::{LABEL, run_of};
use super::outlook::{Evidence, StoreEvidence};
use crate::client::Client;

/// Most past transfers that count, the newest ones.
const PAST_MAX: usize = 100;
/// Most past transfers that are asked for one by one; many may be of no use.
const ASKED_MAX: usize = 500;

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
    let daemons = Daemons { own: (own.clone(), client), other };
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
        other: [&source.site, &target.site].into_iter().find(|site| **site != own).cloned(),
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
) -> anyhow::Result<Vec<PastTransfer>> {
    let mut found = Vec::new();
    look_back(client, query, |summary| {
        if is_wanted(summary) {
            let view: TransferView = client.get(&SHOW_TRANSFER.uri(&[&summary.id]))?;
            found.extend(PastTransfer::of(&view, |of| of == mode));
            return Ok(Look { is_asked: true, is_over: found.len() == PAST_MAX });
        }
        Ok(Look::default())
    })?;
    Ok(found)
}

/// Returns the transfers of the newest benchmark of the way from one site to another with the same
/// encryption. Its transfers need not be durable, and have the usual digest.
fn network(
    client: &Client,
    source: &Location,
    target: &Location,
    mode: Mode,
) -> anyhow::Result<Vec<PastTransfer>> {
    let query = TransferQuery {
        site: Some(source.site.clone()),
        label: LABEL.to_owned(),
        ..TransferQuery::default()
    };
    let (mut found, mut newest) = (Vec::new(), None);
    look_back(client, query, |summary| {
        let is_way = summary.source.site == source.site && summary.target.site == target.site;
        let Some(run) = run_of(&summary.label).filter(|_| is_way) else {
            return Ok(Look::default());
        };
        if newest.as_deref().is_some_and(|newest| newest != run) {
            return Ok(Look { is_asked: false, is_over: true });
        }
        let view: TransferView = client.get(&SHOW_TRANSFER.uri(&[&summary.id]))?;
        if let Some(past) = PastTransfer::of(&view, |of| of.encryption == mode.encryption) {
            newest.get_or_insert_with(|| run.to_owned());
            found.push(past);
        }
        Ok(Look { is_asked: true, is_over: found.len() == PAST_MAX })
    })?;
    Ok(found)
}

/// The outcome of a look at one transfer.
#[derive(Default)]
struct Look {
    /// True if the daemon was asked for the transfer alone.
    is_asked: bool,
    /// True if no further transfer is wanted.
    is_over: bool,
}

/// Looks at the transfers that are done, newest first, until one look is the last, or too many were
/// asked for.
fn look_back(
    client: &Client,
    query: TransferQuery,
    mut look: impl FnMut(&TransferSummary) -> anyhow::Result<Look>,
) -> anyhow::Result<()> {
    let mut query = TransferQuery { state: "done".to_owned(), limit: Some(LIST_MAX), ..query };
    let mut asked = 0;
    loop {
        let page: Page<TransferSummary> = client.get(&query.uri())?;
        for summary in &page.items {
            let look = look(summary)?;
            asked += usize::from(look.is_asked);
            if look.is_over || asked == ASKED_MAX {
                return Ok(());
            }
        }
        let Some(next) = page.next else { return Ok(()) };
        query.cursor = Some(next);
    }
}
