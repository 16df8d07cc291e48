//! Commands of the operator that break something of the site: `sh -c`, until its end.

use std::process::Stdio;
use std::time::Duration;

use penstock_api::transfer::Location;
use penstock_proto::id::Name;

use super::outcome::unknown;
use crate::shell_command::ShellCommand;

/// Time after which a command is killed, such as one that waits for a password.
pub(super) const TIMEOUT: Duration = Duration::from_secs(120);

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

/// Runs the command of an option, and waits for its end. Ctrl-C does not end the command: nothing
/// is left half done, unless the command takes too long.
///
/// # Errors
/// There is no `sh`; the command fails, or is killed because it takes longer than 120 s.
pub(super) fn run(command: &str, option: &str, peer: Option<&Name>) -> anyhow::Result<()> {
    let environment = peer.map(|peer| (PEER_VARIABLE, peer.as_str()));
    let output = (Stdio::null(), Stdio::inherit());
    let ended = ShellCommand::start(command, environment, output, TIMEOUT)?.wait();
    ended.or_else(|failure| {
        unknown(format!("the command of {option} {failure}: look whether all is as before it"))
    })
}
