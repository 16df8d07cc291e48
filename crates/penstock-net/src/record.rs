//! The TLS 1.3 record layer of a lane, over the secrets of a finished handshake.
//!
//! On the wire it follows RFC 8446, section 5: records of type 23 with at most 16 KiB of content.
//! The true content type follows the content, the nonce is made of the IV and the record's number,
//! and the header is additional data. A record has 22 bytes more than its content. Any TLS stack
//! can be at the other end (`net::tests` puts rustls there).
//!
//! Lanes do not need the parts that are missing. This layer sends no key update and rejects one,
//! since a lane is replaced long before a key is used up. It sends no session tickets and skips
//! received ones. It is better than a general library in one respect: a record is sealed straight
//! from the stride, and opened straight into it. The exception is a record whose last byte (its
//! content type) would lie beyond the caller's buffer: only the last record of a payload.
//!
//! Large payloads start a record of their own, so that their records fall on the caller's buffer in
//! whole 16 KiB; a frame that fits one record travels in one.
//!
//! Memory grows with the number of busy lanes: the room for a batch of records is borrowed from all
//! lanes' [`BATCHES`] while a frame is sent or a large payload arrives. Between calls a lane holds
//! only bytes that came ahead of their turn, in room for one record of its own.

use std::io::Write;
use std::ops::Range;
use std::sync::LazyLock;

use penstock_proto::frame::{HEADER_BYTES, Header};
use penstock_sys::buffer::{Buffer, BufferPool};
use rustls::ConnectionTrafficSecrets;

use super::aead::{Cipher, Key, Library, NONCE_BYTES, TAG_BYTES};
use super::error::LaneError;
use super::wire::Incoming;

/// Most content of one record (RFC 8446, section 5.1).
pub(super) const CONTENT_BYTES_MAX: usize = 16 * 1024;
/// Type, version and length of a record.
const RECORD_HEADER_BYTES: usize = 5;
/// Bytes by which a record of ours is longer than its content: header, content type, tag.
pub(super) const RECORD_OVERHEAD: usize = RECORD_HEADER_BYTES + 1 + TAG_BYTES;
/// Longest body of a record that a peer may send, with padding (RFC 8446, section 5.2).
const RECORD_BODY_MAX: usize = CONTENT_BYTES_MAX + 256;
/// Longest record that a peer may send.
const RECORD_BYTES_MAX: usize = RECORD_HEADER_BYTES + RECORD_BODY_MAX;
/// Records that one key protects: 2^24, below the 2^24.5 that RFC 8446, section 5.5 allows AES-GCM.
/// That is 256 GiB one way; the engine replaces lanes long before.
const KEY_RECORDS_MAX: u64 = 1 << 24;
/// Records without content that are taken in a row before the peer is called hostile.
const EMPTY_RECORDS_MAX: u32 = 32;
/// Most records per system call; see `SocketOptions::record_batch`.
const RECORD_BATCH_MAX: usize = 32;
/// Room beside a batch for the short record with the frame's header and body, so that a stride of
/// two batches takes two system calls and not three. As much is received ahead of a payload's end.
const HEAD_RECORD_BYTES: usize = 1024;
/// Bytes by which a batch may be longer than ours because a peer's records are padded.
const PADDING_BYTES: usize = RECORD_BODY_MAX - CONTENT_BYTES_MAX;

const TYPE_ALERT: u8 = 21;
const TYPE_HANDSHAKE: u8 = 22;
const TYPE_DATA: u8 = 23;
const ALERT_CLOSE_NOTIFY: u8 = 0;
const HANDSHAKE_NEW_SESSION_TICKET: u8 = 4;
const HANDSHAKE_KEY_UPDATE: u8 = 24;

/// Key, IV and next record number of one direction.
struct RecordKey {
    key: Key,
    iv: [u8; NONCE_BYTES],
    sequence: u64,
}

impl RecordKey {
    fn new((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Self, LaneError> {
        let (cipher, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Cipher::Aes128Gcm, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Cipher::Aes256Gcm, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
                (Cipher::ChaCha20Poly1305, key, iv)
            }
            _ => return Err(LaneError::Tls13("a cipher suite that lanes do not speak")),
        };
        let key = Key::new(Library::fastest(cipher), cipher, key.as_ref())
            .map_err(|_| LaneError::Tls13("a key of the wrong length"))?;
        let iv =
            iv.as_ref().try_into().map_err(|_| LaneError::Tls13("an IV of the wrong length"))?;
        Ok(Self { key, iv, sequence })
    }

    /// Returns the nonce of the next record (RFC 8446, section 5.3); each is used once.
    fn next_nonce(&mut self) -> Result<[u8; NONCE_BYTES], LaneError> {
        if self.sequence >= KEY_RECORDS_MAX {
            return Err(LaneError::KeyUsedUp);
        }
        let mut nonce = self.iv;
        for (byte, count) in nonce[NONCE_BYTES - 8..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= count;
        }
        self.sequence += 1;
        Ok(nonce)
    }
}

const fn batch_bytes(record_batch: usize) -> usize {
    record_batch * (CONTENT_BYTES_MAX + RECORD_OVERHEAD) + HEAD_RECORD_BYTES
}

/// The room for batches of all lanes of the process. It has no limit of its own: a thread that
/// sends or receives a large payload holds a stride of a pool that has one. A wait here while
/// holding a stride could make other threads wait for that stride.
static BATCHES: LazyLock<BufferPool> =
    LazyLock::new(|| BufferPool::new(batch_bytes(RECORD_BATCH_MAX) + PADDING_BYTES, usize::MAX));

/// The sending direction.
pub(super) struct Sealer {
    key: RecordKey,
    /// Bytes of a batch that are used.
    batch_bytes: usize,
}

/// Sealed records that were not sent yet.
pub(super) struct Outbox {
    room: Buffer,
    filled: usize,
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self { room: BATCHES.take(), filled: 0 }
    }

    pub(super) fn flush(&mut self, wire: &mut impl Write) -> Result<(), LaneError> {
        wire.write_all(&self.room[..self.filled])?;
        self.filled = 0;
        Ok(())
    }
}

impl Sealer {
    /// Returns the name of the cipher that seals.
    pub(super) fn cipher(&self) -> &'static str {
        self.key.key.cipher().name()
    }

    pub(super) fn new(
        secrets: (u64, ConnectionTrafficSecrets),
        record_batch: usize,
    ) -> Result<Self, LaneError> {
        let batch_bytes = batch_bytes(record_batch.clamp(1, RECORD_BATCH_MAX));
        Ok(Self { key: RecordKey::new(secrets)?, batch_bytes })
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
        let mut out = Outbox::new();
        if head_bytes + payload_bytes <= CONTENT_BYTES_MAX {
            let parts = head.iter().chain(payload).copied();
            self.seal_all(wire, &mut out, parts, head_bytes + payload_bytes)?;
        } else {
            self.seal_all(wire, &mut out, head.iter().copied(), head_bytes)?;
            self.seal_all(wire, &mut out, payload.iter().copied(), payload_bytes)?;
        }
        out.flush(wire)
    }

    /// Sends `close_notify`: nothing more comes from this end.
    pub(super) fn close(&mut self, wire: &mut impl Write) -> Result<(), LaneError> {
        const WARNING: u8 = 1;
        let mut out = Outbox::new();
        self.seal(&mut out, TYPE_ALERT, &[WARNING, ALERT_CLOSE_NOTIFY])?;
        out.flush(wire)
    }

    /// Seals `parts`, together `left` bytes, into full records and a last shorter one.
    fn seal_all<'a>(
        &mut self,
        wire: &mut impl Write,
        out: &mut Outbox,
        mut parts: impl Iterator<Item = &'a [u8]>,
        mut left: usize,
    ) -> Result<(), LaneError> {
        let mut part: &[u8] = &[];
        while left > 0 {
            let length = left.min(CONTENT_BYTES_MAX);
            if out.filled + length + RECORD_OVERHEAD > self.batch_bytes {
                out.flush(wire)?;
            }
            while part.is_empty() {
                part = parts.next().unwrap_or_else(|| unreachable!("the parts add up"));
            }
            if let Some((content, rest)) = part.split_at_checked(length) {
                self.seal(out, TYPE_DATA, content)?;
                part = rest;
            } else {
                part = self.seal_gathered(out, part, &mut parts, length)?;
            }
            left -= length;
        }
        Ok(())
    }

    /// Seals one record whose content lies in one piece, straight from there.
    pub(super) fn seal(
        &mut self,
        out: &mut Outbox,
        content_type: u8,
        content: &[u8],
    ) -> Result<(), LaneError> {
        let nonce = self.key.next_nonce()?;
        let (header, body) = split_record(&mut out.room[out.filled..], content.len());
        self.key
            .key
            .seal(nonce, header, content, content_type, body)
            .map_err(|_| LaneError::Tls13("sealing failed"))?;
        out.filled += content.len() + RECORD_OVERHEAD;
        Ok(())
    }

    /// Seals one record of `length` bytes that lie in several pieces. Returns the rest of the last
    /// of them.
    fn seal_gathered<'a>(
        &mut self,
        out: &mut Outbox,
        mut part: &'a [u8],
        parts: &mut impl Iterator<Item = &'a [u8]>,
        length: usize,
    ) -> Result<&'a [u8], LaneError> {
        let nonce = self.key.next_nonce()?;
        let (header, body) = split_record(&mut out.room[out.filled..], length);
        let mut at = 0;
        while at < length {
            let count = part.len().min(length - at);
            body[at..at + count].copy_from_slice(&part[..count]);
            part = &part[count..];
            at += count;
            if at < length {
                part = parts.next().unwrap_or_else(|| unreachable!("the parts add up"));
            }
        }
        self.key
            .key
            .seal_in_place(nonce, header, TYPE_DATA, body)
            .map_err(|_| LaneError::Tls13("sealing failed"))?;
        out.filled += length + RECORD_OVERHEAD;
        Ok(part)
    }
}

/// Writes the header of a record with `length` bytes of content to the start of `out`. Returns the
/// header and the place for the sealed content, its type and the tag.
fn split_record(out: &mut [u8], length: usize) -> (&[u8; RECORD_HEADER_BYTES], &mut [u8]) {
    assert!(length <= CONTENT_BYTES_MAX, "a record holds at most 16 KiB");
    let (header, rest) = out
        .split_first_chunk_mut::<RECORD_HEADER_BYTES>()
        .unwrap_or_else(|| unreachable!("room was made for a record"));
    let body_bytes = length + 1 + TAG_BYTES;
    let [high, low] = (body_bytes as u16).to_be_bytes();
    *header = [TYPE_DATA, 3, 3, high, low];
    (header, &mut rest[..body_bytes])
}

/// Records as they came, and where in their room they are.
struct Inbox {
    /// Room for one record: all that a lane holds between calls.
    own: Box<[u8]>,
    /// Room for a batch, in place of `own` while a large payload comes.
    batch: Option<Buffer>,
    /// Bytes of `batch` that are used.
    batch_bytes: usize,
    /// Records at `start..end` of the room are not opened yet.
    start: usize,
    end: usize,
    /// Opened content in the room, before `start`, that was not taken yet.
    plain: Range<usize>,
}

impl Inbox {
    fn new(batch_bytes: usize) -> Self {
        let own = vec![0; RECORD_BYTES_MAX].into_boxed_slice();
        Self { own, batch: None, batch_bytes, start: 0, end: 0, plain: 0..0 }
    }

    fn room(&self) -> &[u8] {
        match &self.batch {
            Some(batch) => &batch[..self.batch_bytes],
            None => &self.own,
        }
    }

    fn room_mut(&mut self) -> &mut [u8] {
        match &mut self.batch {
            Some(batch) => &mut batch[..self.batch_bytes],
            None => &mut self.own,
        }
    }

    /// Returns the bytes of the record at `start`, once its header is here.
    fn next_record(&self) -> Result<Option<usize>, LaneError> {
        record_bytes(&self.room()[self.start..self.end])
    }

    fn has_record(&self) -> Result<bool, LaneError> {
        Ok(self.next_record()?.is_some_and(|bytes| bytes <= self.end - self.start))
    }

    /// Moves to room for a batch.
    fn borrow_batch(&mut self) {
        if self.batch.is_none() {
            let mut batch = BATCHES.take();
            let held = self.held();
            batch[..held.len()].copy_from_slice(&self.own[held.clone()]);
            self.batch = Some(batch);
            self.shift(held.start);
        }
    }

    /// Returns the batch. Bytes that came ahead fit the lane's own room, since no more than that is
    /// received beyond the requested ones (`Opener::fetch_record`).
    fn give_back_batch(&mut self) {
        let held = self.held();
        if held.len() <= self.own.len()
            && let Some(batch) = self.batch.take()
        {
            self.own[..held.len()].copy_from_slice(&batch[held.clone()]);
            self.shift(held.start);
        }
    }

    /// Returns the range of the room that was not taken yet.
    fn held(&self) -> Range<usize> {
        if self.plain.is_empty() { self.start..self.end } else { self.plain.start..self.end }
    }

    /// Handles a move of the room's content to its start.
    fn shift(&mut self, by: usize) {
        self.plain =
            if self.plain.is_empty() { 0..0 } else { self.plain.start - by..self.plain.end - by };
        self.start -= by;
        self.end -= by;
    }
}

/// The receiving direction.
pub(super) struct Opener {
    key: RecordKey,
    inbox: Inbox,
    empty_records: u32,
}

impl Opener {
    pub(super) fn new(
        secrets: (u64, ConnectionTrafficSecrets),
        record_batch: usize,
    ) -> Result<Self, LaneError> {
        let batch_bytes = batch_bytes(record_batch.clamp(1, RECORD_BATCH_MAX)) + PADDING_BYTES;
        Ok(Self { key: RecordKey::new(secrets)?, inbox: Inbox::new(batch_bytes), empty_records: 0 })
    }

    /// Returns whether content or a whole record is here already.
    pub(super) fn has_data(&self) -> bool {
        !self.inbox.plain.is_empty() || self.inbox.has_record().unwrap_or(false)
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
        if buf.len() > CONTENT_BYTES_MAX {
            self.inbox.borrow_batch();
        }
        let mut filled = 0;
        while filled < buf.len() {
            let rest = &mut buf[filled..];
            let inbox = &mut self.inbox;
            if inbox.plain.is_empty() {
                let opened = self.fetch_record(wire, rest.len()).and_then(|()| self.open(rest));
                filled += opened.map_err(|error| match error {
                    LaneError::Closed if !at_frame_start || filled > 0 => LaneError::Truncated,
                    other => other,
                })?;
            } else {
                let count = rest.len().min(inbox.plain.len());
                let taken = inbox.plain.start..inbox.plain.start + count;
                rest[..count].copy_from_slice(&inbox.room()[taken]);
                inbox.plain.start += count;
                filled += count;
            }
        }
        self.inbox.give_back_batch();
        Ok(())
    }

    /// Waits for one whole record at `start`. `wanted` is how much content is sure to come: while
    /// that is large, one call waits for all of it.
    fn fetch_record(&mut self, wire: &mut impl Incoming, wanted: usize) -> Result<(), LaneError> {
        let inbox = &mut self.inbox;
        while !inbox.has_record()? {
            let (start, end) = (inbox.start, inbox.end);
            let held = end - start;
            inbox.room_mut().copy_within(start..end, 0);
            (inbox.start, inbox.end) = (0, held);
            // Whatever its records, the peer must send at least this much for `wanted`, and not
            // much more is taken: the rest fits the lane's own room.
            let least = wanted + wanted.div_ceil(CONTENT_BYTES_MAX) * RECORD_OVERHEAD;
            let most = (least + HEAD_RECORD_BYTES).max(RECORD_BYTES_MAX).min(inbox.room().len());
            let missing = least.saturating_sub(held).min(most - held);
            let room = &mut inbox.room_mut()[held..most];
            let count = if missing > CONTENT_BYTES_MAX {
                wire.most(room, missing)?
            } else {
                wire.some(room)?
            };
            if count == 0 {
                return Err(if held == 0 { LaneError::Closed } else { LaneError::Truncated });
            }
            inbox.end += count;
        }
        Ok(())
    }

    /// Opens the record at `start` into `out` if it fits there with its content type, otherwise in
    /// place. Returns the bytes of content that lie in `out`.
    fn open(&mut self, out: &mut [u8]) -> Result<usize, LaneError> {
        let nonce = self.key.next_nonce()?;
        let (start, end) = (self.inbox.start, self.inbox.end);
        let (header, body) = self.inbox.room_mut()[start..end]
            .split_first_chunk_mut::<RECORD_HEADER_BYTES>()
            .unwrap_or_else(|| unreachable!("a whole record was fetched"));
        let body = &mut body[..usize::from(u16::from_be_bytes([header[3], header[4]]))];
        let body_start = start + RECORD_HEADER_BYTES;
        let next_start = body_start + body.len();
        let inner_bytes = body.len() - TAG_BYTES;
        let direct = inner_bytes <= out.len();
        let key = &self.key.key;
        let inner = if direct {
            let inner = &mut out[..inner_bytes];
            key.open(nonce, header, body, inner).map(|()| inner)
        } else {
            key.open_in_place(nonce, header, body)
        }
        .map_err(|_| LaneError::Record)?;
        let (content_type, length) = split_inner(inner)?;
        let data_bytes = if content_type == TYPE_DATA {
            length
        } else {
            check_other(content_type, &inner[..length])?;
            0
        };
        self.inbox.start = next_start;
        self.empty_records = if data_bytes == 0 { self.empty_records + 1 } else { 0 };
        if self.empty_records > EMPTY_RECORDS_MAX {
            return Err(LaneError::Tls13("too many records without content"));
        }
        if direct {
            return Ok(data_bytes);
        }
        self.inbox.plain = body_start..body_start + data_bytes;
        Ok(0)
    }
}

/// Returns the bytes of the record that `held` starts with, header and all; `None` if not even its
/// header is here. After the handshake all records look like data.
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

/// Returns the content type and length of an opened record: the last byte that is not padding is
/// the type.
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

/// Handles a record that is not data: session tickets are skipped, all other records end the lane.
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
mod tests;
