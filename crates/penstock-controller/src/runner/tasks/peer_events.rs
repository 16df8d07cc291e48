//! Events for the operators of a site: peers that joined or left a run in its middle.

use std::time::Duration;

use penstock_api::peers::{Member, PartNews};
use penstock_api::problem::Problem;

use super::task_set::TaskSet;

impl TaskSet {
    pub(super) fn tell(&self, member: &Member, news: &PartNews) {
        self.parts.peers.tell(self.parts.spec.transfer, &member.name, news);
    }

    /// Handles a peer that cannot begin: it is not retried for a while. Reports it if the reason
    /// differs from the last one.
    pub(super) fn tell_refused(&mut self, member: &Member, problem: &Problem) {
        let why = problem.to_string();
        let before = self.registry.last_failure(member.writer, self.now());
        let is_known = before.is_some_and(|(met, _)| met.why == why);
        self.leave_alone(member, problem);
        if !is_known && !self.is_expected(problem) {
            self.tell(member, &PartNews::Refused { why, again: self.again(member) });
        }
    }

    /// A peer is out of the run, after it was taken from those that work.
    pub(super) fn tell_out(
        &self,
        member: &Member,
        why: String,
        is_lost: bool,
        again: Option<Duration>,
    ) {
        let others = self.running().count();
        self.tell(member, &PartNews::Out { why, is_lost, others, again });
    }

    /// Returns the time until a peer that is not retried now is retried.
    pub(super) fn again(&self, member: &Member) -> Option<Duration> {
        self.registry.last_failure(member.writer, self.now())?.1
    }
}
