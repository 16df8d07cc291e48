//! Page logs (docs/protocol.md, 11.1): a damaged log is cut or refused, and whatever a log with
//! right checksums says, the ledger takes it up without a panic.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use penstock_engine::page::PageLedger;
use penstock_proto::compared::Comparison;
use penstock_proto::digest::{Digest, DigestKind};
use penstock_proto::id::TransferId;
use penstock_proto::journal::JournalRecord;
use penstock_proto::manifest::{EntryDraft, EntryKind, Page, PageBuilder};
use penstock_proto::slicing::Slicing;
use penstock_proto::units::MIB;
use penstock_proto::wire::Reader;

fuzz_target!(|bytes: &[u8]| {
    let records = take_all(bytes);
    let mut again = Vec::new();
    records.iter().for_each(|record| record.append_to(&mut again));
    assert_eq!(again, bytes[..again.len()]);
    // The fuzzer does not find checksums, so it gets them for nothing.
    let sealed = seal(bytes);
    let records = take_all(&sealed);
    for doubt_all in [false, true] {
        let (digest, kind, nothing) = (Digest([1; 32]), DigestKind::Blake3, Comparison::default());
        let mut ledger = PageLedger::new(page(), digest, kind, &nothing);
        ledger.replay(records.clone(), sealed.len() as u64, doubt_all);
        ledger.counts();
        ledger.is_settled();
    }
});

fn take_all(log: &[u8]) -> Vec<JournalRecord> {
    let mut input = Reader::new(log);
    let mut records = Vec::new();
    while let Ok(record) = JournalRecord::take_from(&mut input) {
        records.push(record);
    }
    records
}

/// Reads (type, length, payload) again and again, and puts a checksum behind each.
fn seal(mut bytes: &[u8]) -> Vec<u8> {
    let mut log = Vec::new();
    while let Some((&[kind, length], rest)) = bytes.split_first_chunk::<2>() {
        let (payload, rest) = rest.split_at(rest.len().min(usize::from(length)));
        bytes = rest;
        // With checksums only a record of another type or shape would end the log here.
        let mut record = vec![1 + kind % 7];
        record.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        record.extend_from_slice(payload);
        let checksum = *page_checksum(&record);
        record.extend_from_slice(&checksum);
        let sound = JournalRecord::take_from(&mut Reader::new(&record)).is_ok();
        if sound {
            log.extend_from_slice(&record);
        }
    }
    log
}

fn page_checksum(record: &[u8]) -> Box<[u8; 4]> {
    let digest = penstock_proto::manifest::page_digest(record);
    Box::new([digest.0[0], digest.0[1], digest.0[2], digest.0[3]])
}

/// Two packs, a link, a directory, and a file of three extents with its finish.
fn page() -> &'static Page {
    static PAGE: OnceLock<Page> = OnceLock::new();
    PAGE.get_or_init(|| {
        let slicing = Slicing { extent_bytes: MIB, pack_files: 2, ..Slicing::default() };
        let mut builder = PageBuilder::new(TransferId([2; 16]), 0, slicing);
        let entries = [
            (&b"d"[..], EntryKind::Directory, 0),
            (b"a", EntryKind::File, 10),
            (b"b", EntryKind::File, 0),
            (b"large", EntryKind::File, 3 * MIB - 5),
            (b"c", EntryKind::File, 1),
            (b"l", EntryKind::Symlink, 0),
        ];
        for (name, kind, size) in entries {
            let link: &[u8] = if kind == EntryKind::Symlink { b"a" } else { b"" };
            let draft = EntryDraft { name, kind, size, link, ..EntryDraft::default() };
            builder.push(b"", &draft);
        }
        builder.seal()
    })
}
