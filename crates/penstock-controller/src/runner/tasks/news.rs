//! Events for the operators of a site: peers that joined or left a run in its middle.

use std::time::{Duration, Instant};

use penstock_api::peers::{Member, PartNews};
use penstock_api::problem::Problem;

use super::Tasks;

impl Tasks {
    pub(super) fn tell(&self, member: &Member, news: &PartNews) {
        self.parts.peers.tell(self.parts.spec.transfer, &member.name, news);
    }

    /// Records the peers present at the first look: that these join is no event. A hundred peers
    /// would fill the list of events with every transfer.
    pub(super) fn expect(&mut self, present: &[Member]) {
        if self.expected.is_none() {
            let works = |member: &Member| {
                self.working.iter().any(|working| working.member.writer == member.writer)
            };
            let is_new = |member: &&Member| !works(member);
            let expected = present.iter().filter(is_new).map(|member| member.writer).collect();
            self.expected = Some(expected);
        }
    }

    pub(super) fn tell_joined(&mut self, member: &Member) {
        let is_news = self.expected.as_mut().is_some_and(|known| !known.remove(&member.writer));
        if is_news {
            self.tell(member, &PartNews::Joined);
        }
    }

    /// Handles a peer that cannot begin: it is not retried for a while. Reports it if the reason
    /// differs from the last one.
    pub(super) fn tell_refused(&mut self, member: &Member, problem: &Problem) {
        let why = problem.to_string();
        let is_known = self.away.get(&member.writer).is_some_and(|away| away.why == why);
        self.leave_alone(member, problem);
        if let Some(expected) = &mut self.expected {
            expected.remove(&member.writer);
        }
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
        let others = self.working.len();
        self.tell(member, &PartNews::Out { why, is_lost, others, again });
    }

    /// Returns the time until a peer that is not retried now is retried.
    pub(super) fn again(&self, member: &Member) -> Option<Duration> {
        let until = self.away.get(&member.writer)?.until?;
        Some(until.saturating_duration_since(Instant::now()))
    }
}
