//! Records that are damaged, foreign, out of place; and the memory that a lane at rest holds.

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

/// Returns two ends with one library at both, whichever this CPU would choose.
fn ends_with(library: Library) -> (Sealer, Opener) {
    let (mut sealer, mut opener) = ends();
    for key in [&mut sealer.key, &mut opener.key] {
        key.key = Key::new(library, Cipher::Aes256Gcm, &[7; 32]).unwrap();
    }
    (sealer, opener)
}

/// Seals a frame of three records: 16 + 40 bytes, 16 KiB, 100.
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
    let places = (0..100).chain((100..good.len()).step_by(997)).chain(good.len() - 20..good.len());
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
    let (mut bytes, mut out) = (Vec::new(), Outbox::new());
    sealer.seal(&mut out, content_type, content).unwrap();
    out.flush(&mut bytes).unwrap();
    bytes.extend(frame(&mut sealer).0);
    receive(&mut opener, &bytes)
}

/// Promise: of records that other stacks may send between data, tickets pass, and alerts and key
/// updates end the lane.
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
    for (content_type, content) in [(0, &[][..]), (0, &[0; 50]), (99, b"x"), (TYPE_ALERT, b"")] {
        let error = outcome_of(content_type, content).unwrap_err();
        assert!(matches!(error, LaneError::Tls13(_)), "{content_type}: {error}");
    }
}

/// A peer cannot keep a lane busy for ever with records of nothing.
#[test]
fn endless_empty_records_are_refused() {
    let (mut sealer, mut opener) = ends();
    let (mut bytes, mut out) = (Vec::new(), Outbox::new());
    for _ in 0..=EMPTY_RECORDS_MAX {
        sealer.seal(&mut out, TYPE_DATA, &[]).unwrap();
    }
    out.flush(&mut bytes).unwrap();
    let error = receive(&mut opener, &bytes).unwrap_err();
    assert!(error.to_string().contains("without content"), "{error}");
}

/// Promise: before the key is used up, both directions refuse to continue.
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

/// Bytes that come in helpings of at most so many, in turn.
struct Helpings<'a> {
    bytes: &'a [u8],
    helpings: std::iter::Cycle<std::vec::IntoIter<usize>>,
}

impl Incoming for Helpings<'_> {
    fn some(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let most = self.helpings.next().unwrap_or(buf.len()).min(buf.len());
        self.bytes.some(&mut buf[..most])
    }

    fn most(&mut self, buf: &mut [u8], least: usize) -> std::io::Result<usize> {
        assert!((1..=buf.len()).contains(&least) && least <= self.bytes.len(), "{least}");
        self.some(buf)
    }
}

/// Frames as another stack may send them: content and padding of the records as given, in turn.
fn foreign_frames(frames: &[(Header, Vec<u8>, Vec<u8>)], records: &[(usize, usize)]) -> Vec<u8> {
    let plain: Vec<u8> = frames
        .iter()
        .flat_map(|(header, body, payload)| [&header.encode()[..], body, payload].concat())
        .collect();
    let (mut sealer, mut bytes) = (ends().0, Vec::new());
    let (mut rest, mut records) = (plain.as_slice(), records.iter().cycle());
    while !rest.is_empty() {
        let (content, padding) = records.next().copied().unwrap_or((1, 0));
        let (content, behind) = rest.split_at(content.min(rest.len()));
        // Content, its type and the padding behind it, sealed as if of type 0: more padding.
        let mut inner = content.to_vec();
        if padding > 0 {
            inner.push(TYPE_DATA);
            inner.resize(content.len() + padding, 0);
        }
        let content_type = if padding > 0 { 0 } else { TYPE_DATA };
        let mut out = Outbox::new();
        sealer.seal(&mut out, content_type, &inner).unwrap();
        out.flush(&mut bytes).unwrap();
        rest = behind;
    }
    bytes
}

proptest::proptest! {
    /// Promise (g): for any sizes of frames, of a peer's records and of single receives, frames
    /// arrive as they were sent, and an idle lane holds no batch.
    #[test]
    fn g_a_lane_at_rest_holds_no_batch(
        sizes in proptest::collection::vec((0..60_000usize, 0..600_000usize), 1..5),
        records in proptest::collection::vec((1..=16_000usize, 0..300usize), 1..4),
        helpings in proptest::collection::vec(1..400_000usize, 1..4),
        foreign in proptest::bool::ANY,
        library in proptest::sample::select(&[Library::AwsLc, Library::Ring][..]),
    ) {
        let noise = |length: usize| (0..length).map(|at| (at % 251) as u8).collect::<Vec<_>>();
        let frames: Vec<_> = sizes.iter().map(|(body, payload)| {
            let (body, payload) = (noise(*body), noise(*payload));
            let header = Header::of(FrameKind::Data, 1, &body);
            (Header { payload_bytes: payload.len() as u32, ..header }, body, payload)
        }).collect();
        let bytes = if foreign {
            foreign_frames(&frames, &records)
        } else {
            let (mut sealer, mut bytes) = (ends_with(library).0, Vec::new());
            for (header, body, payload) in &frames {
                sealer.send(&mut bytes, header, body, &[payload]).unwrap();
            }
            bytes
        };
        let mut wire = Helpings { bytes: &bytes, helpings: helpings.into_iter().cycle() };
        let (mut opener, mut body) = (ends_with(library).1, Vec::new());
        for expected in &frames {
            let header = opener.recv_header(&mut wire, &mut body).unwrap();
            proptest::prop_assert!(opener.inbox.batch.is_none());
            let mut payload = vec![0; header.payload_bytes as usize];
            opener.recv_payload(&mut wire, &mut payload).unwrap();
            proptest::prop_assert!(opener.inbox.batch.is_none());
            let same = (header, &body, &payload) == (expected.0, &expected.1, &expected.2);
            proptest::prop_assert!(same);
        }
        proptest::prop_assert!(wire.bytes.is_empty() && !opener.has_data());
    }

    /// Promise: hostile bytes return an error, never a panic or a frame.
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
