//! Events for operators and users: peers that join or leave a run in its middle.

use std::sync::Arc;
use std::time::Duration;

use penstock_api::peers::{Member, PartNews, Peers};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::FlightKind;
use penstock_proto::id::TransferId;

use super::excluded_peers::ExcludedPeers;
use crate::flight::FlightRecorder;
use crate::runner::control::RunControl;

/// The events of a run about its peers: decides which events are new, and which are known or
/// expected.
pub(super) struct PeerEvents {
    /// Reports to the operators of the site.
    peers: Arc<dyn Peers>,
    /// Reports to the observers of the transfer.
    control: Arc<RunControl>,
    transfer: TransferId,
    excluded: ExcludedPeers,
}

impl PeerEvents {
    pub(super) fn new(
        peers: &Arc<dyn Peers>,
        control: Arc<RunControl>,
        transfer: TransferId,
    ) -> Self {
        Self { peers: Arc::clone(peers), control, transfer, excluded: ExcludedPeers::default() }
    }

    /// Returns the recorder of the decisions about the transfer.
    pub(super) fn flight(&self) -> &FlightRecorder {
        self.control.flight()
    }

    /// Records that a peer does not take part, or has left.
    pub(super) fn record_out(&self, member: &Member, problem: &Problem) {
        let text = problem.to_string();
        self.flight().add_problem(FlightKind::PeerOut, &member.name, problem, &text);
    }

    /// Reports a peer that has joined, and was not there when the run began.
    pub(super) fn joined(&self, member: &Member) {
        self.tell(member, &PartNews::Joined);
    }

    /// Reports a peer that has left, with all that it wrote durable.
    pub(super) fn drained(&self, member: &Member) {
        self.flight().add(FlightKind::PeerOut, &member.name, "it is drained");
        self.tell(member, &PartNews::Drained);
    }

    /// Reports a peer that cannot begin and is retried after `again`, unless its last failure had
    /// the reason `before` too.
    pub(super) fn refused(
        &self,
        member: &Member,
        problem: &Problem,
        before: Option<&str>,
        again: Option<Duration>,
    ) {
        let why = problem.to_string();
        if before != Some(why.as_str()) && !self.is_expected(problem) {
            self.tell(member, &PartNews::Refused { why, again });
        }
    }

    /// Reports a peer that a problem has put out of the run, which `others` continue.
    pub(super) fn failed(
        &self,
        member: &Member,
        problem: &Problem,
        (is_lost, others): (bool, usize),
        again: Option<Duration>,
    ) {
        if !self.is_expected(problem) {
            let why = problem.to_string();
            self.tell(member, &PartNews::Out { why, is_lost, others, again });
        }
    }

    /// Reports a peer that was lost because its process is another one now.
    pub(super) fn restarted(&self, member: &Member, why: String, others: usize) {
        self.flight().add(FlightKind::PeerOut, &member.name, &why);
        let again = Some(Duration::ZERO);
        self.tell(member, &PartNews::Out { why, is_lost: true, others, again });
    }

    /// Reports the peers of the site that cannot take part, once for each reason.
    pub(super) fn look_for_excluded(&mut self) {
        for event in self.excluded.handle(self.peers.left_out()) {
            self.control.note(event);
        }
    }

    /// Returns the peers that could not take part at the last look, with the reasons.
    pub(super) fn excluded(&self) -> &ExcludedPeers {
        &self.excluded
    }

    /// Reports an event of the run to its observers.
    pub(super) fn note(&self, event: Problem) {
        self.control.note(event);
    }

    /// Returns whether it was known before the run that a peer may meet this problem.
    fn is_expected(&self, problem: &Problem) -> bool {
        problem.code == ProblemCode::TargetFull && self.control.expects_full()
    }

    fn tell(&self, member: &Member, news: &PartNews) {
        self.peers.tell(self.transfer, &member.name, news);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ToldSite, member};
    use super::*;

    /// Promise: the reason why a peer cannot start causes one event, not one for each attempt;
    /// another reason is another event.
    #[test]
    fn a_peer_that_cannot_begin_is_one_event_for_each_reason() {
        let site = Arc::new(ToldSite::default());
        let peers: Arc<dyn Peers> = Arc::clone(&site) as _;
        let events = PeerEvents::new(&peers, Arc::default(), TransferId([1; 16]));
        let offline = Problem::new(ProblemCode::StoreOffline, "the store is offline");
        let why = offline.to_string();
        let again = Some(Duration::from_secs(5));
        events.refused(&member(3), &offline, None, again);
        events.refused(&member(3), &offline, Some(&why), again);
        events.refused(&member(3), &offline, Some("the target is full"), None);
        let told = std::mem::take(&mut *site.told.lock().unwrap());
        let refused = |again| ("peer-3".to_owned(), PartNews::Refused { why: why.clone(), again });
        assert_eq!(told, [refused(again), refused(None)]);
    }

    /// Promise: an attempt that only tests whether the target is still full reports no peer that
    /// finds it full, and every other failure (E3).
    #[test]
    fn e3_a_target_that_is_known_to_be_full_is_no_event() {
        let site = Arc::new(ToldSite::default());
        let peers: Arc<dyn Peers> = Arc::clone(&site) as _;
        let control = Arc::new(RunControl::default());
        let events = PeerEvents::new(&peers, Arc::clone(&control), TransferId([1; 16]));
        let full = Problem::new(ProblemCode::TargetFull, "no space is left");
        events.failed(&member(3), &full, (false, 1), None);
        assert_eq!(site.told.lock().unwrap().len(), 1, "it is news at first");
        control.expect_full();
        events.failed(&member(3), &full, (false, 1), None);
        events.refused(&member(4), &full, None, None);
        assert_eq!(site.told.lock().unwrap().len(), 1);
        let lost = Problem::new(ProblemCode::PeerLost, "it is lost");
        events.failed(&member(3), &lost, (true, 0), None);
        assert_eq!(site.told.lock().unwrap().len(), 2);
    }
}
