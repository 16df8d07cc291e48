//! Peers that find the target full.
//!
//! A full target is a property of the store, not of the peer: usually the other peers find the
//! same, one after the other. A peer that found the target full is not retried until the others
//! have found it full too, or have shown that there is room. If no peer remains, the transfer waits
//! for room, whatever errors other peers have met since.

use penstock_api::peers::Member;
use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_proto::id::WriterId;

use super::task_set::TaskSet;
use crate::runner::any_peer::nobody;

/// The problem with the name of the peer that has met it.
pub(super) fn at(member: &Member, problem: Problem) -> Problem {
    let named = format!("peer `{}`: ", member.name);
    if problem.code != ProblemCode::TargetFull
        || member.name.is_empty()
        || problem.title.starts_with(&named)
    {
        return problem;
    }
    Problem { title: format!("{named}{}", problem.title), ..problem }
}

impl TaskSet {
    /// Returns whether it was known before the run that a peer may meet this problem.
    pub(super) fn is_expected(&self, problem: &Problem) -> bool {
        problem.code == ProblemCode::TargetFull && self.parts.control.expects_full()
    }

    /// Returns the reason why the run cannot continue, now that no peer takes part. A temporary
    /// error of a present peer is preferred to an error of another peer that ends the transfer.
    pub(super) fn why_nobody_is_left(&mut self) -> Problem {
        let met = || {
            let failures = self.registry.failures();
            failures.filter_map(|(writer, met)| Some((writer, met.passing.as_ref()?)))
        };
        if let Some((_, full)) = met().find(|(_, problem)| problem.code == ProblemCode::TargetFull)
        {
            return full.clone();
        }
        let present = self.parts.peers.present();
        let is_there = |writer: WriterId| present.iter().any(|member| member.writer == writer);
        let passing = met().find(|(writer, _)| is_there(*writer)).map(|(_, met)| met.clone());
        let last = self.last.take();
        match (last, passing) {
            (Some(last), Some(passing)) if last.exit != Exit::Temporary => Problem {
                title: format!("{}; and at another peer: {last}", passing.title),
                ..passing
            },
            (last, _) => last.unwrap_or_else(nobody),
        }
    }
}
