//! `penstock copy`: reads the command line, and chooses a copy on this host or one over ssh.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use penstock_api::plan::{PlanHead, PlanUse};
use penstock_api::transfer::{PathText, TransferOptions};
use penstock_proto::digest::DigestKind;

use super::transfer::{DurabilityArg, parse_digest, xxh3_warning};
use crate::copy::clean;
use crate::copy::job::Papers;
use crate::copy::local::{self, LocalCopy};
use crate::copy::places::ends_in_slash;
use crate::copy::ssh::{self, SshArgs};
use crate::options::limits::{CpuArgs, LimitArgs};
use crate::options::moving::MoveArgs;
use crate::options::plan::{PlanArgs, planned_options, read_plan};
use crate::options::preserve::PreserveArgs;
use crate::options::proof::ProofArgs;
use crate::options::select::SelectArgs;
use crate::options::update::UpdateArgs;
use crate::output::plan;
use crate::output::progress::{Mode, ProgressArgs};
use penstock_exit::{self as exit, ExitCode, Failure};

/// Descriptors with which a copy begins; 22 of them are its own, whatever is copied.
const DESCRIPTORS_MIN: u64 = 40;

/// Copies a file or a tree, on this host or over ssh; verified and resumable
#[derive(clap::Args)]
#[command(after_help = exit::help(&ExitCode::ALL))]
pub(crate) struct CopyArgs {
    /// The file or directory to copy. A trailing slash means the contents of the directory. For
    /// another host, write `[user@]host:path` or `ssh://[user@]host[:port]/path`. `mem:` generates
    /// data, as in `mem:files=1000,size=1M`
    #[arg(value_name = "SRC", required_unless_present_any = ["plan", "clean"],
        conflicts_with_all = ["plan", "clean"])]
    source: Option<PathBuf>,
    /// The directory to copy SRC into, or the new name of a single file, on this or another host.
    /// `null:` discards the data
    #[arg(value_name = "DST", required_unless_present_any = ["plan", "clean"],
        conflicts_with_all = ["plan", "clean"])]
    target: Option<PathBuf>,
    /// Further places, which make no sense: a shell makes them of a pattern without quotes
    #[arg(hide = true)]
    more: Vec<PathBuf>,
    /// The hash that verifies the data: blake3, or xxh3-128, which detects accidents but not
    /// attacks
    #[arg(long, default_value = "blake3", value_parser = parse_digest)]
    digest: DigestKind,
    /// When a file counts as durable
    #[arg(long, value_enum, default_value = "batch")]
    durability: DurabilityArg,
    /// Write the digests of all files to FILE, for `b3sum --check`
    #[arg(long, value_name = "FILE")]
    write_digests: Option<PathBuf>,
    #[command(flatten)]
    progress: ProgressArgs,
    /// Copy nothing; remove the files that interrupted copies left below DIR. With -n, only list
    /// them
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
    check_places(args.more.len() + 2)?;
    check_descriptors()?;
    args.cpus.apply()?;
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
        options.select = options.select.settled(penstock_sys::now_seconds());
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
    let asked = (asked(&from)?, asked(&to)?);
    let plan = args.plans.file();
    local::run(LocalCopy { source: &from, target: &to, asked, options, plan, mode, papers })
}

/// Refuses more places than a source and a target.
fn check_places(count: usize) -> Result<(), Failure> {
    if count == 2 {
        return Ok(());
    }
    let message = format!("a copy has one source and one target, and {count} places are given");
    Err(Failure::new(ExitCode::Usage, message).hint(
        "give the directory that holds the sources, and choose by `--include` or `--files-from`",
    ))
}

/// Refuses to begin what would stop for want of descriptors.
fn check_descriptors() -> Result<(), Failure> {
    let limit = penstock_sys::raise_file_limit();
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
        format!("the plan is not for a copy on this host: {} to {}", head.source, head.target);
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
