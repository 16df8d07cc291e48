//! Model of a file system between the page caches of its hosts and its platters.
//!
//! It is on one host's own disk, or *shared* by several over a network, as NFS is. In the latter
//! case names and attributes are stable when the call returns. Each host then has a page cache of
//! its own, which no other sees and whose sync covers its writes alone (A9).
//!
//! Data and names age separately, as on ext4 and XFS (hard case A1). A power cut keeps a random
//! *prefix* of the changes to names and attributes, for these are journalled in order, and *any*
//! subset of the data that was not synced. A sync covers the writes that had returned when it began
//! (A9). A sync that fails marks data clean that never reached the platters (A4). `kill -9` changes
//! nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use penstock_proto::id::WriterId;
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

/// Object of a name.
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
    /// Penstock's own name; by page, entry, generation, and the writer of a file that has only one
    /// (B1).
    Temporary(u32, u32, u32, WriterId),
    /// The user's name.
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
    Marker(WriterId, u64),
}

/// Names, attributes and the sync marker: all that a file system journals.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) names: BTreeMap<Name, Node>,
    /// Inodes with the attributes of the source.
    pub(crate) attributed: BTreeSet<u64>,
    pub(crate) directories_done: BTreeSet<Name>,
    markers: BTreeMap<WriterId, u64>,
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
            Change::Marker(writer, epoch) => {
                self.markers.insert(writer, epoch);
            }
        }
    }

    /// Returns the last epoch that a writer began to sync; 0 if there is none.
    pub(crate) fn marker(&self, writer: WriterId) -> u64 {
        self.markers.get(&writer).copied().unwrap_or(0)
    }
}

/// Data of a file in a host's page cache that the platters lack.
#[derive(Clone, Debug, Default)]
struct Cache {
    cells: BTreeMap<usize, u64>,
    dirty: BTreeSet<usize>,
}

#[derive(Clone, Debug, Default)]
struct Inode {
    stable: Vec<u64>,
    /// Caches by host.
    caches: BTreeMap<u32, Cache>,
}

/// A sync in progress, with the changes that it covers.
#[derive(Debug)]
pub(crate) struct SyncTicket {
    host: u32,
    cells: Vec<(u64, usize, u64)>,
    changes: u64,
}

/// The target's file system.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    /// State as processes see it.
    pub(crate) cache: Tree,
    /// Least state that a power cut would leave.
    pub(crate) stable: Tree,
    pending: VecDeque<Change>,
    /// Number of the first pending change.
    first_pending: u64,
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    /// True if writes fail with ENOSPC.
    pub(crate) full: bool,
    /// True if several hosts write to it.
    pub(crate) shared: bool,
}

impl Disk {
    fn change(&mut self, change: Change) {
        self.cache.apply(change);
        match self.shared {
            true => self.stable.apply(change),
            false => self.pending.push_back(change),
        }
    }

    /// Creates a file of `cells` cells; `None` if the name is taken (O_EXCL).
    pub(crate) fn create(&mut self, name: Name, cells: usize) -> Option<u64> {
        if self.cache.names.contains_key(&name) {
            return None;
        }
        let inode = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(inode, Inode { stable: vec![0; cells], caches: BTreeMap::new() });
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
    pub(crate) fn write(&mut self, host: u32, inode: u64, at: usize, value: u64) -> bool {
        if self.full {
            return false;
        }
        if let Some(file) = self.inodes.get_mut(&inode) {
            let cache = file.caches.entry(host).or_default();
            cache.cells.insert(at, value);
            cache.dirty.insert(at);
        }
        true
    }

    /// Removes a name of Penstock's own.
    ///
    /// # Panics
    /// For a final name: no code ever deletes one (promise (e)).
    pub(crate) fn remove(&mut self, name: Name) {
        assert!(matches!(name, Name::Temporary(..)), "promise (e): {name:?} would be deleted");
        if self.cache.names.contains_key(&name) {
            self.change(Change::Remove(name));
        }
    }

    /// Sets the attributes and the final name of a file.
    pub(crate) fn publish(&mut self, from: Name, to: Name, inode: u64) {
        self.change(Change::Attributes(inode));
        self.change(Change::Rename(from, to));
    }

    pub(crate) fn finish_directory(&mut self, name: Name) {
        self.change(Change::DirectoryDone(name));
    }

    pub(crate) fn set_marker(&mut self, writer: WriterId, epoch: u64) {
        self.change(Change::Marker(writer, epoch));
    }

    /// Returns the cells of a file as processes of a host read them.
    pub(crate) fn cached(&self, host: u32, inode: u64) -> Vec<u64> {
        let Some(file) = self.inodes.get(&inode) else { return Vec::new() };
        let mut cells = file.stable.clone();
        for (at, value) in file.caches.get(&host).iter().flat_map(|cache| &cache.cells) {
            cells[*at] = *value;
        }
        cells
    }

    /// Returns the cells of a file that a power cut would leave.
    pub(crate) fn stable_cells(&self, inode: u64) -> &[u64] {
        self.inodes.get(&inode).map_or(&[], |file| &file.stable)
    }

    /// Drops the clean cells of a file from a host's cache, so that they are read from the
    /// platters.
    pub(crate) fn drop_clean(&mut self, host: u32, inode: u64) {
        let cache = self.inodes.get_mut(&inode).and_then(|file| file.caches.get_mut(&host));
        if let Some(Cache { cells, dirty }) = cache {
            cells.retain(|at, _| dirty.contains(at));
        }
    }

    pub(crate) fn begin_sync(&self, host: u32) -> SyncTicket {
        let mut cells = Vec::new();
        for (number, inode) in &self.inodes {
            let Some(cache) = inode.caches.get(&host) else { continue };
            cells.extend(cache.dirty.iter().map(|at| (*number, *at, cache.cells[at])));
        }
        SyncTicket { host, cells, changes: self.first_pending + self.pending.len() as u64 }
    }

    pub(crate) fn end_sync(&mut self, ticket: SyncTicket, good: bool, rng: &mut ChaCha8Rng) {
        for (number, at, value) in ticket.cells {
            let Some(inode) = self.inodes.get_mut(&number) else { continue };
            let Some(cache) = inode.caches.get_mut(&ticket.host) else { continue };
            if good || rng.random_bool(0.5) {
                inode.stable[at] = value;
            }
            if cache.cells.get(&at) == Some(&value) {
                cache.dirty.remove(&at);
                if inode.stable[at] == value {
                    cache.cells.remove(&at);
                }
            }
        }
        while good && self.first_pending < ticket.changes {
            let Some(change) = self.pending.pop_front() else { break };
            self.first_pending += 1;
            self.stable.apply(change);
        }
    }

    /// Cuts the power of a host: a share `luck` (0 to 1) of its unsynced data survives.
    pub(crate) fn power_cut(&mut self, host: u32, luck: f64, rng: &mut ChaCha8Rng) {
        for inode in self.inodes.values_mut() {
            let cache = inode.caches.remove(&host).unwrap_or_default();
            for at in cache.dirty {
                if rng.random_bool(luck) {
                    inode.stable[at] = cache.cells[&at];
                }
            }
        }
        let kept = (self.pending.len() as f64 * rng.random_range(0.0..=1.0) * luck.sqrt()) as usize;
        self.first_pending += self.pending.len() as u64;
        for change in std::mem::take(&mut self.pending).into_iter().take(kept) {
            self.stable.apply(change);
        }
        self.cache = self.stable.clone();
    }
}
