//! The load of this host, for its operators: tasks with their paths, and lanes served; and the
//! figures of its data plane.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use penstock_api::operate::{TaskLoad, TaskPath};
use penstock_engine::paths::{PathId, PathState};
use penstock_proto::id::Name;
use penstock_sys::buffer::BufferUsage;

use crate::lane::dialer::Dialer;
use crate::lane::path_notes::{PathListener, PathNote};
use crate::served_transfers::TransferTraffic;
use crate::source::SourceService;
use crate::stores::StoreFigures;
use crate::target::TargetService;
use crate::task::context::{TaskContext, TaskState};
use crate::task::reach::Reach;
use crate::task::running_task::RunningTask;
use crate::traffic::TrafficFigures;

/// Bytes and pieces that wait in the tasks of this host, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskQueues {
    /// Tasks.
    pub tasks: usize,
    /// Requests that no lane has asked for.
    pub queued: usize,
    /// Requests that failed and wait for another attempt.
    pub retrying: usize,
    /// Requests that lanes have asked for.
    pub asked: usize,
    /// Bytes that were written since the last sync began.
    pub unsynced_bytes: u64,
    /// Pieces that wait for their names.
    pub nameless: usize,
    /// Reports that the controller has not taken.
    pub reports: usize,
}

impl TaskQueues {
    fn add(&mut self, state: &TaskState) {
        let (fetch, epochs) = (state.fetch.counts(), state.epochs.counts());
        self.tasks += 1;
        self.queued += fetch.queued;
        self.retrying += fetch.retrying;
        self.asked += fetch.asked;
        self.unsynced_bytes += epochs.unsynced_bytes;
        self.nameless += epochs.nameless;
        self.reports += state.reports.len();
    }
}

/// Figures of the target side of this host.
#[derive(Clone, Debug)]
pub struct TargetFigures {
    /// Bytes and pieces that wait in the tasks.
    pub queues: TaskQueues,
    /// Lanes and bytes by source site.
    pub traffic: Vec<TrafficFigures>,
    /// Buffers for strides, which all tasks share; lanes wait where none is free.
    pub buffers: BufferUsage,
    /// Connections that were dialled ahead and no lane has taken.
    pub connections_ahead: usize,
    /// Reports of ended tasks that wait for the next controller.
    pub handovers: usize,
    /// Paths to each site, from transfers since the process began.
    pub paths: Vec<(Name, PathNote)>,
    /// Calls to the stores of this host.
    pub stores: Vec<StoreFigures>,
}

/// Figures of the source side of this host.
#[derive(Clone, Debug)]
pub struct SourceFigures {
    /// Lanes and bytes by target site.
    pub traffic: Vec<TrafficFigures>,
    /// Scans that have a place in the table.
    pub scans: usize,
}

impl TargetService {
    /// Returns the figures of the target side. Takes short locks, and none that is held over I/O.
    pub fn figures(&self) -> TargetFigures {
        let mut queues = TaskQueues::default();
        self.running().iter().for_each(|task| queues.add(&task.shared.lock()));
        TargetFigures {
            queues,
            traffic: self.traffic.figures(),
            buffers: self.pool.usage(),
            connections_ahead: self.book.ahead.count(),
            handovers: self.left.kept(),
            paths: self.book.all(),
            stores: self.stores.figures(),
        }
    }

    /// Returns the tasks that run here, from all controllers, as those of `peer`.
    pub fn loads(&self, peer: &Name) -> Vec<TaskLoad> {
        let tasks = self.running();
        let mut loads: Vec<_> = tasks.iter().map(|task| load_of(&task.shared, peer)).collect();
        loads.sort_by_key(|load| load.transfer);
        loads
    }

    /// Returns the verified bytes of each task of this host. Takes short locks, and none that is
    /// held over I/O.
    pub fn transfers(&self) -> Vec<TransferTraffic> {
        let figures = |task: &Arc<RunningTask>| {
            let state = task.shared.lock();
            TransferTraffic {
                transfer: task.shared.spec.transfer,
                bytes: task.shared.verified.load(Ordering::Relaxed),
                lanes: state.closers.len() as u64,
                cipher: match &task.shared.reach {
                    Reach::Local { .. } => Some("none"),
                    Reach::Remote { .. } => state.cipher,
                },
            }
        };
        self.running().iter().map(figures).collect()
    }

    fn running(&self) -> Vec<Arc<RunningTask>> {
        let mut kept = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|task| task.strong_count() > 0);
        kept.iter().filter_map(std::sync::Weak::upgrade).collect()
    }

    /// Sets the listener for changes of the paths of this host's tasks.
    pub fn listen_to_paths(&self, listener: PathListener) {
        self.book.listen(listener);
    }
}

impl SourceService {
    /// Returns the figures of the source side. Takes short locks, and none that is held over I/O.
    pub fn figures(&self) -> SourceFigures {
        SourceFigures { traffic: self.traffic.figures(), scans: self.scans_count() }
    }

    /// Returns the bytes that the lanes of this host have sent, for each transfer with lanes.
    pub fn transfers(&self) -> Vec<TransferTraffic> {
        self.served.figures()
    }

    /// Lanes that are served now.
    pub fn lanes_served(&self) -> u32 {
        self.lanes.load(Ordering::Relaxed)
    }

    /// Sets whether new lanes are refused. Open lanes then end, each after its present request.
    pub fn set_draining(&self, draining: bool) {
        self.draining.store(draining, Ordering::Relaxed);
    }
}

fn load_of(shared: &TaskContext, peer: &Name) -> TaskLoad {
    let state = shared.lock();
    let paths: Vec<TaskPath> = match &shared.reach {
        Reach::Local { .. } => Vec::new(),
        Reach::Remote { dialer } => {
            state.lanes.ids().filter_map(|path| path_of(&state, dialer, path)).collect()
        }
    };
    TaskLoad {
        transfer: shared.spec.transfer,
        peer: peer.clone(),
        source: match &shared.reach {
            Reach::Local { .. } => None,
            Reach::Remote { dialer } => Some(dialer.site.clone()),
        },
        store: shared.spec.store.clone(),
        bytes_verified: shared.verified.load(Ordering::Relaxed),
        rate_bits_per_s: paths.iter().map(|path| path.rate_bits_per_s).sum(),
        lanes: paths.iter().map(|path| path.lanes).sum(),
        paths,
    }
}

fn path_of(state: &TaskState, dialer: &Dialer, path: PathId) -> Option<TaskPath> {
    let ends = dialer.ends(path)?;
    let note = dialer.book.get(&dialer.site, &ends);
    let (now, carries) = (state.lanes.state(path), state.lanes.state(path) == PathState::Carrying);
    let of_path = |lane: &&_| state.lanes.path_of_lane(**lane) == Some(path);
    let rate = if carries { state.fetch.rate_of(path) } else { 0.0 };
    Some(TaskPath {
        from: ends.local.to_string(),
        to: ends.remote.address,
        to_peer: ends.remote.peer.clone(),
        network: ends.network(),
        state: now.as_str().to_owned(),
        since: note.as_ref().map_or(0, |note| note.since),
        why: note.as_ref().filter(|_| !carries).map_or_else(String::new, |note| note.why.clone()),
        lanes: state.closers.keys().filter(of_path).count() as u32,
        rate_bits_per_s: rate * 8.0,
        rtt_us: note.and_then(|note| note.rtt).map(|rtt| rtt.as_micros() as u64),
    })
}
