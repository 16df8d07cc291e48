//! The thread of a benchmark: it sends orders to the peers, and makes points of their replies.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use penstock_api::benchmark::{
    BENCHMARK_TRAFFIC_MAX, Benchmark, BenchmarkPeer, BenchmarkPoint, BenchmarkRate, BenchmarkRun,
    BenchmarkState, BenchmarkTraffic,
};
use penstock_api::fence::not_controller;
use penstock_api::problem::Problem;
use penstock_api::rpc::benchmark::{
    BenchmarkOrder, BenchmarkPart, BenchmarkPlace, BenchmarkReply, BenchmarkStep, BenchmarkTimes,
    DeviceTraffic,
};
use penstock_api::timestamp::Timestamp;
use penstock_engine::benchmark::{
    Course, CourseOrder, Measured, Passes, PeerTimes, PlanStep, StepTimes, Summary, marks,
    summarize,
};
use penstock_peer::BenchmarkHost;
use penstock_proto::benchmark::{BenchmarkOperation, CacheState};
use penstock_proto::units::{counted, format_bytes};

use super::super::Operate;
use super::load::{check_room, free_bytes, is_in_use, look};
use super::peers::{CANCEL_LIMIT, LOOK_LIMIT, Participant, STEP_LIMIT, ask_each, misplaced};
use crate::events::log::now_ms;

/// Interval of the signs of life that peers get while they wait for each other.
const TOUCH: Duration = Duration::from_secs(30);
/// Interval at which the controller looks whether it still is one.
const LOOK: Duration = Duration::from_secs(3);

/// A benchmark that runs.
pub(super) struct Run {
    view: Mutex<Benchmark>,
    place: BenchmarkPlace,
    participants: Vec<Participant>,
    steps: Vec<PlanStep>,
    /// True if each peer drops the caches of all its files before it reads.
    drop_caches: bool,
    state: Mutex<RunState>,
    ended: Condvar,
}

#[derive(Default)]
struct RunState {
    stop: Option<Stop>,
    is_over: bool,
}

/// The reason why a benchmark is stopped.
#[derive(Clone)]
pub(super) enum Stop {
    /// A user wants its end.
    ByUser,
    /// The benchmark cannot be completed.
    Because(Problem),
}

/// The end of the work.
#[derive(Default)]
struct Outcome {
    /// The problem of a step.
    problem: Option<Problem>,
    /// The problem of the removal of files.
    left: Option<Problem>,
}

/// The work of the peers so far.
struct Progress {
    /// Files of each peer that can be read, and the bytes of all of them.
    made: Vec<u64>,
    made_bytes: u64,
    /// The present step: the begin of its first pass, its passes, and the facts that decide on its
    /// marks. The preparation of the first pass removes files of other steps.
    begun: Option<Instant>,
    passes: Passes,
    cache: Option<CacheState>,
    threads: u32,
    units: u64,
    pass_bytes: u64,
    /// Work of the devices of each peer, over all passes.
    traffic: Vec<Vec<DeviceTraffic>>,
}

impl Progress {
    fn new(peers: usize) -> Self {
        Self {
            made: vec![0; peers],
            made_bytes: 0,
            begun: None,
            passes: Passes::default(),
            cache: None,
            threads: 0,
            units: 0,
            pass_bytes: 0,
            traffic: Vec::new(),
        }
    }

    /// Handles the begin of a step.
    fn handle_step(&mut self) {
        let (made, made_bytes) = (std::mem::take(&mut self.made), self.made_bytes);
        *self = Self { made, made_bytes, ..Self::new(0) };
    }

    /// Handles the end of a pass.
    fn handle_pass(&mut self, times: &[BenchmarkTimes]) {
        let is_first = self.passes.count() == 0;
        self.traffic.resize_with(times.len(), Vec::new);
        for (sum, times) in self.traffic.iter_mut().zip(times) {
            match is_first {
                true => sum.clone_from(&times.traffic),
                false => sum.retain_mut(|device| has_gained(device, &times.traffic)),
            }
        }
        let of_peer = |times: &BenchmarkTimes| {
            let BenchmarkTimes { bytes, files, done_s, durable_s, .. } = *times;
            PeerTimes { bytes, files, done_s, durable_s }
        };
        let peers: Vec<PeerTimes> = times.iter().map(of_peer).collect();
        self.passes.handle_pass(&StepTimes::of(&peers));
        let least = |of: fn(&BenchmarkTimes) -> u64| times.iter().map(of).min().unwrap_or(0);
        self.units += least(|times| times.units);
        self.pass_bytes = self.pass_bytes.max(least(|times| times.bytes));
    }
}

/// Adds the work of a device in another pass. Returns false if the pass has none of it: a sum over
/// some passes would be compared with the bytes of all.
fn has_gained(device: &mut DeviceTraffic, pass: &[DeviceTraffic]) -> bool {
    let Some(more) = pass.iter().find(|more| more.device == device.device) else { return false };
    device.read_bytes = device.read_bytes.saturating_add(more.read_bytes);
    device.written_bytes = device.written_bytes.saturating_add(more.written_bytes);
    device.busy_ms = device.busy_ms.saturating_add(more.busy_ms);
    true
}

impl Run {
    pub(super) fn new(
        view: Benchmark,
        (place, participants): (BenchmarkPlace, Vec<Participant>),
        steps: Vec<PlanStep>,
        drop_caches: bool,
    ) -> Self {
        let (state, ended) = Default::default();
        Self { view: Mutex::new(view), place, participants, steps, drop_caches, state, ended }
    }

    fn lock(&self) -> MutexGuard<'_, Benchmark> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, RunState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the benchmark as it is now.
    pub(super) fn view(&self) -> Benchmark {
        self.lock().clone()
    }

    /// Ends the benchmark, and stops the steps of the peers. The first reason counts. Blocks for
    /// some seconds at most.
    pub(super) fn stop(&self, why: Stop, asks: (&Operate, &Arc<BenchmarkHost>)) {
        self.state().stop.get_or_insert(why);
        let order = BenchmarkOrder::Cancel(self.view().id);
        // A peer that does not receive it ends its step by itself.
        drop(self.ask_all(asks, &order, CANCEL_LIMIT));
    }

    fn is_stopped(&self) -> bool {
        self.state().stop.is_some()
    }

    /// Sends all peers the same order.
    fn ask_all(
        &self,
        asks: (&Operate, &Arc<BenchmarkHost>),
        order: &BenchmarkOrder,
        limit: Duration,
    ) -> Vec<Result<BenchmarkReply, Problem>> {
        let orders = self.participants.iter().map(|_| order.clone()).collect();
        ask_each(asks, &self.participants, orders, limit)
    }

    /// Runs the benchmark to its end. Blocks.
    pub(super) fn run(&self, operate: &Operate, host: &Arc<BenchmarkHost>) {
        let asks = (operate, host);
        let Outcome { problem, left } = thread::scope(|scope| {
            let watching = thread::Builder::new().name("benchmark".to_owned());
            if let Err(error) = watching.spawn_scoped(scope, || self.watch(asks)) {
                tracing::warn!(%error, "peers of a benchmark get no signs of life");
            }
            let _over = Over(self);
            self.measure(asks)
        });
        let mut view = self.lock();
        view.ended = Some(Timestamp::of_ms(now_ms()));
        view.step.clear();
        let why;
        (view.state, why) = match (self.state().stop.clone(), problem) {
            (Some(Stop::ByUser), _) => (BenchmarkState::Cancelled, None),
            (Some(Stop::Because(problem)), _) | (None, Some(problem)) => {
                (BenchmarkState::Failed, Some(problem.to_string()))
            }
            (None, None) => (BenchmarkState::Done, None),
        };
        if let Some(problem) = &why {
            tracing::warn!(store = %view.store, %problem, "a benchmark has failed");
        }
        let left =
            left.map(|problem| format!("files are left until they can be removed: {problem}"));
        let told: Vec<String> = why.into_iter().chain(left).collect();
        view.problem = (!told.is_empty()).then(|| told.join("; "));
    }

    /// Sends signs of life until the end, and stops a benchmark of which this peer is no longer the
    /// controller.
    fn watch(&self, asks: (&Operate, &Arc<BenchmarkHost>)) {
        let mut touched = Instant::now();
        loop {
            let state = self.ended.wait_timeout_while(self.state(), LOOK, |state| !state.is_over);
            if state.unwrap_or_else(PoisonError::into_inner).0.is_over {
                return;
            }
            if asks.0.member.controller().is_none() && !self.is_stopped() {
                self.stop(Stop::Because(not_controller()), asks);
            }
            if touched.elapsed() >= TOUCH {
                touched = Instant::now();
                // A peer that has ended its part reports that at its next order.
                drop(self.ask_all(asks, &BenchmarkOrder::Touch(self.view().id), CANCEL_LIMIT));
            }
        }
    }

    /// Sends the orders of the course.
    fn measure(&self, asks: (&Operate, &Arc<BenchmarkHost>)) -> Outcome {
        let peers = self.participants.len();
        let mut course = Course::new(self.steps.len(), peers);
        let mut outcome = Outcome { problem: self.begin(asks).err(), left: None };
        if outcome.problem.is_some() {
            course.handle_cancel();
        }
        let mut progress = Progress::new(peers);
        let mut is_again = false;
        loop {
            if self.is_stopped() {
                course.handle_cancel();
            }
            let Some(order) = course.poll_order() else { return outcome };
            let looked = match order {
                CourseOrder::Run(_) => {
                    progress.begun.get_or_insert_with(Instant::now);
                    Ok(())
                }
                CourseOrder::Prepare(_) if is_again => Ok(()),
                CourseOrder::Prepare(number) => {
                    progress.handle_step();
                    self.look_around(asks, Some(&self.steps[number]), &progress)
                }
                CourseOrder::End => self.look_around(asks, None, &progress).or(Ok(())),
            };
            let replies = match looked {
                Ok(()) => {
                    let orders = self.orders(order, &progress);
                    ask_each(asks, &self.participants, orders, STEP_LIMIT)
                }
                Err(why) => (0..peers).map(|_| Err(why.clone())).collect(),
            };
            for (peer, reply) in replies.iter().enumerate() {
                course.handle_answer(peer, reply.is_ok());
            }
            match (replies.into_iter().collect::<Result<Vec<_>, Problem>>(), order) {
                (Ok(replies), _) => is_again = self.take(order, replies, &mut progress),
                (Err(why), CourseOrder::End) => outcome.left = Some(why),
                (Err(why), _) => drop(outcome.problem.get_or_insert(why)),
            }
            if is_again && matches!(order, CourseOrder::Run(_)) {
                course.handle_again();
            }
        }
    }

    /// Looks for transfers that use the store, and before a step that makes files for room.
    ///
    /// # Errors
    /// `benchmark-room`; those of a store that a peer cannot use; `not-controller`.
    fn look_around(
        &self,
        asks: (&Operate, &Arc<BenchmarkHost>),
        step: Option<&PlanStep>,
        progress: &Progress,
    ) -> Result<(), Problem> {
        let (id, store) = (self.view().id, &self.place.store);
        if is_in_use(asks.0, store, Some(id))? {
            self.lock().with_load = true;
        }
        let makes = matches!(
            step.map(|step| step.operation),
            Some(BenchmarkOperation::Write | BenchmarkOperation::Create)
        );
        if !makes {
            return Ok(());
        }
        let free = free_bytes(&look(asks, &self.participants, &self.place)?);
        // The files of the step before make room for those of this one.
        check_room(store, free.saturating_add(progress.made_bytes), self.view().budget_bytes)
    }

    /// Has all peers begin; the first one makes the identity of a new store.
    fn begin(&self, (operate, host): (&Operate, &Arc<BenchmarkHost>)) -> Result<(), Problem> {
        let mut store_id = 0;
        for (part, participant) in self.participants.iter().enumerate() {
            let order = BenchmarkOrder::Begin(self.part(part, store_id));
            match participant.ask(operate, host, order, LOOK_LIMIT)? {
                BenchmarkReply::Begun(id) => store_id = id,
                _ => return Err(misplaced()),
            }
        }
        Ok(())
    }

    fn part(&self, part: usize, store_id: u64) -> BenchmarkPart {
        let view = self.lock();
        BenchmarkPart {
            id: view.id,
            place: self.place.clone(),
            part: part as u32,
            parts: self.participants.len() as u32,
            seconds: view.seconds,
            store_id,
            drop_caches: self.drop_caches,
            mounts: Vec::new(),
        }
    }

    /// Returns the order of each peer.
    fn orders(&self, order: CourseOrder, progress: &Progress) -> Vec<BenchmarkOrder> {
        let (id, parts) = (self.view().id, self.participants.len());
        match order {
            CourseOrder::Prepare(number) => {
                let step = &self.steps[number];
                self.lock().step = words(step);
                // Each pass writes other bytes.
                let number = number + self.steps.len() * progress.passes.count() as usize;
                let of_part = |part| step_of((step, number), part, &progress.made);
                (0..parts).map(|part| BenchmarkOrder::Prepare(id, of_part(part))).collect()
            }
            CourseOrder::Run(_) => vec![BenchmarkOrder::Run(id); parts],
            CourseOrder::End => {
                "removing files".clone_into(&mut self.lock().step);
                vec![BenchmarkOrder::End(id); parts]
            }
        }
    }

    /// Takes the replies to an order. Returns whether the present step is repeated, or repeats.
    fn take(
        &self,
        order: CourseOrder,
        replies: Vec<BenchmarkReply>,
        progress: &mut Progress,
    ) -> bool {
        match order {
            CourseOrder::Prepare(number) => {
                let moves_bytes = self.steps[number].operation.moves_bytes();
                let mut view = self.lock();
                for (reply, peer) in replies.into_iter().zip(&mut view.peers) {
                    let BenchmarkReply::Prepared { cache, threads, caches_kept } = reply else {
                        continue;
                    };
                    // The least sure state counts for all.
                    progress.cache = progress.cache.max(cache);
                    progress.threads = progress.threads.max(threads);
                    if moves_bytes || peer.threads == 0 {
                        // Direct writes have more of them than reads.
                        peer.threads = peer.threads.max(threads);
                    }
                    peer.caches_kept = caches_kept.or_else(|| peer.caches_kept.take());
                }
                false
            }
            CourseOrder::Run(number) => {
                let times = replies.into_iter().map(|reply| match reply {
                    BenchmarkReply::Ran(times) => times,
                    _ => BenchmarkTimes::default(),
                });
                self.take_pass(&self.steps[number], &times.collect::<Vec<_>>(), progress)
            }
            CourseOrder::End => false,
        }
    }

    /// Takes the times of a pass. Returns whether another one follows.
    fn take_pass(
        &self,
        step: &PlanStep,
        times: &[BenchmarkTimes],
        progress: &mut Progress,
    ) -> bool {
        progress.handle_pass(times);
        if step.operation == BenchmarkOperation::Write {
            progress.made = times.iter().map(|times| times.files).collect();
            progress.made_bytes = times.iter().map(|times| times.bytes).sum();
        }
        if step.operation == BenchmarkOperation::Create {
            // Before it the files of the step before were removed.
            progress.made_bytes = 0;
        }
        let mut view = self.lock();
        let elapsed_s = progress.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
        // Operations on names that change nothing are repeated by the peers, others cannot be.
        let has_time = progress.passes.has_time(view.seconds.into(), elapsed_s);
        if step.operation.moves_bytes() && has_time && !self.is_stopped() {
            return true;
        }
        view.steps_done += 1;
        add_step(&mut view, step, progress, self.memory_bytes());
        false
    }

    /// Returns the memory of the host that has the most.
    fn memory_bytes(&self) -> u64 {
        let memory = self.participants.iter().map(|participant| participant.view.memory_bytes);
        memory.max().unwrap_or(0)
    }
}

/// Ends the signs of life when it is dropped, after a panic too, so that no peer waits for them for
/// ever.
struct Over<'a>(&'a Run);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.ended.notify_all();
    }
}

/// Returns a step in words.
fn words(step: &PlanStep) -> String {
    let words = match step.operation.moves_bytes() {
        true => format!("{} files of {}", step.operation, format_bytes(step.size_bytes)),
        false => format!("{} empty files", step.operation),
    };
    match step.threads {
        0 => words,
        threads => format!("{words} with {}", counted(threads.into(), "thread")),
    }
}

/// Returns the step of one peer. A peer reads the files of the next one: its own may be in its
/// cache.
fn step_of((step, number): (&PlanStep, usize), part: usize, made: &[u64]) -> BenchmarkStep {
    let PlanStep { operation, size_bytes, files, threads } = *step;
    let parts = made.len();
    let (of_part, files) = match operation {
        BenchmarkOperation::Read => {
            let next = (part + 1) % parts;
            (next, made[next])
        }
        _ => (part, files),
    };
    let (of_part, seed) = (of_part as u32, (number * parts + part) as u64);
    BenchmarkStep { operation, size_bytes, files, threads, of_part, seed }
}

/// Adds a step that is over to a benchmark: a run, or the size of which there was nothing to read,
/// since no file was written whole.
fn add_step(view: &mut Benchmark, step: &PlanStep, progress: &Progress, memory_bytes: u64) {
    let StepTimes { bytes, files, .. } = progress.passes.sum();
    if files > 0 || bytes > 0 {
        let traffic = traffic_of(view, progress);
        let run = BenchmarkRun { traffic, ..run_of(step, progress, memory_bytes) };
        add_run(view, (step, progress.threads), run);
    } else if step.operation == BenchmarkOperation::Read && !view.unread.contains(&step.size_bytes)
    {
        view.unread.push(step.size_bytes);
    }
}

/// Merges the work of the peers in a step.
fn run_of(step: &PlanStep, progress: &Progress, memory_bytes: u64) -> BenchmarkRun {
    let all = progress.passes.sum();
    let measured = Measured {
        operation: step.operation,
        seconds: all.first_done_s,
        units: progress.units,
        threads: progress.threads,
        cache: progress.cache,
        bytes: progress.pass_bytes,
        memory_bytes,
    };
    let marks = marks(&measured);
    let StepTimes { bytes, files, first_done_s, last_done_s, durable_s } = all;
    let (cache, passes) = (progress.cache, progress.passes.count());
    BenchmarkRun {
        bytes,
        files,
        first_done_s,
        last_done_s,
        durable_s,
        passes,
        cache,
        marks,
        traffic: Vec::new(),
    }
}

/// Returns the work of the devices of all peers in a step; none if a benchmark has no room for it.
fn traffic_of(view: &Benchmark, progress: &Progress) -> Vec<BenchmarkTraffic> {
    let named = |(peer, devices): (&BenchmarkPeer, &Vec<DeviceTraffic>)| {
        let of_peer = |device: &DeviceTraffic| BenchmarkTraffic {
            peer: peer.peer.clone(),
            device: device.device.clone(),
            read_bytes: device.read_bytes,
            written_bytes: device.written_bytes,
            busy_ms: device.busy_ms,
        };
        devices.iter().map(of_peer).collect::<Vec<_>>()
    };
    let new: Vec<_> = view.peers.iter().zip(&progress.traffic).flat_map(named).collect();
    let runs = view.points.iter().flat_map(|point| &point.runs);
    let kept: usize = runs.map(|run| run.traffic.len()).sum();
    if kept + new.len() > BENCHMARK_TRAFFIC_MAX { Vec::new() } else { new }
}

/// Adds a run to its point, and summarises that again. `threads` are those of the peer that had the
/// most.
fn add_run(view: &mut Benchmark, (step, threads): (&PlanStep, u32), run: BenchmarkRun) {
    let is_its = |point: &BenchmarkPoint| {
        (point.operation, point.size_bytes) == (step.operation, step.size_bytes)
            && (step.threads == 0 || point.threads == threads)
    };
    let at = view.points.iter().position(is_its).unwrap_or_else(|| {
        view.points.push(BenchmarkPoint {
            operation: step.operation,
            size_bytes: step.size_bytes,
            threads,
            bytes_per_s: BenchmarkRate::default(),
            files_per_s: BenchmarkRate::default(),
            marks: Vec::new(),
            runs: Vec::new(),
        });
        view.points.len() - 1
    });
    let point = &mut view.points[at];
    point.marks.extend(&run.marks);
    point.marks.sort_unstable();
    point.marks.dedup();
    point.runs.push(run);
    let rates: Vec<(f64, f64)> = point.runs.iter().map(rates_of).collect();
    let (bytes, files): (Vec<f64>, Vec<f64>) = rates.into_iter().unzip();
    (point.bytes_per_s, point.files_per_s) = (rate_of(&bytes), rate_of(&files));
}

fn rates_of(run: &BenchmarkRun) -> (f64, f64) {
    let BenchmarkRun { bytes, files, first_done_s, last_done_s, durable_s, .. } = *run;
    StepTimes { bytes, files, first_done_s, last_done_s, durable_s }.rates()
}

fn rate_of(values: &[f64]) -> BenchmarkRate {
    let Summary { median, least, greatest } = summarize(values);
    BenchmarkRate { median, least, greatest }
}

#[cfg(test)]
mod tests {
    use penstock_proto::benchmark::BenchmarkMark;
    use serde_json::json;

    use super::*;
    use crate::operations::benchmarks::tests::benchmark;

    fn step(operation: BenchmarkOperation, threads: u32) -> PlanStep {
        PlanStep { operation, size_bytes: 10, files: 9, threads }
    }

    /// Returns the times of a peer whose devices each carried as many bytes.
    fn times(done_s: f64, devices: &[&str]) -> BenchmarkTimes {
        let work = |device: &&str| DeviceTraffic {
            device: (*device).to_owned(),
            read_bytes: 1,
            written_bytes: 90,
            busy_ms: 2,
        };
        let traffic = devices.iter().map(work).collect();
        BenchmarkTimes { bytes: 90, files: 9, units: 9, done_s, durable_s: done_s, traffic }
    }

    /// Promise: a point has the median of its runs and the marks of any of them, and the slowest
    /// peer decides the time of a run.
    #[test]
    fn runs_make_a_point() {
        let step = step(BenchmarkOperation::Write, 0);
        let times = |files: u64, done_s| BenchmarkTimes {
            bytes: files * 10,
            files,
            units: files,
            done_s,
            durable_s: done_s,
            traffic: Vec::new(),
        };
        let mut view = benchmark();
        for (one, other) in [(8.0, 10.0), (10.0, 20.0), (4.0, 40.0)] {
            let mut progress = Progress { threads: 1, ..Progress::new(2) };
            progress.handle_pass(&[times(50, one), times(50, other)]);
            add_step(&mut view, &step, &progress, 0);
        }
        let [point] = &view.points[..] else { panic!("one point") };
        let BenchmarkRate { median, least, greatest } = point.files_per_s;
        assert_eq!((median, least, greatest), (5.0, 2.5, 10.0));
        assert_eq!(point.bytes_per_s.median, 50.0);
        assert_eq!(point.marks, [BenchmarkMark::Short], "the last run was short");
        assert!(point.runs[0].marks.is_empty());
        assert_eq!((point.runs[1].first_done_s, point.runs[1].last_done_s), (10.0, 20.0));
    }

    /// Promise: each number of threads has a point of its own, to which its repeats are added.
    #[test]
    fn each_number_of_threads_has_a_point() {
        let mut view = benchmark();
        let times = times(6.0, &[]);
        for threads in [1, 4, 1, 4, 1] {
            let mut progress = Progress { threads, ..Progress::new(1) };
            progress.handle_pass(std::slice::from_ref(&times));
            add_step(&mut view, &step(BenchmarkOperation::Write, threads), &progress, 0);
        }
        let points = view.points.iter().map(|point| (point.threads, point.runs.len()));
        assert_eq!(points.collect::<Vec<_>>(), [(1, 3), (4, 2)]);
    }

    /// Promise: a read for which no file was written whole is left out with its size, once. The
    /// write before it counts by its bytes.
    #[test]
    fn a_size_without_a_whole_file_is_unread() {
        let mut view = benchmark();
        let cut_off = BenchmarkTimes { bytes: 90, units: 9, ..BenchmarkTimes::default() };
        for (operation, times) in [
            (BenchmarkOperation::Write, cut_off.clone()),
            (BenchmarkOperation::Read, BenchmarkTimes::default()),
            (BenchmarkOperation::Write, cut_off),
            (BenchmarkOperation::Read, BenchmarkTimes::default()),
        ] {
            let mut progress = Progress::new(1);
            progress.handle_pass(&[times]);
            add_step(&mut view, &step(operation, 0), &progress, 0);
        }
        assert_eq!(view.unread, [10]);
        let [point] = &view.points[..] else { panic!("one point") };
        assert_eq!((point.operation, point.runs.len()), (BenchmarkOperation::Write, 2));
    }

    /// Promise: a step of several passes has their sums, so that short passes make a long run; the
    /// part that a cache can hold is computed from one pass.
    #[test]
    fn passes_make_a_run() {
        let step = step(BenchmarkOperation::Read, 0);
        let unknown = Some(CacheState::Unknown);
        let mut progress = Progress { threads: 1, cache: unknown, ..Progress::new(1) };
        let times = [times(3.0, &[])];
        progress.handle_pass(&times);
        let run = run_of(&step, &progress, 40);
        assert_eq!(run.marks, [BenchmarkMark::Short], "3 s, and 9 units");
        progress.handle_pass(&times);
        let run = run_of(&step, &progress, 40);
        assert_eq!((run.passes, run.bytes, run.files, run.last_done_s), (2, 180, 18, 6.0));
        assert!(run.marks.is_empty());
        assert_eq!(run_of(&step, &progress, 60).marks, [BenchmarkMark::Cached]);
    }

    /// Promise: the work of devices is summed over passes, for each peer by itself. A device that a
    /// pass has no figures of is left out.
    #[test]
    fn work_of_devices_is_summed() {
        let mut view = benchmark();
        for name in ["h1", "h2"] {
            let peer = json!({"peer": name, "processors": 1, "memory_bytes": 1, "threads": 1});
            view.peers.push(serde_json::from_value(peer).unwrap());
        }
        let mut progress = Progress::new(2);
        progress.handle_pass(&[times(3.0, &["md0", "sda"]), times(3.0, &["sda"])]);
        progress.handle_pass(&[times(3.0, &["md0"]), times(3.0, &["sda"])]);
        add_step(&mut view, &step(BenchmarkOperation::Write, 0), &progress, 0);
        let work = |traffic: &BenchmarkTraffic| {
            let BenchmarkTraffic { peer, device, read_bytes, written_bytes, busy_ms } = traffic;
            (format!("{peer} {device}"), *read_bytes, *written_bytes, *busy_ms)
        };
        let all: Vec<_> = view.points[0].runs[0].traffic.iter().map(work).collect();
        assert_eq!(all, [("h1 md0".to_owned(), 2, 180, 4), ("h2 sda".to_owned(), 2, 180, 4)]);
    }

    /// Promise: a result stays small enough for the state of a site: runs beyond the bound have no
    /// work of devices, and all else.
    #[test]
    fn work_of_devices_is_bounded() {
        let mut view = benchmark();
        let peer = json!({"peer": "h1", "processors": 1, "memory_bytes": 1, "threads": 1});
        view.peers.push(serde_json::from_value(peer).unwrap());
        let mut progress = Progress::new(1);
        progress.handle_pass(&[times(3.0, &["sda"; 1001])]);
        for _ in 0..3 {
            add_step(&mut view, &step(BenchmarkOperation::Write, 0), &progress, 0);
        }
        let runs = view.points[0].runs.iter().map(|run| (run.bytes, run.traffic.len()));
        assert_eq!(runs.collect::<Vec<_>>(), [(90, 1001), (90, 1001), (90, 0)]);
    }

    /// Promise: each peer reads the files of another one, as many as that one has written, and each
    /// writes to its own directory.
    #[test]
    fn peers_read_what_others_wrote() {
        let made = [5, 6, 7];
        let read = step(BenchmarkOperation::Read, 3);
        let of = |part| {
            let step = step_of((&read, 1), part, &made);
            assert_eq!(step.threads, 3);
            (step.of_part, step.files)
        };
        assert_eq!([of(0), of(1), of(2)], [(1, 6), (2, 7), (0, 5)]);
        let alone = step_of((&read, 1), 0, &[4]);
        assert_eq!((alone.of_part, alone.files), (0, 4), "nobody else is there");
        let write = step(BenchmarkOperation::Write, 0);
        let seeds: Vec<u64> = (0..3)
            .map(|part| {
                let step = step_of((&write, 1), part, &made);
                assert_eq!((step.of_part, step.files), (part as u32, 9));
                step.seed
            })
            .collect();
        assert_eq!(seeds, [3, 4, 5], "no two write the same bytes");
    }
}
