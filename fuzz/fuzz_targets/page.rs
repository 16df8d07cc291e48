//! Pages (docs/protocol.md, 7): a hostile page is refused, or holds what later code relies on:
//! sound names, no name twice, pieces that cover every byte once, a ledger that can be made of it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_engine::page::PageLedger;
use penstock_engine::slice::{Piece, slice};
use penstock_proto::attributes::{XATTRS_BYTES_MAX, class_of};
use penstock_proto::compared::Comparison;
use penstock_proto::digest::DigestKind;
use penstock_proto::manifest::{EntryKind, PAGE_PIECES_MAX, Page, page_digest};
use penstock_proto::name;

fuzz_target!(|bytes: &[u8]| {
    let Ok(page) = Page::decode(bytes) else { return };
    assert_eq!(page.encode(), bytes);
    for entry in page.entries() {
        name::check_relative(&page.path(entry)).unwrap();
        match entry.kind {
            EntryKind::HardLink => name::check_relative(page.link(entry)).unwrap(),
            _ => assert!(!page.link(entry).contains(&0)),
        }
        for (name, value) in page.xattrs(entry) {
            assert!(class_of(name).is_some() && value.len() <= XATTRS_BYTES_MAX);
        }
        assert!(page.user(entry.owner.uid).is_none_or(|name| !name.is_empty()));
    }
    let pieces = slice(&page);
    // A large file has a finish piece beside its extents.
    assert!(pieces.len() as u64 <= PAGE_PIECES_MAX + page.entries().len() as u64);
    let covered = pieces.iter().fold(0u64, |sum, piece| sum.saturating_add(piece.bytes()));
    assert_eq!(covered, page.file_bytes());
    let files: u64 = pieces.iter().map(|piece| u64::from(piece.files())).sum();
    assert_eq!(files, page.file_count());
    for piece in &pieces {
        if let Piece::Extent { entry, offset, length } = *piece {
            let file = page.entry(entry).unwrap();
            assert!(length > 0 && offset + length <= file.size);
            assert_eq!(offset % u64::from(page.slicing.stride_bytes), 0);
        }
    }
    if pieces.len() < 10_000 {
        let digest = page_digest(bytes);
        let nothing = Comparison::default();
        PageLedger::new(&page, digest, DigestKind::Blake3, &nothing);
    }
});
