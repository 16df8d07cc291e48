//! Failures of the peers of a run, and the reason with which it ends if no peer is left.
//!
//! A full target is a property of the store, not of the peer: usually the other peers fail in the
//! same way, one after the other. A peer that found the target full is not retried until the others
//! have found it full too, or have shown that there is room. If no peer remains, the transfer waits
//! for room, whatever errors other peers have met since.

use penstock_api::peers::Member;
use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_engine::writers::{Failure, Loss};
use penstock_proto::id::WriterId;

use crate::runner::any_peer::nobody;

/// The last failure of one peer, as the registry keeps it.
#[derive(Debug)]
pub(super) struct PeerFailure {
    /// The reason, in words.
    pub(super) why: String,
    /// The error, if it is temporary.
    passing: Option<Problem>,
}

impl PeerFailure {
    /// Returns the failure of a peer that has met a problem, and its kind, which decides for how
    /// long the peer is left alone.
    pub(super) fn of(member: &Member, problem: &Problem) -> (Failure, Self) {
        let kind = match problem.exit {
            Exit::Temporary if problem.code == ProblemCode::TargetFull => Failure::Full,
            Exit::Temporary => Failure::Passing,
            Exit::NotAuthorised => Failure::Untrusted,
            _ => Failure::Final,
        };
        let passes = problem.exit == Exit::Temporary;
        let passing = passes.then(|| named(member, problem.clone()));
        (kind, Self { why: problem.to_string(), passing })
    }
}

/// Returns the problem with the name of the peer that has met it, where the run may end with it.
pub(super) fn named(member: &Member, problem: Problem) -> Problem {
    let named = format!("peer `{}`: ", member.name);
    if problem.code != ProblemCode::TargetFull
        || member.name.is_empty()
        || problem.title.starts_with(&named)
    {
        return problem;
    }
    Problem { title: format!("{named}{}", problem.title), ..problem }
}

/// Returns the way in which a peer is lost whose task ends with a problem of this code: its process
/// has ended or is out of reach, or a thread of it hangs.
pub(super) fn loss_of(code: &ProblemCode) -> Option<Loss> {
    match code {
        ProblemCode::TaskHangs => Some(Loss::Hung),
        ProblemCode::PeerLost | ProblemCode::TaskUnknown | ProblemCode::GrantOver => {
            Some(Loss::Lapsed)
        }
        _ => None,
    }
}

/// The failures of a run's peers, for the reason with which it may end.
#[derive(Debug, Default)]
pub(super) struct PeerFailures {
    /// The failure that came last, until it was the reason of an end.
    last: Option<Problem>,
}

impl PeerFailures {
    /// Handles the failure of a peer.
    pub(super) fn handle(&mut self, problem: Problem) {
        self.last = Some(problem);
    }

    /// Returns the reason why the run cannot continue, now that no peer takes part. `failures` are
    /// those of peers that have not joined since; `is_present` tells whether a peer is there now. A
    /// temporary error of a present peer is preferred to an error of another peer that ends the
    /// transfer.
    pub(super) fn take_reason<'a>(
        &mut self,
        failures: impl Iterator<Item = (WriterId, &'a PeerFailure)>,
        is_present: impl Fn(WriterId) -> bool,
    ) -> Problem {
        let passing = failures.filter_map(|(writer, met)| Some((writer, met.passing.as_ref()?)));
        let passing: Vec<_> = passing.collect();
        debug_assert!(passing.iter().all(|(_, problem)| problem.exit == Exit::Temporary));
        let full = passing.iter().find(|(_, problem)| problem.code == ProblemCode::TargetFull);
        if let Some((_, full)) = full {
            return (*full).clone();
        }
        let here = passing.into_iter().find(|(writer, _)| is_present(*writer));
        match (self.last.take(), here) {
            (Some(last), Some((_, here))) if last.exit != Exit::Temporary => {
                let title = format!("{}; and at another peer: {last}", here.title);
                Problem { title, ..here.clone() }
            }
            (last, _) => last.unwrap_or_else(nobody),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::member;
    use super::*;

    fn problem(code: ProblemCode, exit: Exit) -> Problem {
        let title = format!("{code:?}");
        Problem::new(code, title).exit(exit)
    }

    fn met(writer: u64, problem: &Problem) -> (WriterId, PeerFailure) {
        (WriterId(writer), PeerFailure::of(&member(writer), problem).1)
    }

    fn reason(failures: &mut PeerFailures, met: &[(WriterId, PeerFailure)], here: u64) -> Problem {
        let met = met.iter().map(|(writer, failure)| (*writer, failure));
        failures.take_reason(met, |writer| writer == WriterId(here))
    }

    /// Promise: a transfer whose target is full waits for room, whatever errors other peers have
    /// had since (E3); the reason names the peer once.
    #[test]
    fn e3_a_full_target_is_the_reason_before_all_others() {
        let full = problem(ProblemCode::TargetFull, Exit::Temporary);
        let lost = problem(ProblemCode::PeerLost, Exit::Temporary);
        let broken = problem(ProblemCode::Internal, Exit::Usage);
        let mut failures = PeerFailures::default();
        failures.handle(broken.clone());
        let met = [met(1, &lost), met(2, &named(&member(2), full)), met(3, &broken)];
        let why = reason(&mut failures, &met, 1);
        assert_eq!(why.code, ProblemCode::TargetFull);
        assert_eq!(why.title, "peer `peer-2`: TargetFull");
    }

    /// Promise: an error that ends a transfer at one peer does not end it where a present peer has
    /// met one that passes; without such a peer it does.
    #[test]
    fn a_final_error_ends_a_transfer_only_where_no_present_peer_may_do_better() {
        let lost = problem(ProblemCode::PeerLost, Exit::Temporary);
        let broken = problem(ProblemCode::Internal, Exit::Usage);
        let met = [met(1, &lost), met(2, &broken)];
        let mut failures = PeerFailures::default();
        failures.handle(broken.clone());
        let why = reason(&mut failures, &met, 1);
        assert_eq!((why.code, why.exit), (ProblemCode::PeerLost, Exit::Temporary));
        assert_eq!(why.title, "PeerLost; and at another peer: Internal");
        failures.handle(broken.clone());
        assert_eq!(reason(&mut failures, &met, 2), broken, "the other peer has gone");
        assert_eq!(reason(&mut failures, &[], 2).code, ProblemCode::NoPeer, "a reason serves once");
    }

    /// Promise: a peer is left alone by the kind of its failure: for a fixed time if the target is
    /// full, and until it is another process if waiting does not help.
    #[test]
    fn the_kind_of_a_failure_follows_from_the_problem() {
        let kind = |code, exit| PeerFailure::of(&member(1), &problem(code, exit)).0;
        assert_eq!(kind(ProblemCode::TargetFull, Exit::Temporary), Failure::Full);
        assert_eq!(kind(ProblemCode::PeerLost, Exit::Temporary), Failure::Passing);
        assert_eq!(kind(ProblemCode::Internal, Exit::NotAuthorised), Failure::Untrusted);
        assert_eq!(kind(ProblemCode::Internal, Exit::Usage), Failure::Final);
        assert_eq!(loss_of(&ProblemCode::TaskHangs), Some(Loss::Hung));
        assert_eq!(loss_of(&ProblemCode::GrantOver), Some(Loss::Lapsed));
        assert_eq!(loss_of(&ProblemCode::TargetFull), None);
    }
}
