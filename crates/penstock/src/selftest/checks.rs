//! The checks: each tries to break a promise of [ARCHITECTURE.md], and says what it saw.
//!
//! [ARCHITECTURE.md]: ../../../../ARCHITECTURE.md

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use hyper::Method;
use penstock_api::endpoints::{
    CHANGE_TRANSFER, GET_RECEIPT, PAUSE_TRANSFER, RESUME_TRANSFER, SHOW_STATUS, SHOW_STORE,
    SUBMIT_TRANSFER,
};
use penstock_api::limits::Limits;
use penstock_api::problem::ProblemCode;
use penstock_api::rest::{StatusView, StoreDetails, TransferPatch, TransferView};
use penstock_api::transfer::{TransferOptions, TransferState};
use penstock_api::update::{CompareBy, UpdateOptions};
use penstock_daemon::http;
use penstock_exit::{self as exit, ExitCode};
use penstock_net::trust::introduction_config;
use penstock_proto::id::TransferId;
use penstock_proto::units::{MIB, format_bytes};
use rustls::pki_types::ServerName;
use serde_json::json;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::outcome::Outcome;
use super::scratch::{difference, has_temporary};
use super::trial::Trial;
use crate::receipt;

/// Rate of transfers that are to be interrupted, in bits per second: the large file takes 8 s.
const SLOW_BITS_PER_S: u64 = 32_000_000;
/// Most bytes that a killed daemon may have sent in vain: what was in flight, and a second's work.
const AGAIN_BYTES_MAX: u64 = 16 * MIB;
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
pub(super) const CHECKS: [Check; 9] = [
    Check {
        name: "moves",
        promise: "(c), (j) what is done is verified, whatever its name",
        does: "moves a data set of 32 MiB within the store, and compares it byte by byte",
        run: moves,
    },
    Check {
        name: "flipped-bit",
        promise: "(c) damage at rest is found",
        does: "changes a bit of the copy, and compares by digests",
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
        does: "asks for `..` in a path, and for what is behind a link to `/`",
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
        name: "killed-daemon",
        promise: "(d) a killed daemon costs what was in flight",
        does: "runs the command of --kill in the middle of a transfer",
        run: killed_daemon,
    },
];

fn passed(text: impl Into<String>) -> anyhow::Result<Outcome> {
    Ok(Outcome::Pass(text.into()))
}

fn failed(text: impl Into<String>) -> anyhow::Result<Outcome> {
    Ok(Outcome::Fail(text.into()))
}

fn not_run(text: impl Into<String>) -> anyhow::Result<Outcome> {
    Ok(Outcome::NotRun(text.into()))
}

/// Returns what is wrong with a copy of the data set.
fn wrong_copy(trial: &Trial<'_>, copy: &str) -> anyhow::Result<Option<String>> {
    let root = trial.scratch.root();
    let found = difference(&root.join("set"), &root.join(copy))?;
    if found.is_none() && has_temporary(&root.join(copy))? {
        return Ok(Some("a temporary file is left".to_owned()));
    }
    Ok(found)
}

fn moves(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    let view = trial.moved("set", "copy", TransferOptions::default())?;
    if let Some(wrong) = wrong_copy(trial, "copy")? {
        return failed(format!("the transfer is done, and {wrong}"));
    }
    let mut text = Vec::new();
    trial.client.get_into(&GET_RECEIPT.uri(&[&view.id]), &mut text)?;
    match receipt::sound(&text) {
        Err(why) => failed(format!("the receipt proves nothing: {why}")),
        Ok(receipt) => {
            let facts = receipt.receipt.facts;
            passed(format!("{} files, {}", facts.files, format_bytes(facts.bytes)))
        }
    }
}

fn by_digest() -> TransferOptions {
    let update = UpdateOptions { sync: true, compare: CompareBy::Digest, ..Default::default() };
    TransferOptions { update, ..Default::default() }
}

fn flipped_bit(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    trial.moved("set", "flipped", TransferOptions::default())?;
    trial.scratch.flip("flipped/small/7")?;
    let view = trial.moved("set", "flipped", by_digest())?;
    match (view.progress.files, wrong_copy(trial, "flipped")?) {
        (1, None) => passed("one file was found to differ, and mended"),
        (files, None) => failed(format!("{files} files were moved, where one differs")),
        (_, Some(wrong)) => failed(format!("after the comparison {wrong}")),
    }
}

fn same_id(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    let request = trial.request("set", "twice", TransferOptions::default());
    let first = trial.submit(&request)?;
    let again = trial.submit(&request)?;
    if (first.id, first.created_at) != (again.id, again.created_at) {
        return failed("the second request has made a second transfer");
    }
    let view = trial.ended(first.id)?;
    let late = trial.submit(&request)?;
    if view.state != TransferState::Done || late.state != view.state || late.attempt != view.attempt
    {
        return failed(format!("a third request has changed it: {}", late.state.as_str()));
    }
    let mut other = trial.request("set", "other", TransferOptions::default());
    other.id = request.id;
    match trial.submit(&other) {
        Ok(view) if view.target != request.target => failed("another one was begun under its id"),
        Ok(_) => passed("the same transfer each time; another one under its id is not begun"),
        Err(error) if exit::code_of(&error) == ExitCode::Temporary => Err(error),
        Err(_) => passed("the same transfer each time; another one under its id is refused"),
    }
}

fn climbs_out(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    let own = format!("{}:{}/{}", trial.site, trial.store, trial.directory);
    let sound = TransferOptions::default();
    // The first one shows that such a request is taken where its paths are sound.
    for (source, target, is_sound) in [
        (format!("{own}/set/"), format!("{own}/inside/"), true),
        (format!("{own}/set/"), format!("{own}/../../../escaped/"), false),
        (format!("{own}/../../../etc/"), format!("{own}/escaped/"), false),
    ] {
        let id = TransferId(rand::random());
        trial.begun.borrow_mut().push(id);
        let body = json!({ "id": id, "source": source, "target": target, "options": sound });
        let body = Some(serde_json::to_vec(&body)?);
        let answer = trial.client.exchange(&SUBMIT_TRANSFER.uri(&[]), body, &[])?;
        let is_refused = answer.status.is_client_error();
        if answer.status.is_success() != is_sound || is_refused == is_sound {
            return failed(format!("{source} to {target}: status {}", answer.status));
        }
    }
    trial.scratch.link("link", "/")?;
    // A refusal at once is as good as one when the store is looked at.
    match trial.submit(&trial.request("link/etc", "escaped", sound)) {
        Ok(view) => {
            let view = trial.ended(view.id)?;
            if view.state == TransferState::Done || view.progress.bytes > 0 {
                return failed("files behind a link to `/` were moved");
            }
        }
        Err(error) if exit::code_of(&error) == ExitCode::Temporary => return Err(error),
        Err(_) => {}
    }
    match trial.scratch.root().join("escaped/passwd").exists() {
        true => failed("a file of `/etc` has come into the store"),
        false => passed("two paths and a link were refused"),
    }
}

fn empty_source(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    trial.moved("set", "kept", TransferOptions::default())?;
    trial.scratch.directory("nothing")?;
    let update = UpdateOptions {
        sync: true,
        delete: true,
        max_delete: Some(u64::MAX),
        ..Default::default()
    };
    let options = TransferOptions { update, ..Default::default() };
    let view = trial.submit(&trial.request("nothing", "kept", options))?;
    let view = trial.ended(view.id)?;
    match (wrong_copy(trial, "kept")?, view.state) {
        (Some(wrong), _) => failed(format!("it was deleted: {wrong}")),
        (None, TransferState::Done) => failed("nothing was deleted, and the transfer is done"),
        (None, _) => passed(view.reason),
    }
}

fn stranger(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    let status: StatusView = trial.client.get(&SHOW_STATUS.uri(&[]))?;
    let mut address = status.listen;
    if address.ip().is_unspecified() {
        let here = if address.is_ipv4() { "127.0.0.1" } else { "::1" };
        address.set_ip(here.parse()?);
    }
    let config = introduction_config()?;
    let path = format!("/site/v1/transfers/{}", TransferId(rand::random()));
    let talk = async {
        let tcp = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let name = ServerName::from(address.ip());
        let tls = TlsConnector::from(config).connect(name, tcp).await;
        let tls = tls.map_err(|error| error.to_string())?;
        let reply = http::exchange(tls, Method::GET, &path, None, ("penstock", &[])).await;
        let reply = reply.map_err(|problem| problem.to_string())?;
        let status = reply.status();
        let body = http::read(reply).await.map_err(|problem| problem.to_string())?;
        Ok((status, http::problem_of(status.as_u16(), &body)))
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let told = runtime.block_on(async { tokio::time::timeout(REFUSAL_DEADLINE, talk).await });
    let told: Result<_, String> = match told {
        Ok(told) => told,
        Err(_) => return failed(format!("{address} has not refused the connection in time")),
    };
    match told {
        Err(why) => not_run(format!("{address} cannot be asked: {why}")),
        Ok((_, problem)) if problem.code == ProblemCode::NotAuthorised => {
            passed(format!("refused: {}", problem.title))
        }
        Ok((status, problem)) => failed(format!("answered with {status}: {}", problem.title)),
    }
}

fn slow() -> TransferOptions {
    let limits = Limits { rate_bits_per_s: Some(SLOW_BITS_PER_S), ..Default::default() };
    TransferOptions { limits, piece_bytes: MIB, ..Default::default() }
}

/// Begins a slow transfer, and returns when some of it has come: more than is in hand at a time.
fn under_way(trial: &Trial<'_>, to: &str) -> anyhow::Result<TransferView> {
    let view = trial.submit(&trial.request("set", to, slow()))?;
    trial.until(view.id, |view| view.progress.bytes_verified > 8 * MIB)
}

/// Takes the limit away and waits for the end.
fn hurried(trial: &Trial<'_>, id: TransferId) -> anyhow::Result<TransferView> {
    let patch = TransferPatch { limits: Some(None), ..Default::default() };
    let _: TransferView = trial.client.post(&CHANGE_TRANSFER.uri(&[&id]), &patch)?;
    trial.until(id, |view| view.state == TransferState::Done)
}

fn pause(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    let view = under_way(trial, "paused")?;
    let _: TransferView = trial.client.post(&PAUSE_TRANSFER.uri(&[&view.id]), &())?;
    trial.until(view.id, |view| view.state == TransferState::Paused)?;
    let _: TransferView = trial.client.post(&RESUME_TRANSFER.uri(&[&view.id]), &())?;
    let view = hurried(trial, view.id)?;
    match wrong_copy(trial, "paused")? {
        Some(wrong) => failed(format!("after the pause {wrong}")),
        None if view.progress.bytes_resumed == 0 => failed("nothing of before the pause was kept"),
        None => passed(format!("{} were kept", format_bytes(view.progress.bytes_resumed))),
    }
}

fn full_store(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    let store: StoreDetails = trial.client.get(&SHOW_STORE.uri(&[&trial.store]))?;
    let Some(space) = store.space else { return not_run("the store does not tell its room") };
    if !(64 * MIB..FILL_BYTES_MAX).contains(&space.free_bytes) {
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
    let fill = |bytes: u64| {
        let how = rustix::fs::FallocateFlags::empty();
        rustix::fs::fallocate(&filler, how, 0, bytes)
    };
    if let Err(error) = fill(space.free_bytes - LEFT_BYTES) {
        return not_run(format!("the store cannot be filled up: {error}"));
    }
    let view = trial.submit(&trial.request("set", "full", TransferOptions::default()))?;
    let waits = |view: &TransferView| view.waiting.as_ref().is_some_and(|it| it.code == "room");
    let waiting = trial.until(view.id, waits)?;
    filler.set_len(0)?;
    trial.until(view.id, |view| view.state == TransferState::Done)?;
    match wrong_copy(trial, "full")? {
        Some(wrong) => failed(format!("when there was room again {wrong}")),
        None => passed(waiting.reason),
    }
}

fn killed_daemon(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    let Some(kill) = trial.kill else { return not_run("it needs --kill COMMAND") };
    let pid = |trial: &Trial<'_>| -> anyhow::Result<u32> {
        Ok(trial.client.get::<StatusView>(&SHOW_STATUS.uri(&[]))?.pid)
    };
    let earlier = pid(trial)?;
    let view = under_way(trial, "killed")?;
    let come = view.progress.bytes_resumed + view.progress.bytes_verified;
    let mut command = Command::new("sh");
    command.arg("-c").arg(kill).stdin(Stdio::null()).stdout(Stdio::null());
    // A Ctrl-C does not end the command between the kill and the start.
    let status = command.process_group(0).status()?;
    if !status.success() {
        if pid(trial).ok() != Some(earlier) {
            return failed(format!("the command of --kill ended with {status}: see to the daemon"));
        }
        return not_run(format!("the command of --kill ended with {status}"));
    }
    trial.until(view.id, |view| view.state == TransferState::Running)?;
    if pid(trial)? == earlier {
        return not_run("the daemon that was asked is still the same process");
    }
    let view = hurried(trial, view.id)?;
    if let Some(wrong) = wrong_copy(trial, "killed")? {
        return failed(format!("after the kill {wrong}"));
    }
    if view.progress.bytes_resumed == 0 {
        return failed("nothing of before the kill was kept");
    }
    let again = come.saturating_sub(view.progress.bytes_resumed) + view.progress.bytes_resent;
    let text = format!("{} were sent again", format_bytes(again));
    if again > AGAIN_BYTES_MAX { failed(text) } else { passed(text) }
}
