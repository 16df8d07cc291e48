//! The messages of a lane. Normative text: `docs/protocol.md`, "Frames".
//!
//! A frame is a 16-byte [`Header`], a body of at most [`BODY_BYTES_MAX`] bytes and, in data frames
//! alone, a payload of at most one stride. On clear lanes a 16-byte MAC over header and body
//! follows the body. The header holds both lengths, so that a reader allocates no more memory than
//! the limits here before it has checked anything.
//!
//! The target speaks first ([`Hello`]), then asks ([`Fetch`]); the source answers each fetch with
//! [`Data`] frames, the last of which is flagged, or with one [`Refusal`]. Requests of one lane may
//! be answered in any order. Each [`Record`] of a data frame carries the status of its entry
//! (hard case A11) and the digest of its bytes before the bytes themselves.

mod cipher_suite;

use crate::capability;
use crate::digest::{Digest, DigestKind};
use crate::id::{LaneId, PeerId, TransferId};
use crate::slicing::{PACK_FILES_MAX, STRIDE_BYTES_MAX};
use crate::units::FileTime;
use crate::version::VersionRange;
use crate::wire::{DecodeError, Reader, Writer};

pub use cipher_suite::{CipherSuite, UnknownCipherSuite};

/// Bytes of an encoded [`Header`].
pub const HEADER_BYTES: usize = 16;
/// Bytes of the MAC that follows the body on clear lanes.
pub const MAC_BYTES: usize = 16;
/// Most bytes of a body.
pub const BODY_BYTES_MAX: usize = 512 * 1024;
/// Most records of one data frame.
pub const RECORDS_MAX: usize = PACK_FILES_MAX as usize;
/// Most holes and data runs that one record describes.
pub const RUNS_MAX: usize = 1024;
/// Longest text in a message.
pub const TEXT_BYTES_MAX: usize = 1024;

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Target to source: [`Hello`].
    Hello,
    /// Source to target: [`HelloReply`].
    HelloReply,
    /// Target to source: [`Fetch`].
    Fetch,
    /// Source to target: [`Data`], with payload.
    Data,
    /// Source to target: [`Refusal`].
    Refusal,
    /// Target to source: an opaque stamp that a pong returns.
    Ping,
    /// Source to target: the stamp of a ping.
    Pong,
    /// Target to source: no more requests follow.
    Bye,
    /// Source to target: [`LaneTimes`](crate::time_use::LaneTimes), from version 2 on.
    Times,
}

/// The first 16 bytes of every frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Kind.
    pub kind: FrameKind,
    /// True for the last frame of a request; only in data frames.
    pub last: bool,
    /// Number of the request that it makes or answers; 0 in other frames.
    pub request: u32,
    /// Bytes of the body.
    pub body_bytes: u32,
    /// Bytes of the payload; 0 unless a data frame.
    pub payload_bytes: u32,
}

impl Header {
    /// Returns the header as bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = match self.kind {
            FrameKind::Hello => 1,
            FrameKind::HelloReply => 2,
            FrameKind::Fetch => 3,
            FrameKind::Data => 4,
            FrameKind::Refusal => 5,
            FrameKind::Ping => 6,
            FrameKind::Pong => 7,
            FrameKind::Bye => 8,
            FrameKind::Times => 9,
        };
        bytes[1] = u8::from(self.last);
        bytes[4..8].copy_from_slice(&self.request.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes
    }

    /// Reads and checks a header; lengths beyond the limits are refused here, before any memory is
    /// allocated for them.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        let kind = match input.u8("frame kind")? {
            1 => FrameKind::Hello,
            2 => FrameKind::HelloReply,
            3 => FrameKind::Fetch,
            4 => FrameKind::Data,
            5 => FrameKind::Refusal,
            6 => FrameKind::Ping,
            7 => FrameKind::Pong,
            8 => FrameKind::Bye,
            9 => FrameKind::Times,
            _ => return Err(DecodeError::Invalid("frame kind")),
        };
        let last = match input.u8("frame flags")? {
            0 => false,
            1 => true,
            _ => return Err(DecodeError::Invalid("frame flags")),
        };
        if input.u16("frame reserved")? != 0 {
            return Err(DecodeError::Invalid("frame reserved"));
        }
        let header = Self {
            kind,
            last,
            request: input.u32("request")?,
            body_bytes: input.u32("body bytes")?,
            payload_bytes: input.u32("payload bytes")?,
        };
        if header.body_bytes as usize > BODY_BYTES_MAX {
            return Err(DecodeError::Invalid("body bytes"));
        }
        if header.payload_bytes > STRIDE_BYTES_MAX
            || (header.payload_bytes > 0 && header.kind != FrameKind::Data)
        {
            return Err(DecodeError::Invalid("payload bytes"));
        }
        if header.last && header.kind != FrameKind::Data {
            return Err(DecodeError::Invalid("frame flags"));
        }
        Ok(header)
    }

    /// Returns the header of a frame without payload.
    pub fn of(kind: FrameKind, request: u32, body: &[u8]) -> Self {
        Self { kind, last: false, request, body_bytes: body.len() as u32, payload_bytes: 0 }
    }
}

/// Protection of a lane's frames after the TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Framing {
    /// TLS 1.3 application data to the end.
    Tls,
    /// Frames in clear, each authenticated by a MAC (hard case D3).
    Clear,
}

/// The first frame of a lane, from the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Versions of this protocol that the target speaks.
    pub protocol: VersionRange,
    /// The lane's number within the task.
    pub lane: LaneId,
    /// The transfer that the lane serves.
    pub transfer: TransferId,
    /// Framing after the handshake; the source may refuse it.
    pub framing: Framing,
    /// Digest that the source computes.
    pub digest: DigestKind,
    /// Encoded [`capability::Capability`] followed by its signature.
    pub capability: Vec<u8>,
}

impl Hello {
    /// Returns the body of the frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        self.protocol.encode(&mut out);
        out.u32(self.lane.0);
        self.transfer.encode(&mut out);
        out.u8(match self.framing {
            Framing::Tls => 0,
            Framing::Clear => 1,
        });
        self.digest.encode(&mut out);
        out.bytes(&self.capability);
        out.into_bytes()
    }

    /// Reads a body.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(body);
        let hello = Self {
            protocol: VersionRange::decode(&mut input)?,
            lane: LaneId(input.u32("lane")?),
            transfer: TransferId::decode(&mut input)?,
            framing: match input.u8("framing")? {
                0 => Framing::Tls,
                1 => Framing::Clear,
                _ => return Err(DecodeError::Invalid("framing")),
            },
            digest: DigestKind::decode(&mut input)?,
            capability: input.bytes(capability::CAPABILITY_BYTES_MAX, "capability")?.to_vec(),
        };
        input.finish()?;
        Ok(hello)
    }
}

/// Reason why a source refuses a lane or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCode {
    /// There is no common protocol version.
    Version,
    /// The capability is void, expired, or not for this target.
    Capability,
    /// The site does not allow the encryption or the digest.
    Policy,
    /// The source does not know the transfer or the page, or has another page of that number.
    UnknownPage,
    /// The store is not there: unmounted, or replaced by another one (A5, C3).
    StoreOffline,
    /// The source is at its limit; ask again after the given time.
    Busy,
    /// The request breaks the protocol.
    Protocol,
}

impl RefusalCode {
    fn to_wire(self) -> u8 {
        match self {
            Self::Version => 1,
            Self::Capability => 2,
            Self::Policy => 3,
            Self::UnknownPage => 4,
            Self::StoreOffline => 5,
            Self::Busy => 6,
            Self::Protocol => 7,
        }
    }

    fn from_wire(byte: u8) -> Result<Self, DecodeError> {
        Ok(match byte {
            1 => Self::Version,
            2 => Self::Capability,
            3 => Self::Policy,
            4 => Self::UnknownPage,
            5 => Self::StoreOffline,
            6 => Self::Busy,
            7 => Self::Protocol,
            _ => return Err(DecodeError::Invalid("refusal code")),
        })
    }

    /// Returns whether asking again later may help.
    pub fn is_temporary(self) -> bool {
        matches!(self, Self::UnknownPage | Self::StoreOffline | Self::Busy)
    }
}

/// Refusal of a lane or a request, for the program and for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refused by the source: {text}")]
pub struct Refusal {
    /// Code for the program.
    pub code: RefusalCode,
    /// Milliseconds after which asking again may help; 0 if unknown.
    pub retry_after_ms: u32,
    /// Text for people.
    pub text: String,
}

impl Refusal {
    /// Returns the body of the frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        self.encode_into(&mut out);
        out.into_bytes()
    }

    fn encode_into(&self, out: &mut Writer) {
        out.u8(self.code.to_wire());
        out.u32(self.retry_after_ms);
        let mut end = self.text.len().min(TEXT_BYTES_MAX);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        out.bytes(&self.text.as_bytes()[..end]);
    }

    /// Reads a body.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(body);
        let refusal = Self::decode_from(&mut input)?;
        input.finish()?;
        Ok(refusal)
    }

    fn decode_from(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            code: RefusalCode::from_wire(input.u8("refusal code")?)?,
            retry_after_ms: input.u32("retry after")?,
            text: input.text(TEXT_BYTES_MAX, "text")?.to_owned(),
        })
    }
}

/// The source's answer to a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelloReply {
    /// The lane is open.
    Welcome {
        /// The version that both will speak.
        protocol: u16,
        /// The peer that answers.
        source: PeerId,
    },
    /// The lane is refused, and the source closes the connection.
    Refused(Refusal),
}

impl HelloReply {
    /// Returns the body of the frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        match self {
            Self::Welcome { protocol, source } => {
                out.u8(0);
                out.u16(*protocol);
                out.bytes(source.site.as_str().as_bytes());
                out.bytes(source.peer.as_str().as_bytes());
            }
            Self::Refused(refusal) => {
                out.u8(1);
                refusal.encode_into(&mut out);
            }
        }
        out.into_bytes()
    }

    /// Reads a body.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(body);
        let reply = match input.u8("hello reply")? {
            0 => Self::Welcome {
                protocol: input.u16("protocol")?,
                source: PeerId {
                    site: capability::decode_name(&mut input, "site")?,
                    peer: capability::decode_name(&mut input, "peer")?,
                },
            },
            1 => Self::Refused(Refusal::decode_from(&mut input)?),
            _ => return Err(DecodeError::Invalid("hello reply")),
        };
        input.finish()?;
        Ok(reply)
    }
}

/// Request for one piece, or for a part of one after a failure. 48 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Number of the page.
    pub page: u32,
    /// First half of the page's digest: the source serves nothing from another page.
    pub page_digest: [u8; 16],
    /// First entry.
    pub first_entry: u32,
    /// Index behind the last entry. Entries that are no files, or that travel as extents, are
    /// skipped, unless `length` is set.
    pub end_entry: u32,
    /// Attempt at the file; see `docs/protocol.md`, "Generations".
    pub generation: u32,
    /// Start of the extent, a multiple of the stride; 0 for whole files.
    pub offset: u64,
    /// Bytes of the extent; 0 asks for whole files.
    pub length: u64,
}

impl Fetch {
    /// Returns the body of the frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::over(Vec::with_capacity(48));
        out.u32(self.page);
        out.raw(&self.page_digest);
        out.u32(self.first_entry);
        out.u32(self.end_entry);
        out.u32(self.generation);
        out.u64(self.offset);
        out.u64(self.length);
        out.into_bytes()
    }

    /// Reads a body.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(body);
        let fetch = Self {
            page: input.u32("page")?,
            page_digest: input.array("page digest")?,
            first_entry: input.u32("first entry")?,
            end_entry: input.u32("end entry")?,
            generation: input.u32("generation")?,
            offset: input.u64("offset")?,
            length: input.u64("length")?,
        };
        input.finish()?;
        if fetch.end_entry <= fetch.first_entry {
            return Err(DecodeError::Invalid("end entry"));
        }
        let one_entry = fetch.end_entry - fetch.first_entry == 1;
        if fetch.offset.checked_add(fetch.length).is_none()
            || (fetch.length == 0 && fetch.offset != 0)
            || (fetch.length != 0 && !one_entry)
        {
            return Err(DecodeError::Invalid("length"));
        }
        Ok(fetch)
    }
}

/// Status of an entry at the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntryStatus {
    /// Its bytes follow.
    Ok,
    /// The entry is gone.
    Vanished,
    /// The entry is not the file that was scanned: another size, time or kind.
    Changed,
    /// The source may not read it.
    Denied,
    /// Reading failed; the errno gives the reason.
    Failed,
}

/// A run of bytes of one entry within a data frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Index of the entry in its page.
    pub entry: u32,
    /// Status of the entry; the fields below are zero unless it is `Ok`.
    pub status: EntryStatus,
    /// errno(3) of a failure, 0 if there is none.
    pub errno: u16,
    /// True if nothing more of this entry follows in this request.
    pub end: bool,
    /// True for a hole of `length` bytes, without digest or payload (hard case D2).
    pub hole: bool,
    /// Offset of the bytes in the file: a multiple of the stride.
    pub offset: u64,
    /// Bytes of the file that the record covers: at most one stride, but holes may be longer.
    pub length: u64,
    /// Digest of the covered bytes, see [`DigestKind::stride`].
    pub digest: Digest,
    /// The data within a stride that also has holes, as (start within the record, length),
    /// ascending; empty if all of it is data. The payload holds the data runs alone.
    pub runs: Vec<(u32, u32)>,
    /// Change time, in the last record of an entry that is to be examined again before the transfer
    /// ends. This change time differs from the page's (C2), or is so young that a write may hide
    /// behind it (C1).
    pub seen: Option<FileTime>,
}

impl Record {
    /// Returns a record that reports the failure of an entry.
    pub fn failure(entry: u32, status: EntryStatus, errno: u16) -> Self {
        Self {
            entry,
            status,
            errno,
            end: true,
            hole: false,
            offset: 0,
            length: 0,
            digest: Digest::default(),
            runs: Vec::new(),
            seen: None,
        }
    }

    /// Returns the bytes of payload that belong to the record.
    pub fn payload_bytes(&self) -> u64 {
        match (self.hole, self.runs.as_slice()) {
            (true, _) => 0,
            (false, []) => self.length,
            (false, runs) => runs.iter().map(|&(_, length)| u64::from(length)).sum(),
        }
    }

    fn encode(&self, out: &mut Writer) {
        out.u32(self.entry);
        out.u8(match self.status {
            EntryStatus::Ok => 0,
            EntryStatus::Vanished => 1,
            EntryStatus::Changed => 2,
            EntryStatus::Denied => 3,
            EntryStatus::Failed => 4,
        });
        let seen = self.seen.is_some();
        out.u8(u8::from(self.end) | u8::from(self.hole) << 1 | u8::from(seen) << 2);
        out.u16(self.errno);
        out.u64(self.offset);
        out.u64(self.length);
        self.digest.encode(out);
        out.u16(self.runs.len() as u16);
        for &(start, length) in &self.runs {
            out.u32(start);
            out.u32(length);
        }
        if let Some(seen) = self.seen {
            seen.encode(out);
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let entry = input.u32("entry")?;
        let status = match input.u8("entry status")? {
            0 => EntryStatus::Ok,
            1 => EntryStatus::Vanished,
            2 => EntryStatus::Changed,
            3 => EntryStatus::Denied,
            4 => EntryStatus::Failed,
            _ => return Err(DecodeError::Invalid("entry status")),
        };
        let flags = input.u8("record flags")?;
        let unfit = flags & 4 != 0 && (flags & 1 == 0 || status != EntryStatus::Ok);
        if flags > 7 || unfit {
            return Err(DecodeError::Invalid("record flags"));
        }
        let mut record = Self {
            entry,
            status,
            errno: input.u16("errno")?,
            end: flags & 1 != 0,
            hole: flags & 2 != 0,
            offset: input.u64("offset")?,
            length: input.u64("length")?,
            digest: Digest::decode(input)?,
            runs: Vec::new(),
            seen: None,
        };
        let run_count = usize::from(input.u16("run count")?);
        if run_count > RUNS_MAX || (run_count > 0 && record.hole) {
            return Err(DecodeError::Invalid("run count"));
        }
        let mut behind = 0u64;
        for _ in 0..run_count {
            let (start, length) = (input.u32("run start")?, input.u32("run length")?);
            let end = u64::from(start) + u64::from(length);
            if length == 0 || u64::from(start) < behind || end > record.length {
                return Err(DecodeError::Invalid("run"));
            }
            behind = end;
            record.runs.push((start, length));
        }
        if flags & 4 != 0 {
            record.seen = Some(FileTime::decode(input)?);
        }
        let too_long = !record.hole && record.length > u64::from(STRIDE_BYTES_MAX);
        if too_long || record.offset.checked_add(record.length).is_none() {
            return Err(DecodeError::Invalid("length"));
        }
        if record.status != EntryStatus::Ok && record.length != 0 {
            return Err(DecodeError::Invalid("length"));
        }
        Ok(record)
    }
}

/// The body of a data frame.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Data {
    /// The records, in the order of their bytes in the payload.
    pub records: Vec<Record>,
}

impl Data {
    /// Encodes `records` after the content of `out`, so that one vector serves all frames of a
    /// lane.
    pub fn encode_into(records: &[Record], out: Vec<u8>) -> Vec<u8> {
        let mut out = Writer::over(out);
        out.u16(records.len() as u16);
        for record in records {
            record.encode(&mut out);
        }
        out.into_bytes()
    }

    /// Reads a body, and checks that the records account for exactly `payload_bytes`.
    pub fn decode(body: &[u8], payload_bytes: u32) -> Result<Self, DecodeError> {
        let mut input = Reader::new(body);
        let count = usize::from(input.u16("record count")?);
        if count > RECORDS_MAX {
            return Err(DecodeError::Invalid("record count"));
        }
        let mut records = Vec::with_capacity(count.min(input.remaining() / 58));
        for _ in 0..count {
            records.push(Record::decode(&mut input)?);
        }
        input.finish()?;
        let claimed: u64 = records.iter().map(Record::payload_bytes).sum();
        if claimed != u64::from(payload_bytes) {
            return Err(DecodeError::Invalid("payload bytes"));
        }
        Ok(Self { records })
    }
}

/// Returns the body of a ping or a pong.
pub fn encode_stamp(stamp: u64) -> [u8; 8] {
    stamp.to_le_bytes()
}

/// Reads the body of a ping or a pong.
pub fn decode_stamp(body: &[u8]) -> Result<u64, DecodeError> {
    let mut input = Reader::new(body);
    let stamp = input.u64("stamp")?;
    input.finish()?;
    Ok(stamp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time_use::LaneTimes;

    fn record() -> Record {
        Record {
            entry: 5,
            status: EntryStatus::Ok,
            errno: 0,
            end: true,
            hole: false,
            offset: 1 << 20,
            length: 4096,
            digest: Digest([9; 32]),
            runs: vec![(0, 512), (1024, 100)],
            seen: Some(FileTime { seconds: 7, nanoseconds: 999_999_999 }),
        }
    }

    /// Promise of the protocol document: one peer reads every message that the other encodes.
    #[test]
    fn messages_survive_encoding() {
        let hello = Hello {
            protocol: VersionRange { oldest: 1, newest: 3 },
            lane: LaneId(4),
            transfer: TransferId([8; 16]),
            framing: Framing::Clear,
            digest: DigestKind::Xxh3,
            capability: vec![1, 2, 3],
        };
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        let refusal =
            Refusal { code: RefusalCode::Busy, retry_after_ms: 50, text: "é".repeat(900) };
        let read = Refusal::decode(&refusal.encode()).unwrap();
        assert!(read.text.len() <= TEXT_BYTES_MAX && refusal.text.starts_with(&read.text));
        let reply = HelloReply::Refused(read);
        assert_eq!(HelloReply::decode(&reply.encode()), Ok(reply));
        let data = Data { records: vec![record(), Record::failure(6, EntryStatus::Denied, 13)] };
        let body = Data::encode_into(&data.records, Vec::new());
        assert_eq!(Data::decode(&body, 612), Ok(data));
    }

    /// A data frame whose records and payload disagree would shift every later byte.
    #[test]
    fn a_payload_of_another_length_is_refused() {
        let body = Data::encode_into(&[record()], Vec::new());
        assert_eq!(Data::decode(&body, 613), Err(DecodeError::Invalid("payload bytes")));
    }

    /// Runs that overlap or leave the record would let a hostile source write where it likes.
    #[test]
    fn runs_outside_the_record_are_refused() {
        for runs in [vec![(0, 5000)], vec![(100, 50), (120, 10)], vec![(4096, 1)]] {
            let body = Data::encode_into(&[Record { runs, ..record() }], Vec::new());
            assert!(Data::decode(&body, 5000).is_err());
        }
    }

    /// Lengths beyond the limits are refused before memory is taken for them.
    #[test]
    fn headers_beyond_the_limits_are_refused() {
        let header = Header {
            kind: FrameKind::Data,
            last: true,
            request: 7,
            body_bytes: 100,
            payload_bytes: STRIDE_BYTES_MAX,
        };
        assert_eq!(Header::decode(&header.encode()), Ok(header));
        for bad in [
            Header { payload_bytes: STRIDE_BYTES_MAX + 1, ..header },
            Header { body_bytes: BODY_BYTES_MAX as u32 + 1, ..header },
            Header { kind: FrameKind::Fetch, ..header },
        ] {
            assert!(Header::decode(&bad.encode()).is_err(), "{bad:?}");
        }
    }

    proptest::proptest! {
        /// Every decoder survives hostile bytes: an error or a message, never a panic.
        #[test]
        fn hostile_bytes_never_panic(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)
        ) {
            let _ = Hello::decode(&bytes);
            let _ = HelloReply::decode(&bytes);
            let _ = Fetch::decode(&bytes);
            let _ = Refusal::decode(&bytes);
            let _ = Data::decode(&bytes, 10);
            let _ = decode_stamp(&bytes);
            let _ = LaneTimes::decode(&bytes);
            if let Some(header) = bytes.first_chunk::<HEADER_BYTES>() {
                let _ = Header::decode(header);
            }
        }
    }
}
