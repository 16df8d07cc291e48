//! `penstock daemon`: reads the command line and the configuration, and runs the daemon.

use std::net::SocketAddr;

use crate::options::directory::DirectoryArgs;
use crate::options::limits::CpuArgs;
use penstock_daemon as daemon;
use penstock_daemon::config::Config;
use penstock_exit::{self as exit, ExitCode};

/// Runs the daemon of this host, in the foreground
#[derive(clap::Args)]
pub(crate) struct DaemonArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Listen at ADDRESS instead of the address in the configuration. Port 0 chooses a free port
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    cpus: CpuArgs,
    /// Be of the next version, as tests of upgrades want it; no release has this option
    #[cfg(debug_assertions)]
    #[arg(long, hide = true)]
    next_version: bool,
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// It cannot start: a second daemon, a port that is taken, keys that do not fit. Exit 7 or 2.
pub(crate) fn run(args: DaemonArgs) -> anyhow::Result<ExitCode> {
    #[cfg(debug_assertions)]
    if args.next_version {
        penstock_proto::version::become_next();
    }
    exit::start_log("info");
    let directory = args.directory.directory;
    let mut config = Config::load(&directory)?;
    if let Some(listen) = args.listen {
        config.listen = listen;
    }
    args.cpus.apply(config.cpus)?;
    daemon::run(config, directory)
}
