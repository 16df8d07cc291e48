//! Options of `penstock copy` for a place at another host.

use std::path::PathBuf;

/// How another host is reached.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Over ssh")]
pub(crate) struct SshArgs {
    /// The ssh command, as in `ssh -p 2222 -i key`. It must accept the options of OpenSSH
    #[arg(long, value_name = "COMMAND", default_value = "ssh")]
    pub(super) ssh: String,
    /// Ports to listen for lanes at, as in 50000-50100. Default: 64 random ports
    #[arg(long, value_name = "A-B", value_parser = parse_ports)]
    pub(super) ports: Option<(u16, u16)>,
    /// Address or name of the other host for lanes. The other host listens there if it can.
    /// Default: the host name of the ssh configuration. An address that the other host names is
    /// never dialled
    #[arg(long, value_name = "ADDRESS")]
    pub(super) lane_address: Option<String>,
    /// Path of penstock at the other host. Default: found in its PATH or in ~/.cache/penstock
    #[arg(long, value_name = "PATH")]
    pub(super) remote_penstock: Option<PathBuf>,
    /// Do not send this program to the other host
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
