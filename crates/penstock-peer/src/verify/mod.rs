//! Compares a tree with another tree, or with a list of checksums.
//!
//! No ledger and no daemon take part: this is for later, when no record of the transfer is left.
//! Several threads walk and read. Memory holds a bounded number of jobs, one directory entry at a
//! time, and two buffers for each thread, whatever the size of the trees. Links are never followed.
//!
//! Each difference is reported to one closure when it is found, in no order.

mod content;
mod findings;
mod hash;
pub(crate) mod hashing;
mod jobs;
mod list;
mod tree;

pub use findings::{Finding, Teller, VerifyFigures};
pub use hash::{Hashed, hash_tree};
pub use list::{ListProblem, verify_list};
pub use tree::{TreeEnd, TreeOptions, verify_trees};

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;
    use crate::stores::worker_pool;

    /// Promise: where a limit of tasks lets no thread start, trees are still compared and hashed,
    /// and so are lists with more lines than may wait.
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
