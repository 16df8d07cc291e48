//! One benchmark at this host, from its begin to its end.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rpc::benchmark::{BenchmarkPart, BenchmarkStep, BenchmarkTimes};
use penstock_api::task::TaskSpec;
use penstock_api::transfer::PathText;
use penstock_engine::benchmark::cache_state;
use penstock_proto::benchmark::{BenchmarkOperation, CacheState};
use penstock_proto::digest::DigestKind;
use penstock_proto::name;
use penstock_store::{Source, StoreError, Target};

use crate::benchmark::data_step::{DataStep, StepControl};
use crate::benchmark::file_set::FileSet;
use crate::benchmark::host_caches::HostCaches;
use crate::benchmark::leftovers::{directories, has_server, remove_tree, spec_of, writer_of};
use crate::benchmark::metadata_step::NamedFiles;
use crate::benchmark::store_devices::StoreDevices;
use crate::stores::chain;
use crate::stores::errors::StoreFault;
use crate::stores::guard::Guard;
use crate::target::{TargetService, TaskEnds};
use crate::task::limits::lane_limits;
use crate::task::reach::Reach;

/// Files whose cached share is measured after the cache was dropped.
const SAMPLE: u64 = 64;

/// The state of a benchmark.
pub(super) struct Session {
    pub(super) part: BenchmarkPart,
    service: Arc<TargetService>,
    target: Target,
    source: Source,
    devices: StoreDevices,
    caches: HostCaches,
    named: NamedFiles,
    ready: Mutex<Option<Ready>>,
    stopped: AtomicBool,
    life: Mutex<Life>,
    news: Condvar,
}

/// Orders, and the end.
struct Life {
    /// End of the last order.
    last: Instant,
    /// Orders at work.
    at_work: usize,
    ended: bool,
}

/// A step that is ready.
enum Ready {
    Data(DataStep),
    Metadata(BenchmarkStep),
}

/// Facts about a step that is ready.
pub(super) struct Prepared {
    /// State of the cache before files are read.
    pub(super) cache: Option<CacheState>,
    /// Threads of the step.
    pub(super) threads: u32,
    /// Reason why the caches of all files of the host were not given up, as they were to be.
    pub(super) caches_kept: Option<String>,
}

impl Session {
    pub(super) fn new(
        part: BenchmarkPart,
        service: Arc<TargetService>,
        (target, source): (Target, Source),
        devices: StoreDevices,
        caches: HostCaches,
    ) -> Self {
        let (_, own) = directories(&part, part.part);
        let named = NamedFiles {
            target: target.clone(),
            id: part.id,
            writer: writer_of(&part),
            root: name::join(&own, b"m"),
            made: Mutex::default(),
        };
        Self {
            part,
            service,
            target,
            source,
            devices,
            caches,
            named,
            ready: Mutex::default(),
            stopped: AtomicBool::new(false),
            life: Mutex::new(Life { last: Instant::now(), at_work: 0, ended: false }),
            news: Condvar::new(),
        }
    }

    /// Makes all ready for a step. Blocks.
    ///
    /// # Errors
    /// `benchmark-failed`; those of a store that cannot be used.
    pub(super) fn prepare(&self, step: BenchmarkStep) -> Result<Prepared, Problem> {
        let _at_work = AtWork::enter(self)?;
        let of = |threads| Prepared { cache: None, threads, caches_kept: None };
        let (ready, prepared) = match step.operation {
            BenchmarkOperation::Write => {
                self.clear(b"w")?;
                let (step, threads) = self.writing(step)?;
                (Ready::Data(step), of(threads))
            }
            BenchmarkOperation::Read => {
                let (step, prepared) = self.reading(step)?;
                (Ready::Data(step), prepared)
            }
            operation => {
                if operation == BenchmarkOperation::Create {
                    self.clear(b"w")?;
                    self.clear(b"m")?;
                }
                (Ready::Metadata(step), of(threads_of(&step)))
            }
        };
        *self.ready.lock().unwrap_or_else(PoisonError::into_inner) = Some(ready);
        Ok(prepared)
    }

    /// Does the step that is ready. Blocks.
    ///
    /// # Errors
    /// `benchmark-failed`, `stopped`; those of a store that cannot be used.
    pub(super) fn run(&self) -> Result<BenchmarkTimes, Problem> {
        let _at_work = AtWork::enter(self)?;
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stops = || self.is_stopped();
        match ready {
            Some(Ready::Data(step)) => step.run(self.part.seconds, &self.devices, stops),
            Some(Ready::Metadata(step)) => {
                let lasts = Duration::from_secs(self.part.seconds.into());
                let work = (threads_of(&step), step.files);
                let before = self.devices.look();
                let done = self.named.run(step.operation, work, lasts, &stops);
                let mut done = done.map_err(|error| self.failed(&error))?;
                done.traffic = self.devices.traffic_since(&before);
                if stops() {
                    return Err(stopped());
                }
                Ok(done)
            }
            None => {
                let title = "no step of the benchmark is ready";
                Err(Problem::new(ProblemCode::BenchmarkFailed, title))
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Handles a sign of life of the controller.
    pub(super) fn touch(&self) {
        self.life().last = Instant::now();
    }

    /// Stops the present step and its preparation, and all later ones.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the present step, and waits for its end.
    pub(super) fn end(&self) {
        self.stop();
        let works = |life: &mut Life| life.at_work > 0;
        drop(self.news.wait_while(self.life(), works).unwrap_or_else(PoisonError::into_inner));
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Ready::Data(step)) = ready {
            step.task.stop(true);
        }
        self.life().ended = true;
        self.news.notify_all();
    }

    /// Waits for the end of the benchmark, for `most`. Returns whether it still runs.
    pub(super) fn lasts(&self, most: Duration) -> bool {
        let waited = self.news.wait_timeout_while(self.life(), most, |life| !life.ended);
        !waited.unwrap_or_else(PoisonError::into_inner).0.ended
    }

    /// Returns how long no order has been at work.
    pub(super) fn idle(&self) -> Duration {
        let life = self.life();
        if life.at_work > 0 { Duration::ZERO } else { life.last.elapsed() }
    }

    fn failed(&self, error: &StoreError) -> Problem {
        match StoreFault::of(&self.target, error) {
            Some(fault) => fault.into(),
            None => {
                let title = "a file of the benchmark could not be used";
                Problem::new(ProblemCode::BenchmarkFailed, title).because(chain(error))
            }
        }
    }

    fn clear(&self, name: &[u8]) -> Result<(), Problem> {
        let (_, own) = directories(&self.part, self.part.part);
        let (path, stops) = (name::join(&own, name), || self.is_stopped());
        let cleared = remove_tree(&self.target, &path, &mut Default::default(), &stops);
        cleared.map_err(|error| self.failed(&error))?;
        self.check_stopped()
    }

    fn check_stopped(&self) -> Result<(), Problem> {
        if self.is_stopped() { Err(stopped()) } else { Ok(()) }
    }

    fn spec(&self, step: &BenchmarkStep) -> TaskSpec {
        let (_, own) = directories(&self.part, self.part.part);
        TaskSpec {
            writer: writer_of(&self.part),
            digest: DigestKind::Xxh3,
            lanes: step.threads,
            ..spec_of(&self.part, PathText(name::join(&own, b"w")))
        }
    }

    fn writing(&self, step: BenchmarkStep) -> Result<(DataStep, u32), Problem> {
        let wanted = (step.files, step.size_bytes);
        let files = FileSet::generated(self.part.id, wanted, step.seed);
        let spec = self.spec(&step);
        let identity = self.service.identify(&spec)?;
        self.begin(&spec, files, (self.target.clone(), identity))
    }

    fn reading(&self, step: BenchmarkStep) -> Result<(DataStep, Prepared), Problem> {
        let (_, there) = directories(&self.part, step.of_part);
        let place = (self.source.clone(), name::join(&there, b"w"));
        let files = FileSet::written(self.part.id, (step.files, step.size_bytes), place);
        // Looks at the files, as a scan does before.
        for page in 0..files.pages() {
            self.check_stopped()?;
            files.page(page).map_err(|error| self.failed(&error))?;
        }
        let dropped = self.part.drop_caches.then(|| self.caches.give_up());
        let cache = self.give_up_caches(&files, dropped == Some(Ok(())));
        let cache = Some(cache.map_err(|error| self.failed(&error))?);
        self.check_stopped()?;
        let identity = Target::Null.identity().map_err(StoreError::from);
        let identity = identity.map_err(|error| self.failed(&error))?;
        let (step, threads) = self.begin(&self.spec(&step), files, (Target::Null, identity))?;
        let caches_kept = dropped.and_then(Result::err);
        Ok((step, Prepared { cache, threads, caches_kept }))
    }

    /// Starts the task of a step.
    fn begin(
        &self,
        spec: &TaskSpec,
        files: FileSet,
        (target, identity): (Target, penstock_store::StoreIdentity),
    ) -> Result<(DataStep, u32), Problem> {
        let (source, root) = files.source();
        let guard = Box::new(Guard::new(&source, &spec.store, &root)?);
        let reach = Reach::Local { source, root, guard, digests: false };
        let threads = lane_limits(spec, &spec.share(), &reach, &target).workers;
        let control = Arc::new(StepControl::new(files, threads));
        let ends = TaskEnds { target, identity, reach };
        let told = Arc::clone(&control);
        let task = self.service.begin(spec, told, ends, (None, Arc::default()))?;
        Ok((DataStep { task, control }, threads))
    }

    /// Drops this host's cache of the files. Returns the state of the cache by a sample of them.
    /// `dropped` is true if the caches of all files of the host were dropped before.
    fn give_up_caches(&self, files: &FileSet, dropped: bool) -> Result<CacheState, StoreError> {
        let goes_on = || match self.is_stopped() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let mut all = 0;
        files.each_file(1, |file| {
            file.drop_cache();
            all += 1;
            goes_on()
        })?;
        if has_server(&self.target) {
            return Ok(cache_state(dropped, None));
        }
        let mut shares = Vec::new();
        files.each_file((all / SAMPLE).max(1), |file| {
            shares.push(file.cached_share());
            goes_on()
        })?;
        let known = shares.iter().copied().collect::<Option<Vec<f64>>>();
        let known = known.filter(|shares| !shares.is_empty());
        let cached = known.map(|shares| shares.iter().sum::<f64>() / shares.len() as f64);
        Ok(cache_state(dropped, cached))
    }
}

/// Returns the threads of a step that works on names.
fn threads_of(step: &BenchmarkStep) -> u32 {
    match step.threads {
        0 => penstock_sys::available_cpus().clamp(1, 16) as u32,
        threads => threads,
    }
}

fn stopped() -> Problem {
    Problem::new(ProblemCode::Stopped, "the step of the benchmark was stopped")
}

/// An order that is at work, until this is dropped.
struct AtWork<'a>(&'a Session);

impl<'a> AtWork<'a> {
    /// Enters an order. An order after the stop is refused: it would make files that no later step
    /// removes.
    fn enter(session: &'a Session) -> Result<Self, Problem> {
        let mut life = session.life();
        // The end stops the session before it looks, with the lock, whether orders are at work.
        session.check_stopped()?;
        life.at_work += 1;
        Ok(Self(session))
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let mut life = self.0.life();
        life.at_work = life.at_work.saturating_sub(1);
        life.last = Instant::now();
        drop(life);
        self.0.news.notify_all();
    }
}
