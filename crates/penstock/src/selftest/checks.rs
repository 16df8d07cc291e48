//! The checks: each tries to break a promise of [ARCHITECTURE.md], and says what it saw.
//!
//! [ARCHITECTURE.md]: ../../../../ARCHITECTURE.md

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::{Method, StatusCode};
use penstock_api::endpoints::{
    GET_RECEIPT, PAUSE_TRANSFER, RESUME_TRANSFER, SHOW_STATUS, SHOW_STORE, SUBMIT_TRANSFER,
};
use penstock_api::problem::{Exit, FieldFault, Problem, ProblemCode};
use penstock_api::receipt::ReceiptBody;
use penstock_api::rest::{StatusView, StoreDetails, TransferSummary, TransferView};
use penstock_api::transfer::{TransferOptions, TransferState};
use penstock_api::update::UpdateOptions;
use penstock_daemon::http;
use penstock_exit::{self as exit, ExitCode, Failure};
use penstock_net::trust::introduction_config;
use penstock_proto::id::TransferId;
use penstock_proto::units::{MIB, format_bytes};
use rustls::pki_types::ServerName;
use serde_json::json;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::cards::{CUT_CARD, cut_card};
use super::clocks::clocks;
use super::directory_lock::second_daemon;
use super::kills::{
    KILLED_CONTROLLER, KILLED_DAEMON, KILLED_PEER, killed_controller, killed_daemon, killed_peer,
};
use super::outcome::{Broken, Outcome, broken, not_run, passed, unknown};
use super::scratch::LARGE;
use super::trial::{SLOW_IN_FLIGHT_BYTES, Trial, by_digest, check_copy, hurried, under_way};
use super::visibility::{final_names, source_removal};
use crate::receipt;

/// Bytes after which a transfer is paused: more than are under way at a time.
const PAUSED_AT_BYTES: u64 = 16 * MIB;
/// Fewest free bytes of a store that is filled up.
const FILL_BYTES_MIN: u64 = 64 * MIB;
/// Most free bytes of a store that is filled up.
const FILL_BYTES_MAX: u64 = 4096 * MIB;
/// Most bytes of a store in all that is filled up: a larger one is of people at work.
const SMALL_STORE_MAX: u64 = 64 * 1024 * MIB;
/// Bytes that stay free in a store that is filled up.
const LEFT_BYTES: u64 = 8 * MIB;
/// How long a host may take to refuse a connection.
const REFUSAL_DEADLINE: Duration = Duration::from_secs(10);

/// A check.
pub(super) struct Check {
    /// Its name.
    pub(super) name: &'static str,
    /// The promise that it tries to break.
    pub(super) promise: &'static str,
    /// What it does, for the question.
    pub(super) does: &'static str,
    /// Does it.
    pub(super) run: fn(&Trial<'_>) -> anyhow::Result<Outcome>,
}

/// All checks, in their order: later ones use what the first one has moved.
pub(super) const CHECKS: [Check; 16] = [
    Check {
        name: "moves",
        promise: "(c), (j) what is done is verified, whatever its name",
        does: "moves a data set of 32 MiB within the store, and compares it byte by byte",
        run: moves,
    },
    Check {
        name: "final-names",
        promise: "(b) a final name means a complete and verified file",
        does: "compares all files that have their names while a slow transfer is under way",
        run: final_names,
    },
    Check {
        name: "source-removal",
        promise: "nothing of a source goes before it is at the target",
        does: "moves a copy with --remove-source, and looks at both ends meanwhile",
        run: source_removal,
    },
    Check {
        name: "flipped-bit",
        promise: "(c) damage at rest is found",
        does: "changes a bit of two files of a copy, and compares by digests",
        run: flipped_bit,
    },
    Check {
        name: "same-id",
        promise: "a request that is sent twice does nothing twice",
        does: "submits a transfer again, and another one under its id",
        run: same_id,
    },
    Check {
        name: "climbs-out",
        promise: "(i) nothing reaches outside of a store",
        does: "asks for `..` in a path, and reads and writes behind links out of the store",
        run: climbs_out,
    },
    Check {
        name: "empty-source",
        promise: "(e) nothing is deleted for a source that shows nothing",
        does: "asks to delete all of the copy that an empty source lacks",
        run: empty_source,
    },
    Check {
        name: "stranger",
        promise: "a host without a certificate of a trusted site is refused",
        does: "connects to the port for peers without a certificate",
        run: stranger,
    },
    Check {
        name: "second-daemon",
        promise: "(h) two daemons cannot own one state",
        does: "tries to acquire the lock of the site directory, as a second daemon does",
        run: second_daemon,
    },
    Check {
        name: "clocks",
        promise: "clocks agree, on which certificates, capabilities and receipts depend",
        does: "compares the clocks of all peers and of paired sites",
        run: clocks,
    },
    Check {
        name: "pause",
        promise: "(d) a paused transfer keeps what it has, and resumes",
        does: "pauses a slow transfer, resumes it, and changes its limit",
        run: pause,
    },
    Check {
        name: "full-store",
        promise: "(f) a full store makes a transfer wait, with the reason",
        does: "fills the store up to 8 MiB, if less than 4 GiB are free there",
        run: full_store,
    },
    Check {
        name: KILLED_DAEMON,
        promise: "(d) a killed daemon costs what was in flight",
        does: "runs the command of --kill in the middle of a transfer",
        run: killed_daemon,
    },
    Check {
        name: KILLED_PEER,
        promise: "(d) the loss of a peer costs what it had in hand",
        does: "runs the command of --kill-peer for a peer that is not the controller",
        run: killed_peer,
    },
    Check {
        name: KILLED_CONTROLLER,
        promise: "(d) the loss of the controller costs what was in flight",
        does: "runs the command of --kill-peer for the controller",
        run: killed_controller,
    },
    Check {
        name: CUT_CARD,
        promise: "(d) the loss of a card costs what was in flight on it",
        does: "runs the commands of --cut-card and --heal-card in a transfer from another site",
        run: cut_card,
    },
];

fn moves(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    let view = trial.moved("set", "copy", TransferOptions::default())?;
    check_copy(trial, "copy", "the transfer is done, and")?;
    check_copy(trial, "set", "of the source")?;
    let mut text = Vec::new();
    trial.client.get_into(&GET_RECEIPT.uri(&[&view.id]), &mut text)?;
    let receipt = receipt::sound(&text);
    let receipt = receipt.map_err(|why| Broken(format!("the receipt proves nothing: {why}")))?;
    if let Some(wrong) = wrong_receipt(&receipt.receipt, view.id, trial.scratch.sums()) {
        return broken(wrong);
    }
    let (files, bytes) = trial.scratch.sums();
    passed(format!("{files} files, {}", format_bytes(bytes)))
}

/// Returns what a receipt of a whole data set says that is not so.
fn wrong_receipt(body: &ReceiptBody, id: TransferId, sums: (u64, u64)) -> Option<String> {
    let facts = &body.facts;
    if body.id != id || body.state != TransferState::Done {
        let (id, state) = (body.id.short(), body.state.as_str());
        return Some(format!("the receipt is of transfer {id}, {state}"));
    }
    if (facts.files, facts.bytes) != sums || facts.failed > 0 {
        let ((files, bytes), said) = (sums, (facts.files, facts.bytes, facts.failed));
        let (said_files, said_bytes, failed) = said;
        return Some(format!(
            "the receipt has {said_files} files, {said_bytes} bytes and {failed} failures, of \
             {files} files with {bytes} bytes"
        ));
    }
    facts.root_digest.is_none().then(|| "the receipt has no root digest".to_owned())
}

fn flipped_bit(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    trial.moved("set", "flipped", TransferOptions::default())?;
    check_copy(trial, "flipped", "before the damage")?;
    for name in ["small/7", LARGE] {
        trial.scratch.flip(Path::new("flipped").join(name))?;
    }
    let view = trial.moved("set", "flipped", by_digest())?;
    check_copy(trial, "flipped", "after the comparison")?;
    match view.progress.files {
        2 => passed("two files were found to differ, and mended"),
        files => broken(format!("{files} files were moved, where two differ")),
    }
}

fn same_id(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    let request = trial.request("set", "twice", TransferOptions::default());
    let first = trial.submit(&request)?;
    let again = trial.submit(&request)?;
    if (first.id, first.created_at) != (again.id, again.created_at) {
        return broken("the second request has made a second transfer");
    }
    let view = trial.ended(first.id)?;
    if view.state != TransferState::Done {
        return unknown(format!("the transfer is {}: {}", view.state.as_str(), view.reason));
    }
    let late = trial.submit(&request)?;
    if (late.state, late.attempt, late.ended_at) != (view.state, view.attempt, view.ended_at) {
        return broken(format!("a third request has changed it: {}", late.state.as_str()));
    }
    let all: Vec<TransferSummary> = trial.client.list(&trial.own_transfers().uri())?;
    let count = all.iter().filter(|transfer| transfer.target == request.target).count();
    if count != 1 {
        return broken(format!("three requests of one id have made {count} transfers"));
    }
    let mut other = trial.request("set", "other", TransferOptions::default());
    other.id = request.id;
    match trial.refusal(&other)? {
        None => return broken("another one was taken under its id"),
        Some(problem) if problem.code == ProblemCode::IdTaken => {}
        Some(problem) => return unknown(format!("another one is refused for: {problem}")),
    }
    check_copy(trial, "twice", "after three requests")?;
    if trial.scratch.has_items(Path::new("other"))? {
        return broken("another one was begun under its id");
    }
    passed("the same transfer each time; another one under its id is refused")
}

fn climbs_out(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    let own = format!("{}:{}/{}", trial.site, trial.store, trial.directory);
    // The first one shows that such a request is taken where its paths are sound.
    for (source, target, is_sound) in [
        (format!("{own}/set/"), format!("{own}/inside/"), true),
        (format!("{own}/set/"), format!("{own}/../../../escaped/"), false),
        (format!("{own}/../../../etc/"), format!("{own}/escaped/"), false),
    ] {
        let id = TransferId(rand::random());
        trial.begun.borrow_mut().push(id);
        let options = TransferOptions::default();
        let body = json!({ "id": id, "source": source, "target": target, "options": options });
        let body = Some(serde_json::to_vec(&body)?);
        let answer = trial.client.exchange(&SUBMIT_TRANSFER.uri(&[]), body, &[])?;
        match answer.problem() {
            None if is_sound => {}
            None => return broken(format!("{source} to {target} was taken")),
            Some(problem) if !is_sound && is_of_place(&problem) => {}
            Some(problem) => {
                return unknown(format!("{source} to {target} is refused for: {problem}"));
            }
        }
    }
    let outside = Outside::make(trial)?;
    trial.scratch.link("link", "/")?;
    trial.scratch.link("door", &outside.path.display().to_string())?;
    for (source, target) in [("link/etc", "escaped"), ("set", "door/in")] {
        // A refusal at once is as good as one when the store is looked at.
        let request = trial.request(source, target, TransferOptions::default());
        let taken = trial.refusal(&request)?.is_none();
        let state = if taken { Some(trial.ended(request.id)?.state) } else { None };
        if trial.scratch.has_items(Path::new("escaped"))? {
            return broken("files behind a link to `/` have come into the store");
        }
        if trial.scratch.has_items(&outside.path)? {
            return broken("files were written behind a link, outside of the store");
        }
        if state == Some(TransferState::Done) {
            return broken(format!("the transfer of `{source}` to `{target}` is done"));
        }
    }
    passed("two paths and two links were refused")
}

/// Returns whether a request was refused for its source or its target.
fn is_of_place(problem: &Problem) -> bool {
    let of_place = |fault: &FieldFault| {
        ["/source", "/target"].iter().any(|field| fault.pointer.starts_with(field))
    };
    matches!(problem.code, ProblemCode::Body | ProblemCode::Request)
        && problem.context.as_ref().is_some_and(|context| context.errors.iter().any(of_place))
}

/// A directory outside of the store, where the owner of the store may write; it is removed at the
/// end.
struct Outside {
    path: PathBuf,
}

impl Outside {
    fn make(trial: &Trial<'_>) -> anyhow::Result<Self> {
        // A service may have a /tmp of its own, where its daemon would not find the directory.
        let store = trial.scratch.root().parent();
        let beside = store.and_then(Path::parent).unwrap_or(Path::new("/")).to_owned();
        let name = format!("{}-outside", trial.directory);
        let mut places = [beside, std::env::temp_dir()].map(|place| place.join(&name)).into_iter();
        let Some(path) = places.find(|path| std::fs::create_dir(path).is_ok()) else {
            let message = "no directory can be made outside of the store";
            return Err(Failure::new(ExitCode::Fatal, message)
                .hint("run the selftest as a user that may write beside the store, or in /tmp")
                .into());
        };
        let outside = Self { path };
        trial.scratch.own(&outside.path)?;
        Ok(outside)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            exit::warn(&format!("`{}` stays: {error}", self.path.display()));
        }
    }
}

fn empty_source(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    let update = UpdateOptions {
        sync: true,
        delete: true,
        max_delete: Some(u64::MAX),
        ..Default::default()
    };
    let options = TransferOptions { update, ..Default::default() };
    trial.moved("set", "kept", TransferOptions::default())?;
    check_copy(trial, "kept", "before the deletion")?;
    // Where nothing is ever deleted, a copy that stays shows nothing.
    trial.scratch.file("kept/surplus", b"to be deleted")?;
    trial.moved("set", "kept", options.clone())?;
    if trial.scratch.root().join("kept/surplus").exists() {
        return unknown(
            "a file that the source lacks was not deleted: deletion does not work here",
        );
    }
    trial.scratch.directory("nothing")?;
    let view = trial.submit(&trial.request("nothing", "kept", options))?;
    let view = trial.ended(view.id)?;
    check_copy(trial, "kept", "it was deleted:")?;
    match (view.state, view.exit) {
        (TransferState::Failed, Some(Exit::Refused)) => passed(view.reason),
        (TransferState::Done, _) => broken("nothing was deleted, and the transfer is done"),
        (state, _) => unknown(format!("the transfer is {}: {}", state.as_str(), view.reason)),
    }
}

fn stranger(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    let status: StatusView = trial.client.get(&SHOW_STATUS.uri(&[]))?;
    let mut address = status.listen;
    if address.ip().is_unspecified() {
        let here = if address.is_ipv4() { "127.0.0.1" } else { "::1" };
        address.set_ip(here.parse()?);
    }
    // What is asked for is there: only who asks can be the reason of a refusal.
    let view = trial.moved("set", "shown", TransferOptions::default())?;
    let (id, store) = (view.id, &trial.store);
    let paths = [
        format!("/site/v1/transfers/{id}"),
        format!("/site/v1/transfers/{id}/receipt"),
        format!("/site/v1/transfers/{id}/pieces"),
        format!("/site/v1/stores/{store}/peers"),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for path in &paths {
        let asked = async { tokio::time::timeout(REFUSAL_DEADLINE, ask(address, path)).await };
        let problem = match runtime.block_on(asked) {
            Ok(Ok(Answered { problem: Some(problem), .. })) => problem,
            Ok(Ok(Answered { status, .. })) => return broken(format!("{path} answers {status}")),
            Ok(Err(why)) => return unknown(format!("{address} cannot be asked: {why}")),
            Err(_) => return unknown(format!("{address} does not answer in time")),
        };
        if problem.exit == Exit::Temporary {
            return unknown(format!("{address} cannot answer now: {problem}"));
        }
        if problem.code != ProblemCode::NotAuthorised {
            return broken(format!("{path} answers a stranger: {problem}"));
        }
    }
    passed(format!("{} requests were refused: {NEEDED}", paths.len()))
}

/// The refusal in words.
const NEEDED: &str = "a client certificate is needed";

/// The answer to somebody without a certificate.
struct Answered {
    status: StatusCode,
    /// None if the request succeeded.
    problem: Option<Problem>,
}

async fn ask(address: SocketAddr, path: &str) -> Result<Answered, String> {
    let config = introduction_config().map_err(|error| error.to_string())?;
    let tcp = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let name = ServerName::from(address.ip());
    let tls = TlsConnector::from(config).connect(name, tcp).await;
    let tls = tls.map_err(|error| error.to_string())?;
    let reply = http::exchange(tls, Method::GET, path, None, ("penstock", &[])).await;
    let reply = reply.map_err(|problem| problem.to_string())?;
    let status = reply.status();
    let body = http::read(reply).await.map_err(|problem| problem.to_string())?;
    let is_problem = !status.is_success();
    let problem = is_problem.then(|| http::problem_of(status.as_u16(), &body));
    Ok(Answered { status, problem })
}

fn pause(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    let view = under_way(trial, "paused", PAUSED_AT_BYTES)?;
    let _: TransferView = trial.client.post(&PAUSE_TRANSFER.uri(&[&view.id]), &())?;
    let paused = trial.until(view.id, |view| view.state == TransferState::Paused)?;
    let come = view.progress.bytes_verified.max(paused.progress.bytes_verified);
    let resumed: TransferView = trial.client.post(&RESUME_TRANSFER.uri(&[&view.id]), &())?;
    if resumed.state == TransferState::Paused {
        return broken("it was resumed, and stays paused");
    }
    let view = hurried(trial, view.id)?;
    check_copy(trial, "paused", "after the pause")?;
    let kept = view.progress.bytes_resumed;
    let text = format!("{} of {} were kept", format_bytes(kept), format_bytes(come));
    if kept + SLOW_IN_FLIGHT_BYTES < come { broken(text) } else { passed(text) }
}

fn full_store(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    let store: StoreDetails = trial.client.get(&SHOW_STORE.uri(&[&trial.store]))?;
    let Some(space) = store.space else { return not_run("the store does not tell its room") };
    if !(FILL_BYTES_MIN..FILL_BYTES_MAX).contains(&space.free_bytes) {
        let free = format_bytes(space.free_bytes);
        return not_run(format!("{free} are free; a store is filled up from 64 MiB to 4 GiB"));
    }
    if space.total_bytes > SMALL_STORE_MAX {
        let total = format_bytes(space.total_bytes);
        return not_run(format!("it has {total} in all: no small store for tests is filled up"));
    }
    let path = trial.scratch.root().join("filler");
    let filler = std::fs::File::create_new(&path)?;
    // A file without a name gives its room back however this process ends.
    std::fs::remove_file(&path)?;
    let how = rustix::fs::FallocateFlags::empty();
    if let Err(error) = rustix::fs::fallocate(&filler, how, 0, space.free_bytes - LEFT_BYTES) {
        return not_run(format!("the store cannot be filled up: {error}"));
    }
    let view = trial.submit(&trial.request("set", "full", TransferOptions::default()))?;
    let waits = |view: &TransferView| view.waiting.as_ref().is_some_and(|it| it.code == "room");
    let waiting = match trial.until(view.id, |view| waits(view) || view.state.is_ended())? {
        view if waits(&view) => view,
        view if view.state == TransferState::Done => {
            check_copy(trial, "full", "in a full store")?;
            return unknown("there was room for it: something else has made some");
        }
        view if view.state == TransferState::Failed => {
            return broken(format!("it does not wait for room, it has failed: {}", view.reason));
        }
        view => return unknown(format!("it is {}: {}", view.state.as_str(), view.reason)),
    };
    filler.set_len(0)?;
    trial.until(view.id, |view| view.state == TransferState::Done)?;
    check_copy(trial, "full", "when there was room again")?;
    passed(waiting.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: no check can pass for what it has not seen: a limit of what may be lost is below
    /// what has come before the loss, and a transfer is still under way then.
    #[test]
    fn limits_can_be_broken() {
        let bytes = 32 * MIB;
        assert!(SLOW_IN_FLIGHT_BYTES < PAUSED_AT_BYTES && PAUSED_AT_BYTES < bytes);
        assert!(LEFT_BYTES < bytes && LEFT_BYTES < FILL_BYTES_MIN);
    }
}
