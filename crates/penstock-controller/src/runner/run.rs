//! One run of a transfer: its rounds, and the loop of a round.
//!
//! ```text
//!   set up      ledger, store, tasks, puller                            phases::setup
//!     |
//!   move  <----+  open pages; peers fetch their pieces                  phases::moving
//!     |        |
//!   ask again -+  newer versions of changed entries are further pages   phases::changed_entries
//!     |
//!   links         peers make symbolic links, pipes and devices
//!     |
//!   delete        what is not at the source                             phases::deletion
//!     |
//!   directories   peers make further names, and set attributes          phases::link_check
//!     |
//!   finish        read back, repair, remove at the source, lists        phases::finishing
//!     |
//!   outcome, or another round: what was damaged is missing again
//! ```
//! The engine's machine decides when a phase is over. The loop asks a waiting phase again at each
//! turn, so that commits, the view and the requests of users are handled meanwhile.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use penstock_api::plan::PlanUse;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::FlightKind;
use penstock_api::transfer::Progress;
use penstock_engine::transfer::Phase;
use penstock_proto::units::format_rate;

use super::context::RunContext;
use super::control::Wish;
use super::input::{RunInput, RunOutcome};
use super::journal::checked_path;
use super::pages::piece_map::keep_map;
use super::pages::shared_source::SharedSource;
use super::phases::setup::{Prepared, Round, set_up};
use super::phases::{
    ChangedEntries, Deleting, Finished, Moving, find_failed_links, finish, read_logs, refuses,
};
use super::plan::{self, Followed};
use super::state::RunState;
use super::temp_cleanup::{clean_all, clean_unused};

/// The longest wait for news of peers, the source and the deletion.
const TURN: Duration = Duration::from_millis(50);

/// Runs a transfer until it ends or is stopped, or makes a plan if the options ask for that only.
/// Blocks all the while: call it on a thread of its own.
pub fn run(mut input: RunInput) -> RunOutcome {
    if let Some(refused) = refuses(&input.options) {
        return RunOutcome::Failed(refused);
    }
    if input.options.plan == Some(PlanUse::Make) {
        return plan::make(input);
    }
    let followed = match Followed::begin(&mut input) {
        Ok(followed) => followed,
        Err(RunOutcome::Paused) if input.control.wish() == Some(Wish::Cancel) => {
            return RunOutcome::Cancelled;
        }
        Err(outcome) => return outcome,
    };
    let source = SharedSource::new(input.pages);
    let input = RunInput { pages: Box::new(source.clone()), ..input };
    let (mut carried, mut number) = (Progress::default(), 0);
    loop {
        let (source, followed) = (source.clone(), followed.clone());
        match run_round(&input, Round { number, source, carried, followed }) {
            RoundEnd::Run(outcome) => return outcome,
            RoundEnd::Again(progress) => carried = *progress,
        }
        number += 1;
    }
}

/// The end of a round.
enum RoundEnd {
    /// The run has ended.
    Run(RunOutcome),
    /// Data read back differed from the data written: the ledger lacks it again. The next round
    /// adds to this progress.
    Again(Box<Progress>),
}

fn run_round(input: &RunInput, round: Round) -> RoundEnd {
    let mut run = match set_up(input, round) {
        Ok(prepared) => Run::new(prepared),
        Err(problem) => {
            input.control.update(|view| view.reason = problem.to_string());
            return RoundEnd::Run(RunOutcome::Failed(problem));
        }
    };
    if run.context.round > 0 {
        let text = "files differ from what was written: another round fetches them again";
        run.context.control.flight().add(FlightKind::Phase, "", text);
    }
    if run.context.spec.doubt {
        let text = "the store is older than the ledger: everything is checked again";
        run.context.control.flight().add(FlightKind::Phase, "", text);
    }
    let ended = run.drive();
    run.stop_threads();
    match ended {
        Ok(Some(outcome)) => RoundEnd::Run(run.end_with(outcome)),
        Ok(None) => {
            run.state.progress.is_whole = true;
            run.state.show(&run.context);
            RoundEnd::Again(Box::new(input.control.view().progress))
        }
        Err(problem) if problem.code == ProblemCode::PlanStale => {
            // No later run can continue with the plan: nothing temporary is left.
            let given_up = run.cancel();
            let _ = fs::remove_file(checked_path(&run.context.journal));
            RoundEnd::Run(RunOutcome::Failed(given_up.err().unwrap_or(problem)))
        }
        Err(problem) => {
            run.end_tasks();
            RoundEnd::Run(run.end_with(RunOutcome::Failed(problem)))
        }
    }
}

/// Returns a phase in words.
fn phase_text(phase: Phase) -> &'static str {
    match phase {
        Phase::Moving => "files move",
        Phase::Asking => "the source is asked again about changed entries",
        Phase::Links => "links, pipes and devices are made",
        Phase::Deleting => "what is not at the source is deleted",
        Phase::Directories => "directories get their attributes",
        Phase::Done => "all items are done: lists, proofs and removals follow",
    }
}

/// A round of a run.
struct Run {
    context: Arc<RunContext>,
    state: RunState,
    moving: Moving,
    changed: ChangedEntries,
    deleting: Deleting,
}

impl Run {
    fn new(Prepared { context, state, moving }: Prepared) -> Self {
        let (changed, deleting) = (ChangedEntries::default(), Deleting::default());
        Self { context, state, moving, changed, deleting }
    }

    /// Runs the loop: opens pages, commits and checks, until the end. `None` if another round is to
    /// begin.
    fn drive(&mut self) -> Result<Option<RunOutcome>, Problem> {
        let context = Arc::clone(&self.context);
        let mut last = None;
        loop {
            let opened = self.moving.open_pages(&context, &mut self.state)?;
            self.state.progress.show_failures(&context.shared);
            context.check_fence()?;
            let commits = self.state.commit_if_due(&context)?;
            self.state.show_if_due(&context);
            context.control.flight().write_if_due();
            if let Some(rate) = context.control.take_rate() {
                let text = rate.map_or("none".to_owned(), |rate| format_rate(rate as f64));
                let text = format!("the limit of the rate is {text}");
                context.control.flight().add(FlightKind::Rate, "", &text);
                self.state.tasks.set_rate(rate);
            }
            if let Some(wish) = context.control.wish() {
                return self.stop(wish).map(Some);
            }
            let nobody_left = self.state.tasks.tend()?;
            read_logs(&context.shared)?;
            let phase = context.shared.machine().phase();
            if let Some(problem) = nobody_left.filter(|_| phase != Phase::Done) {
                return self.break_off(problem).map(Some);
            }
            if !matches!(phase, Phase::Moving | Phase::Asking) {
                self.moving.end_doubt(&context, &mut self.state.tasks)?;
            }
            match phase {
                Phase::Moving | Phase::Links => {}
                Phase::Asking => self.changed.step(&context, &mut self.state)?,
                Phase::Deleting => self.deleting.step(&context, &mut self.state)?,
                Phase::Directories => find_failed_links(&context, &mut self.state)?,
                Phase::Done if self.state.calls_back()? => {}
                Phase::Done => return self.finish(),
            }
            let next = context.shared.machine().phase();
            let changes = last.replace(next) != Some(next);
            if changes {
                context.control.flight().add(FlightKind::Phase, "", phase_text(next));
            }
            if opened || commits || changes {
                self.state.tasks.wake();
            }
            if !opened && !changes {
                context.shared.wait(TURN);
            }
        }
    }

    fn finish(&mut self) -> Result<Option<RunOutcome>, Problem> {
        match finish(&self.context, &mut self.state, &self.deleting)? {
            Finished::Ended(outcome) => Ok(Some(outcome)),
            Finished::Again => Ok(None),
            Finished::Stopped => {
                self.stop(self.context.control.wish().unwrap_or(Wish::Pause)).map(Some)
            }
        }
    }

    fn stop(&mut self, wish: Wish) -> Result<RunOutcome, Problem> {
        match wish {
            Wish::Pause => self.keep().map(|()| RunOutcome::Paused),
            Wish::Cancel => self.cancel(),
        }
    }

    fn break_off(&mut self, problem: Problem) -> Result<RunOutcome, Problem> {
        self.state.progress.is_whole = true;
        self.keep().map(|()| RunOutcome::Failed(problem))
    }

    /// Ends the tasks, with all that was written in the ledger.
    fn keep(&mut self) -> Result<(), Problem> {
        self.state.tasks.stop(false);
        self.state.commit(&self.context)?;
        self.state.show(&self.context);
        Ok(())
    }

    /// Ends the tasks, and removes all temporary files.
    fn cancel(&mut self) -> Result<RunOutcome, Problem> {
        let context = &self.context;
        self.state.tasks.stop(true);
        self.state.commit(context)?;
        context.check_fence()?;
        let all = clean_all(context, &self.state.tasks)?;
        // Discarding the journal retries removals that failed.
        if all {
            context.heads.remove(context.id)?;
        }
        Ok(RunOutcome::Cancelled)
    }

    /// Returns the outcome, after the removal of files that no later run needs. The piece map is
    /// kept.
    fn end_with(&self, outcome: RunOutcome) -> RunOutcome {
        let context = &self.context;
        let (control, files) = (&context.control, context.files());
        if outcome != RunOutcome::Cancelled && context.spec.fence.holds() {
            let map = control.map_maker().last_map(&context.shared, &control.view().progress);
            if let Err(problem) = keep_map(&files.pieces, &map) {
                // No other part depends on the map.
                tracing::warn!(transfer = %context.id, %problem, "the piece map is not kept");
            }
        }
        clean_unused(&self.context, &self.state.tasks, &outcome);
        outcome
    }

    /// Ends the threads that compare, pull and delete.
    fn stop_threads(&mut self) {
        self.context.shared.comparing.progress.stop.store(true, Ordering::Release);
        self.state.puller.stop();
        self.deleting.stop();
    }

    /// Ends the tasks of a run that cannot continue, or leaves them to the next controller.
    fn end_tasks(&mut self) {
        match self.context.spec.fence.holds() {
            true => self.state.tasks.stop(false),
            false => self.state.tasks.leave(),
        }
    }
}
