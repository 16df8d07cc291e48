//! Requests of a controller to a peer of its site, and their replies.
//!
//! A request is a value. A peer in the same process takes it by reference, and the network carries
//! the same value ([`crate::rpc::call`]). In both forms a request is one JSON document, and a page
//! that belongs to it follows as its bytes. The network form is JSON because the documents hold the
//! types of the public API, whose attributes leave fields out or rename them; a format without
//! field names cannot carry these. A page has a byte form of its own, and it is nearly all that
//! such a request weighs.

use std::borrow::Cow;
use std::sync::Arc;

use penstock_proto::checksum::ChecksumKind;
use penstock_proto::compared::{Comparison, EntrySet};
use penstock_proto::digest::Digest;
use penstock_proto::id::{Name, TransferId};
use penstock_proto::journal::{EntryDigest, EntryFailure};
use penstock_proto::manifest::{Page, page_digest};
use penstock_proto::wire::DecodeError;
use serde::{Deserialize, Serialize};

use crate::access::AccountName;
use crate::place::PathText;
use crate::plan::PlanItem;
use crate::problem::{Problem, ProblemCode};
use crate::proof::PageProof;
use crate::run::delete::{Deleted, Surplus};
use crate::run::fence::Fence;
use crate::run::removal::{RemoveOrder, RemoveReply};
use crate::run::scan::listing::{
    DigestWish, PageReply, RecheckRequest, RootKind, ScanRequest, WishedDigests,
};
use crate::run::task::spec::{Mended, Room, TaskSpec, TaskStart};

/// Requests that a peer on another host answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeerRequest<'a> {
    /// A request to its target side.
    Target(TargetRequest<'a>),
    /// A request to its source side, under a lease on the transfer's data set.
    Source(SourceRequest<'a>),
    /// Lists directories of the target, except what is protected there. The items arrive in parts
    /// before the reply, which is [`PeerReply::Done`].
    List {
        /// The task.
        spec: Cow<'a, TaskSpec>,
        /// The directories, relative to the data set's root.
        directories: Vec<PathText>,
    },
    /// Deletes items that the same peer has found, under a lease for this one request. Reply:
    /// [`PeerReply::Deleted`].
    Delete {
        /// The task.
        spec: Cow<'a, TaskSpec>,
        /// The items, [`DELETE_ITEMS_MAX`] of them at most.
        items: Cow<'a, [Surplus]>,
    },
}

/// Most items that one request deletes.
pub const DELETE_ITEMS_MAX: usize = 512;
/// Bytes of paths at which a request to delete, or a part of a listing, is full.
pub const PATH_BYTES_FULL: usize = 1 << 20;

/// Requests to a target peer; each is the method of [`crate::task::TargetPeer`] of its name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetRequest<'a> {
    /// Reply: [`PeerReply::RootKind`].
    RootKind {
        /// The store.
        store: Cow<'a, Name>,
        /// The path in it.
        path: Cow<'a, PathText>,
        /// Account as which a mapped store is used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        account: Option<Cow<'a, AccountName>>,
    },
    /// Reply: [`PeerReply::StoreId`].
    StoreId {
        /// The store.
        store: Cow<'a, Name>,
    },
    /// Reply: [`PeerReply::Room`].
    Room {
        /// The store.
        store: Cow<'a, Name>,
    },
    /// Reply: [`PeerReply::Prepared`].
    Prepare {
        /// The task.
        spec: Cow<'a, TaskSpec>,
    },
    /// Reply: [`PeerReply::Compared`].
    Compare {
        /// The task.
        spec: Cow<'a, TaskSpec>,
        /// The page.
        #[serde(skip)]
        page: AttachedPage<'a>,
        /// Entries that stay unconditionally.
        left: Cow<'a, EntrySet>,
    },
    /// Reply: [`PeerReply::Planned`].
    Look {
        /// The task.
        spec: Cow<'a, TaskSpec>,
        /// The page.
        #[serde(skip)]
        page: AttachedPage<'a>,
    },
    /// Reply: [`PeerReply::SameSize`].
    SameSize {
        /// The task.
        spec: Cow<'a, TaskSpec>,
        /// The page.
        #[serde(skip)]
        page: AttachedPage<'a>,
    },
    /// Reply: [`PeerReply::Compared`].
    CompareContents {
        /// The task.
        spec: Cow<'a, TaskSpec>,
        /// The page.
        #[serde(skip)]
        page: AttachedPage<'a>,
        /// The BLAKE3 of files, in hex.
        digests: Cow<'a, [(u32, String)]>,
    },
    /// Reply: [`PeerReply::Proved`].
    Prove {
        /// The task.
        spec: Cow<'a, TaskSpec>,
        /// The page.
        #[serde(skip)]
        page: AttachedPage<'a>,
        /// Digests of its files that the ledger knows.
        digests: Cow<'a, [EntryDigest]>,
        /// True to read from storage.
        readback: bool,
        /// Checksums to compute.
        also: Cow<'a, [ChecksumKind]>,
    },
    /// Reply: [`PeerReply::Confirmed`].
    Confirm {
        /// The task.
        spec: Cow<'a, TaskSpec>,
        /// The page.
        #[serde(skip)]
        page: AttachedPage<'a>,
        /// The entries to examine.
        wanted: Cow<'a, EntrySet>,
    },
    /// Reply: [`PeerReply::Mended`].
    Mend {
        /// The task under which the peer writes.
        spec: Cow<'a, TaskSpec>,
        /// The page.
        #[serde(skip)]
        page: AttachedPage<'a>,
        /// Files with their digests.
        files: Cow<'a, [(u32, String)]>,
    },
    /// Removes temporary files of the entries of one page. Reply: [`PeerReply::Done`].
    CleanPage {
        /// The task whose files are removed.
        spec: Cow<'a, TaskSpec>,
        /// The page.
        #[serde(skip)]
        page: AttachedPage<'a>,
        /// Entries of which there are no temporary files.
        left: Cow<'a, EntrySet>,
        /// Greatest attempt at any file.
        generation_max: u32,
    },
    /// Removes the sync marker when all pages are clean. Reply: [`PeerReply::Done`].
    CleanMarker {
        /// The task whose marker is removed.
        spec: Cow<'a, TaskSpec>,
        /// True if files may have been removed, and the store is to be synced before.
        sync: bool,
    },
}

/// Requests to a source peer; each is the method of [`crate::scan::SourcePeer`] of its name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(clippy::large_enum_variant, reason = "each lives for one call, on the stack")]
pub enum SourceRequest<'a> {
    /// Reply: [`PeerReply::Opened`].
    OpenScan(Cow<'a, ScanRequest>),
    /// Reply: [`PeerReply::Page`].
    Page {
        /// The transfer.
        transfer: TransferId,
        /// Number of the page.
        number: u32,
        /// Longest time that the peer may wait for it, in milliseconds.
        wait_ms: u32,
    },
    /// Reply: [`PeerReply::Rechecked`].
    Recheck {
        /// The transfer.
        transfer: TransferId,
        /// Entries to examine again.
        question: Cow<'a, RecheckRequest>,
    },
    /// Reply: [`PeerReply::Digests`].
    Digests {
        /// The transfer.
        transfer: TransferId,
        /// Files to hash.
        wish: Cow<'a, DigestWish>,
        /// Longest time that the peer may work on it before it replies, in milliseconds.
        wait_ms: u32,
    },
    /// Reply: [`PeerReply::Removed`].
    Remove {
        /// The transfer.
        transfer: TransferId,
        /// Items to remove.
        order: Cow<'a, RemoveOrder>,
    },
    /// Forgets the transfer. Reply: [`PeerReply::Done`].
    Release {
        /// The transfer.
        transfer: TransferId,
    },
}

/// Replies of a peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeerReply {
    /// It is done, and there is nothing to report.
    Done,
    /// Kind of the item at the path; `None` if there is none.
    RootKind(Option<RootKind>),
    /// Id of the store; `None` if it has none yet.
    StoreId(Option<u64>),
    /// Free space of the store.
    Room(Room),
    /// The store is the right one; facts about it.
    Prepared(TaskStart),
    /// Decisions on the entries of the page.
    Compared(Comparison),
    /// Items of a plan, one for each entry of the page.
    Planned(Vec<PlanItem>),
    /// Entries whose files have the same size at the target, ascending.
    SameSize(Vec<u32>),
    /// Result of reading the page's files again.
    Proved {
        /// Fields of the proof that are stored with it.
        proof: PageProof,
        /// As [`PageProof::damaged`].
        damaged: Vec<u32>,
        /// As [`PageProof::failures`].
        failures: Vec<EntryFailure>,
        /// As [`PageProof::stopped`].
        stopped: bool,
    },
    /// Entries that exist as they were made.
    Confirmed(EntrySet),
    /// Result of checking files for late writes.
    Mended(Mended),
    /// Progress of a request to delete.
    Deleted(Deleted),
    /// The scan is open; kind of the data set's root.
    Opened(RootKind),
    /// The page, or the reason why there is none.
    Page(PageReply),
    /// Number of pages by now.
    Rechecked(u32),
    /// The digests; `None` if it takes longer.
    Digests(Option<WishedDigests>),
    /// Result of a removal.
    Removed(RemoveReply),
}

/// The page of a request. The network carries its bytes beside the request's JSON.
#[derive(Clone, Debug, Default)]
pub enum AttachedPage<'a> {
    /// It has not arrived.
    #[default]
    Absent,
    /// A page of the caller.
    Borrowed(&'a Page),
    /// A page that others hold too, with the digest of its bytes.
    Shared(Arc<Page>, Digest),
}

impl AttachedPage<'_> {
    /// Returns the page.
    ///
    /// # Errors
    /// The request came without one.
    pub fn get(&self) -> Result<&Page, Problem> {
        match self {
            Self::Absent => Err(without_page()),
            Self::Borrowed(page) => Ok(page),
            Self::Shared(page, _) => Ok(page),
        }
    }

    /// Returns the page to be kept, and the digest of its bytes. Copies a borrowed page.
    ///
    /// # Errors
    /// The request came without one.
    pub fn share(&self) -> Result<(Arc<Page>, Digest), Problem> {
        match self {
            Self::Absent => Err(without_page()),
            Self::Borrowed(page) => Ok((Arc::new((*page).clone()), page_digest(&page.encode()))),
            Self::Shared(page, digest) => Ok((Arc::clone(page), *digest)),
        }
    }

    fn encode(&self) -> Vec<u8> {
        self.get().map(Page::encode).unwrap_or_default()
    }
}

fn without_page() -> Problem {
    Problem::new(ProblemCode::RequestUnreadable, "a controller's request lacks its page")
}

impl<'a> TargetRequest<'a> {
    /// Returns the store that the request is about.
    pub fn store(&self) -> &Name {
        match self {
            Self::RootKind { store, .. } | Self::StoreId { store } | Self::Room { store } => store,
            Self::Prepare { spec }
            | Self::Compare { spec, .. }
            | Self::Look { spec, .. }
            | Self::SameSize { spec, .. }
            | Self::CompareContents { spec, .. }
            | Self::Prove { spec, .. }
            | Self::Confirm { spec, .. }
            | Self::Mend { spec, .. }
            | Self::CleanPage { spec, .. }
            | Self::CleanMarker { spec, .. } => &spec.store,
        }
    }

    fn spec_mut(&mut self) -> Option<&mut Cow<'a, TaskSpec>> {
        match self {
            Self::RootKind { .. } | Self::StoreId { .. } | Self::Room { .. } => None,
            Self::Prepare { spec }
            | Self::Compare { spec, .. }
            | Self::Look { spec, .. }
            | Self::SameSize { spec, .. }
            | Self::CompareContents { spec, .. }
            | Self::Prove { spec, .. }
            | Self::Confirm { spec, .. }
            | Self::Mend { spec, .. }
            | Self::CleanPage { spec, .. }
            | Self::CleanMarker { spec, .. } => Some(spec),
        }
    }

    fn page(&self) -> Option<&AttachedPage<'a>> {
        match self {
            Self::Compare { page, .. }
            | Self::Look { page, .. }
            | Self::SameSize { page, .. }
            | Self::CompareContents { page, .. }
            | Self::Prove { page, .. }
            | Self::Confirm { page, .. }
            | Self::Mend { page, .. }
            | Self::CleanPage { page, .. } => Some(page),
            Self::RootKind { .. }
            | Self::StoreId { .. }
            | Self::Room { .. }
            | Self::Prepare { .. }
            | Self::CleanMarker { .. } => None,
        }
    }

    fn page_mut(&mut self) -> Option<&mut AttachedPage<'a>> {
        match self {
            Self::Compare { page, .. }
            | Self::Look { page, .. }
            | Self::SameSize { page, .. }
            | Self::CompareContents { page, .. }
            | Self::Prove { page, .. }
            | Self::Confirm { page, .. }
            | Self::Mend { page, .. }
            | Self::CleanPage { page, .. } => Some(page),
            Self::RootKind { .. }
            | Self::StoreId { .. }
            | Self::Room { .. }
            | Self::Prepare { .. }
            | Self::CleanMarker { .. } => None,
        }
    }
}

impl SourceRequest<'_> {
    /// Returns the transfer that the request is about.
    pub fn transfer(&self) -> TransferId {
        match self {
            Self::OpenScan(request) => request.transfer,
            Self::Page { transfer, .. }
            | Self::Recheck { transfer, .. }
            | Self::Digests { transfer, .. }
            | Self::Remove { transfer, .. }
            | Self::Release { transfer } => *transfer,
        }
    }

    /// Returns the request with its own copy of what it borrows.
    #[must_use]
    pub fn into_owned(self) -> SourceRequest<'static> {
        fn owned<T: Clone>(value: Cow<'_, T>) -> Cow<'static, T> {
            Cow::Owned(value.into_owned())
        }
        match self {
            Self::OpenScan(request) => SourceRequest::OpenScan(owned(request)),
            Self::Page { transfer, number, wait_ms } => {
                SourceRequest::Page { transfer, number, wait_ms }
            }
            Self::Recheck { transfer, question } => {
                SourceRequest::Recheck { transfer, question: owned(question) }
            }
            Self::Digests { transfer, wish, wait_ms } => {
                SourceRequest::Digests { transfer, wish: owned(wish), wait_ms }
            }
            Self::Remove { transfer, order } => {
                SourceRequest::Remove { transfer, order: owned(order) }
            }
            Self::Release { transfer } => SourceRequest::Release { transfer },
        }
    }
}

impl<'a> PeerRequest<'a> {
    /// Sets the right to act of the controller that makes the request. The right does not travel.
    pub fn set_fence(&mut self, fence: Fence) {
        let spec = match self {
            Self::Target(request) => request.spec_mut(),
            Self::Source(_) => None,
            Self::List { spec, .. } | Self::Delete { spec, .. } => Some(spec),
        };
        if let Some(spec) = spec {
            spec.to_mut().fence = fence;
        }
    }

    /// Returns the bytes that follow the request's JSON: its page, or none.
    pub fn body(&self) -> Vec<u8> {
        match self {
            Self::Target(request) => request.page().map(AttachedPage::encode).unwrap_or_default(),
            Self::Source(_) | Self::List { .. } | Self::Delete { .. } => Vec::new(),
        }
    }

    /// Takes the bytes that follow the request's JSON.
    ///
    /// # Errors
    /// [`DecodeError`] if they are no page, or the request has none.
    pub fn set_body(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        let page = match self {
            Self::Target(request) => request.page_mut(),
            Self::Source(_) | Self::List { .. } | Self::Delete { .. } => None,
        };
        match page {
            Some(page) => {
                *page = AttachedPage::Shared(Arc::new(Page::decode(bytes)?), page_digest(bytes));
                Ok(())
            }
            None if bytes.is_empty() => Ok(()),
            None => Err(DecodeError::TrailingBytes(bytes.len())),
        }
    }
}

impl PeerReply {
    /// Returns the bytes that follow the reply's JSON: a page, or none.
    pub fn body(&self) -> &[u8] {
        match self {
            Self::Page(PageReply::Page(page)) => page,
            _ => &[],
        }
    }

    /// Takes the bytes that follow the reply's JSON. The page is not decoded.
    ///
    /// # Errors
    /// [`DecodeError`] if the reply has none.
    pub fn set_body(&mut self, bytes: Vec<u8>) -> Result<(), DecodeError> {
        match self {
            Self::Page(PageReply::Page(page)) => *page = bytes,
            _ if bytes.is_empty() => {}
            _ => return Err(DecodeError::TrailingBytes(bytes.len())),
        }
        Ok(())
    }

    /// Returns the problem of a reply that belongs to another request.
    pub fn misplaced(&self) -> Problem {
        Problem::new(ProblemCode::PeerReply, "a peer's reply belongs to another request")
            .hint("use the same release of penstock everywhere")
    }
}

impl From<PageProof> for PeerReply {
    fn from(mut proof: PageProof) -> Self {
        let damaged = std::mem::take(&mut proof.damaged);
        let failures = std::mem::take(&mut proof.failures);
        let stopped = std::mem::take(&mut proof.stopped);
        Self::Proved { proof, damaged, failures, stopped }
    }
}
