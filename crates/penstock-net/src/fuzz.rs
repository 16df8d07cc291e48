//! Entries for the fuzz target `lane`; built for it alone.
//!
//! A fuzzer does not find keys. Beside raw bytes it therefore gets an end that protects its bytes:
//! a hostile peer of a paired site.

use penstock_proto::frame::{HEADER_BYTES, Header};
use rustls::ConnectionTrafficSecrets;
use rustls::crypto::cipher::{AeadKey, Iv};

use super::clear::{ClearReceiver, MacKey};
use super::error::LaneError;
use super::record::{CONTENT_BYTES_MAX, Opener, Outbox, Sealer};
use super::wire::Incoming;

/// Payload that is taken in one call at most.
const PART_BYTES: usize = 100_000;

/// Opens TLS records as they come from the network.
pub fn tls_raw(bytes: &[u8]) {
    receive_tls(bytes);
}

/// Opens TLS records with hostile content: (type, length, content), repeated.
///
/// # Panics
/// If sealing fails, which no input can bring about.
pub fn tls_sealed(mut bytes: &[u8]) {
    let mut sealer = Sealer::new(secrets(), 1).expect("a key of the right length");
    let mut wire = Vec::new();
    while let Some((&[content_type, low, high], rest)) = bytes.split_first_chunk::<3>() {
        let length = usize::from(u16::from_le_bytes([low, high]) & 0x3fff).min(rest.len());
        let (content, rest) = rest.split_at(length.min(CONTENT_BYTES_MAX));
        bytes = rest;
        let mut out = Outbox::new();
        sealer.seal(&mut out, content_type, content).expect("room for one record");
        out.flush(&mut wire).expect("a vector takes all");
    }
    receive_tls(&wire);
}

/// Frames in clear as they come from the network.
pub fn clear_raw(bytes: &[u8]) {
    receive_clear(bytes);
}

/// Frames in clear with right MACs: (header, body, payload) again and again.
pub fn clear_sealed(mut bytes: &[u8]) {
    let mut key = mac_key();
    let mut wire = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        let decoded = Header::decode(header).ok();
        let of = |bytes: u32, rest: &[u8]| (bytes as usize).min(rest.len());
        let body_bytes = decoded.map_or(0, |header| of(header.body_bytes, rest));
        let (body, rest) = rest.split_at(body_bytes);
        let payload_bytes = decoded.map_or(0, |header| of(header.payload_bytes, rest));
        let (payload, rest) = rest.split_at(payload_bytes);
        bytes = rest;
        wire.extend_from_slice(header);
        wire.extend_from_slice(body);
        wire.extend_from_slice(&key.next_mac(header, body));
        wire.extend_from_slice(payload);
    }
    receive_clear(&wire);
}

fn secrets() -> (u64, ConnectionTrafficSecrets) {
    let (key, iv) = (AeadKey::from([7; 32]), Iv::from([9; 12]));
    (3, ConnectionTrafficSecrets::Aes256Gcm { key, iv })
}

fn mac_key() -> MacKey {
    MacKey { key: [7; 32], counter: 0 }
}

fn receive_tls(mut wire: &[u8]) {
    let Ok(mut opener) = Opener::new(secrets(), 1) else { return };
    let mut body = Vec::new();
    while let Ok(header) = opener.recv_header(&mut wire, &mut body) {
        let payload = |wire: &mut &[u8], buf: &mut [u8]| opener.recv_payload(wire, buf);
        if receive_payload(&header, &mut wire, payload).is_err() {
            return;
        }
        opener.has_data();
    }
}

fn receive_clear(mut wire: &[u8]) {
    let mut receiver = ClearReceiver::new(mac_key());
    let mut body = Vec::new();
    while let Ok(header) = receiver.recv_header(&mut wire, &mut body) {
        let payload = |wire: &mut &[u8], buf: &mut [u8]| receiver.recv_payload(wire, buf);
        if receive_payload(&header, &mut wire, payload).is_err() {
            return;
        }
        receiver.has_data();
    }
}

fn receive_payload<W: Incoming>(
    header: &Header,
    wire: &mut W,
    mut receive: impl FnMut(&mut W, &mut [u8]) -> Result<(), LaneError>,
) -> Result<(), LaneError> {
    let mut payload = vec![0; header.payload_bytes as usize];
    payload.chunks_mut(PART_BYTES).try_for_each(|part| receive(wire, part))
}
