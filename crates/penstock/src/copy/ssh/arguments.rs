//! Options of `penstock copy` for a place at another host.

use std::path::PathBuf;

/// How another host is reached.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Over ssh")]
pub(crate) struct SshArgs {
    /// The command that logs in, as in `ssh -p 2222 -i key`; OpenSSH or something that takes its
    /// options
    #[arg(long, value_name = "COMMAND", default_value = "ssh")]
    pub(super) ssh: String,
    /// Ports at which lanes may be listened for, as in 50000-50100; by default 64 that are drawn
    #[arg(long, value_name = "A-B", value_parser = parse_ports)]
    pub(super) ports: Option<(u16, u16)>,
    /// Address or name of the other host to dial lanes at, where it also listens if it can; by
    /// default the host name of the ssh configuration. No address that the other host tells is
    /// dialled
    #[arg(long, value_name = "ADDRESS")]
    pub(super) lane_address: Option<String>,
    /// The program at the other host; by default the one in its PATH or in ~/.cache/penstock
    #[arg(long, value_name = "PATH")]
    pub(super) remote_penstock: Option<PathBuf>,
    /// Never send this program to the other host
    #[arg(long)]
    pub(super) no_bootstrap: bool,
}

fn parse_ports(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok((first, last)),
        _ => Err("two ports, the lower first, as in 50000-50100".to_owned()),
    }
}
