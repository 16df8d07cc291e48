//! `penstock daemon`: reads the command line and the configuration, and runs the daemon.

#[cfg(feature = "otlp")]
mod telemetry;

use std::net::SocketAddr;

use crate::options::address::address;
use crate::options::directory::DirectoryArgs;
use crate::options::limits::bind_to_cpus;
use penstock_daemon as daemon;
use penstock_daemon::settings::Layers;
use penstock_exit::{self as exit, ExitCode, Failure};

/// Runs the daemon of this host, in the foreground
#[derive(clap::Args)]
#[command(after_help = exit::help_of(&[
    (ExitCode::Done, "ended by SIGTERM or SIGINT"),
    (ExitCode::Unclassified, ""),
    (ExitCode::Usage, "wrong command line or configuration"),
    (ExitCode::Temporary, "the host lacks threads"),
    (ExitCode::Fatal, "it cannot start, as for a second daemon, a port that is taken"),
]))]
pub(crate) struct DaemonArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Listen at ADDRESS instead of the address in the configuration. Port 0 chooses a free port
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Option<SocketAddr>,
    /// Use at most N CPUs of this host. Default: `cpus` of penstock.toml, else all that the cgroup
    /// (cpu.max) and the affinity mask allow
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cpus: Option<u32>,
    /// Be of the next version, as tests of upgrades want it; no release has this option
    #[cfg(debug_assertions)]
    #[arg(long, hide = true)]
    next_version: bool,
    /// Serve the web page from DIR, as it is there now, for those who write it; no release has this
    /// option
    #[cfg(debug_assertions)]
    #[arg(long, hide = true, value_name = "DIR")]
    web_dir: Option<std::path::PathBuf>,
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
    #[cfg(debug_assertions)]
    if let Some(directory) = args.web_dir {
        daemon::http::web::serve_page_from(directory);
    }
    #[cfg(feature = "otlp")]
    let _exports = telemetry::start_log("info")?;
    #[cfg(not(feature = "otlp"))]
    exit::start_log("info");
    let layers = Layers::of(&args.directory.directory)
        .with_flag("listen", "--listen", args.listen.map(|listen| listen.to_string().into()))
        .with_flag("cpus", "--cpus", args.cpus.map(|cpus| i64::from(cpus).into()));
    let loaded = layers.load().map_err(Failure::from)?;
    for warning in &loaded.warnings {
        exit::warn(&warning.to_string());
    }
    if let Some(level) = &loaded.config.log {
        exit::set_log(level).map_err(|why| Failure::new(ExitCode::Usage, why))?;
    }
    bind_to_cpus(loaded.config.cpus)?;
    daemon::run(loaded, layers)
}
