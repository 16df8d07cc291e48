//! Other users of a store: transfers, and files that use its room.

use std::sync::Arc;

use penstock_api::fence::not_controller;
use penstock_api::operate::PeerLoad;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rpc::benchmark::{
    BenchmarkFacts, BenchmarkOrder, BenchmarkPlace, BenchmarkReply,
};
use penstock_engine::benchmark::has_room;
use penstock_peer::BenchmarkHost;
use penstock_proto::id::{Name, TransferId};
use penstock_proto::units::format_bytes;

use super::super::Operate;
use super::peers::{LOOK_LIMIT, Participant, ask_each, misplaced};

/// Returns whether a transfer that runs reads from a store of this site or writes to it, as far as
/// this site knows its transfers. The steps of the benchmark `own` do not count. Blocks.
///
/// # Errors
/// `not-controller`; the state cannot be read.
pub(super) fn is_in_use(
    operate: &Operate,
    store: &Name,
    own: Option<TransferId>,
) -> Result<bool, Problem> {
    let controller = operate.member.controller().ok_or_else(not_controller)?;
    if controller.is_used(&operate.site.config.site, store)? {
        return Ok(true);
    }
    // Writes of peers for a transfer that has just ended, or that another controller began.
    let now = operate.now();
    let loads = operate.ask_all::<PeerLoad>(&now.peers, "/load");
    let others = loads.into_values().flatten().map(|(load, _)| load);
    let mut all = others.chain([operate.load()]);
    Ok(all.any(|load| {
        let mut tasks = load.tasks.iter();
        tasks.any(|task| task.store == *store && Some(task.transfer) != own)
    }))
}

/// Has each peer look at a store. Blocks.
///
/// # Errors
/// Those of a peer that cannot use it.
pub(super) fn look(
    asks: (&Operate, &Arc<BenchmarkHost>),
    participants: &[Participant],
    place: &BenchmarkPlace,
) -> Result<Vec<BenchmarkFacts>, Problem> {
    let orders = participants.iter().map(|_| BenchmarkOrder::Look(place.clone())).collect();
    let replies = ask_each(asks, participants, orders, LOOK_LIMIT);
    let facts = replies.into_iter().map(|reply| match reply? {
        BenchmarkReply::Looked(facts) => Ok(*facts),
        _ => Err(misplaced()),
    });
    facts.collect()
}

/// Returns the free bytes of a store, as the peer with the least of them sees it.
pub(super) fn free_bytes(facts: &[BenchmarkFacts]) -> u64 {
    facts.iter().map(|facts| facts.file_system.free_bytes).min().unwrap_or(0)
}

/// Checks that `free_bytes` are enough for files of `budget_bytes`.
///
/// # Errors
/// `benchmark-room`.
pub(super) fn check_room(store: &Name, free_bytes: u64, budget_bytes: u64) -> Result<(), Problem> {
    if has_room(free_bytes, budget_bytes) {
        return Ok(());
    }
    Err(no_room(store).because(format!(
        "{} are free, and a budget of {} needs 1.2 times as much",
        format_bytes(free_bytes),
        format_bytes(budget_bytes)
    )))
}

/// Returns the problem of a store with too little room.
pub(super) fn no_room(store: &Name) -> Problem {
    let title = format!("store `{store}` has too little room for the benchmark");
    Problem::new(ProblemCode::BenchmarkRoom, title)
}
