//! Frames in clear, each under a MAC (hard case D3, docs/design/0002).
//!
//! On the wire: header, body, MAC, payload. The MAC is the first 16 bytes of keyed BLAKE3 over a
//! 64-bit frame counter that is not sent, the header and the body. Each direction has its own key
//! and counter, so that a frame altered, repeated, left out, reordered or sent back to its sender
//! is found. The payload is bound by the digest in the body, which the target compares.

use std::io::{IoSlice, Write};

use aws_lc_rs::constant_time;
use penstock_proto::frame::{HEADER_BYTES, Header, MAC_BYTES};
use rustls::ConnectionCommon;
use zeroize::{Zeroize, Zeroizing};

use super::error::LaneError;
use super::wire::Incoming;
use penstock_proto::id::LaneId;

const EXPORTER_LABEL: &[u8] = b"EXPORTER-penstock-lane-mac";
/// Bytes read beyond the requested ones: enough for the header, body and MAC of most frames.
const AHEAD_BYTES: usize = 16 * 1024;
/// Reads of at least this much wait for all of it in one call and bypass the read-ahead.
const DIRECT_BYTES: usize = 4 * 1024;

/// The key of one direction and the number of its next frame.
pub(super) struct MacKey {
    pub(super) key: [u8; 32],
    pub(super) counter: u64,
}

impl MacKey {
    pub(super) fn next_mac(&mut self, header: &[u8; HEADER_BYTES], body: &[u8]) -> [u8; MAC_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&self.counter.to_le_bytes());
        hasher.update(header);
        hasher.update(body);
        self.counter += 1;
        let mut mac = [0; MAC_BYTES];
        mac.copy_from_slice(&hasher.finalize().as_bytes()[..MAC_BYTES]);
        mac
    }
}

impl Drop for MacKey {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

/// Returns both keys of a lane from its own handshake (RFC 8446, section 7.5): the target's
/// frames first, then the source's.
pub(super) fn mac_keys<Data>(
    connection: &ConnectionCommon<Data>,
    lane: LaneId,
) -> Result<(MacKey, MacKey), rustls::Error> {
    let context = lane.0.to_le_bytes();
    let material = connection.export_keying_material(
        Zeroizing::new([0; 64]),
        EXPORTER_LABEL,
        Some(&context),
    )?;
    let key = |at: usize| {
        let mut key = [0; 32];
        key.copy_from_slice(&material[at..at + 32]);
        MacKey { key, counter: 0 }
    };
    Ok((key(0), key(32)))
}

/// The sending direction.
pub(super) struct ClearSender {
    key: MacKey,
}

impl ClearSender {
    pub(super) fn new(key: MacKey) -> Self {
        Self { key }
    }

    pub(super) fn send(
        &mut self,
        wire: &mut impl Write,
        header: &Header,
        body: &[u8],
        payload: &[&[u8]],
    ) -> Result<(), LaneError> {
        let header = header.encode();
        let mac = self.key.next_mac(&header, body);
        let mut slices = Vec::with_capacity(3 + payload.len());
        slices.extend([IoSlice::new(&header), IoSlice::new(body), IoSlice::new(&mac)]);
        slices.extend(payload.iter().map(|part| IoSlice::new(part)));
        let mut rest = slices.as_mut_slice();
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match wire.write_vectored(rest) {
                Ok(0) => return Err(LaneError::Closed),
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// The receiving direction.
pub(super) struct ClearReceiver {
    key: MacKey,
    ahead: Box<[u8]>,
    start: usize,
    end: usize,
}

impl ClearReceiver {
    pub(super) fn new(key: MacKey) -> Self {
        Self { key, ahead: vec![0; AHEAD_BYTES].into_boxed_slice(), start: 0, end: 0 }
    }

    pub(super) fn has_data(&self) -> bool {
        self.start < self.end
    }

    pub(super) fn recv_header(
        &mut self,
        wire: &mut impl Incoming,
        body: &mut Vec<u8>,
    ) -> Result<Header, LaneError> {
        let mut bytes = [0; HEADER_BYTES];
        self.read(wire, &mut bytes, true)?;
        // The header is not authenticated yet: one that cannot be read was altered on the way.
        let header = Header::decode(&bytes).map_err(|_| LaneError::Mac)?;
        body.resize(header.body_bytes as usize, 0);
        self.read(wire, body, false)?;
        let mut mac = [0; MAC_BYTES];
        self.read(wire, &mut mac, false)?;
        let expected = self.key.next_mac(&bytes, body);
        constant_time::verify_slices_are_equal(&expected, &mac).map_err(|_| LaneError::Mac)?;
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
            if self.start < self.end {
                let count = rest.len().min(self.end - self.start);
                rest[..count].copy_from_slice(&self.ahead[self.start..self.start + count]);
                self.start += count;
                filled += count;
                continue;
            }
            let missing = rest.len();
            let count = if missing >= DIRECT_BYTES {
                let count = wire.most(rest, missing)?;
                filled += count;
                count
            } else {
                let count = wire.some(&mut self.ahead)?;
                (self.start, self.end) = (0, count);
                count
            };
            if count == 0 {
                let orderly = at_frame_start && filled == 0;
                return Err(if orderly { LaneError::Closed } else { LaneError::Truncated });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use penstock_proto::frame::FrameKind;

    use super::*;

    fn ends() -> (ClearSender, ClearReceiver) {
        let key = || MacKey { key: [7; 32], counter: 0 };
        (ClearSender::new(key()), ClearReceiver::new(key()))
    }

    fn data(request: u32, body: &[u8], payload: u32) -> Header {
        let header = Header::of(FrameKind::Data, request, body);
        Header { payload_bytes: payload, ..header }
    }

    fn frame(sender: &mut ClearSender, request: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let body = [request as u8; 40];
        sender.send(&mut bytes, &data(request, &body, 5), &body, &[b"pay", b"", b"lo"]).unwrap();
        bytes
    }

    fn receive(receiver: &mut ClearReceiver, mut bytes: &[u8]) -> Result<Header, LaneError> {
        let mut body = Vec::new();
        let header = receiver.recv_header(&mut bytes, &mut body)?;
        let mut payload = vec![0; header.payload_bytes as usize];
        receiver.recv_payload(&mut bytes, &mut payload)?;
        assert_eq!(body, [header.request as u8; 40]);
        assert_eq!(payload, b"paylo");
        Ok(header)
    }

    /// D3: any flipped bit of header, body or MAC is found, before the frame is acted on.
    #[test]
    fn d3_a_flipped_bit_is_found() {
        let good = frame(&mut ends().0, 3);
        assert_eq!(receive(&mut ends().1, &good).unwrap().request, 3);
        for at in 0..HEADER_BYTES + 40 + MAC_BYTES {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                let error = receive(&mut ends().1, &bad).unwrap_err();
                assert!(
                    matches!(error, LaneError::Mac | LaneError::Decode(_) | LaneError::Truncated),
                    "byte {at} bit {bit}: {error}"
                );
            }
        }
    }

    /// D3: frames repeated, left out, reordered or sent back to their sender are found.
    #[test]
    fn d3_replay_and_reordering_are_found() {
        let (mut sender, mut receiver) = ends();
        let frames: Vec<_> = (0..3).map(|request| frame(&mut sender, request)).collect();
        receive(&mut receiver, &frames[0]).unwrap();
        let error = receive(&mut receiver, &frames[0]).unwrap_err();
        assert!(matches!(error, LaneError::Mac), "repeated: {error}");

        let (_, mut receiver) = ends();
        let error = receive(&mut receiver, &frames[1]).unwrap_err();
        assert!(matches!(error, LaneError::Mac), "left out: {error}");

        let (_, mut receiver) = ends();
        receive(&mut receiver, &frames[0]).unwrap();
        let error = receive(&mut receiver, &frames[2]).unwrap_err();
        assert!(matches!(error, LaneError::Mac), "reordered: {error}");

        let mut other = ClearReceiver::new(MacKey { key: [8; 32], counter: 0 });
        let error = receive(&mut other, &frames[0]).unwrap_err();
        assert!(matches!(error, LaneError::Mac), "the other direction's key: {error}");
    }

    /// A frame that is cut anywhere is an error, and only its border is an orderly end.
    #[test]
    fn a_cut_frame_is_not_a_frame() {
        let good = frame(&mut ends().0, 3);
        for at in 0..good.len() {
            let error = receive(&mut ends().1, &good[..at]).unwrap_err();
            match at {
                0 => assert!(matches!(error, LaneError::Closed), "{error}"),
                _ => assert!(matches!(error, LaneError::Truncated), "at {at}: {error}"),
            }
        }
    }

    proptest::proptest! {
        /// Promise: hostile bytes return an error, never a panic or a frame.
        #[test]
        fn hostile_bytes_are_no_frame(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..2000)
        ) {
            let mut body = Vec::new();
            let mut stream = bytes.as_slice();
            proptest::prop_assert!(ends().1.recv_header(&mut stream, &mut body).is_err());
        }
    }
}
