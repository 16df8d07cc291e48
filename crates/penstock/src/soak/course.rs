//! The course of a soak: round after round, until its end is reached.
//!
//! A round is a transfer, a check of its receipt, a comparison where one is wanted, and its record.
//! Its transfers have ids that follow from the soak and the number of the round, so that a start
//! after a kill submits them again and finds them. What a round has put into the soak's directory
//! is removed before the next one begins: by a transfer from an empty directory that deletes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use penstock_api::place::PathText;
use penstock_api::rest::TransferView;
use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::{Location, TransferOptions, TransferRequest, TransferState};
use penstock_api::update::{CompareBy, UpdateOptions};
use penstock_exit::{self as exit, ExitCode, Failure};
use penstock_proto::id::TransferId;
use penstock_proto::name;

use super::daemon::Daemon;
use super::directory::Directory;
use super::injector::{DONE, Injector, Scene};
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
/// Most rounds in a row that were no success.
const BAD_ROUNDS_MAX: u32 = 3;

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
    /// Compare after each round, not only where data at rest was damaged.
    pub(super) compares: bool,
    pub(super) stop: &'a AtomicBool,
    pub(super) began: Instant,
    pub(super) earlier_seconds: f64,
    pub(super) sampled: Option<Instant>,
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
        while !self.is_reached() || self.record.round.is_some() {
            if self.record.round.is_none() {
                self.empty()?;
                self.begin_round()?;
            }
            let round = self.round()?;
            bad = if round.is_good { 0 } else { bad + 1 };
            if bad == BAD_ROUNDS_MAX {
                let title = format!("{bad} rounds in a row were no success");
                let out = self.directory.path().display();
                let hint =
                    format!("`penstock soak --show {out}` says why; the same command continues");
                return Err(Failure::new(ExitCode::SomeFailed, title).hint(hint).into());
            }
        }
        self.injector.close(&mut self.record)?;
        self.empty()
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
        self.record.round = Some(RoundBegun {
            number,
            transfer: self.transfer_id(number, "move"),
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

    /// Returns the id of a transfer of a round, which is the same after a restart.
    fn transfer_id(&self, round: u64, word: &str) -> TransferId {
        let mut hasher = blake3::Hasher::new_derive_key("penstock soak transfers 1");
        hasher.update(&self.record.id.0);
        hasher.update(&round.to_le_bytes());
        hasher.update(word.as_bytes());
        let mut id = [0; 16];
        id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        TransferId(id)
    }

    /// Does a round to its end, and records it.
    fn round(&mut self) -> anyhow::Result<RoundRecord> {
        let Some(begun) = self.record.round.clone() else {
            return Err(Failure::new(ExitCode::Unclassified, "no round was begun").into());
        };
        let request = self.request(begun.transfer, self.set(), TransferOptions::default());
        let view = self.transfer(request)?;
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
        if !is_damaged && !self.compares {
            return Ok(());
        }
        let update = UpdateOptions { sync: true, compare: CompareBy::Digest, ..Default::default() };
        let options = TransferOptions { update, ..Default::default() };
        let id = self.transfer_id(round.round, "compare");
        let view = self.follow(self.request(id, self.set(), options), None)?;
        let files = view.progress.files;
        round.compared = Some(Compared { files, is_damage_expected: is_damaged });
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

    /// Moves the data set; a transfer that fails is started again a few times.
    fn transfer(&mut self, request: TransferRequest) -> anyhow::Result<TransferView> {
        let (id, number) = (request.id, self.worked.rounds + 1);
        let mut view = self.follow(request.clone(), Some(number))?;
        loop {
            let Some(begun) = &mut self.record.round else { return Ok(view) };
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
            if let Err(error) = daemon.retry(id) {
                exit::warn(&format!("the transfer cannot be started again yet: {error:#}"));
            }
            view = self.follow(request.clone(), Some(number))?;
        }
    }

    /// Submits a transfer and returns how it ended. With a number of a round faults may begin
    /// meanwhile, and its bytes are counted.
    fn follow(
        &mut self,
        request: TransferRequest,
        round: Option<u64>,
    ) -> anyhow::Result<TransferView> {
        let id = request.id;
        let mut view = self
            .persist("the transfer cannot be submitted", |daemon| daemon.submit(request.clone()))?;
        let scene = round.map(|number| self.scene(number, id));
        let mut looked = Instant::now();
        let mut may_resume =
            round.is_some() && self.record.round.as_ref().is_some_and(|begun| begun.is_continued);
        loop {
            if let Some(number) = round {
                self.see(&view, number, looked)?;
            }
            if may_resume && view.state == TransferState::Paused {
                may_resume = !self.resume(id);
            }
            if view.state.is_ended() {
                return Ok(view);
            }
            let next = looked + LOOK;
            while Instant::now() < next {
                let may_begin = !self.is_reached();
                self.tick(scene.as_ref().filter(|_| may_begin))?;
            }
            view = self.persist("the transfer cannot be seen", |daemon| {
                looked = Instant::now();
                daemon.transfer(id)
            })?;
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
            return Err(Failure::new(ExitCode::Interrupted, "interrupted")
                .hint("the same command continues with what is counted")
                .into());
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

    fn request(
        &self,
        id: TransferId,
        target: Location,
        mut options: TransferOptions,
    ) -> TransferRequest {
        options.proof.receipt = true;
        let mut request = TransferRequest::new(id, self.record.source.clone(), target, options);
        request.label = format!("soak {}", self.record.id.short());
        request
    }

    /// Returns the soak's own directory in the target store.
    pub(super) fn own_directory(record: &SoakRecord) -> Vec<u8> {
        let own = format!("penstock-soak-{}", record.id.short());
        name::join(&record.target.path.0, own.as_bytes())
    }

    /// Returns a place in the soak's own directory.
    fn within(&self, name: &str) -> Location {
        let path = PathText(name::join(&Self::own_directory(&self.record), name.as_bytes()));
        Location { path, slash: true, ..self.record.target.clone() }
    }

    /// Returns the target of each round.
    fn set(&self) -> Location {
        if self.record.is_null { self.record.target.clone() } else { self.within("set") }
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
        let update = UpdateOptions {
            sync: true,
            delete: true,
            max_delete: Some(u64::MAX),
            ..Default::default()
        };
        let options = TransferOptions { update, ..Default::default() };
        let id = self.transfer_id(self.worked.rounds, "empty");
        let mut request = self.request(id, self.set(), options);
        request.source = self.within("nothing");
        let mut view = self.follow(request.clone(), None)?;
        for _ in 0..RETRIES_MAX {
            if view.state == TransferState::Failed && self.daemon.retry(id).is_ok() {
                view = self.follow(request.clone(), None)?;
            }
        }
        if view.state == TransferState::Done {
            return Ok(());
        }
        let title = format!("the directory of the soak cannot be emptied: {}", view.reason);
        Err(Failure::new(ExitCode::SomeFailed, title).into())
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
    record.round.is_none() && until.is_reached(&worked(rounds, record.seconds))
}
