//! Compares what is there with another tree, or with a list of checksums.
//!
//! No ledger and no daemon take part: this is for later, when nobody remembers how the data came.
//! Several threads walk and read; memory holds a bounded number of jobs, a directory entry at a
//! time, and two buffers for each thread, whatever the size of the trees. Links are never followed.
//!
//! What is found is told as it is found, in no order, to one closure.

mod content;
mod hash;
pub(crate) mod hashing;
mod jobs;
mod list;
mod tree;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use penstock_io::store::StoreError;
use penstock_proto::name::Own;

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
    /// It is a file that a copy has not finished, on either side: no part of what is compared.
    Unfinished,
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
            Self::Unfinished => "unfinished",
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
    /// By [`Finding`].
    pub unfinished: AtomicU64,
    /// State of runs, markers of copies and private directories of stores, which are passed over.
    pub own_state: AtomicU64,
}

impl VerifyFigures {
    fn of(&self, finding: Finding) -> &AtomicU64 {
        match finding {
            Finding::Differs => &self.differing,
            Finding::Missing => &self.missing,
            Finding::Extra => &self.extra,
            Finding::Unreadable => &self.unreadable,
            Finding::Changed => &self.changed,
            Finding::Unfinished => &self.unfinished,
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

    /// An own name at `path`, on one side.
    fn own(&self, path: &[u8], side: &str, own: Own) {
        if own.kind.holds_data() {
            let message = format!("at the {side}, of copy {}", own.run);
            self.say(Finding::Unfinished, path, &message);
        } else {
            self.add(|figures| &figures.own_state, 1);
        }
    }

    fn add(&self, figure: impl FnOnce(&VerifyFigures) -> &AtomicU64, amount: u64) {
        figure(self.figures).fetch_add(amount, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;
    use crate::stores::worker_pool;

    /// Promise: where a limit of tasks lets no thread start, trees are compared and hashed all the
    /// same, and lists that are longer than what may wait.
    #[test]
    fn trees_are_compared_where_no_thread_can_be_started() {
        const TEST: &str = "verify::tests::trees_are_compared_where_no_thread_can_be_started";
        if !worker_pool::cannot_be_started(TEST) {
            return;
        }
        let base = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|tree| base.path().join(tree));
        let mut lines = String::new();
        for number in 0..jobs::WAITING_MAX + 9 {
            for tree in [&a, &b] {
                fs::create_dir_all(tree.join("d")).unwrap();
                fs::write(tree.join(format!("d/{number}")), number.to_string()).unwrap();
            }
            let digest = blake3::hash(number.to_string().as_bytes()).to_hex();
            lines.push_str(&format!("{digest}  d/{number}\n"));
        }
        fs::write(b.join("d/7"), "other").unwrap();
        let path = base.path().join("list");
        fs::write(&path, lines).unwrap();
        let [trees, list] = [VerifyFigures::default(), VerifyFigures::default()];
        let tell = |_: Finding, _: &[u8], _: &str| {};
        let end = |directory| TreeEnd { directory, name: b"" };
        let options = TreeOptions { attributes: false, workers: 4 };
        verify_trees(end(&a), end(&b), options, &trees, &tell).unwrap();
        verify_list(&mut File::open(&path).unwrap(), &b, None, 4, &list, &tell).unwrap();
        for figures in [trees, list] {
            assert_eq!(figures.count(Finding::Differs), 1);
            assert!(figures.files.into_inner() >= jobs::WAITING_MAX as u64 + 8, "the others");
        }
        let mut hashed = 0;
        hash_tree(&a, 4, &mut |_| hashed += 1).unwrap();
        assert_eq!(hashed, jobs::WAITING_MAX + 9);
    }
}
