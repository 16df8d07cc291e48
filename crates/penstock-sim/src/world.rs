//! One world: the daemon of the target, its environment, and the faults.

use std::collections::BTreeSet;

use penstock_engine::transfer::{Joining, LedgerCommit, Phase, TransferMachine, WindowLimits};
use penstock_proto::digest::DigestKind;
use penstock_proto::id::{PeerNumber, WriterId};
use penstock_proto::journal::Incarnation;
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::Report;
use penstock_proto::units::MIB;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::disk::{Disk, Name};
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

/// The only host, and its peer as a writer.
const ONLY: (u32, WriterId) = (0, WriterId::SOLE);

/// The controller's process state.
struct Controller {
    /// Its epoch, by which it is fenced.
    life: u64,
    machine: TransferMachine,
    /// Number of its present peer.
    number: PeerNumber,
    committing: Option<LedgerCommit>,
    committed_at: u64,
    /// True for a failed sync that no commit has recorded yet: known to the peer, to the machine,
    /// on its way.
    sync_failure_untold: bool,
    sync_failure_delivered: bool,
    sync_failure_telling: bool,
    /// True if the store is older than the ledger, and not everything is checked.
    doubting: bool,
    /// Pieces fetched and reported since the last commit was taken, and those in that commit.
    reported: BTreeSet<PieceRef>,
    reported_committing: BTreeSet<PieceRef>,
}

struct Daemon {
    controller: Controller,
    peer: Peer,
}

/// A seeded world.
pub(crate) struct World {
    out: Outside,
    journal: Journal,
    daemon: Option<Daemon>,
    zombie: Option<Daemon>,
    ghosts: Vec<Peer>,
    boot: u64,
    mount: u64,
    snapshot: Option<Disk>,
    pages_found: u32,
    /// True if the store was put back, and the ledger does not know.
    ledger_is_void: bool,
    /// Bytes that kills may cost (A7).
    bytes_at_risk: u64,
}

impl World {
    pub(crate) fn new(seed: u64, scenario: &Scenario) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let data = DataSet::generate(&mut rng, scenario.trouble);
        let mut out = Outside::new(rng, scenario.clone(), data);
        out.after_ms(0, 100, Event::PageFound);
        out.after_ms(0, 0, Event::Restart);
        if !scenario.faults.is_empty() {
            out.after_ms(1, scenario.pause_ms, Event::NextFault);
        }
        Self {
            out,
            journal: Journal::new(),
            daemon: None,
            zombie: None,
            ghosts: Vec::new(),
            boot: 1,
            mount: 1,
            snapshot: None,
            pages_found: 0,
            ledger_is_void: false,
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
        self.out.stats.milliseconds = self.out.time / 1_000_000;
        match self.out.violation {
            None => Ok(self.out.stats),
            Some(what) => {
                Err(Violation { seed, scenario, milliseconds: self.out.time / 1_000_000, what })
            }
        }
    }

    fn dump(&self) -> String {
        let Some(daemon) = &self.daemon else { return "no daemon".to_owned() };
        format!("{:#?}\n{}", daemon.controller.machine, daemon.peer.dump())
    }

    /// Handles one event; `true` when the transfer is done.
    fn happen(&mut self, event: Event) -> bool {
        match event {
            Event::PageFound => self.page_found(),
            Event::Restart => self.start(),
            Event::NextFault => self.next_fault(),
            Event::Fault(fault) => self.fault(fault),
            Event::DiskFreed => self.out.disk.full = false,
            Event::SourceBack => self.out.source_online = true,
            Event::LateWrite => {
                if let Some(mut ghost) = self.ghosts.pop() {
                    ghost.late_write(&mut self.out);
                }
            }
            Event::ZombieWakes => self.zombie_wakes(),
            Event::SyncDone { task, epoch } => {
                let good = self.out.end_sync(task);
                if let (Some(good), Some(daemon)) = (good, self.daemon.as_mut())
                    && daemon.peer.task == task
                {
                    daemon.controller.sync_failure_untold |= !good;
                    daemon.peer.synced(&mut self.out, epoch, good);
                    daemon.peer.turn(&mut self.out);
                }
            }
            Event::Serve { task, lane, request, item } => {
                self.out.serve(task, lane, request, item);
            }
            Event::Tick { life } => return self.tick(life),
            Event::CommitDone { life } => self.commit_done(life),
            Event::Reports { task } => self.deliver(task),
            event => self.peer_event(event),
        }
        false
    }

    fn peer_event(&mut self, event: Event) {
        let (Event::LaneUp { task, .. }
        | Event::Refused { task, .. }
        | Event::Frame { task, .. }
        | Event::PublishStep { task }
        | Event::TailDone { task, .. }) = event
        else {
            return;
        };
        let Some(Daemon { peer, .. }) = self.daemon.as_mut().filter(|it| it.peer.task == task)
        else {
            return;
        };
        let out = &mut self.out;
        match event {
            Event::LaneUp { lane, good, .. } => peer.lane_up(out, lane, good),
            Event::Refused { lane, request, .. } => peer.refused(out, lane, request),
            Event::Frame { lane, request, frame, .. } => peer.frame(out, lane, request, frame),
            Event::PublishStep { .. } => peer.publish_step(out),
            Event::TailDone { work, .. } => peer.tail_done(out, &work),
            _ => {}
        }
        peer.turn(out);
    }

    fn page_found(&mut self) {
        self.pages_found += 1;
        if (self.pages_found as usize) < self.out.data.pages.len() {
            let slow = if self.out.rng.random_bool(0.2) { 3000 } else { 100 };
            self.out.after_ms(1, slow, Event::PageFound);
        } else if let Some(daemon) = &mut self.daemon {
            daemon.controller.machine.handle_scan_end(self.pages_found);
        }
    }

    fn incarnation(&self) -> Incarnation {
        let mut boot = [0; 16];
        boot[..8].copy_from_slice(&self.boot.to_le_bytes());
        let (writer, mount) = (WriterId::SOLE, self.mount);
        Incarnation { writer, boot, mount, store: 1, failed_syncs: 0 }
    }

    /// Starts a daemon with the content of the journal.
    fn start(&mut self) {
        if self.daemon.is_some() {
            return;
        }
        let life = self.journal.take_over();
        let heads = self.journal.heads();
        let known_epoch = heads.epochs.get(&WriterId::SOLE).copied().unwrap_or(0);
        let doubting = self.out.disk.cache.marker(WriterId::SOLE) < known_epoch;
        let complete = heads.pages.iter().filter(|(_, head)| head.complete && !doubting);
        let complete = complete.map(|(page, head)| (*page, head.standing));
        let rng = &mut self.out.rng;
        let limits = WindowLimits {
            pages: rng.random_range(1..8),
            pieces: rng.random_range(8..200),
            ahead_bytes: rng.random_range(1..8) * MIB,
            files: rng.random_range(1..4),
            file_bytes: rng.random_range(2..16) * MIB,
        };
        let (kind, seed) = (DigestKind::Blake3, rng.random());
        let mut machine = TransferMachine::new(kind, complete, limits, seed);
        for page in heads.pages.iter().filter(|(_, head)| head.complete && !doubting) {
            let known = oracle::tail_failures(&self.journal, &self.out, *page.0);
            machine.handle_known_failures(*page.0, known, 0);
        }
        if self.pages_found as usize == self.out.data.pages.len() {
            machine.handle_scan_end(self.pages_found);
        }
        let known: Vec<u32> = heads.pages.keys().copied().filter(|_| !doubting).collect();
        for page in known.into_iter().filter(|page| !heads.pages[page].complete) {
            self.journal.open_page(&self.out.data, &mut machine, page, doubting);
        }
        self.out.stats.starts += 1;
        self.out.stats.doubts += u64::from(doubting);
        self.ledger_is_void &= doubting;
        // An epoch that was synced and not committed must not be counted a second time: the marker
        // would then mean two states of the store (A5).
        let epoch = known_epoch.max(self.out.disk.cache.marker(WriterId::SOLE));
        let peer = Peer::new(&mut self.out, ONLY, epoch, doubting);
        let number = PeerNumber(0);
        let joining = Joining { incarnation: self.incarnation(), epoch, grant: None };
        machine.handle_joined(number, joining, self.out.now());
        let controller = Controller {
            life,
            machine,
            number,
            committing: None,
            committed_at: self.out.time,
            sync_failure_untold: false,
            sync_failure_delivered: false,
            sync_failure_telling: false,
            doubting,
            reported: BTreeSet::new(),
            reported_committing: BTreeSet::new(),
        };
        self.daemon = Some(Daemon { controller, peer });
        self.out.after_ms(1, 5, Event::Tick { life });
    }

    /// Runs the controller's loop once; `true` when all is done.
    fn tick(&mut self, life: u64) -> bool {
        let Some(mut daemon) = self.daemon.take() else { return false };
        if daemon.controller.life != life {
            self.daemon = Some(daemon);
            return false;
        }
        self.out.after_ms(5, 50, Event::Tick { life });
        self.open_pages(&mut daemon.controller);
        daemon.peer.turn(&mut self.out);
        if let Err(what) = self.journal.read_logs(&mut daemon.controller.machine) {
            self.out.fail(what);
        }
        let (number, now) = (daemon.controller.number, self.out.now());
        let wanted = daemon.peer.wanted_bytes();
        let reply = daemon.controller.machine.poll_work(number, wanted, now);
        for work in reply.work {
            daemon.peer.take(&mut self.out, work);
        }
        if reply.flush {
            daemon.peer.flush();
        }
        daemon.peer.turn(&mut self.out);
        if daemon.controller.doubting && daemon.controller.machine.phase() != Phase::Moving {
            daemon.controller.doubting = false;
            self.ledger_is_void = false;
            daemon.peer.doubt_is_over();
        }
        let due = self.out.time >= daemon.controller.committed_at + COMMIT_NS;
        if due || daemon.controller.machine.commit_is_urgent() {
            self.begin_commit(&mut daemon.controller);
        }
        let machine = &daemon.controller.machine;
        if machine.is_broken() {
            // The transfer stops with its ledger committed, and an operator resumes it.
            self.begin_commit(&mut daemon.controller);
            if daemon.controller.committing.is_none()
                && !daemon.controller.sync_failure_untold
                && daemon.peer.is_at_rest()
            {
                self.out.after_ms(1000, 5000, Event::Restart);
                return false;
            }
        } else if machine.phase() == Phase::Done && daemon.controller.committing.is_none() {
            self.begin_commit(&mut daemon.controller);
            if daemon.controller.committing.is_none() {
                self.finish(&daemon.controller.machine);
                return true;
            }
        }
        self.daemon = Some(daemon);
        false
    }

    fn finish(&mut self, machine: &TransferMachine) {
        oracle::check_done(&self.journal, &mut self.out, &machine.totals());
        let again = self.out.stats.bytes_again;
        if self.out.scenario.name == "kills" && again > self.bytes_at_risk {
            let risk = self.bytes_at_risk;
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
            let Controller { machine, doubting, .. } = controller;
            self.journal.open_page(&self.out.data, machine, number, *doubting);
        }
    }

    fn begin_commit(&mut self, controller: &mut Controller) {
        if controller.committing.is_some() {
            return;
        }
        controller.committed_at = self.out.time;
        let told = std::mem::take(&mut controller.sync_failure_delivered);
        let Some(commit) = controller.machine.take_commit() else {
            controller.sync_failure_untold &= !told;
            return;
        };
        controller.sync_failure_telling |= told;
        if let Err(what) = self.journal.append(&commit) {
            self.out.fail(what);
        }
        controller.reported_committing = std::mem::take(&mut controller.reported);
        controller.committing = Some(commit);
        self.out.after_ms(0, 150, Event::CommitDone { life: controller.life });
    }

    fn commit_done(&mut self, life: u64) {
        let Some(daemon) = self.daemon.as_mut().filter(|it| it.controller.life == life) else {
            return;
        };
        let controller = &mut daemon.controller;
        let Some(commit) = controller.committing.take() else { return };
        let durable = commit.is_durable();
        if !self.journal.commit(life, &commit, durable) {
            self.out.fail("(h): the controller in charge may not commit".to_owned());
        }
        controller.machine.handle_committed(&commit);
        controller.reported_committing.clear();
        if std::mem::take(&mut controller.sync_failure_telling) {
            controller.sync_failure_untold = controller.sync_failure_delivered;
        }
        self.out.stats.commits += 1;
        if durable && !self.ledger_is_void {
            oracle::check_durable(&self.journal, &mut self.out);
        }
    }

    fn deliver(&mut self, task: u64) {
        let Some(daemon) = self.daemon.as_mut().filter(|it| it.peer.task == task) else { return };
        let reports = std::mem::take(&mut daemon.peer.reports);
        for report in &reports {
            if let Report::Written { piece, fetched: true, .. } = report {
                daemon.controller.reported.insert(*piece);
            }
        }
        let failed = reports.iter().any(|report| matches!(report, Report::SyncFailed { .. }));
        let number = daemon.controller.number;
        daemon.controller.machine.handle_reports(number, reports, self.out.now());
        if failed {
            daemon.controller.sync_failure_delivered = true;
            // An early commit of this is best (A4).
            let mut daemon = self.daemon.take();
            if let Some(daemon) = &mut daemon {
                self.begin_commit(&mut daemon.controller);
            }
            self.daemon = daemon;
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
        let ends =
            matches!(fault, Fault::Kill | Fault::PeerLost | Fault::TakeOver | Fault::Rollback);
        if ends && self.a_failure_is_untold() {
            // A process that dies between a failed sync and the commit that records it is the only
            // witness: see the crate's documentation.
            self.out.after_ms(100, 300, Event::Fault(fault));
            return;
        }
        self.out.stats.faults += 1;
        match fault {
            Fault::Kill => self.kill(),
            Fault::PowerCut => self.power_cut(),
            Fault::PeerLost => self.peer_lost(),
            Fault::TakeOver => self.take_over(),
            Fault::Rollback => self.roll_back(),
            Fault::LaneDies | Fault::LaneSilent => self.lane_fault(fault),
            Fault::SyncFails => self.out.next_sync_fails = true,
            Fault::DiskFull => {
                self.out.disk.full = true;
                self.out.after_ms(10, 3000, Event::DiskFreed);
            }
            Fault::ClockLeap => {
                let seconds = self.out.rng.random_range(1..600u64);
                self.out.leap += seconds * 1_000_000_000;
            }
            Fault::SourceOffline => {
                self.out.source_online = false;
                self.out.after_ms(10, 5000, Event::SourceBack);
            }
            Fault::Sabotage => self.sabotage(),
            Fault::FileChanges => {
                if let Some((page, entry)) = self.out.data.random_file(&mut self.out.rng) {
                    self.out.data.entries[page as usize][entry as usize].version += 1;
                }
            }
            other => self.out.fail(format!("{other:?} is for worlds of several peers")),
        }
    }

    fn a_failure_is_untold(&self) -> bool {
        let untold = |daemon: &Daemon| daemon.controller.sync_failure_untold;
        self.out.is_sync_failing() || self.daemon.as_ref().is_some_and(untold)
    }

    fn kill(&mut self) {
        let Some(daemon) = self.daemon.take() else { return };
        self.stake(&daemon);
        if let Some(torn) = &daemon.controller.committing {
            self.journal.kill(torn, &mut self.out.rng);
        }
        self.haunt(daemon.peer);
        self.out.after_ms(10, 2000, Event::Restart);
    }

    /// Counts the bytes that the daemon's end may cost: reported, or done, and not committed.
    fn stake(&mut self, daemon: &Daemon) {
        let controller = &daemon.controller;
        let undelivered = daemon.peer.reports.iter().filter_map(|report| match report {
            Report::Written { piece, fetched: true, .. } => Some(*piece),
            _ => None,
        });
        let mut pieces: BTreeSet<PieceRef> = undelivered.collect();
        pieces.extend(&controller.reported);
        pieces.extend(&controller.reported_committing);
        pieces.extend(daemon.peer.pieces_in_hand());
        self.bytes_at_risk +=
            pieces.iter().map(|piece| self.out.piece(*piece).bytes()).sum::<u64>();
    }

    /// Keeps a process that has ended, whose writes may still land (B1).
    fn haunt(&mut self, peer: Peer) {
        self.ghosts.push(peer);
        self.out.after_ms(1, 3000, Event::LateWrite);
    }

    fn power_cut(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            if let Some(torn) = &daemon.controller.committing {
                self.journal.kill(torn, &mut self.out.rng);
            }
            self.out.after_ms(10, 2000, Event::Restart);
        }
        self.zombie = None;
        self.ghosts.clear();
        self.boot += 1;
        self.journal.power_cut(&mut self.out.rng);
        self.out.power_cut();
        self.out.next_sync_fails = false;
        oracle::check_names(&mut self.out);
        if !self.ledger_is_void {
            oracle::check_durable(&self.journal, &mut self.out);
        }
    }

    fn peer_lost(&mut self) {
        let Some(mut daemon) = self.daemon.take() else { return };
        let Controller { machine, number, .. } = &mut daemon.controller;
        let epoch = machine.standing(*number).1.max(self.out.disk.cache.marker(WriterId::SOLE));
        machine.handle_lost(*number);
        *number = PeerNumber(number.0 + 1);
        let joining = Joining { incarnation: self.incarnation(), epoch, grant: None };
        machine.handle_joined(*number, joining, self.out.now());
        let peer = Peer::new(&mut self.out, ONLY, epoch, daemon.controller.doubting);
        self.haunt(std::mem::replace(&mut daemon.peer, peer));
        self.daemon = Some(daemon);
    }

    /// Pauses the daemon, puts another in its place, and wakes the first later.
    fn take_over(&mut self) {
        if self.zombie.is_some() {
            return;
        }
        let Some(daemon) = self.daemon.take() else { return };
        if let Some(torn) = &daemon.controller.committing {
            self.journal.kill(torn, &mut self.out.rng);
        }
        self.zombie = Some(daemon);
        self.start();
        self.out.after_ms(10, 5000, Event::ZombieWakes);
    }

    /// Checks promise (h): the controller that was replaced may not commit.
    fn zombie_wakes(&mut self) {
        let Some(mut zombie) = self.zombie.take() else { return };
        zombie.peer.late_write(&mut self.out);
        let late = zombie.controller.committing.take();
        if let Some(commit) = late.or_else(|| zombie.controller.machine.take_commit())
            && self.journal.commit(zombie.controller.life, &commit, true)
        {
            self.out.fail("(h): a controller that was replaced has committed".to_owned());
        }
        self.out.stats.zombies += 1;
    }

    fn roll_back(&mut self) {
        match self.snapshot.take() {
            None => {
                let mut snapshot = self.out.disk.clone();
                snapshot.power_cut(0, 0.0, &mut self.out.rng);
                self.snapshot = Some(snapshot);
            }
            Some(snapshot) => {
                self.kill();
                self.ghosts.clear();
                self.zombie = None;
                self.out.forget_syncs();
                let full = self.out.disk.full;
                self.out.disk = snapshot;
                self.out.disk.full = full;
                self.mount += 1;
                self.ledger_is_void = true;
                self.out.stats.rollbacks += 1;
            }
        }
    }

    fn lane_fault(&mut self, fault: Fault) {
        let Some(daemon) = &mut self.daemon else { return };
        let Some(lane) = daemon.peer.some_lane(&mut self.out) else { return };
        match fault {
            Fault::LaneDies => daemon.peer.lane_down(&mut self.out, lane, true),
            _ => self.out.silence(daemon.peer.task, lane),
        }
    }

    /// Removes a temporary file, as another program would.
    fn sabotage(&mut self) {
        let names = self.out.disk.cache.names.keys();
        let ours: Vec<Name> =
            names.filter(|name| matches!(name, Name::Temporary(..))).copied().collect();
        if ours.is_empty() {
            return;
        }
        let name = ours[self.out.rng.random_range(0..ours.len())];
        if let Name::Temporary(page, entry, ..) = name {
            self.out.sabotaged.insert((page, entry));
        }
        self.out.disk.remove(name);
    }
}
