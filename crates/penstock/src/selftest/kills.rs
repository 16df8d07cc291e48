//! Checks that kill a daemon in the middle of a transfer, by a command of the operator.

use penstock_api::endpoints::SHOW_STATUS;
use penstock_api::operate::{PeerView, Presence};
use penstock_api::rest::{StatusView, TransferView};
use penstock_proto::units::{MIB, format_bytes};

use super::operator_command;
use super::outcome::{Outcome, broken, not_run, passed, unknown};
use super::trial::{Trial, check_copy, goes_on, hurried, under_way};

/// Name of the check that needs `--kill`.
pub(super) const KILLED_DAEMON: &str = "killed-daemon";
/// Names of the checks that need `--kill-peer`.
pub(super) const KILLED_PEER: &str = "killed-peer";
pub(super) const KILLED_CONTROLLER: &str = "killed-controller";
/// Bytes of the data set that have come when a daemon is killed.
const KILLED_AT_BYTES: u64 = 20 * MIB;
/// Most bytes that a killed daemon may have sent in vain: what was in flight, and a second's work.
const AGAIN_BYTES_MAX: u64 = 16 * MIB;
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

/// Waits for the end of a transfer of which a daemon was killed, and holds what was sent again
/// against what had come at `before`. The next controller resumes from the ledger and counts anew;
/// the loss of another peer is counted by the controller.
fn finished(
    trial: &Trial<'_>,
    before: &TransferView,
    (copy, was_controller): (&str, bool),
    text: &str,
) -> anyhow::Result<Outcome> {
    let come = before.progress.bytes_resumed + before.progress.bytes_verified;
    let view = hurried(trial, before.id)?;
    check_copy(trial, copy, "after the kill")?;
    let lost = come.saturating_sub(view.progress.bytes_resumed);
    let again = view.progress.bytes_resent + if was_controller { lost } else { 0 };
    let text = format!("{text}{} of {} were sent again", format_bytes(again), format_bytes(come));
    if again > AGAIN_BYTES_MAX { broken(text) } else { passed(text) }
}
