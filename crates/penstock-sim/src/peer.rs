//! The target peer's edge: the work of `penstock-peer`'s threads, done here one event at a time.
//!
//! [`Peer`] holds everything that a kill removes; disk, source and time are in [`Outside`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use penstock_engine::epoch::{EpochAction, EpochLimits, EpochMachine, Publication};
use penstock_engine::fetch::{FetchMachine, FetchedPiece, Item, Part, Request};
use penstock_engine::lanes::{LaneAction, LaneLimits, LaneMachine};
use penstock_engine::lease::HeldLease;
use penstock_engine::slice::Piece;
use penstock_engine::uncommitted::UncommittedReports;
use penstock_proto::id::{LaneId, WriterId};
use penstock_proto::journal::{EntryDigest, EntryFailure, FailurePhase};
use penstock_proto::manifest::EntryKind;
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::{Report, Work};
use rand::RngExt as _;

use crate::disk::{Name, Node};
use crate::outside::{Event, Frame, Outside, Status};
use crate::source::{CELL_BYTES, SCANNED, cells_of, cells_of_parts, digest_of, stride_of};

/// An answer that is arriving.
#[derive(Debug)]
struct Arriving {
    item: Item,
    lane: LaneId,
    digests: Vec<EntryDigest>,
    part: Option<Part>,
    failures: Vec<EntryFailure>,
    bytes: u64,
    /// Cells of the extent or of the present entry, as they were checked.
    cells: Vec<u64>,
    broken: bool,
}

/// A target peer's process state.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Number that distinguishes this peer's events from those of the previous one.
    pub(crate) task: u64,
    /// Host whose page cache it writes to, and by which its files are named.
    pub(crate) host: u32,
    writer: WriterId,
    pub(crate) fetch: FetchMachine,
    lanes: LaneMachine,
    epochs: EpochMachine,
    arriving: BTreeMap<u32, Arriving>,
    alive: BTreeSet<LaneId>,
    draining: BTreeSet<LaneId>,
    lane_bytes: BTreeMap<LaneId, u64>,
    /// Pieces in progress, with their generation.
    in_hand: BTreeMap<PieceRef, u32>,
    /// Packs that are written, with the entries without a file to name.
    unnamed: BTreeMap<PieceRef, Vec<u32>>,
    handles: BTreeMap<Name, u64>,
    publishing: VecDeque<Publication>,
    pub(crate) reports: VecDeque<Report>,
    /// Reports that were not committed yet, and the number of batches.
    pub(crate) kept: UncommittedReports,
    pub(crate) batches: u64,
    /// Bytes that are written and whose report is not committed (A7).
    pub(crate) syncing: bool,
    keep_marker: bool,
    /// Grant to write; none where it is the only peer, which may write as long as it lives.
    pub(crate) held: Option<HeldLease>,
    /// Duration of that grant.
    pub(crate) grant: Duration,
    /// True if it was not allowed to write: the task is over.
    pub(crate) over: bool,
    /// Pieces that it wrote or found written, of which some may not be durable.
    pub(crate) wrote: BTreeSet<PieceRef>,
}

impl Peer {
    pub(crate) fn new(
        out: &mut Outside,
        (host, writer): (u32, WriterId),
        epoch: u64,
        keep_marker: bool,
    ) -> Self {
        out.tasks += 1;
        let limits = EpochLimits {
            bytes: 4 << 20,
            files: out.rng.random_range(4..40),
            age: Duration::from_millis(out.rng.random_range(100..2000)),
            ..EpochLimits::default()
        };
        let lanes = LaneLimits {
            workers: out.rng.random_range(1..4),
            lanes_max: 6,
            lane_bytes_max: 8 << 20,
            lane_age_max: Duration::from_secs(out.rng.random_range(2..60)),
        };
        let mut fetch = FetchMachine::new();
        fetch.cut_from(if out.rng.random_bool(0.5) { CELL_BYTES } else { u64::MAX });
        if writer != WriterId::SOLE {
            fetch.share();
        }
        Self {
            task: out.tasks,
            host,
            writer,
            fetch,
            lanes: LaneMachine::new(lanes, out.rng.random()),
            epochs: EpochMachine::new(epoch, limits),
            arriving: BTreeMap::new(),
            alive: BTreeSet::new(),
            draining: BTreeSet::new(),
            lane_bytes: BTreeMap::new(),
            in_hand: BTreeMap::new(),
            unnamed: BTreeMap::new(),
            handles: BTreeMap::new(),
            publishing: VecDeque::new(),
            reports: VecDeque::new(),
            kept: UncommittedReports::default(),
            batches: 0,
            syncing: false,
            keep_marker,
            held: None,
            grant: Duration::ZERO,
            over: false,
            wrote: BTreeSet::new(),
        }
    }

    /// Returns whether its grant allows it to write now (B4).
    pub(crate) fn may_write(&mut self, out: &Outside) -> bool {
        self.over |= self.held.as_ref().is_some_and(|held| !held.holds(out.now()));
        !self.over
    }

    /// Returns pieces worth so many bytes that it has not begun.
    pub(crate) fn give_back(&mut self, out: &mut Outside, bytes: u64) {
        for (piece, generation) in self.fetch.take_back(bytes) {
            self.in_hand.remove(&piece);
            out.end_piece(self.task, piece, generation);
            out.stats.given_back += 1;
            self.report(out, Report::Returned { piece, generation });
        }
    }

    /// Returns a description for a world that is stuck.
    pub(crate) fn dump(&self) -> String {
        format!(
            "peer: in hand {:?}\nlanes alive {:?}, wanted bytes {}\nepochs {:?}\nfetch {:?}",
            self.in_hand,
            self.alive,
            self.fetch.wanted_bytes(),
            self.epochs,
            self.fetch,
        )
    }

    /// Lets the edge act on the requests of the machines.
    pub(crate) fn turn(&mut self, out: &mut Outside) {
        let returned = self.fetch.take_returned();
        self.returned(out, returned);
        while let Some(action) = self.lanes.poll_action(out.now()) {
            match action {
                LaneAction::Dial(lane) => out.dial(self.task, lane),
                LaneAction::Drain(lane) => {
                    self.fetch.handle_lane_draining(lane);
                    self.draining.insert(lane);
                }
            }
        }
        for lane in self.fetch.poll_silent_lanes(out.now()) {
            out.stats.lanes_cut += 1;
            self.lane_down(out, lane, true);
        }
        let idle = |lane: &&LaneId| self.fetch.lane_is_idle(**lane);
        let closed: Vec<LaneId> = self.draining.iter().filter(idle).copied().collect();
        for lane in closed {
            self.lane_down(out, lane, false);
        }
        let mut lanes: Vec<LaneId> = self.alive.iter().copied().collect();
        while !lanes.is_empty() {
            let at = out.rng.random_range(0..lanes.len());
            match self.fetch.poll_request(out.now(), lanes[at]) {
                Some(request) => self.ask(out, lanes[at], request),
                None => {
                    lanes.swap_remove(at);
                }
            }
        }
        match self.epochs.poll_action(out.now()) {
            Some(EpochAction::Sync { epoch }) => {
                if !self.keep_marker {
                    out.disk.set_marker(self.writer, epoch);
                }
                self.syncing = true;
                out.begin_sync(self.task, self.host, epoch);
            }
            Some(EpochAction::Publish { pieces }) => {
                self.publishing.extend(pieces);
                out.after_ms(1, 30, Event::PublishStep { task: self.task });
            }
            None => {}
        }
    }

    /// Marks epochs on the store again: no data is in doubt (A5).
    pub(crate) fn doubt_is_over(&mut self) {
        self.keep_marker = false;
    }

    /// Returns the bytes of further work to ask the controller for.
    pub(crate) fn wanted_bytes(&self) -> u64 {
        self.fetch.wanted_bytes().min(2 << 20)
    }

    /// Returns whether no sync is in progress and no report waits.
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.syncing && self.reports.is_empty()
    }

    pub(crate) fn flush(&mut self) {
        self.epochs.handle_flush();
    }

    /// Returns the pieces that were granted and are not reported.
    pub(crate) fn pieces_in_hand(&self) -> impl Iterator<Item = PieceRef> + '_ {
        self.in_hand.keys().copied()
    }

    fn ask(&mut self, out: &mut Outside, lane: LaneId, request: Request) {
        let item = request.item;
        let arriving = Arriving {
            item,
            lane,
            digests: Vec::new(),
            part: None,
            failures: Vec::new(),
            bytes: 0,
            cells: Vec::new(),
            broken: false,
        };
        self.arriving.insert(request.request, arriving);
        out.send_request(self.task, lane, request.request, item);
    }

    pub(crate) fn lane_up(&mut self, out: &mut Outside, lane: LaneId, good: bool) {
        if !good {
            self.lanes.handle_down(out.now(), lane, true);
            return;
        }
        let rtt = out.rtt;
        self.alive.insert(lane);
        self.lanes.handle_up(out.now(), lane);
        self.lanes.handle_rtt(rtt);
        self.fetch.handle_lane_up(out.now(), lane);
        self.fetch.handle_rtt(rtt);
    }

    pub(crate) fn lane_down(&mut self, out: &mut Outside, lane: LaneId, failed: bool) {
        if !self.alive.remove(&lane) {
            return;
        }
        self.draining.remove(&lane);
        self.arriving.retain(|_, arriving| arriving.lane != lane);
        self.fetch.handle_lane_down(lane);
        self.lanes.handle_down(out.now(), lane, failed);
        out.lane_closed(self.task, lane);
    }

    /// Returns a random lane that is open.
    pub(crate) fn some_lane(&self, out: &mut Outside) -> Option<LaneId> {
        let lanes: Vec<_> = self.alive.iter().copied().collect();
        (!lanes.is_empty()).then(|| lanes[out.rng.random_range(0..lanes.len())])
    }

    /// Accepts one piece of work.
    pub(crate) fn take(&mut self, out: &mut Outside, work: Work) {
        if !self.may_write(out) {
            return;
        }
        match work {
            Work::Fetch { piece, generation, fresh } => {
                self.fetch_piece(out, piece, generation, fresh)
            }
            Work::Recheck { piece, generation, doubt, digests, failures } => {
                self.recheck(out, piece, generation, doubt, digests, failures);
            }
            Work::Finish { piece, generation } => {
                self.epochs.handle_finish(Publication { piece, generation });
            }
            Work::Discard { page, entry, generation } => {
                self.forget(out, page, entry, generation);
                out.discarded.insert((page, entry));
                let name = self.temporary(out, page, entry, generation);
                out.disk.remove(name);
            }
            Work::Links { .. } | Work::Directories { .. } => {
                out.after_ms(1, 100, Event::TailDone { task: self.task, work });
            }
        }
    }

    fn fetch_piece(&mut self, out: &mut Outside, piece: PieceRef, generation: u32, fresh: bool) {
        let cut = out.piece(piece);
        let mut item = Item {
            piece,
            generation,
            fresh,
            first_entry: 0,
            end_entry: 0,
            offset: 0,
            length: 0,
            bytes: cut.bytes(),
            attempt: 1,
        };
        match cut {
            Piece::Pack { first, end, .. } => (item.first_entry, item.end_entry) = (first, end),
            Piece::Extent { entry, offset, length } => {
                (item.first_entry, item.end_entry) = (entry, entry + 1);
                (item.offset, item.length) = (offset, length);
                if fresh {
                    self.make_fresh(out, piece.page, entry, generation);
                }
            }
            Piece::Finish { .. } => out.fail(format!("a finish is fetched: {piece:?}")),
        }
        if let Some(before) = self.in_hand.insert(piece, generation) {
            out.end_piece(self.task, piece, before);
        }
        out.begin_piece(self.task, piece, generation);
        out.stats.fetches += 1;
        self.fetch.handle_granted(item);
    }

    /// Returns the temporary name of a file. Several peers write to a large file, each to its own
    /// small ones (B1).
    fn temporary(&self, out: &Outside, page: u32, entry: u32, generation: u32) -> Name {
        let shared = !out.is_packed(page, entry);
        let writer = if shared { WriterId::SOLE } else { self.writer };
        Name::Temporary(page, entry, generation, writer)
    }

    /// Makes a new temporary file; a leftover one is removed, never reused (B1).
    fn make_fresh(&mut self, out: &mut Outside, page: u32, entry: u32, generation: u32) {
        let name = self.temporary(out, page, entry, generation);
        let cells = out.data.entry_of(page, entry).cells(SCANNED).len();
        out.disk.remove(name);
        self.handles.remove(&name);
        if let Some(inode) = out.disk.create(name, cells) {
            self.handles.insert(name, inode);
        }
    }

    /// Returns the file to write to; opened without O_CREAT if it is not open.
    fn open(&mut self, out: &Outside, name: Name) -> Option<u64> {
        if let Some(inode) = self.handles.get(&name) {
            // A handle outlives its name: check whether the name still denotes it.
            return (out.disk.file(name) == Some(*inode)).then_some(*inode);
        }
        let inode = out.disk.file(name)?;
        self.handles.insert(name, inode);
        Some(inode)
    }

    /// Handles a frame that has arrived.
    pub(crate) fn frame(&mut self, out: &mut Outside, lane: LaneId, request: u32, frame: Frame) {
        out.check_order(self.task, lane, frame.number);
        if !self.alive.contains(&lane) || !self.may_write(out) {
            return;
        }
        let Some(mut arriving) = self.arriving.remove(&request) else { return };
        let now = out.now();
        self.fetch.handle_begun(request);
        self.fetch.handle_bytes(now, lane, frame.cells.len() as u64 * CELL_BYTES);
        let carried = self.lane_bytes.entry(lane).or_default();
        *carried += frame.cells.len() as u64 * CELL_BYTES;
        self.lanes.handle_bytes(lane, *carried);
        let current = self.in_hand.get(&arriving.item.piece) == Some(&arriving.item.generation);
        if current && !self.write(out, &mut arriving, &frame) {
            self.lost(out, arriving.item);
            return;
        }
        if !frame.last {
            self.arriving.insert(request, arriving);
            return;
        }
        if out.enospc_waits && arriving.failures.iter().any(|failure| failure.errno == 28) {
            self.fetch.handle_refused(now, request, Duration::from_millis(300));
            return;
        }
        let Arriving { digests, part, failures, bytes, .. } = arriving;
        if let Some(part) = part {
            self.fetch.handle_part(request, part);
        }
        if let Some(done) = self.fetch.handle_answered(now, request, digests, failures, bytes) {
            self.fetched(out, done);
        }
    }

    /// Checks and writes the content of a frame; `false` if the file of an extent is gone.
    fn write(&mut self, out: &mut Outside, arriving: &mut Arriving, frame: &Frame) -> bool {
        let item = arriving.item;
        let (page, entry) = (item.piece.page, frame.entry);
        let fail = |arriving: &mut Arriving, phase, errno| {
            if !std::mem::replace(&mut arriving.broken, true) {
                arriving.failures.push(EntryFailure { entry, phase, errno });
            }
        };
        if frame.first {
            arriving.broken = false;
            arriving.cells.clear();
            if item.length == 0 && frame.status == Status::Good {
                self.make_fresh(out, page, entry, item.generation);
            }
        }
        match frame.status {
            Status::Good => {}
            Status::Failed(phase) => fail(arriving, phase, 5),
        }
        if frame.corrupt {
            fail(arriving, FailurePhase::Digest, 0);
        }
        if arriving.broken {
            return true;
        }
        let name = self.temporary(out, page, entry, item.generation);
        let Some(inode) = self.open(out, name) else { return item.length == 0 };
        for (at, cell) in frame.cells.iter().enumerate() {
            if !out.disk.write(self.host, inode, frame.at + at, *cell) {
                out.excuse(page, entry);
                fail(arriving, FailurePhase::Write, 28);
                return true;
            }
            arriving.cells.push(*cell);
        }
        if frame.end {
            if item.length > 0 {
                let strides = arriving.cells.iter().map(|cell| stride_of(*cell)).collect();
                let offset = item.offset;
                arriving.part = Some(Part { offset, strides, sparse: false, seen: None });
            } else {
                arriving.digests.push(digest_of(entry, &arriving.cells));
            }
            arriving.bytes += if item.length > 0 { item.length } else { out.size(page, entry) };
        }
        true
    }

    /// Handles the loss of a large file's temporary file.
    fn lost(&mut self, out: &mut Outside, item: Item) {
        let (page, entry, generation) = (item.piece.page, item.first_entry, item.generation);
        self.forget(out, page, entry, generation);
        self.report(out, Report::Lost { page, entry, generation });
    }

    /// Drops the work in progress for one attempt at a large file.
    fn forget(&mut self, out: &mut Outside, page: u32, entry: u32, generation: u32) {
        for index in 0..out.pieces[page as usize].len() {
            let cut = out.pieces[page as usize][index];
            let piece = PieceRef { page, piece: index as u32 };
            let of_file = matches!(cut, Piece::Extent { entry: of, .. } if of == entry);
            if of_file && self.in_hand.get(&piece) == Some(&generation) {
                self.in_hand.remove(&piece);
                out.end_piece(self.task, piece, generation);
                self.fetch.handle_forgotten(piece);
            }
        }
        self.handles.remove(&self.temporary(out, page, entry, generation));
    }

    pub(crate) fn refused(&mut self, out: &mut Outside, lane: LaneId, request: u32) {
        if self.alive.contains(&lane) && self.arriving.remove(&request).is_some() {
            self.fetch.handle_refused(out.now(), request, Duration::from_millis(500));
        }
    }

    fn fetched(&mut self, out: &mut Outside, done: FetchedPiece) {
        let FetchedPiece { piece, generation, mut digests, failures, bytes, parts } = done;
        if let Piece::Extent { entry, .. } = out.piece(piece)
            && failures.is_empty()
        {
            digests.push(digest_of(entry, &cells_of_parts(&parts)));
        }
        if self.in_hand.get(&piece) != Some(&generation) {
            return;
        }
        out.count_fetched(piece, bytes);
        self.written(out, piece, generation, digests, failures, true);
    }

    fn written(
        &mut self,
        out: &mut Outside,
        piece: PieceRef,
        generation: u32,
        digests: Vec<EntryDigest>,
        failures: Vec<EntryFailure>,
        fetched: bool,
    ) {
        self.in_hand.remove(&piece);
        self.wrote.insert(piece);
        out.end_piece(self.task, piece, generation);
        let cut = out.piece(piece);
        let pack = matches!(cut, Piece::Pack { .. });
        if pack {
            for failure in &failures {
                let name = self.temporary(out, piece.page, failure.entry, generation);
                out.disk.remove(name);
            }
            self.unnamed.insert(piece, failures.iter().map(|failure| failure.entry).collect());
        }
        let publish = pack.then_some(Publication { piece, generation });
        let files = u64::from(cut.files());
        let epoch = self.epochs.handle_written(out.now(), cut.bytes(), files, publish);
        let report = Report::Written { piece, generation, epoch, digests, failures, fetched };
        self.report(out, report);
    }

    fn recheck(
        &mut self,
        out: &mut Outside,
        piece: PieceRef,
        generation: u32,
        doubt: bool,
        digests: Vec<EntryDigest>,
        failures: Vec<EntryFailure>,
    ) {
        out.stats.rechecks += 1;
        let page = piece.page;
        let place = |out: &Outside, entry| {
            let named = out.disk.file(Name::Final(page, entry));
            out.disk.file(self.temporary(out, page, entry, generation)).or(named)
        };
        let same = |out: &mut Outside, entry, range: std::ops::Range<usize>, inode| {
            if doubt {
                // Data that a failed sync lost reads back right from the cache (A4, A9).
                out.disk.drop_clean(self.host, inode);
            }
            let found = digest_of(entry, &out.disk.cached(self.host, inode)[range]);
            !doubt || digests.iter().any(|known| known.entry == entry && *known == found)
        };
        match out.piece(piece) {
            Piece::Pack { first, end, .. } => {
                let good = (first..end).all(|entry| {
                    let skipped = failures.iter().any(|failure| failure.entry == entry)
                        || !out.is_packed(page, entry);
                    skipped
                        || place(out, entry).is_some_and(|inode| {
                            same(out, entry, 0..out.disk.cached(self.host, inode).len(), inode)
                        })
                });
                if good {
                    self.written(out, piece, generation, digests, failures, false);
                } else {
                    self.report(out, Report::Returned { piece, generation });
                }
            }
            Piece::Extent { entry, offset, length } => match place(out, entry) {
                None => {
                    self.forget(out, page, entry, generation);
                    self.report(out, Report::Lost { page, entry, generation });
                }
                Some(inode) if same(out, entry, cells_of(offset, length), inode) => {
                    self.written(out, piece, generation, digests, failures, false);
                }
                Some(_) => self.report(out, Report::Returned { piece, generation }),
            },
            Piece::Finish { .. } => out.fail(format!("a finish is checked again: {piece:?}")),
        }
    }

    /// Handles the end of an epoch's sync.
    pub(crate) fn synced(&mut self, out: &mut Outside, epoch: u64, good: bool) {
        self.syncing = false;
        self.epochs.handle_synced(good);
        if good {
            self.report(out, Report::Synced { epoch });
            return;
        }
        self.report(out, Report::SyncFailed { epoch, errno: 5 });
        // Data written of a piece in progress may be lost as well (A4).
        let returned = self.fetch.handle_sync_failed();
        self.returned(out, returned);
    }

    /// Returns pieces to which no lane writes, and which are not to be trusted.
    fn returned(&mut self, out: &mut Outside, returned: Vec<(PieceRef, u32)>) {
        for (piece, generation) in returned {
            if self.in_hand.get(&piece) == Some(&generation) {
                self.in_hand.remove(&piece);
                out.end_piece(self.task, piece, generation);
            }
            self.report(out, Report::Returned { piece, generation });
        }
    }

    /// Names the next piece of a publish action.
    pub(crate) fn publish_step(&mut self, out: &mut Outside) {
        if self.may_write(out) {
            self.publish_next(out);
        }
    }

    /// Names the next piece, even if the check whether it may write was long ago (B1).
    pub(crate) fn publish_next(&mut self, out: &mut Outside) {
        let Some(Publication { piece, generation }) = self.publishing.pop_front() else { return };
        if !self.publishing.is_empty() {
            out.after_ms(1, 10, Event::PublishStep { task: self.task });
        }
        let cut = out.piece(piece);
        let mut failures = Vec::new();
        let skipped = self.unnamed.remove(&piece).unwrap_or_default();
        let entries = match cut {
            Piece::Pack { first, end, .. } => first..end,
            Piece::Finish { entry } | Piece::Extent { entry, .. } => entry..entry + 1,
        };
        let pack = matches!(cut, Piece::Pack { .. });
        let mut whole = true;
        for entry in entries {
            if skipped.contains(&entry) || (pack && !out.is_packed(piece.page, entry)) {
                continue;
            }
            whole &= self.name_file(out, piece.page, entry, generation, &mut failures);
        }
        let epoch = self.epochs.handle_renamed(out.now(), 1, u64::from(cut.files()));
        self.report(
            out,
            match whole {
                true => Report::Published { piece, generation, epoch, failures },
                false => Report::Returned { piece, generation },
            },
        );
    }

    fn name_file(
        &mut self,
        out: &mut Outside,
        page: u32,
        entry: u32,
        generation: u32,
        failures: &mut Vec<EntryFailure>,
    ) -> bool {
        let from = self.temporary(out, page, entry, generation);
        let to = Name::Final(page, entry);
        self.handles.remove(&from);
        if let Some(inode) = out.disk.file(from) {
            if out.data.entry_of(page, entry).unnameable {
                if out.is_packed(page, entry) {
                    // The controller has the temporary file of a large file discarded.
                    out.disk.remove(from);
                }
                failures.push(unnamed(entry));
                return true;
            }
            out.check_publication(self.host, page, entry, inode);
            out.disk.publish(from, to, inode);
            return true;
        }
        if out.data.entry_of(page, entry).unnameable {
            // The file was removed at an earlier try.
            failures.push(unnamed(entry));
            return true;
        }
        out.disk.file(to).is_some_and(|inode| out.disk.cache.attributed.contains(&inode))
    }

    /// Makes the links or directories of a page.
    pub(crate) fn tail_done(&mut self, out: &mut Outside, work: &Work) {
        if !self.may_write(out) {
            return;
        }
        let (page, links) = match work {
            Work::Links { page } => (*page, true),
            Work::Directories { page } => (*page, false),
            _ => return,
        };
        let mut failures = Vec::new();
        let mut made = 0;
        for entry in 0..out.data.entries[page as usize].len() as u32 {
            let (kind, unnameable) = {
                let of = out.data.entry_of(page, entry);
                (of.kind, of.unnameable)
            };
            let name = Name::Final(page, entry);
            match (kind, links) {
                (EntryKind::Directory, true) => out.disk.make(name, Node::Directory),
                (EntryKind::Directory, false) => out.disk.finish_directory(name),
                (EntryKind::Symlink, true) | (EntryKind::HardLink, false) if unnameable => {
                    failures.push(unnamed(entry));
                }
                (EntryKind::Symlink, true) | (EntryKind::HardLink, false) => {
                    out.disk.make(name, Node::Link);
                }
                _ => continue,
            }
            made += 1;
        }
        let epoch = self.epochs.handle_renamed(out.now(), 0, made);
        self.report(
            out,
            match links {
                true => Report::LinksDone { page, failures, epoch },
                false => Report::DirectoriesDone { page, failures, epoch },
            },
        );
    }

    fn report(&mut self, out: &mut Outside, report: Report) {
        if self.reports.is_empty() {
            out.after_ms(0, 20, Event::Reports { task: self.task });
        }
        self.reports.push_back(report);
    }

    /// Hands over its reports, and keeps them (A7).
    pub(crate) fn hand_over(&mut self) -> Vec<Report> {
        let reports: Vec<Report> = std::mem::take(&mut self.reports).into();
        self.kept.handle_reported(&reports);
        self.batches += 1;
        reports
    }

    /// Makes the writes land that were in flight when the process was paused (B1).
    pub(crate) fn late_write(&mut self, out: &mut Outside) {
        for arriving in self.arriving.values() {
            let (page, entry) = (arriving.item.piece.page, arriving.item.first_entry);
            let name = self.temporary(out, page, entry, arriving.item.generation);
            let Some(inode) = self.handles.get(&name) else { continue };
            let cells = out.data.entry_of(page, entry).cells(SCANNED);
            let at = (arriving.item.offset / CELL_BYTES) as usize;
            if at < cells.len() {
                out.disk.write(self.host, *inode, at, cells[at]);
                out.stats.late_writes += 1;
            }
        }
    }
}

/// Returns the failure of an entry that cannot get its name. Either it may never be given, or, for
/// every other entry, a failure that may pass never does.
fn unnamed(entry: u32) -> EntryFailure {
    let errno = if entry.is_multiple_of(2) { 1 } else { 5 };
    EntryFailure { entry, phase: FailurePhase::Publish, errno }
}
