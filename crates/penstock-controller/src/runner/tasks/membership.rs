//! Peers that join, leave, break and drain, as the run polls them.

use std::collections::BTreeMap;
use std::time::{self, Duration};

use penstock_api::peers::{Member, PartNews};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::task::{TaskFigures, TaskStart};
use penstock_engine::writers::{Loss, PresentPeer, WriterRegistry};
use penstock_proto::id::{PeerNumber, WriterId};

use super::source::SourceWatch;
use super::stopping::loss_of;
use super::task_set::{PeerTask, Stage, TaskParts, TaskSet, seen};
use super::writers::follow;
use crate::runner::any_peer::in_order;
use crate::runner::journal::WriterRecord;
use crate::runner::shares::Shares;

/// Interval at which the list of present peers is polled.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

fn unfit() -> Problem {
    Problem::new(ProblemCode::Sync, "the target store failed to sync several times")
        .hint("check the kernel log of the target host for I/O errors")
}

impl TaskSet {
    /// Starts the task of the first peer, which was prepared already.
    pub(crate) fn begin(
        parts: TaskParts,
        first: Member,
        start: TaskStart,
    ) -> Result<Self, Problem> {
        let shares = Shares::new(&parts.spec, parts.peers.now().0);
        let mut record = WriterRecord::open(&parts.journal, parts.spec.fence.epoch())?;
        let mut registry = match parts.peers.grant() {
            Some(grant) => follow(&parts, &mut record, grant)?,
            None => WriterRegistry::default(),
        };
        for (writer, page) in record.left() {
            registry.handle_left_pages(*writer, [*page]);
        }
        // A site that has had one peer may not have noted yet that it wrote.
        for writer in parts.epochs.keys().chain([&WriterId::SOLE]) {
            registry.handle_left_pages(*writer, parts.in_work.pages.iter().copied());
        }
        let now = time::Instant::now();
        let source = SourceWatch::new(parts.find_source.clone());
        let mut tasks = Self {
            parts,
            registry,
            tasks: BTreeMap::new(),
            record,
            began: now,
            looked: now.checked_sub(LOOK_INTERVAL).unwrap_or(now),
            over: TaskFigures::default(),
            shares,
            last: None,
            excluded: BTreeMap::new(),
            source,
        };
        if let Err(problem) = tasks.start_first(first, start) {
            tasks.stop(false);
            return Err(problem);
        }
        Ok(tasks)
    }

    /// Updates the list of participating peers and takes over the results of their threads. Returns
    /// the reason why the run cannot continue, if no peer is left. Blocks for no longer than a
    /// commit of heads.
    pub(crate) fn tend(&mut self) -> Result<Option<Problem>, Problem> {
        self.end_hung();
        self.tell_source();
        if self.grant().is_none() {
            let broken = self.running().find_map(|(_, it, _)| it.session.take_broken());
            return Ok(broken.or_else(|| self.is_unfit().then(unfit)));
        }
        self.end_lapsed();
        self.end_broken();
        self.end_drained();
        self.take_ended();
        self.end_wait_for_writers();
        self.take_started()?;
        if self.looked.elapsed() >= LOOK_INTERVAL {
            self.looked = time::Instant::now();
            self.look_around();
        }
        let takes_part = |it: &PeerTask| !matches!(it.stage, Stage::Stopping { .. });
        let nobody_left = !self.tasks.values().any(takes_part);
        Ok(nobody_left.then(|| self.why_nobody_is_left()))
    }

    fn is_unfit(&self) -> bool {
        self.parts.shared.machine().is_broken()
    }

    /// Takes peers out whose grant has lapsed, or whose stores fail.
    fn end_lapsed(&mut self) {
        let now = self.parts.peers.now();
        let (lapsed, failing) = {
            let mut machine = self.parts.shared.machine();
            (machine.poll_lapsed(now), machine.unfit())
        };
        for number in lapsed {
            let name = self.tasks.get(&number).map(|it| it.member.name.as_str());
            let title = format!("peer `{}` is lost", name.unwrap_or_default());
            let lost = Problem::new(ProblemCode::PeerLost, title)
                .because("it sent no message for the whole duration of its grant");
            self.take_out(number, Some(Loss::Lapsed), lost);
        }
        for number in failing {
            self.take_out(number, None, unfit());
        }
    }

    fn end_broken(&mut self) {
        let broken = self.running();
        let broken = broken.filter_map(|(number, it, _)| Some((number, it.session.take_broken()?)));
        for (number, problem) in broken.collect::<Vec<_>>() {
            self.take_out(number, loss_of(&problem.code), problem);
        }
    }

    fn end_drained(&mut self) {
        let drained: Vec<PeerNumber> = {
            let machine = self.parts.shared.machine();
            let numbers = self.running().map(|(number, ..)| number);
            let done = |number: &PeerNumber| {
                self.registry.is_draining(*number) && machine.is_drained(*number)
            };
            numbers.filter(done).collect()
        };
        for number in drained {
            if let Some(member) = self.end(number, None, "drained".to_owned()) {
                self.tell(&member, &PartNews::Drained);
            }
        }
    }

    /// Starts tasks at new peers, and marks peers that are draining.
    fn look_around(&mut self) {
        let members = in_order(&*self.parts.peers);
        let present: Vec<PresentPeer> = members.iter().map(seen).collect();
        self.registry.handle_begun(&present);
        self.report_excluded();
        for number in self.registry.poll_restarted(&present) {
            let why = "it was restarted".to_owned();
            if let Some(member) = self.end(number, Some(Loss::Lapsed), why.clone()) {
                self.tell_out(&member, why, true, Some(Duration::ZERO));
            }
        }
        // Draining peers are used if no other peer is present.
        let stays = self.registry.any_stays(&present, self.now());
        for (member, seen) in members.into_iter().zip(&present) {
            let most = self.shares.peers_max();
            if self.registry.may_invite(seen, stays, most, self.now()) {
                self.invite(member);
            }
        }
        let draining = self.registry.poll_draining(&present, stays);
        draining.into_iter().for_each(|number| self.drain(number));
        // The limits may have no room for some peers any more.
        let surplus = self.registry.poll_surplus(self.shares.peers_max());
        surplus.into_iter().for_each(|number| self.drain(number));
    }

    fn drain(&mut self, number: PeerNumber) {
        self.registry.handle_draining(number);
        self.parts.shared.machine().handle_draining(number);
    }
}
