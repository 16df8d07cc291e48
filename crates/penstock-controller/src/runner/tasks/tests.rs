//! Peers for the tests of the types of this folder: they receive the events for operators.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use penstock_api::peers::{Member, PartNews, Peers};
use penstock_proto::id::{TransferId, WriterId};

use crate::runner::any_peer::AnyPeer;

/// A site without peers, and the events of the runs there.
#[derive(Default)]
pub(super) struct ToldSite {
    pub(super) told: Mutex<Vec<(String, PartNews)>>,
}

impl Peers for ToldSite {
    fn present(&self) -> Vec<Member> {
        Vec::new()
    }

    fn grant(&self) -> Option<Duration> {
        None
    }

    fn tell(&self, _transfer: TransferId, peer: &str, news: &PartNews) {
        self.told.lock().unwrap().push((peer.to_owned(), news.clone()));
    }
}

/// Returns a peer that answers no call.
pub(super) fn member(writer: u64) -> Member {
    Member {
        name: format!("peer-{writer}"),
        writer: WriterId(writer),
        instance: 1,
        is_own: false,
        is_draining: false,
        peer: Arc::new(AnyPeer::new(Arc::new(ToldSite::default()))),
    }
}
