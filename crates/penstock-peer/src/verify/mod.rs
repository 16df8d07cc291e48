//! Compares what is there with another tree, or with a list of checksums.
//!
//! No ledger and no daemon take part: this is for later, when nobody remembers how the data came.
//! Several threads walk and read; memory holds a bounded number of jobs, a directory entry at a
//! time, and two buffers for each thread, whatever the size of the trees. Links are never followed.
//!
//! What is found is told as it is found, in no order, to one closure.

mod content;
mod hash;
mod jobs;
mod list;
mod tree;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use penstock_io::store::StoreError;

use crate::stores::chain;

pub use hash::{Hashed, hash_tree};
pub use list::{ListProblem, verify_list};
pub use tree::{TreeEnd, TreeOptions, verify_trees};

/// How something is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It is there, and is not the same.
    Differs,
    /// It should be there.
    Missing,
    /// It should not be there.
    Extra,
    /// It could not be read, so that nothing is known of it.
    Unreadable,
    /// It changed while it was read, so that nothing is known of it.
    Changed,
}

impl Finding {
    /// Its name, in JSON and in lines.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Differs => "differs",
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Unreadable => "unreadable",
            Self::Changed => "changed",
        }
    }
}

/// Takes what is found: how, the path below the root, and what it is in words (may be empty).
pub type Teller<'a> = dyn Fn(Finding, &[u8], &str) + Sync + 'a;

/// What was looked at so far, for whoever watches.
#[derive(Debug, Default)]
pub struct VerifyFigures {
    /// Files whose content was compared to its end.
    pub files: AtomicU64,
    /// Bytes of these, on one side.
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
}

impl VerifyFigures {
    fn of(&self, finding: Finding) -> &AtomicU64 {
        match finding {
            Finding::Differs => &self.differing,
            Finding::Missing => &self.missing,
            Finding::Extra => &self.extra,
            Finding::Unreadable => &self.unreadable,
            Finding::Changed => &self.changed,
        }
    }

    /// How many such there are.
    pub fn count(&self, finding: Finding) -> u64 {
        self.of(finding).load(Ordering::Relaxed)
    }
}

/// Tells findings and counts them.
struct Told<'a> {
    figures: &'a VerifyFigures,
    tell: &'a Teller<'a>,
    /// One at a time, so that lines are whole.
    turn: Mutex<()>,
}

impl<'a> Told<'a> {
    fn new(figures: &'a VerifyFigures, tell: &'a Teller<'a>) -> Self {
        Self { figures, tell, turn: Mutex::new(()) }
    }

    fn say(&self, finding: Finding, path: &[u8], message: &str) {
        self.figures.of(finding).fetch_add(1, Ordering::Relaxed);
        let _turn = self.turn.lock();
        (self.tell)(finding, path, message);
    }

    /// An error of a store: the entry is gone, or cannot be read.
    fn failed(&self, path: &[u8], side: &str, error: &StoreError) {
        let finding = if error.is_vanished() { Finding::Changed } else { Finding::Unreadable };
        self.say(finding, path, &format!("at the {side}: {}", chain(error)));
    }

    fn add(&self, figure: impl FnOnce(&VerifyFigures) -> &AtomicU64, amount: u64) {
        figure(self.figures).fetch_add(amount, Ordering::Relaxed);
    }
}
