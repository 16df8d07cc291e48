//! `penstock copy SRC DST`: source and target peer in one process, no daemon, no configuration.
//!
//! The same engine, verification and ledger as between sites; only the lanes are function calls.
//! State (`id`, `state.sqlite`, `source/`, `journal/`) is kept below the user's state directory
//! while a copy is not complete, in a directory named by what is copied where. A command that does
//! the same copy, with whatever options, finds it, lists the source anew, and does not
//! move again what is done (docs/design/0044).

mod state;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::Context as _;
use penstock_api::peers::OnePeer;
use penstock_api::plan::{PlanHead, PlanUse};
use penstock_api::preserve::Preserve;
use penstock_api::problem::{Exit, Problem};
use penstock_api::rest::Event;
use penstock_api::scan::{OwnPages, RootKind, ScanRequest, SourcePeer};
use penstock_api::task::SourceAccess;
use penstock_api::transfer::{Location, PathText, TransferOptions, TransferState, TransferView};
use penstock_controller::runner::{
    self, RunControl, RunFiles, RunInput, RunOutcome, TARGET_REPLACED,
};
use penstock_io::net::SocketOptions;
use penstock_io::store::{IoMode, MemSpec};
use penstock_io::sys;
use penstock_peer::{SourceService, StoreKind, StoreSpec, Stores, TargetService};
use penstock_proto::digest::DigestKind;
use penstock_proto::id::{Name, PeerId};
use penstock_proto::name::{self, RunTag};
use penstock_proto::slicing::Slicing;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

use crate::clean;
use crate::commands::transfer::{DurabilityArg, parse_digest, xxh3_warning};
use crate::exit::{self, ExitCode, Failure};
use crate::exit::{exit_code, failure};
use crate::options::limits::{CpuArgs, LimitArgs};
use crate::options::moving::MoveArgs;
use crate::options::plan::{PlanArgs, planned_options, read_plan};
use crate::options::preserve::PreserveArgs;
use crate::options::proof::{DigestOutputs, ProofArgs, open_papers};
use crate::options::select::SelectArgs;
use crate::options::update::UpdateArgs;
use crate::output::failed_list;
use crate::output::output_file::OutputFile;
use crate::output::plan;
use crate::output::progress::{Mode, ProgressArgs, Reporter};
use crate::receipt::{self, Signer};
use crate::ssh::{self, SshArgs};

pub(crate) use state::{State, has_begun_to_remove, keeping_state, remove_state, state_home};

/// Descriptors with which a copy begins; 22 of them are its own, whatever is copied.
const DESCRIPTORS_MIN: u64 = 40;
/// How often the figures are shown.
const SHOW_INTERVAL: Duration = Duration::from_millis(200);

/// Copies a file or a tree, on this host or from or to another by ssh, verified and resumable
#[derive(clap::Args)]
#[command(after_help = exit::help(&ExitCode::ALL))]
pub(crate) struct CopyArgs {
    /// A file or directory; with a slash at its end, the contents of the directory. At another host
    /// it is `[user@]host:path` or `ssh://[user@]host[:port]/path`. `mem:` makes data up, as in
    /// `mem:files=1000,size=1M`
    #[arg(value_name = "SRC", required_unless_present_any = ["plan", "clean"],
        conflicts_with_all = ["plan", "clean"])]
    source: Option<PathBuf>,
    /// Where to: a directory that SRC is put into, or the new name of a single file, here or at
    /// another host. `null:` keeps nothing
    #[arg(value_name = "DST", required_unless_present_any = ["plan", "clean"],
        conflicts_with_all = ["plan", "clean"])]
    target: Option<PathBuf>,
    /// Which hash verifies the data: blake3, or xxh3-128, which finds accidents only
    #[arg(long, default_value = "blake3", value_parser = parse_digest)]
    digest: DigestKind,
    /// When a file counts as durable
    #[arg(long, value_enum, default_value = "batch")]
    durability: DurabilityArg,
    /// Write the digests of all files here, for `b3sum --check`
    #[arg(long, value_name = "FILE")]
    write_digests: Option<PathBuf>,
    #[command(flatten)]
    progress: ProgressArgs,
    /// Copy nothing, and remove what interrupted copies left below DIR; with -n only show it
    #[arg(long, value_name = "DIR", conflicts_with = "plan")]
    clean: Option<PathBuf>,
    /// With --clean: also remove files of unknown copies and transfers in stores of daemons
    #[arg(long, requires = "clean")]
    clean_stores: bool,
    /// Print JSON Lines
    #[arg(long)]
    json: bool,
    // Groups with headings of their own, behind all that have none.
    #[command(flatten)]
    update: UpdateArgs,
    #[command(flatten)]
    moving: MoveArgs,
    #[command(flatten)]
    select: SelectArgs,
    #[command(flatten)]
    ssh: SshArgs,
    #[command(flatten)]
    proof: ProofArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    cpus: CpuArgs,
    #[command(flatten)]
    preserve: PreserveArgs,
    #[command(flatten)]
    plans: PlanArgs,
}

/// Runs the command; blocks until the copy has ended or is interrupted.
pub(crate) fn run(args: CopyArgs) -> anyhow::Result<ExitCode> {
    match &args.clean {
        Some(directory) => {
            let (dry_run, in_stores) = (args.plans.makes(), args.clean_stores);
            clean::run(directory, clean::Show { dry_run, json: args.json, in_stores })
        }
        None => copy(args),
    }
}

fn copy(args: CopyArgs) -> anyhow::Result<ExitCode> {
    check_descriptors()?;
    args.cpus.apply(None)?;
    check_digest(&args)?;
    let chosen = args.select.read()?;
    let mut options = TransferOptions {
        digest: args.digest,
        durability: args.durability.into(),
        // A receipt is to name every file: holes are hashed too (D2).
        digest_list: args.write_digests.is_some()
            || (args.proof.receipt().is_some() && args.digest == DigestKind::Blake3),
        update: args.update.options(chosen.is_partial())?,
        files_from: chosen.files_from,
        select: chosen.select,
        proof: args.proof.read()?,
        lanes_max: args.limits.max_lanes.unwrap_or(0),
        limits: args.limits.limits(),
        preserve: args.preserve.preserve()?,
        remove_source: args.moving.remove_source,
        ..TransferOptions::default()
    };
    options.check_removal().map_err(|why| Failure::new(ExitCode::Usage, why))?;
    let papers = Papers {
        digests: args.write_digests.clone(),
        receipt: args.proof.receipt().map(Path::to_owned),
        plan: plan::Show::choose(args.json, args.plans.verbose()),
    };
    // A plan is what standard output gets then, and no events.
    let mode = Mode::choose(args.json && !args.plans.makes(), args.progress);
    let (from, to) = match args.plans.file() {
        Some(file) => {
            let (head, digest) = read_plan(file)?;
            options = planned_options(&head, digest, options)?;
            planned_places(&head)?
        }
        None => (args.source.unwrap_or_default(), args.target.unwrap_or_default()),
    };
    if args.plans.makes() {
        options.plan = Some(PlanUse::Make);
        options.select = options.select.settled(sys::now_seconds());
    }
    let (source, target) = (ssh::parse(&from)?, ssh::parse(&to)?);
    let push = target.is_some();
    if let Some(remote) = match (source, target) {
        (Some(_), Some(_)) => {
            let message = "both SRC and DST are at other hosts";
            return Err(Failure::new(ExitCode::Usage, message)
                .hint("log in to one of them and copy from there")
                .into());
        }
        (source, target) => source.or(target),
    } {
        let (source, target, ssh, cpus) = (from, to, args.ssh, args.cpus.most());
        let wish = ssh::Wish { source, target, remote, push, options, ssh, cpus, mode, papers };
        return ssh::run(wish);
    }
    let make = options.plan != Some(PlanUse::Make);
    let places = Places::find(&from, &to, make, options.update.delete)?;
    let asked = (asked(&from)?, asked(&to)?);
    let (from, to) = (places.source.path.clone(), places.target.path.clone());
    let state = State::open(&from, &to, &options)?;
    if let Some(file) = args.plans.file() {
        state.put_plan(file)?;
    }
    let mut copy = Copy { from, to, options, state, control: Arc::default() };
    let job = copy.local_job(&places, asked)?;
    copy.run(job, mode, &papers)
}

/// Refuses to begin what would stop for want of descriptors.
fn check_descriptors() -> Result<(), Failure> {
    let limit = sys::raise_file_limit();
    if limit >= DESCRIPTORS_MIN {
        return Ok(());
    }
    let message = format!(
        "a copy needs {DESCRIPTORS_MIN} descriptors, and this process may have {limit} only"
    );
    Err(Failure::new(ExitCode::Temporary, message).hint("raise the limit: `ulimit -n 1024`"))
}

/// Says what XXH3 does not do, and refuses it where it cannot do what is asked for.
fn check_digest(args: &CopyArgs) -> anyhow::Result<()> {
    if args.digest == DigestKind::Xxh3 {
        if args.write_digests.is_some() {
            let message = "--write-digests needs --digest blake3: XXH3-128 gives no file digests";
            return Err(Failure::new(ExitCode::Usage, message).into());
        }
        exit::warn(&xxh3_warning(false));
    }
    Ok(())
}

/// The places that a plan names, on this host.
fn planned_places(head: &PlanHead) -> anyhow::Result<(PathBuf, PathBuf)> {
    let path = |text: &PathText| PathBuf::from(OsStr::from_bytes(&text.0).to_owned());
    let (from, to) = (path(&head.source), path(&head.target));
    let special = |text: &[u8]| text.starts_with(b"mem:") || text == b"null:";
    let here = |path: &Path| path.is_absolute() || special(path.as_os_str().as_bytes());
    if here(&from) && here(&to) {
        return Ok((from, to));
    }
    let message =
        format!("the plan is none of a copy on this host: {} to {}", head.source, head.target);
    Err(Failure::new(ExitCode::Usage, message)
        .hint("`penstock transfer submit --plan FILE` follows plans of transfers between sites")
        .into())
}

/// A place as a plan names it: whole, with the slash at its end that it was written with.
fn asked(path: &Path) -> anyhow::Result<PathText> {
    let special = |text: &str| text.starts_with("mem:") || text == "null:";
    if path.to_str().is_some_and(special) {
        return Ok(PathText(path.as_os_str().as_bytes().to_vec()));
    }
    let mut whole = std::path::absolute(path).context("cannot find the working directory")?;
    if ends_in_slash(path) {
        whole.push("");
    }
    Ok(PathText(whole.into_os_string().into_encoded_bytes()))
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

/// What is copied where on this host.
struct Places {
    source: SourcePlace,
    target: TargetPlace,
}

impl Places {
    fn find(source: &Path, target: &Path, make: bool, delete: bool) -> anyhow::Result<Self> {
        let source = SourcePlace::find(source)?;
        let from = source.path.clone();
        let apart = move |to: &Path| check_apart(&from, to);
        let target = TargetPlace::find(target, &source.facts(), &apart, make, delete)?;
        Ok(Self { source, target })
    }
}

/// What the place of a target depends on: what its source is, wherever that is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SourceFacts {
    /// Last component of its path; may be empty.
    pub(crate) name: PathText,
    /// Whether it is a directory.
    pub(crate) directory: bool,
    /// Whether the contents of the directory are meant, not the directory itself.
    pub(crate) contents: bool,
    /// Whether it is a device or a pipe.
    pub(crate) special: bool,
}

/// The source, on the host where it is.
pub(crate) struct SourcePlace {
    pub(crate) kind: StoreKind,
    /// Root of the data set within the store.
    pub(crate) root: Vec<u8>,
    /// Absolute path, for messages and for the name of the state directory.
    pub(crate) path: PathBuf,
    directory: bool,
    slash: bool,
    special: bool,
}

impl SourcePlace {
    /// Looks at the source.
    ///
    /// # Errors
    /// There is none, or it cannot be looked at.
    pub(crate) fn find(source: &Path) -> anyhow::Result<Self> {
        let slash = ends_in_slash(source);
        if let Some(text) = source.to_str()
            && text.starts_with("mem:")
        {
            let spec: MemSpec = text.parse().map_err(|error| {
                Failure::new(ExitCode::Usage, format!("cannot read `{text}`")).caused_by(error)
            })?;
            let (kind, path) = (StoreKind::Mem(spec), PathBuf::from(text));
            let (directory, special) = (true, false);
            return Ok(Self { kind, root: Vec::new(), path, directory, slash, special });
        }
        let meta = fs::symlink_metadata(source).map_err(|error| {
            Failure::io(format!("look at the source `{}`", source.display()), error)
                .hint("give a file or a directory that exists")
        })?;
        let followed = if slash { fs::metadata(source).ok() } else { None };
        if followed.as_ref().unwrap_or(&meta).is_dir() {
            let path = canonical(source)?;
            let kind = StoreKind::Posix(path.clone());
            let (directory, special) = (true, false);
            return Ok(Self { kind, root: Vec::new(), path, directory, slash, special });
        }
        let parent = source.parent().filter(|path| !path.as_os_str().is_empty());
        let parent = canonical(parent.unwrap_or(Path::new(".")))?;
        let root = source.file_name().map(|name| name.as_bytes().to_vec()).unwrap_or_default();
        let path = parent.join(OsStr::from_bytes(&root));
        check_name(&path, &root, "has not finished, or keeps for itself")?;
        let kind = StoreKind::Posix(parent);
        let special = is_special(meta.file_type());
        Ok(Self { kind, root, path, directory: false, slash, special })
    }

    /// What the place of the target depends on.
    pub(crate) fn facts(&self) -> SourceFacts {
        let name = self.path.file_name().map(|name| name.as_bytes().to_vec()).unwrap_or_default();
        let contents = self.slash || name.is_empty();
        let (directory, special) = (self.directory, self.special);
        SourceFacts { name: PathText(name), directory, contents, special }
    }
}

/// The target, on the host where it is, after all rules about slashes and existing directories.
pub(crate) struct TargetPlace {
    pub(crate) kind: StoreKind,
    /// What the data set's root becomes within the store.
    pub(crate) root: Vec<u8>,
    /// Absolute path, for messages and for the name of the state directory.
    pub(crate) path: PathBuf,
}

impl TargetPlace {
    /// Finds the directory that is written to. Where it is missing it is made, unless `make` says
    /// that nothing may be: then all that is looked for there is missing. `apart` refuses a target
    /// that overlaps its source (B8). Without `delete` a single file is refused whose name a
    /// device, pipe or socket has.
    ///
    /// # Errors
    /// It cannot be made, or is refused; something else is where a directory has to be.
    pub(crate) fn find(
        target: &Path,
        source: &SourceFacts,
        apart: &dyn Fn(&Path) -> anyhow::Result<()>,
        make: bool,
        delete: bool,
    ) -> anyhow::Result<Self> {
        if target.as_os_str() == "null:" {
            let path = PathBuf::from("null:");
            return Ok(Self { kind: StoreKind::Null, root: Vec::new(), path });
        }
        let into = source.directory || ends_in_slash(target) || target.is_dir();
        let (directory, root) = match (into, source.directory && source.contents) {
            (true, true) => (target.to_owned(), Vec::new()),
            (true, false) => (target.to_owned(), source.name.0.clone()),
            (false, _) => {
                let leaf = target.file_name().map(|name| name.as_bytes().to_vec());
                let parent = target.parent().filter(|path| !path.as_os_str().is_empty());
                (parent.unwrap_or(Path::new(".")).to_owned(), leaf.unwrap_or_default())
            }
        };
        let whole = absolute(&directory)?.join(OsStr::from_bytes(&root));
        check_name(&whole, &root, "would take for its own")?;
        apart(&whole)?;
        check_way(&directory, source)?;
        if !source.directory && !source.special && !delete {
            check_no_special(&directory.join(OsStr::from_bytes(&root)))?;
        }
        if !make && !directory.exists() {
            return Ok(Self { kind: StoreKind::Null, root, path: whole });
        }
        fs::create_dir_all(&directory).map_err(|error| {
            Failure::io(format!("make the directory `{}`", directory.display()), error)
        })?;
        let directory = canonical(&directory)?;
        let path = directory.join(OsStr::from_bytes(&root));
        apart(&path)?;
        Ok(Self { kind: StoreKind::Posix(directory), root, path })
    }
}

/// Refuses a target where something else is that has to be a directory: itself, or one on the way.
fn check_way(directory: &Path, source: &SourceFacts) -> Result<(), Failure> {
    // Without a slash at the end, which would follow a link.
    let whole: PathBuf = directory.components().collect();
    for place in whole.ancestors().filter(|place| !place.as_os_str().is_empty()) {
        let there = match fs::symlink_metadata(place) {
            Ok(there) => there,
            Err(error) if is_nothing(&error) => continue,
            // Making it says why.
            Err(_) => return Ok(()),
        };
        if place.is_dir() {
            return Ok(());
        }
        let found = words_of(place, there.file_type());
        let message = format!("`{}` is {found}, where a directory has to be", place.display());
        let hint = if place != whole {
            "choose a target that lies in a directory"
        } else if source.directory {
            "remove it, or choose another target: a directory takes the place of nothing else"
        } else {
            "leave out the slash at the end to give the file that name, or choose another target"
        };
        return Err(Failure::new(ExitCode::Fatal, message).hint(hint));
    }
    Ok(())
}

/// Refuses to put a file in the place of a device, pipe or socket, or of a link to one.
fn check_no_special(target: &Path) -> Result<(), Failure> {
    let leads_to = fs::metadata(target).map(|there| there.file_type());
    if !leads_to.is_ok_and(is_special) {
        return Ok(());
    }
    let Ok(there) = fs::symlink_metadata(target) else { return Ok(()) };
    let found = words_of(target, there.file_type());
    let message =
        format!("`{}` is {found}: a copy would put a file in its place", target.display());
    Err(Failure::new(ExitCode::Refused, message)
        .hint("`--delete` replaces it; `cat` writes into it; or choose another target"))
}

fn is_special(kind: fs::FileType) -> bool {
    !kind.is_file() && !kind.is_dir() && !kind.is_symlink()
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// What stands at `place`, for messages; of a link also what it leads to.
fn words_of(place: &Path, kind: fs::FileType) -> String {
    let plain = |kind: fs::FileType| match kind {
        kind if kind.is_file() => "a file",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_dir() => "a directory",
        _ => "a device",
    };
    if !kind.is_symlink() {
        return plain(kind).to_owned();
    }
    match fs::metadata(place) {
        Ok(there) => format!("a link to {}", plain(there.file_type())),
        Err(error) if is_nothing(&error) => {
            let text = fs::read_link(place).unwrap_or_default();
            format!("a link to `{}`, which does not exist", text.display())
        }
        Err(error) => format!("a link that cannot be followed ({error})"),
    }
}

/// Refuses an own name as the root of a data set.
fn check_name(path: &Path, root: &[u8], why: &str) -> anyhow::Result<()> {
    if name::own(root).is_none() {
        return Ok(());
    }
    let message = format!("`{}` is a file that penstock {why}", path.display());
    Err(Failure::new(ExitCode::Usage, message).hint("give another name").into())
}

/// Whether the contents of a directory are meant, not the directory itself.
pub(crate) fn ends_in_slash(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes.ends_with(b"/") || bytes.ends_with(b"/.") || bytes == b"."
}

fn canonical(path: &Path) -> anyhow::Result<PathBuf> {
    let failed = |error| Failure::io(format!("look at `{}`", path.display()), error);
    Ok(path.canonicalize().map_err(failed)?)
}

/// The path made absolute, with links resolved as far as it exists.
fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    let whole = std::path::absolute(path).context("cannot find the working directory")?;
    let mut existing = whole.as_path();
    let mut rest = Vec::new();
    while !existing.exists() {
        let (Some(parent), Some(name)) = (existing.parent(), existing.file_name()) else { break };
        rest.push(name.to_owned());
        existing = parent;
    }
    let mut resolved = existing.canonicalize().unwrap_or_else(|_| existing.to_owned());
    resolved.extend(rest.iter().rev());
    Ok(resolved)
}

/// Refuses to copy a tree into itself, or over something that contains it (B8).
fn check_apart(from: &Path, to: &Path) -> anyhow::Result<()> {
    let apart = !from.starts_with(to) && !to.starts_with(from);
    if apart {
        // A directory may have two paths that tell nothing of each other: by bind mounts.
        return if from.is_dir() { ssh::check_apart(&ssh::trace(from), to) } else { Ok(()) };
    }
    let message = format!("`{}` and `{}` overlap", from.display(), to.display());
    Err(Failure::new(ExitCode::Refused, message)
        .hint("choose a target that neither contains the source nor lies within it")
        .into())
}

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
        sys::raise_file_limit();
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

    /// Both ends in this process.
    fn local_job(&mut self, places: &Places, asked: (PathText, PathText)) -> anyhow::Result<Job> {
        let (source_store, target_store): (Name, Name) = ("source".parse()?, target_name()?);
        let store = |name: &Name, kind: &StoreKind, read_only| StoreSpec {
            name: name.clone(),
            kind: kind.clone(),
            read_only,
            ephemeral: true,
            allow_privileged: true,
            io: IoMode::Auto,
        };
        let writes_source = self.state.writes_source(self.options.remove_source);
        let stores = Arc::new(Stores::new([
            store(&source_store, &places.source.kind, !writes_source),
            store(&target_store, &places.target.kind, false),
        ]));
        let peer = PeerId { site: "local".parse()?, peer: "copy".parse()? };
        let kept = self.state.source();
        let source = Arc::new(SourceService::new(Arc::clone(&stores), &kept, peer, None));
        let root = PathText(places.source.root.clone());
        let target = TargetService::new(stores, None, SocketOptions::default());
        let target = Arc::new(target);
        self.state.leave_other_target(&*target, &target_store)?;
        let request =
            scan_request(&self.state, source_store.clone(), root.clone(), &self.options, false);
        let kind = source.open_scan(&request).map_err(failure)?;
        check_kind(kind, &self.options)?;
        let heads = self.state.open_heads()?;
        let at = (&target_store, &places.target.root[..]);
        let is_new_target =
            !self.makes_plan() && self.state.settle_target(&heads, &*target, at, &self.to);
        let input = RunInput {
            id: self.state.id,
            listing: self.state.listing,
            is_new_target,
            options: keeping_state(&self.options, &places.target.path),
            store: target_store,
            root: PathText(places.target.root.clone()),
            pages: Box::new(OwnPages::new(source, self.state.id)),
            source: SourceAccess::Local { store: source_store, root },
            find_source: None,
            peers: Arc::new(OnePeer(target)),
            heads: Arc::new(heads),
            journal: self.state.journal(),
            control: Arc::clone(&self.control),
            places: asked,
            known_rate: None,
            fence: Default::default(),
        };
        let journal = input.journal.clone();
        let target = places.target.path.clone();
        let run = Box::new(move || run_at(input, &target));
        Ok(Job { run, journal, leave: Box::new(|| {}) })
    }

    fn view(&self, state: TransferState) -> TransferView {
        let run = self.control.view();
        let location = |path: &Path| Location {
            site: "local".parse().expect("a literal name is a name"),
            store: "copy".parse().expect("a literal name is a name"),
            path: PathText(path.as_os_str().as_bytes().to_vec()),
            slash: false,
        };
        TransferView {
            id: self.state.id,
            source: location(&self.from),
            target: location(&self.to),
            options: self.options.clone(),
            state,
            reason: run.reason,
            created: 0,
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
                let path = RunFiles::of(journal).plan;
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
                    .hint("the same command again goes on where it was")
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
        let files = RunFiles::of(journal);
        let top = self.from.file_name().unwrap_or(self.from.as_os_str()).to_string_lossy();
        let list = failed_list::write(&self.state.id.short(), &top, |out| {
            match fs::File::open(&files.failures) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                opened => Ok(io::copy(&mut opened?, out).map(drop)?),
            }
        })?;
        let Some(list) = list else {
            if problem.code == TARGET_REPLACED {
                self.state.leave_far_target();
            }
            if problem.code == "delete-refused" || problem.code == "plan-stale" {
                // All else is done, or nothing; what is asked for next is another copy.
                self.state.remove();
            }
            return Err(failure(problem.clone()).into());
        };
        if problem.code != "plan-stale" {
            hand_over()?;
        }
        self.state.remove();
        let message = problem.to_string();
        let hint = match problem.code.as_str() {
            "plan-stale" => format!("{}; make another plan", list.hint("")),
            "delete-refused" if !problem.hint.is_empty() => {
                format!("{}; {}", problem.hint, list.hint(""))
            }
            _ => list.hint(""),
        };
        Err(Failure::new(exit_code(problem.exit), message).hint(hint).into())
    }

    /// Writes what was asked for: lists, and the receipt.
    fn hand_over(
        &self,
        view: &TransferView,
        journal: &Path,
        outputs: Outputs,
        stop: &AtomicBool,
    ) -> anyhow::Result<()> {
        let files = RunFiles::of(journal);
        if let Some(lists) = outputs.digests {
            lists.write(stop, |kind, out| {
                let from = kind.map_or(files.digests.clone(), |kind| files.checksums(kind));
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
    if let Err(error) = start_watching(control, Arc::clone(&flag)) {
        tracing::warn!(error = %format!("{error:#}"), "a signal will end this copy at once");
    }
    flag
}

fn start_watching(control: &Arc<RunControl>, raised: Arc<AtomicBool>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot set up waiting for signals")?;
    let (mut interrupt, mut terminate, mut hang_up) = {
        let _inside = runtime.enter();
        let interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
        let terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        (interrupt, terminate, signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?)
    };
    let control = Arc::clone(control);
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hang_up.recv() => {}
                }
            });
            raised.store(true, Ordering::Release);
            control.pause();
        })
        .map_err(Failure::no_thread)?;
    Ok(())
}
