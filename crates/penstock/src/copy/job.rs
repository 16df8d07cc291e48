//! One copy as its user sees it: progress, signals, lists, the receipt, and the end of its state.
//! The work itself is a [`Job`], whose ends are in this process or at another host.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use penstock_api::peers::OnePeer;
use penstock_api::plan::PlanUse;
use penstock_api::preserve::Preserve;
use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::rest::Event;
use penstock_api::scan::{PageSource, RootKind, ScanRequest};
use penstock_api::task::{SourceAccess, TargetPeer};
use penstock_api::transfer::{Location, PathText, TransferOptions, TransferReport, TransferState};
use penstock_controller::runner::{self, RunControl, RunFiles, RunInput, RunOutcome, plan_path};
use penstock_proto::id::Name;
use penstock_proto::name::RunTag;
use penstock_proto::slicing::Slicing;

use super::clean;
use super::places::TargetPlace;
use super::state::{State, keeping_state, state_home};
use crate::options::proof::{DigestOutputs, open_papers};
use crate::output::failed_list;
use crate::output::output_file::OutputFile;
use crate::output::plan;
use crate::output::progress::{Mode, Reporter};
use crate::receipt;
use crate::signals;
use penstock_daemon::access::receipt_keys::Signer;
use penstock_exit::{self as exit, ExitCode, Failure, exit_code, failure};

/// How often the figures are shown.
const SHOW_INTERVAL: Duration = Duration::from_millis(200);

/// One copy: what is shown of it, what it keeps, how it is steered. Who does the work is a [`Job`].
pub(crate) struct Copy {
    pub(crate) from: PathBuf,
    pub(crate) to: PathBuf,
    pub(crate) options: TransferOptions,
    pub(crate) state: State,
    pub(crate) control: Arc<RunControl>,
}

/// What is to be written for the user when a copy has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Papers {
    /// Where the digest list goes, and the lists of other checksums beside it.
    pub(crate) digests: Option<PathBuf>,
    /// Where the receipt goes.
    pub(crate) receipt: Option<PathBuf>,
    /// How a plan is shown, if that is all that is made.
    pub(crate) plan: plan::Show,
}

/// The files of [`Papers`], opened before the copy begins.
#[derive(Default)]
struct Outputs {
    digests: Option<DigestOutputs>,
    receipt: Option<(OutputFile, Signer)>,
}

impl Papers {
    fn open(&self, copy: &Copy, mode: Mode) -> anyhow::Result<Outputs> {
        if copy.makes_plan() {
            return Ok(Outputs::default());
        }
        let also = &copy.options.proof.also_digests;
        let (digests, receipt) =
            open_papers(self.digests.as_deref(), also, self.receipt.as_deref(), mode)?;
        let lists = digests.iter().flat_map(DigestOutputs::files);
        for output in lists.chain(&receipt) {
            if output.replaces(&copy.from) || output.replaces(&copy.to) {
                let name = output.name().display();
                let message = format!("`{name}` would take the place of what is copied");
                return Err(Failure::new(ExitCode::Usage, message)
                    .hint("give the output another name than the source and the target")
                    .into());
            }
        }
        let sign = |file| anyhow::Ok((file, Signer::of_user(&state_home()?)?));
        Ok(Outputs { digests, receipt: receipt.map(sign).transpose()? })
    }
}

/// The work of a copy, done in this process or at another host.
pub(crate) struct Job {
    /// Does it; blocks until it has ended.
    pub(crate) run: Box<dyn FnOnce() -> RunOutcome + Send>,
    /// Where the lists are when it has ended.
    pub(crate) journal: PathBuf,
    /// Called once nothing will be resumed any more.
    pub(crate) leave: Box<dyn FnOnce()>,
}

/// Runs a copy whose target is `target` on this host. Where the names of temporary files were lost
/// with a damaged state, they are looked for below the target once the copy is done.
pub(crate) fn run_at(input: RunInput, target: &Path) -> RunOutcome {
    let (run, journal) = (RunTag::of(input.id), input.journal.clone());
    let outcome = runner::run(input);
    if outcome == RunOutcome::Done && runner::has_lost_names(&journal) {
        clean::remove_unfinished(target, run);
    }
    outcome
}

/// The parts of a run whose target is on this host, wherever its source is.
pub(crate) struct RunParts<'a> {
    pub(crate) state: &'a State,
    pub(crate) options: &'a TransferOptions,
    pub(crate) place: &'a TargetPlace,
    /// Name of the store that is written to.
    pub(crate) store: Name,
    pub(crate) target: Arc<dyn TargetPeer>,
    pub(crate) pages: Box<dyn PageSource>,
    pub(crate) source: SourceAccess,
    /// From where and to where, as it was written.
    pub(crate) places: (PathText, PathText),
}

impl RunParts<'_> {
    /// Opens the ledger and looks at the target; returns the input of a run that `control` steers.
    /// Blocks on storage.
    ///
    /// # Errors
    /// The state cannot be used.
    pub(crate) fn input(self, control: Arc<RunControl>) -> anyhow::Result<RunInput> {
        let heads = self.state.open_heads()?;
        let at = (&self.store, &self.place.root[..]);
        let makes_plan = self.options.plan == Some(PlanUse::Make);
        let is_new_target =
            !makes_plan && self.state.settle_target(&heads, &*self.target, at, &self.place.path);
        Ok(RunInput {
            id: self.state.id,
            listing: self.state.listing,
            is_new_target,
            options: keeping_state(self.options, &self.place.path),
            store: self.store,
            root: PathText(self.place.root.clone()),
            pages: self.pages,
            source: self.source,
            find_source: None,
            peers: Arc::new(OnePeer(self.target)),
            heads: Arc::new(heads),
            journal: self.state.journal(),
            control,
            places: self.places,
            known_rate: None,
            fence: Default::default(),
            account: None,
        })
    }
}

/// Asks for the scan that a copy's options mean.
pub(crate) fn scan_request(
    state: &State,
    store: Name,
    root: PathText,
    options: &TransferOptions,
    owner_names: bool,
) -> ScanRequest {
    ScanRequest {
        transfer: state.id,
        listing: state.listing,
        store,
        root,
        slicing: Slicing::default(),
        files_from: options.files_from.clone(),
        select: options.select.settled(state.created),
        metadata_ops_per_s: options.limits.metadata_ops_per_s,
        // Who owns it at the target is the target's own affair.
        preserve: Preserve { owner_map: Vec::new(), ..options.preserve.clone() },
        owner_names,
        remove: options.remove_source,
        account: None,
        user: None,
    }
}

/// Refuses options that need another kind of source.
///
/// # Errors
/// Usage.
pub(crate) fn check_kind(kind: RootKind, options: &TransferOptions) -> anyhow::Result<()> {
    let below = options.files_from.iter().find(|path| !path.0.is_empty());
    if let Some(path) = below.filter(|_| kind == RootKind::Single) {
        let message = format!("--files-from names `{path}`, but the source is a single file");
        return Err(Failure::new(ExitCode::Usage, message)
            .hint("in a list, `.` names the source itself; or give a directory as the source")
            .into());
    }
    Ok(())
}

/// Name of the store that is written to.
pub(crate) fn target_name() -> anyhow::Result<Name> {
    Ok("target".parse()?)
}

impl Copy {
    /// Does the job: shows how it goes, hands over its lists, removes the state once it is done.
    ///
    /// # Errors
    /// How it ended, if not well.
    pub(crate) fn run(self, job: Job, mode: Mode, papers: &Papers) -> anyhow::Result<ExitCode> {
        penstock_sys::raise_file_limit();
        let outputs = match papers.open(&self, mode) {
            Ok(outputs) => outputs,
            Err(error) => {
                if !self.state.resumed {
                    self.state.remove();
                    (job.leave)();
                }
                return Err(error);
            }
        };
        let interrupted = watch_signals(&self.control);
        let (ended, end) = mpsc::channel();
        let work = job.run;
        std::thread::Builder::new()
            .name("run".to_owned())
            .spawn(move || ended.send(work()))
            .map_err(Failure::no_thread)?;
        let mut reporter = Reporter::new(mode);
        if self.state.resumed && !self.makes_plan() {
            exit::warn(&format!("resuming {}", self.to.display()));
        }
        let outcome = loop {
            match end.recv_timeout(SHOW_INTERVAL) {
                Ok(outcome) => break outcome,
                Err(RecvTimeoutError::Timeout) => {
                    reporter.show(&Event::of(&self.view(TransferState::Running)))?;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    anyhow::bail!("the copy ended without saying how: this is a bug of penstock");
                }
            }
        };
        let done = if self.makes_plan() {
            drop(reporter);
            self.finish_plan(outcome, &job.journal, papers.plan)
        } else {
            self.finish(outcome, &job.journal, &mut reporter, outputs, &interrupted)
        };
        if !self.state.directory.exists() {
            // Only now: until the state is gone, the copy may be taken up again, and needs it.
            (job.leave)();
        }
        done
    }

    fn view(&self, state: TransferState) -> TransferReport {
        let run = self.control.view();
        let location = |path: &Path| Location {
            site: "local".parse().expect("a literal name is a name"),
            store: "copy".parse().expect("a literal name is a name"),
            path: PathText(path.as_os_str().as_bytes().to_vec()),
            slash: false,
        };
        TransferReport {
            id: self.state.id,
            source: location(&self.from),
            target: location(&self.to),
            options: self.options.clone(),
            owner: None,
            label: String::new(),
            priority: None,
            urgent: false,
            deadline: None,
            waiting: None,
            state,
            reason: run.reason,
            created: 0,
            attempts: Default::default(),
            files_from_count: 0,
            not_before: None,
            progress: run.progress,
            exit: None,
            failures: run.failures,
            durable_by: run.durable_by,
        }
    }

    fn makes_plan(&self) -> bool {
        self.options.plan == Some(PlanUse::Make)
    }

    /// Shows the plan that was made; nothing of it is kept.
    fn finish_plan(
        &self,
        outcome: RunOutcome,
        journal: &Path,
        show: plan::Show,
    ) -> anyhow::Result<ExitCode> {
        let shown = match outcome {
            RunOutcome::Done => {
                let path = plan_path(journal);
                let opened = fs::File::open(&path)
                    .map_err(|error| Failure::io(format!("read `{}`", path.display()), error));
                opened.map_err(Into::into).and_then(|file| plan::show(file, show))
            }
            RunOutcome::Paused | RunOutcome::Cancelled => {
                Err(Failure::new(ExitCode::Interrupted, "interrupted").into())
            }
            RunOutcome::Failed(problem) => Err(failure(problem).into()),
        };
        self.state.remove();
        shown
    }

    fn finish(
        &self,
        outcome: RunOutcome,
        journal: &Path,
        reporter: &mut Reporter,
        outputs: Outputs,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<ExitCode> {
        match outcome {
            RunOutcome::Done => {
                let mut view = self.view(TransferState::Done);
                view.exit = Some(Exit::Done);
                reporter.show(&Event::of(&view))?;
                self.hand_over(&view, journal, outputs, interrupted)?;
                self.state.remove();
                self.check_source_is_moved()?;
                Ok(ExitCode::Done)
            }
            RunOutcome::Paused | RunOutcome::Cancelled => {
                let signal =
                    if interrupted.load(Ordering::Acquire) { "interrupted" } else { "stopped" };
                let mut view = self.view(TransferState::Paused);
                view.exit = Some(Exit::Interrupted);
                reporter.show(&Event::of(&view))?;
                Err(Failure::new(ExitCode::Interrupted, signal)
                    .hint("run the same command again to resume")
                    .into())
            }
            RunOutcome::Failed(problem) => {
                let mut view = self.view(TransferState::Failed);
                view.exit = Some(problem.exit);
                view.reason = problem.to_string();
                reporter.show(&Event::of(&view))?;
                let hand_over = || self.hand_over(&view, journal, outputs, interrupted);
                self.fail(&problem, journal, hand_over)
            }
        }
    }

    /// Tells what came to the source of a move while that was interrupted, if the move had begun to
    /// remove there: its list was the one of the attempt before.
    fn check_source_is_moved(&self) -> anyhow::Result<()> {
        let chosen =
            !self.options.files_from.is_empty() || self.options.select != Default::default();
        let ends_list = self.options.remove_source && self.state.keeps_its_list();
        if !ends_list || chosen || !has_items(&self.from) {
            return Ok(());
        }
        let message =
            format!("`{}` has items that came while the move was interrupted", self.from.display());
        Err(Failure::new(ExitCode::SourceChanged, message)
            .hint("the same command again moves them")
            .into())
    }

    fn fail(
        &self,
        problem: &Problem,
        journal: &Path,
        hand_over: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<ExitCode> {
        let files = RunFiles::of(journal).map_err(failure)?;
        let top = self.from.file_name().unwrap_or(self.from.as_os_str()).to_string_lossy();
        let list = failed_list::write(&self.state.id.short(), &top, |out| {
            match fs::File::open(&files.failures) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                opened => Ok(io::copy(&mut opened?, out).map(drop)?),
            }
        })?;
        let Some(list) = list else {
            if problem.code == ProblemCode::TargetReplaced {
                self.state.leave_far_target();
            }
            if problem.code == ProblemCode::DeleteRefused || problem.code == ProblemCode::PlanStale
            {
                // All else is done, or nothing; what is asked for next is another copy.
                self.state.remove();
            }
            return Err(failure(problem.clone()).into());
        };
        if problem.code != ProblemCode::PlanStale {
            hand_over()?;
        }
        self.state.remove();
        let message = problem.to_string();
        let hint = match problem.code {
            ProblemCode::PlanStale => format!("{}; make another plan", list.hint("")),
            ProblemCode::DeleteRefused if !problem.hint.is_empty() => {
                format!("{}; {}", problem.hint, list.hint(""))
            }
            _ => list.hint(""),
        };
        Err(Failure::new(exit_code(problem.exit), message).hint(hint).into())
    }

    /// Writes what was asked for: lists, and the receipt.
    fn hand_over(
        &self,
        view: &TransferReport,
        journal: &Path,
        outputs: Outputs,
        stop: &AtomicBool,
    ) -> anyhow::Result<()> {
        let files = RunFiles::of(journal).map_err(failure)?;
        if let Some(lists) = outputs.digests {
            lists.write(stop, |kind, out| {
                let from = match kind {
                    Some(kind) => files.checksums(kind).map_err(failure)?,
                    None => files.digests.clone(),
                };
                let lost = |error| Failure::io(format!("read `{}`", from.display()), error);
                let mut list = fs::File::open(&from).map_err(lost)?;
                Ok(io::copy(&mut list, out).map(drop)?)
            })?;
        }
        if let Some((to, signer)) = outputs.receipt {
            receipt::write_own(to, &signer, journal, view, stop)?;
        }
        Ok(())
    }
}

/// Whether anything but directories lies in a directory. What cannot be read counts as nothing.
fn has_items(directory: &Path) -> bool {
    let found = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    found.into_iter().any(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => has_items(&entry.path()),
        Ok(_) => true,
        Err(_) => false,
    })
}

/// Pauses the run at SIGINT, SIGTERM or SIGHUP; the flag says that one came. A host without room
/// for that loses nothing by it: a signal then ends the copy at once, and the same command resumes.
fn watch_signals(control: &Arc<RunControl>) -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let (raised, control) = (Arc::clone(&flag), Arc::clone(control));
    let watched = signals::watch(&signals::USUAL, move |_| {
        raised.store(true, Ordering::Release);
        control.pause();
    });
    if let Err(error) = watched {
        tracing::warn!(error = %format!("{error:#}"), "a signal will end this copy immediately");
    }
    flag
}
