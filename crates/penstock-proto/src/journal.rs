//! The records of a page log: one append-only file per page in the target's journal store.
//!
//! The log of a page holds everything the ledger knows of its pieces: who wrote them under which
//! boot and mount (the dirty log), the digests of what was written (the digest log), what became
//! durable, and what failed (hard case A2). Replaying it from the start gives the page's state.
//! A record is framed as type, length, payload and the first four bytes of the BLAKE3 of all
//! three; a torn tail after a crash is recognised by that and cut off. The heads (how long a log
//! was when last committed) are in the state database.

use crate::compared::Comparison;
use crate::digest::Digest;
use crate::id::WriterId;
use crate::units::FileTime;
use crate::wire::{DecodeError, Reader, Writer};

/// Most bytes of one record's payload.
pub const RECORD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Who wrote, and under which circumstances: while none of these changes, what was written and has
/// a name is still in that host's page cache or on disk, even if the process was killed (hard cases
/// A2, A5).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Default, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Incarnation {
    /// The peer: another's page cache knows nothing of what this one wrote (A9).
    pub writer: WriterId,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot: [u8; 16],
    /// Mount of the store's root: the unique id where the kernel has it, else a digest of device
    /// number, type and root inode.
    pub mount: u64,
    /// Random id in the store's `.penstock-store-7q2mv0kd9j/store`, as 64 bits.
    pub store: u64,
    /// Syncs that have failed in this process: what was written before such a one reads back right
    /// from the page cache and may be lost all the same (A4).
    pub failed_syncs: u32,
}

impl Incarnation {
    /// Whether both read through one page cache: neither can prove what is behind it.
    pub fn shares_cache(&self, other: &Self) -> bool {
        Self { failed_syncs: 0, ..*self } == Self { failed_syncs: 0, ..*other }
    }
}

/// What kind of digest a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestForm {
    /// The chaining value of an extent, or the root of a file: standard for BLAKE3.
    Standard,
    /// A value over the extent map and the digests of the data alone: holes were not hashed (D2).
    Sparse,
}

/// The digest of one file, or of the extent that its piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryDigest {
    /// Index of the entry in its page.
    pub entry: u32,
    /// How it was made.
    pub form: DigestForm,
    /// Its value.
    pub digest: Digest,
    /// The change time under which it was read, if it is to be looked at again (C1, C2).
    pub seen: Option<FileTime>,
}

/// Where an entry failed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FailurePhase {
    /// It could not be listed or its attributes not be read.
    Scan,
    /// The source could not read it.
    Read,
    /// It was gone when it was to be read.
    Vanished,
    /// It was another version than the scan saw.
    Changed,
    /// What arrived did not match its digest, again and again.
    Digest,
    /// The target could not write it.
    Write,
    /// The target could not make it durable, or give it its name or attributes.
    Publish,
    /// It was durable, and read again it was not what was written.
    ReadBack,
    /// Something has its name at the target already, and the user wants that to be a failure.
    Exists,
    /// It is another name of a file that is not at the target as the source has it (B6).
    Link,
    /// Attributes could not be set, and the user wants that to be a failure.
    Attributes,
}

/// One failed entry (the ledger's exceptions).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryFailure {
    /// Index of the entry in its page.
    pub entry: u32,
    /// Where it failed.
    pub phase: FailurePhase,
    /// errno(3), 0 if there is none.
    pub errno: u16,
}

/// errno(3) of Linux that tells nothing for good of an item at a target: a name that one peer does
/// not see yet (B5), a call that was interrupted, memory or descriptors that ran out, what is in
/// use; and a device, a server of the store, or the way to it, that fails here and now.
const MAY_PASS: [u16; 22] = [
    2, 4, 5, 6, 11, 12, 16, 19, 23, 24, 100, 101, 103, 104, 105, 107, 108, 110, 112, 113, 116, 121,
];

impl EntryFailure {
    /// Whether the target may take the entry at another try, or from another of its peers.
    pub fn may_pass(&self) -> bool {
        matches!(self.phase, FailurePhase::Write | FailurePhase::Publish)
            && MAY_PASS.contains(&self.errno)
    }

    /// Whether a newer version at the source may be had instead (C1).
    pub fn may_be_mended(&self) -> bool {
        matches!(self.phase, FailurePhase::Changed | FailurePhase::Vanished)
    }
}

/// One record of a page log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalRecord {
    /// All `Written` that follow happened under this incarnation, until the next of these: it is
    /// written whenever the writer changes.
    Incarnation(Incarnation),
    /// A piece is written, though perhaps not durable.
    Written {
        /// Index of the piece.
        piece: u32,
        /// Attempt at the file.
        generation: u32,
        /// The writer's sync epoch.
        epoch: u64,
        /// Digests of its files, or of its extent.
        digests: Vec<EntryDigest>,
        /// Entries of it that failed for good.
        failures: Vec<EntryFailure>,
    },
    /// Pieces are on stable storage under their final name (extents: under the temporary one).
    Durable {
        /// Indices of the pieces.
        pieces: Vec<u32>,
    },
    /// Pieces must be fetched again: a failed sync, a failed re-check, a new generation.
    Missing {
        /// Indices of the pieces.
        pieces: Vec<u32>,
    },
    /// An entry failed outside any piece: a link, a directory, the finish of a large file.
    Failed(EntryFailure),
    /// A new attempt at a large file begins: its extents are missing, its temporary name changes.
    Generation {
        /// Index of the entry.
        entry: u32,
        /// The attempt, from 0.
        generation: u32,
    },
    /// What comparing the page with the target has decided; comes before anything of its pieces.
    Compared(Comparison),
    /// The source was asked about all entries of the page that had changed, or were to be looked at
    /// again: it is not asked again about this page.
    Asked,
    /// Later pages hold newer versions of some entries.
    Amended(Amendment),
}

/// What newer versions of a page's entries, in a later page, take the place of.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Amendment {
    /// The entries whose outcome no longer counts, ascending.
    pub entries: Vec<u32>,
    /// Of these, those that had failed.
    pub failures: u32,
    /// Of these, those that were moved.
    pub files: u32,
    /// Bytes of the latter.
    pub bytes: u64,
}

impl Amendment {
    /// Adds what a further page takes the place of.
    pub fn add(&mut self, other: Self) {
        self.entries.extend(other.entries);
        self.entries.sort_unstable();
        self.failures += other.failures;
        self.files += other.files;
        self.bytes += other.bytes;
    }
}

impl JournalRecord {
    /// Appends the framed record to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut payload = Writer::new();
        let kind = match self {
            Self::Incarnation(incarnation) => {
                payload.u64(incarnation.writer.0);
                payload.raw(&incarnation.boot);
                payload.u64(incarnation.mount);
                payload.u64(incarnation.store);
                payload.u32(incarnation.failed_syncs);
                1
            }
            Self::Written { piece, generation, epoch, digests, failures } => {
                payload.u32(*piece);
                payload.u32(*generation);
                payload.u64(*epoch);
                encode_digests(digests, &mut payload);
                encode_failures(failures, &mut payload);
                2
            }
            Self::Durable { pieces } => {
                encode_pieces(pieces, &mut payload);
                3
            }
            Self::Missing { pieces } => {
                encode_pieces(pieces, &mut payload);
                4
            }
            Self::Failed(failure) => {
                encode_failure(failure, &mut payload);
                5
            }
            Self::Generation { entry, generation } => {
                payload.u32(*entry);
                payload.u32(*generation);
                6
            }
            Self::Compared(comparison) => {
                comparison.encode(&mut payload);
                7
            }
            Self::Asked => 8,
            Self::Amended(amendment) => {
                encode_pieces(&amendment.entries, &mut payload);
                payload.u32(amendment.failures);
                payload.u32(amendment.files);
                payload.u64(amendment.bytes);
                9
            }
        };
        let payload = payload.into_bytes();
        let mut framed = Writer::over(std::mem::take(out));
        framed.u8(kind);
        framed.bytes(&payload);
        *out = framed.into_bytes();
        let checksum = checksum(&out[start..]);
        out.extend_from_slice(&checksum);
    }

    /// Takes one record from `input`.
    ///
    /// # Errors
    /// `Truncated` or `Checksum` at a torn tail: everything before it is sound, cut there.
    /// `Unknown`: the record is whole, and a later release wrote it: nobody may go on with this log
    /// who does not know what it says.
    pub fn take_from(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut ahead = input.clone();
        let kind = ahead.u8("record type")?;
        let payload = ahead.bytes(RECORD_BYTES_MAX, "record length")?;
        let framed = input.raw(payload.len() + 5, "record")?;
        if input.array::<4>("record checksum")? != checksum(framed) {
            return Err(DecodeError::Checksum("journal record"));
        }
        Self::decode(kind, Reader::new(payload)).map_err(|_| DecodeError::Unknown("journal record"))
    }

    fn decode(kind: u8, mut payload: Reader<'_>) -> Result<Self, DecodeError> {
        let record = match kind {
            1 => Self::Incarnation(Incarnation {
                writer: WriterId(payload.u64("writer")?),
                boot: payload.array("boot")?,
                mount: payload.u64("mount")?,
                store: payload.u64("store")?,
                failed_syncs: payload.u32("failed syncs")?,
            }),
            2 => decode_written(&mut payload)?,
            3 => Self::Durable { pieces: decode_pieces(&mut payload)? },
            4 => Self::Missing { pieces: decode_pieces(&mut payload)? },
            5 => Self::Failed(decode_failure(&mut payload)?),
            6 => Self::Generation {
                entry: payload.u32("entry")?,
                generation: payload.u32("generation")?,
            },
            7 => Self::Compared(Comparison::decode(&mut payload)?),
            8 => Self::Asked,
            9 => Self::Amended(Amendment {
                entries: decode_pieces(&mut payload)?,
                failures: payload.u32("failures")?,
                files: payload.u32("files")?,
                bytes: payload.u64("bytes")?,
            }),
            _ => return Err(DecodeError::Invalid("record type")),
        };
        payload.finish()?;
        Ok(record)
    }
}

fn checksum(framed: &[u8]) -> [u8; 4] {
    let hash = blake3::hash(framed);
    let bytes = hash.as_bytes();
    [bytes[0], bytes[1], bytes[2], bytes[3]]
}

fn encode_pieces(pieces: &[u32], out: &mut Writer) {
    out.u32(pieces.len() as u32);
    for piece in pieces {
        out.u32(*piece);
    }
}

fn decode_pieces(input: &mut Reader<'_>) -> Result<Vec<u32>, DecodeError> {
    let count = input.u32("piece count")? as usize;
    if count > input.remaining() / 4 {
        return Err(DecodeError::Truncated("pieces"));
    }
    (0..count).map(|_| input.u32("piece")).collect()
}

fn encode_failure(failure: &EntryFailure, out: &mut Writer) {
    out.u32(failure.entry);
    out.u8(match failure.phase {
        FailurePhase::Scan => 0,
        FailurePhase::Read => 1,
        FailurePhase::Vanished => 2,
        FailurePhase::Changed => 3,
        FailurePhase::Digest => 4,
        FailurePhase::Write => 5,
        FailurePhase::Publish => 6,
        FailurePhase::ReadBack => 7,
        FailurePhase::Exists => 8,
        FailurePhase::Link => 9,
        FailurePhase::Attributes => 10,
    });
    out.u16(failure.errno);
}

fn decode_failure(input: &mut Reader<'_>) -> Result<EntryFailure, DecodeError> {
    Ok(EntryFailure {
        entry: input.u32("entry")?,
        phase: match input.u8("failure phase")? {
            0 => FailurePhase::Scan,
            1 => FailurePhase::Read,
            2 => FailurePhase::Vanished,
            3 => FailurePhase::Changed,
            4 => FailurePhase::Digest,
            5 => FailurePhase::Write,
            6 => FailurePhase::Publish,
            7 => FailurePhase::ReadBack,
            8 => FailurePhase::Exists,
            9 => FailurePhase::Link,
            10 => FailurePhase::Attributes,
            _ => return Err(DecodeError::Invalid("failure phase")),
        },
        errno: input.u16("errno")?,
    })
}

fn decode_written(input: &mut Reader<'_>) -> Result<JournalRecord, DecodeError> {
    let (piece, generation) = (input.u32("piece")?, input.u32("generation")?);
    let epoch = input.u64("epoch")?;
    let (digests, failures) = (decode_digests(input)?, decode_failures(input)?);
    Ok(JournalRecord::Written { piece, generation, epoch, digests, failures })
}

/// Appends digests to a record, or to a message of peers of one site.
pub fn encode_digests(digests: &[EntryDigest], out: &mut Writer) {
    out.u32(digests.len() as u32);
    for digest in digests {
        out.u32(digest.entry);
        let sparse = u8::from(digest.form == DigestForm::Sparse);
        out.u8(sparse | u8::from(digest.seen.is_some()) << 1);
        digest.digest.encode(out);
        if let Some(seen) = digest.seen {
            seen.encode(out);
        }
    }
}

/// Takes digests from there.
///
/// # Errors
/// [`DecodeError`] if there are none.
pub fn decode_digests(input: &mut Reader<'_>) -> Result<Vec<EntryDigest>, DecodeError> {
    let digest_count = input.u32("digest count")? as usize;
    if digest_count > input.remaining() / 37 {
        return Err(DecodeError::Truncated("digests"));
    }
    let mut digests = Vec::with_capacity(digest_count);
    for _ in 0..digest_count {
        let entry = input.u32("entry")?;
        let flags = input.u8("digest form")?;
        if flags > 3 {
            return Err(DecodeError::Invalid("digest form"));
        }
        let form = if flags & 1 == 0 { DigestForm::Standard } else { DigestForm::Sparse };
        let digest = Digest::decode(input)?;
        let seen = (flags & 2 != 0).then(|| FileTime::decode(input)).transpose()?;
        digests.push(EntryDigest { entry, form, digest, seen });
    }
    Ok(digests)
}

/// Appends failures to a record, or to a message of peers of one site.
pub fn encode_failures(failures: &[EntryFailure], out: &mut Writer) {
    out.u32(failures.len() as u32);
    for failure in failures {
        encode_failure(failure, out);
    }
}

/// Takes failures from there.
///
/// # Errors
/// [`DecodeError`] if there are none.
pub fn decode_failures(input: &mut Reader<'_>) -> Result<Vec<EntryFailure>, DecodeError> {
    let failure_count = input.u32("failure count")? as usize;
    if failure_count > input.remaining() / 7 {
        return Err(DecodeError::Truncated("failures"));
    }
    (0..failure_count).map(|_| decode_failure(input)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<JournalRecord> {
        let failure = EntryFailure { entry: 3, phase: FailurePhase::Changed, errno: 0 };
        vec![
            JournalRecord::Incarnation(Incarnation {
                writer: WriterId(4),
                boot: [1; 16],
                mount: 2,
                store: 3,
                failed_syncs: 1,
            }),
            JournalRecord::Written {
                piece: 4,
                generation: 1,
                epoch: 5,
                digests: vec![
                    EntryDigest {
                        entry: 1,
                        form: DigestForm::Sparse,
                        digest: Digest([6; 32]),
                        seen: None,
                    },
                    EntryDigest {
                        entry: 2,
                        form: DigestForm::Standard,
                        digest: Digest([7; 32]),
                        seen: Some(FileTime { seconds: -1, nanoseconds: 9 }),
                    },
                ],
                failures: vec![failure],
            },
            JournalRecord::Durable { pieces: vec![4, 9] },
            JournalRecord::Missing { pieces: vec![9] },
            JournalRecord::Failed(failure),
            JournalRecord::Generation { entry: 8, generation: 1 },
            JournalRecord::Compared(Comparison {
                kept: [2, 3, 5].into_iter().collect(),
                failed: vec![crate::compared::refused(7, 5)],
                existed: [2, 3, 5, 7].into_iter().collect(),
                carried: Vec::new(),
                in_the_way: 0,
            }),
            JournalRecord::Asked,
            JournalRecord::Amended(Amendment {
                entries: vec![1, 3],
                failures: 1,
                files: 1,
                bytes: 7,
            }),
        ]
    }

    /// A2: what was appended is replayed in order, and a torn tail costs only itself.
    #[test]
    fn a2_a_log_is_replayed_up_to_its_torn_tail() {
        let mut log = Vec::new();
        let mut ends = vec![0];
        for record in records() {
            record.append_to(&mut log);
            ends.push(log.len());
        }
        for cut in 0..=log.len() {
            let mut input = Reader::new(&log[..cut]);
            let mut read = Vec::new();
            while let Ok(record) = JournalRecord::take_from(&mut input) {
                read.push(record);
            }
            let whole = ends.iter().filter(|end| **end > 0 && **end <= cut).count();
            assert_eq!(read, records()[..whole], "cut at {cut}");
        }
    }

    /// A flipped bit in a log is found, not believed.
    #[test]
    fn a_damaged_record_is_found() {
        let mut log = Vec::new();
        records()[1].append_to(&mut log);
        for at in 0..log.len() {
            let mut damaged = log.clone();
            damaged[at] ^= 0x10;
            let read = JournalRecord::take_from(&mut Reader::new(&damaged));
            assert!(read.is_err(), "bit flipped at {at}");
        }
    }
}
