//! Worlds in which several target peers share one transfer: their hosts, and the controller.
//!
//! All hosts reach the store, each through a page cache of its own. Peers ask for work and report
//! over a network that delays messages. Hosts sleep past their grants and continue in the middle of
//! a write, are cut off, lose power, are drained and join again; the controller dies.

use std::collections::BTreeSet;
use std::time::Duration;

use penstock_engine::lease::{HeldLease, lapse_after};
use penstock_engine::transfer::{Joining, LedgerCommit, Phase, TransferMachine, WindowLimits};
use penstock_proto::digest::DigestKind;
use penstock_proto::id::{PeerNumber, WriterId};
use penstock_proto::journal::Incarnation;
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::{Report, WorkReply};
use penstock_proto::units::{Instant, MIB};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::disk::Name;
use crate::journal::Journal;
use crate::oracle;
use crate::outside::{Event, Outside};
use crate::peer::Peer;
use crate::scenario::{Fault, Scenario};
use crate::source::DataSet;
use crate::{Stats, Violation};

/// Milliseconds that a world has to end after the last fault.
const PATIENCE_MS: u64 = 600_000;
/// Interval of commits: a second.
const COMMIT_NS: u64 = 1_000_000_000;

struct Host {
    writer: WriterId,
    boot: u64,
    /// Syncs that failed in its process.
    failed_syncs: u32,
    /// Incarnation under which its peer began.
    began: Incarnation,
    peer: Option<Peer>,
    /// Number of the peer with the controller whose run is `life`.
    number: PeerNumber,
    life: u64,
    /// True if its request for work is on its way.
    asking: bool,
    asleep_until: u64,
    cut_until: u64,
    slow: u64,
    /// True if its peer is to leave.
    draining: bool,
}

struct Controller {
    life: u64,
    machine: TransferMachine,
    next_number: u16,
    committing: Option<LedgerCommit>,
    /// Batches of reports that are in that commit, by task.
    reported: Vec<(u64, u64)>,
    committed_at: u64,
}

/// A seeded world of several peers.
pub(crate) struct World {
    out: Outside,
    journal: Journal,
    controller: Option<Controller>,
    hosts: Vec<Host>,
    ghosts: Vec<Peer>,
    grant: Duration,
    pages_found: u32,
    /// Writers that may have got work, noted before they did.
    writers: BTreeSet<WriterId>,
    /// Bytes that faults of peers and controllers may cost (A7).
    bytes_at_risk: u64,
}

impl World {
    pub(crate) fn new(seed: u64, scenario: &Scenario) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let data = DataSet::generate(&mut rng, scenario.trouble);
        let count = rng.random_range(2..5);
        let grant = Duration::from_millis(rng.random_range(500..5000));
        let host = |at: u64, slow: bool| Host {
            writer: WriterId(100 + at),
            boot: 1,
            failed_syncs: 0,
            began: Incarnation::default(),
            peer: None,
            number: PeerNumber(0),
            life: 0,
            asking: false,
            asleep_until: 0,
            cut_until: 0,
            slow: if slow { 20 } else { 1 },
            draining: false,
        };
        let hosts = (0..count).map(|at| host(at, at > 0 && rng.random_bool(0.3))).collect();
        let mut out = Outside::new(rng, scenario.clone(), data);
        out.disk.shared = true;
        out.after_ms(0, 100, Event::PageFound);
        out.after_ms(0, 0, Event::Restart);
        if !scenario.faults.is_empty() {
            out.after_ms(1, scenario.pause_ms, Event::NextFault);
        }
        Self {
            out,
            journal: Journal::new(),
            controller: None,
            hosts,
            ghosts: Vec::new(),
            grant,
            pages_found: 0,
            writers: BTreeSet::new(),
            bytes_at_risk: 0,
        }
    }

    /// Runs the world to its end.
    pub(crate) fn run(mut self, seed: u64) -> Result<Stats, Violation> {
        let deadline = (self.out.scenario.horizon_ms + PATIENCE_MS) * 1_000_000;
        let scenario = self.out.scenario.name;
        let mut done = false;
        while !done && self.out.violation.is_none() {
            let Some(event) = self.out.next() else {
                self.out.fail("nothing happens any more".to_owned());
                break;
            };
            if self.out.time > deadline {
                let dump = self.dump();
                self.out.fail(format!("stuck: {dump}"));
                break;
            }
            self.out.stats.events += 1;
            done = self.happen(event);
        }
        let milliseconds = self.out.time / 1_000_000;
        self.out.stats.milliseconds = milliseconds;
        match self.out.violation {
            None => Ok(self.out.stats),
            Some(what) => Err(Violation { seed, scenario, milliseconds, what }),
        }
    }

    fn dump(&self) -> String {
        let machine = self.controller.as_ref().map(|controller| &controller.machine);
        let time = self.out.time;
        let peers = self.hosts.iter().map(|host| match &host.peer {
            Some(peer) => format!(
                "{} asking {}, asleep {}, cut {}, drains {}: {}",
                host.number,
                host.asking,
                host.asleep_until > time,
                host.cut_until > time,
                host.draining,
                peer.dump()
            ),
            None => "no peer".to_owned(),
        });
        let peers: Vec<_> = peers.collect();
        format!("{}\n{machine:#?}", peers.join("\n"))
    }

    fn host_of(&self, task: u64) -> Option<usize> {
        self.hosts.iter().position(|host| host.peer.as_ref().is_some_and(|it| it.task == task))
    }

    /// Handles one event; `true` when the transfer is done.
    fn happen(&mut self, event: Event) -> bool {
        let host = event.task().and_then(|task| self.host_of(task));
        if let Some(host) = host
            && self.hosts[host].asleep_until > self.out.time
        {
            self.out.at(self.hosts[host].asleep_until, event);
            return false;
        }
        match event {
            Event::PageFound => self.page_found(),
            Event::Restart => self.start(),
            Event::NextFault => self.next_fault(),
            Event::DiskFreed => self.out.disk.full = false,
            Event::SourceBack => self.out.source_online = true,
            Event::LateWrite => {
                if let Some(mut ghost) = self.ghosts.pop() {
                    ghost.late_write(&mut self.out);
                }
            }
            Event::Join { host } => self.join(host),
            Event::Wakes { host } => self.wake(host),
            Event::Serve { task, lane, request, item } => {
                self.out.serve(task, lane, request, item);
            }
            Event::Tick { life } => return self.tick(life),
            Event::CommitDone { life } => self.commit_done(life),
            Event::Want { task, bytes, asked } => self.want(task, bytes, asked),
            event => {
                if let Some(host) = host {
                    self.peer_event(host, event);
                }
            }
        }
        false
    }

    fn peer_event(&mut self, host: usize, event: Event) {
        let out = &mut self.out;
        let it = &mut self.hosts[host];
        let Some(peer) = &mut it.peer else { return };
        match event {
            Event::LaneUp { lane, good, .. } => peer.lane_up(out, lane, good),
            Event::Refused { lane, request, .. } => peer.refused(out, lane, request),
            Event::Frame { lane, request, frame, .. } => peer.frame(out, lane, request, frame),
            Event::TailDone { work, .. } => peer.tail_done(out, &work),
            Event::SyncDone { task, epoch } => {
                let Some(good) = out.end_sync(task) else { return };
                it.failed_syncs += u32::from(!good);
                peer.synced(out, epoch, good);
            }
            Event::PublishStep { task } => {
                // The tenure of the controller that ordered it ends (B4).
                if self.controller.as_ref().is_none_or(|controller| controller.life != it.life) {
                    out.after_ms(50, 100, Event::PublishStep { task });
                    return;
                }
                peer.publish_step(out);
            }
            Event::Reports { task } => return self.deliver(host, task),
            Event::Turn { task } => return self.turn(host, task),
            Event::Answer { reply, asked, .. } => {
                it.asking = false;
                take_answer(out, peer, reply, asked);
            }
            _ => {}
        }
        if let Some(peer) = &mut self.hosts[host].peer
            && peer.may_write(&self.out)
        {
            peer.turn(&mut self.out);
        }
    }

    /// Sends a message between a host and the controller, which arrives later.
    fn send(&mut self, host: usize, event: Event) {
        let from = self.hosts[host].cut_until.max(self.out.time);
        let delay = self.out.rng.random_range(0..20_000_000);
        self.out.at(from + delay, event);
    }

    /// Lets a peer examine its state.
    fn turn(&mut self, host: usize, task: u64) {
        let out = &mut self.out;
        let it = &mut self.hosts[host];
        let Some(peer) = &mut it.peer else { return };
        if !peer.may_write(out) {
            self.end_peer(host);
            self.out.after_ms(50, 500, Event::Join { host });
            return;
        }
        peer.turn(out);
        out.after_ms(10, 60, Event::Turn { task });
        if !std::mem::replace(&mut it.asking, true) {
            let (bytes, asked) = (peer.wanted_bytes(), out.now());
            self.send(host, Event::Want { task, bytes, asked });
        }
    }

    fn want(&mut self, task: u64, bytes: u64, asked: Instant) {
        let Some(host) = self.host_of(task) else { return };
        let now = self.out.now();
        let it = &self.hosts[host];
        let same = self.controller.as_mut().filter(|controller| controller.life == it.life);
        let Some(controller) = same else {
            // No controller answers; the peer asks again.
            self.out.after_ms(100, 300, Event::Answer { task, reply: None, asked });
            return;
        };
        if !controller.machine.is_joined(it.number) {
            self.end_peer(host);
            self.out.after_ms(50, 500, Event::Join { host });
            return;
        }
        let reply = Some(controller.machine.poll_work(it.number, bytes, now));
        self.send(host, Event::Answer { task, reply, asked });
    }

    fn deliver(&mut self, host: usize, task: u64) {
        let it = &mut self.hosts[host];
        let same = self.controller.as_mut().filter(|controller| controller.life == it.life);
        let Some(controller) = same.filter(|_| it.cut_until <= self.out.time) else {
            self.out.after_ms(50, 200, Event::Reports { task });
            return;
        };
        let Some(peer) = &mut it.peer else { return };
        let (number, now) = (it.number, self.out.now());
        if !controller.machine.is_joined(number) {
            return;
        }
        let reports = peer.hand_over();
        let failed = reports.iter().any(|report| matches!(report, Report::SyncFailed { .. }));
        if failed {
            self.stake(host);
        }
        if let Some(controller) = &mut self.controller {
            controller.machine.handle_reports(number, reports, now);
        }
    }

    /// Ends the task of a peer; the controller may not know yet.
    fn end_peer(&mut self, host: usize) -> Option<Peer> {
        self.stake(host);
        let it = &mut self.hosts[host];
        it.asking = false;
        let peer = it.peer.take()?;
        self.out.end_task(peer.task);
        // Its threads are joined, including the one that waits for a sync.
        it.failed_syncs += u32::from(self.out.end_sync(peer.task) == Some(false));
        Some(peer)
    }

    /// Counts the bytes that the end of a peer, or a failed sync there, may cost.
    fn stake(&mut self, host: usize) {
        let Some(peer) = &mut self.hosts[host].peer else { return };
        let (journal, out) = (&self.journal, &self.out);
        peer.wrote.retain(|piece| !oracle::is_durable(journal, out, *piece));
        let mut pieces: BTreeSet<PieceRef> = peer.pieces_in_hand().collect();
        pieces.extend(&peer.wrote);
        self.bytes_at_risk += pieces.iter().map(|piece| out.piece(*piece).bytes()).sum::<u64>();
    }

    fn incarnation(&self, host: usize) -> Incarnation {
        let host = &self.hosts[host];
        let mut boot = [0; 16];
        boot[..8].copy_from_slice(&host.boot.to_le_bytes());
        let (writer, failed_syncs) = (host.writer, host.failed_syncs);
        Incarnation { writer, boot, mount: 1, store: 1, failed_syncs }
    }

    /// Makes a host join the run under a new number; its earlier work in the run is over.
    fn join(&mut self, host: usize) {
        let time = self.out.time;
        let it = &self.hosts[host];
        let away = it.asleep_until > time || it.cut_until > time;
        let Some(life) = self.controller.as_ref().map(|it| it.life).filter(|_| !away) else {
            self.out.after_ms(100, 500, Event::Join { host });
            return;
        };
        if it.peer.is_some() && it.life == life {
            return;
        }
        let (was, writer, slow) = ((it.life, it.number), it.writer, it.slow);
        let before = self.bytes_at_risk;
        let kept = if was.0 == life { Vec::new() } else { self.take_kept(host) };
        self.end_peer(host);
        let staked = self.bytes_at_risk - before;
        let incarnation = self.incarnation(host);
        let kept = if self.hosts[host].began == incarnation { kept } else { Vec::new() };
        let epoch = self.journal.heads().epochs.get(&writer).copied().unwrap_or(0);
        let epoch = epoch.max(self.out.disk.cache.marker(writer));
        let mut peer = Peer::new(&mut self.out, (host as u32, writer), epoch, false);
        let now = self.out.now();
        let held = HeldLease::new(now, self.grant);
        let task = peer.task;
        self.out.holds(task, held.until());
        self.out.slow.insert(task, slow);
        (peer.held, peer.grant) = (Some(held), self.grant);
        self.writers.insert(writer);
        let Some(controller) = &mut self.controller else { return };
        if was.0 == life {
            self.out.stats.peers_lost += u64::from(controller.machine.is_joined(was.1));
            controller.machine.handle_lost(was.1);
        }
        let number = PeerNumber(controller.next_number);
        controller.next_number += 1;
        let joining = Joining { incarnation, epoch, grant: Some(self.grant) };
        controller.machine.handle_joined(number, joining, now);
        let it = &mut self.hosts[host];
        (it.peer, it.number, it.life, it.draining) = (Some(peer), number, life, false);
        it.began = incarnation;
        self.adopt(host, kept, staked);
        self.out.after_ms(0, 20, Event::Turn { task });
    }

    /// Takes the writes of a peer for a controller that is gone, if it may still write itself; now
    /// and then the report is lost.
    fn take_kept(&mut self, host: usize) -> Vec<Report> {
        let lost = self.out.rng.random_bool(0.1);
        let Some(peer) = &mut self.hosts[host].peer else { return Vec::new() };
        if lost || !peer.may_write(&self.out) {
            return Vec::new();
        }
        peer.hand_over();
        peer.kept.take()
    }

    /// Makes the controller adopt the earlier writes of a peer that has just joined (A7): adopted
    /// bytes are not at risk.
    fn adopt(&mut self, host: usize, kept: Vec<Report>, staked: u64) {
        let it = &mut self.hosts[host];
        let (Some(peer), Some(controller)) = (&mut it.peer, &mut self.controller) else { return };
        let pieces = kept.iter().filter_map(|report| match report {
            Report::Written { piece, .. } => Some(*piece),
            _ => None,
        });
        let pieces: Vec<PieceRef> = pieces.collect();
        let bytes: u64 = pieces.iter().map(|piece| self.out.piece(*piece).bytes()).sum();
        let adopted = controller.machine.handle_adopted(it.number, kept.clone());
        self.out.stats.adopted += adopted;
        peer.wrote.extend(pieces);
        if adopted == bytes {
            self.bytes_at_risk -= bytes.min(staked);
        }
        if controller.machine.handle_adopted(it.number, kept) > 0 {
            self.out.fail("A7: what was adopted once was adopted again".to_owned());
        }
    }

    fn page_found(&mut self) {
        self.pages_found += 1;
        if (self.pages_found as usize) < self.out.data.pages.len() {
            self.out.after_ms(1, 100, Event::PageFound);
        } else if let Some(controller) = &mut self.controller {
            controller.machine.handle_scan_end(self.pages_found);
        }
    }

    /// Starts a controller with the content of the journal.
    fn start(&mut self) {
        if self.controller.is_some() {
            return;
        }
        let life = self.journal.take_over();
        let heads = self.journal.heads();
        let complete = heads.pages.iter().filter(|(_, head)| head.complete);
        let complete = complete.map(|(page, head)| (*page, head.standing));
        let rng = &mut self.out.rng;
        let limits = WindowLimits {
            pages: rng.random_range(1..8),
            pieces: rng.random_range(8..200),
            ahead_bytes: rng.random_range(1..8) * MIB,
            files: rng.random_range(1..4),
            file_bytes: rng.random_range(2..16) * MIB,
        };
        let seed = rng.random();
        let mut machine = TransferMachine::new(DigestKind::Blake3, complete, limits, seed);
        for (page, _) in heads.pages.iter().filter(|(_, head)| head.complete) {
            let known = oracle::tail_failures(&self.journal, &self.out, *page);
            machine.handle_known_failures(*page, known, 0);
        }
        if self.pages_found as usize == self.out.data.pages.len() {
            machine.handle_scan_end(self.pages_found);
        }
        for (page, _) in heads.pages.iter().filter(|(_, head)| !head.complete) {
            self.journal.open_page(&self.out.data, &mut machine, *page, false);
        }
        let until = self.out.now().plus(lapse_after(self.grant));
        machine.wait_for_writers(self.writers.iter().copied(), until);
        let wait = Duration::from_millis(self.out.rng.random_range(0..2000));
        machine.wait_for_reports(self.writers.iter().copied(), self.out.now().plus(wait));
        self.out.life = life;
        self.out.stats.starts += 1;
        let committed_at = self.out.time;
        let controller = Controller {
            life,
            machine,
            next_number: 0,
            committing: None,
            reported: Vec::new(),
            committed_at,
        };
        self.controller = Some(controller);
        for host in 0..self.hosts.len() {
            self.out.after_ms(0, 500, Event::Join { host });
        }
        self.out.after_ms(1, 5, Event::Tick { life });
    }

    /// Runs the controller's loop once; `true` when all is done.
    fn tick(&mut self, life: u64) -> bool {
        let Some(mut controller) = self.controller.take_if(|it| it.life == life) else {
            return false;
        };
        self.out.after_ms(5, 50, Event::Tick { life });
        self.open_pages(&mut controller);
        if let Err(what) = self.journal.read_logs(&mut controller.machine) {
            self.out.fail(what);
        }
        let lapsed = controller.machine.poll_lapsed(self.out.now());
        self.out.stats.peers_lost += lapsed.len() as u64;
        for host in 0..self.hosts.len() {
            let it = &self.hosts[host];
            if it.life == life && lapsed.contains(&it.number) {
                self.stake(host);
            }
        }
        let now = self.out.now();
        if controller.machine.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.out.fail("a grant has lapsed, and its peer is still there".to_owned());
        }
        self.drop_peers(&mut controller);
        let due = self.out.time >= controller.committed_at + COMMIT_NS;
        if due || controller.machine.commit_is_urgent() {
            self.begin_commit(&mut controller);
        }
        if controller.machine.phase() == Phase::Done && controller.committing.is_none() {
            self.begin_commit(&mut controller);
            if controller.committing.is_none() {
                self.finish(&controller.machine);
                return true;
            }
        }
        self.controller = Some(controller);
        false
    }

    /// Stops the tasks of peers that are drained, or unfit.
    fn drop_peers(&mut self, controller: &mut Controller) {
        let machine = &mut controller.machine;
        let unfit = machine.unfit();
        for host in 0..self.hosts.len() {
            let it = &self.hosts[host];
            let number = it.number;
            let drained = it.draining && machine.is_joined(number) && machine.is_drained(number);
            let awake = it.asleep_until <= self.out.time && it.peer.is_some();
            if !awake || it.life != controller.life || !(drained || unfit.contains(&number)) {
                continue;
            }
            if let Some(mut peer) = self.end_peer(host) {
                machine.handle_reports(number, std::mem::take(&mut peer.reports), self.out.now());
            }
            machine.handle_left(number);
            self.out.after_ms(100, 5000, Event::Join { host });
        }
    }

    fn finish(&mut self, machine: &TransferMachine) {
        for host in 0..self.hosts.len() {
            if self.hosts[host].life != self.out.life {
                // The peer does not know this controller, which has divided its share among others.
                self.stake(host);
            }
        }
        oracle::check_done(&self.journal, &mut self.out, &machine.totals());
        oracle::check_names(&mut self.out);
        let (again, risk) = (self.out.stats.bytes_again, self.bytes_at_risk);
        if !self.out.scenario.trouble && again > risk {
            self.out.fail(format!("(d), A7: {again} bytes came again, {risk} were at risk"));
        }
        let temporary = |name: &&Name| matches!(name, Name::Temporary(..));
        self.out.stats.orphans = self.out.disk.cache.names.keys().filter(temporary).count() as u64;
        self.out.stats.entries = self.out.data.len() as u64;
    }

    fn open_pages(&mut self, controller: &mut Controller) {
        while let Some(number) = controller.machine.wants_page() {
            if number >= self.pages_found {
                return;
            }
            self.journal.open_page(&self.out.data, &mut controller.machine, number, false);
        }
    }

    fn begin_commit(&mut self, controller: &mut Controller) {
        if controller.committing.is_some() {
            return;
        }
        controller.committed_at = self.out.time;
        let its = self.hosts.iter().filter(|host| host.life == controller.life);
        let peers = its.filter_map(|host| host.peer.as_ref());
        let reported = peers.map(|peer| (peer.task, peer.batches)).collect();
        let Some(commit) = controller.machine.take_commit() else { return };
        controller.reported = reported;
        if let Err(what) = self.journal.append(&commit) {
            self.out.fail(what);
        }
        controller.committing = Some(commit);
        self.out.after_ms(0, 150, Event::CommitDone { life: controller.life });
    }

    fn commit_done(&mut self, life: u64) {
        let Some(controller) = self.controller.as_mut().filter(|it| it.life == life) else {
            return;
        };
        let Some(commit) = controller.committing.take() else { return };
        let durable = commit.is_durable();
        if !self.journal.commit(life, &commit, durable) {
            self.out.fail("(h): the controller in charge may not commit".to_owned());
        }
        controller.machine.handle_committed(&commit);
        for (task, batches) in std::mem::take(&mut controller.reported) {
            let of = |peer: &&mut Peer| peer.task == task;
            let heard = self.out.rng.random_bool(0.9);
            let mut peers = self.hosts.iter_mut().filter_map(|host| host.peer.as_mut());
            if let Some(peer) = peers.find(of).filter(|_| heard) {
                peer.kept.handle_committed(batches);
            }
        }
        self.out.stats.commits += 1;
        if durable {
            oracle::check_durable(&self.journal, &mut self.out);
            oracle::check_names(&mut self.out);
        }
    }

    fn next_fault(&mut self) {
        let (faults, pause) = (self.out.scenario.faults, self.out.scenario.pause_ms);
        let fault = faults[self.out.rng.random_range(0..faults.len())];
        if self.out.time < self.out.scenario.horizon_ms * 1_000_000 {
            self.fault(fault);
            self.out.after_ms(1, pause, Event::NextFault);
        }
    }

    fn fault(&mut self, fault: Fault) {
        self.out.stats.faults += 1;
        let host = self.out.rng.random_range(0..self.hosts.len());
        let longest = 3 * self.grant.as_nanos() as u64;
        let until = self.out.time + self.out.rng.random_range(1_000_000..longest);
        match fault {
            Fault::Kill | Fault::HostDies => self.kill(host, fault == Fault::HostDies),
            Fault::Sleep => self.sleep(host, until),
            Fault::Cut => self.hosts[host].cut_until = until,
            Fault::Drain => self.drain(host),
            Fault::ControllerDies => self.lose_controller(),
            Fault::LaneDies | Fault::LaneSilent => self.lane_fault(host, fault),
            Fault::SyncFails => self.out.next_sync_fails = true,
            Fault::DiskFull => {
                self.out.disk.full = true;
                self.out.after_ms(10, 3000, Event::DiskFreed);
            }
            Fault::SourceOffline => {
                self.out.source_online = false;
                self.out.after_ms(10, 5000, Event::SourceBack);
            }
            Fault::FileChanges => {
                if let Some((page, entry)) = self.out.data.random_file(&mut self.out.rng) {
                    self.out.data.entries[page as usize][entry as usize].version += 1;
                }
            }
            other => self.out.fail(format!("{other:?} is for worlds of one peer")),
        }
    }

    fn kill(&mut self, host: usize, power: bool) {
        if let (true, Some(peer)) = (power, &self.hosts[host].peer) {
            self.out.forget_sync(peer.task);
        }
        let peer = self.end_peer(host);
        if power {
            let luck = [0.0, 0.3, 0.9][self.out.rng.random_range(0..3)];
            self.out.disk.power_cut(host as u32, luck, &mut self.out.rng);
            self.hosts[host].boot += 1;
            self.ghosts.retain(|ghost| ghost.host != host as u32);
        } else if let Some(peer) = peer {
            // Writes of a process that has ended may still land (B1).
            self.ghosts.push(peer);
            self.out.after_ms(1, 3000, Event::LateWrite);
        }
        self.out.after_ms(50, 8000, Event::Join { host });
    }

    /// Stops a host, unless it is stopped already. Events at the host wait for the end of the stop.
    /// They must wait for one end alone: the frames of a lane would change places otherwise.
    fn sleep(&mut self, host: usize, until: u64) {
        if self.hosts[host].asleep_until <= self.out.time {
            self.hosts[host].asleep_until = until;
            self.out.at(until, Event::Wakes { host });
        }
    }

    /// Does the work now that was due when the host was stopped, allowed or not (B1, test 1b).
    fn wake(&mut self, host: usize) {
        let Some(peer) = &mut self.hosts[host].peer else { return };
        peer.late_write(&mut self.out);
        if self.out.rng.random_bool(0.5) {
            peer.publish_next(&mut self.out);
        }
    }

    fn drain(&mut self, host: usize) {
        let it = &mut self.hosts[host];
        if let Some(controller) = self.controller.as_mut().filter(|other| other.life == it.life) {
            it.draining = true;
            controller.machine.handle_draining(it.number);
        }
    }

    fn lose_controller(&mut self) {
        let Some(controller) = self.controller.take() else { return };
        if let Some(torn) = &controller.committing {
            self.journal.kill(torn, &mut self.out.rng);
        }
        self.out.after_ms(100, 4000, Event::Restart);
    }

    fn lane_fault(&mut self, host: usize, fault: Fault) {
        let Some(peer) = &mut self.hosts[host].peer else { return };
        let Some(lane) = peer.some_lane(&mut self.out) else { return };
        match fault {
            Fault::LaneDies => peer.lane_down(&mut self.out, lane, true),
            _ => self.out.silence(peer.task, lane),
        }
    }
}

/// Handles the answer to a request for work that was sent at `asked`.
fn take_answer(out: &mut Outside, peer: &mut Peer, reply: Option<WorkReply>, asked: Instant) {
    let Some(reply) = reply else { return };
    if let Some(held) = &peer.held {
        held.renew(asked, peer.grant, out.now());
        let until = held.until();
        out.holds(peer.task, until);
    }
    if !peer.may_write(out) {
        return;
    }
    for work in reply.work {
        peer.take(out, work);
    }
    if reply.flush {
        peer.flush();
    }
    if reply.give_back > 0 {
        peer.give_back(out, reply.give_back);
    }
}
