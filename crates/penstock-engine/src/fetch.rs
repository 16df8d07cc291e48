//! Requests to the source: the piece that each lane asks for, and how far ahead (decision 1: the
//! target pulls).
//!
//! The machine holds the pieces that the controller has granted, cut into *items*: at first one
//! item per piece, after a failure perhaps one per entry. An item is asked for on some lane. The
//! source keeps no state for a waiting request, so that asking early costs no memory.
//!
//! The bytes asked for ahead decide how full the path is. Within a site no care is needed. Over
//! distance, requested bytes that have not arrived are in the path and its queues. They play the
//! part of a sender's congestion window. The request window may grow by half each round trip until
//! the rate does not follow. It then stays half above the bandwidth-delay product. A larger window
//! would fill the bottleneck's queue until packets are dropped (docs/design/0007). For a fine
//! enough measure pieces are *cut* there: a lane asks for a part of an extent, or some files of a
//! pack, at a time. The ledger knows pieces only.
//!
//! The unfinished items of a lane that died are asked for again on another lane. An entry that
//! fails for a reason that may pass is asked for again after a delay, over another path first;
//! after [`ATTEMPTS_MAX`] attempts it has failed.

mod counts;
mod endgame;
mod item;
mod retries;
mod returns;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use penstock_proto::digest::Digest;
use penstock_proto::id::LaneId;
use penstock_proto::journal::{EntryDigest, EntryFailure};
use penstock_proto::slicing::PieceRef;
use penstock_proto::units::{FileTime, Instant, MIB};

use self::retries::{Retries, has_other, may_pass, retry_of};
use crate::flow::Flow;
use crate::paths::PathId;

pub use self::counts::{FetchCounts, ResentBytes};
pub use self::item::{Item, Request};

/// Attempts at one entry before it has failed for good.
pub const ATTEMPTS_MAX: u8 = 4;
/// Least bytes of one request over distance, by default: whole strides of any slicing.
const CUT_BYTES: u64 = MIB;
/// Most requests in flight on one lane. A request is 68 bytes, so that all of them fit in the
/// smallest socket buffers (4 KiB) of both ends twice over, and neither end blocks on the other.
const LANE_REQUESTS_MAX: usize = 64;
/// Time after which an item without answer, on a lane that delivers nothing else either, is asked
/// for elsewhere.
pub const LANE_SILENCE_MAX: Duration = Duration::from_secs(20);
/// First delay before an entry is tried again; it doubles.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// A piece that is complete: nothing more of it will come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedPiece {
    /// The piece.
    pub piece: PieceRef,
    /// Attempt at the file.
    pub generation: u32,
    /// Digests of the written parts of the piece.
    pub digests: Vec<EntryDigest>,
    /// Entries that failed for good.
    pub failures: Vec<EntryFailure>,
    /// Bytes that were written.
    pub bytes: u64,
    /// The parts of an extent, by offset; none for a pack.
    pub parts: Vec<Part>,
}

/// A part of an extent that one request has brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Offset of its beginning in the file.
    pub offset: u64,
    /// Digests of its strides, without those of holes if it is sparse.
    pub strides: Vec<Digest>,
    /// True if holes were left out.
    pub sparse: bool,
    /// The change time under which it was read, if the file is to be examined again (C1, C2).
    pub seen: Option<FileTime>,
}

#[derive(Debug, Default)]
struct PieceProgress {
    generation: u32,
    items: u32,
    parts: Vec<Part>,
    digests: Vec<EntryDigest>,
    failures: Vec<EntryFailure>,
    bytes: u64,
    /// True if some of it has come, so that it may have been written here.
    begun: bool,
}

#[derive(Debug)]
struct Asked {
    item: Item,
    lane: LaneId,
    path: PathId,
    /// Paths over which it has failed before.
    tried: Vec<PathId>,
    /// True if the answer no longer counts; the lane is busy with it nevertheless.
    forgotten: bool,
}

#[derive(Debug)]
struct LaneLoad {
    path: PathId,
    requests: usize,
    bytes: u64,
    /// Bytes that have come of the incomplete reply.
    arrived: u64,
    heard: Instant,
    draining: bool,
}

/// Decides which pieces are asked for, on which lane and when.
#[derive(Debug)]
pub struct FetchMachine {
    queue: VecDeque<Item>,
    retries: Retries,
    asked: BTreeMap<u32, Asked>,
    queued_bytes: u64,
    lanes: BTreeMap<LaneId, LaneLoad>,
    pieces: BTreeMap<PieceRef, PieceProgress>,
    /// Pieces with their attempts that are returned as soon as no lane writes to them.
    returning: BTreeMap<PieceRef, u32>,
    next_request: u32,
    /// Flow over each path; there is always one.
    flows: BTreeMap<PathId, Flow>,
    resent: ResentBytes,
    /// Paths that are to carry, open yet or not.
    paths: usize,
    /// Least bytes of one request over distance.
    cut_bytes: u64,
    is_shared: bool,
    /// Time since which the controller has had no more work.
    dry: Option<Instant>,
}

impl Default for FetchMachine {
    fn default() -> Self {
        Self::new()
    }
}

impl FetchMachine {
    /// Returns a machine with nothing to do.
    pub fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            retries: Retries::default(),
            asked: BTreeMap::new(),
            queued_bytes: 0,
            lanes: BTreeMap::new(),
            pieces: BTreeMap::new(),
            returning: BTreeMap::new(),
            next_request: 1,
            flows: BTreeMap::from([(PathId::default(), Flow::default())]),
            resent: ResentBytes::default(),
            cut_bytes: CUT_BYTES,
            is_shared: false,
            dry: None,
            paths: 1,
        }
    }

    /// Sets the number of paths that are to carry, so that the first open path does not take
    /// everything.
    pub fn expect_paths(&mut self, paths: usize) {
        self.paths = paths.max(1);
    }

    /// Notes that other peers could do the work granted here. From now on the machine holds, and
    /// asks for, only work of a few seconds.
    pub fn share(&mut self) {
        self.is_shared = true;
        self.flows.values_mut().for_each(|flow| flow.is_shared = true);
    }

    fn flow_of(&mut self, path: PathId) -> &mut Flow {
        let is_shared = self.is_shared;
        self.flows.entry(path).or_insert_with(|| Flow::new(is_shared))
    }

    /// Cuts no piece into parts of less than `bytes`, a multiple of the stride; `u64::MAX` keeps
    /// pieces whole. Used where each request ends in a sync of its file, so that a part costs as
    /// much as a whole, and for worlds with small pieces.
    pub fn cut_from(&mut self, bytes: u64) {
        self.cut_bytes = bytes;
    }

    /// Handles a granted piece. A piece that the machine already holds is not changed; an earlier
    /// attempt at its file is forgotten (B1).
    pub fn handle_granted(&mut self, item: Item) {
        if let Some(progress) = self.pieces.get(&item.piece) {
            if progress.generation == item.generation {
                return;
            }
            self.handle_forgotten(item.piece);
        }
        let progress = self.pieces.entry(item.piece).or_default();
        progress.generation = item.generation;
        progress.items += 1;
        if is_still_written(&self.asked, &item) {
            self.retries.push(Instant(0), item, Vec::new());
            return;
        }
        self.queued_bytes += item.bytes;
        self.queue.push_back(item);
    }

    /// Handles an open lane that may be used, where there is one path only.
    pub fn handle_lane_up(&mut self, now: Instant, lane: LaneId) {
        self.handle_lane_up_on(now, lane, PathId::default());
    }

    /// Handles an open lane over a path that may be used.
    pub fn handle_lane_up_on(&mut self, now: Instant, lane: LaneId, path: PathId) {
        let (requests, bytes, arrived) = (0, 0, 0);
        let load = LaneLoad { path, requests, bytes, arrived, heard: now, draining: false };
        self.lanes.insert(lane, load);
        self.flow_of(path).lanes += 1;
    }

    /// Sets whether a path is on trial: few bytes are asked for over such a path.
    pub fn handle_trial(&mut self, path: PathId, on_trial: bool) {
        self.flow_of(path).on_trial = on_trial;
    }

    /// Makes a lane finish its requests and accept no others.
    pub fn handle_lane_draining(&mut self, lane: LaneId) {
        if let Some(load) = self.lanes.get_mut(&lane) {
            load.draining = true;
        }
    }

    /// Handles a lost lane: its items are asked for again, before all others. Only the received
    /// bytes of a reply are sent twice by that; requests without an answer cost nothing.
    pub fn handle_lane_down(&mut self, lane: LaneId) {
        if let Some(load) = self.lanes.remove(&lane) {
            self.resent.lane_lost += load.arrived;
            if let Some(flow) = self.flows.get_mut(&load.path) {
                flow.handle_lane_down(load.bytes, load.requests);
            }
        }
        let lost: Vec<u32> = self
            .asked
            .iter()
            .filter(|(_, asked)| asked.lane == lane)
            .map(|(request, _)| *request)
            .collect();
        for request in lost {
            if let Some(asked) = self.asked.remove(&request) {
                if asked.forgotten {
                    continue;
                }
                self.queued_bytes += asked.item.bytes;
                self.queue.push_front(asked.item);
            }
        }
        self.check();
    }

    /// Handles bytes that have arrived on a lane: called per frame or less often.
    pub fn handle_bytes(&mut self, now: Instant, lane: LaneId, bytes: u64) {
        if let Some(load) = self.lanes.get_mut(&lane) {
            load.heard = now;
            load.arrived += bytes;
            if let Some(flow) = self.flows.get_mut(&load.path) {
                flow.handle_bytes(now, bytes);
            }
        }
    }

    /// Handles a sign of life on a lane at `at`, without a whole frame: the path is slow, and the
    /// lane is not dead.
    pub fn handle_heard(&mut self, at: Instant, lane: LaneId) {
        if let Some(load) = self.lanes.get_mut(&lane) {
            load.heard = load.heard.max(at);
        }
    }

    /// Handles a measured round trip, where there is one path only; the least one counts.
    pub fn handle_rtt(&mut self, rtt: Duration) {
        self.handle_rtt_of(PathId::default(), rtt);
    }

    /// Handles a measured round trip over a path; the least one counts.
    pub fn handle_rtt_of(&mut self, path: PathId, rtt: Duration) {
        self.flow_of(path).handle_rtt(rtt);
    }

    /// Handles counts of a path since the last call: segments that came, and those of them that
    /// came while an earlier one was missing.
    pub fn handle_order(&mut self, path: PathId, segments: u64, behind: u64) {
        self.flow_of(path).handle_order(segments, behind);
    }

    /// Handles the result of a request for an extent, or a part of one; to be called before
    /// [`FetchMachine::handle_answered`].
    pub fn handle_part(&mut self, request: u32, part: Part) {
        let Some(asked) = self.asked.get(&request).filter(|asked| !asked.forgotten) else { return };
        if let Some(progress) = self.pieces.get_mut(&asked.item.piece) {
            progress.parts.push(part);
        }
    }

    /// Handles the end of an answer. `digests` are of entries that were written, `failures` of
    /// entries that were not; those that may pass are tried again. Returns the piece when it ends.
    pub fn handle_answered(
        &mut self,
        now: Instant,
        request: u32,
        digests: Vec<EntryDigest>,
        failures: Vec<EntryFailure>,
        bytes: u64,
    ) -> Option<FetchedPiece> {
        let Asked { item, path, mut tried, .. } = self.take_asked(now, request)?;
        tried.push(path);
        let elsewhere = has_other(&self.flows, &tried);
        let progress = self.pieces.get_mut(&item.piece)?;
        progress.items -= 1;
        progress.digests.extend(digests);
        progress.bytes += bytes;
        for failure in failures {
            if item.attempt < ATTEMPTS_MAX && may_pass(&failure, elsewhere) {
                let delay = RETRY_DELAY * 2u32.pow(u32::from(item.attempt) - 1);
                let again = retry_of(&item, failure.entry);
                progress.items += 1;
                self.resent.entry_failed += again.bytes;
                self.retries.push(now.plus(delay), again, tried.clone());
            } else {
                progress.failures.push(failure);
            }
        }
        self.finish(item.piece)
    }

    /// Handles a request that was refused as a whole, but may be repeated after `delay`.
    pub fn handle_refused(&mut self, now: Instant, request: u32, delay: Duration) {
        if let Some(Asked { item, tried, .. }) = self.take_asked(now, request) {
            self.retries.push(now.plus(delay), item, tried);
        }
    }

    fn take_asked(&mut self, now: Instant, request: u32) -> Option<Asked> {
        let asked = self.asked.remove(&request)?;
        if let Some(load) = self.lanes.get_mut(&asked.lane) {
            load.requests -= 1;
            load.bytes -= asked.item.bytes;
            load.arrived = 0;
            load.heard = now;
            if let Some(flow) = self.flows.get_mut(&load.path) {
                flow.handle_answered(asked.item.bytes);
            }
        }
        (!asked.forgotten).then_some(asked)
    }

    /// Asserts that each sum is the sum of its parts, after a lane or a request has ended.
    fn check(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let queued: u64 = self.queue.iter().map(|item| item.bytes).sum();
        assert_eq!(queued, self.queued_bytes, "bytes of the queue");
        for (lane, load) in &self.lanes {
            let asked = self.asked.values().filter(|asked| asked.lane == *lane);
            let bytes: u64 = asked.clone().map(|asked| asked.item.bytes).sum();
            assert_eq!((asked.count(), bytes), (load.requests, load.bytes), "of {lane:?}");
        }
        let lanes = |asked: &Asked| self.lanes.contains_key(&asked.lane);
        assert!(self.asked.values().all(lanes), "a request waits on a lane that is gone");
        let counts = |asked: &&Asked| !asked.forgotten;
        let known = |asked: &Asked| self.pieces.contains_key(&asked.item.piece);
        assert!(self.asked.values().filter(counts).all(known), "an item of no piece is asked for");
        assert!(self.queue.iter().all(|item| self.pieces.contains_key(&item.piece)));
    }

    fn finish(&mut self, piece: PieceRef) -> Option<FetchedPiece> {
        if self.pieces.get(&piece).is_none_or(|progress| progress.items > 0) {
            return None;
        }
        self.check();
        let mut progress = self.pieces.remove(&piece)?;
        progress.parts.sort_by_key(|part| part.offset);
        progress.digests.sort_by_key(|digest| digest.entry);
        Some(FetchedPiece {
            parts: progress.parts,
            piece,
            generation: progress.generation,
            digests: progress.digests,
            failures: progress.failures,
            bytes: progress.bytes,
        })
    }

    /// Forgets a piece: another attempt at its file has begun, or it has failed. Later answers for
    /// the piece do not count.
    pub fn handle_forgotten(&mut self, piece: PieceRef) {
        self.pieces.remove(&piece);
        self.queue.retain(|item| item.piece != piece);
        self.queued_bytes = self.queue.iter().map(|item| item.bytes).sum();
        self.retries.retain(|item| item.piece != piece);
        for asked in self.asked.values_mut().filter(|asked| asked.item.piece == piece) {
            asked.forgotten = true;
        }
    }

    /// Forgets one attempt at a large file, queued or asked for: its temporary file is gone, or it
    /// has failed. Another attempt at the same file is kept.
    pub fn handle_file_forgotten(&mut self, page: u32, entry: u32, generation: u32) {
        let of_file = |item: &Item| {
            item.length > 0
                && (item.piece.page, item.first_entry) == (page, entry)
                && item.generation == generation
        };
        let queued = self.queue.iter().chain(self.retries.items());
        let asked = self.asked.values().map(|asked| &asked.item);
        let pieces: Vec<PieceRef> =
            queued.chain(asked).filter(|item| of_file(item)).map(|item| item.piece).collect();
        for piece in pieces {
            if self.pieces.get(&piece).is_some_and(|known| known.generation == generation) {
                self.pieces.remove(&piece);
            }
        }
        self.queue.retain(|item| !of_file(item));
        self.queued_bytes = self.queue.iter().map(|item| item.bytes).sum();
        self.retries.retain(|item| !of_file(item));
        for asked in self.asked.values_mut().filter(|asked| of_file(&asked.item)) {
            asked.forgotten = true;
        }
    }

    /// Returns the next request for `lane` now, if any. Call again until it returns `None`.
    pub fn poll_request(&mut self, now: Instant, lane: LaneId) -> Option<Request> {
        self.queue_due_retries(now);
        let floor = self.cut_bytes;
        let path = self.lanes.get(&lane)?.path;
        let blocked = |item: &Item| is_still_written(&self.asked, item);
        let again = self.retries.due_over(now, path, blocked);
        let bytes = match again {
            Some(key) => self.retries.bytes_of(key),
            None => self.queue.front()?.bytes,
        };
        if again.is_none() && self.leaves_to_others(now, path, bytes) {
            return None;
        }
        let of_path = |load: &&LaneLoad| load.path == path && !load.draining;
        let lanes = self.lanes.values().filter(of_path).count().max(1) as u64;
        let flows = self.flows_in_use();
        let flow = self.flows.get_mut(&path)?;
        let (share, cut) = flow.share_of_lane(lanes, flows, floor);
        let load = self.lanes.get_mut(&lane)?;
        let deep = flow.is_deep((load.requests, load.bytes), bytes.min(cut), share, flows);
        if load.draining || load.requests >= LANE_REQUESTS_MAX || deep {
            return None;
        }
        let (item, tried) = match again {
            Some(key) => {
                let (item, tried) = self.retries.take(key)?;
                self.queued_bytes += item.bytes;
                (item, tried)
            }
            None => (self.queue.pop_front()?, Vec::new()),
        };
        let (item, rest) = cut_item(item, cut, floor);
        if let Some(rest) = rest {
            self.queue.push_front(rest);
            if let Some(progress) = self.pieces.get_mut(&item.piece) {
                progress.items += 1;
            }
        }
        if load.requests == 0 {
            load.heard = now;
        }
        load.requests += 1;
        load.bytes += item.bytes;
        flow.handle_asked(now, item.bytes);
        self.queued_bytes -= item.bytes;
        let request = self.next_request;
        self.next_request = self.next_request.wrapping_add(1).max(1);
        let asked = Asked { item, lane, path, tried, forgotten: false };
        let before = self.asked.insert(request, asked);
        debug_assert!(before.is_none(), "request {request} is in use");
        Some(Request { request, item })
    }

    /// Queues the retries that may go over any path now.
    fn queue_due_retries(&mut self, now: Instant) {
        let (flows, asked) = (&self.flows, &self.asked);
        let waits = |tried: &[PathId]| !tried.is_empty() && has_other(flows, tried);
        let due = self.retries.take_due(now, waits, |item| is_still_written(asked, item));
        for item in due {
            self.queued_bytes += item.bytes;
            self.queue.push_back(item);
        }
    }

    /// Returns the bytes that may be asked for at a time over all lanes of all paths.
    pub fn asked_bytes_max(&self) -> u64 {
        let flows = self.flows_in_use();
        self.flows_with_lanes().map(|flow| flow.asked_bytes_max(flows)).sum()
    }

    /// Returns the flows of paths that have lanes; all of them before there is any lane.
    fn flows_with_lanes(&self) -> impl Iterator<Item = &Flow> {
        let none = self.lanes.is_empty();
        self.flows.values().filter(move |flow| none || flow.lanes > 0)
    }

    fn flows_in_use(&self) -> u64 {
        self.flows_with_lanes().count().max(self.paths) as u64
    }

    /// Returns the bytes of further pieces that the machine wants to hold; 0 if it has enough.
    /// Retries count as held, so that a source that is away does not make the heap grow.
    pub fn wanted_bytes(&self) -> u64 {
        let flows = self.flows_in_use();
        let most: u64 = self.flows_with_lanes().map(|flow| flow.held_bytes_max(flows)).sum();
        let aim = most + most / 2;
        let asked: u64 = self.flows.values().map(|flow| flow.asked_bytes).sum();
        aim.saturating_sub(asked + self.queued_bytes + self.retries.bytes())
    }

    /// Returns the lanes that owe an answer and have been silent for [`LANE_SILENCE_MAX`]: the edge
    /// cuts them and reports them down.
    pub fn poll_silent_lanes(&self, now: Instant) -> Vec<LaneId> {
        let silent =
            |load: &LaneLoad| load.requests > 0 && now.since(load.heard) >= LANE_SILENCE_MAX;
        self.lanes.iter().filter(|(_, load)| silent(load)).map(|(lane, _)| *lane).collect()
    }

    /// Returns when a delayed item may be asked for, if there is one.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.retries.next_at()
    }

    /// Returns whether a lane owes no answer.
    pub fn lane_is_idle(&self, lane: LaneId) -> bool {
        self.lanes.get(&lane).is_none_or(|load| load.requests == 0)
    }

    /// Returns whether a lane is to end once its requests are answered.
    pub fn lane_is_draining(&self, lane: LaneId) -> bool {
        self.lanes.get(&lane).is_none_or(|load| load.draining)
    }

    /// Returns whether nothing is queued, asked for or delayed.
    pub fn is_idle(&self) -> bool {
        let asked = self.asked.values().any(|asked| !asked.forgotten);
        self.queue.is_empty() && !asked && self.retries.is_empty()
    }

    /// Returns whether an item waits to be asked for.
    pub fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Returns the bytes per second over all paths that have lanes: the mean over the last two
    /// seconds, or twenty round trips, which bursts do not change.
    pub fn rate(&self) -> f64 {
        self.flows_with_lanes().map(Flow::rate).sum()
    }

    /// Returns the rate of one path.
    pub fn rate_of(&self, path: PathId) -> f64 {
        self.flows.get(&path).map_or(0.0, Flow::rate)
    }

    /// Returns the bytes that were asked for over a path and have not come.
    pub fn asked_bytes_of(&self, path: PathId) -> u64 {
        self.flows.get(&path).map_or(0, |flow| flow.asked_bytes)
    }

    /// Returns whether a lane owes an answer.
    pub fn owes(&self, lane: LaneId) -> bool {
        self.lanes.get(&lane).is_some_and(|load| load.requests > 0)
    }

    /// Returns the least round trip seen.
    pub fn rtt(&self) -> Option<Duration> {
        self.flows.values().filter_map(Flow::rtt).min()
    }

    /// Returns the bytes that came and had to be sent once more: the lane died within the reply, or
    /// they did not pass the check.
    pub fn resent(&self) -> ResentBytes {
        self.resent
    }

    /// Returns how many requests are where.
    pub fn counts(&self) -> FetchCounts {
        FetchCounts {
            queued: self.queue.len(),
            retrying: self.retries.len(),
            asked: self.asked.len(),
        }
    }
}

/// Returns whether the answer to a forgotten request for the same piece is still to come. Its lane
/// writes under the names that the next request would use, and must end first (B1).
fn is_still_written(asked: &BTreeMap<u32, Asked>, item: &Item) -> bool {
    asked.values().any(|asked| {
        asked.forgotten
            && (asked.item.piece, asked.item.generation) == (item.piece, item.generation)
    })
}

/// Cuts about `bytes` off the front of an item: whole strides of an extent, or some files of a
/// pack. The rest is an item of its own.
fn cut_item(item: Item, bytes: u64, floor: u64) -> (Item, Option<Item>) {
    if item.bytes <= bytes {
        return (item, None);
    }
    if item.length > 0 {
        let length = bytes - item.offset % floor;
        let left = item.bytes - length;
        let first = Item { length, bytes: length, ..item };
        let offset = item.offset + length;
        return (first, Some(Item { offset, length: item.length - length, bytes: left, ..item }));
    }
    let entries = u64::from(item.end_entry - item.first_entry);
    let count = (entries * bytes / item.bytes).max(1);
    if count >= entries {
        return (item, None);
    }
    let middle = item.first_entry + count as u32;
    let bytes = item.bytes * count / entries;
    let first = Item { end_entry: middle, bytes, ..item };
    (first, Some(Item { first_entry: middle, bytes: item.bytes - bytes, ..item }))
}

#[cfg(test)]
mod tests {
    use penstock_proto::journal::FailurePhase;

    use super::*;

    const LANE: LaneId = LaneId(1);

    fn item(piece: u32, bytes: u64) -> Item {
        Item {
            piece: PieceRef { page: 0, piece },
            generation: 0,
            fresh: true,
            first_entry: piece * 10,
            end_entry: piece * 10 + 10,
            offset: 0,
            length: 0,
            bytes,
            attempt: 1,
        }
    }

    fn failure(entry: u32, phase: FailurePhase) -> EntryFailure {
        EntryFailure { entry, phase, errno: 5 }
    }

    /// Promise (d): the items of a dead lane are asked for again, and no others are.
    #[test]
    fn a_dead_lane_loses_only_what_it_had_in_hand() {
        let mut machine = FetchMachine::new();
        machine.handle_lane_up(Instant(0), LANE);
        for piece in 0..3 {
            machine.handle_granted(item(piece, 100));
        }
        let first = machine.poll_request(Instant(0), LANE).unwrap();
        let second = machine.poll_request(Instant(0), LANE).unwrap();
        machine.handle_bytes(Instant(1), LANE, 100);
        machine.handle_answered(Instant(1), first.request, vec![], vec![], 100).unwrap();
        machine.handle_bytes(Instant(1), LANE, 40);
        machine.handle_lane_down(LANE);
        machine.handle_lane_up(Instant(2), LaneId(2));
        let again = machine.poll_request(Instant(2), LaneId(2)).unwrap();
        assert_eq!(again.item, second.item);
        assert_eq!(
            machine.resent(),
            ResentBytes { lane_lost: 40, entry_failed: 0 },
            "what was asked for and had not come is not sent twice"
        );
    }

    /// Promise (f): a lane is silent after twenty seconds without a sign of life, counted from the
    /// last one, however little came: a slow lane is not a dead one.
    #[test]
    fn a_slow_lane_is_not_a_silent_one() {
        let seconds = |seconds: u64| Instant(seconds * 1_000_000_000);
        let mut machine = FetchMachine::new();
        machine.handle_lane_up(seconds(0), LANE);
        machine.handle_granted(item(0, 100));
        machine.poll_request(seconds(0), LANE).unwrap();
        assert_eq!(machine.poll_silent_lanes(seconds(20)), [LANE]);
        machine.handle_heard(seconds(15), LANE);
        assert_eq!(machine.poll_silent_lanes(seconds(34)), []);
        assert_eq!(machine.poll_silent_lanes(seconds(35)), [LANE]);
        machine.handle_heard(seconds(3), LANE);
        assert_eq!(machine.poll_silent_lanes(seconds(35)), [LANE], "time does not go back");
    }

    /// B1: when the temporary file of an attempt is gone, only that attempt is forgotten; the next
    /// one, granted meanwhile, continues.
    #[test]
    fn b1_a_lost_attempt_takes_no_other_with_it() {
        let mut machine = FetchMachine::new();
        machine.handle_lane_up(Instant(0), LANE);
        let extent = |piece, generation| Item {
            length: 100,
            first_entry: 7,
            end_entry: 8,
            generation,
            ..item(piece, 100)
        };
        machine.handle_granted(extent(0, 0));
        machine.handle_granted(extent(1, 0));
        let old = machine.poll_request(Instant(0), LANE).unwrap();
        machine.handle_file_forgotten(0, 7, 0);
        assert!(!machine.has_queue());
        machine.handle_granted(extent(0, 1));
        machine.handle_file_forgotten(0, 7, 0);
        assert_eq!(machine.handle_answered(Instant(0), old.request, vec![], vec![], 100), None);
        let new = machine.poll_request(Instant(0), LANE).unwrap();
        let done = machine.handle_answered(Instant(0), new.request, vec![], vec![], 100).unwrap();
        assert_eq!(done.generation, 1);
        assert!(machine.is_idle());
    }

    /// A vanished file is not asked for again, as it will not return.
    #[test]
    fn a_vanished_file_fails_at_once() {
        let mut machine = FetchMachine::new();
        machine.handle_lane_up(Instant(0), LANE);
        machine.handle_granted(item(0, 1000));
        let request = machine.poll_request(Instant(0), LANE).unwrap().request;
        let failed = vec![failure(2, FailurePhase::Vanished)];
        assert!(machine.handle_answered(Instant(0), request, vec![], failed, 0).is_some());
    }

    /// Decision 1: at 10 Gbit/s and 200 ms more than one bandwidth-delay product is asked for, so
    /// that no round trip idles a lane. Once the rate is level, less than two products are, which
    /// would fill the bottleneck's queue until it drops packets.
    #[test]
    fn what_is_asked_fills_the_path_and_not_its_queue() {
        let mut machine = FetchMachine::new();
        machine.handle_lane_up(Instant(0), LANE);
        machine.handle_rtt(Duration::from_millis(200));
        let mut tenth = 0;
        let mut arrive = |machine: &mut FetchMachine, bytes| {
            tenth += 1;
            machine.handle_bytes(Instant(tenth * 100_000_000), LANE, bytes);
        };
        // A start is held back to half as much again each round trip, not less.
        for bytes in [1, 2, 4, 8, 16, 32, 64, 125].map(|mib| mib * 1_000_000) {
            arrive(&mut machine, bytes);
            arrive(&mut machine, bytes);
            arrive(&mut machine, 0);
            assert!(machine.asked_bytes_max() >= bytes + bytes / 2);
        }
        for _ in 0..40 {
            arrive(&mut machine, 125_000_000);
        }
        let asked = machine.asked_bytes_max();
        assert!((275_000_000..400_000_000).contains(&asked), "{asked}");
        // Nor do many lanes, each with a request of its own, fill it.
        for lane in 2..200 {
            let lane = LaneId(lane);
            machine.handle_lane_up(Instant(0), lane);
            machine.handle_granted(item(lane.0, 8 * MIB));
            let _ = machine.poll_request(Instant(0), lane);
        }
        assert!(machine.asked_bytes_max() < 500_000_000, "{}", machine.asked_bytes_max());
    }

    /// A path of bursts is no faster than an even one: bytes that wait behind lost packets arrive
    /// at once when these are there. Neither are lanes added for that, nor is more asked for, which
    /// would overflow the path's queue and make the next losses.
    #[test]
    fn bursts_are_no_rate() {
        let measured = |windows: [u64; 4]| {
            let mut machine = FetchMachine::new();
            machine.handle_lane_up(Instant(0), LANE);
            machine.handle_rtt(Duration::from_millis(90));
            for tenth in 0..=60 {
                let now = Instant(tenth * 100_000_000);
                let bytes = if tenth < 20 { 10_000_000 } else { windows[tenth as usize % 4] };
                machine.handle_bytes(now, LANE, bytes);
            }
            (machine.rate(), machine.asked_bytes_max() as f64)
        };
        let even = measured([10_000_000; 4]);
        let bursts = measured([0, 0, 20_000_000, 20_000_000]);
        assert!((even.0 / bursts.0 - 1.0).abs() < 0.05, "{even:?} against {bursts:?}");
        assert!(bursts.1 <= 1.25 * even.1, "{even:?} against {bursts:?}");
    }

    /// Over distance an extent travels in parts over several lanes. The result is one piece with
    /// its parts in order, and only a failed part is asked for again.
    #[test]
    fn an_extent_is_cut_over_distance_and_put_together_again() {
        let mut machine = FetchMachine::new();
        let now = Instant(0);
        machine.handle_rtt(Duration::from_millis(90));
        let lanes = [LaneId(1), LaneId(2), LaneId(3)];
        lanes.iter().for_each(|lane| machine.handle_lane_up(now, *lane));
        let extent = Item { length: 4 * MIB, offset: 8 * MIB, ..item(0, 4 * MIB) };
        machine.handle_granted(extent);
        let mut asked: Vec<Request> =
            lanes.iter().cycle().map_while(|lane| machine.poll_request(now, *lane)).collect();
        let offsets: Vec<u64> = asked.iter().map(|request| request.item.offset / MIB).collect();
        assert_eq!(offsets, [8, 9, 10, 11]);
        let broken = asked.remove(1);
        asked.reverse();
        let part = |request: &Request| Part {
            offset: request.item.offset,
            strides: vec![Digest([request.item.offset as u8; 32])],
            sparse: false,
            seen: None,
        };
        for request in &asked {
            machine.handle_part(request.request, part(request));
            let answer = machine.handle_answered(now, request.request, vec![], vec![], MIB);
            assert_eq!(answer, None);
        }
        let failed = vec![failure(0, FailurePhase::Digest)];
        assert_eq!(machine.handle_answered(now, broken.request, vec![], failed, 0), None);
        let again = machine.poll_request(machine.poll_timeout().unwrap(), lanes[0]).unwrap();
        assert_eq!((again.item.offset, again.item.length), (9 * MIB, MIB));
        machine.handle_part(again.request, part(&again));
        let piece = machine.handle_answered(now, again.request, vec![], vec![], MIB).unwrap();
        let offsets: Vec<u64> = piece.parts.iter().map(|part| part.offset / MIB).collect();
        assert_eq!((piece.bytes, offsets.as_slice()), (4 * MIB, [8, 9, 10, 11].as_slice()));
        assert!(machine.is_idle());
    }

    /// A cut loses and doubles nothing, wherever it falls.
    #[test]
    fn cuts_cover_an_item_once() {
        for (length, entries, bytes) in [(16 * MIB, 1, 16 * MIB), (0, 1024, 4 * MIB), (0, 3, 9)] {
            let whole = Item { length, end_entry: entries, bytes, ..item(0, bytes) };
            for cut in [1, 2, 5].map(|count| count * CUT_BYTES) {
                let (mut rest, mut sum, mut files, mut extent) = (Some(whole), 0, 0, 0);
                while let Some(item) = rest {
                    let (first, left) = cut_item(item, cut, CUT_BYTES);
                    assert_eq!(first.offset, extent);
                    assert!(first.length <= cut);
                    (sum, extent) = (sum + first.bytes, extent + first.length);
                    files += first.end_entry - first.first_entry;
                    rest = left;
                }
                let files_whole = if length > 0 { files } else { entries };
                assert_eq!((sum, extent, files), (bytes, length, files_whole));
            }
        }
    }

    /// B1: a late answer to an earlier attempt neither ends the new one nor is counted in it.
    #[test]
    fn b1_a_late_answer_does_not_count_for_the_next_attempt() {
        let mut machine = FetchMachine::new();
        machine.handle_lane_up(Instant(0), LANE);
        machine.handle_granted(item(0, 100));
        let late = machine.poll_request(Instant(0), LANE).unwrap().request;
        machine.handle_granted(Item { generation: 1, ..item(0, 100) });
        let next = machine.poll_request(Instant(0), LANE).unwrap();
        assert_eq!(next.item.generation, 1);
        assert_eq!(machine.handle_answered(Instant(1), late, vec![], vec![], 100), None);
        let over = machine.handle_answered(Instant(2), next.request, vec![], vec![], 100).unwrap();
        assert_eq!((over.generation, over.bytes), (1, 100));
        assert!(machine.is_idle() && machine.lane_is_idle(LANE));
    }

    /// B1: a piece that is granted again while a lane still writes the old answer to it waits for
    /// that lane: both would write under one temporary name.
    #[test]
    fn b1_nothing_is_asked_for_again_while_its_old_answer_is_written() {
        let mut machine = FetchMachine::new();
        let other = LaneId(2);
        machine.handle_lane_up(Instant(0), LANE);
        machine.handle_lane_up(Instant(0), other);
        machine.handle_granted(item(0, 100));
        let late = machine.poll_request(Instant(0), LANE).unwrap().request;
        machine.handle_sync_failed();
        machine.handle_granted(item(0, 100));
        assert_eq!(machine.poll_request(Instant(1), other), None);
        assert!(!machine.is_idle());
        assert_eq!(machine.handle_answered(Instant(2), late, vec![], vec![], 100), None);
        assert!(machine.poll_request(Instant(2), other).is_some());
    }

    /// Promise: the first path that is open leaves something to the others, however small all is.
    #[test]
    fn the_first_path_does_not_take_all() {
        let mut machine = FetchMachine::new();
        machine.expect_paths(2);
        machine.handle_lane_up(Instant(0), LANE);
        for piece in 0..2 {
            let (length, bytes) = (16 * MIB, 16 * MIB);
            machine.handle_granted(Item { length, ..item(piece, bytes) });
        }
        let mut taken = 0;
        while let Some(request) = machine.poll_request(Instant(0), LANE) {
            taken += request.item.bytes;
        }
        assert!((MIB..=8 * MIB).contains(&taken), "{taken}");
        // A pack of one large file cannot be cut: one of them is enough.
        let mut machine = FetchMachine::new();
        machine.expect_paths(2);
        machine.handle_lane_up(Instant(0), LANE);
        for piece in 0..2 {
            let whole = item(piece, 16 * MIB);
            machine.handle_granted(Item { end_entry: whole.first_entry + 1, ..whole });
        }
        assert!(machine.poll_request(Instant(0), LANE).is_some());
        assert_eq!(machine.poll_request(Instant(0), LANE), None);
    }

    /// Promise (g): a source that refuses everything for an hour is not asked for ever more pieces.
    #[test]
    fn what_is_refused_is_held_and_bounds_what_is_wanted() {
        let mut machine = FetchMachine::new();
        machine.handle_lane_up(Instant(0), LANE);
        let mut granted = 0;
        while machine.wanted_bytes() > 0 && granted < 10_000 {
            machine.handle_granted(item(granted, MIB));
            granted += 1;
            let request = machine.poll_request(Instant(0), LANE).unwrap().request;
            machine.handle_refused(Instant(0), request, Duration::from_secs(1));
        }
        assert!(granted < 100, "{granted} pieces");
    }
}
