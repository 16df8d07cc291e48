//! A file system between its page cache and its platters.
//!
//! Data and names age separately, as on ext4 and XFS (hard case A1): a power cut keeps a random
//! *prefix* of the changes to names and attributes, for these are journalled in order, and *any*
//! subset of the data that was not synced. A sync covers what had returned when it began (A9); one
//! that fails marks data clean that never reached the platters (A4). `kill -9` changes nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// A file, by its inode.
    File(u64),
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
}

/// A name in the target's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    /// Ours alone; by page, entry and generation (B1).
    Temporary(u32, u32, u32),
    /// The user's.
    Final(u32, u32),
}

/// A change to names or attributes.
#[derive(Clone, Copy, Debug)]
enum Change {
    Set(Name, Node),
    Remove(Name),
    Rename(Name, Name),
    Attributes(u64),
    DirectoryDone(Name),
    Marker(u64),
}

/// Names, attributes and the sync marker: all that a file system journals.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) names: BTreeMap<Name, Node>,
    /// Inodes with the attributes of the source.
    pub(crate) attributed: BTreeSet<u64>,
    pub(crate) directories_done: BTreeSet<Name>,
    pub(crate) marker: u64,
}

impl Tree {
    fn apply(&mut self, change: Change) {
        match change {
            Change::Set(name, node) => {
                self.names.insert(name, node);
            }
            Change::Remove(name) => {
                self.names.remove(&name);
            }
            Change::Rename(from, to) => {
                if let Some(node) = self.names.remove(&from) {
                    self.names.insert(to, node);
                }
            }
            Change::Attributes(inode) => {
                self.attributed.insert(inode);
            }
            Change::DirectoryDone(name) => {
                self.directories_done.insert(name);
            }
            Change::Marker(epoch) => self.marker = epoch,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Inode {
    cache: Vec<u64>,
    stable: Vec<u64>,
    dirty: BTreeSet<usize>,
}

/// A sync in progress: what it covers.
#[derive(Debug)]
pub(crate) struct SyncTicket {
    cells: Vec<(u64, usize, u64)>,
    changes: u64,
}

/// The target's file system.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    /// As processes see it.
    pub(crate) cache: Tree,
    /// As a power cut would leave it at the least.
    pub(crate) stable: Tree,
    pending: VecDeque<Change>,
    /// Number of the first pending change.
    first_pending: u64,
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    /// Writes fail with ENOSPC.
    pub(crate) full: bool,
}

impl Disk {
    fn change(&mut self, change: Change) {
        self.cache.apply(change);
        self.pending.push_back(change);
    }

    /// Creates a file of `cells` cells; `None` if the name is taken (O_EXCL).
    pub(crate) fn create(&mut self, name: Name, cells: usize) -> Option<u64> {
        if self.cache.names.contains_key(&name) {
            return None;
        }
        let inode = self.next_inode;
        self.next_inode += 1;
        let empty = vec![0; cells];
        let file = Inode { cache: empty.clone(), stable: empty, dirty: BTreeSet::new() };
        self.inodes.insert(inode, file);
        self.change(Change::Set(name, Node::File(inode)));
        Some(inode)
    }

    /// Makes a directory or a link.
    pub(crate) fn make(&mut self, name: Name, node: Node) {
        if self.cache.names.get(&name) != Some(&node) {
            self.change(Change::Set(name, node));
        }
    }

    pub(crate) fn file(&self, name: Name) -> Option<u64> {
        match self.cache.names.get(&name) {
            Some(Node::File(inode)) => Some(*inode),
            _ => None,
        }
    }

    /// Writes one cell; `false` for ENOSPC.
    pub(crate) fn write(&mut self, inode: u64, at: usize, value: u64) -> bool {
        if self.full {
            return false;
        }
        if let Some(file) = self.inodes.get_mut(&inode) {
            file.cache[at] = value;
            file.dirty.insert(at);
        }
        true
    }

    /// Removes a name of ours.
    ///
    /// # Panics
    /// For a final name: nothing of ours ever deletes one (promise (e)).
    pub(crate) fn remove(&mut self, name: Name) {
        assert!(matches!(name, Name::Temporary(..)), "promise (e): {name:?} would be deleted");
        if self.cache.names.contains_key(&name) {
            self.change(Change::Remove(name));
        }
    }

    /// Gives a file its attributes and its final name.
    pub(crate) fn publish(&mut self, from: Name, to: Name, inode: u64) {
        self.change(Change::Attributes(inode));
        self.change(Change::Rename(from, to));
    }

    pub(crate) fn finish_directory(&mut self, name: Name) {
        self.change(Change::DirectoryDone(name));
    }

    pub(crate) fn set_marker(&mut self, epoch: u64) {
        self.change(Change::Marker(epoch));
    }

    /// The cells of a file as processes read them.
    pub(crate) fn cached(&self, inode: u64) -> &[u64] {
        self.inodes.get(&inode).map_or(&[], |file| &file.cache)
    }

    /// The cells of a file that a power cut would leave.
    pub(crate) fn stable_cells(&self, inode: u64) -> &[u64] {
        self.inodes.get(&inode).map_or(&[], |file| &file.stable)
    }

    pub(crate) fn begin_sync(&self) -> SyncTicket {
        let mut cells = Vec::new();
        for (number, inode) in &self.inodes {
            cells.extend(inode.dirty.iter().map(|at| (*number, *at, inode.cache[*at])));
        }
        SyncTicket { cells, changes: self.first_pending + self.pending.len() as u64 }
    }

    pub(crate) fn end_sync(&mut self, ticket: SyncTicket, good: bool, rng: &mut ChaCha8Rng) {
        for (number, at, value) in ticket.cells {
            let Some(inode) = self.inodes.get_mut(&number) else { continue };
            if good || rng.random_bool(0.5) {
                inode.stable[at] = value;
            }
            if inode.cache[at] == value {
                inode.dirty.remove(&at);
            }
        }
        while good && self.first_pending < ticket.changes {
            let Some(change) = self.pending.pop_front() else { break };
            self.first_pending += 1;
            self.stable.apply(change);
        }
    }

    /// The host loses power: of what was not synced, `luck` (0 to 1) of it survives.
    pub(crate) fn power_cut(&mut self, luck: f64, rng: &mut ChaCha8Rng) {
        for inode in self.inodes.values_mut() {
            for at in std::mem::take(&mut inode.dirty) {
                if rng.random_bool(luck) {
                    inode.stable[at] = inode.cache[at];
                }
            }
            inode.cache.clone_from(&inode.stable);
        }
        let kept = (self.pending.len() as f64 * rng.random_range(0.0..=1.0) * luck.sqrt()) as usize;
        self.first_pending += self.pending.len() as u64;
        for change in std::mem::take(&mut self.pending).into_iter().take(kept) {
            self.stable.apply(change);
        }
        self.cache = self.stable.clone();
    }
}
