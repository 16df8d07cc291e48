//! Injects faults while transfers run, and undoes each of them, whatever happens.
//!
//! One fault is open at a time. Before its command starts, the command that undoes it is durable in
//! `open-faults.json`: the next start runs it where this one was killed (E24). A fault is recorded
//! when it is undone and the transfer was seen to progress, or when the next fault begins.

use std::thread;
use std::time::{Duration, Instant};

use penstock_api::timestamp::Timestamp;
use penstock_exit::{self as exit, ExitCode, Failure};
use penstock_proto::id::Name;

use super::directory::{Directory, open_fault};
use super::fault_command::FaultCommand;
use super::faults::{Fault, FaultSet};
use super::record::{FaultRecord, KILLED, OpenFault, SoakRecord};
use super::report::Report;

/// Most times that a fault is tried to be undone.
const HEAL_ATTEMPTS: u32 = 5;
/// Wait between two of them.
const HEAL_AGAIN: Duration = Duration::from_secs(2);
/// Interval at which an end that is waited for is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// The round during which a fault begins.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    /// Its number.
    pub(super) round: u64,
    /// Variables of commands.
    pub(super) environment: Vec<(String, String)>,
}

/// How far the soak is: the round, and its bytes that need not be moved any more.
pub(super) type Mark = (u64, u64);
/// The bytes of a mark whose transfer is done.
pub(super) const DONE: u64 = u64::MAX;

enum Stage {
    Idle,
    Running(FaultCommand),
    Open { heal_at: Instant },
    Healing { command: FaultCommand, attempt: u32 },
}

/// The last fault, until it is recorded.
struct Current {
    fault: Fault,
    record: FaultRecord,
    environment: Vec<(String, String)>,
    began: Instant,
    /// Greatest mark before it.
    before: Mark,
    /// End of its first command.
    injected: Option<Instant>,
    /// The mark that has to be passed: the first one after `injected`, if it is not less than that
    /// before. What was on its way when the fault began is no progress.
    floor: Option<Mark>,
}

impl Current {
    /// Takes a mark that was asked for at `looked`.
    fn see(&mut self, mark: Mark, looked: Instant) {
        if self.record.progress_seconds.is_some() || self.injected.is_none_or(|at| looked <= at) {
            return;
        }
        if mark.1 == DONE || self.floor.is_some_and(|floor| mark > floor) {
            self.record.progress_seconds = Some(self.began.elapsed().as_secs_f64());
        } else if self.floor.is_none() {
            self.floor = Some(self.before.max(mark));
        }
    }
}

/// Injects the faults of a soak, and undoes them.
pub(super) struct Injector<'a> {
    directory: &'a Directory,
    report: Report,
    set: FaultSet,
    seed: u64,
    every: Duration,
    stage: Stage,
    current: Option<Current>,
    /// The begin of the fault before, or of the soak.
    counted_from: Instant,
    greatest: Mark,
    /// A fault that waits for the end of the transfer.
    at_rest: Option<(Name, Fault)>,
    /// True once a fault could not be undone.
    is_broken: bool,
}

impl<'a> Injector<'a> {
    /// Returns an injector that counts from now on.
    pub(super) fn new(
        directory: &'a Directory,
        report: Report,
        set: FaultSet,
        (seed, every): (u64, Duration),
    ) -> Self {
        Self {
            directory,
            report,
            set,
            seed,
            every,
            stage: Stage::Idle,
            current: None,
            counted_from: Instant::now(),
            greatest: (0, 0),
            at_rest: None,
            is_broken: false,
        }
    }

    /// Returns whether a fault is open.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.stage, Stage::Idle)
    }

    /// Takes a mark of the soak; `looked` is when it was asked for.
    pub(super) fn see(&mut self, mark: Mark, looked: Instant) -> anyhow::Result<()> {
        if let Some(current) = &mut self.current {
            current.see(mark, looked);
        }
        self.greatest = self.greatest.max(mark);
        if !self.is_open()
            && self.current.as_ref().is_some_and(|it| it.record.progress_seconds.is_some())
        {
            self.settle()?;
        }
        Ok(())
    }

    /// Does what is due: begins a fault where a scene is given, ends one. Returns whether one
    /// began.
    ///
    /// # Errors
    /// The directory of the soak cannot be written.
    pub(super) fn poll(
        &mut self,
        soak: &mut SoakRecord,
        scene: Option<&Scene>,
    ) -> anyhow::Result<bool> {
        if self.is_open() {
            self.advance(soak, false)?;
            return Ok(false);
        }
        let (Some(scene), false, false) = (scene, self.is_broken, self.set.is_empty()) else {
            return Ok(false);
        };
        let draw = self.set.draw(self.seed, soak.faults, self.every);
        if self.at_rest.is_some() || self.counted_from.elapsed() < draw.after {
            return Ok(false);
        }
        let (name, fault) = self.set.all()[draw.place].clone();
        if fault.at_rest {
            self.at_rest = Some((name, fault));
            return Ok(false);
        }
        self.begin(soak, scene, name, fault)?;
        Ok(true)
    }

    /// Damages data at rest, if a fault that does is due; blocks until its command has ended.
    /// Returns whether that has succeeded; else it may have damaged something all the same.
    ///
    /// # Errors
    /// As [`Injector::poll`].
    pub(super) fn damage(&mut self, soak: &mut SoakRecord, scene: &Scene) -> anyhow::Result<bool> {
        let Some((name, fault)) = self.at_rest.take() else { return Ok(false) };
        self.begin(soak, scene, name, fault)?;
        self.close(soak)?;
        let is_done = self.current.as_ref().is_some_and(|it| it.record.problem.is_none());
        self.settle()?;
        Ok(is_done)
    }

    /// Returns whether a fault that damages data at rest waits for the end of the transfer.
    pub(super) fn will_damage(&self) -> bool {
        self.at_rest.is_some()
    }

    /// Undoes the fault that is open, and blocks until that is done.
    ///
    /// # Errors
    /// As [`Injector::poll`].
    pub(super) fn close(&mut self, soak: &mut SoakRecord) -> anyhow::Result<()> {
        while self.is_open() {
            self.advance(soak, true)?;
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Records the last fault as it is known by now.
    ///
    /// # Errors
    /// As [`Injector::poll`].
    pub(super) fn settle(&mut self) -> anyhow::Result<()> {
        let Some(current) = self.current.take() else { return Ok(()) };
        self.directory.add_fault(&current.record)?;
        self.report.fault_over(&current.record)
    }

    fn begin(
        &mut self,
        soak: &mut SoakRecord,
        scene: &Scene,
        name: Name,
        fault: Fault,
    ) -> anyhow::Result<()> {
        self.settle()?;
        soak.faults += 1;
        let record = FaultRecord {
            fault: soak.faults,
            name: name.clone(),
            round: scene.round,
            at_rest: fault.at_rest,
            began: Timestamp::of_seconds(penstock_sys::now_seconds()),
            open_seconds: 0.0,
            progress_seconds: None,
            problem: None,
        };
        let mut environment = scene.environment.clone();
        environment.push(("PENSTOCK_SOAK_FAULT".to_owned(), soak.faults.to_string()));
        if let Some(heal) = &fault.heal {
            let (heal, timeout) = (heal.clone(), fault.timeout);
            let FaultRecord { fault, round, began, .. } = record;
            let environment = environment.clone();
            let open = OpenFault { fault, name, round, began, heal, timeout, environment };
            self.directory.set_open_fault(Some(&open))?;
        }
        self.directory.save(soak)?;
        self.report.fault_begins(&record)?;
        let log = self.directory.command_log();
        let started = FaultCommand::start(&fault.run, &environment, fault.timeout, &log);
        self.counted_from = Instant::now();
        self.current = Some(Current {
            fault,
            record,
            environment,
            began: self.counted_from,
            before: self.greatest,
            injected: None,
            floor: None,
        });
        match started {
            Ok(command) => self.stage = Stage::Running(command),
            Err(error) => self.injected(Err(format!("its command cannot be started: {error}"))),
        }
        Ok(())
    }

    /// Takes the end of the command that injects.
    fn injected(&mut self, ended: Result<(), String>) {
        let Some(current) = &mut self.current else { return };
        current.injected = Some(Instant::now());
        let open = match ended {
            Ok(()) => Duration::from_secs(current.fault.open_seconds),
            Err(why) => {
                current.record.problem = Some(why);
                Duration::ZERO
            }
        };
        let open = if current.fault.heal.is_some() { open } else { Duration::ZERO };
        self.stage = Stage::Open { heal_at: Instant::now() + open };
    }

    fn advance(&mut self, soak: &mut SoakRecord, at_once: bool) -> anyhow::Result<()> {
        match &mut self.stage {
            Stage::Idle => {}
            Stage::Running(command) => {
                if let Some(ended) = command.poll() {
                    self.injected(ended);
                }
            }
            Stage::Open { heal_at } => {
                if at_once || Instant::now() >= *heal_at {
                    self.heal(soak, 1)?;
                }
            }
            Stage::Healing { command, attempt } => {
                let attempt = *attempt;
                match command.poll() {
                    None => {}
                    Some(Ok(())) => self.healed(None)?,
                    Some(Err(why)) => self.not_healed(soak, attempt, &why)?,
                }
            }
        }
        Ok(())
    }

    fn heal(&mut self, soak: &mut SoakRecord, attempt: u32) -> anyhow::Result<()> {
        let Some(current) = &self.current else { return Ok(()) };
        let Some(heal) = &current.fault.heal else { return self.healed(None) };
        let log = self.directory.command_log();
        match FaultCommand::start(heal, &current.environment, current.fault.timeout, &log) {
            Ok(command) => self.stage = Stage::Healing { command, attempt },
            Err(error) => self.not_healed(soak, attempt, &error.to_string())?,
        }
        Ok(())
    }

    fn not_healed(&mut self, soak: &mut SoakRecord, attempt: u32, why: &str) -> anyhow::Result<()> {
        let Some(current) = &self.current else { return Ok(()) };
        let FaultRecord { fault, name, .. } = &current.record;
        let text = format!("fault {fault}, `{name}`, is not undone: {why}");
        if attempt < HEAL_ATTEMPTS {
            exit::warn(&format!("{text}; next attempt in {} s", HEAL_AGAIN.as_secs()));
            thread::sleep(HEAL_AGAIN);
            return self.heal(soak, attempt + 1);
        }
        exit::warn(&format!("{text}; no further fault is injected: undo it by hand"));
        soak.failures.push(text.clone());
        self.is_broken = true;
        self.stage = Stage::Idle;
        self.note_end(Some(text));
        self.directory.save(soak)
    }

    fn healed(&mut self, problem: Option<String>) -> anyhow::Result<()> {
        self.stage = Stage::Idle;
        self.note_end(problem);
        let has_heal = self.current.as_ref().is_some_and(|it| it.fault.heal.is_some());
        if has_heal { self.directory.set_open_fault(None) } else { Ok(()) }
    }

    fn note_end(&mut self, problem: Option<String>) {
        if let Some(current) = &mut self.current {
            current.record.open_seconds = current.began.elapsed().as_secs_f64();
            current.record.problem = current.record.problem.take().or(problem);
        }
    }
}

/// Undoes the fault that an earlier start of the soak has left open, and records it.
///
/// # Errors
/// It cannot be undone.
pub(super) fn heal_left(directory: &Directory) -> anyhow::Result<()> {
    let Some(open) = open_fault(directory.path())? else { return Ok(()) };
    let OpenFault { fault, name, round, began, .. } = open;
    exit::warn(&format!("fault {fault}, `{name}`, was left open: it is undone now"));
    let log = directory.command_log();
    for attempt in 1..=HEAL_ATTEMPTS {
        let started = FaultCommand::start(&open.heal, &open.environment, open.timeout, &log);
        let ended = started.map_err(|error| error.to_string()).and_then(FaultCommand::wait);
        let Err(why) = ended else { break };
        if attempt == HEAL_ATTEMPTS {
            let title = format!("fault {fault}, `{name}`, is not undone: {why}");
            let hint = format!(
                "undo it by hand, and remove `open-faults.json` in `{}`; its command was: {}",
                directory.path().display(),
                open.heal
            );
            return Err(Failure::new(ExitCode::Refused, title).hint(hint).into());
        }
        thread::sleep(HEAL_AGAIN);
    }
    let seconds = penstock_sys::now_seconds().saturating_sub(began.seconds());
    directory.add_fault(&FaultRecord {
        fault,
        name,
        round,
        at_rest: false,
        began,
        open_seconds: seconds as f64,
        progress_seconds: None,
        problem: Some(KILLED.to_owned()),
    })?;
    directory.set_open_fault(None)
}
