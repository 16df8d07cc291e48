//! The TLS 1.3 record layer of a lane, over the secrets of a finished handshake.
//!
//! On the wire it is what RFC 8446, section 5 says: records of type 23 with at most 16 KiB of
//! content, the true content type behind the content, a nonce made of the IV and the record's
//! number, the header as additional data; 22 bytes more than the content. Any TLS stack can be at
//! the other end (`net::tests` puts rustls there).
//!
//! What it does not do, lanes do not need: it asks for no key update and refuses one, since a lane
//! is replaced long before a key is used up; it sends no session tickets and passes over those it
//! gets. What it does better than a general library: a record is sealed straight from the stride,
//! and opened straight into it unless the record's last byte (its content type) would lie beyond
//! the caller's buffer, which is so for the last record of a payload alone.
//!
//! Large payloads start a record of their own, so that their records fall on the caller's buffer
//! in whole 16 KiB; a frame that fits one record travels in one.

use std::io::Write;
use std::ops::Range;

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce,
    UnboundKey,
};
use penstock_proto::frame::{HEADER_BYTES, Header};
use rustls::ConnectionTrafficSecrets;

use super::error::LaneError;
use super::wire::Incoming;

/// Most content of one record (RFC 8446, section 5.1).
pub(super) const CONTENT_BYTES_MAX: usize = 16 * 1024;
/// Type, version and length of a record.
const RECORD_HEADER_BYTES: usize = 5;
/// Tag of all three AEADs.
const TAG_BYTES: usize = 16;
/// What a record of ours is longer than its content: header, content type, tag.
pub(super) const RECORD_OVERHEAD: usize = RECORD_HEADER_BYTES + 1 + TAG_BYTES;
/// Longest body of a record that a peer may send, with padding (RFC 8446, section 5.2).
const RECORD_BODY_MAX: usize = CONTENT_BYTES_MAX + 256;
/// Records that one key protects: 2^24, below the 2^24.5 that RFC 8446, section 5.5 allows AES-GCM.
/// That is 256 GiB one way; the engine replaces lanes long before.
const KEY_RECORDS_MAX: u64 = 1 << 24;
/// Records without content that are taken in a row before the peer is called hostile.
const EMPTY_RECORDS_MAX: u32 = 32;
/// Most records per system call; see `SocketOptions::record_batch`.
const RECORD_BATCH_MAX: usize = 32;
/// Room beside a batch for the short record with the frame's header and body, so that a stride of
/// two batches takes two system calls and not three.
const HEAD_RECORD_BYTES: usize = 1024;

const TYPE_ALERT: u8 = 21;
const TYPE_HANDSHAKE: u8 = 22;
const TYPE_DATA: u8 = 23;
const ALERT_CLOSE_NOTIFY: u8 = 0;
const HANDSHAKE_NEW_SESSION_TICKET: u8 = 4;
const HANDSHAKE_KEY_UPDATE: u8 = 24;

/// Key, IV and next record number of one direction.
struct RecordKey {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    sequence: u64,
}

impl RecordKey {
    fn new((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Self, LaneError> {
        let (algorithm, key, iv): (&'static Algorithm, _, _) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(LaneError::Tls13("a cipher suite that lanes do not speak")),
        };
        let key = UnboundKey::new(algorithm, key.as_ref())
            .map_err(|_| LaneError::Tls13("a key of the wrong length"))?;
        let iv =
            iv.as_ref().try_into().map_err(|_| LaneError::Tls13("an IV of the wrong length"))?;
        Ok(Self { key: LessSafeKey::new(key), iv, sequence })
    }

    /// The nonce of the next record (RFC 8446, section 5.3); each is given once.
    fn next_nonce(&mut self) -> Result<Nonce, LaneError> {
        if self.sequence >= KEY_RECORDS_MAX {
            return Err(LaneError::KeyUsedUp);
        }
        let mut nonce = self.iv;
        for (byte, count) in nonce[NONCE_LEN - 8..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= count;
        }
        self.sequence += 1;
        Ok(Nonce::assume_unique_for_key(nonce))
    }
}

fn batch_bytes(record_batch: usize) -> usize {
    let records = record_batch.clamp(1, RECORD_BATCH_MAX);
    records * (CONTENT_BYTES_MAX + RECORD_OVERHEAD) + HEAD_RECORD_BYTES
}

/// The sending direction.
pub(super) struct Sealer {
    key: RecordKey,
    /// Sealed records that were not sent yet.
    out: Box<[u8]>,
    filled: usize,
}

impl Sealer {
    pub(super) fn new(
        secrets: (u64, ConnectionTrafficSecrets),
        record_batch: usize,
    ) -> Result<Self, LaneError> {
        let out = vec![0; batch_bytes(record_batch)].into_boxed_slice();
        Ok(Self { key: RecordKey::new(secrets)?, out, filled: 0 })
    }

    pub(super) fn send(
        &mut self,
        wire: &mut impl Write,
        header: &Header,
        body: &[u8],
        payload: &[&[u8]],
    ) -> Result<(), LaneError> {
        let (head_bytes, payload_bytes) =
            (HEADER_BYTES + body.len(), header.payload_bytes as usize);
        let header = header.encode();
        let head = [header.as_slice(), body];
        if head_bytes + payload_bytes <= CONTENT_BYTES_MAX {
            let parts = head.iter().chain(payload).copied();
            self.seal_all(wire, parts, head_bytes + payload_bytes)?;
        } else {
            self.seal_all(wire, head.iter().copied(), head_bytes)?;
            self.seal_all(wire, payload.iter().copied(), payload_bytes)?;
        }
        self.flush(wire)
    }

    /// Sends `close_notify`: nothing more comes from this end.
    pub(super) fn close(&mut self, wire: &mut impl Write) -> Result<(), LaneError> {
        const WARNING: u8 = 1;
        self.seal(TYPE_ALERT, &[WARNING, ALERT_CLOSE_NOTIFY])?;
        self.flush(wire)
    }

    /// Seals `parts`, together `left` bytes, into full records and a last shorter one.
    fn seal_all<'a>(
        &mut self,
        wire: &mut impl Write,
        mut parts: impl Iterator<Item = &'a [u8]>,
        mut left: usize,
    ) -> Result<(), LaneError> {
        let mut part: &[u8] = &[];
        while left > 0 {
            let length = left.min(CONTENT_BYTES_MAX);
            if self.filled + length + RECORD_OVERHEAD > self.out.len() {
                self.flush(wire)?;
            }
            while part.is_empty() {
                part = parts.next().unwrap_or_else(|| unreachable!("the parts add up"));
            }
            if let Some((content, rest)) = part.split_at_checked(length) {
                self.seal(TYPE_DATA, content)?;
                part = rest;
            } else {
                part = self.seal_gathered(part, &mut parts, length)?;
            }
            left -= length;
        }
        Ok(())
    }

    /// Seals one record whose content lies in one piece, straight from there.
    pub(super) fn seal(&mut self, content_type: u8, content: &[u8]) -> Result<(), LaneError> {
        let nonce = self.key.next_nonce()?;
        let (header, sealed, tail) = split_record(&mut self.out[self.filled..], content.len());
        self.key
            .key
            .seal_out_of_place_scatter(
                nonce,
                Aad::from(*header),
                content,
                sealed,
                &[content_type],
                tail,
            )
            .map_err(|_| LaneError::Tls13("sealing failed"))?;
        self.filled += content.len() + RECORD_OVERHEAD;
        Ok(())
    }

    /// Seals one record of `length` bytes that lie in several pieces, and gives what is left of the
    /// last of them.
    fn seal_gathered<'a>(
        &mut self,
        mut part: &'a [u8],
        parts: &mut impl Iterator<Item = &'a [u8]>,
        length: usize,
    ) -> Result<&'a [u8], LaneError> {
        let nonce = self.key.next_nonce()?;
        let (header, sealed, tail) = split_record(&mut self.out[self.filled..], length);
        let mut at = 0;
        while at < length {
            let count = part.len().min(length - at);
            sealed[at..at + count].copy_from_slice(&part[..count]);
            part = &part[count..];
            at += count;
            if at < length {
                part = parts.next().unwrap_or_else(|| unreachable!("the parts add up"));
            }
        }
        self.key
            .key
            .seal_in_place_scatter(nonce, Aad::from(*header), sealed, &[TYPE_DATA], tail)
            .map_err(|_| LaneError::Tls13("sealing failed"))?;
        self.filled += length + RECORD_OVERHEAD;
        Ok(part)
    }

    pub(super) fn flush(&mut self, wire: &mut impl Write) -> Result<(), LaneError> {
        wire.write_all(&self.out[..self.filled])?;
        self.filled = 0;
        Ok(())
    }
}

/// Writes the header of a record with `length` bytes of content to the start of `out`, and gives
/// the header, the place for the sealed content, and that for its type and the tag.
fn split_record(
    out: &mut [u8],
    length: usize,
) -> (&mut [u8; RECORD_HEADER_BYTES], &mut [u8], &mut [u8]) {
    assert!(length <= CONTENT_BYTES_MAX, "a record holds at most 16 KiB");
    let (header, rest) = out
        .split_first_chunk_mut::<RECORD_HEADER_BYTES>()
        .unwrap_or_else(|| unreachable!("room was made for a record"));
    let body_bytes = (length + 1 + TAG_BYTES) as u16;
    let [high, low] = body_bytes.to_be_bytes();
    *header = [TYPE_DATA, 3, 3, high, low];
    let (sealed, rest) = rest.split_at_mut(length);
    (header, sealed, &mut rest[..1 + TAG_BYTES])
}

/// The receiving direction.
pub(super) struct Opener {
    key: RecordKey,
    /// Records as they came: `start..end` are not opened yet.
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Opened content in `buffer`, before `start`, that nobody took yet.
    plain: Range<usize>,
    empty_records: u32,
}

impl Opener {
    pub(super) fn new(
        secrets: (u64, ConnectionTrafficSecrets),
        record_batch: usize,
    ) -> Result<Self, LaneError> {
        // A peer's record may be longer than ours by its padding.
        let bytes = batch_bytes(record_batch) + RECORD_BODY_MAX - CONTENT_BYTES_MAX;
        Ok(Self {
            key: RecordKey::new(secrets)?,
            buffer: vec![0; bytes].into_boxed_slice(),
            start: 0,
            end: 0,
            plain: 0..0,
            empty_records: 0,
        })
    }

    /// Whether content or a whole record is here already.
    pub(super) fn has_data(&self) -> bool {
        !self.plain.is_empty()
            || record_bytes(&self.buffer[self.start..self.end])
                .is_ok_and(|bytes| bytes.is_some_and(|bytes| bytes <= self.end - self.start))
    }

    pub(super) fn recv_header(
        &mut self,
        wire: &mut impl Incoming,
        body: &mut Vec<u8>,
    ) -> Result<Header, LaneError> {
        let mut bytes = [0; HEADER_BYTES];
        self.read(wire, &mut bytes, true)?;
        let header = Header::decode(&bytes)?;
        body.resize(header.body_bytes as usize, 0);
        self.read(wire, body, false)?;
        Ok(header)
    }

    pub(super) fn recv_payload(
        &mut self,
        wire: &mut impl Incoming,
        buf: &mut [u8],
    ) -> Result<(), LaneError> {
        self.read(wire, buf, false)
    }

    /// Fills `buf`. At the start of a frame the end of the stream is an orderly one.
    fn read(
        &mut self,
        wire: &mut impl Incoming,
        buf: &mut [u8],
        at_frame_start: bool,
    ) -> Result<(), LaneError> {
        let mut filled = 0;
        while filled < buf.len() {
            let rest = &mut buf[filled..];
            if self.plain.is_empty() {
                let opened = self.fetch_record(wire, rest.len()).and_then(|()| self.open(rest));
                filled += opened.map_err(|error| match error {
                    LaneError::Closed if !at_frame_start || filled > 0 => LaneError::Truncated,
                    other => other,
                })?;
            } else {
                let count = rest.len().min(self.plain.len());
                let taken = self.plain.start..self.plain.start + count;
                rest[..count].copy_from_slice(&self.buffer[taken]);
                self.plain.start += count;
                filled += count;
            }
        }
        Ok(())
    }

    /// Waits for one whole record at `start`. `wanted` is how much content is sure to come: while
    /// that is large, one call waits for all of it.
    fn fetch_record(&mut self, wire: &mut impl Incoming, wanted: usize) -> Result<(), LaneError> {
        loop {
            let held = self.end - self.start;
            let whole = record_bytes(&self.buffer[self.start..self.end])?;
            if whole.is_some_and(|bytes| bytes <= held) {
                return Ok(());
            }
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, held);
            // Whatever its records, the peer must send at least this much for `wanted`.
            let least = wanted + wanted.div_ceil(CONTENT_BYTES_MAX) * RECORD_OVERHEAD;
            let missing = least.saturating_sub(held).min(self.buffer.len() - held);
            let count = if missing > CONTENT_BYTES_MAX {
                wire.most(&mut self.buffer[held..held + missing])?
            } else {
                wire.some(&mut self.buffer[held..])?
            };
            if count == 0 {
                return Err(if held == 0 { LaneError::Closed } else { LaneError::Truncated });
            }
            self.end += count;
        }
    }

    /// Opens the record at `start` into `out` if it fits there with its content type, else in
    /// place; gives the bytes of content that lie in `out`.
    fn open(&mut self, out: &mut [u8]) -> Result<usize, LaneError> {
        let nonce = self.key.next_nonce()?;
        let (header, body) = self.buffer[self.start..self.end]
            .split_first_chunk_mut::<RECORD_HEADER_BYTES>()
            .unwrap_or_else(|| unreachable!("a whole record was fetched"));
        let body = &mut body[..usize::from(u16::from_be_bytes([header[3], header[4]]))];
        let body_start = self.start + RECORD_HEADER_BYTES;
        self.start = body_start + body.len();
        let inner_bytes = body.len() - TAG_BYTES;
        let aad = Aad::from(*header);
        let direct = inner_bytes <= out.len();
        let key = &self.key.key;
        let inner = if direct {
            let (sealed, tag) = body.split_at(inner_bytes);
            let inner = &mut out[..inner_bytes];
            key.open_separate_gather(nonce, aad, sealed, tag, inner).map(|()| inner)
        } else {
            key.open_in_place(nonce, aad, body)
        }
        .map_err(|_| LaneError::Record)?;
        let (content_type, length) = split_inner(inner)?;
        let data_bytes = if content_type == TYPE_DATA {
            length
        } else {
            check_other(content_type, &inner[..length])?;
            0
        };
        self.empty_records = if data_bytes == 0 { self.empty_records + 1 } else { 0 };
        if self.empty_records > EMPTY_RECORDS_MAX {
            return Err(LaneError::Tls13("too many records without content"));
        }
        if direct {
            return Ok(data_bytes);
        }
        self.plain = body_start..body_start + data_bytes;
        Ok(0)
    }
}

/// Bytes of the record that `held` starts with, header and all; `None` if not even its header is
/// here. After the handshake all records look like data.
fn record_bytes(held: &[u8]) -> Result<Option<usize>, LaneError> {
    let Some(header) = held.first_chunk::<RECORD_HEADER_BYTES>() else {
        return Ok(None);
    };
    let body_bytes = usize::from(u16::from_be_bytes([header[3], header[4]]));
    if header[0] != TYPE_DATA || body_bytes <= TAG_BYTES || body_bytes > RECORD_BODY_MAX {
        return Err(LaneError::Tls13("the other end sent no TLS record"));
    }
    Ok(Some(RECORD_HEADER_BYTES + body_bytes))
}

/// Content type and length of an opened record: the last byte that is not padding is the type.
fn split_inner(inner: &[u8]) -> Result<(u8, usize), LaneError> {
    let at = inner
        .iter()
        .rposition(|&byte| byte != 0)
        .ok_or(LaneError::Tls13("a record of nothing but padding"))?;
    if at > CONTENT_BYTES_MAX {
        return Err(LaneError::Tls13("a record of more than 16 KiB"));
    }
    Ok((inner[at], at))
}

/// What to do about a record that is not data: session tickets are passed over, all else ends the
/// lane.
fn check_other(content_type: u8, content: &[u8]) -> Result<(), LaneError> {
    match (content_type, content) {
        (TYPE_ALERT, &[_, ALERT_CLOSE_NOTIFY]) => Err(LaneError::Closed),
        (TYPE_ALERT, &[_, alert]) => Err(LaneError::Alert(alert)),
        (TYPE_HANDSHAKE, &[HANDSHAKE_NEW_SESSION_TICKET, ..]) => Ok(()),
        (TYPE_HANDSHAKE, &[HANDSHAKE_KEY_UPDATE, ..]) => {
            Err(LaneError::Tls13("lanes do not update keys; they are replaced"))
        }
        _ => Err(LaneError::Tls13("a record that has no place on a lane")),
    }
}

#[cfg(test)]
mod tests {
    use penstock_proto::frame::FrameKind;
    use rustls::crypto::cipher::{AeadKey, Iv};

    use super::*;

    fn secrets(sequence: u64) -> (u64, ConnectionTrafficSecrets) {
        let (key, iv) = (AeadKey::from([7; 32]), Iv::from([9; 12]));
        (sequence, ConnectionTrafficSecrets::Aes256Gcm { key, iv })
    }

    fn ends() -> (Sealer, Opener) {
        (Sealer::new(secrets(3), 2).unwrap(), Opener::new(secrets(3), 2).unwrap())
    }

    /// One frame of three records: 16 + 40 bytes, 16 KiB, 100.
    fn frame(sealer: &mut Sealer) -> (Vec<u8>, Vec<u8>) {
        let payload: Vec<u8> = (0..CONTENT_BYTES_MAX + 100).map(|at| (at % 251) as u8).collect();
        let body = [5; 40];
        let header = Header::of(FrameKind::Data, 1, &body);
        let header = Header { payload_bytes: payload.len() as u32, ..header };
        let mut bytes = Vec::new();
        sealer.send(&mut bytes, &header, &body, &[&payload]).unwrap();
        (bytes, payload)
    }

    fn receive(opener: &mut Opener, mut bytes: &[u8]) -> Result<Vec<u8>, LaneError> {
        let mut body = Vec::new();
        let header = opener.recv_header(&mut bytes, &mut body)?;
        assert_eq!(body, [5; 40]);
        let mut payload = vec![0; header.payload_bytes as usize];
        opener.recv_payload(&mut bytes, &mut payload)?;
        Ok(payload)
    }

    /// A flipped bit anywhere in the records is found.
    #[test]
    fn a_flipped_bit_is_found() {
        let (good, payload) = frame(&mut ends().0);
        assert_eq!(good.len(), 56 + payload.len() + 3 * RECORD_OVERHEAD);
        assert!(receive(&mut ends().1, &good).unwrap() == payload);
        let places =
            (0..100).chain((100..good.len()).step_by(997)).chain(good.len() - 20..good.len());
        for at in places {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            let error = receive(&mut ends().1, &bad).unwrap_err();
            assert!(
                matches!(error, LaneError::Record | LaneError::Tls13(_) | LaneError::Truncated),
                "byte {at}: {error}"
            );
        }
    }

    /// Records that are repeated or left out are found.
    #[test]
    fn replay_and_loss_are_found() {
        let (mut sealer, mut opener) = ends();
        let first = frame(&mut sealer).0;
        let second = frame(&mut sealer).0;
        receive(&mut opener, &first).unwrap();
        let error = receive(&mut opener, &first).unwrap_err();
        assert!(matches!(error, LaneError::Record), "{error}");
        let error = receive(&mut ends().1, &second).unwrap_err();
        assert!(matches!(error, LaneError::Record), "{error}");
    }

    /// A stream that is cut anywhere is no frame; only its border is an orderly end.
    #[test]
    fn a_cut_stream_is_not_a_frame() {
        let good = frame(&mut ends().0).0;
        for at in (0..200).chain((200..good.len()).step_by(991)) {
            let error = receive(&mut ends().1, &good[..at]).unwrap_err();
            match at {
                0 => assert!(matches!(error, LaneError::Closed), "{error}"),
                _ => assert!(matches!(error, LaneError::Truncated), "at {at}: {error}"),
            }
        }
    }

    fn outcome_of(content_type: u8, content: &[u8]) -> Result<Vec<u8>, LaneError> {
        let (mut sealer, mut opener) = ends();
        sealer.seal(content_type, content).unwrap();
        let mut bytes = Vec::new();
        sealer.flush(&mut bytes).unwrap();
        bytes.extend(frame(&mut sealer).0);
        receive(&mut opener, &bytes)
    }

    /// What other stacks may send between data: tickets pass, alerts and key updates end the lane.
    #[test]
    fn records_that_are_no_data() {
        assert!(outcome_of(TYPE_HANDSHAKE, &[HANDSHAKE_NEW_SESSION_TICKET, 0, 0, 0]).is_ok());
        assert!(outcome_of(TYPE_DATA, &[]).is_ok());
        // Content is followed by its type, so that zeros behind it are padding.
        assert!(outcome_of(0, &[HANDSHAKE_NEW_SESSION_TICKET, 0, TYPE_HANDSHAKE, 0, 0]).is_ok());
        let error = outcome_of(TYPE_HANDSHAKE, &[HANDSHAKE_KEY_UPDATE, 0, 0, 1, 0]).unwrap_err();
        assert!(error.to_string().contains("do not update keys"), "{error}");
        let error = outcome_of(TYPE_ALERT, &[1, ALERT_CLOSE_NOTIFY]).unwrap_err();
        assert!(matches!(error, LaneError::Closed), "{error}");
        let error = outcome_of(TYPE_ALERT, &[2, 20]).unwrap_err();
        assert!(matches!(error, LaneError::Alert(20)), "{error}");
        for (content_type, content) in [(0, &[][..]), (0, &[0; 50]), (99, b"x"), (TYPE_ALERT, b"")]
        {
            let error = outcome_of(content_type, content).unwrap_err();
            assert!(matches!(error, LaneError::Tls13(_)), "{content_type}: {error}");
        }
    }

    /// A peer cannot keep a lane busy for ever with records of nothing.
    #[test]
    fn endless_empty_records_are_refused() {
        let (mut sealer, mut opener) = ends();
        for _ in 0..=EMPTY_RECORDS_MAX {
            sealer.seal(TYPE_DATA, &[]).unwrap();
        }
        let mut bytes = Vec::new();
        sealer.flush(&mut bytes).unwrap();
        let error = receive(&mut opener, &bytes).unwrap_err();
        assert!(error.to_string().contains("without content"), "{error}");
    }

    /// Before the key is used up, both directions refuse to go on.
    #[test]
    fn a_used_up_key_is_not_used() {
        let mut sealer = Sealer::new(secrets(KEY_RECORDS_MAX - 1), 1).unwrap();
        let ping = Header::of(FrameKind::Ping, 0, &[]);
        let mut bytes = Vec::new();
        sealer.send(&mut bytes, &ping, &[], &[]).unwrap();
        let error = sealer.send(&mut bytes, &ping, &[], &[]).unwrap_err();
        assert!(matches!(error, LaneError::KeyUsedUp), "{error}");
        let mut opener = Opener::new(secrets(KEY_RECORDS_MAX), 1).unwrap();
        let error = opener.recv_header(&mut bytes.as_slice(), &mut Vec::new()).unwrap_err();
        assert!(matches!(error, LaneError::KeyUsedUp), "{error}");
    }

    proptest::proptest! {
        /// Hostile bytes give an error, never a panic or a frame.
        #[test]
        fn hostile_bytes_are_no_frame(
            mut bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..2000),
            lead in proptest::bool::ANY,
        ) {
            if lead && bytes.len() > 5 {
                bytes[..5].copy_from_slice(&[TYPE_DATA, 3, 3, 0, 200]);
            }
            let mut body = Vec::new();
            let mut stream = bytes.as_slice();
            proptest::prop_assert!(ends().1.recv_header(&mut stream, &mut body).is_err());
        }
    }
}
