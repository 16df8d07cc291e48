//! Peers of a run whose stores hang (E2), in words and decisions for the run.
//!
//! `penstock_engine::writers` decides which calls hang. A peer with such a call is removed from the
//! run as a lost one is: another peer checks its files, and the others get its work (A9). The only
//! peer of a site stays, and the transfer waits.

use std::time::Duration;

use penstock_api::peers::GRANT;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_engine::writers::{HangWatch, StoreCall};
use penstock_proto::id::{Name, PeerNumber};

/// The watch over the store of a run, at all its peers.
pub(super) struct HungStores {
    watch: HangWatch,
    /// The target store, as users call it.
    store: Name,
    /// False where one peer is the whole site.
    has_others: bool,
}

/// The result of a look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HungFound {
    /// An event for users, once for each time that the store hangs.
    pub(super) event: Option<Problem>,
    /// The peers to remove.
    pub(super) out: Vec<(PeerNumber, Problem)>,
}

impl HungStores {
    /// Returns a watch over one store; `grant` as the peers have it.
    pub(super) fn new(store: Name, grant: Option<Duration>) -> Self {
        Self { watch: HangWatch::new(grant.unwrap_or(GRANT)), store, has_others: grant.is_some() }
    }

    /// Handles the calls of the working peers to the store.
    pub(super) fn poll(&mut self, calls: &[StoreCall]) -> HungFound {
        let Some(hangs) = self.watch.poll(calls) else { return HungFound::default() };
        let then = match hangs.others_work {
            true => "its share is given to others",
            false => "the transfer waits",
        };
        let event = hangs.is_news.then(|| {
            self.problem(hangs.longest).hint(format!(
                "check its disk or server, and the kernel log; {then} unless it answers"
            ))
        });
        let out = hangs.out.into_iter().filter(|_| self.has_others);
        let out = out.map(|(peer, lasts)| (peer, self.problem(lasts))).collect();
        HungFound { event, out }
    }

    fn problem(&self, lasts: Duration) -> Problem {
        let (store, seconds) = (&self.store, lasts.as_secs());
        let title = format!("store `{store}` has not answered for {seconds} s");
        Problem::new(ProblemCode::StoreHung, title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(peer: u16, seconds: u64) -> StoreCall {
        let lasts = Duration::from_secs(seconds);
        StoreCall { peer: PeerNumber(peer), lasts, is_draining: false }
    }

    /// Promise: a hung store is reported once, with its consequence; a peer is removed only if
    /// another one works (E2).
    #[test]
    fn e2_a_hanging_store_is_one_event_and_costs_its_peer_where_others_work() {
        let name: Name = "data".parse().unwrap();
        let mut hung = HungStores::new(name.clone(), Some(GRANT));
        assert_eq!(hung.poll(&[call(1, 1), call(2, 0)]), HungFound::default());
        let both = hung.poll(&[call(1, 130), call(2, 130)]);
        let event = both.event.unwrap();
        assert_eq!(event.title, "store `data` has not answered for 130 s");
        assert!(event.hint.ends_with("the transfer waits unless it answers"), "{event:?}");
        assert_eq!(both.out, []);
        let one = hung.poll(&[call(1, 131), call(2, 0)]);
        assert_eq!((one.event, one.out.len()), (None, 1), "no news");
        assert_eq!(one.out[0].0, PeerNumber(1));
        let mut alone = HungStores::new(name, None);
        let found = alone.poll(&[call(0, 500)]);
        assert!(found.event.is_some() && found.out.is_empty(), "{found:?}");
    }
}
