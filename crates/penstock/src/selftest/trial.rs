//! What the checks of a selftest share: a client, the scratch directory, transfers within it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use penstock_api::endpoints::{
    CANCEL_TRANSFER, CHANGE_TRANSFER, LIST_PEERS, SHOW_TRANSFER, SUBMIT_TRANSFER,
};
use penstock_api::limits::Limits;
use penstock_api::operate::{PeerView, PeersView};
use penstock_api::place::PathText;
use penstock_api::problem::{Exit, Problem};
use penstock_api::rest::{SubmitRequest, TransferPatch, TransferQuery, TransferView};
use penstock_api::transfer::{Location, TransferOptions, TransferRequest, TransferState};
use penstock_api::update::{CompareBy, UpdateOptions};
use penstock_daemon::http;
use penstock_exit::{self as exit, ExitCode, Failure, failure};
use penstock_proto::id::{Name, TransferId};
use penstock_proto::units::MIB;

use super::operator_command::CardCut;
use super::outcome::{Broken, broken};
use super::scratch::Scratch;
use crate::client::Client;

/// How often a transfer is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Longest wait for a state of a transfer.
const PATIENCE: Duration = Duration::from_secs(300);
/// Longest wait for the end of a cancelled transfer.
const PATIENCE_AT_END: Duration = Duration::from_secs(30);
/// How long the daemon may take for an answer.
const DEADLINE: Duration = Duration::from_secs(5);

/// Rate of transfers that are to be interrupted, in bits per second: the large file takes 16 s.
pub(super) const SLOW_BITS_PER_S: u64 = 16_000_000;
/// Lanes of transfers that are to be interrupted, over all peers.
pub(super) const SLOW_LANES: u32 = 4;
/// Size of their pieces.
const SLOW_PIECE_BYTES: u64 = MIB;
/// Most bytes of them that are in flight: an unfinished piece on each lane.
pub(super) const SLOW_IN_FLIGHT_BYTES: u64 = SLOW_LANES as u64 * SLOW_PIECE_BYTES;

/// A selftest at work.
pub(super) struct Trial<'a> {
    /// The daemon.
    pub(super) client: Client,
    /// The site.
    pub(super) site: Name,
    /// The scratch store.
    pub(super) store: Name,
    /// The directory in it.
    pub(super) scratch: Scratch,
    /// Name of that directory within the store.
    pub(super) directory: String,
    /// Command that kills the daemon that is asked, and starts it again.
    pub(super) kill: Option<&'a str>,
    /// Command that kills the daemon of a named peer, and starts it again.
    pub(super) kill_peer: Option<&'a str>,
    /// Commands that cut a card and restore it, and a source at another site.
    pub(super) card_cut: Option<CardCut>,
    /// Set by a signal.
    pub(super) stop: &'a AtomicBool,
    /// All transfers that were submitted.
    pub(super) begun: RefCell<Vec<TransferId>>,
}

impl Trial<'_> {
    /// Returns a place in the scratch directory, as a whole directory.
    pub(super) fn place(&self, path: &str) -> Location {
        let path = PathText(format!("{}/{path}", self.directory).into_bytes());
        Location { site: self.site.clone(), store: self.store.clone(), path, slash: true }
    }

    /// Returns a request for a transfer of the contents of one place to another one.
    pub(super) fn request(
        &self,
        from: &str,
        to: &str,
        options: TransferOptions,
    ) -> TransferRequest {
        self.request_from(self.place(from), to, options)
    }

    /// Returns a request for a transfer from anywhere to a place in the scratch directory.
    pub(super) fn request_from(
        &self,
        from: Location,
        to: &str,
        options: TransferOptions,
    ) -> TransferRequest {
        let id = TransferId(rand::random());
        let mut request = TransferRequest::new(id, from, self.place(to), options);
        request.options.proof.receipt = true;
        request.label.clone_from(&self.directory);
        request.attempts_max = Some(20);
        request
    }

    /// Submits a transfer.
    ///
    /// # Errors
    /// What the daemon answers.
    pub(super) fn submit(&self, request: &TransferRequest) -> anyhow::Result<TransferView> {
        self.begun.borrow_mut().push(request.id);
        let request = SubmitRequest::from(request.clone());
        self.client.post(&SUBMIT_TRANSFER.uri(&[]), &request)
    }

    /// Submits a transfer that may be refused; returns the reason, or none if it was taken.
    ///
    /// # Errors
    /// No daemon answers, or none can now.
    pub(super) fn refusal(&self, request: &TransferRequest) -> anyhow::Result<Option<Problem>> {
        self.begun.borrow_mut().push(request.id);
        let body = http::encode(&SubmitRequest::from(request.clone())).map_err(failure)?;
        let answer = self.client.exchange(&SUBMIT_TRANSFER.uri(&[]), Some(body), &[])?;
        match answer.problem() {
            Some(problem) if problem.exit == Exit::Temporary => Err(failure(problem).into()),
            problem => Ok(problem),
        }
    }

    /// Returns the query for the transfers of this selftest.
    pub(super) fn own_transfers(&self) -> TransferQuery {
        TransferQuery { label: self.directory.clone(), ..TransferQuery::default() }
    }

    /// Looks at a transfer until `is` holds of it; a daemon that is away is asked again.
    ///
    /// # Errors
    /// As [`unmet`]; the daemon is away for too long; the user has interrupted the selftest.
    pub(super) fn until(
        &self,
        id: TransferId,
        is: impl Fn(&TransferView) -> bool,
    ) -> anyhow::Result<TransferView> {
        let began = Instant::now();
        loop {
            if self.stop.load(Ordering::Acquire) {
                return Err(Failure::new(ExitCode::Interrupted, "interrupted").into());
            }
            let is_late = began.elapsed() > PATIENCE;
            match self.client.get_within::<TransferView>(&SHOW_TRANSFER.uri(&[&id]), DEADLINE) {
                Ok(view) if is(&view) => return Ok(view),
                Ok(view) if view.state.is_ended() || is_late => return Err(unmet(&view)),
                Ok(_) => {}
                Err(error) if exit::code_of(&error) == ExitCode::Temporary && !is_late => {}
                Err(error) => return Err(error.context("the transfer cannot be looked at")),
            }
            thread::sleep(LOOK);
        }
    }

    /// Looks at the peers of the site until `are` holds of them; a daemon that is away is asked
    /// again.
    ///
    /// # Errors
    /// It does not hold within five minutes; the daemon is away for too long; the user has
    /// interrupted the selftest.
    pub(super) fn peers_until(
        &self,
        are: impl Fn(&[PeerView]) -> bool,
    ) -> anyhow::Result<Vec<PeerView>> {
        let began = Instant::now();
        loop {
            if self.stop.load(Ordering::Acquire) {
                return Err(Failure::new(ExitCode::Interrupted, "interrupted").into());
            }
            let is_late = began.elapsed() > PATIENCE;
            match self.client.get_within::<PeersView>(&LIST_PEERS.uri(&[]), DEADLINE) {
                Ok(view) if are(&view.peers) => return Ok(view.peers),
                Ok(_) if is_late => {
                    let text = "after 5 min, the peer was not killed or is not back, or no peer \
                                is the controller";
                    return Err(Failure::new(ExitCode::Temporary, text).into());
                }
                Ok(_) => {}
                Err(error) if exit::code_of(&error) == ExitCode::Temporary && !is_late => {}
                Err(error) => return Err(error.context("the peers cannot be listed")),
            }
            thread::sleep(LOOK);
        }
    }

    /// Cancels transfers that a check has left under way, and waits for their ends, so that nothing
    /// works on in the directory.
    pub(super) fn cancel_all(&self) {
        for id in self.begun.borrow().iter() {
            let seen = self.client.get_within::<TransferView>(&SHOW_TRANSFER.uri(&[id]), DEADLINE);
            if seen.is_ok_and(|view| !view.state.is_ended()) {
                let cancelled = self.client.post_empty(&CANCEL_TRANSFER.uri(&[id]), &());
                if let Err(error) = cancelled {
                    exit::warn(&format!("transfer {} is not cancelled: {error:#}", id.short()));
                    continue;
                }
                self.await_end(*id);
            }
        }
    }

    /// Waits for the end of a cancelled transfer, an interruption notwithstanding.
    fn await_end(&self, id: TransferId) {
        let began = Instant::now();
        while began.elapsed() < PATIENCE_AT_END {
            let seen = self.client.get_within::<TransferView>(&SHOW_TRANSFER.uri(&[&id]), DEADLINE);
            if seen.is_ok_and(|view| view.state.is_ended()) {
                return;
            }
            thread::sleep(LOOK);
        }
        exit::warn(&format!("transfer {} is cancelled and has not ended", id.short()));
    }

    /// Waits until a transfer has ended in whatever way.
    ///
    /// # Errors
    /// As [`Trial::until`].
    pub(super) fn ended(&self, id: TransferId) -> anyhow::Result<TransferView> {
        self.until(id, |view| view.state.is_ended())
    }

    /// Moves the contents of one place to another one, which has to succeed.
    ///
    /// # Errors
    /// As [`Trial::until`].
    pub(super) fn moved(
        &self,
        from: &str,
        to: &str,
        options: TransferOptions,
    ) -> anyhow::Result<TransferView> {
        let view = self.submit(&self.request(from, to, options))?;
        self.until(view.id, |view| view.state == TransferState::Done)
    }
}

/// Checks that a copy of the data set is right; `when` begins the words of a fault.
pub(super) fn check_copy(trial: &Trial<'_>, copy: &str, when: &str) -> anyhow::Result<()> {
    match trial.scratch.fault_of(copy)? {
        Some(fault) => broken(format!("{when} {fault}")),
        None => Ok(()),
    }
}

/// Returns the options of a transfer that mends all files that differ in a byte.
pub(super) fn by_digest() -> TransferOptions {
    let update = UpdateOptions { sync: true, compare: CompareBy::Digest, ..Default::default() };
    TransferOptions { update, ..Default::default() }
}

/// Returns the options of a transfer that is to be interrupted.
pub(super) fn slow() -> TransferOptions {
    let limits = Limits { rate_bits_per_s: Some(SLOW_BITS_PER_S), ..Default::default() };
    TransferOptions {
        limits,
        piece_bytes: SLOW_PIECE_BYTES,
        lanes: SLOW_LANES,
        ..Default::default()
    }
}

/// Begins a slow transfer, and returns when so many bytes have come.
pub(super) fn under_way(trial: &Trial<'_>, to: &str, bytes: u64) -> anyhow::Result<TransferView> {
    let view = trial.submit(&trial.request("set", to, slow()))?;
    trial.until(view.id, |view| view.progress.bytes_verified > bytes)
}

/// Takes the limit away, unless the transfer is done, and waits for the end.
pub(super) fn hurried(trial: &Trial<'_>, id: TransferId) -> anyhow::Result<TransferView> {
    hurry(trial, id)?;
    trial.until(id, |view| view.state == TransferState::Done)
}

/// Takes the limit of a transfer away, unless the transfer is done.
pub(super) fn hurry(trial: &Trial<'_>, id: TransferId) -> anyhow::Result<()> {
    if trial.until(id, goes_on)?.state != TransferState::Done {
        let patch = TransferPatch { limits: Some(None), ..Default::default() };
        let _: TransferView = trial.client.post(&CHANGE_TRANSFER.uri(&[&id]), &patch)?;
    }
    Ok(())
}

/// Returns whether a transfer runs, or has come to a good end.
pub(super) fn goes_on(view: &TransferView) -> bool {
    matches!(view.state, TransferState::Running | TransferState::Done)
}

/// Returns the error of a transfer that has not come to what a check waits for, and has ended or
/// had the time for it: [`Broken`] where the mover is at fault, and another one where the site had
/// no room, no turn or no right for it, or somebody has ended it.
fn unmet(view: &TransferView) -> anyhow::Error {
    let text = match view.state.is_ended() {
        true => format!("the transfer is {}: {}", view.state.as_str(), view.reason),
        false => {
            let (state, seconds) = (view.state.as_str(), PATIENCE.as_secs());
            format!("the transfer is {state} after {seconds} s: {}", view.reason)
        }
    };
    let is_broken = is_fault(view.state, view.exit, view.waiting.is_some());
    if is_broken { Broken(text).into() } else { Failure::new(ExitCode::Temporary, text).into() }
}

/// Returns whether the mover is at fault where a transfer has not come to what is waited for: items
/// have failed, or it says that it runs, moves nothing and names no reason.
fn is_fault(state: TransferState, exit: Option<Exit>, has_reason: bool) -> bool {
    match state {
        TransferState::Failed => {
            matches!(exit, Some(Exit::SomeFailed | Exit::SourceChanged | Exit::Integrity))
        }
        TransferState::Running => !has_reason,
        TransferState::Queued
        | TransferState::Paused
        | TransferState::Done
        | TransferState::Cancelled => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: items that fail and a transfer that hangs without a reason are faults of the mover;
    /// want of room, of a turn or of a right, and the hand of somebody else are none.
    #[test]
    fn faults_are_told_from_circumstances() {
        use TransferState::{Cancelled, Done, Failed, Paused, Queued, Running};
        for exit in [Exit::SomeFailed, Exit::SourceChanged, Exit::Integrity] {
            assert!(is_fault(Failed, Some(exit), false), "{exit:?}");
        }
        for exit in [Exit::Temporary, Exit::NotAuthorised, Exit::Refused, Exit::Fatal] {
            assert!(!is_fault(Failed, Some(exit), false), "{exit:?}");
        }
        assert!(is_fault(Running, None, false) && !is_fault(Running, None, true));
        for state in [Queued, Paused, Done, Cancelled] {
            assert!(!is_fault(state, None, false), "{state:?}");
        }
    }
}
