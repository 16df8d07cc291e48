//! Batches of pieces whose files several threads rename.
//!
//! The kernel lets one thread at a time change the names of a directory
//! (Documentation/filesystems/directory-locking.rst). One thread therefore takes all pieces that
//! begin in a directory, while others rename files elsewhere. Two threads meet only where a pack
//! ends in a further directory. A transfer of small files onto ext4 takes 0.94 of the time
//! ([measured](../../../../bench/runs/2026-11-28-renamers/README.md)).

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use penstock_api::task::Report;
use penstock_engine::epoch::Publication;
use penstock_engine::slice::Piece;
use penstock_net::LaneWork;
use penstock_proto::time_use::{Activity, TimeUse};
use penstock_store::Dir;

use super::publisher::Publisher;
use super::renamer::{RenamedPiece, Renamer};
use crate::lane::thread_time::{ThreadTime, TimeKeeper};
use crate::task::context::{Pieces, TaskContext};
use crate::task::hang_detector::OBSERVED_MAX;

/// Most threads that rename the files of a batch, the publisher included. On two processors four
/// are as fast as two. A store on a network waits for its server, not for a processor.
const RENAMERS_MAX: usize = OBSERVED_MAX;

/// A piece whose files wait for their names, with its page. The pages of a batch are fetched before
/// its first rename, since a renamer that waits for the controller would hold up the others.
struct UnnamedPiece {
    publication: Publication,
    /// `None` if the task ends instead.
    pieces: Option<Arc<Pieces>>,
}

/// The outcome of the pieces that one thread, or all threads, took from a batch.
#[derive(Default)]
struct BatchOutcome {
    /// `None` for a piece of which a file is gone.
    outcomes: Vec<(Publication, Option<RenamedPiece>)>,
    /// Directories that must be synced by themselves.
    touched: BTreeMap<Vec<u8>, Dir>,
    /// A renamer ended early, because no name may be given.
    is_barred: bool,
}

impl BatchOutcome {
    fn add(&mut self, more: Self) {
        self.outcomes.extend(more.outcomes);
        self.touched.extend(more.touched);
        self.is_barred |= more.is_barred;
    }
}

/// Pieces of a batch that no thread has taken, by directory.
struct DirectoryQueue<'b>(Mutex<Vec<Vec<&'b UnnamedPiece>>>);

impl UnnamedPiece {
    /// Returns the directory of its first file; empty if there is none.
    fn directory(&self) -> &[u8] {
        let piece = self.publication.piece.piece as usize;
        let first = |pieces: &Pieces| match *pieces.pieces.get(piece)? {
            Piece::Pack { first, .. } => Some(first),
            Piece::Finish { entry } | Piece::Extent { entry, .. } => Some(entry),
        };
        let of = |pieces| Some((pieces, first(pieces)?));
        self.pieces.as_deref().and_then(of).map_or(&[], |(pieces, first)| {
            let page = &pieces.page.page;
            page.directory(&page.entries()[first as usize])
        })
    }
}

impl<'b> DirectoryQueue<'b> {
    fn new(batch: &'b [UnnamedPiece]) -> Self {
        let mut directories = BTreeMap::<&[u8], Vec<&UnnamedPiece>>::new();
        for unnamed in batch {
            directories.entry(unnamed.directory()).or_default().push(unnamed);
        }
        let mut directories: Vec<_> = directories.into_values().collect();
        // The largest comes first, from the end.
        directories.sort_by_key(Vec::len);
        Self(Mutex::new(directories))
    }

    /// Takes all pieces that begin in a directory.
    fn take(&self) -> Option<Vec<&'b UnnamedPiece>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn directories(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Renames the files of pieces until no piece is left, or until no name may be given.
    fn drain(&self, renamer: &mut Renamer<'_>) -> BatchOutcome {
        let mut done = BatchOutcome::default();
        while let Some(directory) = self.take() {
            for unnamed in directory {
                renamer.shared.hang.step();
                let publication = unnamed.publication;
                let outcome = unnamed.pieces.as_ref().and_then(|pieces| {
                    renamer.rename_piece(publication, pieces, &mut done.touched)
                });
                if !renamer.shared.may_name() {
                    done.is_barred = true;
                    return done;
                }
                done.outcomes.push((publication, outcome));
            }
        }
        done
    }

    /// Drains the queue by a thread of its own, beside the publisher. Only its processor time is
    /// counted: the publisher counts the time of the batch.
    fn drain_as_helper(&self, shared: &TaskContext, number: usize) -> BatchOutcome {
        let _observed = shared.hang.observe(number);
        let time = ThreadTime::default();
        let mut keeper = TimeKeeper::new(&time);
        let done = self.drain(&mut Renamer::new(shared, time));
        let spent = keeper.settle(LaneWork::default(), &TimeUse::default());
        let mut processor = TimeUse::default();
        for activity in [Activity::Cpu, Activity::CpuWait] {
            processor.add(activity, spent[activity]);
        }
        shared.add_publisher_time(&processor);
        done
    }
}

impl Publisher<'_> {
    /// Renames the files of pieces whose data is durable.
    pub(super) fn publish(&mut self, pieces: &[Publication]) {
        let with_page = |&publication: &Publication| UnnamedPiece {
            publication,
            pieces: self.page(publication.piece),
        };
        let batch: Vec<_> = pieces.iter().map(with_page).collect();
        let BatchOutcome { outcomes, touched, is_barred } = self.rename_batch(&batch);
        if is_barred {
            // The next controller finds the named entries by this.
            return;
        }
        let target = &self.shared.tree.target;
        let synced = touched.into_values().try_for_each(|dir| {
            self.shared.hang.step();
            self.renamer.time.measure(Activity::Sync, || target.sync_dir(&dir))
        });
        if let Err(error) = synced {
            self.names_not_durable(pieces, &error);
            return;
        }
        let files = outcomes.iter().filter_map(|(_, outcome)| Some(outcome.as_ref()?.files)).sum();
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        let epoch = state.epochs.handle_renamed(penstock_sys::boottime_now(), pieces.len(), files);
        for (Publication { piece, generation }, outcome) in outcomes {
            state.excepted.remove(&piece);
            let report = match outcome {
                Some(RenamedPiece { failures, .. }) => {
                    Report::Published { piece, generation, epoch, failures }
                }
                // The task ends, and written bytes stay: the next run checks them again.
                None if self.shared.is_stopping() => continue,
                None => Report::Returned { piece, generation },
            };
            self.shared.report(state, report);
        }
    }

    /// Renames the files of a batch, by this thread and others.
    fn rename_batch(&mut self, batch: &[UnnamedPiece]) -> BatchOutcome {
        let queue = &DirectoryQueue::new(batch);
        let tree = &self.shared.tree;
        // A limit on names leaves nothing for more threads to gain. Backups of several directories
        // may go into one directory.
        let is_plain = !tree.names.has_rate() && tree.backup_dir.is_none();
        let threads = if is_plain { queue.directories().min(RENAMERS_MAX) } else { 1 };
        let shared = self.shared;
        thread::scope(|scope| {
            let helpers: Vec<_> = (1..threads)
                .map_while(|number| {
                    let builder = thread::Builder::new().name("renamer".to_owned());
                    builder.spawn_scoped(scope, move || queue.drain_as_helper(shared, number)).ok()
                })
                .collect();
            let mut done = queue.drain(&mut self.renamer);
            // Each helper is observed by itself.
            shared.hang.rest();
            for helper in helpers {
                done.add(helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            done
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_api::task::TaskPage;
    use penstock_proto::digest::Digest;
    use penstock_proto::id::TransferId;
    use penstock_proto::manifest::{EntryDraft, PageBuilder};
    use penstock_proto::slicing::{PieceRef, Slicing};

    /// Returns packs of one file each, in these directories.
    fn packs(directories: &[&str]) -> Vec<UnnamedPiece> {
        let mut builder = PageBuilder::new(TransferId([1; 16]), 0, Slicing::default());
        for directory in directories {
            let draft = EntryDraft { name: b"f", size: 1, ..EntryDraft::default() };
            builder.push(directory.as_bytes(), &draft);
        }
        let page = Arc::new(builder.seal());
        let page = TaskPage { page, digest: Digest([7; 32]), left: Arc::default() };
        let numbers = 0..u32::try_from(directories.len()).unwrap();
        let pack = |first| Piece::Pack { first, end: first + 1, files: 1, bytes: 1 };
        let pieces = numbers.clone().map(pack).collect();
        let pieces = Some(Arc::new(Pieces { page, pieces }));
        let unnamed = |piece| UnnamedPiece {
            publication: Publication { piece: PieceRef { page: 0, piece }, generation: 0 },
            pieces: pieces.clone(),
        };
        numbers.map(unnamed).collect()
    }

    /// Promise: each piece of a batch is taken once, and one thread takes all pieces that begin in
    /// a directory. The directory with most pieces comes first, so that the threads end together.
    #[test]
    fn pieces_of_a_directory_are_taken_together() {
        let mut batch = packs(&["a", "b", "a", "c", "b", "b"]);
        // The page of this piece is unknown: the renamer reports it.
        batch[3].pieces = None;
        let queue = DirectoryQueue::new(&batch);
        assert_eq!(queue.directories(), 3);
        let mut taken = Vec::new();
        while let Some(directory) = queue.take() {
            let piece = |unnamed: &&UnnamedPiece| unnamed.publication.piece.piece;
            taken.push(directory.iter().map(piece).collect::<Vec<_>>());
        }
        assert_eq!(taken, [vec![1, 4, 5], vec![0, 2], vec![3]]);
    }
}
