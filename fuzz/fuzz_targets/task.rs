//! Work and reports between a controller and a peer on another host (docs/protocol.md, 15): hostile
//! bytes are refused, or are what is encoded to the same bytes; lists hold no more than came.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_proto::compared::{Comparison, EntrySet};
use penstock_proto::manifest::PAGE_ENTRIES_MAX;
use penstock_proto::task::{Report, WorkReply};
use penstock_proto::wire::{DecodeError, Reader, Writer};

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, body)) = bytes.split_first() else { return };
    match which % 4 {
        0 => {
            if let Some(reply) = same(body, WorkReply::decode, WorkReply::encode) {
                // The shortest work, that of a page of links, takes five bytes.
                assert!(reply.work.len() <= body.len() / 5);
            }
        }
        1 => {
            let encode = |reports: &Vec<Report>, out: &mut Writer| Report::encode_all(reports, out);
            if let Some(reports) = same(body, Report::decode_all, encode) {
                assert!(reports.len() <= body.len() / 9);
            }
        }
        2 => {
            if let Some(set) = same(body, EntrySet::decode, EntrySet::encode) {
                assert!(set.iter().all(|entry| (entry as usize) < PAGE_ENTRIES_MAX));
            }
        }
        _ => {
            let _ = same(body, Comparison::decode, Comparison::encode);
        }
    }
});

/// Reads what is at the beginning; it encodes to the bytes that it was read from.
fn same<T>(
    bytes: &[u8],
    decode: impl Fn(&mut Reader<'_>) -> Result<T, DecodeError>,
    encode: impl Fn(&T, &mut Writer),
) -> Option<T> {
    let mut input = Reader::new(bytes);
    let read = decode(&mut input).ok()?;
    let mut out = Writer::new();
    encode(&read, &mut out);
    assert_eq!(out.into_bytes(), bytes[..bytes.len() - input.remaining()]);
    Some(read)
}
