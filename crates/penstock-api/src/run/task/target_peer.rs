//! A host's target side, as its controller drives it.

use std::borrow::Cow;
use std::sync::Arc;

use penstock_proto::compared::{Comparison, EntrySet};
use penstock_proto::id::Name;
use penstock_proto::manifest::Page;
use penstock_proto::network::DataAddress;

use crate::access::AccountName;
use crate::place::PathText;
use crate::plan::PlanItem;
use crate::problem::Problem;
use crate::proof::{PageProof, ProofProgress, ProofRequest};
use crate::run::delete::{DeleteOrder, SurplusQuery};
use crate::run::request::{AttachedPage, PeerReply, TargetRequest};
use crate::run::scan::listing::RootKind;
use crate::run::task::control::{Task, TaskControl};
use crate::run::task::spec::{Mended, Room, TaskSpec, TaskStart};
use crate::run::task_page::TaskPage;

/// A target side: of this host, of another one, or of whichever peer of a site can answer.
///
/// A peer implements [`TargetPeer::call`], and the work that is no single request: searching,
/// deleting, running a task. The methods with a default body are the typed form of the requests.
pub trait TargetPeer: Send + Sync {
    /// Answers a request with the reply that belongs to it. `progress` counts the bytes that the
    /// request reads, and stops it.
    ///
    /// # Errors
    /// Errors of the method of the request's name.
    fn call(
        &self,
        request: TargetRequest<'_>,
        progress: &ProofProgress,
    ) -> Result<PeerReply, Problem>;

    /// Lists the items at the target below the data set's root that are not in the data set. Leaves
    /// out our own names, the backup directory and what the query does not choose. Returns the
    /// number of items. Blocks for a walk of the target, and writes nothing there.
    ///
    /// # Errors
    /// The target cannot be listed completely, or is another than `spec` says: then nothing may be
    /// deleted.
    fn find_surplus(&self, spec: &TaskSpec, query: SurplusQuery<'_>) -> Result<u64, Problem>;

    /// Deletes the items that were found, or moves them to the backup directory. An item that has
    /// changed since stays, and is reported as failed.
    ///
    /// # Errors
    /// The store is offline, or another than `spec` says; it was stopped.
    fn delete(&self, spec: &TaskSpec, order: DeleteOrder<'_>) -> Result<(), Problem>;

    /// Starts the threads of a task.
    ///
    /// # Errors
    /// Errors of [`TargetPeer::prepare`].
    fn start(
        &self,
        spec: &TaskSpec,
        control: Arc<dyn TaskControl>,
    ) -> Result<Arc<dyn Task>, Problem>;

    /// Announces a task that writes to `store` and fetches from another site, over at most
    /// `lanes_max` lanes (0: as many as are best), so that connections can be made meanwhile.
    /// `peers` are the known addresses of lanes if that site is far. Returns at once; the task need
    /// not follow.
    fn expect_source(&self, store: &Name, site: &Name, peers: &[DataAddress], lanes_max: u32) {
        let _ = (store, site, peers, lanes_max);
    }

    /// Returns whether a path within a store is a directory, something else, or not there.
    /// `account` is the one as which a mapped store is used.
    ///
    /// # Errors
    /// The store is unknown or not there, or may not be used as the account.
    fn root_kind(
        &self,
        store: &Name,
        path: &PathText,
        account: Option<&AccountName>,
    ) -> Result<Option<RootKind>, Problem> {
        let (store, path) = (Cow::Borrowed(store), Cow::Borrowed(path));
        let account = account.map(Cow::Borrowed);
        let request = TargetRequest::RootKind { store, path, account };
        match self.call(request, &ProofProgress::default())? {
            PeerReply::RootKind(kind) => Ok(kind),
            other => Err(other.misplaced()),
        }
    }

    /// Checks the store (A5) and describes it.
    ///
    /// # Errors
    /// The store is unknown, offline, another one than before, or read-only.
    fn prepare(&self, spec: &TaskSpec) -> Result<TaskStart, Problem> {
        let spec = Cow::Borrowed(spec);
        match self.call(TargetRequest::Prepare { spec }, &ProofProgress::default())? {
            PeerReply::Prepared(start) => Ok(start),
            other => Err(other.misplaced()),
        }
    }

    /// Examines the target under the names of a page's entries, and decides by `spec.update` which
    /// entries stay as they are. The entries `left` stay unconditionally, and are not examined.
    /// Updates the attributes of entries that stay. Called from several threads, before the page is
    /// opened in the ledger; blocks for about a stat of each entry.
    ///
    /// # Errors
    /// The store is offline, or another than `spec` says.
    fn compare(
        &self,
        spec: &TaskSpec,
        page: &Page,
        left: &EntrySet,
    ) -> Result<Comparison, Problem> {
        let (spec, left) = (Cow::Borrowed(spec), Cow::Borrowed(left));
        let request = TargetRequest::Compare { spec, page: AttachedPage::Borrowed(page), left };
        match self.call(request, &ProofProgress::default())? {
            PeerReply::Compared(comparison) => Ok(comparison),
            other => Err(other.misplaced()),
        }
    }

    /// Returns the id of a store, as [`TaskSpec::store_id`]; `None` if it has none yet. Writes
    /// nothing.
    ///
    /// # Errors
    /// The store is unknown, or offline.
    fn store_id(&self, store: &Name) -> Result<Option<u64>, Problem> {
        let store = Cow::Borrowed(store);
        match self.call(TargetRequest::StoreId { store }, &ProofProgress::default())? {
            PeerReply::StoreId(id) => Ok(id),
            other => Err(other.misplaced()),
        }
    }

    /// Returns the free space of a store, as its file system reports it; quotas are mostly unknown.
    ///
    /// # Errors
    /// The store is unknown, or offline; the free space is unknown.
    fn room(&self, store: &Name) -> Result<Room, Problem> {
        let store = Cow::Borrowed(store);
        match self.call(TargetRequest::Room { store }, &ProofProgress::default())? {
            PeerReply::Room(room) => Ok(room),
            other => Err(other.misplaced()),
        }
    }

    /// Returns for each entry of a page, in order, what a transfer would do with it now: the
    /// decision of [`TargetPeer::compare`], and its consequences. Writes nothing. A `spec` without
    /// the id of a store is for a store that has none yet.
    ///
    /// # Errors
    /// The store is offline, or another than `spec` says.
    fn look(&self, spec: &TaskSpec, page: &Page) -> Result<Vec<PlanItem>, Problem> {
        let (spec, page) = (Cow::Borrowed(spec), AttachedPage::Borrowed(page));
        match self.call(TargetRequest::Look { spec, page }, &ProofProgress::default())? {
            PeerReply::Planned(items) => Ok(items),
            other => Err(other.misplaced()),
        }
    }

    /// Returns the files of a page that have the size of their entries at the target, whatever
    /// their content: ascending.
    ///
    /// # Errors
    /// Errors of [`TargetPeer::compare`].
    fn same_size(&self, spec: &TaskSpec, page: &Page) -> Result<Vec<u32>, Problem> {
        let (spec, page) = (Cow::Borrowed(spec), AttachedPage::Borrowed(page));
        match self.call(TargetRequest::SameSize { spec, page }, &ProofProgress::default())? {
            PeerReply::SameSize(entries) => Ok(entries),
            other => Err(other.misplaced()),
        }
    }

    /// Compares as [`TargetPeer::compare`], but files of one size are the same if their BLAKE3 is
    /// that of `digests`. Reads these files; `progress` stops it.
    ///
    /// # Errors
    /// Errors of [`TargetPeer::compare`]; it was stopped.
    fn compare_contents(
        &self,
        spec: &TaskSpec,
        page: &Page,
        digests: &[(u32, String)],
        progress: &ProofProgress,
    ) -> Result<Comparison, Problem> {
        let (spec, page) = (Cow::Borrowed(spec), AttachedPage::Borrowed(page));
        let digests = Cow::Borrowed(digests);
        match self.call(TargetRequest::CompareContents { spec, page, digests }, progress)? {
            PeerReply::Compared(comparison) => Ok(comparison),
            other => Err(other.misplaced()),
        }
    }

    /// Reads files of a page again, all of them durable. Blocks for as long as that takes; the
    /// request's progress shows how far it is, and stops it.
    ///
    /// # Errors
    /// The store is not there, or this target cannot be read.
    fn prove(&self, spec: &TaskSpec, request: &ProofRequest<'_>) -> Result<PageProof, Problem> {
        let ProofRequest { page, digests, readback, also, progress } = *request;
        let request = TargetRequest::Prove {
            spec: Cow::Borrowed(spec),
            page: AttachedPage::Shared(Arc::clone(&page.page), page.digest),
            digests: Cow::Borrowed(digests),
            readback,
            also: Cow::Borrowed(also),
        };
        match self.call(request, progress)? {
            PeerReply::Proved { proof, damaged, failures, stopped } => {
                Ok(PageProof { damaged, failures, stopped, ..proof })
            }
            other => Err(other.misplaced()),
        }
    }

    /// Returns which of these durable entries of a page exist at the target as they were made
    /// there: no others are removed at the source. Costs one look at each.
    ///
    /// # Errors
    /// The store is offline, another than `spec` says, or one that stores nothing.
    fn confirm(
        &self,
        spec: &TaskSpec,
        page: &Page,
        wanted: &EntrySet,
    ) -> Result<EntrySet, Problem> {
        let (spec, wanted) = (Cow::Borrowed(spec), Cow::Borrowed(wanted));
        let request = TargetRequest::Confirm { spec, page: AttachedPage::Borrowed(page), wanted };
        match self.call(request, &ProofProgress::default())? {
            PeerReply::Confirmed(entries) => Ok(entries),
            other => Err(other.misplaced()),
        }
    }

    /// Checks files of a page that have their names, and to which an abandoned peer may have
    /// written since. Restores attributes that a late write has changed, and makes that durable
    /// (B1). `files` are those of more than one piece, by entry, with their standard digest in
    /// hexadecimal. Files that another program has changed stay as they are. Reads the files whose
    /// attributes have changed.
    ///
    /// # Errors
    /// The store is offline, or another than `spec` says.
    fn mend(
        &self,
        spec: &TaskSpec,
        page: &Page,
        files: &[(u32, String)],
    ) -> Result<Mended, Problem> {
        let (spec, files) = (Cow::Borrowed(spec), Cow::Borrowed(files));
        let request = TargetRequest::Mend { spec, page: AttachedPage::Borrowed(page), files };
        match self.call(request, &ProofProgress::default())? {
            PeerReply::Mended(mended) => Ok(mended),
            other => Err(other.misplaced()),
        }
    }

    /// Removes the sync marker of the writer of `spec` for a transfer that has ended, and the
    /// temporary files that it may have left. These are files of the entries of `pages` in
    /// generations up to `generation_max`, including shared ones. A file that is not at the target
    /// is no error, nor is one file that cannot be removed; both are logged. May be repeated.
    ///
    /// # Errors
    /// The store is offline, or another than `spec` says, now or during the removal: more may be
    /// left to remove when it is back.
    fn clean(
        &self,
        spec: &TaskSpec,
        pages: &mut dyn Iterator<Item = TaskPage>,
        generation_max: u32,
    ) -> Result<(), Problem> {
        let (spec, progress) = (Cow::Borrowed(spec), ProofProgress::default());
        let mut sync = false;
        for TaskPage { page, digest, left } in pages {
            let request = TargetRequest::CleanPage {
                spec: spec.clone(),
                page: AttachedPage::Shared(page, digest),
                left: Cow::Borrowed(&left),
                generation_max,
            };
            match self.call(request, &progress)? {
                // A request that was sent again finds nothing, and was answered all the same.
                PeerReply::Done => sync = true,
                other => return Err(other.misplaced()),
            }
        }
        match self.call(TargetRequest::CleanMarker { spec, sync }, &progress)? {
            PeerReply::Done => Ok(()),
            other => Err(other.misplaced()),
        }
    }
}
