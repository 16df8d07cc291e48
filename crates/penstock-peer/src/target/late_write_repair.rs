//! Repairs finished files to which an abandoned peer may have written late (B1).
//!
//! Such a late write repeats the bytes that are there, since the peer only has files of one
//! generation open. It moves the file's time, and removes special bits. The repair sets the time
//! and the bits again, and changes nothing else: the file may belong to its user by now. A file
//! counts as written to late if all of this holds:
//!
//! - It is a file of the same size, and its time differs from the one with which it was made.
//! - The file was not changed since that write. A write sets the times of modification and of
//!   change together (POSIX write(2)); `chmod`, `chown`, `touch -d` move the latter alone. A client
//!   of a distributed file system that has not yet reported a write to its server shows the former
//!   alone as moved (docs/design/0025). For a file with several names this is unknown, since each
//!   name moved the time of change.
//! - Its mode differs only in bits that a write removes.
//! - Its bytes match its digest, and it did not change while they were read.
//!
//! Content is never written. One doubt remains, a `touch` by hand to the present or a later time,
//! of a file without a late write: its time is set back.

use penstock_api::task::Mended;
use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::manifest::{Entry, Page};
use penstock_store::{Dir, Kind, Meta, ReadFile, Step, StoreError, Target};
use penstock_sys::buffer::BufferPool;

use crate::source::read::place;
use crate::stores::chain;
use crate::stores::errors::{StoreFault, is_of_store};
use crate::task::error::TaskError;
use crate::write::attributes::AttributePolicy;
use crate::write::uncached_file::UncachedFile;

/// Bits that a write takes off a file (inode(7)).
const SPECIAL_BITS: u32 = 0o6000;
/// Distance of the two times of a write. A write before the last rename has the time of change of
/// that rename, a moment later. Some servers count whole seconds.
const TOGETHER_SECONDS: i64 = 2;

/// The state in which a file was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// The file is as it was made.
    Right,
    /// The file had a late write, and its attributes were set again.
    Mended,
    /// The file was changed, replaced or removed by another program.
    Others,
}

/// Repairs the attributes that late writes have moved.
pub(crate) struct LateWriteRepair<'a> {
    pub(crate) target: &'a Target,
    pub(crate) root: &'a [u8],
    pub(crate) kind: DigestKind,
    pub(crate) keeper: &'a AttributePolicy,
    pub(crate) pool: &'a BufferPool,
}

impl LateWriteRepair<'_> {
    /// Examines these files of a page, each with its digest.
    ///
    /// # Errors
    /// The store is at fault.
    pub(crate) fn mend(&self, page: &Page, files: &[(u32, String)]) -> Result<Mended, TaskError> {
        let mut found = Mended::default();
        for (index, digest) in files {
            let Some(entry) = page.entries().get(*index as usize) else { continue };
            let Some(digest) = Digest::from_hex(digest) else { continue };
            match self.mend_file(page, entry, digest) {
                Ok(Found::Right) => {}
                Ok(Found::Mended) => found.mended += 1,
                Ok(Found::Others) => found.others += 1,
                Err(error) if error.is_vanished() => found.others += 1,
                Err(error) if is_of_store(self.target, &error) => {
                    return Err(StoreFault::of_store(&error).into());
                }
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "a file cannot be examined again");
                }
            }
        }
        Ok(found)
    }

    fn mend_file(&self, page: &Page, entry: &Entry, digest: Digest) -> Result<Found, StoreError> {
        let (parent, leaf) = place(self.root, page, entry);
        let dir = self.target.open_dir(&parent)?;
        let Some(there) = self.target.meta(&dir, &leaf)? else { return Ok(Found::Others) };
        let mode = self.keeper.mode(page, entry);
        let dated = dir.has_time(&there, entry.mtime, Step::EXACT);
        let timed = self.keeper.sets_times().then_some(dated);
        match judge(entry, mode, timed, &there) {
            Verdict::Right => return Ok(Found::Right),
            Verdict::Others => return Ok(Found::Others),
            Verdict::Late => {}
        }
        // Another program has written to it.
        let file = UncachedFile::at(self.target.open_read(&dir, &leaf)?, true);
        let unchanged = |now: Meta| is_same(&now, &there);
        if !unchanged(file.meta()?) || self.digest_of(page, entry, &file)? != Some(digest) {
            return Ok(Found::Others);
        }
        self.set_again(page, entry, (&dir, &leaf[..]), unchanged)
    }

    fn set_again(
        &self,
        page: &Page,
        entry: &Entry,
        (dir, leaf): (&Dir, &[u8]),
        unchanged: impl Fn(Meta) -> bool,
    ) -> Result<Found, StoreError> {
        let file = self.target.open_written(dir, leaf)?;
        if !file.meta()?.is_some_and(unchanged) {
            return Ok(Found::Others);
        }
        let sync = file.dir().durability().is_per_file();
        let not_set = file.finish(&self.keeper.attributes(page, entry), sync)?;
        self.keeper.settle(&page.path(entry), &not_set)?;
        Ok(Found::Mended)
    }

    /// Returns the digest of a file that travelled as extents, computed as for them. Returns `None`
    /// if the file ends before its size.
    fn digest_of(
        &self,
        page: &Page,
        entry: &Entry,
        file: &ReadFile,
    ) -> Result<Option<Digest>, StoreError> {
        let (kind, size) = (self.kind, entry.size);
        let extent_bytes = page.slicing.extent_bytes_of(size);
        let stride = u64::from(page.slicing.stride_bytes);
        let mut buffer = self.pool.take();
        let (mut extents, mut strides) = (Vec::new(), Vec::new());
        let mut from = 0;
        while from < size {
            let end = (from + extent_bytes).min(size);
            let mut at = from;
            while at < end {
                let bytes = &mut buffer[..(end - at).min(stride) as usize];
                if file.read_at(at, bytes)? < bytes.len() {
                    return Ok(None);
                }
                strides.push(kind.stride(size, at, bytes));
                at += bytes.len() as u64;
            }
            extents.push(kind.merge(&strides, stride, end - from, false));
            strides.clear();
            from = end;
        }
        Ok(Some(kind.merge(&extents, extent_bytes, size, true)))
    }
}

/// The judgement of a file by its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Right,
    /// Its bytes decide.
    Late,
    Others,
}

/// Judges a file that was made with this mode, and that has or has not the time that it was made
/// with, where these were set.
fn judge(entry: &Entry, mode: Option<u32>, dated: Option<bool>, there: &Meta) -> Verdict {
    if there.kind != Kind::File || there.size != entry.size {
        return Verdict::Others;
    }
    let moved = dated == Some(false);
    let (lost, won) = match mode {
        Some(mode) => (mode & !there.mode, there.mode & !mode),
        None => (0, 0),
    };
    if !moved && lost == 0 && won == 0 {
        return Verdict::Right;
    }
    let apart = there.ctime.seconds - there.mtime.seconds;
    let untouched = there.links > 1 || apart <= TOGETHER_SECONDS;
    let by_write = won == 0 && lost & !SPECIAL_BITS == 0 && (moved || dated.is_none());
    if by_write && untouched { Verdict::Late } else { Verdict::Others }
}

/// Returns whether a file is unchanged since it was examined.
fn is_same(now: &Meta, before: &Meta) -> bool {
    (now.inode, now.size, now.mtime, now.ctime)
        == (before.inode, before.size, before.mtime, before.ctime)
}

#[cfg(test)]
mod tests;
