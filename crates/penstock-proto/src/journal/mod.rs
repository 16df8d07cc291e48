//! The records of a page log: one append-only file per page in the target's journal store.
//!
//! The log of a page holds everything that the ledger knows of its pieces. It records their writers
//! with boot and mount (the dirty log), the digests of written data (the digest log), durability,
//! and failures (hard case A2). Replaying it from the start yields the page's state. A record is
//! framed as type, length, payload and a checksum: the first four bytes of the BLAKE3 of all three.
//! By it, a torn tail after a crash is recognised and cut off. The heads (the length of a log when
//! it was last committed) are in the state database.

pub(crate) mod entry;
mod writers;

use crate::compared::Comparison;
use crate::id::WriterId;
use crate::wire::{DecodeError, Reader, Writer};

pub use entry::{
    DigestForm, EntryDigest, EntryFailure, FailurePhase, decode_digests, decode_failures,
    encode_digests, encode_failures,
};
use entry::{decode_failure, encode_failure};
pub use writers::{LateFile, WriterLine, WriterStanding};

/// Most bytes of one record's payload.
pub const RECORD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The writer and its circumstances. While none of these changes, data that was written is in that
/// host's page cache or on disk. That holds even if the process was killed (hard cases A2, A5).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Default, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Incarnation {
    /// The peer: another peer's page cache does not hold this one's writes (A9).
    pub writer: WriterId,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot: [u8; 16],
    /// Mount of the store's root: the unique id where the kernel has it, else a digest of device
    /// number, type and root inode.
    pub mount: u64,
    /// Random id in the store's `.penstock-store-7q2mv0kd9j/store`, as 64 bits.
    pub store: u64,
    /// Syncs that have failed in this process: data written before such a failure reads back right
    /// from the page cache and may be lost nevertheless (A4).
    pub failed_syncs: u32,
}

impl Incarnation {
    /// Returns whether both read through one page cache, so that neither can prove the content of
    /// the disk.
    pub fn shares_cache(&self, other: &Self) -> bool {
        Self { failed_syncs: 0, ..*self } == Self { failed_syncs: 0, ..*other }
    }
}

/// A record of a page log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalRecord {
    /// Incarnation of all `Written` that follow, up to the next such record: it is written whenever
    /// the writer changes.
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
    /// Result of comparing the page with the target; precedes all records of its pieces.
    Compared(Comparison),
    /// The source was asked about all entries of the page that had changed, or were to be examined
    /// again: it is not asked again about this page.
    Asked,
    /// Later pages hold newer versions of some entries.
    Amended(Amendment),
}

/// Outcomes of a page's entries that newer versions, in a later page, replace.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Amendment {
    /// The entries whose outcome no longer counts, ascending.
    pub entries: Vec<u32>,
    /// Number of these that had failed.
    pub failures: u32,
    /// Number of these that were moved.
    pub files: u32,
    /// Bytes of the latter, and of files that failed in a pack: they count with it as moved.
    pub bytes: u64,
}

impl Amendment {
    /// Adds the outcomes that a further page replaces.
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
    /// `Unknown`: the record is whole, and a later release wrote it. A build that does not
    /// understand the record must not continue with this log.
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

fn decode_written(input: &mut Reader<'_>) -> Result<JournalRecord, DecodeError> {
    let (piece, generation) = (input.u32("piece")?, input.u32("generation")?);
    let epoch = input.u64("epoch")?;
    let (digests, failures) = (decode_digests(input)?, decode_failures(input)?);
    Ok(JournalRecord::Written { piece, generation, epoch, digests, failures })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::units::FileTime;

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

    /// A2: appended records are replayed in order, and a torn tail costs only itself.
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
