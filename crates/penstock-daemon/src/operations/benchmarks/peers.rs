//! The peers that take part in a benchmark, and how each is asked.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use penstock_api::benchmark::BenchmarkPeer;
use penstock_api::cluster::PeerCard;
use penstock_api::problem::{ObjectKind, Problem, ProblemCode};
use penstock_api::rpc::benchmark::{BenchmarkOrder, BenchmarkReply};
use penstock_peer::BenchmarkHost;
use penstock_proto::id::Name;

use super::super::{AskError, Delivery, OWN, Operate, ask_with};
use crate::http;
use crate::site::store_reach::reaches;

/// Time for a look at a store, or the begin of a benchmark.
pub(super) const LOOK_LIMIT: Duration = Duration::from_secs(60);
/// Time for a step, its preparation, or the removal of files: the sync of a slow store included.
pub(super) const STEP_LIMIT: Duration = Duration::from_secs(1800);
/// Time for an order that does nothing by itself.
pub(super) const CANCEL_LIMIT: Duration = Duration::from_secs(5);

/// A peer that takes part.
#[derive(Clone)]
pub(super) struct Participant {
    /// Its card; `None` for this peer.
    card: Option<PeerCard>,
    /// Facts about its host.
    pub(super) view: BenchmarkPeer,
}

impl Participant {
    fn new(peer: Name, card: Option<PeerCard>) -> Self {
        let (processors, memory_bytes, threads, caches_kept, devices) = Default::default();
        let view = BenchmarkPeer { peer, processors, memory_bytes, threads, caches_kept, devices };
        Self { card, view }
    }

    /// Has the peer do something. Blocks.
    ///
    /// # Errors
    /// The peer refuses, or does not answer within `limit`.
    pub(super) fn ask(
        &self,
        operate: &Operate,
        host: &Arc<BenchmarkHost>,
        order: BenchmarkOrder,
        limit: Duration,
    ) -> Result<BenchmarkReply, Problem> {
        let Some(card) = &self.card else { return host.handle(order) };
        let (body, path) = (Some(http::encode(&order)?), format!("{OWN}/benchmark"));
        let delivery = match order {
            // A peer that has received it is at work, and stops when the connection breaks.
            BenchmarkOrder::Prepare(..) | BenchmarkOrder::Run(_) => Delivery::Once,
            _ => Delivery::Repeated,
        };
        let client = (&operate.client, delivery);
        let asked = ask_with(client, &card.addresses, &path, body, limit);
        match operate.runtime.block_on(asked) {
            Ok((reply, _)) => Ok(reply),
            Err(AskError::Answered(problem)) => Err(problem.about(ObjectKind::Peer, &card.peer)),
            Err(why) => {
                let title = format!("peer `{}` does not answer", card.peer);
                Err(Problem::new(ProblemCode::PeerUnreachable, title)
                    .about(ObjectKind::Peer, &card.peer)
                    .because(why))
            }
        }
    }
}

/// Sends each peer its order at the same moment. Returns their replies in the same order. Blocks.
pub(super) fn ask_each(
    (operate, host): (&Operate, &Arc<BenchmarkHost>),
    participants: &[Participant],
    orders: Vec<BenchmarkOrder>,
    limit: Duration,
) -> Vec<Result<BenchmarkReply, Problem>> {
    thread::scope(|scope| {
        let ask = |(participant, order)| {
            let participant: &Participant = participant;
            let spawned = thread::Builder::new()
                .name("benchmark".to_owned())
                .spawn_scoped(scope, move || participant.ask(operate, host, order, limit));
            spawned.map_err(|error| Problem::no_thread(&error))
        };
        let asked: Vec<_> = participants.iter().zip(orders).map(ask).collect();
        let reply = |asked: Result<thread::ScopedJoinHandle<'_, _>, Problem>| {
            asked?.join().unwrap_or_else(|_| Err(misplaced()))
        };
        asked.into_iter().map(reply).collect()
    })
}

/// Returns the problem of a reply that belongs to another order, or that a panic prevented.
pub(super) fn misplaced() -> Problem {
    Problem::new(ProblemCode::PeerReply, "a peer gave no reply that fits a benchmark's order")
}

/// Returns whether this peer or another one that is up has a store.
pub(super) fn is_known(operate: &Operate, store: &Name) -> bool {
    let has = |card: &PeerCard| card.stores.iter().any(|found| found.store == *store);
    operate.site.exports.has(store) || operate.now().peers.iter().any(has)
}

/// Returns the reason why no peer that is up has a store.
pub(super) fn unknown(operate: &Operate, store: &Name) -> Problem {
    let site = &operate.site;
    site.unknown_now(store).unwrap_or_else(|| {
        let title = format!("site `{}` has no store `{store}`", site.config.site);
        Problem::new(ProblemCode::StoreUnknown, title)
            .hint("`penstock store list` shows the stores")
    })
}

/// Returns all peers that have a store, this one first.
///
/// # Errors
/// `store-unknown`, `store-elsewhere`.
pub(super) fn participants(operate: &Operate, store: &Name) -> Result<Vec<Participant>, Problem> {
    let (now, site) = (operate.now(), &operate.site);
    let own = operate.own();
    let has = |card: &PeerCard| {
        let found = card.stores.iter().find(|found| found.store == *store);
        found.is_some_and(|found| found.trouble.is_empty())
    };
    // A new store has no identity yet at any peer.
    let known = now.peers.iter().any(|card| reaches(card, store));
    let fits =
        |card: &&PeerCard| card.peer != *own && has(card) && (!known || reaches(card, store));
    let mut others: Vec<PeerCard> = now.peers.iter().filter(fits).cloned().collect();
    others.sort_by(|a, b| a.peer.cmp(&b.peer));
    let here = site.exports.has(store).then(|| Participant::new(own.clone(), None));
    let others = others.into_iter().map(|card| Participant::new(card.peer.clone(), Some(card)));
    let all: Vec<_> = here.into_iter().chain(others).collect();
    if all.is_empty() {
        return Err(unknown(operate, store));
    }
    Ok(all)
}

/// Leaves out all but the first `most` peers of a store, if a request wants that many. Returns how
/// many are left out.
///
/// # Errors
/// `request`: there are fewer peers.
pub(super) fn leave_out(
    all: &mut Vec<Participant>,
    store: &Name,
    most: Option<u32>,
) -> Result<u32, Problem> {
    let there = all.len();
    let most = most.map_or(there, |most| most as usize);
    if there < most {
        let title = format!("{there} peers reach store `{store}`, and not {most}");
        return Err(Problem::new(ProblemCode::Request, title).at("peers"));
    }
    all.truncate(most);
    Ok((there - most) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a benchmark of some peers records how many it leaves out. One of more peers than
    /// there are is refused.
    #[test]
    fn peers_that_are_left_out_are_counted() {
        let (store, names) = ("data".parse().unwrap(), ["h1", "h2", "h3"]);
        let all = || names.map(|name| Participant::new(name.parse().unwrap(), None)).to_vec();
        for (most, left_out) in
            [(None, Ok(0)), (Some(3), Ok(0)), (Some(1), Ok(2)), (Some(4), Err(()))]
        {
            let mut peers = all();
            let counted = leave_out(&mut peers, &store, most).map_err(drop);
            assert_eq!(counted, left_out, "{most:?}");
            assert_eq!(peers.len(), left_out.map_or(3, |left_out| 3 - left_out as usize));
        }
    }
}
