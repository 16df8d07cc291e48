//! Deletion, by a peer on another host, of items that the source does not have.
//!
//! This host finds the surplus, as it has the pages. The peer lists directories, some at a time,
//! and receives the items to delete, some at a time. A request that breaks off is repeated for a
//! limited time; items that are deleted by then are not found a second time.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Seek as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use penstock_api::delete::{DeleteOrder, Deleted, Surplus, SurplusQuery};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::request::{DELETE_ITEMS_MAX, PATH_BYTES_FULL, PeerReply, PeerRequest};
use penstock_api::rpc::lease::LeaseKind;
use penstock_api::task::TaskSpec;
use penstock_api::transfer::{FailedItem, PathText};
use penstock_peer::{TakeSurplus, TargetLister, each_listed, find_surplus_with};

use super::call::Waiting;
use super::peer::RemotePeer;
use crate::http;

/// Time for which an interrupted request is repeated.
const AGAIN_FOR: Duration = Duration::from_secs(10);
/// Wait before it is.
const AGAIN: Duration = Duration::from_millis(500);
/// Things in one answer to a listing that are kept in memory; more wait in a file.
const HELD_MAX: usize = 8192;

/// Finds the surplus at a peer, as [`penstock_api::task::TargetPeer::find_surplus`].
///
/// # Errors
/// As that method.
pub(super) fn find_surplus(
    peer: &RemotePeer,
    spec: &TaskSpec,
    query: SurplusQuery<'_>,
) -> Result<u64, Problem> {
    let path = query.scratch.join("listed");
    let mut lister = Lister { peer, spec, path, stop: query.stop };
    find_surplus_with(&mut lister, spec, query)
}

/// Deletes the surplus at a peer, as [`penstock_api::task::TargetPeer::delete`].
///
/// # Errors
/// As that method.
pub(super) fn delete(
    peer: &RemotePeer,
    spec: &TaskSpec,
    order: DeleteOrder<'_>,
) -> Result<(), Problem> {
    let DeleteOrder { list, only_in_the_way, deleted, stop, failed } = order;
    let mut sending = Sending { peer, spec, deleted, stop, failed };
    let (mut items, mut bytes) = (Vec::new(), 0);
    each_listed(list, only_in_the_way, &mut |surplus| {
        bytes += surplus.path.0.len();
        items.push(surplus);
        if items.len() < DELETE_ITEMS_MAX && bytes < PATH_BYTES_FULL {
            return Ok(());
        }
        bytes = 0;
        sending.delete(std::mem::take(&mut items))
    })?;
    sending.delete(items)
}

/// Returns whether a request that broke off is to be repeated.
fn is_worth_again(problem: &Problem, since: Instant, stop: &AtomicBool) -> bool {
    let broke = matches!(
        problem.code,
        ProblemCode::PeerUnreachable | ProblemCode::Busy | ProblemCode::LeaseOver
    );
    broke && since.elapsed() < AGAIN_FOR && !stop.load(Ordering::Acquire)
}

/// Lists directories at a peer.
struct Lister<'a> {
    peer: &'a RemotePeer,
    spec: &'a TaskSpec,
    /// File for entries that do not fit into memory.
    path: PathBuf,
    stop: &'a AtomicBool,
}

/// Entries of an answer that has not ended. None of them counts before the end, as a directory
/// whose answer breaks off is listed again from its beginning.
#[derive(Default)]
struct Told {
    held: Vec<Surplus>,
    file: Option<BufWriter<File>>,
}

impl TargetLister for Lister<'_> {
    fn list(&mut self, directories: Vec<PathText>, take: TakeSurplus<'_>) -> Result<(), Problem> {
        let since = Instant::now();
        let told = loop {
            match self.ask(&directories) {
                Ok(told) => break told,
                Err(problem) if is_worth_again(&problem, since, self.stop) => {
                    tracing::info!(%problem, "directories of the target are listed again");
                    std::thread::sleep(AGAIN);
                }
                Err(problem) => return Err(problem),
            }
        };
        if let Some(file) = told.file {
            self.replay(file, take)?;
        }
        told.held.into_iter().try_for_each(take)
    }
}

impl Lister<'_> {
    fn lost(&self, cause: impl std::fmt::Display) -> Problem {
        let title = format!("cannot keep `{}`", self.path.display());
        Problem::new(ProblemCode::Journal, title).because(cause)
    }

    fn ask(&self, directories: &[PathText]) -> Result<Told, Problem> {
        let (spec, directories) = (Cow::Borrowed(self.spec), directories.to_vec());
        let mut told = Told::default();
        let found = &mut |found| self.keep(&mut told, found);
        let waiting = Waiting { stop: self.stop, alive: &mut |_| {}, found };
        self.peer.send(PeerRequest::List { spec, directories }, None, waiting)?;
        Ok(told)
    }

    fn keep(&self, told: &mut Told, found: Vec<Surplus>) -> Result<(), Problem> {
        told.held.extend(found);
        if told.held.len() < HELD_MAX {
            return Ok(());
        }
        if told.file.is_none() {
            let mut options = File::options();
            let options = options.read(true).write(true).create(true).truncate(true);
            let file = options.open(&self.path).map_err(|cause| self.lost(cause))?;
            told.file = Some(BufWriter::new(file));
        }
        let Some(file) = &mut told.file else { return Ok(()) };
        for surplus in told.held.drain(..) {
            let line = http::encode(&surplus)?;
            file.write_all(&line)
                .and_then(|()| file.write_all(b"\n"))
                .map_err(|cause| self.lost(cause))?;
        }
        Ok(())
    }

    fn replay(&self, file: BufWriter<File>, take: TakeSurplus<'_>) -> Result<(), Problem> {
        let mut file = file.into_inner().map_err(|cause| self.lost(cause))?;
        file.rewind().map_err(|cause| self.lost(cause))?;
        for line in BufReader::new(file).lines() {
            let line = line.map_err(|cause| self.lost(cause))?;
            take(http::decode(line.as_bytes())?)?;
        }
        Ok(())
    }
}

/// Sends a peer the items that it is to delete.
struct Sending<'a, 'b> {
    peer: &'a RemotePeer,
    spec: &'a TaskSpec,
    deleted: &'a AtomicU64,
    stop: &'a AtomicBool,
    failed: &'b mut dyn FnMut(FailedItem) -> Result<(), Problem>,
}

impl Sending<'_, '_> {
    /// Has all of these dealt with.
    fn delete(&mut self, mut items: Vec<Surplus>) -> Result<(), Problem> {
        let mut since = Instant::now();
        while !items.is_empty() {
            if self.stop.load(Ordering::Acquire) {
                let title = "stopped while deleting at the target";
                return Err(Problem::new(ProblemCode::Stopped, title));
            }
            match self.ask(&items) {
                Ok(told) => {
                    let dealt = items.len().min(told.dealt as usize);
                    items.drain(..dealt);
                    told.failed.into_iter().try_for_each(&mut *self.failed)?;
                    if dealt > 0 {
                        since = Instant::now();
                    } else if since.elapsed() >= AGAIN_FOR {
                        let title = "the peer makes no progress with its deletions";
                        let problem = Problem::new(ProblemCode::DeleteSlow, title);
                        return Err(self.peer.named(problem));
                    }
                }
                Err(problem) if is_worth_again(&problem, since, self.stop) => {
                    tracing::info!(%problem, "items are asked to be deleted again");
                    std::thread::sleep(AGAIN);
                }
                Err(problem) => return Err(problem),
            }
        }
        Ok(())
    }

    /// Sends one request, which takes a peer two seconds at most, and waits for the reply, even
    /// after an order to stop. After the return no deletion runs by its lease.
    fn ask(&self, items: &[Surplus]) -> Result<Deleted, Problem> {
        let lease = self.peer.give_lease(LeaseKind::Deletion);
        let (spec, items) = (Cow::Borrowed(self.spec), Cow::Borrowed(items));
        let mut gone = 0;
        let (stop, found) = (&AtomicBool::new(false), &mut |_| Ok(()));
        let waiting = Waiting { stop, alive: &mut |now| gone = now, found };
        match self.peer.send(PeerRequest::Delete { spec, items }, Some(lease), waiting) {
            Ok(reply) => {
                self.peer.leases.end(lease);
                let PeerReply::Deleted(told) = reply else { return Err(reply.misplaced()) };
                self.deleted.fetch_add(told.deleted, Ordering::Relaxed);
                Ok(told)
            }
            Err(problem) => {
                self.peer.leases.revoke(lease);
                self.deleted.fetch_add(gone, Ordering::Relaxed);
                Err(problem)
            }
        }
    }
}
