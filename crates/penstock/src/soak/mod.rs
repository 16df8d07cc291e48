//! `penstock soak`: repeats a transfer until a volume or a time is reached, breaks things meanwhile
//! if it is asked to, and proves that nothing was lost.
//!
//! The command is a client of the API. `ends` looks at source and target before anything is made.
//! `course` repeats rounds, and `injector` breaks and heals. `directory` keeps what is known
//! durable after each round, so that a start after a kill continues. `proof` makes the page from
//! these records alone. `own_directory` is the directory of a soak in the target store. Its part
//! `cleaning` removes that directory for a user who does not continue the soak.

mod arguments;
mod course;
mod daemon;
mod directory;
mod ends;
mod fault_command;
mod faults;
mod injector;
mod own_directory;
mod proof;
mod record;
mod report;
mod resent;
mod start;
mod until;
mod verdict;

use std::path::Path;

use penstock_exit::{self as exit, ExitCode, Failure};

pub(crate) use arguments::SoakArgs;
use directory::{no_soak, open_fault};
use own_directory::cleaning::clean;
use proof::Proof;
use report::Report;

use crate::client::Client;

/// Runs it; blocks until the end is reached, or a signal comes.
///
/// # Errors
/// No daemon answers, or what it answers; the directory cannot be written; a fault is not undone.
pub(crate) fn run(args: &SoakArgs) -> anyhow::Result<ExitCode> {
    if let Some(directory) = &args.show {
        return show(directory, args.json);
    }
    if let Some(directory) = &args.clean {
        let client = Client::new(&args.directory.directory)?;
        return clean(directory, client, Report::new(args.json));
    }
    let (Some(source), Some(target), Some(until), Some(out)) =
        (&args.source, &args.target, args.until, &args.out)
    else {
        return Err(Failure::new(ExitCode::Usage, "give SOURCE, TARGET, --until and --out").into());
    };
    start::run(args, &start::Wish { source, target, until, out })
}

fn show(path: &Path, json: bool) -> anyhow::Result<ExitCode> {
    let Some(records) = directory::read(path)? else {
        return Err(no_soak(path).into());
    };
    let proof = Proof::of(&records);
    match json {
        true => exit::print(&serde_json::to_string(&proof)?)?,
        false => exit::print(proof.page().trim_end())?,
    }
    if let Some(open) = open_fault(path)? {
        let (number, name) = (open.fault, open.name);
        exit::warn(&format!("fault {number}, `{name}`, is open now; `{}` undoes it", open.heal));
    }
    Ok(proof.exit())
}
