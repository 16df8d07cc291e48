//! `penstock bench network`: what the way between two sites can do, without their disks.
//!
//! Bytes go from a `mem:` store, which generates them, to a `null:` store, which keeps none, by
//! plain transfers. Their records in the history of the site are the measurement that is kept.
//!
//! | module | what it owns |
//! |---|---|
//! | `arguments` | the command line |
//! | `ways` | the stores at both ends, and the rights |
//! | `memory_files` | the files of a `mem:` store that a transfer moves |
//! | `course` | the transfers: warm-up, then repeats by turns |
//! | `cards` | the bytes that each network card has carried |
//! | `iperf3` | the other program, by turns with the transfers |
//! | `result` | the figures, and their table |

mod arguments;
mod cards;
mod course;
mod iperf3;
mod memory_files;
mod result;
mod ways;

use std::path::Path;

use penstock_exit::{self as exit, ExitCode, Failure};

use crate::client::Client;
use crate::commands::bench::interruption::Interruption;
pub(super) use arguments::NetworkArgs;
use course::Course;

/// Runs it; blocks until all transfers have ended. Prints what was measured before an error too.
///
/// # Errors
/// No daemon answers; no way can be measured; a transfer fails; exit 130.
pub(super) fn run(args: &NetworkArgs, directory: &Path) -> anyhow::Result<ExitCode> {
    let client = Client::new(directory)?;
    let interruption = Interruption::catch()?;
    let course = Course { client: &client, interruption: &interruption, args };
    let (measured, stopped) = course.run().map_err(in_words)?;
    if !measured.runs.is_empty() {
        let text = match args.json {
            true => serde_json::to_string(&measured)?,
            false => measured.text(),
        };
        exit::print(&text)?;
    }
    stopped.map_or(Ok(ExitCode::Done), |error| Err(in_words(error)))
}

/// Says of an interruption what it leaves.
fn in_words(error: anyhow::Error) -> anyhow::Error {
    match exit::code_of(&error) {
        ExitCode::Interrupted => Failure::new(ExitCode::Interrupted, "interrupted")
            .hint("the transfer that ran is cancelled; the same command measures anew")
            .into(),
        _ => error,
    }
}
