//! The course of a soak: round after round, until its end is reached.
//!
//! A round is a transfer, a check of its receipt, a comparison where one is wanted, and its record.
//! Its transfers have ids that follow from the soak and the number of the round, so that a start
//! after a kill submits them again and finds them. What a round has put into the soak's directory
//! is removed before the next one begins: by a transfer from an empty directory that deletes.
//!
//! A daemon may let a transfer wait without limit. The soak does not: a round without progress for
//! too long fails, and its transfer is cancelled.

pub(super) mod step;
pub(super) mod wait_watch;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use penstock_api::rest::TransferView;
use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::{Location, TransferOptions, TransferRequest, TransferState};
use penstock_api::update::{CompareBy, UpdateOptions};
use penstock_exit::{self as exit, ExitCode, Failure};
use penstock_proto::id::TransferId;

use self::step::{Purpose, Step};
use self::wait_watch::{HIDDEN_WORK, WaitWatch};
use super::daemon::Daemon;
use super::directory::Directory;
use super::injector::{DONE, Injector, Scene};
use super::own_directory::OwnDirectory;
use super::record::{Compared, RoundBegun, RoundRecord, SoakRecord};
use super::report::Report;
use super::until::{Until, Worked};
use super::verdict::judge;

/// Interval at which faults and the user's interrupt are looked at.
const TICK: Duration = Duration::from_millis(100);
/// Interval at which a transfer is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// Interval of figures of the daemons.
const SAMPLE: Duration = Duration::from_secs(10);
/// Longest silence of the daemon; then the soak ends.
const PATIENCE: Duration = Duration::from_secs(900);
/// Most times that a failed transfer is started again.
const RETRIES_MAX: u32 = 3;
/// Most rounds in a row that were no success. An emptying may stall for the time of so many.
const BAD_ROUNDS_MAX: u32 = 3;
/// Longest time between two looks that counts as time without progress. [`PATIENCE`] limits the
/// silence of a daemon.
const GAP: Duration = Duration::from_secs(4);
/// Longest wait for the end of a cancelled transfer.
const CANCEL_PATIENCE: Duration = Duration::from_secs(60);

/// A soak at work.
pub(super) struct Course<'a> {
    pub(super) directory: &'a Directory,
    pub(super) report: Report,
    /// The daemon of the target's site, and others whose figures are wanted.
    pub(super) daemon: Daemon,
    pub(super) others: Vec<Daemon>,
    pub(super) record: SoakRecord,
    pub(super) injector: Injector<'a>,
    pub(super) worked: Worked,
    /// Root digest of the first good round.
    pub(super) root_digest: Option<String>,
    pub(super) stop: &'a AtomicBool,
    pub(super) began: Instant,
    pub(super) earlier_seconds: f64,
    pub(super) sampled: Option<Instant>,
}

/// A transfer that was followed until it has ended, or stalls.
struct Followed {
    view: TransferView,
    /// The reason of the stall, in words; none if the transfer has ended.
    stall: Option<String>,
}

impl Course<'_> {
    /// Works until the end is reached. Undoes an open fault and saves, however it ends.
    ///
    /// # Errors
    /// The user has interrupted it; the daemon is away for too long; rounds fail again and again;
    /// the directory cannot be written.
    pub(super) fn run(&mut self) -> anyhow::Result<()> {
        let ended = self.rounds();
        let healed = self.injector.close(&mut self.record);
        let settled = self.injector.settle();
        if ended.is_err() {
            self.pause();
        }
        let ended = ended.and(healed).and(settled);
        if let Err(error) = &ended
            && exit::code_of(error) != ExitCode::Interrupted
        {
            self.record.failures.push(format!("start {}: {error:#}", self.record.starts));
        }
        self.count_time();
        let saved = self.directory.save(&self.record);
        ended.and(saved)
    }

    fn rounds(&mut self) -> anyhow::Result<()> {
        let mut bad = 0;
        while !self.is_reached() || self.record.round.is_some() || self.record.is_given_up {
            if self.record.round.is_none() {
                self.empty()?;
                self.begin_round()?;
            }
            let round = self.round()?;
            bad = if round.is_good { 0 } else { bad + 1 };
            if bad == BAD_ROUNDS_MAX {
                let title = format!("{bad} rounds in a row were no success");
                let out = self.directory.path().display();
                let why = format!("`penstock soak --show {out}` says why");
                let failure = Failure::new(ExitCode::SomeFailed, title);
                return Err(failure.hint(format!("{why}; {}", self.hint())).into());
            }
        }
        self.injector.close(&mut self.record)?;
        self.empty()
    }

    /// Returns what a user can do after an end before its time.
    fn hint(&self) -> String {
        let continues = "the same command continues with what is counted";
        if self.record.is_null {
            return continues.to_owned();
        }
        let (place, out) = (OwnDirectory(&self.record).place(), self.directory.path().display());
        format!("{continues}; or `penstock soak --clean {out}` removes `{place}`")
    }

    fn is_reached(&mut self) -> bool {
        self.count_time();
        self.record.until.is_reached(&self.worked)
    }

    fn count_time(&mut self) {
        self.worked.seconds = self.earlier_seconds + self.began.elapsed().as_secs_f64();
        self.record.seconds = self.worked.seconds;
    }

    fn begin_round(&mut self) -> anyhow::Result<()> {
        let number = self.worked.rounds + 1;
        let step = Step { round: number, purpose: Purpose::Move };
        self.record.is_given_up = false;
        self.record.round = Some(RoundBegun {
            number,
            transfer: step.transfer_id(&self.record),
            began: Timestamp::of_seconds(penstock_sys::now_seconds()),
            retries: 0,
            // A fault that is still open is one of this round too.
            faults_before: self.record.faults - u64::from(self.injector.is_open()),
            is_continued: false,
            is_damaged: None,
            is_damage_certain: false,
            failures: Vec::new(),
            resent: Default::default(),
        });
        self.directory.save(&self.record)
    }

    /// Does a round to its end, and records it.
    fn round(&mut self) -> anyhow::Result<RoundRecord> {
        let Some(begun) = self.record.round.clone() else {
            return Err(Failure::new(ExitCode::Unclassified, "no round was begun").into());
        };
        let view = self.transfer(Step { round: begun.number, purpose: Purpose::Move })?;
        let mut begun = self.record.round.clone().unwrap_or(begun);
        let text = match view.state {
            TransferState::Done => Some(self.receipt(view.id)?),
            _ => None,
        };
        let mut round = judge(&mut begun, &view, text.as_deref(), self.root_digest.as_deref());
        if let Some(receipt) = text.and_then(|text| serde_json::from_slice(&text).ok()) {
            self.directory.add_receipt(&receipt)?;
        }
        if view.state == TransferState::Done && !self.record.is_null {
            self.compare(&mut round)?;
        }
        if round.is_good && self.root_digest.is_none() {
            self.root_digest.clone_from(&round.root_digest);
        }
        let resent = self.record.round.as_ref().map(|it| it.resent.by_fault());
        round.sent_again = resent.unwrap_or_default();
        round.faults = self.record.faults - begun.faults_before;
        self.count_time();
        round.at_seconds = self.worked.seconds;
        self.directory.add_round(&round)?;
        self.worked.rounds += 1;
        self.worked.bytes += if round.is_good { round.bytes } else { 0 };
        self.record.round = None;
        self.directory.save(&self.record)?;
        self.report.round(&round)?;
        Ok(round)
    }

    /// Damages data at rest if a fault that does is due, and compares source and target.
    fn compare(&mut self, round: &mut RoundRecord) -> anyhow::Result<()> {
        let (is_damaged, is_certain) = self.damage(round)?;
        if !is_damaged && !self.record.compares {
            return Ok(());
        }
        let update = UpdateOptions { sync: true, compare: CompareBy::Digest, ..Default::default() };
        let options = TransferOptions { update, ..Default::default() };
        let step = Step { round: round.round, purpose: Purpose::Compare };
        let request = step.request(&self.record, self.set(), options);
        // It reads what the transfer has moved, at both sides.
        let hidden = Duration::from_secs(round.seconds as u64) * HIDDEN_WORK;
        let watch = WaitWatch::new(self.stall()).with_hidden_work(hidden.max(self.stall()));
        let Followed { view, stall } = self.follow(step, &request, watch)?;
        let files = view.progress.files;
        round.compared = Some(Compared { files, is_damage_expected: is_damaged });
        if let Some(why) = stall {
            self.cancel(step, view.id)?;
            round.failures.push(format!("the comparison stalls and is cancelled: {why}"));
            round.is_good = false;
            return Ok(());
        }
        let failure = match (view.state, files, is_damaged) {
            (TransferState::Done, 0, true) if is_certain => {
                "data was damaged at rest, and the comparison did not find it".to_owned()
            }
            (TransferState::Done, 0, false) | (TransferState::Done, _, true) => return Ok(()),
            (TransferState::Done, files, false) => {
                format!("the comparison found {files} files that differ, which no fault damaged")
            }
            (state, ..) => format!("the comparison is {}: {}", state.as_str(), view.reason),
        };
        round.failures.push(failure);
        round.is_good = false;
        Ok(())
    }

    /// Damages data at rest if a fault that does is due. Returns whether its command was begun in
    /// this round, maybe by an earlier start, and whether it is certain to have damaged anything.
    fn damage(&mut self, round: &RoundRecord) -> anyhow::Result<(bool, bool)> {
        let earlier =
            self.record.round.as_ref().and_then(|it| Some((it.is_damaged?, it.is_damage_certain)));
        if let Some(earlier) = earlier {
            return Ok(earlier);
        }
        let is_due = self.injector.will_damage();
        if is_due {
            // The fault that is open by chance is over first.
            self.injector.close(&mut self.record)?;
        }
        // It is durable before the command begins: a soak that is killed meanwhile compares too.
        self.note_damage(is_due, false)?;
        if !is_due {
            return Ok((false, false));
        }
        let scene = self.scene(round.round, round.transfer);
        let is_certain = self.injector.damage(&mut self.record, &scene)?;
        self.note_damage(true, is_certain)?;
        Ok((true, is_certain))
    }

    fn note_damage(&mut self, is_damaged: bool, is_certain: bool) -> anyhow::Result<()> {
        if let Some(begun) = &mut self.record.round {
            (begun.is_damaged, begun.is_damage_certain) = (Some(is_damaged), is_certain);
        }
        self.directory.save(&self.record)
    }

    /// Moves the data set; a transfer that fails is started again a few times. One that stalls is
    /// cancelled.
    fn transfer(&mut self, step: Step) -> anyhow::Result<TransferView> {
        let request = step.request(&self.record, self.set(), TransferOptions::default());
        loop {
            // An attempt may read again for long what earlier ones have moved.
            let watch = WaitWatch::new(self.stall()).with_hidden_work(self.stall() * HIDDEN_WORK);
            let Followed { view, stall } = self.follow(step, &request, watch)?;
            let Some(begun) = &mut self.record.round else { return Ok(view) };
            if let Some(why) = stall {
                begun.failures.push(format!("the transfer stalls and is cancelled: {why}"));
                // It is durable before the cancellation, which a later start finds.
                self.directory.save(&self.record)?;
                return self.cancel(step, view.id);
            }
            if view.state == TransferState::Done {
                return Ok(view);
            }
            begun.failures.push(format!("it is {}: {}", view.state.as_str(), view.reason));
            if view.state == TransferState::Cancelled || begun.retries == RETRIES_MAX {
                return Ok(view);
            }
            begun.retries += 1;
            self.directory.save(&self.record)?;
            let daemon = &self.daemon;
            if let Err(error) = daemon.retry(view.id) {
                exit::warn(&format!("the transfer cannot be started again yet: {error:#}"));
            }
        }
    }

    /// Submits a transfer, and returns how it ended or that it stalls. While the data set is moved
    /// faults may begin, and the bytes are counted.
    fn follow(
        &mut self,
        step: Step,
        request: &TransferRequest,
        mut watch: WaitWatch,
    ) -> anyhow::Result<Followed> {
        let id = request.id;
        let mut view = self
            .persist("the transfer cannot be submitted", |daemon| daemon.submit(request.clone()))?;
        let moves = step.purpose == Purpose::Move;
        let scene = moves.then(|| self.scene(step.round, id));
        let mut looked = Instant::now();
        let mut counted = looked;
        let mut may_resume =
            moves && self.record.round.as_ref().is_some_and(|begun| begun.is_continued);
        loop {
            if moves {
                self.see(&view, step.round, looked)?;
            }
            if may_resume && view.state == TransferState::Paused {
                may_resume = !self.resume(id);
            }
            if let Some(news) = watch.see(&view) {
                self.report.wait(step, &view, &news)?;
            }
            let stall = watch.stall();
            if view.state.is_ended() || stall.is_some() {
                return Ok(Followed { view, stall });
            }
            // A daemon that answers late delays neither the end of a fault nor an interrupt.
            loop {
                let (may_begin, is_open) = (!self.is_reached(), self.injector.is_open());
                self.tick(scene.as_ref().filter(|_| may_begin))?;
                if !is_open {
                    watch.pass(counted.elapsed().min(GAP));
                }
                counted = Instant::now();
                if counted >= looked + LOOK {
                    break;
                }
            }
            view = self.persist("the transfer cannot be seen", |daemon| {
                looked = Instant::now();
                daemon.transfer(id)
            })?;
        }
    }

    fn stall(&self) -> Duration {
        Duration::from_secs(self.record.stall_seconds)
    }

    /// Cancels a transfer that stalls, and waits a while for its end.
    fn cancel(&mut self, step: Step, id: TransferId) -> anyhow::Result<TransferView> {
        self.persist("the transfer cannot be cancelled", |daemon| match daemon.cancel(id) {
            Err(error) if exit::code_of(&error) != ExitCode::Temporary => {
                exit::warn(&format!("{step}: the transfer is not cancelled: {error:#}"));
                Ok(())
            }
            answer => answer.map(drop),
        })?;
        let began = Instant::now();
        loop {
            let view = self.persist("the transfer cannot be seen", |daemon| daemon.transfer(id))?;
            if view.state.is_ended() {
                return Ok(view);
            }
            if began.elapsed() > CANCEL_PATIENCE {
                let most = CANCEL_PATIENCE.as_secs();
                exit::warn(&format!("{step}: the cancelled transfer has not ended after {most} s"));
                return Ok(view);
            }
            self.tick(None)?;
        }
    }

    fn see(&mut self, view: &TransferView, number: u64, looked: Instant) -> anyhow::Result<()> {
        let last = Some(self.record.faults).filter(|faults| *faults > 0);
        if let Some(begun) = &mut self.record.round {
            begun.resent.see(&view.progress, last);
        }
        let settled = match view.state {
            TransferState::Done => DONE,
            _ => view.progress.bytes_settled(),
        };
        self.injector.see((number, settled), looked)
    }

    /// Asks the daemon until it answers; what is no passing failure ends the soak.
    fn persist<T>(
        &mut self,
        what: &str,
        mut ask: impl FnMut(&Daemon) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let began = Instant::now();
        let mut told = false;
        loop {
            let error = match ask(&self.daemon) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let passes = exit::code_of(&error) == ExitCode::Temporary;
            if !passes || began.elapsed() > PATIENCE {
                return Err(error.context(what.to_owned()));
            }
            if !told && began.elapsed() > LOOK * 4 {
                exit::warn(&format!("{what} now, and is tried on: {error:#}"));
                told = true;
            }
            let next = Instant::now() + LOOK;
            while Instant::now() < next {
                self.tick(None)?;
            }
        }
    }

    /// Does what is due, and waits a moment.
    fn tick(&mut self, scene: Option<&Scene>) -> anyhow::Result<()> {
        if self.stop.load(Ordering::Acquire) {
            let interrupted = Failure::new(ExitCode::Interrupted, "interrupted");
            return Err(interrupted.hint(self.hint()).into());
        }
        self.injector.poll(&mut self.record, scene)?;
        if self.sampled.is_none_or(|sampled| sampled.elapsed() >= SAMPLE) {
            self.sampled = Some(Instant::now());
            self.count_time();
            let at_seconds = self.worked.seconds;
            for daemon in std::iter::once(&mut self.daemon).chain(&mut self.others) {
                if let Some(sample) = daemon.sample(at_seconds) {
                    self.directory.add_sample(&sample)?;
                }
            }
            self.note_versions();
            self.directory.save(&self.record)?;
        }
        thread::sleep(TICK);
        Ok(())
    }

    fn note_versions(&mut self) {
        let now = std::iter::once(&self.daemon).chain(&self.others).map(Daemon::version);
        let all: BTreeSet<String> = self.record.versions.drain(..).chain(now).collect();
        self.record.versions = all.into_iter().collect();
    }

    fn receipt(&mut self, id: TransferId) -> anyhow::Result<Vec<u8>> {
        self.persist("the receipt cannot be fetched", |daemon| daemon.receipt(id))
    }

    /// Returns the target of each round.
    fn set(&self) -> Location {
        match self.record.is_null {
            true => self.record.target.clone(),
            false => OwnDirectory(&self.record).set(),
        }
    }

    fn scene(&self, round: u64, transfer: TransferId) -> Scene {
        let path = String::from(self.set().path);
        let values = [
            ("ROUND", round.to_string()),
            ("TRANSFER", transfer.to_string()),
            ("SEED", self.record.seed.to_string()),
            ("TARGET", path),
            ("DIR", self.directory.path().display().to_string()),
        ];
        let environment =
            values.into_iter().map(|(name, value)| (format!("PENSTOCK_SOAK_{name}"), value));
        Scene { round, environment: environment.collect() }
    }

    /// Removes what the last round has put into the soak's own directory, and nothing else.
    fn empty(&mut self) -> anyhow::Result<()> {
        if self.record.is_null || self.worked.rounds == 0 {
            return Ok(());
        }
        let step = Step { round: self.worked.rounds, purpose: Purpose::Empty };
        let request = OwnDirectory(&self.record).emptying(step);
        let (most, hidden) = (self.stall() * BAD_ROUNDS_MAX, self.stall() * HIDDEN_WORK);
        let watch = || WaitWatch::new(most).with_hidden_work(hidden);
        let mut followed = self.follow(step, &request, watch())?;
        for _ in 0..RETRIES_MAX {
            let has_failed = followed.view.state == TransferState::Failed;
            if has_failed && self.daemon.retry(request.id).is_ok() {
                followed = self.follow(step, &request, watch())?;
            }
        }
        if followed.view.state == TransferState::Done {
            return Ok(());
        }
        // An emptying that stalls is not cancelled: the next start follows it again.
        let why = followed.stall.unwrap_or(followed.view.reason);
        let title = format!("the directory of the soak cannot be emptied: {why}");
        Err(Failure::new(ExitCode::SomeFailed, title).hint(self.hint()).into())
    }

    /// Pauses the transfer of a round that the soak leaves, so that nothing works on without it.
    fn pause(&mut self) {
        let Some(begun) = &self.record.round else { return };
        if let Err(error) = self.daemon.pause(begun.transfer) {
            // It has not begun, has ended, or no daemon answers: then nothing is to be paused here.
            tracing::debug!(error = %format!("{error:#}"), "no pause");
        }
    }

    /// Continues the transfer that an earlier start has paused; returns false if the daemon does
    /// not answer now.
    fn resume(&self, id: TransferId) -> bool {
        let Err(error) = self.daemon.resume(id) else { return true };
        let is_over = exit::code_of(&error) != ExitCode::Temporary;
        if is_over {
            exit::warn(&format!("the transfer of the round stays paused: {error:#}"));
        }
        is_over
    }
}

/// Returns the work of earlier starts.
pub(super) fn worked(rounds: &[RoundRecord], seconds: f64) -> Worked {
    Worked {
        bytes: rounds.iter().filter(|round| round.is_good).map(|round| round.bytes).sum(),
        seconds,
        rounds: rounds.last().map_or(0, |round| round.round),
    }
}

/// Returns whether an end was reached.
pub(super) fn is_complete(record: &SoakRecord, rounds: &[RoundRecord]) -> bool {
    let until: Until = record.until;
    record.round.is_none()
        && !record.is_given_up
        && until.is_reached(&worked(rounds, record.seconds))
}
