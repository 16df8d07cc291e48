//! `penstock bench network`: what the way between two sites can do, without their disks.
//!
//! Bytes go from a `mem:` store, which generates them, to a `null:` store, which keeps none, by
//! plain transfers. Their records in the history of the site are the measurement that is kept.
//!
//! | module | what it owns |
//! |---|---|
//! | `arguments` | the command line |
//! | `ways` | the stores at both ends, and the rights |
//! | `networks` | the named networks, which can be measured one by one |
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
mod networks;
mod result;
mod ways;

use std::path::Path;

use penstock_exit::{self as exit, ExitCode};

use crate::client::Client;
use crate::commands::bench::interruption::{Interruption, with_hint};
pub(super) use arguments::NetworkArgs;
use course::Course;

/// What an interruption leaves.
const HINT: &str = "the transfer that ran is cancelled; the same command measures anew";

/// Runs it; blocks until all transfers have ended. Prints what was measured before an error too.
///
/// # Errors
/// No daemon answers; no way can be measured; a transfer fails; exit 130.
pub(super) fn run(args: &NetworkArgs, directory: &Path) -> anyhow::Result<ExitCode> {
    let client = Client::new(directory)?;
    let interruption = Interruption::catch()?;
    let course = Course { client: &client, interruption: &interruption, args };
    let (measured, stopped) = course.run().map_err(|error| with_hint(error, HINT))?;
    if !measured.runs.is_empty() {
        let text = match args.json {
            true => serde_json::to_string(&measured)?,
            false => measured.text(),
        };
        exit::print(&text)?;
    }
    stopped.map_or(Ok(ExitCode::Done), |error| Err(with_hint(error, HINT)))
}
