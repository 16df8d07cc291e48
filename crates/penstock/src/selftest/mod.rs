//! `penstock selftest`: tries to break the promises of an operator's own site, in a directory of
//! its own of a scratch store.
//!
//! A table of checks (`checks`), each with a promise and what it does; a scratch directory that
//! always goes (`scratch`); and their ends, for people and for test servers (`outcome`). All is
//! done by the API, but for the files of the data set, which are made and looked at on this host.

mod checks;
mod outcome;
mod scratch;
mod trial;

use std::cell::RefCell;
use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use penstock_api::endpoints::{LIST_STORES, SHOW_STATUS, SHOW_STORE};
use penstock_api::rest::{StatusView, StoreDetails, StoreView};
use penstock_exit::{self as exit, ExitCode, Failure};
use penstock_proto::id::{Name, TransferId};

use crate::client::Client;
use crate::options::directory::DirectoryArgs;
use crate::soak::watch_signals;
use checks::{CHECKS, Check};
use outcome::{Ended, Outcome, junit};
use scratch::Scratch;
use trial::Trial;

/// Tries to break the promises of this site, in a directory of its own of a scratch store
///
/// Lists what it will do, and asks. Some 300 MiB are written below `penstock-selftest-ID` in the
/// store, and removed at the end. Run it on a host of the site that has the store.
#[derive(clap::Args)]
#[command(after_help = exit::help_of(&[
    (ExitCode::Done, "no check failed; some may not have been run"),
    (ExitCode::Unclassified, ""),
    (ExitCode::Usage, ""),
    (ExitCode::SomeFailed, "a check failed"),
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
    /// A command that kills the daemon and starts it again, for the check `killed-daemon`
    #[arg(long, value_name = "COMMAND")]
    kill: Option<String>,
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
    let place = PathBuf::from(&store.place);
    if client.site_directory().is_none() || !place.is_dir() {
        let title = format!("store `{}` is not on this host", store.name);
        let hint = "run it on a host of the site, without `PENSTOCK_URL`";
        return Err(Failure::new(ExitCode::Usage, title).hint(hint).into());
    }
    let directory = format!("penstock-selftest-{}", TransferId(rand::random()).short());
    if !args.yes && !is_confirmed(&chosen, &store, &directory)? {
        return Err(Failure::new(ExitCode::Refused, "nothing was done").into());
    }
    let stop = watch_signals()?;
    let trial = Trial {
        site: status.site.name,
        scratch: Scratch::make(&place, &directory)?,
        store: store.name,
        directory,
        kill: args.kill.as_deref(),
        stop: &stop,
        begun: RefCell::default(),
        client,
    };
    let ended = run_all(&trial, &chosen, &stop);
    trial.cancel_all();
    if let Err(error) = trial.scratch.remove() {
        exit::warn(&format!("`{}` is left: {error}", trial.scratch.root().display()));
    }
    let ended = ended?;
    if let Some(path) = &args.junit {
        let written = fs::write(path, junit(trial.site.as_str(), &ended));
        written.map_err(|error| Failure::io(format!("write `{}`", path.display()), error))?;
    }
    let is_failed = ended.iter().any(|it| matches!(it.outcome, Outcome::Fail(_)));
    Ok(if is_failed { ExitCode::SomeFailed } else { ExitCode::Done })
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

/// Returns the store that is named, or the only one that can be written to.
fn store(client: &Client, named: Option<&Name>) -> anyhow::Result<StoreView> {
    if let Some(name) = named {
        return Ok(client.get::<StoreDetails>(&SHOW_STORE.uri(&[name]))?.store);
    }
    let mut stores: Vec<StoreView> = client.list(&LIST_STORES.uri(&[]))?;
    stores.retain(|store| !store.read_only && store.place.starts_with('/'));
    match (stores.pop(), stores.is_empty()) {
        (Some(store), true) => Ok(store),
        _ => {
            let title = "the site has not one store that can be written to";
            Err(Failure::new(ExitCode::Usage, title).hint("name one by `--scratch`").into())
        }
    }
}

fn is_confirmed(checks: &[&Check], store: &StoreView, name: &str) -> anyhow::Result<bool> {
    exit::warn(&format!("this is done in `{}/{name}`, which is removed at the end:", store.place));
    for check in checks {
        exit::warn(&format!("  {:<14} {}", check.name, check.does));
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::new(ExitCode::Usage, "there is no terminal to ask for consent")
            .hint("`--yes` does not ask")
            .into());
    }
    exit::prompt("do it? [y/N] ");
    let mut line = String::new();
    io::stdin().read_line(&mut line).map_err(|error| Failure::io("read the answer", error))?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

fn run_all(
    trial: &Trial<'_>,
    checks: &[&'static Check],
    stop: &AtomicBool,
) -> anyhow::Result<Vec<Ended>> {
    let mut all = Vec::new();
    for check in checks {
        let began = Instant::now();
        let outcome = (check.run)(trial);
        if stop.load(Ordering::Acquire) {
            return Err(Failure::new(ExitCode::Interrupted, "interrupted").into());
        }
        let outcome = outcome.unwrap_or_else(|error| Outcome::Fail(format!("{error:#}")));
        let (word, text) = outcome.parts();
        exit::print(&format!("{word:<7}  {:<14} {}: {text}", check.name, check.promise))?;
        let Check { name, promise, .. } = **check;
        all.push(Ended { name, promise, outcome, took: began.elapsed() });
    }
    Ok(all)
}
