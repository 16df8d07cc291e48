//! The tasks of a run, one at each peer that takes part.
//!
//! Peers join, are drained, break, fall silent and return during a run. Calls that may block
//! (starting a task at another host, stopping one) have a thread of their own, and the run polls
//! the results. A peer whose task breaks is taken out as long as another peer remains. It is
//! retried later under another number: its reports count, and the work that it had is missing. A
//! peer that falls silent is taken out when its grant has lapsed (B1, B4).

mod figures;
mod full;
pub(super) mod hung;
mod left_out;
mod news;
mod settled;
mod silent;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use penstock_api::heads::{HeadCommit, HeadStore};
use penstock_api::peers::{Member, PartNews, Peers};
use penstock_api::problem::{Exit, Problem};
use penstock_api::rpc::task::{PEER_LOST, TASK_HANGS, TASK_UNKNOWN};
use penstock_api::task::{Adopted, TARGET_FULL, Task, TaskFigures, TaskSpec, TaskStart};
use penstock_engine::transfer::{Joining as JoiningPeer, Phase, TransferMachine};
use penstock_proto::id::{PeerNumber, WriterId};

use super::any_peer::{in_order, nobody};
use super::control::RunControl;
use super::input::{FindSource, RunInput};
use super::journal::DurableSet as Kept;
use super::peer_session::PeerSession as Part;
use super::shared::RunShared as Shared;
use super::shares::Shares;
use super::temp_cleanup::touched_pages::InWork;
use figures::add_figures;
use hung::ends_within;
use settled::Settled;
use silent::Silence;
use source::SourceWatch;

/// Interval at which the list of present peers is polled.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Wait before a peer whose task broke is retried: doubled from the first to the last.
const AWAY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));
/// The first wait of one that was not trusted: where the sites trust each other, and other peers
/// of this one work, it or the other end has not heard of a pairing yet.
const AWAY_UNTRUSTED: Duration = Duration::from_secs(1);
/// Time for which pieces that peers may have written for an earlier controller are not handed out.
/// Pieces that they do not report in that time are fetched again. Peers join within a fraction of a
/// second.
const ADOPTION_WAIT: Duration = Duration::from_secs(3);
/// The longest time that the end of a run waits for a task that is about to begin.
const COMING_MAX: Duration = Duration::from_secs(30);
/// Codes of problems after which the peer's actions are unknown: its process has ended, or is out
/// of reach.
const LOST: [&str; 4] = [PEER_LOST, TASK_UNKNOWN, "grant-over", TASK_HANGS];
/// Name in the journal of the set of complete pages in which a peer may have left something.
const LEFT: &str = "left";

/// A task at work.
struct Working {
    member: Member,
    part: Arc<Part>,
    task: Arc<dyn Task>,
    is_draining: bool,
}

/// A peer that is about to join.
struct Coming {
    member: Member,
    part: Arc<Part>,
    started: JoinHandle<Result<Started, Problem>>,
}

struct Started {
    start: TaskStart,
    task: Arc<dyn Task>,
}

/// A task that is being stopped.
struct Ending {
    member: Member,
    part: Arc<Part>,
    task: Arc<dyn Task>,
    stopped: JoinHandle<()>,
    /// Set if the last reports of the peer do not count.
    is_lost: bool,
    why: String,
}

/// A peer that is not retried for a while.
struct Away {
    instance: u64,
    /// Time of the next retry; `None` until its process is another one.
    until: Option<Instant>,
    wait: Duration,
    why: String,
    /// The temporary error that the peer met; `None` once it takes part again.
    passing: Option<Problem>,
}

/// The inputs of the tasks of a run.
pub(super) struct TaskParts {
    pub(super) peers: Arc<dyn Peers>,
    pub(super) shared: Arc<Shared>,
    pub(super) heads: Arc<dyn HeadStore>,
    /// The task for every peer; its writer, epoch and grant are not set yet.
    pub(super) spec: TaskSpec,
    /// The epoch of each writer in the heads.
    pub(super) epochs: BTreeMap<WriterId, u64>,
    /// The places where writers of an earlier run may have left something.
    pub(super) in_work: InWork,
    /// Directory of the transfer in the journal store.
    pub(super) journal: PathBuf,
    /// Receives events about peers.
    pub(super) control: Arc<RunControl>,
    /// Finds the source's peers again.
    pub(super) find_source: Option<FindSource>,
}

impl TaskParts {
    pub(super) fn of(
        input: &RunInput,
        shared: &Arc<Shared>,
        spec: &TaskSpec,
        epochs: BTreeMap<WriterId, u64>,
        in_work: InWork,
    ) -> Self {
        let (peers, heads) = (Arc::clone(&input.peers), Arc::clone(&input.heads));
        let (spec, journal) = (spec.clone(), input.journal.clone());
        let (shared, control) = (Arc::clone(shared), Arc::clone(&input.control));
        let find_source = input.find_source.clone();
        Self { peers, shared, heads, spec, epochs, in_work, journal, control, find_source }
    }
}

/// All tasks of a run.
pub(super) struct Tasks {
    parts: TaskParts,
    working: Vec<Working>,
    coming: Vec<Coming>,
    ending: Vec<Ending>,
    away: BTreeMap<WriterId, Away>,
    next: u16,
    looked: Instant,
    /// Peers that were present at the first look and have not joined yet. Any other peer joins in
    /// the middle of the run, which is an event.
    expected: Option<BTreeSet<WriterId>>,
    /// Figures of tasks that are over.
    over: TaskFigures,
    /// Pages in which a writer that no longer takes part may have left something.
    left_overs: BTreeMap<WriterId, BTreeSet<u32>>,
    /// Complete pages in which writers may have left something: no head tells the next controller
    /// of them.
    left: Kept<(WriterId, u32)>,
    /// Writers that may still write earlier work, and writers that do not.
    settled: Settled,
    /// The share of each peer in the limits of the transfer.
    shares: Shares,
    last: Option<Problem>,
    /// Set if the event that a peer hangs was recorded.
    hangs: bool,
    /// Peers that could not take part, as recorded last.
    left_out: BTreeMap<String, String>,
    /// Abandoned peers that may still write.
    silence: Silence,
    /// The addresses of the source's peers.
    source: SourceWatch,
}

fn unfit() -> Problem {
    Problem::new(Exit::Fatal, "sync", "the target store failed to sync several times")
        .hint("look at the kernel log of the target host for I/O errors")
}

/// Returns the task for one peer.
pub(super) fn spec_for(
    spec: &TaskSpec,
    epochs: &BTreeMap<WriterId, u64>,
    member: &Member,
    grant: Option<Duration>,
) -> TaskSpec {
    TaskSpec {
        writer: member.writer,
        epoch: epochs.get(&member.writer).copied().unwrap_or(0),
        // The controller's own stops with the controller.
        grant: grant.filter(|_| !member.is_own),
        ..spec.clone()
    }
}

impl Tasks {
    /// Starts the task of the first peer, which was prepared already.
    pub(super) fn begin(
        parts: TaskParts,
        first: Member,
        start: TaskStart,
    ) -> Result<Self, Problem> {
        let shares = Shares::new(&parts.spec, parts.peers.now().0);
        let left = Kept::open(&parts.journal, LEFT, parts.spec.fence.epoch())?;
        let mut left_overs: BTreeMap<WriterId, BTreeSet<u32>> = BTreeMap::new();
        for (writer, page) in left.known() {
            left_overs.entry(*writer).or_default().insert(*page);
        }
        // A site that has had one peer may not have noted yet that it wrote.
        let writers = parts.epochs.keys().chain([&WriterId::SOLE]);
        for writer in writers.filter(|_| !parts.in_work.pages.is_empty()) {
            left_overs.entry(*writer).or_default().extend(&parts.in_work.pages);
        }
        let settled = match parts.peers.grant() {
            Some(grant) => Settled::follow(&parts, grant)?,
            None => Settled::default(),
        };
        let now = Instant::now();
        let source = SourceWatch::new(parts.find_source.clone());
        let mut tasks = Self {
            parts,
            working: Vec::new(),
            coming: Vec::new(),
            ending: Vec::new(),
            away: BTreeMap::new(),
            next: 0,
            looked: now.checked_sub(LOOK_INTERVAL).unwrap_or(now),
            expected: None,
            over: TaskFigures::default(),
            left_overs,
            left,
            settled,
            shares,
            last: None,
            hangs: false,
            left_out: BTreeMap::new(),
            silence: Silence::default(),
            source,
        };
        let part = tasks.next_part();
        let spec = tasks.spec_for(&first);
        let joined = match first.peer.start(&spec, Arc::clone(&part) as _) {
            Ok(task) => tasks.join(first, part, Started { start, task }),
            Err(problem) if tasks.grant().is_some() => {
                // Another may be able to.
                tasks.leave_alone(&first, &problem);
                tasks.last = Some(problem);
                Ok(())
            }
            Err(problem) => Err(problem),
        };
        if let Err(problem) = joined {
            tasks.stop(false);
            return Err(problem);
        }
        Ok(tasks)
    }

    fn grant(&self) -> Option<Duration> {
        self.parts.peers.grant()
    }

    fn next_part(&mut self) -> Arc<Part> {
        let working = self.working.iter().map(|working| working.part.number);
        let coming = self.coming.iter().map(|coming| coming.part.number);
        let ending = self.ending.iter().map(|ending| ending.part.number);
        let used: BTreeSet<PeerNumber> = working.chain(coming).chain(ending).collect();
        // A peer that cannot begin takes a new number at each try, so numbers repeat after weeks.
        // The greatest number is never used.
        while used.contains(&PeerNumber(self.next)) || self.next == u16::MAX {
            self.next = self.next.wrapping_add(1);
        }
        let number = PeerNumber(self.next);
        self.next = self.next.wrapping_add(1);
        let fence = self.parts.spec.fence.clone();
        Arc::new(Part::new(&self.parts.shared, &self.parts.peers, number, fence))
    }

    fn spec_for(&self, member: &Member) -> TaskSpec {
        let mut spec = spec_for(&self.parts.spec, &self.parts.epochs, member, self.grant());
        if self.grant().is_some() {
            self.shares.open(&mut spec);
        }
        spec
    }

    /// A task has started: its peer gets work from now on.
    fn join(&mut self, member: Member, part: Arc<Part>, started: Started) -> Result<(), Problem> {
        let Started { start, task } = started;
        let (adopted, incarnation) = (task.take_adopted(), task.incarnation());
        let known = self.parts.epochs.get(&member.writer).copied();
        let marker = if start.marker == u64::MAX { 0 } else { start.marker };
        let epoch = known.unwrap_or(0).max(marker);
        self.working.push(Working {
            member: member.clone(),
            part: Arc::clone(&part),
            task,
            is_draining: false,
        });
        if self.grant().is_some() {
            self.settled.handle_joined(&self.parts, &member)?;
        }
        if known.is_none() && self.grant().is_some() {
            // Every run that cleans up must know all writers.
            let epochs = vec![(member.writer, epoch)];
            let commit = HeadCommit { epochs, ..HeadCommit::default() };
            self.parts.heads.commit(self.parts.spec.transfer, &commit)?;
            self.parts.epochs.insert(member.writer, epoch);
        }
        let joining = JoiningPeer {
            // Not as it was before an earlier task ended: the last sync of that may have failed.
            incarnation,
            epoch,
            grant: self.grant().filter(|_| !member.is_own),
        };
        let now = self.parts.peers.now();
        {
            let mut machine = self.parts.shared.machine();
            machine.handle_joined(part.number, joining, now);
            if let Some(adopted) = adopted {
                self.adopt(&mut machine, &member, &part, adopted);
            }
        }
        part.join();
        if let Some(away) = self.away.get_mut(&member.writer) {
            away.passing = None;
        }
        self.silence.handle_joined(&member);
        if self.grant().is_some() {
            tracing::info!(
                transfer = %self.parts.spec.transfer, peer = member.name,
                "a peer takes part"
            );
            self.tell_joined(&member);
            self.shares.handle_joined(part.number, now);
            self.tell_shares();
        }
        Ok(())
    }

    /// Takes over the work that a peer did for an earlier controller, before any peer receives a
    /// part of it.
    fn adopt(&self, machine: &mut TransferMachine, member: &Member, part: &Part, adopted: Adopted) {
        let Adopted { epoch, granted, reports } = adopted;
        part.note_adopted(&reports);
        // With a store that is older than the ledger nothing is believed unseen (A5).
        if self.parts.spec.doubt || !(granted || epoch == self.settled.follows()) {
            return;
        }
        let pieces = reports.len();
        let bytes = machine.handle_adopted(part.number, reports);
        tracing::info!(
            transfer = %self.parts.spec.transfer, peer = member.name, pieces, bytes, epoch,
            "what it wrote for an earlier controller is taken over"
        );
    }

    /// Returns how many batches of reports of each peer the machine knows.
    pub(super) fn reported(&self) -> Vec<(PeerNumber, u64)> {
        let parts = self.working.iter().map(|working| &working.part);
        parts.map(|part| (part.number, part.reported())).collect()
    }

    /// Tells the tasks that these batches of reports are committed.
    pub(super) fn note_committed(&self, reported: &[(PeerNumber, u64)]) {
        if self.grant().is_none() {
            return;
        }
        for working in &self.working {
            let number = working.part.number;
            if let Some((_, batches)) = reported.iter().find(|(other, _)| *other == number) {
                working.task.committed(*batches);
            }
        }
    }

    /// Makes tasks ask again that found nothing to do.
    pub(super) fn wake(&self) {
        self.working.iter().for_each(|working| working.task.wake());
    }

    /// Sends peers their shares of the common limits.
    fn tell_shares(&mut self) {
        let news = self.shares.poll(self.parts.peers.now());
        for (number, share) in news {
            if let Some(it) = self.working.iter().find(|it| it.part.number == number) {
                it.task.set_share(&share);
            }
        }
    }

    /// Sets the rate that all of them may have together.
    pub(super) fn set_rate(&mut self, rate: Option<u64>) {
        self.shares.set_rate(rate, self.parts.peers.now());
        match &self.working[..] {
            [only] if self.grant().is_none() => only.task.set_share(&self.shares.whole()),
            _ => self.tell_shares(),
        }
    }

    /// Everything that the ledger knows has been looked at again.
    pub(super) fn doubt_is_over(&mut self) {
        self.parts.spec.doubt = false;
        self.working.iter().for_each(|working| working.task.doubt_is_over());
    }

    /// Updates the list of participating peers and takes over the results of their threads. Returns
    /// the reason why the run cannot continue, if no peer is left. Blocks for no longer than a
    /// commit of heads.
    pub(super) fn tend(&mut self) -> Result<Option<Problem>, Problem> {
        self.end_hung();
        self.tell_source();
        if self.grant().is_none() {
            let broken = self.working.iter().find_map(|working| working.part.take_broken());
            return Ok(broken.or_else(|| self.is_unfit().then(unfit)));
        }
        self.end_lapsed();
        self.end_broken();
        self.end_drained();
        self.take_ended();
        self.settled.look(&self.parts);
        self.take_started()?;
        if self.looked.elapsed() >= LOOK_INTERVAL {
            self.looked = Instant::now();
            self.look_around();
        }
        let nobody_left = self.working.is_empty() && self.coming.is_empty();
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
            let gone = self.working.iter().find(|working| working.part.number == number);
            let name = gone.map(|working| working.member.name.as_str()).unwrap_or_default();
            let lost = Problem::new(Exit::Temporary, PEER_LOST, format!("peer `{name}` is lost"))
                .because("it was not heard of for as long as it may write");
            self.take_out(number, true, lost);
        }
        for number in failing {
            self.take_out(number, false, unfit());
        }
    }

    fn end_broken(&mut self) {
        let broken = self
            .working
            .iter()
            .filter_map(|working| Some((working.part.number, working.part.take_broken()?)));
        for (number, problem) in broken.collect::<Vec<_>>() {
            self.take_out(number, LOST.contains(&problem.code.as_str()), problem);
        }
    }

    fn end_drained(&mut self) {
        let drained = {
            let machine = self.parts.shared.machine();
            let done =
                |working: &&Working| working.is_draining && machine.is_drained(working.part.number);
            self.working.iter().filter(done).map(|working| working.part.number).collect::<Vec<_>>()
        };
        for number in drained {
            if let Some(member) = self.end(number, false, "drained".to_owned()) {
                self.tell(&member, &PartNews::Drained);
            }
        }
    }

    /// A peer goes, and is tried again later.
    fn take_out(&mut self, number: PeerNumber, is_lost: bool, problem: Problem) {
        let Some(working) = self.working.iter().find(|working| working.part.number == number)
        else {
            return;
        };
        let member = working.member.clone();
        let problem = full::at(&member, problem);
        tracing::warn!(
            transfer = %self.parts.spec.transfer, peer = member.name, %problem,
            "a peer is taken out of the run"
        );
        self.end(number, is_lost, problem.to_string());
        if is_lost && problem.code != TASK_HANGS {
            self.settled.handle_over(member.writer);
        }
        self.leave_alone(&member, &problem);
        if !self.is_expected(&problem) {
            self.tell_out(&member, problem.to_string(), is_lost, self.again(&member));
        }
        self.last = Some(problem);
    }

    fn leave_alone(&mut self, member: &Member, problem: &Problem) {
        let before = self.away.get(&member.writer).map(|away| away.wait);
        let untrusted = problem.exit == Exit::NotAuthorised;
        let first = if untrusted { AWAY_UNTRUSTED } else { AWAY.0 };
        let passes = problem.exit == Exit::Temporary;
        let wait = match before {
            _ if problem.code == TARGET_FULL => AWAY.1,
            Some(wait) => (wait * 2).min(AWAY.1),
            None => first,
        };
        let away = Away {
            instance: member.instance,
            until: (passes || untrusted).then(|| Instant::now() + wait),
            wait,
            why: problem.to_string(),
            passing: passes.then(|| full::at(member, problem.clone())),
        };
        self.away.insert(member.writer, away);
    }

    /// Begins to stop a task. Its work goes to other peers when the task has ended, or at once if
    /// it is lost. Returns the peer.
    fn end(&mut self, number: PeerNumber, is_lost: bool, why: String) -> Option<Member> {
        let at = self.working.iter().position(|working| working.part.number == number)?;
        let Working { member, part, task, .. } = self.working.swap_remove(at);
        let gone = member.clone();
        if is_lost {
            part.end();
            self.parts.shared.machine().handle_lost(number);
            self.silence.handle_lost(&member);
        }
        let stopping = Arc::clone(&task);
        let shared = Arc::clone(&self.parts.shared);
        let stopped = std::thread::Builder::new().name("stop".to_owned()).spawn(move || {
            stopping.stop(is_lost);
            shared.notify();
        });
        match stopped {
            Ok(stopped) => {
                self.ending.push(Ending { member, part, task, stopped, is_lost, why });
            }
            Err(error) => {
                tracing::warn!(%error, "no thread to stop a task");
                task.stop(is_lost);
                self.settle(&member, &part, &*task, is_lost);
            }
        }
        Some(gone)
    }

    fn take_ended(&mut self) {
        let mut ending = std::mem::take(&mut self.ending);
        for ended in ending.extract_if(.., |ending| ending.stopped.is_finished()) {
            let _ = ended.stopped.join();
            self.settle(&ended.member, &ended.part, &*ended.task, ended.is_lost);
        }
        self.ending = ending;
    }

    /// Settles a task that is over. A task that was to end in order, and was silent meanwhile or
    /// has left a thread in a system call, counts as lost all the same: its last write may come
    /// late (B1).
    fn settle(&mut self, member: &Member, part: &Part, task: &dyn Task, is_lost: bool) {
        part.end();
        let said = part.take_broken().map(|said| said.code).unwrap_or_default();
        if !is_lost && said != TASK_HANGS {
            self.settled.handle_over(member.writer);
        }
        let is_lost = is_lost || LOST.contains(&said.as_str());
        if is_lost {
            self.silence.handle_lost(member);
        }
        {
            let mut machine = self.parts.shared.machine();
            match is_lost {
                true => machine.handle_lost(part.number),
                false => machine.handle_left(part.number),
            }
        }
        add_figures(&mut self.over, task.figures());
        // Until now the task used its share, and the work that it had asked for.
        self.shares.handle_left(part.number);
        self.tell_shares();
        self.left_overs.entry(member.writer).or_default().extend(part.take_pages());
    }

    fn take_started(&mut self) -> Result<(), Problem> {
        let mut coming = std::mem::take(&mut self.coming);
        let ready: Vec<Coming> =
            coming.extract_if(.., |coming| coming.started.is_finished()).collect();
        self.coming = coming;
        for Coming { member, part, started } in ready {
            let broken = || Problem::new(Exit::Unclassified, "internal", "its thread broke");
            match started.join().unwrap_or_else(|_| Err(broken())) {
                Ok(started) => self.join(member, part, started)?,
                Err(problem) => {
                    tracing::warn!(peer = member.name, %problem, "a peer cannot take part");
                    self.tell_refused(&member, &problem);
                    self.last = Some(problem);
                }
            }
        }
        Ok(())
    }

    /// Starts tasks at new peers, and marks peers that are draining.
    fn look_around(&mut self) {
        let present = in_order(&*self.parts.peers);
        self.expect(&present);
        self.note_left_out();
        let restarted: Vec<PeerNumber> = self
            .working
            .iter()
            .filter(|working| {
                let ours = &working.member;
                present
                    .iter()
                    .any(|member| member.writer == ours.writer && member.instance != ours.instance)
            })
            .map(|working| working.part.number)
            .collect();
        for number in restarted {
            let why = "it was restarted".to_owned();
            if let Some(member) = self.end(number, true, why.clone()) {
                self.settled.handle_over(member.writer);
                self.tell_out(&member, why, true, Some(Duration::ZERO));
            }
        }
        // Draining peers are used if no other peer is present.
        let stays = present.iter().any(|member| !member.is_draining && !self.is_away(member));
        for member in present {
            let full = self.taking() >= self.shares.peers_max();
            let known = self.working.iter_mut().find(|known| known.member.writer == member.writer);
            match known {
                Some(known) if member.is_draining && stays && !known.is_draining => {
                    known.is_draining = true;
                    self.parts.shared.machine().handle_draining(known.part.number);
                }
                Some(_) => {}
                None if member.is_draining && stays => {}
                None if full => {}
                None => self.invite(member),
            }
        }
        self.rest();
    }

    /// Returns how many peers take part, or are about to.
    fn taking(&self) -> usize {
        self.coming.len() + self.working.iter().filter(|working| !working.is_draining).count()
    }

    /// Releases peers for which the limits have no room any more.
    fn rest(&mut self) {
        let surplus = self.taking().saturating_sub(self.shares.peers_max());
        let others = self.working.iter_mut().rev().filter(|working| !working.is_draining);
        for working in others.take(surplus) {
            working.is_draining = true;
            self.parts.shared.machine().handle_draining(working.part.number);
        }
    }

    fn is_away(&self, member: &Member) -> bool {
        self.away.get(&member.writer).is_some_and(|away| {
            away.instance == member.instance
                && away.until.is_none_or(|until| Instant::now() < until)
        })
    }

    fn invite(&mut self, member: Member) {
        let busy = self.coming.iter().map(|coming| &coming.member);
        let busy = busy.chain(self.ending.iter().map(|ending| &ending.member));
        let known = busy.into_iter().any(|known| known.writer == member.writer);
        if known || self.is_away(&member) {
            return;
        }
        let part = self.next_part();
        let spec = self.spec_for(&member);
        let (peer, control) = (Arc::clone(&member.peer), Arc::clone(&part));
        let shared = Arc::clone(&self.parts.shared);
        let started = std::thread::Builder::new().name("join".to_owned()).spawn(move || {
            let start = peer.prepare(&spec)?;
            if start.marker < spec.epoch && !spec.doubt {
                let title = "the store is older there than the ledger";
                return Err(Problem::new(Exit::Temporary, "store-offline", title));
            }
            if start.mounts != spec.mounts {
                // A missing mount is an error that the peer itself reports.
                let title = "more is mounted there, where the data set goes, than at other peers";
                return Err(Problem::new(Exit::Temporary, "store-offline", title));
            }
            let told = Arc::clone(&control);
            let task = peer.start(&spec, told)?;
            if control.is_over() {
                // The run has ended meanwhile, and does not wait for a peer that may hang.
                task.stop(true);
                return Err(nobody());
            }
            shared.notify();
            Ok(Started { start, task })
        });
        match started {
            Ok(started) => self.coming.push(Coming { member, part, started }),
            Err(error) => tracing::warn!(%error, "no thread to start a task"),
        }
    }

    /// Records the writers that may have left something in pages that are about to be committed as
    /// complete.
    ///
    /// # Errors
    /// The journal store cannot be written.
    pub(super) fn keep_left(&mut self, complete: &BTreeSet<u32>) -> Result<(), Problem> {
        let mut found = Vec::new();
        // Links are made in pages that were complete long before.
        let phase = self.parts.shared.machine().phase();
        let is_tail = !matches!(phase, Phase::Moving | Phase::Asking);
        for (writer, pages) in &self.left_overs {
            let pages = pages.iter().filter(|page| is_tail || complete.contains(page));
            found.extend(pages.map(|page| (*writer, *page)));
        }
        let working = self.working.iter().map(|working| (&working.member, &working.part));
        let ending = self.ending.iter().map(|ending| (&ending.member, &ending.part));
        for (member, part) in working.chain(ending) {
            found.extend(part.left_in(complete).into_iter().map(|page| (member.writer, page)));
        }
        self.left.add(found)
    }

    /// Pages are complete.
    pub(super) fn forget_pages(&self, pages: &BTreeSet<u32>) {
        self.working.iter().for_each(|working| working.part.forget(pages));
    }

    /// Epochs were committed.
    pub(super) fn note_epochs(&mut self, epochs: &[(WriterId, u64)]) {
        self.parts.epochs.extend(epochs.iter().copied());
    }

    /// Stops all of them; waits for that.
    pub(super) fn stop(&mut self, discard: bool) {
        let (coming, most) = (std::mem::take(&mut self.coming), self.coming_max());
        coming.iter().for_each(|coming| coming.part.end());
        for Coming { member, started, .. } in coming {
            if ends_within(&started, most) {
                if let Ok(Ok(Started { task, .. })) = started.join() {
                    task.stop(true);
                    self.silence.handle_joined(&member);
                }
            } else {
                tracing::error!(peer = member.name, "a peer hangs while it begins its task");
            }
        }
        // The last report of the task shows how it ends.
        let hangs = |working: &Working| {
            working.part.take_broken().is_some_and(|said| said.code == TASK_HANGS)
        };
        let hung: Vec<bool> = self.working.iter().map(hangs).collect();
        match &self.working[..] {
            [only] => only.task.stop(discard),
            all => std::thread::scope(|scope| {
                for working in all {
                    let stop = || working.task.stop(discard);
                    if std::thread::Builder::new().spawn_scoped(scope, stop).is_err() {
                        stop();
                    }
                }
            }),
        }
        for ending in std::mem::take(&mut self.ending) {
            let _ = ending.stopped.join();
            self.settle(&ending.member, &ending.part, &*ending.task, ending.is_lost);
        }
        for (working, hung) in self.working.iter().zip(hung) {
            if !hung && !hangs(working) {
                self.settled.handle_over(working.member.writer);
            }
        }
    }

    /// Leaves the tasks to the next controller, because this one is deposed and can commit nothing
    /// more. Reports that were not confirmed to the tasks are for the next controller. Tasks with a
    /// grant continue until it takes over.
    pub(super) fn leave(&mut self) {
        self.coming.clear();
        self.ending.clear();
        // Its own ends, which may take a moment.
        self.working.sort_by_key(|working| working.member.is_own);
        self.working.iter().for_each(|working| working.task.leave());
    }

    /// Returns whether an earlier run may have left links incomplete.
    pub(super) fn links_in_doubt(&self) -> bool {
        self.parts.in_work.links
    }

    /// Returns all writers, with the open pages in which a writer that no longer takes part may
    /// have left something.
    pub(super) fn left_overs(&self) -> BTreeMap<WriterId, BTreeSet<u32>> {
        let mut all = self.left_overs.clone();
        if self.grant().is_none() {
            all.insert(WriterId::SOLE, BTreeSet::new());
        }
        for writer in self.parts.epochs.keys() {
            all.entry(*writer).or_default();
        }
        for working in &self.working {
            all.entry(working.member.writer).or_default().extend(working.part.take_pages());
        }
        all
    }
}
