//! Removes at the source the entries that its target has, durable and checked (`--remove-source`).
//!
//! An order is processed from its last entry to the first, so that a directory follows its
//! contents. A directory is removed only if it is empty. A file, link, pipe or device is renamed to
//! a temporary name first (C6), and removed only in its listed version: size, times, inode. The
//! listing host's mount may number inodes differently (C1). Size and times then decide, and the
//! number only proves that the checked file is the renamed one. The root of the data set, if it is
//! a directory, is never removed: it is found empty then, not missing.

use std::cell::Cell;
use std::time::{Duration, Instant};

use penstock_api::removal::{RemoveFailure, RemoveOrder, RemoveReply};
use penstock_proto::digest::Digest;
use penstock_proto::id::TransferId;
use penstock_proto::manifest::{Entry, EntryKind, Page};
use penstock_proto::name;
use penstock_proto::units::FileTime;
use penstock_store::{
    DirCache, Kind, Look, Meta, PosixStore, Removal, StoreError, remove_empty_dir, take_away,
};

use crate::scan::Scan;
use crate::source::error::SourceError;
use crate::source::interrupted_removal;
use crate::source::read::place;
use crate::stores::chain;

/// Longest time for which one order is worked on before the answer.
const SLICE: Duration = Duration::from_secs(2);
/// Error number that is reported for an error without one of its own (errno(3)).
const EIO: u16 = 5;

/// Removes entries of one page.
pub(crate) struct Remover<'a> {
    pub(crate) store: &'a PosixStore,
    pub(crate) transfer: TransferId,
    /// The scan that listed the data set.
    pub(crate) scan: &'a Scan,
    pub(crate) page: &'a Page,
    pub(crate) digest: Digest,
    /// Set if several names of one file were listed as such. If not, removing one changes the
    /// others.
    pub(crate) hardlinks: bool,
    /// Set if inode numbers in the page are those of this host.
    pub(crate) inodes: bool,
    /// Time of the first order of the transfer.
    pub(crate) began: FileTime,
}

impl Remover<'_> {
    /// Works on an order until it is done, or [`SLICE`] has passed.
    ///
    /// # Errors
    /// The order is not sound. Failures of single entries are in the reply.
    pub(crate) fn remove(&self, order: &RemoveOrder) -> Result<RemoveReply, SourceError> {
        let wanted = order.wanted().ok_or(SourceError::NoSuchEntries)?;
        let until = Instant::now() + SLICE;
        let mut dirs = DirCache::default();
        let mut reply = RemoveReply::default();
        let entries = self.page.entries();
        let mut at = (order.below as usize).min(entries.len());
        while at > 0 && Instant::now() < until {
            at -= 1;
            let (index, entry) = (at as u32, &entries[at]);
            if !wanted.contains(index) || self.is_root(entry) || self.leads_only(entry) {
                continue;
            }
            let errno = match self.entry(index, entry, &mut dirs) {
                Ok(Removal::Done | Removal::Vanished) => {
                    reply.removed += 1;
                    continue;
                }
                Ok(Removal::NotEmpty) => continue,
                Ok(Removal::Changed) => 0,
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "not removed at the source");
                    errno_of(&error)
                }
            };
            reply.failures.push(RemoveFailure { entry: index, errno });
        }
        reply.next = at as u32;
        Ok(reply)
    }

    fn is_root(&self, entry: &Entry) -> bool {
        entry.kind == EntryKind::Directory && self.page.name(entry).is_empty()
    }

    /// Returns whether an entry was listed only because it leads to a path that a user has named.
    fn leads_only(&self, entry: &Entry) -> bool {
        entry.kind == EntryKind::Directory && !self.scan.is_named(&self.page.path(entry))
    }

    fn entry(&self, index: u32, entry: &Entry, dirs: &mut DirCache) -> Result<Removal, StoreError> {
        let (parent, leaf) = place(self.scan.root(), self.page, entry);
        let opened =
            dirs.get(penstock_sys::boottime_now(), &parent, |path| self.store.open_dir(path));
        let dir = match opened {
            Ok(dir) => dir,
            Err(error) if error.is_vanished() => return Ok(Removal::Vanished),
            // A directory on the way has become something else, so the listed entry is missing.
            Err(StoreError::NotDirectory { .. }) => return Ok(Removal::Changed),
            Err(error) => return Err(error),
        };
        if entry.kind == EntryKind::Directory {
            dirs.forget(&name::join(&parent, &leaf));
            let inode = if self.inodes { entry.identity.inode } else { 0 };
            return remove_empty_dir(self.store, &dir, &leaf, inode);
        }
        let aside = interrupted_removal::name_of(self.transfer, self.digest, index, entry);
        let several = entry.linked || entry.kind == EntryKind::HardLink || !self.hardlinks;
        // Number under which the entry was seen here. A file that an earlier attempt has set aside,
        // perhaps at another host, has none. It gets its name back, since nothing proves that it is
        // the file which that attempt checked.
        let seen = Cell::new(None);
        let is_same = |now: &Meta, look: Look| {
            let ours = several && is_not_before(now.ctime, self.began);
            let moved = is_moved(entry, now, ours || look == Look::Aside);
            match look {
                _ if self.inodes => moved && is_number(entry, now),
                Look::Named => {
                    seen.set(moved.then_some(now.inode));
                    moved
                }
                Look::Aside => moved && seen.get() == Some(now.inode),
            }
        };
        take_away(self.store, &dir, &leaf, &aside, &is_same)
    }
}

/// Returns whether the inode number is that of the entry, if the entry has one.
fn is_number(entry: &Entry, now: &Meta) -> bool {
    let inode = entry.identity.inode;
    inode == 0 || inode == now.inode
}

/// Returns whether a file is the listed version, whatever its inode number. Its change time proves
/// nothing after a rename, or after another of its names was removed.
fn is_moved(entry: &Entry, now: &Meta, ctime_changes: bool) -> bool {
    let kind = match entry.kind {
        EntryKind::HardLink => now.kind != Kind::Directory,
        kind => now.kind.entry_kind() == Some(kind),
    };
    let identity = entry.identity;
    kind && (now.kind != Kind::File || now.size == entry.size)
        && now.mtime == entry.mtime
        && (ctime_changes || now.ctime == identity.ctime)
}

/// Returns whether a stamp is of this time or later, within the file system's resolution.
fn is_not_before(stamp: FileTime, time: FileTime) -> bool {
    if stamp.nanoseconds == 0 { stamp.seconds >= time.seconds - 1 } else { stamp >= time }
}

fn errno_of(error: &StoreError) -> u16 {
    let told = error.errno().and_then(|errno| u16::try_from(errno).ok());
    told.filter(|errno| *errno > 0).unwrap_or(EIO)
}

#[cfg(test)]
mod tests;
