//! `penstock doctor`: looks at this host, or with `--pair` at what lies between two sites, and says
//! of each matter what was found, why it matters, what to do.
//!
//! What is about the daemon's own limits and rights is looked at by the daemon, if it answers; else
//! from this command's process, which is said. Nothing is changed, and nothing is written.

mod etcd;
mod host;
mod measured;
mod nics;
pub(crate) mod pair;
pub(crate) mod site;
mod stores;

use std::path::Path;

use penstock_api::operate::{Finding, Level, worst};
use penstock_api::paths::PairReport;
use penstock_net::trust::PeerCertificate;
use penstock_proto::id::Name;

use crate::client::Client;
use crate::commands::paths;
use crate::config::{Config, DirectoryArgs};
use crate::exit::{self, ExitCode, Failure};
use crate::site_directory::TRUST_DIRECTORY;
pub(crate) use host::host_load;
pub(crate) use measured::Measured;
use penstock_sys::now_seconds;

const DAY: u64 = 24 * 3600;

/// Looks for what is wrong or slow at this host, or between two sites
#[derive(clap::Args)]
#[command(after_help = "Exit codes:\n    0  all is well\n    3  something costs rate, safety or \
                        patience\n    7  something does not work\n    5  no daemon answers (with \
                        --pair)")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Try every path between this site and a paired one, in both directions, and join both views
    #[arg(long, value_name = "SITE")]
    pair: Option<Name>,
    /// Show what is as it should be, too
    #[arg(long)]
    all: bool,
    /// Print JSON Lines: one finding each
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// With `--pair`: no daemon answers, or the site is not paired.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let directory = &args.directory.directory;
    let client = Client::new(directory)?;
    let findings = match &args.pair {
        Some(site) => {
            let report: PairReport = client.get(&format!("/sites/{site}/doctor"))?;
            if !args.json {
                exit::print(&paths::words(&report.paths))?;
            }
            report.findings
        }
        None => match client.get::<Vec<Finding>>("/doctor") {
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

fn without_daemon(directory: &Path, error: &anyhow::Error) -> Vec<Finding> {
    let mut findings = vec![Finding::new(
        Level::Warning,
        "daemon",
        format!("{error}"),
        "what follows is about this command's process: the daemon's limits and rights may differ",
        format!("start it: penstock daemon --dir {}", directory.display()),
    )];
    match Config::load(directory) {
        Ok(config) => {
            findings.extend(local(Some((&config, directory)), &[]));
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
                "only the host can be looked at",
                "`--dir` names the site directory; `penstock site init` makes one",
            ));
            findings.extend(local(None, &[]));
        }
    }
    findings
}

/// Looks at this host: with the configuration and directory of its site, and with what transfers
/// have measured. Blocks on storage.
pub(crate) fn local(site: Option<(&Config, &Path)>, measured: &[Measured]) -> Vec<Finding> {
    let mut findings = vec![host::clock(), host::open_files(), host::kernel()];
    let several = site.is_some_and(|(config, _)| nics::several(config));
    findings.extend(host::congestion(measured));
    findings.extend(host::buffers(measured));
    if let Some((config, directory)) = site {
        findings.extend(nics::look(config, several));
        findings.extend(stores::look(config, directory));
        findings.push(certificate(directory));
    }
    findings
}

/// What the etcd that a site uses is like.
pub(crate) use etcd::judge as judge_etcd;

fn certificate(directory: &Path) -> Finding {
    let code = "certificate";
    match PeerCertificate::load(&directory.join(TRUST_DIRECTORY)) {
        Ok(certificate) => expiry(code, "this peer's certificate", certificate.expires()),
        Err(error) => Finding::new(
            Level::Bad,
            code,
            format!("this peer's certificate cannot be read: {error}"),
            "the daemon does not start without it",
            "restore `trust/` of the site directory from a backup, or join the site anew",
        ),
    }
}

/// What is to be said of something that ends at a time, in seconds since 1970.
pub(crate) fn expiry(code: &str, what: &str, expires: u64) -> Finding {
    let days = expires.saturating_sub(now_seconds()) / DAY;
    let why = "other sites refuse the lanes and requests of a peer whose certificate has expired";
    let action = "its daemon issues another one by itself when it starts, and every hour when a \
                  third of the time is left: start it; if it runs, its log says what keeps it";
    match days {
        0 => {
            Finding::new(Level::Bad, code, format!("{what} has expired or does today"), why, action)
        }
        1..30 => Finding::new(
            Level::Warning,
            code,
            format!("{what} expires in {days} days"),
            why,
            action,
        ),
        _ => Finding::ok(code, format!("{what} is good for {days} more days")),
    }
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
