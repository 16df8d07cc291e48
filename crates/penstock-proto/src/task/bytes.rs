//! Work and reports as bytes, for a peer on another host (docs/protocol.md, 15).
//!
//! Both are little-endian and carry no checksum of their own: they travel over TLS. A decoder
//! accepts hostile bytes, and allocates nothing that the message does not hold.

use crate::journal::{
    EntryDigest, EntryFailure, decode_digests, decode_failures, encode_digests, encode_failures,
};
use crate::slicing::PieceRef;
use crate::task::{Report, Work, WorkReply};
use crate::wire::{DecodeError, Reader, Writer};

/// Most items of one list in a message.
const ITEMS_MAX: usize = 1 << 20;

fn encode_piece(piece: PieceRef, generation: u32, out: &mut Writer) {
    out.u32(piece.page);
    out.u32(piece.piece);
    out.u32(generation);
}

fn decode_piece(input: &mut Reader<'_>) -> Result<(PieceRef, u32), DecodeError> {
    let piece = PieceRef { page: input.u32("page")?, piece: input.u32("piece")? };
    Ok((piece, input.u32("generation")?))
}

fn decode_flag(input: &mut Reader<'_>, field: &'static str) -> Result<bool, DecodeError> {
    match input.u8(field)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Invalid(field)),
    }
}

type Outcome = (Vec<EntryDigest>, Vec<EntryFailure>);

fn encode_outcome(digests: &[EntryDigest], failures: &[EntryFailure], out: &mut Writer) {
    encode_digests(digests, out);
    encode_failures(failures, out);
}

fn decode_outcome(input: &mut Reader<'_>) -> Result<Outcome, DecodeError> {
    Ok((decode_digests(input)?, decode_failures(input)?))
}

/// Appends a list with its length.
fn encode_list<T>(items: &[T], out: &mut Writer, encode: impl Fn(&T, &mut Writer)) {
    out.u32(items.len() as u32);
    items.iter().for_each(|item| encode(item, out));
}

/// Takes a list; an item is at least one byte long.
fn decode_list<T>(
    input: &mut Reader<'_>,
    decode: impl Fn(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = input.u32("item count")? as usize;
    if count > ITEMS_MAX || count > input.remaining() {
        return Err(DecodeError::Invalid("item count"));
    }
    (0..count).map(|_| decode(input)).collect()
}

impl Work {
    /// Appends the work to a message.
    pub fn encode(&self, out: &mut Writer) {
        match self {
            Self::Fetch { piece, generation, fresh } => {
                out.u8(1);
                encode_piece(*piece, *generation, out);
                out.u8(u8::from(*fresh));
            }
            Self::Recheck { piece, generation, doubt, digests, failures } => {
                out.u8(2);
                encode_piece(*piece, *generation, out);
                out.u8(u8::from(*doubt));
                encode_outcome(digests, failures, out);
            }
            Self::Finish { piece, generation } => {
                out.u8(3);
                encode_piece(*piece, *generation, out);
            }
            Self::Discard { page, entry, generation } => {
                out.u8(4);
                encode_piece(PieceRef { page: *page, piece: *entry }, *generation, out);
            }
            Self::Links { page } => {
                out.u8(5);
                out.u32(*page);
            }
            Self::Directories { page } => {
                out.u8(6);
                out.u32(*page);
            }
        }
    }

    /// Reads work from a message.
    ///
    /// # Errors
    /// [`DecodeError`] if there is none.
    pub fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match input.u8("work")? {
            1 => {
                let (piece, generation) = decode_piece(input)?;
                Self::Fetch { piece, generation, fresh: decode_flag(input, "fresh")? }
            }
            2 => {
                let (piece, generation) = decode_piece(input)?;
                let doubt = decode_flag(input, "doubt")?;
                let (digests, failures) = decode_outcome(input)?;
                Self::Recheck { piece, generation, doubt, digests, failures }
            }
            3 => {
                let (piece, generation) = decode_piece(input)?;
                Self::Finish { piece, generation }
            }
            4 => {
                let (PieceRef { page, piece }, generation) = decode_piece(input)?;
                Self::Discard { page, entry: piece, generation }
            }
            5 => Self::Links { page: input.u32("page")? },
            6 => Self::Directories { page: input.u32("page")? },
            _ => return Err(DecodeError::Invalid("work")),
        })
    }
}

impl WorkReply {
    /// Appends the reply to a message.
    pub fn encode(&self, out: &mut Writer) {
        encode_list(&self.work, out, Work::encode);
        out.u8(u8::from(self.flush));
        out.u64(self.give_back);
    }

    /// Reads a reply from a message.
    ///
    /// # Errors
    /// [`DecodeError`] if there is none.
    pub fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let work = decode_list(input, Work::decode)?;
        let flush = decode_flag(input, "flush")?;
        Ok(Self { work, flush, give_back: input.u64("give back")? })
    }
}

impl Report {
    /// Appends the report to a message.
    pub fn encode(&self, out: &mut Writer) {
        match self {
            Self::Written { piece, generation, epoch, digests, failures, fetched } => {
                out.u8(1);
                encode_piece(*piece, *generation, out);
                out.u64(*epoch);
                out.u8(u8::from(*fetched));
                encode_outcome(digests, failures, out);
            }
            Self::Returned { piece, generation } => {
                out.u8(2);
                encode_piece(*piece, *generation, out);
            }
            Self::Lost { page, entry, generation } => {
                out.u8(3);
                encode_piece(PieceRef { page: *page, piece: *entry }, *generation, out);
            }
            Self::Published { piece, generation, epoch, failures } => {
                out.u8(4);
                encode_piece(*piece, *generation, out);
                out.u64(*epoch);
                encode_failures(failures, out);
            }
            Self::Synced { epoch } => {
                out.u8(5);
                out.u64(*epoch);
            }
            Self::SyncFailed { epoch, errno } => {
                out.u8(6);
                out.u64(*epoch);
                out.u16(*errno);
            }
            Self::LinksDone { page, failures, epoch } => {
                out.u8(7);
                encode_done(*page, failures, *epoch, out);
            }
            Self::DirectoriesDone { page, failures, epoch } => {
                out.u8(8);
                encode_done(*page, failures, *epoch, out);
            }
        }
    }

    /// Reads a report from a message.
    ///
    /// # Errors
    /// [`DecodeError`] if there is none.
    pub fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match input.u8("report")? {
            1 => {
                let (piece, generation) = decode_piece(input)?;
                let epoch = input.u64("epoch")?;
                let fetched = decode_flag(input, "fetched")?;
                let (digests, failures) = decode_outcome(input)?;
                Self::Written { piece, generation, epoch, digests, failures, fetched }
            }
            2 => {
                let (piece, generation) = decode_piece(input)?;
                Self::Returned { piece, generation }
            }
            3 => {
                let (PieceRef { page, piece }, generation) = decode_piece(input)?;
                Self::Lost { page, entry: piece, generation }
            }
            4 => {
                let (piece, generation) = decode_piece(input)?;
                let epoch = input.u64("epoch")?;
                Self::Published { piece, generation, epoch, failures: decode_failures(input)? }
            }
            5 => Self::Synced { epoch: input.u64("epoch")? },
            6 => Self::SyncFailed { epoch: input.u64("epoch")?, errno: input.u16("errno")? },
            7 => {
                let (page, failures, epoch) = decode_done(input)?;
                Self::LinksDone { page, failures, epoch }
            }
            8 => {
                let (page, failures, epoch) = decode_done(input)?;
                Self::DirectoriesDone { page, failures, epoch }
            }
            _ => return Err(DecodeError::Invalid("report")),
        })
    }

    /// Appends several reports to a message.
    pub fn encode_all(reports: &[Self], out: &mut Writer) {
        encode_list(reports, out, Self::encode);
    }

    /// Takes several reports from a message.
    ///
    /// # Errors
    /// [`DecodeError`] if one is malformed.
    pub fn decode_all(input: &mut Reader<'_>) -> Result<Vec<Self>, DecodeError> {
        decode_list(input, Self::decode)
    }
}

fn encode_done(page: u32, failures: &[EntryFailure], epoch: u64, out: &mut Writer) {
    out.u32(page);
    out.u64(epoch);
    encode_failures(failures, out);
}

fn decode_done(input: &mut Reader<'_>) -> Result<(u32, Vec<EntryFailure>, u64), DecodeError> {
    let (page, epoch) = (input.u32("page")?, input.u64("epoch")?);
    Ok((page, decode_failures(input)?, epoch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::journal::{DigestForm, FailurePhase};
    use crate::units::FileTime;
    use proptest::prelude::*;

    fn outcome() -> Outcome {
        let seen = Some(FileTime { seconds: -1, nanoseconds: 9 });
        let digest = Digest([7; 32]);
        let digests = vec![
            EntryDigest { entry: 2, form: DigestForm::Standard, digest, seen },
            EntryDigest { entry: 9, form: DigestForm::Sparse, digest, seen: None },
        ];
        (digests, vec![EntryFailure { entry: 3, phase: FailurePhase::Read, errno: 5 }])
    }

    fn works() -> Vec<Work> {
        let (piece, generation) = (PieceRef { page: 1, piece: 2 }, 3);
        let (digests, failures) = outcome();
        vec![
            Work::Fetch { piece, generation, fresh: true },
            Work::Recheck { piece, generation, doubt: true, digests, failures },
            Work::Finish { piece, generation },
            Work::Discard { page: 1, entry: 2, generation },
            Work::Links { page: 4 },
            Work::Directories { page: 5 },
        ]
    }

    fn reports() -> Vec<Report> {
        let (piece, generation, epoch) = (PieceRef { page: 1, piece: 2 }, 3, 4);
        let (digests, failures) = outcome();
        let more = failures.clone();
        vec![
            Report::Written { piece, generation, epoch, digests, failures, fetched: true },
            Report::Returned { piece, generation },
            Report::Lost { page: 1, entry: 2, generation },
            Report::Published { piece, generation, epoch, failures: more.clone() },
            Report::Synced { epoch },
            Report::SyncFailed { epoch, errno: 5 },
            Report::LinksDone { page: 1, failures: more.clone(), epoch },
            Report::DirectoriesDone { page: 1, failures: more, epoch },
        ]
    }

    /// A7: messages of every kind to and from a peer on another host are read as they were written.
    #[test]
    fn a7_work_and_reports_survive_their_journey() {
        let reply = WorkReply { work: works(), flush: true, give_back: 7 };
        let mut out = Writer::new();
        reply.encode(&mut out);
        Report::encode_all(&reports(), &mut out);
        let bytes = out.into_bytes();
        let mut input = Reader::new(&bytes);
        assert_eq!(WorkReply::decode(&mut input).unwrap(), reply);
        assert_eq!(Report::decode_all(&mut input).unwrap(), reports());
        input.finish().unwrap();
    }

    proptest! {
        /// Promise: every decoder accepts hostile bytes: a cut or damaged message is refused, or
        /// read as another one.
        #[test]
        fn hostile_work_and_reports_are_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            cut in 0usize..400,
        ) {
            let _ = WorkReply::decode(&mut Reader::new(&bytes));
            let _ = Report::decode_all(&mut Reader::new(&bytes));
            let mut out = Writer::new();
            Report::encode_all(&reports(), &mut out);
            let sound = out.into_bytes();
            let cut = cut.min(sound.len() - 1);
            prop_assert!(Report::decode_all(&mut Reader::new(&sound[..cut])).is_err());
        }
    }
}
