//! Lets other peers of the site list a part of the tree.
//!
//! The walk, the pages and the done list stay with the controller's host. A *lender* there takes
//! directories off the stack, or parts of large ones, and has another peer list them. It hands over
//! the answers just as a worker of this host would. No directory is listed twice or lost: a unit is
//! at one place at a time, and counts when its answer was accepted. A lender takes a unit back if
//! its peer has failed, or is late while no other work waits. Its answer is then ignored.
//!
//! **Not for small trees.** No peer is asked before the scan has lasted [`SHARE_AFTER`] and more
//! waits than this host's workers have at hand.
//!
//! **Trust.** Before each answer, a peer checks that its store is the one with which the scan began
//! (C3). Once for each scan it is asked about entries that this host has seen ([`Sample`]). A peer
//! that shows other entries takes no part. If its inode numbers differ, they are not put into
//! pages, and this host looks at files with several names itself (C1, B6). Errors are never taken
//! from a peer: this host lists such a directory again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use penstock_api::problem::Problem;
use penstock_proto::id::Name;
use penstock_proto::listing::{
    LIST_DIRECTORIES_MAX, LIST_REQUEST_BYTES_MAX, ListPart, ListWork, ListedEntry,
};
use penstock_proto::name;
use penstock_store::{Dir, Kind, Meta, Source};

use super::found::{Found, kind_of, listed_kind};
use super::helpers::Helpers;
use super::state::{Scan, State};
use super::units::{BATCH_ENTRIES, Ended, LentUnits, PeerProgress, Sample, Unit};
use crate::source::error::SourceError;
use crate::source::read_check::age_seconds;
use crate::stores::worker_pool;

/// A scan that lasts less than this is not shared: connections and round trips would cost more.
const SHARE_AFTER: Duration = Duration::from_millis(250);
/// Silence after which a peer is left out for a while.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Longest time without progress of a peer that still sends signs of life.
const STANDSTILL_MAX: Duration = Duration::from_secs(10);
/// Longest time for the question whether a peer sees the same store.
const PROBE_MAX: Duration = Duration::from_secs(5);
/// Time after which a peer that was left out is asked again.
const LEFT_OUT: Duration = Duration::from_secs(30);
/// Most work for one request, in time, by the peer's rate so far. The shorter it is, the less a
/// slow peer delays the end.
const REQUEST_TIME: Duration = Duration::from_secs(1);
/// Lenders wake this often to see whether they are to end.
const LOOK: Duration = Duration::from_millis(50);
/// Lenders for all peers together: each is a thread that waits.
const LENDERS_MAX: usize = 64;
/// Age below which a changed entry may be shown as it was, from a cache (NFS: 60 s).
const CACHED_SECONDS: f64 = 90.0;

/// The reason why a peer does not list a part.
#[derive(Debug, thiserror::Error)]
enum AllyError {
    /// The peer cannot be reached, rejects the request, or its answer breaks off.
    #[error(transparent)]
    Asked(#[from] Problem),
    #[error("this host cannot start more threads")]
    NoThread,
    /// The peer's own words.
    #[error("{0}")]
    Ended(String),
    #[error("another file system is at the data set's root there")]
    OtherFileSystem,
    #[error("it has not answered everything")]
    Incomplete,
    #[error("nothing came for {} s", SILENCE_MAX.as_secs())]
    Silent,
    #[error("it has come no further for {} s: is its store slow?", STANDSTILL_MAX.as_secs())]
    Standstill,
    /// The scan has no directories left to list.
    #[error("the scan is over")]
    Over,
    #[error("no answer for {} s", PROBE_MAX.as_secs())]
    NoAnswer,
    #[error("its answer is out of order")]
    OutOfOrder,
    #[error("it cannot examine the items that were listed here")]
    Unexamined,
    #[error("`{}` {is} there: its store is not the same", name::escape(.path))]
    OtherEntry { path: Vec<u8>, is: &'static str },
    #[error("it sees nothing of what was listed here: is its store the same?")]
    SeesNothing,
}

/// A peer that sees the same store, and how it sees it.
struct Ally {
    peer: Name,
    /// Device of the data set's root there.
    device: u64,
    /// Set if inode numbers at the peer equal those of this host.
    inodes: bool,
    left: AtomicBool,
}

/// The asking scan's view: its source, its helpers and its device.
#[derive(Clone, Copy)]
struct Ask<'a> {
    source: &'a Source,
    helpers: &'a dyn Helpers,
    /// Device of the data set's root here.
    device: u64,
}

impl Scan {
    /// Finds peers to share with, until the scan is over.
    pub(super) fn share<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        source: &'scope Source,
        store: &'scope Name,
        helpers: &'scope dyn Helpers,
    ) {
        let began = Instant::now();
        loop {
            {
                let state = self.lock();
                let waited = self.lend.wait_timeout(state, LOOK);
                let state = waited.unwrap_or_else(PoisonError::into_inner).0;
                if state.is_at_end() {
                    return;
                }
                if began.elapsed() < SHARE_AFTER || !self.is_wide(&state) {
                    continue;
                }
            }
            let root = source.open_dir(&self.options.root);
            // The worker that lists the root reports the error.
            let Ok(meta) = root.and_then(|dir| source.stat(&dir, b"")) else { return };
            let ask = Ask { source, helpers, device: meta.device };
            let peers = helpers.peers(store);
            let each = (LENDERS_MAX / peers.len().max(1)).clamp(1, self.options.workers.max(1));
            for peer in peers {
                let mut state = self.lock();
                let standing = state.walk.peers.entry(peer.clone()).or_default();
                let out = standing.not_before.is_some_and(|time| Instant::now() < time);
                if standing.lenders == 0 && !out {
                    standing.lenders = 1;
                    drop(state);
                    let (lent, name) = (peer.clone(), peer);
                    let lend = move || self.lend_to(scope, ask, lent, each);
                    if worker_pool::start(scope, lend).is_err() {
                        self.leave_out(&name, &AllyError::NoThread);
                        self.lock().walk.peers.entry(name).or_default().lenders = 0;
                    }
                }
            }
            self.rest(LEFT_OUT / 30);
        }
    }

    /// Returns whether more waits than this host will reach soon.
    fn is_wide(&self, state: &State) -> bool {
        state.walk.has_part() || state.walk.stack.len() > 2 * self.options.workers
    }

    /// Waits, but not beyond the end of the scan.
    fn rest(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut state = self.lock();
        while !state.is_at_end() && Instant::now() < until {
            let waited = self.lend.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Checks that a peer sees the same store, and then has it list, with `each` requests at a
    /// time.
    fn lend_to<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        ask: Ask<'scope>,
        peer: Name,
        each: usize,
    ) {
        let ally = match self.probe(ask, &peer) {
            Ok(ally) => Arc::new(ally),
            Err(why) => {
                self.leave_out(&peer, &why);
                let mut state = self.lock();
                state.walk.peers.entry(peer).or_default().lenders -= 1;
                return;
            }
        };
        tracing::info!(%peer, inodes = ally.inodes, "another peer lists too");
        {
            let mut state = self.lock();
            state.walk.lenders += each;
            state.walk.peers.entry(peer.clone()).or_default().lenders = each;
        }
        for _ in 1..each {
            let ally = Arc::clone(&ally);
            if worker_pool::start(scope, move || self.lend(ask, &ally)).is_err() {
                let mut state = self.lock();
                state.walk.lenders -= 1;
                state.walk.peers.entry(peer.clone()).or_default().lenders -= 1;
            }
        }
        self.lend(ask, &ally);
    }

    fn leave_out(&self, peer: &Name, why: &AllyError) {
        let mut state = self.lock();
        if state.is_at_end() {
            return;
        }
        tracing::warn!(%peer, %why, "a peer does not list now; other peers list its part");
        let standing = state.walk.peers.entry(peer.clone()).or_default();
        standing.not_before = Some(Instant::now() + LEFT_OUT);
    }

    /// Runs one lender, which sends one request at a time.
    fn lend(&self, ask: Ask<'_>, ally: &Ally) {
        let mut each = Duration::ZERO;
        while let Some((key, work, units)) = self.next_lent(ally, each) {
            let began = Instant::now();
            let outcome = self.follow(ask, ally, key, &work);
            self.take_back(key);
            each = began.elapsed() / units.max(1) as u32;
            if let Err(why) = outcome
                && !ally.left.swap(true, Ordering::AcqRel)
            {
                self.leave_out(&ally.peer, &why);
            }
        }
        let mut state = self.lock();
        state.walk.lenders -= 1;
        let standing = state.walk.peers.entry(ally.peer.clone()).or_default();
        standing.lenders -= 1;
        if standing.lenders == 0 && standing.requests > 0 {
            let PeerProgress { entries, requests, .. } = *standing;
            tracing::info!(peer = %ally.peer, entries, requests, "another peer has listed");
        }
    }

    /// Takes a share of the work for a peer. `each` is the time that a directory took it so far.
    fn next_lent(&self, ally: &Ally, each: Duration) -> Option<(u64, ListWork, usize)> {
        let mut state = self.lock();
        while !state.is_at_end() && !ally.left.load(Ordering::Acquire) {
            if let Some(units) = self.take_share(&mut state, each) {
                let work = work_of(&units);
                let count = units.len();
                let walk = &mut state.walk;
                walk.listing += count;
                walk.lent_made += 1;
                let key = walk.lent_made;
                let units = units.into_iter().enumerate().collect();
                walk.lent.insert(key, LentUnits { units, moved: Instant::now() });
                walk.peers.entry(ally.peer.clone()).or_default().requests += 1;
                return Some((key, work, count));
            }
            let waited = self.lend.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    fn take_share(&self, state: &mut State, each: Duration) -> Option<Vec<Unit>> {
        if let Some(part) = state.walk.take_part() {
            return Some(vec![Unit::Part(part)]);
        }
        let takers = self.options.workers + state.walk.lenders;
        if !self.is_wide(state) {
            return None;
        }
        let share = (state.walk.stack.len() / takers.max(1)).clamp(1, LIST_DIRECTORIES_MAX);
        let in_time = REQUEST_TIME.as_nanos() / each.as_nanos().max(1);
        let most = share.min(usize::try_from(in_time).unwrap_or(share).max(1));
        let (mut units, mut bytes) = (Vec::with_capacity(most), 64);
        while units.len() < most {
            let directory = match state.walk.stack.pop() {
                Ok(Some(directory)) => directory,
                Ok(None) => break,
                Err(cause) => {
                    state.error.get_or_insert(SourceError::manifest(&self.directory, cause));
                    break;
                }
            };
            bytes += directory.len() + 4;
            if bytes > LIST_REQUEST_BYTES_MAX {
                state.walk.own.push(directory);
                break;
            }
            units.push(Unit::Directory(directory));
        }
        (!units.is_empty()).then_some(units)
    }

    /// Puts the unanswered units of a peer back into the queue.
    fn take_back(&self, key: u64) {
        let mut state = self.lock();
        if let Some(lent) = state.walk.lent.remove(&key) {
            for (_, unit) in lent.units {
                state.walk.give_back(unit, false);
            }
        }
        self.wake.notify_all();
    }

    /// Follows one request to its end.
    fn follow(
        &self,
        ask: Ask<'_>,
        ally: &Ally,
        key: u64,
        work: &ListWork,
    ) -> Result<(), AllyError> {
        let mut listing = ask.helpers.list(&ally.peer, self.options.transfer, work);
        let (mut heard, mut moved) = (Instant::now(), Instant::now());
        let (mut at, mut looked) = (0, 0);
        loop {
            let part = listing.next(LOOK)?;
            if self.has_lent_nothing(key) {
                return Ok(());
            }
            heard = if part.is_some() { Instant::now() } else { heard };
            let mut moves = true;
            match part {
                Some(ListPart::Begun { device }) if device != ally.device => {
                    return Err(AllyError::OtherFileSystem);
                }
                Some(ListPart::Alive { looked: now }) => {
                    moves = now != looked;
                    looked = now;
                }
                Some(ListPart::Found { names, excluded, entries }) => {
                    let names = names as usize;
                    self.take_found(ask, ally, (key, at), (names, excluded), entries);
                    at += 1;
                }
                Some(ListPart::Left) => {
                    self.keep_own((key, at));
                    at += 1;
                }
                Some(ListPart::Ended { why }) => return Err(AllyError::Ended(why)),
                Some(ListPart::Done) if self.has_lent_nothing(key) => return Ok(()),
                Some(ListPart::Done) => return Err(AllyError::Incomplete),
                Some(ListPart::Begun { .. }) => {}
                None => moves = false,
            }
            if moves {
                moved = Instant::now();
                if let Some(lent) = self.lock().walk.lent.get_mut(&key) {
                    lent.moved = moved;
                }
            }
            if heard.elapsed() > SILENCE_MAX {
                return Err(AllyError::Silent);
            }
            if moved.elapsed() > STANDSTILL_MAX {
                return Err(AllyError::Standstill);
            }
        }
    }

    /// Returns whether all lent units were answered or reclaimed, or the scan is over.
    fn has_lent_nothing(&self, key: u64) -> bool {
        let state = self.lock();
        state.is_at_end() || state.walk.lent.get(&key).is_none_or(|lent| lent.units.is_empty())
    }

    /// Takes the unit at a place of a request, if it is still lent.
    fn take_lent(state: &mut State, (key, at): (u64, usize)) -> Option<Unit> {
        let lent = state.walk.lent.get_mut(&key)?;
        let waits = lent.units.front().is_some_and(|(place, _)| *place == at);
        if waits { lent.units.pop_front().map(|(_, unit)| unit) } else { None }
    }

    /// Returns the directory of the unit at a place of a request, if it is still lent.
    fn lent_directory(&self, (key, at): (u64, usize)) -> Option<Vec<u8>> {
        let state = self.lock();
        let (place, unit) = state.walk.lent.get(&key)?.units.front()?;
        (*place == at).then(|| unit.directory().to_vec())
    }

    /// Keeps the unit at a place of a request for this host.
    fn keep_own(&self, place: (u64, usize)) {
        let mut state = self.lock();
        if let Some(unit) = Self::take_lent(&mut state, place) {
            state.walk.give_back(unit, true);
        }
        self.wake.notify_all();
    }

    /// Hands over a peer's findings in the unit at a place of a request. `names` counts the
    /// answered names of a part.
    fn take_found(
        &self,
        ask: Ask<'_>,
        ally: &Ally,
        place: (u64, usize),
        (names, excluded): (usize, u64),
        entries: Vec<ListedEntry>,
    ) {
        let Some(directory) = self.lent_directory(place) else { return };
        let sees_root = is_of_root(ask, &name::join(&self.options.root, &directory));
        let unit = {
            let mut state = self.lock();
            let Some(mut unit) = Self::take_lent(&mut state, place) else { return };
            if !sees_root {
                state.walk.give_back(unit, true);
                self.wake.notify_all();
                return;
            }
            if let Unit::Part(part) = &mut unit {
                if names == 0 {
                    state.walk.give_back(unit, true);
                    self.wake.notify_all();
                    return;
                }
                state.walk.split(part, names);
            }
            let standing = state.walk.peers.entry(ally.peer.clone()).or_default();
            standing.entries += entries.len() as u64 + excluded;
            unit
        };
        let mut ended = Ended::of(&unit, true);
        ended.passed.excluded = excluded;
        let outcome = self.hand_over_found(ask, ally, &unit, &mut ended, entries);
        self.end_unit(unit.directory(), outcome.map(|()| ended));
    }

    fn hand_over_found(
        &self,
        ask: Ask<'_>,
        ally: &Ally,
        unit: &Unit,
        ended: &mut Ended,
        entries: Vec<ListedEntry>,
    ) -> Result<(), SourceError> {
        let directory = unit.directory();
        let mut here = Here { scan: self, source: ask.source, directory, dir: None };
        let mut batch = Vec::with_capacity(BATCH_ENTRIES.min(entries.len()));
        let mut entries = entries.into_iter().peekable();
        while let Some(entry) = entries.next() {
            let Some(found) = here.found_of(ask, ally, entry) else { continue };
            ended.note(&found);
            batch.push(found);
            let full = batch.len() == BATCH_ENTRIES || entries.peek().is_none();
            if full && !self.hand_over(directory, &mut batch, &mut ended.passed.skipped)? {
                ended.cut();
                return Ok(());
            }
        }
        self.hand_over(directory, &mut batch, &mut ended.passed.skipped).map(drop)
    }

    /// Checks that a peer sees the same store as this host: both look at a sample of the entries
    /// found.
    fn probe(&self, ask: Ask<'_>, peer: &Name) -> Result<Ally, AllyError> {
        let sample = loop {
            let state = self.lock();
            if state.is_at_end() {
                return Err(AllyError::Over);
            }
            match &state.walk.sample {
                Some(sample) => break Arc::clone(sample),
                None => drop(state),
            }
            self.rest(LOOK);
        };
        let names = sample.entries.iter();
        let names =
            names.map(|(name, meta)| (name.clone(), Some(listed_kind(meta.kind)))).collect();
        let work = ListWork::Names { directory: sample.directory.clone(), names };
        let mut listing = ask.helpers.list(peer, self.options.transfer, &work);
        let began = Instant::now();
        let mut device = None;
        while began.elapsed() < PROBE_MAX {
            if self.lock().is_at_end() {
                return Err(AllyError::Over);
            }
            let part = listing.next(LOOK)?;
            match (part, device) {
                (Some(ListPart::Begun { device: root }), _) => device = Some(root),
                (Some(ListPart::Found { entries, .. }), Some(device)) => {
                    let inodes = self.compare(ask.source, &sample, &entries)?;
                    let (peer, left) = (peer.clone(), AtomicBool::new(false));
                    return Ok(Ally { peer, device, inodes, left });
                }
                (Some(ListPart::Left), _) => {
                    return Err(AllyError::Unexamined);
                }
                (Some(ListPart::Ended { why }), _) => return Err(AllyError::Ended(why)),
                (Some(ListPart::Alive { .. }) | None, _) => {}
                (Some(_), _) => return Err(AllyError::OutOfOrder),
            }
        }
        Err(AllyError::NoAnswer)
    }

    /// Compares a peer's view with a sample. Returns whether inode numbers are the same.
    ///
    /// # Errors
    /// The peer sees another store.
    fn compare(
        &self,
        source: &Source,
        sample: &Sample,
        there: &[ListedEntry],
    ) -> Result<bool, AllyError> {
        let full = name::join(&self.options.root, &sample.directory);
        let (mut same, mut inodes) = (0, true);
        for (leaf, meta) in &sample.entries {
            let found = there.iter().find(|entry| entry.name == *leaf);
            let is_same = |entry: &&ListedEntry| {
                kind_of(entry.kind) == meta.kind
                    && entry.size == meta.size
                    && entry.mtime == meta.mtime
            };
            if let Some(entry) = found.filter(is_same) {
                same += 1;
                inodes &= entry.inode == meta.inode;
                continue;
            }
            // The entry may have changed since, or the peer shows an earlier state of it.
            let now = source.open_dir(&full).and_then(|dir| source.stat(&dir, leaf));
            let stands = now.is_ok_and(|now| now == *meta);
            if stands && age_seconds(meta.ctime) > CACHED_SECONDS {
                let path = name::join(&full, leaf);
                let is = if found.is_some() { "is another one" } else { "is not" };
                return Err(AllyError::OtherEntry { path, is });
            }
        }
        if same == 0 {
            return Err(AllyError::SeesNothing);
        }
        Ok(inodes)
    }
}

/// Returns whether a directory lies on the root's file system as this host sees it. A mount below
/// the root may be absent at a peer, which would see an empty directory (C3).
fn is_of_root(ask: Ask<'_>, path: &[u8]) -> bool {
    let dir = ask.source.open_dir(path);
    dir.and_then(|dir| ask.source.stat(&dir, b"")).is_ok_and(|meta| meta.device == ask.device)
}

/// Converts units to a request.
fn work_of(units: &[Unit]) -> ListWork {
    if let [Unit::Part(part)] = units {
        let names = part.names.iter();
        let names = names.map(|(name, told)| (name.clone(), told.map(listed_kind))).collect();
        return ListWork::Names { directory: part.directory.to_vec(), names };
    }
    ListWork::Directories(units.iter().map(|unit| unit.directory().to_vec()).collect())
}

/// A directory on this host, whose entries another has listed.
struct Here<'a> {
    scan: &'a Scan,
    source: &'a Source,
    directory: &'a [u8],
    dir: Option<Dir>,
}

impl Here<'_> {
    /// Returns an entry as this host would have found it; `None` if it is missing.
    fn found_of(&mut self, ask: Ask<'_>, ally: &Ally, entry: ListedEntry) -> Option<Found> {
        let (mut found, mut meta) = Found::of_listed(entry);
        let several = meta.links > 1 && meta.kind != Kind::Directory;
        let known = ally.inodes && meta.device == ally.device;
        let asks = several && self.scan.options.preserve.hardlinks && !known;
        if asks {
            // Only this host's numbers show which names are one file (B6).
            match self.look(&found.name) {
                Ok(now) => meta = now,
                Err(error) if error.is_absent() => return None,
                Err(error) => {
                    found.meta = Err(error);
                    return Some(found);
                }
            }
        } else {
            // Devices are only compared with that of the root.
            let at_root = meta.device == ally.device;
            meta.device = if at_root { ask.device } else { !ask.device };
            meta.inode = if ally.inodes { meta.inode } else { 0 };
        }
        found.meta = Ok(meta);
        Some(found)
    }

    fn look(&mut self, leaf: &[u8]) -> Result<Meta, penstock_store::StoreError> {
        let dir = match &self.dir {
            Some(dir) => dir,
            None => {
                let full = name::join(&self.scan.options.root, self.directory);
                self.dir.insert(self.source.open_dir(&full)?)
            }
        };
        self.source.stat(dir, leaf)
    }
}

#[cfg(test)]
mod tests;
