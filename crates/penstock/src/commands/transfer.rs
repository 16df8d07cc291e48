//! `penstock transfer`: submits transfers to the daemon, shows and steers them.

use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use penstock_api::endpoints::{
    CHANGE_TRANSFER, EndpointUri, FOLLOW_TRANSFER, GET_CHECKSUMS, GET_DIGESTS, GET_FAILURES,
    GET_FLIGHT, GET_RECEIPT, LIST_ORPHANS, REMOVE_ORPHANS, SHOW_STATUS, SHOW_TRANSFER,
    SUBMIT_TRANSFER,
};
use penstock_api::limits::LimitRequest;
use penstock_api::problem::Exit;
use penstock_api::proof::{Document, Proof};
use penstock_api::rest::{
    Action, Event, LIST_MAX, Orphan, OrphanKind, Page, StatusView, SubmitRequest, TransferEvent,
    TransferPatch, TransferQuery, TransferSummary, TransferView,
};
use penstock_api::transfer::{
    Durability, Encryption, FailedItem, LANES_MAX, Location, TransferOptions, TransferRequest,
    TransferState,
};
use penstock_api::update::IfExists;
use penstock_proto::digest::DigestKind;
use penstock_proto::frame::CipherSuite;
use penstock_proto::id::TransferId;
use penstock_proto::name;
use penstock_proto::slicing::Slicing;
use penstock_proto::units::{format_bytes, format_rate, parse_size};

use crate::client::{Client, Next};
use crate::commands::events;
use crate::commands::plan::{self, PlanningArgs};
use crate::commands::queue::{deadline_text, waiting_text};
use crate::commands::{shares, statistics};
use crate::options::directory::DirectoryArgs;
use crate::options::limits::{LimitArgs, RateWish, SharingArgs, rate_or_none};
use crate::options::listing::ListArgs;
use crate::options::moving::MoveArgs;
use crate::options::plan::PlanArgs;
use crate::options::preserve::PreserveArgs;
use crate::options::proof::{DigestOutputs, ProofArgs, open_papers};
use crate::options::select::SelectArgs;
use crate::options::transfer_id::parse_id_digits;
use crate::options::turn::{TurnArgs, TurnChange};
use crate::options::update::UpdateArgs;
use crate::output::failed_list;
use crate::output::output_file::OutputFile;
use crate::output::plan::Show;
use crate::output::progress::{Mode, ProgressArgs, Reporter};
use crate::output::time_use;
use penstock_exit::exit_code;
use penstock_exit::{self as exit, ExitCode, Failure};

pub(crate) mod explain;
pub(crate) mod measured;
mod steering;

use steering::{DeadlineArgs, ManyArgs, PauseArgs};

/// How long a site of several peers may be without a controller before who waits gives up.
const CONTROLLER_PATIENCE: Duration = Duration::from_secs(120);
/// What the root of a data set is called, as lists have it.
const TOP: &str = ".";
/// Wait before events that broke off are asked for again.
const FOLLOW_AGAIN: Duration = Duration::from_millis(300);

/// Submits, shows and controls transfers between sites
#[derive(clap::Args)]
pub(crate) struct TransferArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(subcommand)]
    command: TransferCommand,
}

#[derive(clap::Subcommand)]
enum TransferCommand {
    /// Submits a transfer and prints its id
    Submit(Box<SubmitArgs>),
    /// Lists what a transfer would do, without doing it
    Plan(Box<PlanningArgs>),
    /// Lists transfers, newest first
    List {
        #[command(flatten)]
        choice: ListArgs,
        /// Print JSON Lines
        #[arg(long)]
        json: bool,
    },
    /// Shows one transfer
    Show {
        /// The id of the transfer, or its first digits
        #[arg(value_parser = parse_id_digits)]
        id: String,
        /// Show how its figures were spread instead: rate, processors, memory, cards, disks, energy
        #[arg(long)]
        stats: bool,
        /// Write these figures over time to FILE instead, as CSV
        #[arg(long, value_name = "FILE", requires = "stats", conflicts_with = "json")]
        csv: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows the progress of a transfer until it ends, and exits with its exit code
    #[command(after_help = exit::help(&ExitCode::ALL))]
    Watch {
        /// The id of the transfer, or its first digits
        #[arg(value_parser = parse_id_digits)]
        id: String,
        /// Print JSON Lines
        #[arg(long)]
        json: bool,
    },
    /// Lists the events of a transfer, and those of this site since it began; oldest first
    Events {
        /// The id of the transfer, or its first digits
        #[arg(value_parser = parse_id_digits)]
        id: String,
        /// List at most this many, the latest ones
        #[arg(long, value_name = "NUMBER", default_value_t = 100)]
        limit: usize,
        /// Print JSON Lines
        #[arg(long)]
        json: bool,
    },
    /// Explains why a transfer waits, is slow or failed, and what to do about it
    ///
    /// Tells from the state, the queue, the failed items and the flight recorder: who is ahead,
    /// which limit or which part of the way holds it up, which peers are away, what the last
    /// attempt ended with.
    Explain {
        /// The id of the transfer, or its first digits
        #[arg(value_parser = parse_id_digits)]
        id: String,
        /// List all decisions that are kept, not only the last ones
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Waits for the end of a transfer, and exits with its exit code
    #[command(after_help = exit::help(&ExitCode::ALL))]
    Wait {
        /// The id of the transfer, or its first digits
        #[arg(value_parser = parse_id_digits)]
        id: String,
        #[command(flatten)]
        progress: ProgressArgs,
        /// Print JSON Lines
        #[arg(long)]
        json: bool,
    },
    /// Pauses transfers, until a time if that is given; their progress is kept
    Pause(PauseArgs),
    /// Resumes paused transfers
    Resume(ManyArgs),
    /// Cancels transfers and removes their temporary files
    Cancel(ManyArgs),
    /// Retries failed transfers; only missing items are sent
    Retry(ManyArgs),
    /// Changes the label, the priority or the start of a transfer that has not ended
    Set {
        /// The id of the transfer, or its first digits
        #[arg(value_parser = parse_id_digits)]
        id: String,
        #[command(flatten)]
        turn: TurnChange,
    },
    /// Gives a transfer a deadline, or takes it away
    Deadline(DeadlineArgs),
    /// Starts a transfer before those of all users. For operators
    Urgent {
        /// The id of the transfer, or its first digits
        #[arg(value_parser = parse_id_digits)]
        id: String,
        /// Let it wait for its turn as others do
        #[arg(long)]
        undo: bool,
    },
    /// Changes the rate limit of a transfer, even while it runs
    Limit {
        /// The id of the transfer, or its first digits
        #[arg(value_parser = parse_id_digits)]
        id: String,
        /// The new limit, as in 500Mbit/s or 60MB/s, or `none`
        #[arg(long, value_name = "RATE|none", value_parser = rate_or_none)]
        bwlimit: RateWish,
    },
    /// Writes the digest list of a transfer that was submitted with --write-digests
    Digests {
        /// The id of the transfer, or its first digits
        #[arg(value_parser = parse_id_digits)]
        id: String,
        /// Write the list to FILE
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Prints the signed receipt of a transfer that has ended
    Receipt {
        /// The id of the transfer, or its first digits
        #[arg(value_parser = parse_id_digits)]
        id: String,
        /// Write the receipt to FILE instead of standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Lists files and records that abandoned transfers left
    Orphans {
        /// Remove them
        #[arg(long)]
        remove: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum EncryptionArg {
    Tls,
    Off,
}

impl From<EncryptionArg> for Encryption {
    fn from(argument: EncryptionArg) -> Self {
        match argument {
            EncryptionArg::Tls => Self::Tls,
            EncryptionArg::Off => Self::Off,
        }
    }
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum DurabilityArg {
    Batch,
    Fsync,
    None,
}

impl From<DurabilityArg> for Durability {
    fn from(argument: DurabilityArg) -> Self {
        match argument {
            DurabilityArg::Batch => Self::Batch,
            DurabilityArg::Fsync => Self::Fsync,
            DurabilityArg::None => Self::None,
        }
    }
}

#[derive(clap::Args)]
#[command(after_help = exit::help(&ExitCode::ALL))]
struct SubmitArgs {
    /// The source, SITE:STORE/PATH. A trailing slash means the contents of the directory
    #[arg(required_unless_present = "plan", conflicts_with = "plan")]
    source: Option<Location>,
    /// The target, SITE:STORE/PATH
    #[arg(required_unless_present = "plan", conflicts_with = "plan")]
    target: Option<Location>,
    /// Wait for the end of the transfer, and exit with its exit code. -P implies it
    #[arg(long)]
    wait: bool,
    /// Whether the payload is encrypted on the network
    #[arg(long, value_enum, default_value = "tls")]
    encryption: EncryptionArg,
    /// The only cipher suite of TLS that lanes may use: aes128-gcm, aes256-gcm or
    /// chacha20-poly1305. By default the first of the target's `cipher_suites` that the source
    /// allows
    #[arg(long, value_name = "SUITE")]
    cipher_suite: Option<CipherSuite>,
    /// The hash that verifies the data: blake3, or xxh3-128, which detects accidents but not
    /// attacks
    #[arg(long, default_value = "blake3", value_parser = parse_digest)]
    digest: DigestKind,
    /// When a file counts as durable
    #[arg(long, value_enum, default_value = "batch")]
    durability: DurabilityArg,
    /// Write the digests of all files to FILE when the transfer has ended, for `b3sum --check`
    #[arg(long, value_name = "FILE", requires = "wait")]
    write_digests: Option<PathBuf>,
    /// Use exactly N lanes, 1 to 1024. For experts; the automatic number is right in nearly all
    /// cases
    #[arg(long, value_name = "N", conflicts_with = "max_lanes",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(LANES_MAX)))]
    lanes: Option<u32>,
    /// Cut large files into pieces of BYTES, a power of two from 1M to 1G; small files are packed
    /// up to half of it. For experts; the automatic size is right in nearly all cases
    #[arg(long, value_name = "BYTES", value_parser = parse_piece_size)]
    piece_size: Option<u64>,
    /// Submit under this id, 32 hexadecimal digits. Submitting again with the same id does not
    /// start a second transfer
    #[arg(long)]
    id: Option<TransferId>,
    #[command(flatten)]
    progress: ProgressArgs,
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
    proof: ProofArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    sharing: SharingArgs,
    #[command(flatten)]
    turn: TurnArgs,
    #[command(flatten)]
    preserve: PreserveArgs,
    #[command(flatten)]
    plans: PlanArgs,
}

pub(crate) fn parse_digest(text: &str) -> Result<DigestKind, String> {
    match text {
        "blake3" => Ok(DigestKind::Blake3),
        "xxh3-128" => Ok(DigestKind::Xxh3),
        _ => Err("blake3 or xxh3-128".to_owned()),
    }
}

fn parse_piece_size(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    let sound = Slicing::with_extent_bytes(bytes).check().is_ok();
    if sound { Ok(bytes) } else { Err("not a power of two from 1M to 1G".to_owned()) }
}

/// Runs it.
///
/// # Errors
/// No daemon answers, or what it answers; the exit code says how a transfer ended.
pub(crate) fn run(args: TransferArgs) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.directory.directory)?;
    match args.command {
        TransferCommand::Submit(submit) => return run_submit(&client, *submit),
        TransferCommand::Plan(args) => return plan::run(&client, &args),
        TransferCommand::List { choice, json } => list(&client, &choice, json)?,
        TransferCommand::Show { id, csv: Some(to), .. } => {
            statistics::write_csv(&client, &id, &to)?;
        }
        TransferCommand::Show { id, stats: true, json, .. } => {
            statistics::show(&client, &id, json)?;
        }
        TransferCommand::Show { id, json, .. } => show(&client, &id, json)?,
        TransferCommand::Watch { id, json } => {
            return follow(
                &client,
                &id,
                Mode::choose(json, ProgressArgs::default().or_asked_for()),
            );
        }
        TransferCommand::Wait { id, progress, json } => {
            return follow(&client, &id, Mode::choose(json, progress));
        }
        TransferCommand::Events { id, limit, json } => {
            let view: TransferView = client.get(&SHOW_TRANSFER.uri(&[&id]))?;
            events::show(&client, Some(view.id), limit, json)?;
        }
        TransferCommand::Explain { id, all, json } => explain::run(&client, &id, all, json)?,
        TransferCommand::Pause(args) => return args.run(&client),
        TransferCommand::Resume(args) => return args.act(&client, Action::Resume),
        TransferCommand::Cancel(args) => return args.act(&client, Action::Cancel),
        TransferCommand::Retry(args) => return args.act(&client, Action::Retry),
        TransferCommand::Set { id, turn } => set(&client, &id, &turn)?,
        TransferCommand::Deadline(args) => args.run(&client)?,
        TransferCommand::Urgent { id, undo } => steering::make_urgent(&client, &id, undo)?,
        TransferCommand::Limit { id, bwlimit } => limit(&client, &id, bwlimit)?,
        TransferCommand::Digests { id, output } => {
            let view: TransferView = client.get(&SHOW_TRANSFER.uri(&[&id]))?;
            let also = &view.options.proof.also_digests;
            let (lists, _) = open_papers(Some(&output), also, None, Mode::Quiet)?;
            lists.map_or(Ok(()), |lists| write_digests(&client, &id, lists))?;
        }
        TransferCommand::Receipt { id, output: Some(path) } => {
            write_document(&client, &id, Document::Receipt, OutputFile::open(&path)?)?;
        }
        TransferCommand::Receipt { id, output: None } => {
            let mut text = Vec::new();
            client.get_into(&document_uri(&id, Document::Receipt), &mut text)?;
            exit::print(String::from_utf8_lossy(&text).trim_end())?;
        }
        TransferCommand::Orphans { remove, json } => orphans(&client, remove, json)?,
    }
    Ok(ExitCode::Done)
}

fn run_submit(client: &Client, args: SubmitArgs) -> anyhow::Result<ExitCode> {
    if args.plans.makes() {
        let show = Show::choose(args.json, args.plans.verbose());
        return plan::make(client, request_of(&args)?, None, show);
    }
    let mode = Mode::choose(args.json, args.progress.or_asked_for());
    let outputs = Outputs::open(&args, mode)?;
    let request = request_of(&args)?;
    let replaces = request.options.update.if_exists == IfExists::Replace;
    let view = match args.plans.file() {
        Some(file) => plan::follow(client, file, request)?,
        None => client.post(&SUBMIT_TRANSFER.uri(&[]), &SubmitRequest::from(request))?,
    };
    if replaces && view.options.update.if_exists == IfExists::Fail {
        exit::warn(&format!(
            "site {0} lets this site replace nothing in {0}:{1}: items that exist there fail. An \
             operator there can run: penstock site grant {2} --delete {1}",
            view.target.site, view.target.store, view.source.site
        ));
    }
    let id = view.id.to_string();
    if args.json {
        exit::print(&serde_json::to_string(&Event::of_view(&view))?)?;
    } else if outputs.use_standard_output() {
        exit::warn(&id);
    } else {
        exit::print(&id)?;
    }
    if !args.wait && !args.progress.is_asked_for() {
        return Ok(ExitCode::Done);
    }
    let followed = follow(client, &id, mode);
    let code = followed.as_ref().map_or_else(exit::code_of, |code| *code);
    // Whatever has ended with lists has them; the others have no more than a reason.
    let listed = [ExitCode::Done, ExitCode::SomeFailed, ExitCode::SourceChanged];
    if !listed.contains(&code) {
        return followed;
    }
    let written = outputs.write(client, &id);
    if followed.is_err() {
        // How the transfer ended goes before what is missing of it.
        written.unwrap_or_else(|error| exit::warn(&format!("{error:#}")));
        return followed;
    }
    written.map(|()| code)
}

/// What `submit --wait` writes, opened before the transfer is submitted.
struct Outputs {
    digests: Option<DigestOutputs>,
    receipt: Option<OutputFile>,
}

impl Outputs {
    fn open(args: &SubmitArgs, mode: Mode) -> anyhow::Result<Self> {
        let also = args.proof.read()?.also_digests;
        // Only who waits gets a receipt, and only in a file.
        let receipt = args.proof.receipt().filter(|_| args.wait || args.progress.is_asked_for());
        let (digests, receipt) = open_papers(args.write_digests.as_deref(), &also, receipt, mode)?;
        Ok(Self { digests, receipt })
    }

    fn use_standard_output(&self) -> bool {
        let lists = self.digests.iter().flat_map(DigestOutputs::files);
        lists.chain(&self.receipt).any(OutputFile::is_standard_output)
    }

    fn write(self, client: &Client, id: &str) -> anyhow::Result<()> {
        if let Some(lists) = self.digests {
            write_digests(client, id, lists)?;
        }
        self.receipt.map_or(Ok(()), |to| write_document(client, id, Document::Receipt, to))
    }
}

fn request_of(args: &SubmitArgs) -> anyhow::Result<TransferRequest> {
    if args.digest == DigestKind::Xxh3 {
        if args.write_digests.is_some() {
            let message = "XXH3 gives no digests of files";
            return Err(Failure::new(ExitCode::Usage, message)
                .hint("leave out `--digest xxh3-128`, or `--write-digests`")
                .into());
        }
        exit::warn(&xxh3_warning(matches!(args.encryption, EncryptionArg::Off)));
    }
    let chosen = args.select.read()?;
    let options = TransferOptions {
        digest: args.digest,
        encryption: args.encryption.into(),
        cipher_suite: args.cipher_suite,
        durability: args.durability.into(),
        // A receipt that is asked for names every file: holes are hashed too (D2).
        digest_list: args.write_digests.is_some()
            || (args.proof.receipt().is_some() && args.digest == DigestKind::Blake3),
        lanes_max: args.limits.max_lanes.unwrap_or(0),
        lanes: args.lanes.unwrap_or(0),
        networks: args.sharing.networks.clone(),
        peers_max: args.sharing.max_peers,
        piece_bytes: args.piece_size.unwrap_or(0),
        update: args.update.options(chosen.is_partial())?,
        files_from: chosen.files_from,
        select: chosen.select,
        // Every transfer has one: it costs what hashing a line for each file does.
        proof: Proof { receipt: true, ..args.proof.read()? },
        limits: args.limits.limits(),
        preserve: args.preserve.preserve()?,
        plan: None,
        remove_source: args.moving.remove_source,
    };
    options.check_cipher_suite().map_err(|why| Failure::new(ExitCode::Usage, why))?;
    options.check_removal().map_err(|why| Failure::new(ExitCode::Usage, why))?;
    Ok(TransferRequest {
        id: args.id.unwrap_or_else(|| TransferId(rand::random())),
        source: args.source.clone().map_or_else(no_place, Ok)?,
        target: args.target.clone().map_or_else(no_place, Ok)?,
        options,
        label: args.turn.label.clone(),
        priority: args.turn.priority,
        not_before: args.turn.not_before,
        deadline: args.turn.deadline(),
        urgent: args.turn.urgent,
        progress_timeout_s: args.turn.progress_timeout,
        attempts_max: args.turn.attempts,
    })
}

/// What stands for a place that a plan names.
fn no_place() -> anyhow::Result<Location> {
    Ok("planned:planned".parse()?)
}

/// What `--digest xxh3-128` does not protect against (hard case D3).
pub(crate) fn xxh3_warning(clear: bool) -> String {
    let wire = if clear {
        "with `--encryption off` anybody on the way can alter the data unseen"
    } else {
        "TLS protects the data on the way"
    };
    format!("note: XXH3-128 finds accidents, not attackers, and gives no digests of files; {wire}")
}

/// Shows a transfer until it ends, and says how it did.
fn follow(client: &Client, id: &str, mode: Mode) -> anyhow::Result<ExitCode> {
    let mut reporter = Reporter::new(mode);
    let news = matches!(mode, Mode::Bar | Mode::Lines | Mode::SparseLines)
        .then(|| events::News::of(client, id));
    let mut summary = None;
    let mut heard = Instant::now();
    let followed = loop {
        let followed = client.follow(&FOLLOW_TRANSFER.uri(&[&id]), |event| {
            heard = Instant::now();
            for line in news.iter().flat_map(events::News::lines) {
                reporter.talk(&line);
            }
            reporter.show(event)?;
            if let Event::Summary(event) = event {
                summary = Some(event.clone());
                return Ok(Next::Enough);
            }
            Ok(Next::More)
        });
        if summary.is_some() || !may_follow_again(client, &followed, heard) {
            break followed;
        }
    };
    drop(reporter);
    if let Err(error) = followed {
        let interrupted = exit::code_of(&error) == ExitCode::Interrupted;
        if interrupted {
            exit::warn(&format!(
                "the transfer continues; `penstock transfer watch {id}` shows it again, `penstock \
                 transfer cancel {id}` cancels it"
            ));
        }
        return Err(error);
    }
    let Some(summary) = summary else {
        let message = "the daemon ended before the transfer did";
        return Err(Failure::new(ExitCode::Temporary, message)
            .hint("start it again: the transfer then resumes")
            .into());
    };
    ended(client, &summary)
}

/// Whether events that broke off come again: at a site of several peers, when another one has
/// become the controller.
fn may_follow_again(client: &Client, followed: &anyhow::Result<()>, heard: Instant) -> bool {
    let temporary =
        followed.as_ref().err().is_none_or(|error| exit::code_of(error) == ExitCode::Temporary);
    if !temporary || heard.elapsed() > CONTROLLER_PATIENCE {
        return false;
    }
    std::thread::sleep(FOLLOW_AGAIN);
    client.get::<StatusView>(&SHOW_STATUS.uri(&[])).is_ok_and(|status| status.cluster.is_some())
}

/// The exit of a transfer that has ended; its failed items go to a file.
fn ended(client: &Client, summary: &TransferEvent) -> anyhow::Result<ExitCode> {
    let code = exit_code(summary.exit.unwrap_or(Exit::Unclassified));
    if summary.state == TransferState::Done {
        return Ok(code);
    }
    let short = summary.id.short();
    let message = format!("transfer {short} {}: {}", summary.state.as_str(), summary.reason);
    let failure = Failure::new(code, message);
    if summary.state == TransferState::Cancelled {
        return Err(failure.into());
    }
    let uri = document_uri(&summary.id, Document::Failures);
    let list = match failed_list::write(&short, TOP, |out| client.get_into(&uri, out)) {
        Ok(list) => list,
        Err(error) => {
            exit::warn(&format!("cannot fetch the list of failed items: {error:#}"));
            failed_list::write(&short, TOP, |out| write_items(&summary.failures, out))?
        }
    };
    let Some(list) = list else {
        let hint = format!("once that is put right: `penstock transfer retry {short}`");
        return Err(failure.hint(hint).into());
    };
    let part = if list.items < summary.progress.errors { " the first of" } else { "" };
    let hint = format!(
        "{}; `penstock transfer retry {short}` tries again, and moves only what is missing",
        list.hint(part)
    );
    Err(failure.hint(hint).into())
}

/// Writes failed items as their document has them.
fn write_items(items: &[FailedItem], out: &mut dyn Write) -> anyhow::Result<()> {
    for item in items {
        serde_json::to_writer(&mut *out, item)?;
        writeln!(out)?;
    }
    Ok(())
}

fn write_digests(client: &Client, id: &str, lists: DigestOutputs) -> anyhow::Result<()> {
    let name = lists.name().to_owned();
    lists.write(&AtomicBool::new(false), |kind, out| {
        let document = kind.map_or(Document::Digests, Document::Checksums);
        client.get_into(&document_uri(&id, document), out)
    })?;
    exit::warn(&format!("digests in `{}`: check them with `b3sum --check`", name.display()));
    Ok(())
}

fn write_document(
    client: &Client,
    id: &str,
    document: Document,
    to: OutputFile,
) -> anyhow::Result<()> {
    to.write(&AtomicBool::new(false), |out| client.get_into(&document_uri(&id, document), out))
}

/// Returns the address of a document of a transfer.
fn document_uri(id: &dyn Display, document: Document) -> EndpointUri {
    match document {
        Document::Digests => GET_DIGESTS.uri(&[id]),
        Document::Checksums(kind) => GET_CHECKSUMS.uri(&[id, &kind]),
        Document::Receipt => GET_RECEIPT.uri(&[id]),
        Document::Failures => GET_FAILURES.uri(&[id]),
        Document::Flight => GET_FLIGHT.uri(&[id]),
    }
}

fn set(client: &Client, id: &str, turn: &TurnChange) -> anyhow::Result<()> {
    let view: TransferView = client.post(&CHANGE_TRANSFER.uri(&[&id]), &turn.patch())?;
    let waits = view.waiting.as_ref().map(|waiting| format!(": waits for {}", waiting.text));
    exit::warn(&format!("{} is changed{}", view.id.short(), waits.unwrap_or_default()));
    Ok(())
}

fn limit(client: &Client, id: &str, rate: RateWish) -> anyhow::Result<()> {
    let patch = TransferPatch::from(LimitRequest { rate_bits_per_s: rate.0 });
    let view: TransferView = client.post(&CHANGE_TRANSFER.uri(&[&id]), &patch)?;
    exit::warn(&format!("{} limited to {}", view.id.short(), rate_words(rate.0)));
    Ok(())
}

fn rate_words(rate: Option<u64>) -> String {
    rate.map_or("no rate".to_owned(), |rate| format_rate(rate as f64))
}

fn list(client: &Client, args: &ListArgs, json: bool) -> anyhow::Result<()> {
    let mut query = TransferQuery { limit: Some(LIST_MAX), ..args.query() };
    let is_all = args.query() == TransferQuery::default();
    loop {
        let part: Page<TransferSummary> = client.get(&query.uri())?;
        if part.items.is_empty() && part.next.is_none() && query.cursor.is_none() {
            let chosen = if is_all { "" } else { " of this choice" };
            exit::warn(&format!("there are no transfers{chosen}"));
        }
        for view in &part.items {
            if json {
                exit::print(&serde_json::to_string(view)?)?;
                continue;
            }
            let reason =
                if view.reason.is_empty() { String::new() } else { format!("  {}", view.reason) };
            let label =
                if view.label.is_empty() { String::new() } else { format!("  [{}]", view.label) };
            exit::print(&format!(
                "{}  {:<9} {:>10}  {} -> {}{label}{reason}",
                view.id.short(),
                view.state.as_str(),
                format_bytes(view.progress.bytes),
                view.source,
                view.target
            ))?;
        }
        let Some(next) = part.next else { return Ok(()) };
        query.cursor = Some(next);
    }
}

fn show(client: &Client, id: &str, json: bool) -> anyhow::Result<()> {
    let view: TransferView = client.get(&SHOW_TRANSFER.uri(&[&id]))?;
    let shares = shares::of(client, &view);
    if json {
        exit::print(&shares::with_json(&view, &shares)?)?;
        return Ok(());
    }
    let progress = &view.progress;
    let more = if progress.scan_complete { "" } else { " so far" };
    // What does not run has no rate, and nothing limits it: figures of the last attempt are left.
    let runs = view.state == TransferState::Running;
    let now = |text: String| if runs { text } else { String::new() };
    let mut rows = vec![
        ("transfer", view.id.to_string()),
        ("source", view.source.to_string()),
        ("target", view.target.to_string()),
        ("label", view.label.clone()),
        ("owner", view.owner.as_ref().map(ToString::to_string).unwrap_or_default()),
        ("state", view.state.as_str().to_owned()),
        ("waits for", view.waiting.as_ref().map(waiting_text).unwrap_or_default()),
        ("reason", view.reason.clone()),
        ("deadline", view.deadline.as_ref().map(deadline_text).unwrap_or_default()),
        ("urgent", if view.urgent { "before all others".to_owned() } else { String::new() }),
        ("files", format!("{} of {}{more}", progress.files, progress.files_found)),
        (
            "bytes",
            format!(
                "{} of {}{more}, {} durable",
                format_bytes(progress.bytes),
                format_bytes(progress.bytes_found),
                format_bytes(progress.bytes_durable)
            ),
        ),
        ("rate", now(format_rate(progress.rate_bits_per_s))),
        ("limited by", view.bottleneck.as_ref().map(|it| it.text.clone()).unwrap_or_default()),
        ("lanes", now(progress.lanes.to_string())),
        (
            "rate limit",
            view.options
                .limits
                .rate_bits_per_s
                .map_or(String::new(), |rate| format_rate(rate as f64)),
        ),
        ("failed", progress.errors.to_string()),
        ("durable by", view.durable_by.clone()),
        ("protection", protection(&view.options)),
    ];
    rows.retain(|(_, value)| !value.is_empty());
    for (key, value) in rows {
        exit::print(&format!("{key:<11} {value}"))?;
    }
    let measured = measured::sentences(client, &view, penstock_sys::now_seconds());
    let measured = measured.iter().map(|sentence| format!("{:<11} {sentence}", "measured"));
    for line in measured.chain(time_use::lines(&progress.time)) {
        exit::print(&line)?;
    }
    let peers = if runs { progress.peers.as_slice() } else { &[] };
    for line in shares::lines(&shares, peers, penstock_sys::now_seconds()) {
        exit::print(&line)?;
    }
    for item in &view.failures.first {
        let path = name::escape_in_list(&item.path.0);
        exit::print(&format!("failed      {path}: {}", item.message))?;
    }
    let more = progress.errors.saturating_sub(view.failures.first.len() as u64);
    if more > 0 && !view.failures.first.is_empty() {
        exit::print(&format!("failed      {more} more"))?;
    }
    Ok(())
}

/// What protects the data, in words (D3).
fn protection(options: &TransferOptions) -> String {
    let wire = match (options.encryption, options.cipher_suite) {
        (Encryption::Tls, None) => "TLS 1.3".to_owned(),
        (Encryption::Tls, Some(suite)) => format!("TLS 1.3 with {suite}"),
        (Encryption::Off, _) => "not encrypted".to_owned(),
    };
    let hash = match options.digest {
        DigestKind::Blake3 => "BLAKE3",
        DigestKind::Xxh3 => "XXH3-128: against accidents, not attackers",
    };
    format!("{wire}; {hash}")
}

fn orphans(client: &Client, remove: bool, json: bool) -> anyhow::Result<()> {
    let orphans: Vec<Orphan> = if remove {
        serde_json::from_slice::<Page<_>>(&client.delete(&REMOVE_ORPHANS.uri(&[]))?)?.items
    } else {
        client.list(&LIST_ORPHANS.uri(&[]))?
    };
    for orphan in &orphans {
        if json {
            exit::print(&serde_json::to_string(orphan)?)?;
            continue;
        }
        let kind = match orphan.kind {
            OrphanKind::Journal => "journal of no transfer",
            OrphanKind::Ledger => "ledger of an ended transfer",
            OrphanKind::Stub => "stub without owner",
        };
        let removed = if orphan.removed { "  removed" } else { "" };
        exit::print(&format!("{}  {kind}  {}{removed}", orphan.id.short(), orphan.place))?;
    }
    if orphans.is_empty() {
        exit::warn("nothing is left over");
    }
    Ok(())
}
