//! The site's source side at a controller whose host has not got every store of the site.
//!
//! Data sets are listed on the controller's host. One in a store that only other peers have waits
//! for one of these to lead, if it was begun by such a one, and is refused if it is new.

use std::path::PathBuf;
use std::sync::Arc;

use penstock_api::problem::{Exit, Problem};
use penstock_api::removal::{RemoveOrder, RemoveReply};
use penstock_api::scan::{
    DigestWish, PageReply, Question, RootKind, ScanRequest, SourcePeer, WishedDigests,
};
use penstock_controller::cluster::ClusterNow;
use penstock_proto::id::{Name, TransferId};
use tokio::sync::watch;

/// Code: a store is not at the controller's host, and at others.
pub(crate) const STORE_ELSEWHERE: &str = "store-elsewhere";

/// The source side of this host, being the controller's.
pub(crate) struct SiteSource {
    pub(crate) own: Arc<dyn SourcePeer>,
    /// The peer of this host.
    pub(crate) peer: Name,
    pub(crate) now: watch::Receiver<Arc<ClusterNow>>,
    /// Where scans are kept, for all peers of the site.
    pub(crate) scans: PathBuf,
}

impl SiteSource {
    /// Says who has a store that is not known here, where the own side knows nothing of it.
    fn explained(&self, store: Option<&Name>, transfer: TransferId, problem: Problem) -> Problem {
        if problem.code != "store-unknown" {
            return problem;
        }
        let now = Arc::clone(&self.now.borrow());
        let has = |stores: &[penstock_api::cluster::StoreCard]| {
            stores.iter().any(|card| store.is_none_or(|store| card.store == *store))
        };
        let others = now.peers.iter().filter(|card| card.peer != self.peer && has(&card.stores));
        let others: Vec<_> = others.map(|card| format!("`{}`", card.peer)).collect();
        if others.is_empty() {
            return problem;
        }
        let begun = self.scans.join(transfer.to_string()).exists();
        let store = store.map_or("of this transfer".to_owned(), |store| format!("`{store}`"));
        let title = format!(
            "store {store} is not at host `{}`, which leads this site: {} may have it",
            self.peer,
            others.join(", ")
        );
        let exit = if begun { Exit::Temporary } else { Exit::Refused };
        Problem::new(exit, STORE_ELSEWHERE, title).hint(format!(
            "a source is listed by the host that leads: give `{0}` the store, or let another peer \
             lead (`penstock peer drain {0}`)",
            self.peer
        ))
    }
}

impl SourcePeer for SiteSource {
    fn open_scan(&self, request: &ScanRequest) -> Result<RootKind, Problem> {
        let explain = |problem| self.explained(Some(&request.store), request.transfer, problem);
        self.own.open_scan(request).map_err(explain)
    }

    fn page(&self, transfer: TransferId, number: u32, wait_ms: u32) -> Result<PageReply, Problem> {
        let page = self.own.page(transfer, number, wait_ms);
        page.map_err(|problem| self.explained(None, transfer, problem))
    }

    fn ask(&self, transfer: TransferId, question: &Question) -> Result<u32, Problem> {
        let answer = self.own.ask(transfer, question);
        answer.map_err(|problem| self.explained(None, transfer, problem))
    }

    fn digests(
        &self,
        transfer: TransferId,
        wish: &DigestWish,
        wait_ms: u32,
    ) -> Result<Option<WishedDigests>, Problem> {
        let digests = self.own.digests(transfer, wish, wait_ms);
        digests.map_err(|problem| self.explained(None, transfer, problem))
    }

    fn remove(&self, transfer: TransferId, order: &RemoveOrder) -> Result<RemoveReply, Problem> {
        let reply = self.own.remove(transfer, order);
        reply.map_err(|problem| self.explained(None, transfer, problem))
    }

    fn release(&self, transfer: TransferId) {
        self.own.release(transfer);
    }
}
