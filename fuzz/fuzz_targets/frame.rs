//! Frames (docs/protocol.md, 4): whatever another peer sends ends in an error or in a message that
//! encodes to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_proto::frame::{
    BODY_BYTES_MAX, Data, Fetch, FrameKind, HEADER_BYTES, Header, Hello, HelloReply, RECORDS_MAX,
    Refusal, decode_stamp, encode_stamp,
};
use penstock_proto::time_use::LaneTimes;

fuzz_target!(|bytes: &[u8]| {
    let Some((header, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return };
    let Ok(decoded) = Header::decode(header) else { return };
    assert_eq!(decoded.encode(), *header);
    assert!(decoded.body_bytes as usize <= BODY_BYTES_MAX);
    match decoded.kind {
        FrameKind::Hello => same(Hello::decode(body).map(|hello| hello.encode()), body),
        FrameKind::HelloReply => same(HelloReply::decode(body).map(|reply| reply.encode()), body),
        FrameKind::Fetch => same(Fetch::decode(body).map(|fetch| fetch.encode()), body),
        FrameKind::Refusal => same(Refusal::decode(body).map(|refusal| refusal.encode()), body),
        FrameKind::Ping | FrameKind::Pong => {
            same(decode_stamp(body).map(|stamp| encode_stamp(stamp).to_vec()), body);
        }
        FrameKind::Bye => {}
        // Activities of a later release count as others.
        FrameKind::Times => {
            if let Ok(times) = LaneTimes::decode(body) {
                assert_eq!(LaneTimes::decode(&times.encode()), Ok(times));
            }
        }
        FrameKind::Data => {
            let Ok(data) = Data::decode(body, decoded.payload_bytes) else { return };
            assert!(data.records.len() <= RECORDS_MAX);
            let payload: u64 = data.records.iter().map(|record| record.payload_bytes()).sum();
            assert_eq!(payload, u64::from(decoded.payload_bytes));
            assert_eq!(Data::encode_into(&data.records, Vec::new()), body);
        }
    }
});

fn same<E>(encoded: Result<Vec<u8>, E>, body: &[u8]) {
    if let Ok(encoded) = encoded {
        assert_eq!(encoded, body);
    }
}
