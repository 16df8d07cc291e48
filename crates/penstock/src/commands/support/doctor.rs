//! `penstock doctor`: looks at this host, or with `--pair` at what lies between two sites, and says
//! of each matter what was found, why it matters, what to do.
//!
//! What is about the daemon's own limits and rights is looked at by the daemon, if it answers; else
//! from this command's process, which is said. Nothing is changed, and nothing is written but the
//! file of `--write-sysctl`.

use std::path::{Path, PathBuf};

use penstock_api::endpoints::{EXAMINE_HOST, EXAMINE_PAIR};
use penstock_api::operate::{Finding, Level, worst};
use penstock_api::paths::PairReport;
use penstock_proto::id::Name;

use super::sysctl_file;
use crate::client::Client;
use crate::commands::paths;
use crate::options::directory::DirectoryArgs;
use penstock_daemon::checks::{self, etcd};
use penstock_daemon::config::Config;
use penstock_exit::{self as exit, ExitCode, Failure};

/// Finds problems of this host, or of the paths between two sites
#[derive(clap::Args)]
#[command(after_help = exit::help_of(&[
    (ExitCode::Done, "all is well"),
    (ExitCode::Unclassified, ""),
    (ExitCode::Usage, ""),
    (ExitCode::SomeFailed, "something costs rate, safety or patience"),
    (ExitCode::Temporary, "with --pair: no daemon answers, or the other site does not"),
    (ExitCode::Refused, "with --write-sysctl: another program wrote FILE, or changed it"),
    (ExitCode::Fatal, "something does not work, or the file cannot be written"),
    (ExitCode::NotAuthorised, "with --pair: the site is not paired"),
]))]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Test every path between this site and SITE, in both directions, and combine the results of
    /// both sites
    #[arg(long, value_name = "SITE")]
    pair: Option<Name>,
    /// Also show the checks that passed
    #[arg(long)]
    all: bool,
    /// Print JSON Lines, one finding per line
    #[arg(long)]
    json: bool,
    /// Write settings of the kernel that suit this host, each with its reason, into FILE, by
    /// default /etc/sysctl.d/90-penstock.conf, and print the command that loads them. A file that
    /// this program did not write, or that was changed since, stays
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    #[arg(default_missing_value = sysctl_file::DEFAULT)]
    #[arg(conflicts_with_all = ["pair", "all", "json"])]
    write_sysctl: Option<PathBuf>,
}

/// Runs it.
///
/// # Errors
/// With `--pair`: no daemon answers, or the site is not paired. With `--write-sysctl`: the file is
/// of another, or cannot be written.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let directory = &args.directory.directory;
    if let Some(path) = &args.write_sysctl {
        return sysctl_file::write(path, directory);
    }
    let client = Client::new(directory)?;
    let findings = match &args.pair {
        Some(site) => {
            let report: PairReport = client.get(&EXAMINE_PAIR.uri(&[&site]))?;
            if !args.json {
                exit::print(&paths::words(&report.paths))?;
            }
            report.findings
        }
        None => match client.list::<Finding>(&EXAMINE_HOST.uri(&[])) {
            Ok(findings) => findings,
            Err(error) => without_daemon(directory, &error),
        },
    };
    show(&findings, args.all, args.json)?;
    Ok(exit_of(worst(&findings)))
}

/// How a command ends that has found this at worst.
pub(crate) fn exit_of(level: Level) -> ExitCode {
    match level {
        Level::Ok | Level::Note => ExitCode::Done,
        Level::Warning => ExitCode::SomeFailed,
        Level::Bad => ExitCode::Fatal,
    }
}

/// Returns what is found of this host where no daemon answers, and the reason of that.
pub(crate) fn without_daemon(directory: &Path, error: &anyhow::Error) -> Vec<Finding> {
    let mut findings = vec![Finding::new(
        Level::Warning,
        "daemon",
        format!("{error}"),
        "what follows is about this command's process: the daemon's limits and rights may differ",
        format!("start it: penstock daemon --dir {}", directory.display()),
    )];
    match Config::load(directory) {
        Ok(config) => {
            findings.extend(checks::local(Some((&config, directory)), &[]));
            if let Some(cluster) = &config.cluster {
                findings.extend(etcd::of_config(cluster, directory));
            }
        }
        Err(error) => {
            let failure = error.downcast_ref::<Failure>().map(ToString::to_string);
            findings.push(Finding::new(
                Level::Warning,
                "configuration",
                failure.unwrap_or_else(|| error.to_string()),
                "only the host can be examined",
                "`--dir` names the site directory; `penstock site init` makes one",
            ));
            findings.extend(checks::local(None, &[]));
        }
    }
    findings
}

/// Prints findings, the worst first.
pub(crate) fn show(findings: &[Finding], all: bool, json: bool) -> anyhow::Result<()> {
    let mut sorted: Vec<_> = findings.iter().collect();
    sorted.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    if json {
        for finding in sorted {
            exit::print(&serde_json::to_string(finding)?)?;
        }
        return Ok(());
    }
    let (mut well, mut shown) = (Vec::new(), 0);
    for finding in sorted {
        if finding.level == Level::Ok && !all {
            well.push(finding.code.as_str());
            continue;
        }
        shown += 1;
        exit::print(&text(finding))?;
    }
    well.dedup();
    if !well.is_empty() {
        let line = format!("{:<8} {}", "ok", well.join(", "));
        exit::print(&line)?;
    }
    if shown == 0 {
        exit::print("all is well")?;
    }
    Ok(())
}

/// A finding in two or three lines.
pub(crate) fn text(finding: &Finding) -> String {
    let of = if finding.peer.is_empty() { String::new() } else { format!("{}: ", finding.peer) };
    let mut text = format!("{:<8} {of}{}", finding.level.as_str(), finding.what);
    for (word, line) in [("why", &finding.why), ("do", &finding.action)] {
        if !line.is_empty() {
            text += &format!("\n         {:<4} {line}", format!("{word}:"));
        }
    }
    text
}
