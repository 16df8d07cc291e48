//! A running task as the target side and the controller use it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use penstock_api::limits::Share;
use penstock_api::task::{Adopted, Task, TaskControl, TaskFigures, TaskSpec};
use penstock_api::transfer::Durability;
use penstock_proto::id::WriterId;
use penstock_proto::journal::Incarnation;
use penstock_proto::network::DataAddress;

use crate::lane::breach::Breaches;
use crate::lane::paths;
use crate::publish;
use crate::stores::pacer::Pacer;
use crate::task::context::{TaskContext, TaskParts, TaskState};
use crate::task::coordinator::{coordinate, hand_over};
use crate::task::error::TaskError;
use crate::task::grant::Grant;
use crate::task::handover::{Handover, TaskReports};
use crate::task::hang_detector::HangDetector;
use crate::task::reach::Reach;
use crate::task::shutdown::{self, waiting_of};
use crate::task::times::TaskTimes;
use crate::write::attributes::AttributePolicy;
use crate::write::large_files::LargeFiles;
use crate::write::target_tree::TargetTree;

/// A running task.
pub(crate) struct RunningTask {
    pub(crate) shared: Arc<TaskContext>,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    /// Reports of an earlier task, until the controller takes them.
    pub(crate) adopted: Mutex<Option<Adopted>>,
}

impl RunningTask {
    /// Starts the threads.
    pub(crate) fn start(
        spec: &TaskSpec,
        control: Arc<dyn TaskControl>,
        parts: TaskParts,
    ) -> Result<Self, TaskError> {
        // Where each request ends in a sync of its file, a part costs as much as a whole.
        let per_file = parts.target.durability().iter().any(|method| method.is_per_file());
        let cuts_pieces = !per_file && spec.durability != Durability::Fsync;
        let state = TaskState::new(spec, &parts);
        let (own_site, deletes) = (spec.source.is_of_own_site(), spec.update.delete);
        let keeper = AttributePolicy::new(&spec.preserve, own_site, parts.allow_privileged)
            .made_by(parts.target.account());
        let tree = TargetTree {
            target: parts.target.for_data_set(&spec.root.0, keeper.sets_modes(), deletes),
            transfer: spec.transfer,
            writer: spec.writer,
            root: spec.root.0.clone(),
            kind: spec.digest,
            sync_files: spec.durability == Durability::Fsync,
            sync_nothing: spec.durability == Durability::None,
            digest_list: spec.digest_list,
            proves: spec.proves,
            names: Arc::new(Pacer::new(spec.limits.metadata_ops_per_s.unwrap_or(0).into())),
            turns: Arc::default(),
            keeper: Arc::new(keeper),
            backup_dir: spec.update.backup_dir.as_ref().map(|path| path.0.clone()),
            began: spec.began,
        };
        let shared = Arc::new(TaskContext {
            spec: spec.clone(),
            control,
            endless: (spec.writer != WriterId::SOLE).then(Grant::endless),
            grant: parts.grant,
            incarnation: parts.incarnation,
            kept: TaskReports::new(spec.writer != WriterId::SOLE),
            left: parts.left,
            tree,
            identity: parts.identity,
            stores: parts.stores,
            hang: HangDetector::default(),
            over: parts.over,
            reach: parts.reach,
            large: Arc::new(LargeFiles::default()),
            cuts_pieces,
            pace: Pacer::new(spec.limits.rate_bytes_per_s()),
            pool: parts.pool,
            state: Mutex::new(state),
            wake: Condvar::new(),
            publish_wake: Condvar::new(),
            local_wake: Condvar::new(),
            stopping: AtomicBool::new(false),
            lanes_ended: AtomicBool::new(false),
            keep_marker: AtomicBool::new(spec.doubt),
            stop_until: AtomicU64::new(0),
            pages: Mutex::new(VecDeque::new()),
            breaches: Breaches::default(),
            verified: AtomicU64::new(0),
            times: TaskTimes::default(),
            traffic: parts.traffic,
            resent_counted: Mutex::default(),
            cpu_before: penstock_sys::cpu_seconds(),
            paths: Mutex::default(),
        });
        let (threads, adopted) = (Mutex::new(Vec::new()), Mutex::new(parts.adopted));
        let task = Self { shared: Arc::clone(&shared), threads, adopted };
        let publisher = Arc::clone(&shared);
        task.spawn("publisher", move || publish::run(&publisher))?;
        task.spawn("coordinator", move || coordinate(&shared))?;
        Ok(task)
    }

    /// Returns whether the task belongs to the same transfer and writer.
    pub(crate) fn is_of(&self, spec: &TaskSpec) -> bool {
        let own = &self.shared.spec;
        (own.transfer, own.writer) == (spec.transfer, spec.writer)
    }

    fn spawn(&self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), TaskError> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
        let thread = thread.map_err(TaskError::Thread)?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }
}

impl Task for RunningTask {
    fn figures(&self) -> TaskFigures {
        let shared = &self.shared;
        let now = penstock_sys::boottime_now();
        let (time, bottleneck) = shared.times.present(now);
        let mut state = shared.lock();
        shared.count_resent(state.fetch.resent());
        let local = matches!(shared.reach, Reach::Local { .. });
        TaskFigures {
            bytes_verified: shared.verified.load(Ordering::Relaxed),
            bytes_resent: state.fetch.resent().all(),
            repairs: state.repairs,
            lanes: if local { 0 } else { state.lanes.up() },
            limit: bottleneck.map_or_else(String::new, |found| found.words()),
            time,
            waiting: waiting_of(shared, &state, local, now),
            hangs_s: shared.hang.lasts(now).as_secs(),
            not_kept: shared.tree.keeper.not_kept(),
            cpu_seconds: penstock_sys::cpu_seconds() - shared.cpu_before,
            paths: shared.paths().iter().cloned().collect(),
            share: state.share,
            rate_used: shared.pace.take_used(),
            names_used: shared.tree.names.take_used(),
            decisions: state.decisions.latest(now),
        }
    }

    fn incarnation(&self) -> Incarnation {
        self.shared.incarnation
    }

    fn hangs_for(&self) -> Duration {
        self.shared.hang.lasts(penstock_sys::boottime_now())
    }

    fn set_share(&self, share: &Share) {
        self.shared.set_share(share);
    }

    fn set_source_peers(&self, peers: &[DataAddress]) {
        if let Reach::Remote { dialer } = &self.shared.reach {
            paths::handle_peers(&self.shared, dialer, peers);
        }
    }

    fn doubt_is_over(&self) {
        self.shared.keep_marker.store(false, Ordering::Release);
    }

    fn take_adopted(&self) -> Option<Adopted> {
        self.adopted.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn committed(&self, batches: u64) {
        self.shared.kept.handle_committed(batches);
    }

    fn wake(&self) {
        self.shared.lock().news = true;
        self.shared.wake.notify_all();
    }

    fn leave(&self) {
        self.leave_behind();
    }

    fn stop(&self, discard: bool) {
        self.shared.kept.end();
        self.end_threads(discard);
    }
}

impl RunningTask {
    /// Ends the task. Returns its uncommitted reports. Returns `None` if it was stopped in order or
    /// its grant is over, since its pieces may belong to another peer.
    pub(crate) fn end_for_next(&self) -> Option<Handover> {
        let shared = &self.shared;
        let granted = shared.grant.as_ref().is_some_and(|grant| grant.holds());
        self.end_threads(true);
        let reports = shared.kept.reports().take();
        if reports.is_empty() || (shared.grant.is_some() && !granted) {
            return None;
        }
        let adopted = Adopted { epoch: shared.spec.fence.epoch(), granted, reports };
        let (transfer, writer) = (shared.spec.transfer, shared.spec.writer);
        Some(Handover { transfer, writer, incarnation: shared.incarnation, adopted })
    }

    /// Ends the task, and keeps its uncommitted reports for the next one.
    pub(crate) fn leave_behind(&self) {
        if let Some(left) = self.end_for_next() {
            self.shared.left.put(left);
        }
    }

    /// Ends its threads; joins them.
    pub(crate) fn end_threads(&self, discard: bool) {
        self.shared.begin_to_stop(discard);
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        shutdown::wait_for(&self.shared, threads);
        let resent = self.shared.lock().fetch.resent();
        self.shared.count_resent(resent);
        hand_over(&self.shared);
    }
}
