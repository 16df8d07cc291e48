//! What is known of hosts, stores and settings when a sweep runs.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use penstock_api::benchmark::{Benchmark, BenchmarkList, BenchmarkRequest, BenchmarkState};
use penstock_api::endpoints::{
    END_BENCHMARK, EXAMINE_HOST, EndpointUri, LIST_BENCHMARKS, LIST_PEERS, SHOW_HEALTH, SHOW_PATHS,
    SHOW_SETTINGS, SHOW_STATISTICS, SHOW_STATUS, SHOW_STORE, START_BENCHMARK,
};
use penstock_api::paths::PathsView;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::statistics::{PeerHistory, SiteStatistics};
use penstock_api::timestamp::Timestamp;
use penstock_daemon::http;
use penstock_exit::{self as exit, ExitCode, Failure, exit_code, failure};
use penstock_proto::id::{Name, TransferId};
use serde_json::{Value, json};

use super::ends::{End, Ends};
use super::matrix::StorageWish;
use super::run_directory::RunDirectory;
use crate::client::{Answer, Client};
use crate::commands::bench::benchmark as running;
use crate::commands::bench::interruption::Interruption;
use crate::commands::bench::mover::{now, patiently};
use crate::commands::transfer::measured::usable;

/// Time for all peers to look at a store.
const LONG: Duration = Duration::from_secs(1800);
/// Interval at which a benchmark that runs is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// Time for the transfers of a store to end before it is measured.
const USE_PATIENCE: Duration = Duration::from_secs(60);
/// Wait before a benchmark that has failed is begun again: its daemon may be about to end.
const BEGIN_AGAIN: Duration = Duration::from_secs(5);

/// Returns the facts of both sites. What a daemon does not tell is listed as missing.
pub(super) fn facts(ends: &Ends) -> Value {
    let mut sites: Vec<&Name> = vec![&ends.source.site];
    if ends.target.site != ends.source.site {
        sites.push(&ends.target.site);
    }
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = penstock_sys::host_memory().map(|memory| memory.total_bytes).ok();
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    let of = |site: &&Name| match ends.clients.get(*site) {
        Some(client) => site_facts(ends, site, client),
        None => json!({
            "site": site, "asked": false, "penstock": null, "peers": [],
            "stores": stores_of(ends, site), "settings": [], "findings": [],
            "missing": ["no daemon of the site is named in [daemons]"],
        }),
    };
    json!({
        "taken": now(),
        "host": {"name": name, "kernel": kernel, "processors": processors, "memory_bytes": memory},
        "sites": sites.iter().map(of).collect::<Vec<_>>(),
        "paths": paths(ends).ok().and_then(|paths| serde_json::to_value(paths).ok()),
    })
}

/// Asks, and records what is not answered.
struct Asking<'a> {
    client: &'a Client,
    missing: Vec<String>,
}

impl Asking<'_> {
    fn ask(&mut self, uri: &EndpointUri) -> Value {
        match self.client.get(uri) {
            Ok(value) => value,
            Err(error) => {
                self.missing.push(format!("{}: {error:#}", uri.as_str()));
                Value::Null
            }
        }
    }
}

fn site_facts(ends: &Ends, site: &Name, client: &Client) -> Value {
    let mut asking = Asking { client, missing: Vec::new() };
    let status = asking.ask(&SHOW_STATUS.uri(&[]));
    let peers = asking.ask(&LIST_PEERS.uri(&[]));
    let mut settings = asking.ask(&SHOW_SETTINGS.uri(&[]));
    let mut findings = asking.ask(&EXAMINE_HOST.uri(&[]));
    let health = asking.ask(&SHOW_HEALTH.uri(&[]));
    let stores = ends_of(ends, site).into_iter().map(|end| {
        let details = asking.ask(&SHOW_STORE.uri(&[&end.store]));
        let kept = newest(ends, end);
        json!({
            "name": end.store,
            "place": details["store"]["place"],
            "space": details["space"],
            "file_system": kept.map(|kept| kept.file_system),
        })
    });
    let stores: Vec<Value> = stores.collect();
    json!({
        "site": site,
        "asked": *site == ends.own,
        "penstock": status["version"],
        "peers": peers["peers"],
        "stores": stores,
        "settings": settings["settings"].take(),
        "findings": findings["items"].take(),
        "health": health,
        "missing": asking.missing,
    })
}

fn ends_of<'a>(ends: &'a Ends, site: &Name) -> Vec<&'a End> {
    let mut found: Vec<&End> = Vec::new();
    for end in [&ends.source, &ends.target] {
        if end.site == *site && !found.iter().any(|known| known.store == end.store) {
            found.push(end);
        }
    }
    found
}

fn stores_of(ends: &Ends, site: &Name) -> Vec<Value> {
    let stores = ends_of(ends, site).into_iter();
    stores.map(|end| json!({"name": end.store, "space": end.space})).collect()
}

fn paths(ends: &Ends) -> anyhow::Result<Option<PathsView>> {
    let other = [&ends.source, &ends.target].into_iter().find(|end| end.site != ends.own);
    let Some(other) = other else { return Ok(None) };
    ends.client()?.get(&SHOW_PATHS.uri(&[&other.site])).map(Some)
}

/// Returns the least round trip between the sites just now in milliseconds; none if it is not
/// known, or within one site.
pub(super) fn round_trip_ms(ends: &Ends) -> Option<f64> {
    least_round_trip_ms(&paths(ends).ok()??)
}

fn least_round_trip_ms(paths: &PathsView) -> Option<f64> {
    let all = paths.outward.iter().chain(&paths.inward);
    let reached: Vec<_> = all.filter(|path| path.reachable).collect();
    let now = reached.iter().filter_map(|path| path.rtt_now_us).min();
    // Daemons of earlier releases only tell the least that each path ever had.
    let least = now.or_else(|| reached.iter().filter_map(|path| path.rtt_us).min())?;
    Some(least as f64 / 1000.0)
}

/// Returns the use of processors at all peers that can be asked, over the last seconds, by site.
/// All sites are asked at once, so that they count the same time.
pub(super) fn use_of_processors(ends: &Ends, seconds: u64) -> BTreeMap<Name, Vec<PeerHistory>> {
    let since = Timestamp::of_ms(now().ms().saturating_sub(seconds * 1000));
    let uri = SHOW_STATISTICS.uri(&[]).query("columns", "cpu_busy_percent").query("since", since);
    let ask = |client: &Client| {
        let seen: anyhow::Result<SiteStatistics> = client.get(&uri);
        seen.map(|seen| seen.peers).unwrap_or_default()
    };
    thread::scope(|scope| {
        let clients = ends.clients.iter();
        let asked = clients.map(|(site, client)| (site, scope.spawn(move || ask(client))));
        let asked: Vec<_> = asked.collect();
        let answers = asked.into_iter().map(|(site, asked)| {
            (site.clone(), asked.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        answers.collect()
    })
}

/// Returns the results that the site of an end keeps of its store; none where no daemon is asked.
pub(super) fn kept(ends: &Ends, end: &End) -> Option<BenchmarkList> {
    ends.clients.get(&end.site)?.get(&LIST_BENCHMARKS.uri(&[&end.store])).ok()
}

/// Returns the newest result of a store that says what the store can do.
pub(super) fn newest(ends: &Ends, end: &End) -> Option<Benchmark> {
    usable(&kept(ends, end)?.items).cloned()
}

fn storage_ends(ends: &Ends) -> Vec<&End> {
    let (source, target) = (&ends.source, &ends.target);
    let is_one = source.site == target.site && source.store == target.store;
    if is_one { vec![source] } else { vec![source, target] }
}

/// Writes the results that both sites keep of their stores.
///
/// # Errors
/// The run directory cannot be written.
pub(super) fn write_kept(ends: &Ends, run: &RunDirectory) -> anyhow::Result<()> {
    for end in storage_ends(ends) {
        if let Some(list) = kept(ends, end) {
            run.write_json(&format!("storage/{}-{}.json", end.site, end.store), &list)?;
        }
    }
    Ok(())
}

/// Returns whether [`measure`] has anything to do.
pub(super) fn is_to_measure(ends: &Ends, run: &RunDirectory, when: &str) -> bool {
    let asked = |end: &&End| ends.clients.contains_key(&end.site);
    storage_ends(ends).into_iter().filter(asked).any(|end| !run.has(&result_name(end, when)))
}

/// Returns the place of a result in the run directory.
fn result_name(end: &End, when: &str) -> String {
    format!("storage/{}-{}.{when}.json", end.site, end.store)
}

/// Measures both stores, unless that is done, and writes the results; `when` is a part of their
/// names.
///
/// # Errors
/// A daemon refuses, or the benchmark failed; exit 130.
pub(super) fn measure(
    ends: &Ends,
    run: &RunDirectory,
    wish: &StorageWish,
    when: &str,
    interruption: &Interruption,
) -> anyhow::Result<()> {
    for end in storage_ends(ends) {
        let name = result_name(end, when);
        let Some(client) = ends.clients.get(&end.site) else {
            let (site, store) = (&end.site, &end.store);
            exit::warn(&format!("store {store} of {site} is not measured: no daemon is named"));
            continue;
        };
        if !run.has(&name) {
            exit::warn(&format!("measuring store {} of {}", end.store, end.site));
            run.write_json(&name, &benchmark(client, end, wish, interruption)?)?;
        }
    }
    Ok(())
}

/// Runs a benchmark. One that fails, or that a restart of the daemon has ended, is begun again
/// once.
///
/// # Errors
/// A daemon refuses, or does not answer for ten minutes; the benchmark failed twice, or was
/// cancelled; exit 130.
fn benchmark(
    client: &Client,
    end: &End,
    wish: &StorageWish,
    interruption: &Interruption,
) -> anyhow::Result<Benchmark> {
    let request = BenchmarkRequest {
        path: end.dir.clone(),
        seconds: Some(wish.seconds),
        repeats: Some(wish.repeats),
        sizes: wish.sizes.bytes().to_vec(),
        ..BenchmarkRequest::default()
    };
    let mut is_again = false;
    loop {
        let started = start(client, end, &request, interruption)?;
        let failed = match ended(client, end, started.id, interruption)? {
            Some(ended) if ended.state == BenchmarkState::Done => return Ok(ended),
            Some(ended) => failure_of(end, &ended),
            None => running::gone(),
        };
        let failed = anyhow::Error::from(failed);
        if exit::code_of(&failed) != ExitCode::Temporary || is_again {
            return Err(failed);
        }
        exit::warn(&format!("{failed:#}: it is begun again"));
        is_again = true;
        interruption.sleep(BEGIN_AGAIN)?;
    }
}

/// Returns the failure of a benchmark that has ended, and is not done.
fn failure_of(end: &End, ended: &Benchmark) -> Failure {
    let (store, site) = (&end.store, &end.site);
    let (code, how) = match ended.state {
        BenchmarkState::Cancelled => (ExitCode::Refused, "was cancelled"),
        _ => (ExitCode::Temporary, "failed"),
    };
    let failure = Failure::new(code, format!("the benchmark of store `{store}` of `{site}` {how}"))
        .hint("the same command measures the store again");
    match &ended.problem {
        Some(why) => failure.caused_by(why.clone()),
        None => failure,
    }
}

/// Waits for the end of a benchmark, also through a restart of its daemon; returns none if the site
/// does not know it any more. One that is interrupted is ended.
fn ended(
    client: &Client,
    end: &End,
    id: TransferId,
    interruption: &Interruption,
) -> anyhow::Result<Option<Benchmark>> {
    let wait = |time: Duration| {
        interruption.sleep(time).inspect_err(|_| {
            if let Err(error) = client.delete(&END_BENCHMARK.uri(&[&end.store, &id])) {
                exit::warn(&format!("the benchmark of store {} continues: {error:#}", end.store));
            }
        })
    };
    loop {
        match patiently(wait, || running::look(client, &end.store, id))? {
            Some(found) if found.state == BenchmarkState::Running => wait(LOOK)?,
            ended => return Ok(ended),
        }
    }
}

/// Starts a benchmark. A store that a transfer uses is asked for again, since the last one of the
/// sweep may still end there.
///
/// # Errors
/// A daemon refuses, or does not answer for ten minutes; exit 130.
fn start(
    client: &Client,
    end: &End,
    request: &BenchmarkRequest,
    interruption: &Interruption,
) -> anyhow::Result<Benchmark> {
    let uri = START_BENCHMARK.uri(&[&end.store]);
    let give_up = Instant::now() + USE_PATIENCE;
    let body = http::encode(request).map_err(failure)?;
    let ask = || -> anyhow::Result<Answer> {
        let answer = client.exchange_within(&uri, Some(body.clone()), &[], LONG)?;
        match answer.problem() {
            Some(problem) if exit_code(problem.exit) == ExitCode::Temporary => {
                Err(failure(problem).into())
            }
            _ => Ok(answer),
        }
    };
    let mut is_told = false;
    loop {
        let answer = patiently(|time| interruption.sleep(time), &ask)?;
        let is_in_use = |problem: Problem| problem.code == ProblemCode::StoreInUse;
        if !answer.problem().is_some_and(is_in_use) || Instant::now() >= give_up {
            return answer.object();
        }
        if !std::mem::replace(&mut is_told, true) {
            let (seconds, store) = (USE_PATIENCE.as_secs(), &end.store);
            exit::warn(&format!("a transfer uses store {store}: waiting for {seconds} s at most"));
        }
        interruption.sleep(LOOK)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the round trip of a cell is that of the moment, over the nearest path that was
    /// reached. The least that a daemon has ever seen counts only where nothing newer is told.
    #[test]
    fn round_trips_are_those_of_now() {
        let path = |reachable: bool, least: u64, now: Option<u64>| {
            json!({
                "peer": "dtn1", "to_peer": "dtn1", "from": "", "to": "10.0.0.1:7444", "network": "",
                "reachable": reachable, "why": "", "rtt_us": least, "rtt_now_us": now,
                "rate_bits_per_s": null, "state": "untried", "since": 0, "last_failure": "",
            })
        };
        let least = |outward: Value, inward: Value| {
            let paths =
                json!({"site": "lab", "outward": outward, "inward": inward, "inward_problem": ""});
            least_round_trip_ms(&serde_json::from_value(paths).unwrap())
        };
        let longer = path(true, 1_000, Some(90_000));
        assert_eq!(least(json!([longer]), json!([path(true, 2_000, Some(91_000))])), Some(90.0));
        assert_eq!(least(json!([path(true, 3_000, None)]), json!([longer])), Some(90.0));
        assert_eq!(least(json!([path(true, 3_000, None)]), json!([])), Some(3.0));
        assert_eq!(least(json!([path(false, 10, None), longer]), json!([])), Some(90.0));
        assert_eq!(least(json!([path(false, 10, None)]), json!([])), None);
    }
}
