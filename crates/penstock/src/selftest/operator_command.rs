//! Commands of the operator that break something of the site: `sh -c`, until its end.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use penstock_api::transfer::Location;
use penstock_proto::id::Name;

use super::outcome::unknown;

/// Variable with the name of the peer that a command is to kill.
const PEER_VARIABLE: &str = "PENSTOCK_PEER";

/// Commands that cut a card and restore it, and a transfer for them.
#[derive(Clone, Debug)]
pub(super) struct CardCut {
    /// Command that cuts a card.
    pub(super) cut: String,
    /// Command that undoes it.
    pub(super) heal: String,
    /// The file or directory of another site that is moved here meanwhile.
    pub(super) from: Location,
}

/// Runs the command of an option, and waits for its end. Ctrl-C does not end the command, so that
/// nothing is left half done.
///
/// # Errors
/// There is no `sh`; the command fails.
pub(super) fn run(command: &str, option: &str, peer: Option<&Name>) -> anyhow::Result<()> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::null());
    shell.envs(peer.map(|peer| (PEER_VARIABLE, peer.as_str())));
    let status = shell.process_group(0).status()?;
    match status.success() {
        true => Ok(()),
        false => unknown(format!(
            "the command of {option} ended with {status}: look whether all is as before it"
        )),
    }
}
