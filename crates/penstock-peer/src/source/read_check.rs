//! Checks that a file that was read still has the version of its page (C1, C2). Finds the files
//! that must be checked again before the transfer ends.
//!
//! Size, time of last modification and inode tell versions apart. The change time reacts to more
//! than data: a chmod, or a backup that makes a hard link, moves it as well. Where it alone
//! differs, the served bytes are read once more. The same digests, with a change time that does not
//! move meanwhile, prove that they are of one version. Otherwise the file has changed. An unchanged
//! file costs no more than one stat at its end.

use std::time::{SystemTime, UNIX_EPOCH};

use penstock_engine::fetch::Part;
use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::journal::{EntryFailure, FailurePhase};
use penstock_proto::manifest::Entry;
use penstock_proto::units::FileTime;
use penstock_store::{Meta, ReadFile, StoreError};

/// Age below which a change time may repeat for a later change. Clocks of file systems are coarse,
/// those of some servers by a second or two.
const YOUNG_SECONDS: i64 = 2;

/// The state of a file as found after it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// The file is as its page describes it.
    Same,
    /// The file is as its page describes it, except for its change time, which differs or is very
    /// young.
    LookAgain(FileTime),
    /// The file is another version.
    Changed,
}

/// Strides that were served of a file, for comparison with a second read.
#[derive(Debug, Default)]
pub(crate) struct ReadCheck {
    strides: Vec<(u64, usize, Digest)>,
    holes: bool,
}

impl ReadCheck {
    /// Begins another file.
    pub(crate) fn clear(&mut self) {
        self.strides.clear();
        self.holes = false;
    }

    pub(crate) fn note(&mut self, offset: u64, length: usize, digest: Digest) {
        self.strides.push((offset, length, digest));
    }

    pub(crate) fn note_hole(&mut self) {
        self.holes = true;
    }

    /// Compares a file that was read with its entry. Reads it once more if only its change time
    /// differs. `held` holds the bytes of a whole file that is hashed later, and of which no stride
    /// was noted. `to_end` is true if the last bytes of the file were among those served.
    ///
    /// # Errors
    /// The file can no longer be examined or read.
    pub(crate) fn fit(
        &self,
        entry: &Entry,
        file: &ReadFile,
        kind: DigestKind,
        held: Option<&[u8]>,
        to_end: bool,
    ) -> Result<Freshness, StoreError> {
        let meta = file.meta_read_to(entry.size, to_end)?;
        if !is_same(entry, &meta) {
            return Ok(Freshness::Changed);
        }
        if entry.special {
            return Ok(Freshness::Same);
        }
        let ctime = meta.ctime;
        if ctime == entry.identity.ctime {
            return Ok(if is_young(ctime) { Freshness::LookAgain(ctime) } else { Freshness::Same });
        }
        // Served holes have no digest that could show whether they are still holes.
        if self.holes {
            return Ok(Freshness::Changed);
        }
        if let Some(held) = held {
            let mut bytes = vec![0; held.len()];
            if file.read_at(0, &mut bytes)? < held.len() || bytes != held {
                return Ok(Freshness::Changed);
            }
        }
        // Allocated separately: waiting for a second pool buffer while holding one can deadlock.
        let longest = self.strides.iter().map(|(_, length, _)| *length).max().unwrap_or(0);
        let mut buffer = vec![0; longest];
        for (offset, length, digest) in &self.strides {
            let bytes = &mut buffer[..*length];
            let read = file.read_at(*offset, bytes)?;
            if read < *length || kind.stride(entry.size, *offset, bytes) != *digest {
                return Ok(Freshness::Changed);
            }
        }
        let after = file.meta_read_to(entry.size, to_end)?;
        let stands = is_same(entry, &after) && after.ctime == ctime;
        Ok(if stands { Freshness::LookAgain(ctime) } else { Freshness::Changed })
    }
}

/// Returns whether size, time of last modification and inode are those of an entry. For a file that
/// the kernel generates at each read, only the size is compared.
pub(crate) fn is_same(entry: &Entry, meta: &Meta) -> bool {
    let inode = entry.identity.inode;
    let stamped = entry.mtime == meta.mtime && (inode == 0 || inode == meta.inode);
    entry.size == meta.size && (stamped || entry.special)
}

/// Returns the seconds since a change time, by the clock of this host.
pub(crate) fn age_seconds(ctime: FileTime) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64());
    now - ctime.seconds as f64 - f64::from(ctime.nanoseconds) * 1e-9
}

fn is_young(ctime: FileTime) -> bool {
    age_seconds(ctime) < YOUNG_SECONDS as f64
}

/// The parts of an extent were read under several change times: they may be of several versions.
#[derive(Debug)]
pub(crate) struct Mixed;

/// Returns the change time under which all parts of an extent were read, if the file must be
/// checked again. `ctime` is that of the page.
pub(crate) fn seen_of(parts: &[Part], ctime: FileTime) -> Result<Option<FileTime>, Mixed> {
    let seen = parts.iter().find_map(|part| part.seen);
    let all = |time| parts.iter().all(|part| part.seen.unwrap_or(ctime) == time);
    match seen {
        Some(time) if !all(time) => Err(Mixed),
        seen => Ok(seen),
    }
}

pub(crate) fn changed(entry: u32) -> EntryFailure {
    EntryFailure { entry, phase: FailurePhase::Changed, errno: 0 }
}
