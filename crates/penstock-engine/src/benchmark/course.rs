//! The course of a benchmark: every peer is ready before any of them begins a step.
//!
//! May not: have a peer run a step that another one has not prepared; order anything after a
//! failure but the end.

/// An order for all peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CourseOrder {
    /// Prepare the step of this number.
    Prepare(usize),
    /// Run the step that is prepared.
    Run(usize),
    /// Remove all files: the benchmark is over.
    End,
}

/// The end of a barrier for one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Preparing,
    Running,
    Ending,
    Over,
}

/// The course of a benchmark of several peers.
#[derive(Debug)]
pub struct Course {
    steps: usize,
    step: usize,
    phase: Phase,
    /// Peers that have answered the present order.
    answered: Vec<bool>,
    ordered: bool,
    has_failed: bool,
}

impl Course {
    /// Begins a course of `steps` steps for `peers` peers.
    pub fn new(steps: usize, peers: usize) -> Self {
        let (answered, phase) = (vec![false; peers], Phase::Preparing);
        Self { steps, step: 0, phase, answered, ordered: false, has_failed: false }
    }

    /// Returns the next order, once; `None` while answers to the last one are missing.
    pub fn poll_order(&mut self) -> Option<CourseOrder> {
        if self.ordered {
            return None;
        }
        if self.phase == Phase::Preparing && (self.has_failed || self.step >= self.steps) {
            self.phase = Phase::Ending;
        }
        let order = match self.phase {
            Phase::Preparing => CourseOrder::Prepare(self.step),
            Phase::Running => CourseOrder::Run(self.step),
            Phase::Ending => CourseOrder::End,
            Phase::Over => return None,
        };
        self.ordered = true;
        Some(order)
    }

    /// Handles the answer of a peer to the last order. `succeeded` is false if the peer could not
    /// carry the order out, or is lost.
    pub fn handle_answer(&mut self, peer: usize, succeeded: bool) {
        self.has_failed |= !succeeded;
        if let Some(answered) = self.answered.get_mut(peer) {
            *answered = true;
        }
        if !self.ordered || !self.answered.iter().all(|answered| *answered) {
            return;
        }
        self.answered.fill(false);
        self.ordered = false;
        self.phase = match self.phase {
            Phase::Ending | Phase::Over => Phase::Over,
            _ if self.has_failed => Phase::Ending,
            Phase::Preparing => Phase::Running,
            Phase::Running => {
                self.step += 1;
                Phase::Preparing
            }
        };
    }

    /// Has all peers prepare and run the last step once more. Does nothing after a failure.
    pub fn handle_again(&mut self) {
        if self.phase == Phase::Preparing && !self.ordered && !self.has_failed {
            self.step = self.step.saturating_sub(1);
        }
    }

    /// Ends the course after the answers to the present order.
    pub fn handle_cancel(&mut self) {
        self.has_failed = true;
        if !self.ordered && self.phase != Phase::Over {
            self.phase = Phase::Ending;
        }
    }

    /// Returns whether the last order was answered.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }
}

#[cfg(test)]
mod tests {
    use super::CourseOrder::{End, Prepare, Run};
    use super::*;

    /// Promise: no peer begins a step before all are ready for it, and each step runs once.
    #[test]
    fn all_peers_begin_a_step_together() {
        let mut course = Course::new(2, 2);
        for order in [Prepare(0), Run(0), Prepare(1), Run(1), End] {
            assert_eq!(course.poll_order(), Some(order));
            assert_eq!(course.poll_order(), None, "an order is given once");
            course.handle_answer(1, true);
            assert_eq!(course.poll_order(), None, "peer 0 has not answered {order:?}");
            course.handle_answer(0, true);
        }
        assert!(course.is_over() && course.poll_order().is_none());
    }

    /// Promise: a step is repeated with all its barriers, and not after a failure.
    #[test]
    fn a_step_is_done_again() {
        let mut course = Course::new(2, 1);
        for order in [Prepare(0), Run(0)] {
            assert_eq!(course.poll_order(), Some(order));
            course.handle_answer(0, true);
        }
        course.handle_again();
        for order in [Prepare(0), Run(0), Prepare(1)] {
            assert_eq!(course.poll_order(), Some(order));
            course.handle_answer(0, order != Prepare(1));
        }
        course.handle_again();
        assert_eq!(course.poll_order(), Some(End));
    }

    /// Promise: after a failure, or when it is cancelled, all peers remove their files, and nothing
    /// else is begun.
    #[test]
    fn a_failure_leads_to_the_end() {
        for failing in [0, 1] {
            let mut course = Course::new(3, 2);
            assert_eq!(course.poll_order(), Some(Prepare(0)));
            course.handle_answer(failing, false);
            assert_eq!(course.poll_order(), None, "the other peer is at work");
            course.handle_answer(1 - failing, true);
            assert_eq!(course.poll_order(), Some(End));
            (0..2).for_each(|peer| course.handle_answer(peer, false));
            assert!(course.is_over());
        }
        let mut course = Course::new(3, 1);
        course.handle_cancel();
        assert_eq!(course.poll_order(), Some(End));
        let mut course = Course::new(3, 1);
        assert_eq!(course.poll_order(), Some(Prepare(0)));
        course.handle_cancel();
        course.handle_answer(0, true);
        assert_eq!(course.poll_order(), Some(End));
    }
}
