//! `penstock selftest`: tries to break the promises of an operator's own site, in a directory of
//! its own of a scratch store.
//!
//! | module | has |
//! |---|---|
//! | `checks` | the table of checks, each with a promise, and those that need nothing of their own |
//! | `visibility`, `directory_lock`, `clocks`, `kills`, `cards` | further checks |
//! | `omissions` | the promises without a check |
//! | `trial`, `operator_command` | parts that checks share |
//! | `scratch` | a directory with a data set, which is removed in the end |
//! | `outcome` | the ends of checks, for people and for test servers |
//!
//! All is done by the API, but for two things: the files of the data set, which are made and read
//! on this host, and the lock of the site directory.

mod cards;
mod checks;
mod clocks;
mod directory_lock;
mod kills;
mod omissions;
mod operator_command;
mod outcome;
mod scratch;
mod trial;
mod visibility;

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use penstock_api::endpoints::{LIST_STORES, SHOW_STATUS, SHOW_STORE};
use penstock_api::rest::{StatusView, StoreDetails, StoreState, StoreView};
use penstock_api::transfer::Location;
use penstock_exit::{self as exit, ExitCode, Failure};
use penstock_proto::id::{Name, TransferId};

use crate::client::Client;
use crate::consent;
use crate::options::directory::DirectoryArgs;
use crate::output::output_file::OutputFile;
use crate::signals;
use cards::CUT_CARD;
use checks::{CHECKS, Check};
use kills::{KILLED_CONTROLLER, KILLED_DAEMON, KILLED_PEER};
use omissions::{OMISSIONS, Omission};
use operator_command::CardCut;
use outcome::{Ended, Outcome, exit_code, junit};
use scratch::Scratch;
use trial::Trial;

/// Tries to break the promises of this site, in a directory of its own of a scratch store
///
/// Lists what it will do, and asks. Up to 800 MiB are written below `penstock-selftest-ID` in the
/// store, and removed at the end. Run it on a host of the site that has the store. A command of an
/// option is killed if it runs for longer than 120 s, and its check ends with ERROR.
#[derive(clap::Args)]
#[command(after_help = exit::help_of(&[
    (ExitCode::Done, "promises were tried and kept; some checks may not have been run"),
    (ExitCode::Unclassified, "a check has not come to its end, or none was run"),
    (ExitCode::Usage, ""),
    (ExitCode::SomeFailed, "a check failed: a promise is broken"),
    (ExitCode::Temporary, "no daemon answers"),
    (ExitCode::Refused, "the user did not confirm"),
    (ExitCode::Fatal, ""),
    (ExitCode::NotAuthorised, ""),
    (ExitCode::Interrupted, "interrupted"),
]))]
pub(crate) struct SelftestArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// The store to work in; the only one that can be written to by default
    #[arg(long, value_name = "STORE")]
    scratch: Option<Name>,
    /// Run only these checks, with commas between
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// A command that kills the daemon and starts it again within 120 s, for the check
    /// `killed-daemon`
    #[arg(long, value_name = "COMMAND")]
    kill: Option<String>,
    /// A command that kills the daemon of peer $PENSTOCK_PEER and starts it again within 120 s, for
    /// the checks `killed-peer` and `killed-controller` at a site of several peers
    #[arg(long, value_name = "COMMAND")]
    kill_peer: Option<String>,
    /// A command that cuts a card within 120 s, for the check `cut-card`, with `--heal-card` and
    /// `--from`
    #[arg(long, value_name = "COMMAND", requires_all = ["heal_card", "from"])]
    cut_card: Option<String>,
    /// A command that restores the card within 120 s, also after Ctrl-C and errors
    #[arg(long, value_name = "COMMAND", requires = "cut_card")]
    heal_card: Option<String>,
    /// A directory or file of another site, of 64 to 256 MiB, that is moved while a card is cut
    #[arg(long, value_name = "SITE:STORE/PATH", requires = "cut_card")]
    from: Option<Location>,
    /// Also write the result to FILE, as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// Runs it; blocks for a minute or so.
///
/// # Errors
/// No daemon answers, or what it answers; the store is none of this host.
pub(crate) fn run(args: &SelftestArgs) -> anyhow::Result<ExitCode> {
    let chosen = chosen(&args.only)?;
    let client = Client::new(&args.directory.directory)?;
    let status: StatusView = client.get(&SHOW_STATUS.uri(&[]))?;
    let store = store(&client, args.scratch.as_ref())?;
    for (option, command, names) in [
        ("--kill", &args.kill, &[KILLED_DAEMON][..]),
        ("--kill-peer", &args.kill_peer, &[KILLED_PEER, KILLED_CONTROLLER]),
        ("--cut-card", &args.cut_card, &[CUT_CARD]),
    ] {
        if command.is_some() && !chosen.iter().any(|check| names.contains(&check.name)) {
            let names = names.join("` and `");
            let title = format!("`{option}` is for `{names}`, which `--only` leaves out");
            return Err(Failure::new(ExitCode::Usage, title).into());
        }
    }
    let card_cut = card_cut(args, &status.site.name)?;
    let place = PathBuf::from(&store.place);
    if client.site_directory().is_none() || !place.is_dir() {
        let title = format!("store `{}` is not on this host", store.name);
        let hint = "run it on a host of the site, without `PENSTOCK_URL`";
        return Err(Failure::new(ExitCode::Usage, title).hint(hint).into());
    }
    let report = args.junit.as_deref().map(OutputFile::open).transpose()?;
    let directory = format!("penstock-selftest-{}", TransferId(rand::random()).short());
    if !args.yes && !is_confirmed(&chosen, &store, &directory)? {
        return Err(Failure::new(ExitCode::Refused, "nothing was done").into());
    }
    let stop = signals::flag()?;
    let trial = Trial {
        site: status.site.name,
        scratch: Scratch::make(&place, &directory)?,
        store: store.name,
        directory,
        kill: args.kill.as_deref(),
        kill_peer: args.kill_peer.as_deref(),
        card_cut,
        stop: &stop,
        begun: RefCell::default(),
        client,
    };
    let omissions = if args.only.is_empty() { &OMISSIONS[..] } else { &[] };
    let ended = run_all(&trial, &chosen, omissions, &stop);
    trial.cancel_all();
    if let Err(error) = trial.scratch.remove() {
        exit::warn(&format!("`{}` is left: {error}", trial.scratch.root().display()));
    }
    let ended = ended?;
    let code = exit_code(&ended);
    if let Some(report) = report {
        let text = junit(trial.site.as_str(), &ended);
        let written = report.write(&stop, |out| Ok(out.write_all(text.as_bytes())?));
        match written {
            // A broken promise says more than a file that cannot be written.
            Err(error) if code != ExitCode::Done => exit::warn(&format!("{error:#}")),
            written => written?,
        }
    }
    Ok(code)
}

/// Returns what `cut-card` needs, if it was given.
fn card_cut(args: &SelftestArgs, own: &Name) -> anyhow::Result<Option<CardCut>> {
    let (Some(cut), Some(heal), Some(from)) = (&args.cut_card, &args.heal_card, &args.from) else {
        return Ok(None);
    };
    if from.site == *own {
        let title = format!("`--from` names this site, `{own}`, where no card carries");
        let hint = "name a directory or file of another site";
        return Err(Failure::new(ExitCode::Usage, title).hint(hint).into());
    }
    Ok(Some(CardCut { cut: cut.clone(), heal: heal.clone(), from: from.clone() }))
}

fn chosen(only: &[String]) -> anyhow::Result<Vec<&'static Check>> {
    let known = |name: &String| CHECKS.iter().any(|check| check.name == name);
    if let Some(unknown) = only.iter().find(|name| !known(name)) {
        let names: Vec<_> = CHECKS.iter().map(|check| check.name).collect();
        let title = format!("`{unknown}` is no check");
        let hint = format!("there are {}", names.join(", "));
        return Err(Failure::new(ExitCode::Usage, title).hint(hint).into());
    }
    let is_wanted = |check: &&Check| only.is_empty() || only.iter().any(|it| it == check.name);
    Ok(CHECKS.iter().filter(is_wanted).collect())
}

/// Returns the store that is named, or the only one that can be written to, if it can be used now.
fn store(client: &Client, named: Option<&Name>) -> anyhow::Result<StoreView> {
    let name = match named {
        Some(name) => name.clone(),
        None => only_store(client)?,
    };
    let details: StoreDetails = client.get(&SHOW_STORE.uri(&[&name]))?;
    let (rights, store) = (details.rights, details.store);
    let wrong = |code, title: String| Err(Failure::new(code, title).into());
    if !store.place.starts_with('/') {
        let title = format!("store `{name}` is `{}`, which keeps no files", store.place);
        return wrong(ExitCode::Usage, title);
    }
    if store.read_only {
        return wrong(ExitCode::Refused, format!("store `{name}` is read-only"));
    }
    if !rights.read || !rights.write {
        let title = format!("you may not read from store `{name}` and write to it");
        let hint = "an administrator gives rights by `penstock user set`";
        return Err(Failure::new(ExitCode::NotAuthorised, title).hint(hint).into());
    }
    if details.state != StoreState::Online {
        let title = format!("store `{name}` cannot be used now: {}", details.why);
        return wrong(ExitCode::Temporary, title);
    }
    Ok(store)
}

fn only_store(client: &Client) -> anyhow::Result<Name> {
    let mut stores: Vec<StoreView> = client.list(&LIST_STORES.uri(&[]))?;
    stores.retain(|store| !store.read_only && store.place.starts_with('/'));
    let title = match (stores.pop(), stores.is_empty()) {
        (Some(store), true) => return Ok(store.name),
        (Some(_), false) => "the site has several stores that can be written to",
        (None, _) => "the site has no store that can be written to",
    };
    Err(Failure::new(ExitCode::Usage, title).hint("name a store for tests by `--scratch`").into())
}

fn is_confirmed(checks: &[&Check], store: &StoreView, name: &str) -> anyhow::Result<bool> {
    exit::warn(&format!("this is done in `{}/{name}`, which is removed at the end:", store.place));
    for check in checks {
        exit::warn(&format!("  {:<17} {}", check.name, check.does));
    }
    consent::ask("do it?")
}

fn run_all(
    trial: &Trial<'_>,
    checks: &[&'static Check],
    omissions: &[Omission],
    stop: &AtomicBool,
) -> anyhow::Result<Vec<Ended>> {
    let mut all = Vec::new();
    for check in checks {
        let began = Instant::now();
        let outcome = (check.run)(trial);
        if stop.load(Ordering::Acquire) {
            return Err(Failure::new(ExitCode::Interrupted, "interrupted").into());
        }
        let Check { name, promise, .. } = **check;
        let ended = Ended { name, promise, outcome: Outcome::of(outcome), took: began.elapsed() };
        exit::print(&ended.line())?;
        all.push(ended);
    }
    for &Omission { name, promise, why } in omissions {
        let outcome = Outcome::NotRun(why.to_owned());
        let ended = Ended { name, promise, outcome, took: Duration::ZERO };
        exit::print(&ended.line())?;
        all.push(ended);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::operator_command::TIMEOUT;
    use super::*;

    /// Promise: the help of each option with a command tells how long the command may take.
    #[test]
    fn help_tells_the_limit_of_commands() {
        let command = SelftestArgs::augment_args(clap::Command::new("selftest"));
        let limit = format!("{} s", TIMEOUT.as_secs());
        for option in ["kill", "kill_peer", "cut_card", "heal_card"] {
            let of_option = |it: &&clap::Arg| it.get_id() == option;
            let help = command.get_arguments().find(of_option).unwrap().get_help().unwrap();
            assert!(help.to_string().contains(&limit), "{option}: {help}");
        }
        assert!(command.get_long_about().unwrap().to_string().contains(&limit));
    }
}
