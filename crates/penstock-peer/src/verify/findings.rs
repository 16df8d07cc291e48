//! Differences between two trees, their names, and their counts.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use penstock_proto::name::Own;
use penstock_store::StoreError;

use crate::stores::chain;

/// The kinds of differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The entry exists and differs.
    Differs,
    /// The entry is missing.
    Missing,
    /// The entry should not exist.
    Extra,
    /// The entry could not be read, so that its state is unknown.
    Unreadable,
    /// The entry changed while it was read, so that its state is unknown.
    Changed,
    /// An unfinished file of a copy, on either side, which is no part of the comparison.
    Unfinished,
}

impl Finding {
    /// Returns its name, in JSON and in lines.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Differs => "differs",
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Unreadable => "unreadable",
            Self::Changed => "changed",
            Self::Unfinished => "unfinished",
        }
    }
}

/// Takes one difference: its kind, the path below the root, and an explanation in words (may be
/// empty).
pub type Teller<'a> = dyn Fn(Finding, &[u8], &str) + Sync + 'a;

/// Counts of the comparison so far, for a progress display.
#[derive(Debug, Default)]
pub struct VerifyFigures {
    /// Files whose content was compared to its end.
    pub files: AtomicU64,
    /// Bytes of these files, on one side.
    pub bytes: AtomicU64,
    /// Directories that were compared.
    pub directories: AtomicU64,
    /// Symbolic links and special files that were compared.
    pub others: AtomicU64,
    /// Sockets, which are not carried.
    pub skipped: AtomicU64,
    /// By [`Finding`].
    pub differing: AtomicU64,
    /// By [`Finding`].
    pub missing: AtomicU64,
    /// By [`Finding`].
    pub extra: AtomicU64,
    /// By [`Finding`].
    pub unreadable: AtomicU64,
    /// By [`Finding`].
    pub changed: AtomicU64,
    /// By [`Finding`].
    pub unfinished: AtomicU64,
    /// State of runs, markers of copies and private directories of stores, which are passed over.
    pub own_state: AtomicU64,
}

impl VerifyFigures {
    pub(super) fn of(&self, finding: Finding) -> &AtomicU64 {
        match finding {
            Finding::Differs => &self.differing,
            Finding::Missing => &self.missing,
            Finding::Extra => &self.extra,
            Finding::Unreadable => &self.unreadable,
            Finding::Changed => &self.changed,
            Finding::Unfinished => &self.unfinished,
        }
    }

    /// Returns the number of such findings.
    pub fn count(&self, finding: Finding) -> u64 {
        self.of(finding).load(Ordering::Relaxed)
    }
}

/// Tells findings and counts them.
pub(super) struct Told<'a> {
    figures: &'a VerifyFigures,
    tell: &'a Teller<'a>,
    /// Serialises the calls of the closure, so that lines are whole.
    turn: Mutex<()>,
}

impl<'a> Told<'a> {
    pub(super) fn new(figures: &'a VerifyFigures, tell: &'a Teller<'a>) -> Self {
        Self { figures, tell, turn: Mutex::new(()) }
    }

    pub(super) fn say(&self, finding: Finding, path: &[u8], message: &str) {
        self.figures.of(finding).fetch_add(1, Ordering::Relaxed);
        let _turn = self.turn.lock();
        (self.tell)(finding, path, message);
    }

    /// Reports an error of a store: the entry is gone, or cannot be read.
    pub(super) fn failed(&self, path: &[u8], side: &str, error: &StoreError) {
        let finding = if error.is_vanished() { Finding::Changed } else { Finding::Unreadable };
        self.say(finding, path, &format!("at the {side}: {}", chain(error)));
    }

    /// Reports an own name at `path`, on one side.
    pub(super) fn own(&self, path: &[u8], side: &str, own: Own) {
        if own.kind.holds_data() {
            let message = format!("at the {side}, of copy {}", own.run);
            self.say(Finding::Unfinished, path, &message);
        } else {
            self.add(|figures| &figures.own_state, 1);
        }
    }

    pub(super) fn add(&self, figure: impl FnOnce(&VerifyFigures) -> &AtomicU64, amount: u64) {
        figure(self.figures).fetch_add(amount, Ordering::Relaxed);
    }
}
