//! The source of a run's pages, as several threads and rounds use it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use penstock_api::problem::Problem;
use penstock_api::removal::{RemoveOrder, RemoveReply};
use penstock_api::scan::{DigestWish, PageReply, PageSource, RecheckRequest, WishedDigests};

/// A source behind a lock; all clones are the same source.
#[derive(Clone)]
pub(crate) struct SharedSource(Arc<Mutex<Box<dyn PageSource>>>);

impl SharedSource {
    pub(crate) fn new(source: Box<dyn PageSource>) -> Self {
        Self(Arc::new(Mutex::new(source)))
    }

    fn lock(&self) -> MutexGuard<'_, Box<dyn PageSource>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PageSource for SharedSource {
    fn page(&mut self, number: u32, wait_ms: u32) -> Result<PageReply, Problem> {
        self.lock().page(number, wait_ms)
    }

    fn ask(&mut self, question: &RecheckRequest) -> Result<u32, Problem> {
        self.lock().ask(question)
    }

    fn digests(
        &mut self,
        wish: &DigestWish,
        wait_ms: u32,
    ) -> Result<Option<WishedDigests>, Problem> {
        self.lock().digests(wish, wait_ms)
    }

    fn remove(&mut self, order: &RemoveOrder) -> Result<RemoveReply, Problem> {
        self.lock().remove(order)
    }
}
