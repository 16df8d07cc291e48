//! Everything outside the processes: time, chance, network, source, disk; and the statistics.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use penstock_engine::fetch::Item;
use penstock_engine::slice::{Piece, slice, travels_whole};
use penstock_proto::id::LaneId;
use penstock_proto::journal::FailurePhase;
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::{Work, WorkReply};
use penstock_proto::units::Instant;
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use crate::Stats;
use crate::disk::{Disk, SyncTicket};
use crate::scenario::{Fault, Scenario};
use crate::source::{CELL_BYTES, DataSet, SCANNED, cells_of};

/// Status of an entry's bytes at the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Good,
    Failed(FailurePhase),
}

/// A part of an answer: some cells of one entry.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// Number among the frames of its lane.
    pub(crate) number: u64,
    pub(crate) entry: u32,
    /// True for the first frame of its entry in this answer.
    pub(crate) first: bool,
    /// True for the last frame of its entry.
    pub(crate) end: bool,
    /// True for the last frame of the answer.
    pub(crate) last: bool,
    pub(crate) status: Status,
    /// True if the digest will not match.
    pub(crate) corrupt: bool,
    pub(crate) at: usize,
    pub(crate) cells: Vec<u64>,
}

impl Frame {
    /// Returns an empty answer.
    fn empty(entry: u32) -> Self {
        Self {
            number: 0,
            entry,
            first: false,
            end: false,
            last: true,
            status: Status::Good,
            corrupt: false,
            at: 0,
            cells: Vec::new(),
        }
    }
}

/// An event at a moment.
#[derive(Debug)]
pub(crate) enum Event {
    PageFound,
    Tick {
        life: u64,
    },
    CommitDone {
        life: u64,
    },
    LaneUp {
        task: u64,
        lane: LaneId,
        good: bool,
    },
    Serve {
        task: u64,
        lane: LaneId,
        request: u32,
        item: Item,
    },
    Refused {
        task: u64,
        lane: LaneId,
        request: u32,
    },
    Frame {
        task: u64,
        lane: LaneId,
        request: u32,
        frame: Frame,
    },
    Reports {
        task: u64,
    },
    SyncDone {
        task: u64,
        epoch: u64,
    },
    PublishStep {
        task: u64,
    },
    TailDone {
        task: u64,
        work: Work,
    },
    LateWrite,
    Fault(Fault),
    NextFault,
    Restart,
    DiskFreed,
    SourceBack,
    ZombieWakes,
    /// A host joins the run, if there is one.
    Join {
        host: usize,
    },
    /// A peer of several examines its state, and asks for work.
    Turn {
        task: u64,
    },
    /// The request of a peer reaches the controller; it was sent at `asked`.
    Want {
        task: u64,
        bytes: u64,
        asked: Instant,
    },
    /// The answer reaches the peer; `None` if there is none.
    Answer {
        task: u64,
        reply: Option<WorkReply>,
        asked: Instant,
    },
    /// A host that was asleep continues.
    Wakes {
        host: usize,
    },
}

impl Event {
    /// Returns the task at whose peer the event happens.
    pub(crate) fn task(&self) -> Option<u64> {
        match self {
            Self::LaneUp { task, .. }
            | Self::Refused { task, .. }
            | Self::Frame { task, .. }
            | Self::Reports { task }
            | Self::SyncDone { task, .. }
            | Self::PublishStep { task }
            | Self::TailDone { task, .. }
            | Self::Turn { task }
            | Self::Answer { task, .. } => Some(*task),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct Link {
    bytes_per_second: u64,
    free_at: u64,
    silent: bool,
    /// Number of the last frame that the source has sent.
    sent: u64,
    /// Number of the last frame that the peer has got.
    arrived: u64,
}

/// Everything outside the processes of the target.
#[derive(Debug)]
pub(crate) struct Outside {
    pub(crate) rng: ChaCha8Rng,
    pub(crate) scenario: Scenario,
    pub(crate) time: u64,
    /// Nanoseconds by which the clock of the machines is ahead of `time`.
    pub(crate) leap: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    next_event: u64,
    pub(crate) tasks: u64,
    pub(crate) rtt: Duration,
    links: BTreeMap<(u64, LaneId), Link>,
    pub(crate) data: DataSet,
    pub(crate) pieces: Vec<Vec<Piece>>,
    pub(crate) disk: Disk,
    syncs: BTreeMap<u64, (SyncTicket, bool)>,
    pub(crate) next_sync_fails: bool,
    pub(crate) source_online: bool,
    pub(crate) enospc_waits: bool,
    /// Entries that the world made fail: only these may be failures in the end.
    pub(crate) excused: BTreeSet<(u32, u32)>,
    /// Files whose temporary name another program removed.
    pub(crate) sabotaged: BTreeSet<(u32, u32)>,
    /// Files that were discarded, by order of the controller.
    pub(crate) discarded: BTreeSet<(u32, u32)>,
    fetched: BTreeMap<PieceRef, u64>,
    /// Tasks that hold an attempt at a piece, and the time until which each may write (B3).
    holders: BTreeMap<(PieceRef, u32, u64), u64>,
    /// Number of the controller.
    pub(crate) life: u64,
    holds_until: BTreeMap<u64, Instant>,
    /// Factor by which the lanes of a task are slower than others.
    pub(crate) slow: BTreeMap<u64, u64>,
    pub(crate) stats: Stats,
    pub(crate) violation: Option<String>,
}

impl Outside {
    pub(crate) fn new(mut rng: ChaCha8Rng, scenario: Scenario, data: DataSet) -> Self {
        let rtt = Duration::from_micros([100, 10_000, 200_000][rng.random_range(0..3)]);
        let mut excused = BTreeSet::new();
        for (page, entries) in data.entries.iter().enumerate() {
            for (index, entry) in entries.iter().enumerate() {
                let broken = !entry.present || entry.denied || entry.unreadable || entry.unnameable;
                if broken {
                    excused.insert((page as u32, index as u32));
                }
            }
        }
        Self {
            scenario,
            time: 0,
            leap: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            next_event: 0,
            tasks: 0,
            rtt,
            links: BTreeMap::new(),
            pieces: data.pages.iter().map(|(page, _)| slice(page)).collect(),
            data,
            disk: Disk::default(),
            syncs: BTreeMap::new(),
            next_sync_fails: false,
            source_online: true,
            enospc_waits: rng.random_bool(0.7),
            rng,
            excused,
            sabotaged: BTreeSet::new(),
            discarded: BTreeSet::new(),
            fetched: BTreeMap::new(),
            holders: BTreeMap::new(),
            life: 0,
            holds_until: BTreeMap::new(),
            slow: BTreeMap::new(),
            stats: Stats::default(),
            violation: None,
        }
    }

    pub(crate) fn piece(&self, piece: PieceRef) -> Piece {
        self.pieces[piece.page as usize][piece.piece as usize]
    }

    pub(crate) fn is_packed(&self, page: u32, entry: u32) -> bool {
        let page = self.data.page(page);
        travels_whole(&page.slicing, &page.entries()[entry as usize])
    }

    pub(crate) fn size(&self, page: u32, entry: u32) -> u64 {
        self.data.page(page).entries()[entry as usize].size
    }

    /// Returns the clock as machines see it.
    pub(crate) fn now(&self) -> Instant {
        Instant(self.time + self.leap)
    }

    pub(crate) fn fail(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    pub(crate) fn at(&mut self, time: u64, event: Event) {
        self.queue.push(Reverse((time, self.next_event)));
        self.events.insert(self.next_event, event);
        self.next_event += 1;
    }

    /// Schedules an event between `least` and `most` milliseconds from now.
    pub(crate) fn after_ms(&mut self, least: u64, most: u64, event: Event) {
        let delay = self.rng.random_range(least * 1_000_000..=most * 1_000_000);
        self.at(self.time + delay, event);
    }

    /// Takes the next event, and moves the time to it.
    pub(crate) fn next(&mut self) -> Option<Event> {
        let Reverse((time, number)) = self.queue.pop()?;
        self.time = time;
        self.events.remove(&number)
    }

    pub(crate) fn dial(&mut self, task: u64, lane: LaneId) {
        let good = self.source_online && !self.rng.random_bool(0.05);
        let slow = self.slow.get(&task).copied().unwrap_or(1);
        let link = Link {
            bytes_per_second: self.rng.random_range(500_000..20_000_000) / slow,
            free_at: 0,
            silent: false,
            sent: 0,
            arrived: 0,
        };
        self.links.insert((task, lane), link);
        let at = self.time + 2 * self.rtt.as_nanos() as u64;
        self.at(at, Event::LaneUp { task, lane, good });
    }

    pub(crate) fn lane_closed(&mut self, task: u64, lane: LaneId) {
        self.links.remove(&(task, lane));
    }

    /// Makes a lane silent, without closing it.
    pub(crate) fn silence(&mut self, task: u64, lane: LaneId) {
        if let Some(link) = self.links.get_mut(&(task, lane)) {
            link.silent = true;
        }
    }

    pub(crate) fn send_request(&mut self, task: u64, lane: LaneId, request: u32, item: Item) {
        let at = self.time + self.rtt.as_nanos() as u64 / 2;
        self.at(at, Event::Serve { task, lane, request, item });
    }

    /// Answers a request, as the source.
    pub(crate) fn serve(&mut self, task: u64, lane: LaneId, request: u32, item: Item) {
        let service = self.rng.random_range(0..3_000_000);
        let start = self.time + service;
        let way = self.rtt.as_nanos() as u64 / 2;
        if !self.source_online {
            self.at(start + way, Event::Refused { task, lane, request });
            return;
        }
        let mut frames = Vec::new();
        for entry in item.first_entry..item.end_entry {
            if item.length > 0 || self.is_packed(item.piece.page, entry) {
                self.read_entry(&item, entry, &mut frames);
            }
        }
        match frames.last_mut() {
            Some(frame) => frame.last = true,
            // The requested range has none of the small files between the others.
            None => frames.push(Frame::empty(item.first_entry)),
        }
        // Frames that a confused source sends twice have no request.
        let twice = self.scenario.network && self.rng.random_bool(0.01);
        let again = if twice { frames.clone() } else { Vec::new() };
        for frame in frames.into_iter().chain(again) {
            let Some(link) = self.links.get_mut(&(task, lane)) else { return };
            if link.silent {
                return;
            }
            let bytes = (frame.cells.len() as u64 * CELL_BYTES).max(200);
            let carried = bytes * 1_000_000_000 / link.bytes_per_second;
            link.free_at = link.free_at.max(start) + carried;
            let arrives = link.free_at + way;
            link.sent += 1;
            let frame = Frame { number: link.sent, ..frame };
            self.at(arrives, Event::Frame { task, lane, request, frame });
        }
    }

    /// Checks the model itself: a lane is one stream, so that its frames arrive all, and in order.
    pub(crate) fn check_order(&mut self, task: u64, lane: LaneId, number: u64) {
        let Some(link) = self.links.get_mut(&(task, lane)) else { return };
        link.arrived += 1;
        let expected = link.arrived;
        if number != expected {
            self.fail(format!("the model: frame {number} of {lane:?} arrives as {expected}"));
        }
    }

    fn read_entry(&mut self, item: &Item, entry: u32, frames: &mut Vec<Frame>) {
        let page = item.piece.page;
        let of = self.data.entry_of(page, entry).clone();
        let mut frame = Frame { first: true, end: true, last: false, ..Frame::empty(entry) };
        let hiccup = self.scenario.trouble && self.rng.random_bool(0.03);
        let failed = if !of.present {
            Some(FailurePhase::Vanished)
        } else if of.denied || of.unreadable || hiccup {
            Some(FailurePhase::Read)
        } else if of.version != SCANNED && self.rng.random_bool(0.7) {
            Some(FailurePhase::Changed)
        } else {
            None
        };
        if let Some(phase) = failed {
            self.excused.insert((page, entry));
            frames.push(Frame { status: Status::Failed(phase), ..frame });
            return;
        }
        let cells = of.cells(of.version);
        let range =
            if item.length > 0 { cells_of(item.offset, item.length) } else { 0..cells.len() };
        // A change is seen before or after reading: in the second case the bytes are sent already.
        let changed = of.version != SCANNED;
        let mut at = range.start;
        while at < range.end {
            let stop = (at + 2).min(range.end);
            frame.at = at;
            frame.cells = cells[at..stop].to_vec();
            frame.end = stop == range.end && !changed;
            frame.corrupt = self.scenario.network && self.rng.random_bool(0.01);
            if frame.corrupt {
                self.excused.insert((page, entry));
            }
            frames.push(frame.clone());
            frame.first = false;
            at = stop;
        }
        if changed || frames.last().is_none_or(|last| last.entry != entry) {
            frame.cells = Vec::new();
            frame.end = !changed;
            frame.corrupt = false;
            if changed {
                self.excused.insert((page, entry));
                frame.status = Status::Failed(FailurePhase::Changed);
            }
            frames.push(frame);
        }
    }

    pub(crate) fn begin_sync(&mut self, task: u64, host: u32, epoch: u64) {
        let fails = std::mem::take(&mut self.next_sync_fails);
        self.syncs.insert(task, (self.disk.begin_sync(host), !fails));
        self.after_ms(1, 800, Event::SyncDone { task, epoch });
    }

    /// Returns whether a sync is in progress that will fail.
    pub(crate) fn is_sync_failing(&self) -> bool {
        self.syncs.values().any(|(_, good)| !good)
    }

    /// Ends a sync, as the kernel does even if no process waits for it; `None` after a power cut.
    pub(crate) fn end_sync(&mut self, task: u64) -> Option<bool> {
        let (ticket, good) = self.syncs.remove(&task)?;
        self.disk.end_sync(ticket, good, &mut self.rng);
        self.stats.syncs += 1;
        self.stats.syncs_failed += u64::from(!good);
        Some(good)
    }

    /// Forgets syncs in progress, which cover nothing of the present disk.
    pub(crate) fn forget_syncs(&mut self) {
        self.syncs.clear();
    }

    pub(crate) fn power_cut(&mut self) {
        self.forget_syncs();
        let luck = [0.0, 0.3, 0.9, 1.0][self.rng.random_range(0..4)];
        self.disk.power_cut(0, luck, &mut self.rng);
    }

    /// Records that the world made this entry fail.
    pub(crate) fn excuse(&mut self, page: u32, entry: u32) {
        self.excused.insert((page, entry));
    }

    /// Checks promise (b), A1, B1: a name is given to a file that is whole, of one version, and
    /// synced.
    pub(crate) fn check_publication(&mut self, host: u32, page: u32, entry: u32, inode: u64) {
        let wanted = self.data.entry_of(page, entry).cells(SCANNED);
        let found = self.disk.cached(host, inode);
        if found != wanted {
            self.fail(format!("(b): {page}/{entry} gets its name as {found:x?}, not {wanted:x?}"));
        } else if self.disk.stable_cells(inode) != wanted {
            self.fail(format!("(b), A1: {page}/{entry} gets its name before it is synced"));
        }
    }

    /// Sets the time until which the grant of a task holds.
    pub(crate) fn holds(&mut self, task: u64, until: Instant) {
        self.holds_until.insert(task, until);
    }

    /// Checks B3: a task begins a piece, and no other may write to it now. Each writer of a pack
    /// has files of its own, so that grants of an earlier controller for packs do not matter.
    pub(crate) fn begin_piece(&mut self, task: u64, piece: PieceRef, generation: u32) {
        let now = self.now();
        let key = self.holder_key(piece, generation);
        let before = self.holders.insert(key, task);
        let other = before.filter(|other| *other != task);
        let until = other.and_then(|other| self.holds_until.get(&other).copied());
        if until.is_some_and(|until| now < until) {
            self.fail(format!("B3: {piece:?}, attempt {generation}, is written by two: {other:?}"));
        }
    }

    fn holder_key(&self, piece: PieceRef, generation: u32) -> (PieceRef, u32, u64) {
        let pack = matches!(self.piece(piece), Piece::Pack { .. });
        (piece, generation, if pack { self.life } else { 0 })
    }

    /// Records that the task no longer writes to the piece.
    pub(crate) fn end_piece(&mut self, task: u64, piece: PieceRef, generation: u32) {
        let key = self.holder_key(piece, generation);
        if self.holders.get(&key) == Some(&task) {
            self.holders.remove(&key);
        }
    }

    /// Ends a task.
    pub(crate) fn end_task(&mut self, task: u64) {
        self.holds_until.remove(&task);
    }

    /// Forgets the sync of a task whose host lost power.
    pub(crate) fn forget_sync(&mut self, task: u64) {
        self.syncs.remove(&task);
    }

    /// Counts a piece that has come over the network, for the first time or again.
    pub(crate) fn count_fetched(&mut self, piece: PieceRef, bytes: u64) {
        let times = self.fetched.entry(piece).or_default();
        *times += 1;
        self.stats.bytes_fetched += bytes;
        if *times > 1 {
            self.stats.bytes_again += self.piece(piece).bytes();
        }
    }
}
