//! Benchmarks of stores: started by an operator, run by all peers of a store together, kept by the
//! site.
//!
//! The controller starts one, and a thread of its sends each order of the course to all peers at
//! once ([`run`]). If it dies, the peers end their part after two minutes; if it is deposed, it
//! ends the benchmark itself. One benchmark runs at a site at a time: two would measure each other.
//!
//! | module | duty |
//! |---|---|
//! | `run` | the thread of a benchmark: orders, replies, points |
//! | `peers` | the peers that take part, and requests to them |
//! | `load` | transfers that use the store meanwhile, and its room |
//! | `results` | the results that the site keeps, and their validity |
//! | `routes` | the route for requests between peers |

mod load;
mod peers;
mod results;
mod routes;
mod run;

use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use penstock_api::access::Principal;
use penstock_api::benchmark::{
    BENCHMARK_POINTS_MAX, BENCHMARK_REPEATS_MAX, BENCHMARK_SECONDS_MAX, BENCHMARK_SIZES_MAX,
    BENCHMARK_THREADS_MAX, Benchmark, BenchmarkCleaned, BenchmarkCleanup, BenchmarkKind,
    BenchmarkList, BenchmarkRequest, BenchmarkState,
};
use penstock_api::place::PathText;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rpc::benchmark::{
    BenchmarkFacts, BenchmarkOrder, BenchmarkPlace, BenchmarkReply,
};
use penstock_api::timestamp::Timestamp;
use penstock_engine::benchmark::{BenchmarkPlan, PlanRequest, default_budget};
use penstock_peer::BenchmarkHost;
use penstock_proto::id::{Name, TransferId};
use penstock_proto::name::check_relative;

use super::Operate;
use crate::events::log::now_ms;
use load::{check_room, free_bytes, is_in_use, look, no_room};
use peers::{LOOK_LIMIT, ask_each, is_known, leave_out, participants, unknown};
use run::{Run, Stop};

/// Time for which a step grants further files unless a request sets another, in seconds.
const SECONDS: u32 = 10;
/// Repeats of each step unless a request sets another number.
const REPEATS: u32 = 3;

/// Benchmarks of the site.
pub(crate) struct Benchmarks {
    operate: Arc<Operate>,
    host: Arc<BenchmarkHost>,
    running: Mutex<Option<Arc<Run>>>,
    ended: Condvar,
    /// Held while a benchmark is started, or the remains of others are removed.
    starting: Mutex<()>,
}

impl Benchmarks {
    /// Creates the part of this peer, and removes files that an earlier process has left.
    pub(crate) fn new(operate: Arc<Operate>) -> Self {
        let site = &operate.site;
        let records = site.directory.join("benchmarks");
        let target = Arc::clone(&operate.target);
        let host = Arc::new(BenchmarkHost::new(target, site.config.peer.clone(), records));
        host.recover();
        let (running, ended, starting) = Default::default();
        Self { operate, host, running, ended, starting }
    }

    fn running(&self) -> Option<Arc<Run>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts a benchmark. Blocks until all peers have looked at the store.
    ///
    /// # Errors
    /// `request`; `store-unknown`, `store-in-use`, `benchmark-running`, `benchmark-room`; those of
    /// a store that a peer cannot use; `not-controller`.
    pub(crate) fn start(
        self: &Arc<Self>,
        store: &Name,
        request: &BenchmarkRequest,
        caller: &Principal,
    ) -> Result<Benchmark, Problem> {
        check(request)?;
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = self.running() {
            let other = run.view();
            let title = format!("benchmark {} of store `{}` runs", other.id.short(), other.store);
            return Err(Problem::new(ProblemCode::BenchmarkRunning, title));
        }
        let with_load = is_in_use(&self.operate, store, None)?;
        if with_load && !request.with_load {
            let title = format!("a transfer reads from store `{store}` or writes to it");
            return Err(Problem::new(ProblemCode::StoreInUse, title));
        }
        let place = BenchmarkPlace {
            store: store.clone(),
            path: request.path.clone(),
            account: caller.account.clone(),
        };
        let mut participants = participants(&self.operate, store)?;
        let peers_left_out = leave_out(&mut participants, store, request.peers)?;
        let facts = look((&self.operate, &self.host), &participants, &place)?;
        let (plan, budget_bytes) = plan(request, store, &facts)?;
        for (participant, facts) in participants.iter_mut().zip(&facts) {
            participant.view = facts.peer.clone();
        }
        let file_system = facts.into_iter().next().map(|facts| facts.file_system);
        let view = Benchmark {
            id: TransferId(rand::random()),
            store: store.clone(),
            path: request.path.clone(),
            state: BenchmarkState::Running,
            user: caller.user.to_string(),
            began: Timestamp::of_ms(now_ms()),
            ended: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            steps_done: 0,
            steps: plan.steps.len() as u32,
            step: "preparing".to_owned(),
            seconds: request.seconds.unwrap_or(SECONDS),
            repeats: request.repeats.unwrap_or(REPEATS),
            budget_bytes,
            with_load,
            peers: participants.iter().map(|participant| participant.view.clone()).collect(),
            threads_asked: distinct(&request.threads),
            peers_left_out,
            file_system: file_system.unwrap_or_default(),
            left_out: plan.left_out,
            unread: Vec::new(),
            points: Vec::new(),
            problem: None,
            stale: None,
        };
        let drops = request.drop_caches;
        self.launch(Run::new(view.clone(), (place, participants), plan.steps, drops))?;
        Ok(view)
    }

    /// Starts the thread that runs a benchmark and keeps its result.
    fn launch(self: &Arc<Self>, run: Run) -> Result<(), Problem> {
        let run = Arc::new(run);
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&run));
        let its = Arc::clone(self);
        let spawned = std::thread::Builder::new().name("benchmark".to_owned()).spawn(move || {
            run.run(&its.operate, &its.host);
            its.keep(&run.view());
            *its.running.lock().unwrap_or_else(PoisonError::into_inner) = None;
            its.ended.notify_all();
        });
        spawned.map(drop).map_err(|error| {
            *self.running.lock().unwrap_or_else(PoisonError::into_inner) = None;
            Problem::no_thread(&error)
        })
    }

    /// Ends a benchmark that runs, or removes a result. Does not wait for the end.
    ///
    /// # Errors
    /// `benchmark-unknown`; `not-controller`; the state cannot be written.
    pub(crate) fn end(&self, store: &Name, id: TransferId) -> Result<(), Problem> {
        let is_it = |run: &Arc<Run>| {
            let view = run.view();
            view.id == id && view.store == *store
        };
        if let Some(run) = self.running().filter(is_it) {
            run.stop(Stop::ByUser, (&self.operate, &self.host));
            return Ok(());
        }
        self.forget(store, id)
    }

    /// Ends the benchmark that runs, and the part of this peer in one. Blocks for `most` at most:
    /// files that stay are removed when the daemon starts.
    pub(crate) fn shut_down(self: &Arc<Self>, most: Duration) {
        let its = Arc::clone(self);
        let (ended, ends) = channel();
        let ending = std::thread::Builder::new().name("benchmark".to_owned()).spawn(move || {
            if let Some(run) = its.running() {
                let title = "the daemon of the controller was stopped";
                let why = Problem::new(ProblemCode::Stopped, title);
                run.stop(Stop::Because(why), (&its.operate, &its.host));
            }
            let mut running = its.running.lock().unwrap_or_else(PoisonError::into_inner);
            while running.is_some() {
                running = its.ended.wait(running).unwrap_or_else(PoisonError::into_inner);
            }
            drop(running);
            its.host.shut_down();
            // The receiver is gone if the result is too late.
            let _ = ended.send(());
        });
        if ending.is_err() || ends.recv_timeout(most).is_err() {
            tracing::warn!("a benchmark has not ended in time: its files are removed at the start");
        }
    }

    /// Returns the benchmark of a store that runs, and the results, newest first. Blocks for a look
    /// at the store.
    ///
    /// # Errors
    /// `store-unknown`, `store-elsewhere`; `not-controller`; the state cannot be read.
    pub(crate) fn list(&self, store: &Name) -> Result<BenchmarkList, Problem> {
        let running = self.running().map(|run| run.view()).filter(|view| view.store == *store);
        let mut items: Vec<Benchmark> = running.into_iter().collect();
        let id = items.first().map(|view| view.id);
        let kept = self.results(store)?.into_iter().rev();
        items.extend(kept.filter(|result| Some(result.id) != id));
        if items.is_empty() && !is_known(&self.operate, store) {
            return Err(unknown(&self.operate, store));
        }
        Ok(BenchmarkList { items })
    }

    /// Removes files that interrupted benchmarks have left in a directory of a store, on all peers.
    /// A benchmark in which any peer of this site takes part is spared.
    ///
    /// # Errors
    /// `benchmark-running`; those of a store that a peer cannot use.
    pub(crate) fn clean(
        &self,
        store: &Name,
        cleanup: &BenchmarkCleanup,
        caller: &Principal,
    ) -> Result<BenchmarkCleaned, Problem> {
        check_path(&cleanup.path)?;
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = self.running().filter(|run| run.view().store == *store) {
            let title = format!("benchmark {} of store `{store}` runs", run.view().id.short());
            return Err(Problem::new(ProblemCode::BenchmarkRunning, title));
        }
        let path = cleanup.path.clone();
        let place = BenchmarkPlace { store: store.clone(), path, account: caller.account.clone() };
        let participants = participants(&self.operate, store)?;
        let asks = (&*self.operate, &self.host);
        // An earlier controller may still drive one.
        let orders = participants.iter().map(|_| BenchmarkOrder::Present).collect();
        let mut spared = Vec::new();
        for reply in ask_each(asks, &participants, orders, LOOK_LIMIT) {
            if let BenchmarkReply::Present(present) = reply? {
                spared.extend(present);
            }
        }
        let mut cleaned = BenchmarkCleaned::default();
        // One after the other: each removes the files that those before have left.
        for participant in &participants {
            let order = BenchmarkOrder::Clean(place.clone(), spared.clone());
            let limit = peers::STEP_LIMIT;
            let reply = participant.ask(&self.operate, &self.host, order, limit)?;
            if let BenchmarkReply::Cleaned(more) = reply {
                cleaned.files += more.files;
                cleaned.directories += more.directories;
            }
        }
        Ok(cleaned)
    }
}

/// Checks the numbers of a request.
fn check(request: &BenchmarkRequest) -> Result<(), Problem> {
    let wrong = |title: String, at: &str| Problem::new(ProblemCode::Request, title).at(at);
    check_path(&request.path)?;
    let bounds = [
        ("seconds", request.seconds, BENCHMARK_SECONDS_MAX),
        ("repeats", request.repeats, BENCHMARK_REPEATS_MAX),
        ("peers", request.peers, u32::MAX),
    ];
    for (name, value, most) in bounds {
        if value.is_some_and(|value| value == 0 || value > most) {
            return Err(wrong(format!("`{name}` is a number from 1 to {most}"), name));
        }
    }
    let is_wrong = |threads: &u32| !(1..=BENCHMARK_THREADS_MAX).contains(threads);
    if request.threads.iter().any(is_wrong) {
        let title = format!("`threads` are numbers from 1 to {BENCHMARK_THREADS_MAX}");
        return Err(wrong(title, "threads"));
    }
    if request.sizes.len() > BENCHMARK_SIZES_MAX {
        let title = format!("at most {BENCHMARK_SIZES_MAX} sizes can be measured at a time");
        return Err(wrong(title, "sizes"));
    }
    if request.sizes.contains(&0) {
        return Err(wrong("a size is at least 1 byte".to_owned(), "sizes"));
    }
    Ok(())
}

/// Returns numbers in ascending order, each once.
fn distinct(numbers: &[u32]) -> Vec<u32> {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn check_path(path: &PathText) -> Result<(), Problem> {
    check_relative(&path.0).map_err(|_| {
        let title = format!("`{path}` is not a path within a store");
        Problem::new(ProblemCode::Request, title).at("path")
    })
}

/// Returns the steps of a benchmark, and the bytes that its files may take.
fn plan(
    request: &BenchmarkRequest,
    store: &Name,
    facts: &[BenchmarkFacts],
) -> Result<(BenchmarkPlan, u64), Problem> {
    let free = free_bytes(facts);
    let budget_bytes = request.budget_bytes.unwrap_or_else(|| default_budget(free));
    check_room(store, free, budget_bytes)?;
    let repeats = request.repeats.unwrap_or(REPEATS).max(1);
    let measures = |kind| request.operations.is_empty() || request.operations.contains(&kind);
    let plan = BenchmarkPlan::new(&PlanRequest {
        write: measures(BenchmarkKind::Write),
        read: measures(BenchmarkKind::Read),
        metadata: measures(BenchmarkKind::Meta),
        sizes: &request.sizes,
        threads: &request.threads,
        budget_bytes,
        free_files: facts.iter().filter_map(|facts| facts.file_system.free_files).min(),
        peers: facts.len() as u32,
        repeats,
    });
    let plan = plan.map_err(|error| no_room(store).because(error))?;
    let points = plan.steps.len() / repeats as usize;
    if points > BENCHMARK_POINTS_MAX {
        let title = format!("a benchmark has at most {BENCHMARK_POINTS_MAX} points, not {points}");
        let problem = Problem::new(ProblemCode::Request, title).at("threads");
        return Err(problem.hint("give fewer numbers of threads, or fewer sizes"));
    }
    Ok((plan, budget_bytes))
}

#[cfg(test)]
mod tests {
    use penstock_api::benchmark::{BenchmarkFileSystem, BenchmarkPeer};

    use super::*;

    /// Returns a benchmark without points.
    pub(super) fn benchmark() -> Benchmark {
        Benchmark {
            id: TransferId([7; 16]),
            store: "data".parse().unwrap(),
            path: PathText::default(),
            state: BenchmarkState::Running,
            user: "root".to_owned(),
            began: Timestamp::of_seconds(1),
            ended: None,
            version: String::new(),
            steps_done: 0,
            steps: 3,
            step: String::new(),
            seconds: 10,
            repeats: 3,
            budget_bytes: 1 << 30,
            with_load: false,
            peers: Vec::new(),
            threads_asked: Vec::new(),
            peers_left_out: 0,
            file_system: BenchmarkFileSystem::default(),
            left_out: Vec::new(),
            unread: Vec::new(),
            points: Vec::new(),
            problem: None,
            stale: None,
        }
    }

    fn facts(free_bytes: u64) -> BenchmarkFacts {
        BenchmarkFacts {
            peer: BenchmarkPeer {
                peer: "h1".parse().unwrap(),
                processors: 2,
                memory_bytes: 1 << 30,
                threads: 0,
                caches_kept: None,
                devices: Vec::new(),
            },
            file_system: BenchmarkFileSystem { free_bytes, ..BenchmarkFileSystem::default() },
        }
    }

    /// Promise: a benchmark that could fill its store is refused with the numbers, and a request
    /// that makes no sense with the name of its field.
    #[test]
    fn requests_are_checked() {
        let store = "data".parse().unwrap();
        let asks = |budget_bytes| BenchmarkRequest { budget_bytes, ..BenchmarkRequest::default() };
        let refused = plan(&asks(Some(1 << 30)), &store, &[facts(1 << 40), facts(1 << 30)]);
        let refused = refused.unwrap_err();
        assert_eq!(refused.code, ProblemCode::BenchmarkRoom);
        assert!(refused.detail.contains("1.2 times"), "{}", refused.detail);
        let (plan, budget) = plan(&asks(None), &store, &[facts(1 << 40)]).unwrap();
        assert_eq!((budget, plan.left_out.len()), ((1 << 40) / 20, 0));
        let threads = (1..=64).collect();
        let many = BenchmarkRequest { threads, ..BenchmarkRequest::default() };
        let refused = super::plan(&many, &store, &[facts(1 << 40)]).unwrap_err();
        assert!(refused.title.contains("at most 160 points, not 1088"), "{}", refused.title);
        for wrong in [
            BenchmarkRequest { seconds: Some(0), ..BenchmarkRequest::default() },
            BenchmarkRequest { threads: vec![1, 0], ..BenchmarkRequest::default() },
            BenchmarkRequest { threads: vec![257], ..BenchmarkRequest::default() },
            BenchmarkRequest { repeats: Some(999), ..BenchmarkRequest::default() },
            BenchmarkRequest { sizes: vec![4096, 0], ..BenchmarkRequest::default() },
            BenchmarkRequest { path: PathText(b"../x".to_vec()), ..BenchmarkRequest::default() },
        ] {
            assert_eq!(check(&wrong).unwrap_err().code, ProblemCode::Request);
        }
        check(&BenchmarkRequest::default()).unwrap();
    }
}
