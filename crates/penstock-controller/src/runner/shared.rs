//! State that a run and the sessions of its peers share: machine, journal, pages in memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::proof::ProofProgress;
use penstock_api::task::TaskPage;
use penstock_engine::transfer::TransferMachine;
use penstock_proto::compared::EntrySet;
use penstock_proto::digest::Digest;
use penstock_proto::manifest::{Page, is_amending, page_digest};

use super::failed_links::FailedLinks;
use super::journal::Journal;

/// Decoded pages kept in memory, some 400 KiB each at most; others are read again when needed.
const PAGES_KEPT: usize = 48;

/// The progress of comparing files by their contents.
#[derive(Default)]
pub(crate) struct Comparing {
    pub(crate) progress: ProofProgress,
    /// Set while the source or a peer reads files.
    pub(crate) busy: AtomicBool,
}

/// The machine of a transfer and its data, as several threads use them.
pub(crate) struct RunShared {
    /// Set if pages are compared with the target; logs then begin with the decisions.
    compares: bool,
    /// The progress of comparing files by their contents.
    pub(crate) comparing: Comparing,
    machine: Mutex<TransferMachine>,
    journal: Mutex<Journal>,
    pages: Mutex<VecDeque<TaskPage>>,
    news: Mutex<bool>,
    wake: Condvar,
    /// Number of entries removed because they were in the way of the data set.
    pub(crate) cleared: AtomicU64,
    /// Number of entries deleted at the end because they are not in the data set.
    pub(crate) deleted: AtomicU64,
    /// The reason why nothing is deleted, if a guard has refused before the end.
    pub(crate) refused: Mutex<Option<Problem>>,
    /// The failed files that have further names, known before the first of these names is made.
    pub(crate) failed_links: OnceLock<FailedLinks>,
}

impl RunShared {
    pub(crate) fn new(machine: TransferMachine, journal: Journal, compares: bool) -> Self {
        Self {
            compares,
            comparing: Comparing::default(),
            machine: Mutex::new(machine),
            journal: Mutex::new(journal),
            pages: Mutex::new(VecDeque::new()),
            news: Mutex::new(false),
            wake: Condvar::new(),
            cleared: AtomicU64::new(0),
            deleted: AtomicU64::new(0),
            refused: Mutex::new(None),
            failed_links: OnceLock::new(),
        }
    }

    pub(crate) fn machine(&self) -> MutexGuard<'_, TransferMachine> {
        // A panic while the lock was held is a fault of this program. The ledger on disk is sound,
        // and continuing lets the run end in order.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a commit is urgent, so that the run does not wait for the end of the
    /// interval.
    pub(crate) fn commit_is_urgent(&self) -> bool {
        self.machine().commit_is_urgent()
    }

    /// Returns the greatest attempt number of any file of a page that this run has opened.
    pub(crate) fn generation_max(&self) -> u32 {
        self.machine().generation_max()
    }

    /// Waits for news of the peer, up to `most`.
    pub(crate) fn wait(&self, most: Duration) {
        let news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.wake.wait_timeout_while(news, most, |news| !*news);
        let (mut news, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *news = false;
    }

    pub(crate) fn notify(&self) {
        *self.news.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wake.notify_all();
    }

    /// Returns the number of entries that this round has deleted at the target.
    pub(crate) fn deleted_here(&self) -> u64 {
        self.cleared.load(Ordering::Relaxed) + self.deleted.load(Ordering::Relaxed)
    }

    /// Returns whether a page is compared with the target before it is opened.
    pub(crate) fn is_compared(&self, page: &Page) -> bool {
        self.compares || page.round > 0
    }

    /// Returns whether an encoded page is compared with the target before it is opened.
    pub(crate) fn is_compared_encoded(&self, encoded: &[u8]) -> bool {
        self.compares || is_amending(encoded)
    }

    /// Keeps a decoded page in memory.
    pub(crate) fn remember(&self, page: Page, digest: Digest, left: EntrySet) -> TaskPage {
        let page = TaskPage { page: Arc::new(page), digest, left: Arc::new(left) };
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.push_back(page.clone());
        if pages.len() > PAGES_KEPT {
            pages.pop_front();
        }
        page
    }

    /// Returns a page from the journal store, opened or not. The entries that stay at the target
    /// are not included, and memory does not keep the page.
    pub(crate) fn peek_page(&self, number: u32) -> Result<TaskPage, Problem> {
        let (page, digest) = self.decode_page(number)?;
        Ok(TaskPage { page: Arc::new(page), digest, left: Arc::default() })
    }

    fn decode_page(&self, number: u32) -> Result<(Page, Digest), Problem> {
        let gone = || {
            let title = format!("page {number} is not in the journal store");
            Problem::new(ProblemCode::JournalDamaged, title)
        };
        let encoded = self.journal().read_page(number)?.ok_or_else(gone)?;
        let page = Page::decode(&encoded).map_err(|cause| gone().because(cause))?;
        Ok((page, page_digest(&encoded)))
    }

    /// Returns a page, from memory or from the journal store.
    pub(crate) fn read_page(&self, number: u32) -> Result<TaskPage, Problem> {
        {
            let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(at) = pages.iter().position(|page| page.page.number == number)
                && let Some(page) = pages.remove(at)
            {
                pages.push_back(page.clone());
                return Ok(page);
            }
        }
        let (page, digest) = self.decode_page(number)?;
        let left = match self.is_compared(&page) {
            true => self.journal().read_compared(number)?.left(),
            false => EntrySet::default(),
        };
        Ok(self.remember(page, digest, left))
    }
}
