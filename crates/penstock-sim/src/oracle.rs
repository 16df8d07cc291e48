//! The truth about a world, and the checks of the promises of `ARCHITECTURE.md`, *What always
//! holds*, against it.

use std::collections::{BTreeMap, BTreeSet};

use penstock_engine::slice::Piece;
use penstock_engine::transfer::Totals;
use penstock_proto::id::WriterId;
use penstock_proto::journal::JournalRecord;
use penstock_proto::manifest::EntryKind;
use penstock_proto::slicing::PieceRef;

use crate::disk::{Name, Node};
use crate::journal::Journal;
use crate::outside::Outside;
use crate::source::{SCANNED, cells_of};

/// Content of a page's log, read without the machine that wrote it.
#[derive(Debug, Default)]
struct Told {
    /// Written pieces with the attempt, whether they are durable, and the entries that failed.
    pieces: BTreeMap<u32, (u32, bool, Vec<u32>)>,
    failed: BTreeSet<u32>,
}

fn told(journal: &Journal, out: &Outside, page: u32) -> Told {
    let mut told = Told::default();
    let pieces = &out.pieces[page as usize];
    let of_file = |piece: u32, file: u32| {
        matches!(pieces[piece as usize],
            Piece::Extent { entry, .. } | Piece::Finish { entry } if entry == file)
    };
    let of_pack = |piece: u32, file: u32| {
        matches!(pieces[piece as usize],
            Piece::Pack { first, end, .. } if (first..end).contains(&file))
            && out.is_packed(page, file)
    };
    for record in journal.read(page).0 {
        match record {
            JournalRecord::Incarnation(_) => {}
            JournalRecord::Written { piece, generation, failures, .. } => {
                let failed = failures.iter().map(|failure| failure.entry).collect();
                told.failed.retain(|entry| !of_pack(piece, *entry));
                told.pieces.insert(piece, (generation, false, failed));
            }
            JournalRecord::Durable { pieces } => {
                for piece in pieces {
                    told.pieces.entry(piece).or_default().1 = true;
                }
            }
            JournalRecord::Missing { pieces } => {
                told.pieces.retain(|piece, _| !pieces.contains(piece));
                told.failed.retain(|entry| !pieces.iter().any(|piece| of_pack(*piece, *entry)));
            }
            JournalRecord::Failed(failure) => {
                told.failed.insert(failure.entry);
                told.pieces.retain(|piece, _| !of_file(*piece, failure.entry));
            }
            JournalRecord::Generation { entry, .. } => {
                told.pieces.retain(|piece, _| !of_file(*piece, entry));
            }
            // The worlds of the simulator begin with empty targets.
            JournalRecord::Compared(_) => {}
            // Its sources are not asked about newer versions.
            JournalRecord::Asked | JournalRecord::Amended(_) => {}
        }
    }
    told
}

/// Returns the links and directories of a page whose failure is committed.
pub(crate) fn tail_failures(journal: &Journal, out: &Outside, page: u32) -> Vec<u32> {
    let is_tail = |entry: &u32| out.data.entry_of(page, *entry).kind != EntryKind::File;
    told(journal, out, page).failed.into_iter().filter(is_tail).collect()
}

/// Returns whether a piece is durable in the committed ledger.
pub(crate) fn is_durable(journal: &Journal, out: &Outside, piece: PieceRef) -> bool {
    let told = told(journal, out, piece.page);
    told.pieces.get(&piece.piece).is_some_and(|(_, durable, _)| *durable)
}

/// Returns whether the file has its name, its bytes and its attributes, even if the host loses
/// power now.
fn is_final(out: &Outside, page: u32, entry: u32) -> bool {
    let Some(Node::File(inode)) = out.disk.stable.names.get(&Name::Final(page, entry)) else {
        return false;
    };
    out.disk.stable.attributed.contains(inode)
        && out.disk.stable_cells(*inode) == out.data.entry_of(page, entry).cells(SCANNED)
}

/// Promise (a): pieces that the committed ledger calls durable would survive a power cut now.
pub(crate) fn check_durable(journal: &Journal, out: &mut Outside) {
    let mut lost = Vec::new();
    for page in journal.heads().pages.into_keys() {
        let told = told(journal, out, page);
        for (index, (generation, durable, failed)) in &told.pieces {
            if !durable {
                continue;
            }
            let sound = match out.pieces[page as usize][*index as usize] {
                Piece::Pack { first, end, .. } => (first..end).all(|entry| {
                    let none = failed.contains(&entry) || told.failed.contains(&entry);
                    none || !out.is_packed(page, entry) || is_final(out, page, entry)
                }),
                Piece::Finish { entry } => is_final(out, page, entry),
                Piece::Extent { entry, offset, length } => {
                    let range = cells_of(offset, length);
                    let wanted = &out.data.entry_of(page, entry).cells(SCANNED)[range.clone()];
                    let temporary = Name::Temporary(page, entry, *generation, WriterId::SOLE);
                    let kept = [temporary, Name::Final(page, entry)].iter().any(|name| {
                        matches!(out.disk.stable.names.get(name), Some(Node::File(inode))
                            if &out.disk.stable_cells(*inode)[range.clone()] == wanted)
                    });
                    let gone = [&out.sabotaged, &out.discarded];
                    kept || gone.iter().any(|files| files.contains(&(page, entry)))
                }
            };
            if !sound {
                lost.push((page, *index, *generation));
            }
        }
    }
    if !lost.is_empty() {
        out.fail(format!("(a): a power cut would lose durable (page, piece, attempt) {lost:?}"));
    }
}

/// Promise (b): every final name after a power cut is of a whole file.
pub(crate) fn check_names(out: &mut Outside) {
    let mut broken = Vec::new();
    for (name, node) in &out.disk.stable.names {
        if let (Name::Final(page, entry), Node::File(inode)) = (name, node) {
            let wanted = out.data.entry_of(*page, *entry).cells(SCANNED);
            let attributed = out.disk.stable.attributed.contains(inode);
            if out.disk.stable_cells(*inode) != wanted || !attributed {
                broken.push((*page, *entry));
            }
        }
    }
    if !broken.is_empty() {
        out.fail(format!("(b): final names of broken files after a power cut: {broken:?}"));
    }
}

/// Promise (c): when the transfer is done, every entry is there, or is in the list of failures; and
/// the list holds nothing else, nothing twice.
pub(crate) fn check_done(journal: &Journal, out: &mut Outside, totals: &Totals) {
    let (mut wrong, mut listed, mut files) = (Vec::new(), 0, 0);
    for page in 0..out.data.pages.len() as u32 {
        let told = told(journal, out, page);
        let mut failed = told.failed;
        failed.extend(told.pieces.into_values().flat_map(|(_, _, failed)| failed));
        listed += failed.len() as u64;
        for (entry, of) in out.data.entries[page as usize].iter().enumerate() {
            let entry = entry as u32;
            let name = Name::Final(page, entry);
            let node = out.disk.stable.names.get(&name);
            let (good, absent) = match of.kind {
                EntryKind::File => (is_final(out, page, entry), node.is_none()),
                EntryKind::Directory => {
                    let done = out.disk.stable.directories_done.contains(&name);
                    (node == Some(&Node::Directory) && done, false)
                }
                // Links of all sorts, pipes and devices are made last, and have no content.
                _ => (node == Some(&Node::Link), node.is_none()),
            };
            let says_failed = failed.contains(&entry);
            let excused = out.excused.contains(&(page, entry));
            // A file that was named already, and failed when it was fetched again, is whole
            // nevertheless.
            if says_failed && !(excused && (absent || good)) {
                wrong.push(format!("{page}/{entry} failed: excused {excused}, absent {absent}"));
            }
            if !says_failed && !good {
                let log = journal.read(page).0;
                wrong.push(format!("{page}/{entry} is not there, nor failed: {node:?} {log:?}"));
            }
            files += u64::from(of.kind == EntryKind::File && !says_failed);
        }
    }
    if totals.failures != listed {
        wrong.push(format!("{} failures are counted, {listed} are listed", totals.failures));
    }
    if totals.files != files {
        wrong.push(format!("{} files are counted, {files} are there", totals.files));
    }
    if !wrong.is_empty() {
        out.fail(format!("(c): done, but {wrong:#?}"));
    }
}
