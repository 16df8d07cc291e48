//! Units of a walk: directories, and parts of large ones, that wait or are at hand.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_proto::id::Name;
use penstock_store::{Kind, Meta, StoreError};

use super::found::Found;
use crate::scan::path_stack::PathStack;

/// The queue of a walk, and the units at hand.
#[derive(Default)]
pub(super) struct Walk {
    /// Directories to be listed, last first.
    pub(super) stack: PathStack,
    /// Directories that only this host lists: another peer has met an error in them, or too much.
    pub(super) own: PathStack,
    /// Parts of large directories.
    pub(super) parts: VecDeque<Part>,
    pub(super) large: BTreeMap<u64, Large>,
    pub(super) made: u64,
    /// Number of units at hand, here and at other peers.
    pub(super) listing: usize,
    /// Workers of this host that wait.
    pub(super) idle: usize,
    /// Threads that have other peers list.
    pub(super) lenders: usize,
    /// Units at hand at other peers.
    pub(super) lent: BTreeMap<u64, LentUnits>,
    pub(super) lent_made: u64,
    /// Progress of each other peer.
    pub(super) peers: BTreeMap<Name, PeerProgress>,
    /// Entries of one directory as this host saw them.
    pub(super) sample: Option<Arc<Sample>>,
}

impl Walk {
    /// Creates an empty walk. Paths beyond the memory limit go into files in `directory`.
    pub(super) fn new(directory: &Path) -> Self {
        let (stack, own) = (PathStack::new(directory), PathStack::new(directory));
        Self { stack, own, ..Self::default() }
    }

    /// Takes the next unit for this host.
    pub(super) fn take(&mut self) -> io::Result<Option<Unit>> {
        let waiting = match self.parts.pop_front() {
            Some(part) => Some(Unit::Part(part)),
            None => match self.own.pop()? {
                Some(directory) => Some(Unit::Directory(directory)),
                None => self.stack.pop()?.map(Unit::Directory),
            },
        };
        if waiting.is_some() {
            self.listing += 1;
            return Ok(waiting);
        }
        // The list is empty: takes a unit that another peer has not begun, or does not finish.
        let now = Instant::now();
        let lent = self.lent.values_mut().filter(|lent| lent.has_spare(now));
        Ok(lent
            .max_by_key(|lent| lent.units.len())
            .and_then(|lent| lent.units.pop_back())
            .map(|(_, unit)| unit))
    }

    /// Returns whether everything is listed.
    pub(super) fn is_over(&self) -> bool {
        self.listing == 0 && self.parts.is_empty() && self.stack.is_empty() && self.own.is_empty()
    }

    /// Returns whether a part of a large directory waits that another peer may take.
    pub(super) fn has_part(&self) -> bool {
        self.parts.iter().any(|part| !part.own)
    }

    /// Takes such a part.
    pub(super) fn take_part(&mut self) -> Option<Part> {
        let at = self.parts.iter().position(|part| !part.own)?;
        self.parts.remove(at)
    }

    /// Puts an unanswered unit of another peer back, for this host alone if `own`.
    pub(super) fn give_back(&mut self, unit: Unit, own: bool) {
        self.listing -= 1;
        match unit {
            Unit::Directory(directory) if own => self.own.push(directory),
            Unit::Directory(directory) => self.stack.push(directory),
            Unit::Part(part) => self.parts.push_front(Part { own: own || part.own, ..part }),
        }
    }

    /// Puts the names after the first `answered` of a part back; the caller has the part at hand.
    pub(super) fn split(&mut self, part: &mut Part, answered: usize) {
        if answered >= part.names.len() {
            return;
        }
        if let Some(large) = self.large.get_mut(&part.large) {
            large.open += 1;
        }
        let names = part.names.split_off(answered);
        let directory = Arc::clone(&part.directory);
        self.parts.push_front(Part { large: part.large, directory, names, own: part.own });
    }

    /// Leaves names to idle workers.
    pub(super) fn leave(&mut self, large: &mut Option<u64>, directory: &[u8], names: PartNames) {
        let (key, entry) = match *large {
            Some(key) => (key, self.large.get_mut(&key)),
            None => {
                self.made += 1;
                *large = Some(self.made);
                let directory = Arc::from(directory);
                let passed = Passed::default();
                // The listing itself counts as one open part.
                let entry = Large { directory, open: 1, whole: true, passed };
                (self.made, Some(self.large.entry(self.made).or_insert(entry)))
            }
        };
        // The entry exists until its listing ends.
        let Some(entry) = entry else { return };
        entry.open += 1;
        let directory = Arc::clone(&entry.directory);
        self.parts.push_back(Part { large: key, directory, names, own: false });
    }

    /// Ends a part of a large directory. Returns the directory if this was its last part, and
    /// everything was handed over.
    pub(super) fn end_part(
        &mut self,
        key: u64,
        whole: bool,
        passed: Passed,
    ) -> Option<(Vec<u8>, Passed)> {
        let large = self.large.get_mut(&key)?;
        large.open -= 1;
        large.whole &= whole;
        large.passed.add(passed);
        if large.open > 0 {
            return None;
        }
        let large = self.large.remove(&key)?;
        large.whole.then(|| (large.directory.to_vec(), large.passed))
    }
}

/// The work that one worker takes at a time.
#[derive(Debug)]
pub(super) enum Unit {
    Directory(Vec<u8>),
    Part(Part),
}

impl Unit {
    /// Returns the directory that the unit is, or is a part of.
    pub(super) fn directory(&self) -> &[u8] {
        match self {
            Self::Directory(directory) => directory,
            Self::Part(part) => &part.directory,
        }
    }
}

/// Some names of a large directory, with the kinds that listing returned.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) large: u64,
    pub(super) directory: Arc<[u8]>,
    pub(super) names: Vec<(Vec<u8>, Option<Kind>)>,
    /// Set if only this host may look at them.
    pub(super) own: bool,
}

/// A directory of which parts are, or were, left to other workers.
pub(super) struct Large {
    pub(super) directory: Arc<[u8]>,
    /// Parts that are not handed over, and its listing.
    pub(super) open: usize,
    pub(super) whole: bool,
    pub(super) passed: Passed,
}

/// Entries of one directory.
pub(super) struct Sample {
    pub(super) directory: Vec<u8>,
    pub(super) entries: Vec<(Vec<u8>, Meta)>,
}

pub(super) type PartNames = Vec<(Vec<u8>, Option<Kind>)>;

/// The result of one unit.
#[derive(Default)]
pub(super) struct Ended {
    /// All of it was handed over.
    pub(super) whole: bool,
    pub(super) passed: Passed,
    pub(super) large: Option<u64>,
}

impl Ended {
    /// Creates the result of a unit that another peer has answered.
    pub(super) fn of(unit: &Unit, whole: bool) -> Self {
        let large = match unit {
            Unit::Part(part) => Some(part.large),
            Unit::Directory(_) => None,
        };
        Self { whole, large, passed: Passed::default() }
    }

    /// Notes an entry. After a crash, an entry with a reported error is listed again.
    pub(super) fn note(&mut self, found: &Found) {
        self.whole &= found.meta.as_ref().err().is_none_or(StoreError::is_absent);
    }

    /// Notes that not everything was handed over, or an error was reported: a later scan lists the
    /// unit again.
    pub(super) fn cut(&mut self) {
        self.whole = false;
    }
}

/// Number of entries of one directory that are handed to the builder at a time.
pub(super) const BATCH_ENTRIES: usize = 512;

/// Counts of the names passed over in one directory.
#[derive(Clone, Copy, Default)]
pub(super) struct Passed {
    pub(super) excluded: u64,
    pub(super) skipped: u64,
    pub(super) own_state: u64,
}

impl Passed {
    pub(super) fn add(&mut self, other: Self) {
        self.excluded += other.excluded;
        self.skipped += other.skipped;
        self.own_state += other.own_state;
    }
}

/// Units that one lender has lent and that are unanswered, with their places in the request.
pub(super) struct LentUnits {
    pub(super) units: VecDeque<(usize, Unit)>,
    pub(super) moved: Instant,
}

impl LentUnits {
    /// Returns whether an idle worker may take the last of the units.
    pub(super) fn has_spare(&self, now: Instant) -> bool {
        self.units.len() > 1 || !self.units.is_empty() && now - self.moved >= LATE
    }
}

/// The progress of another peer in this scan.
#[derive(Default)]
pub(super) struct PeerProgress {
    pub(super) lenders: usize,
    /// Not asked before then.
    pub(super) not_before: Option<Instant>,
    pub(super) entries: u64,
    pub(super) requests: u64,
}

/// Time without progress after which an idle worker takes a peer's units back.
pub(super) const LATE: Duration = Duration::from_secs(1);
