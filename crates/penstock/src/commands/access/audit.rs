//! `penstock audit`: the audit log.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use penstock_api::access::check_audit;
use penstock_exit::{self as exit, ExitCode, Failure};

use crate::options::directory::DirectoryArgs;

/// Checks the audit log
#[derive(clap::Args)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(clap::Subcommand)]
enum AuditCommand {
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

/// Runs it.
///
/// # Errors
/// A file cannot be read, or the chain is broken.
pub(crate) fn run(args: AuditArgs) -> anyhow::Result<ExitCode> {
    let AuditCommand::Check { files } = args.command;
    let files = match files.is_empty() {
        true => files_of(&args.directory.directory)?,
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
