//! Pages and reports that tests of the transfer machine share.

use penstock_proto::digest::Digest;
use penstock_proto::id::TransferId;
use penstock_proto::journal::{DigestForm, EntryDigest};
use penstock_proto::manifest::{EntryDraft, Page, PageBuilder};
use penstock_proto::slicing::{PieceRef, Slicing};
use penstock_proto::task::Report;
use penstock_proto::units::MIB;

/// Returns a page of files of these sizes, in extents of 1 MiB and packs of one file.
pub(crate) fn page_of(number: u32, sizes: &[u64]) -> Page {
    let slicing = Slicing { extent_bytes: MIB, pack_files: 1, ..Slicing::default() };
    let mut builder = PageBuilder::new(TransferId([1; 16]), number, slicing);
    for (index, size) in sizes.iter().enumerate() {
        let name = format!("p{number}f{index}");
        let draft = EntryDraft { name: name.as_bytes(), size: *size, ..EntryDraft::default() };
        builder.push(b"", &draft);
    }
    builder.seal()
}

/// Returns the report that a piece of one entry is written, in an epoch of its writer.
pub(crate) fn written(piece: PieceRef, generation: u32, epoch: u64) -> Report {
    let (form, digest) = (DigestForm::Standard, Digest([7; 32]));
    let digests = vec![EntryDigest { entry: 0, form, digest, seen: None }];
    let failures = Vec::new();
    Report::Written { piece, generation, epoch, digests, failures, fetched: true }
}
