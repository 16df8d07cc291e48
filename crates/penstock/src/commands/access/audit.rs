//! `penstock audit`: the audit log.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use penstock_api::access::check_audit;
use penstock_api::endpoints::LIST_AUDIT;
use penstock_api::rest::{AUDIT_LINES_MAX, AuditEntry, AuditList, AuditResult};
use penstock_api::timestamp::Timestamp;
use penstock_exit::{self as exit, ExitCode, Failure};
use penstock_proto::id::Name;
use penstock_sys::now_seconds;

use crate::client::Client;
use crate::options::directory::DirectoryArgs;
use crate::options::select::parse_age;
use crate::output::table::table;
use crate::output::time::utc;

/// Reads and checks the audit log
#[derive(clap::Args)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(clap::Subcommand)]
enum AuditCommand {
    /// Lists requests that changed something or were refused, of all peers, the newest first
    ///
    /// Administrators see all lines, other users their own.
    List(ListArgs),
    /// Checks that no line of audit files was changed, removed or inserted
    ///
    /// Without files, all that the site directory holds are checked. Lines that were cut off at the
    /// end of the last file cannot be noticed: compare its last digest with one that was kept
    /// elsewhere.
    #[command(after_help = exit::help_of(&[
        (ExitCode::Done, "no line was changed, removed or inserted"),
        (ExitCode::Usage, ""),
        (ExitCode::Fatal, "a file cannot be read"),
        (ExitCode::Integrity, "a line was changed, removed or inserted"),
    ]))]
    Check {
        /// The files, the oldest first
        files: Vec<PathBuf>,
    },
}

/// Which lines are listed.
#[derive(clap::Args)]
struct ListArgs {
    /// Only requests of this user
    #[arg(long, value_name = "USER")]
    actor: Option<Name>,
    /// Only this operation, by its id, such as submit_transfer
    #[arg(long)]
    action: Option<String>,
    /// Only requests whose path names this object, such as a user or a transfer
    #[arg(long)]
    object: Option<String>,
    /// Only requests with this result
    #[arg(long, value_enum)]
    result: Option<ResultArg>,
    /// Only since this time: 2026-11-26T20:00:00Z, or the last 2h, 1d
    #[arg(long, value_name = "TIME", value_parser = parse_past)]
    since: Option<Timestamp>,
    /// Only before this time: 2026-11-26T20:00:00Z, or 2h, 1d ago
    #[arg(long, value_name = "TIME", value_parser = parse_past)]
    until: Option<Timestamp>,
    /// Most lines
    #[arg(long, value_name = "N", default_value_t = 100, conflicts_with = "all",
        value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// List all lines
    #[arg(long)]
    all: bool,
    /// Print JSON, a line each
    #[arg(long)]
    json: bool,
}

/// Result of a request.
#[derive(Clone, Copy, clap::ValueEnum)]
enum ResultArg {
    /// It was carried out
    Done,
    /// The user lacked a right
    Refused,
    /// It failed for another reason
    Failed,
}

impl From<ResultArg> for AuditResult {
    fn from(result: ResultArg) -> Self {
        match result {
            ResultArg::Done => Self::Done,
            ResultArg::Refused => Self::Refused,
            ResultArg::Failed => Self::Failed,
        }
    }
}

/// Runs it.
///
/// # Errors
/// A file cannot be read, or the chain is broken; what the daemon answers.
pub(crate) fn run(args: AuditArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        AuditCommand::List(list) => {
            print_lines(&Client::new(&args.directory.directory)?, &list)?;
            Ok(ExitCode::Done)
        }
        AuditCommand::Check { files } => check(&args.directory.directory, files),
    }
}

fn print_lines(client: &Client, args: &ListArgs) -> anyhow::Result<()> {
    let mut base = LIST_AUDIT.uri(&[]);
    let selection = [
        ("actor", args.actor.as_ref().map(ToString::to_string)),
        ("action", args.action.clone()),
        ("object", args.object.clone()),
        ("result", args.result.map(|result| AuditResult::from(result).as_str().to_owned())),
        ("since", args.since.map(|time| time.to_string())),
        ("until", args.until.map(|time| time.to_string())),
    ];
    for (name, value) in selection {
        if let Some(value) = value {
            base = base.query(name, value);
        }
    }
    let (mut left, mut cursor) = (if args.all { u32::MAX } else { args.limit }, None::<String>);
    let mut silent = Vec::new();
    while left > 0 {
        let uri = base.clone().query("limit", left.min(AUDIT_LINES_MAX));
        let uri = match &cursor {
            Some(cursor) => uri.query("cursor", cursor),
            None => uri,
        };
        let list: AuditList = client.get(&uri)?;
        left = left.saturating_sub(list.items.len() as u32);
        if args.json {
            for entry in &list.items {
                exit::print(&serde_json::to_string(entry)?)?;
            }
        } else if !list.items.is_empty() {
            exit::print(&table(&list.items.iter().map(row).collect::<Vec<_>>()))?;
        }
        for peer in list.silent {
            if !silent.contains(&peer) {
                exit::warn(&format!("peer `{peer}` does not answer: its lines are missing"));
                silent.push(peer);
            }
        }
        cursor = list.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(())
}

fn row(entry: &AuditEntry) -> [String; 7] {
    let from = if entry.from.is_empty() { entry.via.clone() } else { entry.from.clone() };
    let what = if entry.action.is_empty() { &entry.request } else { &entry.action };
    [
        utc(entry.at.ms()),
        entry.peer.to_string(),
        entry.actor.to_string(),
        entry.result.as_str().to_owned(),
        entry.status.to_string(),
        format!("{what} {}", entry.object).trim_end().to_owned(),
        from,
    ]
}

/// Returns a time, or the time of now less an age.
fn parse_past(text: &str) -> Result<Timestamp, String> {
    if let Some(age) = parse_age(text) {
        return Ok(Timestamp::of_seconds(now_seconds().saturating_sub(age)));
    }
    let wrong = "neither an age (2h, 1d) nor a time (2026-11-26T20:00:00Z)";
    text.parse().map_err(|_| wrong.to_owned())
}

fn check(directory: &Path, files: Vec<PathBuf>) -> anyhow::Result<ExitCode> {
    let files = match files.is_empty() {
        true => files_of(directory)?,
        false => files,
    };
    let mut all: Box<dyn Read> = Box::new(std::io::empty());
    for path in &files {
        let file = File::open(path)
            .map_err(|error| Failure::io(format!("read `{}`", path.display()), error))?;
        all = Box::new(all.chain(file));
    }
    let checked = check_audit(BufReader::new(all)).map_err(|fault| {
        Failure::new(ExitCode::Integrity, "the audit log is not as it was written")
            .caused_by(fault)
            .hint("compare the files with a copy that was kept elsewhere")
    })?;
    let begin = match checked.begins_after.as_str() {
        "" => "from its begin".to_owned(),
        digest => format!("after the line with digest {digest}"),
    };
    let lines = if checked.lines == 1 { "line" } else { "lines" };
    exit::print(&format!(
        "{} {lines}, {begin}; the last digest is {}",
        checked.lines, checked.last
    ))?;
    Ok(ExitCode::Done)
}

/// Returns the audit files of a site directory, the oldest first: those that were put aside have
/// the time of their last line in their names.
fn files_of(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let failed = |error| Failure::io(format!("list `{}`", directory.display()), error);
    let mut aside = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        let time = name.strip_prefix("audit-").and_then(|rest| rest.strip_suffix(".jsonl"));
        if let Some(time) = time.and_then(|time| time.parse::<u64>().ok()) {
            aside.push((time, directory.join(name)));
        }
    }
    aside.sort_unstable();
    let files = aside.into_iter().map(|(_, path)| path).chain([directory.join("audit.jsonl")]);
    Ok(files.collect())
}
