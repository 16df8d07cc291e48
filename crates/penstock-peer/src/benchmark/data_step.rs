//! A step that writes or reads files: a task of this host, and the grants of its pieces.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rpc::benchmark::BenchmarkTimes;
use penstock_api::task::{Report, Task, TaskControl, TaskPage, Work, WorkReply};
use penstock_engine::benchmark::GrantedWork;
use penstock_engine::slice::Piece;
use penstock_proto::journal::EntryFailure;
use penstock_proto::slicing::PieceRef;
use penstock_proto::units::Instant;

use crate::benchmark::file_set::FileSet;
use crate::benchmark::store_devices::StoreDevices;
use crate::stores::chain;

/// Interval at which a waiting step looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);

/// A step that is ready: its lanes are open and have no work.
pub(super) struct DataStep {
    pub(super) task: Arc<dyn Task>,
    pub(super) control: Arc<StepControl>,
}

impl DataStep {
    /// Grants work for `seconds`, and waits until all of it is durable. Stops early when `stops`
    /// returns true. The devices are looked at while the task exists and has no work.
    ///
    /// # Errors
    /// `benchmark-failed`; the problem with which the task ended; `stopped`.
    pub(super) fn run(
        &self,
        seconds: u32,
        devices: &StoreDevices,
        stops: impl Fn() -> bool,
    ) -> Result<BenchmarkTimes, Problem> {
        let before = devices.look();
        let begun = self.control.begin(Duration::from_secs(seconds.into()));
        self.task.wake();
        let mut outcome = self.control.wait(begun, stops);
        if let Ok(times) = &mut outcome {
            times.traffic = devices.traffic_since(&before);
        }
        self.task.stop(outcome.is_err());
        outcome
    }
}

/// Pieces that each thread holds: one that is written, and enough ahead of it that no thread waits
/// for a grant. More would make the end of a step on a slow store last for minutes.
const PIECES_AHEAD: usize = 3;

/// The controller's side of the task.
pub(super) struct StepControl {
    files: FileSet,
    /// Most pieces that are granted and not written.
    open_max: usize,
    state: Mutex<StepState>,
    changed: Condvar,
}

struct StepState {
    /// Time until which pieces are granted; `None` before the barrier.
    until: Option<Instant>,
    /// The next piece.
    next: PieceRef,
    is_exhausted: bool,
    work: GrantedWork,
    problem: Option<Problem>,
}

impl StepControl {
    /// Grants the pieces of `files` to `threads` threads.
    pub(super) fn new(files: FileSet, threads: u32) -> Self {
        let state = StepState {
            until: None,
            next: PieceRef { page: 0, piece: 0 },
            is_exhausted: false,
            work: GrantedWork::default(),
            problem: None,
        };
        let open_max = PIECES_AHEAD * threads.max(1) as usize;
        Self { files, open_max, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, StepState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, lasts: Duration) -> Instant {
        let now = penstock_sys::boottime_now();
        self.lock().until = Some(now.plus(lasts));
        now
    }

    fn wait(&self, begun: Instant, stops: impl Fn() -> bool) -> Result<BenchmarkTimes, Problem> {
        let mut state = self.lock();
        loop {
            if let Some(problem) = state.problem.take() {
                return Err(problem);
            }
            if let (Some(written), Some(durable)) = state.work.times() {
                let counts = state.work.counts();
                return Ok(BenchmarkTimes {
                    bytes: counts.bytes,
                    files: counts.files,
                    units: counts.units,
                    done_s: written.since(begun).as_secs_f64(),
                    durable_s: durable.since(begun).as_secs_f64(),
                    traffic: Vec::new(),
                });
            }
            if stops() {
                let title = "the step of the benchmark was stopped";
                return Err(Problem::new(ProblemCode::Stopped, title));
            }
            let waited = self.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Grants the next piece, if there is one.
    fn grant(&self, state: &mut StepState) -> Result<Option<(Work, u64)>, Problem> {
        while state.next.page < self.files.pages() {
            let reference = state.next;
            let (_, pieces) = self.files.page(reference.page).map_err(|error| unread(&error))?;
            let Some(piece) = pieces.get(reference.piece as usize) else {
                state.next = PieceRef { page: reference.page + 1, piece: 0 };
                continue;
            };
            state.next.piece += 1;
            state.work.handle_granted(reference, *piece);
            if let Some(finish @ Piece::Finish { .. }) = pieces.get(state.next.piece as usize) {
                // The step cannot end between the last extent of a file and its name.
                state.work.handle_granted(state.next, *finish);
                state.next.piece += 1;
            }
            let fresh = match piece {
                Piece::Pack { .. } => true,
                Piece::Extent { offset, .. } => *offset == 0,
                Piece::Finish { .. } => continue,
            };
            let work = Work::Fetch { piece: reference, generation: 0, fresh };
            return Ok(Some((work, piece.bytes().max(1))));
        }
        state.is_exhausted = true;
        Ok(None)
    }

    fn fail(&self, problem: Problem) {
        self.lock().problem.get_or_insert(problem);
        self.changed.notify_all();
    }
}

impl TaskControl for StepControl {
    fn want(&self, bytes: u64) -> WorkReply {
        let mut guard = self.lock();
        let state = &mut *guard;
        let mut reply = WorkReply::default();
        let Some(until) = state.until else { return reply };
        let now = penstock_sys::boottime_now();
        let mut given = 0;
        let open_max = self.open_max;
        while given < bytes && state.work.open_pieces() < open_max && !state.is_exhausted {
            if now >= until {
                state.is_exhausted = true;
                break;
            }
            match self.grant(state) {
                Ok(Some((work, weight))) => {
                    reply.work.push(work);
                    given += weight;
                }
                Ok(None) => {}
                Err(problem) => {
                    state.problem.get_or_insert(problem);
                    break;
                }
            }
        }
        if state.is_exhausted {
            state.work.close(now);
        }
        let finish = |piece| Work::Finish { piece, generation: 0 };
        reply.work.extend(state.work.take_finishes().into_iter().map(finish));
        reply.flush = state.work.needs_flush();
        drop(guard);
        self.changed.notify_all();
        reply
    }

    fn page(&self, number: u32) -> Result<TaskPage, Problem> {
        self.files.page(number).map(|(page, _)| page).map_err(|error| unread(&error))
    }

    fn has_failed(&self, _: &[u8]) -> bool {
        false
    }

    fn may_have_failed(&self) -> bool {
        false
    }

    fn report(&self, reports: Vec<Report>) {
        let now = penstock_sys::boottime_now();
        let mut state = self.lock();
        for report in reports {
            let failure = match report {
                Report::Written { piece, epoch, failures, .. } => {
                    state.work.handle_written(now, piece, epoch);
                    failures.first().map(failed)
                }
                Report::Published { epoch, failures, .. } => {
                    state.work.handle_published(now, epoch);
                    failures.first().map(failed)
                }
                Report::Synced { epoch } => {
                    state.work.handle_synced(now, epoch);
                    None
                }
                Report::SyncFailed { errno, .. } => {
                    Some(problem("the store could not be synced", errno))
                }
                Report::Returned { .. } | Report::Lost { .. } => {
                    Some(problem("a file of the benchmark has gone", 0))
                }
                Report::LinksDone { .. } | Report::DirectoriesDone { .. } => None,
            };
            if let Some(failure) = failure {
                state.problem.get_or_insert(failure);
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    fn broken(&self, problem: Problem) {
        self.fail(problem);
    }
}

fn failed(failure: &EntryFailure) -> Problem {
    let phase = format!("a file of the benchmark failed ({:?})", failure.phase).to_lowercase();
    problem(&phase, failure.errno)
}

fn problem(title: &str, errno: u16) -> Problem {
    let problem = Problem::new(ProblemCode::BenchmarkFailed, title);
    match errno {
        0 => problem,
        errno => problem.because(std::io::Error::from_raw_os_error(errno.into())),
    }
}

fn unread(error: &dyn std::error::Error) -> Problem {
    let title = "a file of the benchmark cannot be looked at";
    Problem::new(ProblemCode::BenchmarkFailed, title).because(chain(error))
}
