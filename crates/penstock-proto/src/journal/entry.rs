//! Outcome of one entry of a page: its digest, or its failure.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::units::FileTime;
use crate::wire::{DecodeError, Reader, Writer};

/// Form of a file's digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DigestForm {
    /// The chaining value of an extent, or the root of a file: standard for BLAKE3.
    Standard,
    /// A value over the extent map and the digests of the data alone: holes were not hashed (D2).
    Sparse,
}

/// The digest of one file, or of the extent that its piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryDigest {
    /// Index of the entry in its page.
    pub entry: u32,
    /// Form.
    pub form: DigestForm,
    /// Its value.
    pub digest: Digest,
    /// The change time under which it was read, if it is to be examined again (C1, C2).
    pub seen: Option<FileTime>,
}

/// Phase in which an entry failed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailurePhase {
    /// The entry could not be listed, or its attributes could not be read.
    Scan,
    /// The source could not read it.
    Read,
    /// The entry was gone when it was to be read.
    Vanished,
    /// The entry was another version than the scan saw.
    Changed,
    /// The bytes that arrived did not match their digest, repeatedly.
    Digest,
    /// The target could not write it.
    Write,
    /// The target could not make the entry durable, or set its name or attributes.
    Publish,
    /// The entry was durable, and reading it again yielded other bytes than were written.
    ReadBack,
    /// The name is taken at the target, and the user wants that to be a failure.
    Exists,
    /// The entry is another name of a file that is not at the target as the source has it (B6).
    Link,
    /// Attributes could not be set, and the user wants that to be a failure.
    Attributes,
}

/// A failed entry (the ledger's exceptions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryFailure {
    /// Index of the entry in its page.
    pub entry: u32,
    /// Phase in which it failed.
    pub phase: FailurePhase,
    /// errno(3), 0 if there is none.
    pub errno: u16,
}

/// Values of errno(3) on Linux that are not final for an item at a target. Some mean a name that
/// one peer does not see yet (B5), an interrupted call, exhausted memory or descriptors, or items
/// in use. Others mean that a device, a server of the store, or the way to it fails at this moment.
const MAY_PASS: [u16; 22] = [
    2, 4, 5, 6, 11, 12, 16, 19, 23, 24, 100, 101, 103, 104, 105, 107, 108, 110, 112, 113, 116, 121,
];

impl EntryFailure {
    /// Returns whether the target may accept the entry at another try, or from another of its
    /// peers.
    pub fn may_pass(&self) -> bool {
        matches!(self.phase, FailurePhase::Write | FailurePhase::Publish)
            && MAY_PASS.contains(&self.errno)
    }

    /// Returns whether a newer version may be fetched from the source instead (C1).
    pub fn may_be_mended(&self) -> bool {
        matches!(self.phase, FailurePhase::Changed | FailurePhase::Vanished)
    }
}

pub(crate) fn encode_failure(failure: &EntryFailure, out: &mut Writer) {
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

pub(crate) fn decode_failure(input: &mut Reader<'_>) -> Result<EntryFailure, DecodeError> {
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

/// Reads digests from a record or a message.
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

/// Reads failures from a record or a message.
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
