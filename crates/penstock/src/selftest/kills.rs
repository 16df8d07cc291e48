//! Checks that kill a daemon in the middle of a transfer, by a command of the operator.

use std::time::Duration;

use penstock_api::endpoints::SHOW_STATUS;
use penstock_api::heads::COMMIT_INTERVAL;
use penstock_api::operate::{PeerView, Presence};
use penstock_api::rest::{StatusView, TransferView};
use penstock_proto::units::{MIB, format_bytes};

use super::operator_command;
use super::outcome::{Outcome, broken, not_run, passed, unknown};
use super::trial::{
    SLOW_BITS_PER_S, SLOW_IN_FLIGHT_BYTES, SLOW_LANES, Trial, check_copy, goes_on, hurried,
    under_way,
};

/// Name of the check that needs `--kill`.
pub(super) const KILLED_DAEMON: &str = "killed-daemon";
/// Names of the checks that need `--kill-peer`.
pub(super) const KILLED_PEER: &str = "killed-peer";
pub(super) const KILLED_CONTROLLER: &str = "killed-controller";
/// Bytes of the data set that have come when a daemon is killed.
const KILLED_AT_BYTES: u64 = 20 * MIB;
/// Longest time of which a sound site may lose the reports. The controller commits the ledger 0.9 s
/// after the last commit at the latest, and the commit may take as long again on a slow disk. With
/// etcd the interval is longer only where other transfers use up the budget of the site (E6).
const UNCOMMITTED: Duration = COMMIT_INTERVAL.saturating_mul(2);
/// Most bytes that a kill may cost (d): 9.4 MiB in all. An unfinished piece of 1 MiB on each of 4
/// lanes is in flight. In 1.8 s without a commit, 3.6 MB come at 2 MB/s. A limit of the rate lets a
/// stride of 512 KiB come ahead of its time on each lane.
const AGAIN_BYTES_MAX: u64 = SLOW_IN_FLIGHT_BYTES
    + SLOW_BITS_PER_S / 8 * UNCOMMITTED.as_millis() as u64 / 1000
    + SLOW_LANES as u64 * STRIDE_BYTES;
/// Bytes that a lane takes at a time.
const STRIDE_BYTES: u64 = MIB / 2;
// The check can fail: less may be sent again than has come, and the transfer is under way then.
const _: () = assert!(AGAIN_BYTES_MAX < KILLED_AT_BYTES && KILLED_AT_BYTES < 32 * MIB);

/// Kills the daemon that is asked.
pub(super) fn killed_daemon(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    let Some(kill) = trial.kill else { return not_run("it needs --kill COMMAND") };
    let status = || trial.client.get::<StatusView>(&SHOW_STATUS.uri(&[]));
    let view = under_way(trial, KILLED_DAEMON, KILLED_AT_BYTES)?;
    let before = status()?;
    operator_command::run(kill, "--kill", None)?;
    trial.until(view.id, goes_on)?;
    if status()?.pid == before.pid {
        return unknown("--kill has not killed the daemon that is asked: it is the same process");
    }
    let is_controller = before.cluster.is_none_or(|cluster| cluster.is_leader);
    finished(trial, &view, (KILLED_DAEMON, is_controller), "")
}

/// Kills a peer that is not the controller.
pub(super) fn killed_peer(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    killed_at(trial, KILLED_PEER, false)
}

/// Kills the controller.
pub(super) fn killed_controller(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    killed_at(trial, KILLED_CONTROLLER, true)
}

fn killed_at(trial: &Trial<'_>, name: &str, is_controller: bool) -> anyhow::Result<Outcome> {
    let Some(kill) = trial.kill_peer else { return not_run("it needs --kill-peer COMMAND") };
    let is_victim = |peer: &PeerView| {
        let has_store = peer.stores.iter().any(|store| store.store == trial.store);
        has_store && peer.presence == Presence::Up && is_controller == is_leader(peer)
    };
    let peers = trial.peers_until(|_| true)?;
    if peers.len() < 2 {
        return not_run("the site has one peer");
    }
    let Some(victim) = peers.into_iter().find(is_victim) else {
        return not_run("no such peer of the site reaches the store");
    };
    let view = under_way(trial, name, KILLED_AT_BYTES)?;
    operator_command::run(kill, "--kill-peer", Some(&victim.peer))?;
    let is_back = |peer: &PeerView| {
        peer.peer == victim.peer && peer.presence == Presence::Up && peer.since != victim.since
    };
    // A killed controller is listed as one until its lease ends.
    let earlier = if is_controller { victim.controller_since } else { 0 };
    let leads = |peer: &PeerView| peer.controller_since > earlier;
    let is_whole = |peers: &[PeerView]| peers.iter().any(is_back) && peers.iter().any(leads);
    let peers = trial.peers_until(is_whole)?;
    let leader = peers.iter().find(|peer| leads(peer)).map_or("none", |peer| peer.peer.as_str());
    let role = if is_controller { "the controller" } else { "a peer" };
    let text = format!("{} was {role}, {leader} is the controller now, ", victim.peer);
    finished(trial, &view, (name, is_controller), &text)
}

fn is_leader(peer: &PeerView) -> bool {
    peer.controller_since > 0
}

/// Waits for the end of a transfer of which a daemon was killed, and compares the bytes that were
/// sent in all with those of the data set. Where the controller was killed, the next one resumes
/// from the ledger and counts anew, so that those of `before` are added.
fn finished(
    trial: &Trial<'_>,
    before: &TransferView,
    (copy, was_controller): (&str, bool),
    text: &str,
) -> anyhow::Result<Outcome> {
    let come = before.progress.bytes_resumed + before.progress.bytes_verified;
    let view = hurried(trial, before.id)?;
    // The next controller begins another attempt.
    if was_controller && view.attempt == before.attempt {
        return unknown("the transfer was done before the kill: give a command that kills at once");
    }
    check_copy(trial, copy, "after the kill")?;
    let earlier = if was_controller { come } else { view.progress.bytes_resumed };
    let (_, bytes) = trial.scratch.sums();
    let again = (earlier + view.progress.bytes_verified).saturating_sub(bytes);
    let text = format!("{text}{} of {} were sent again", format_bytes(again), format_bytes(come));
    if again > AGAIN_BYTES_MAX { broken(text) } else { passed(text) }
}
