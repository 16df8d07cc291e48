//! Limits of a transfer: rate, lanes, metadata operations, networks, peers and CPUs.

use penstock_api::limits::{Limits, RATE_MIN};
use penstock_api::transfer::LANES_MAX;
use penstock_proto::id::Name;
use penstock_proto::units::parse_rate;

use penstock_exit::{ExitCode, Failure};

const HEADING: &str = "Limits";

/// Limits of one copy or transfer.
#[derive(clap::Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct LimitArgs {
    #[command(flatten)]
    paces: PaceArgs,
    /// Limit the number of lanes, over all target peers, and of the peers that take part. On one
    /// host: the threads that read and write. Default: automatic, from the path, the peers and
    /// their CPUs
    #[arg(long, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(LANES_MAX)))]
    pub(crate) max_lanes: Option<u32>,
}

impl LimitArgs {
    /// Returns the limits for `TransferOptions::limits`.
    pub(crate) fn limits(&self) -> Limits {
        self.paces.limits()
    }
}

/// Limits of the hosts and networks of a transfer between sites.
#[derive(clap::Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct SharingArgs {
    /// Use only these networks for lanes, by the names that either site has given to them, as in
    /// fast0,fast1. Default: all networks for data
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) networks: Vec<Name>,
    /// Limit the number of peers of each site that carry data. Default: all peers that reach the
    /// stores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_peers: Option<u32>,
}

/// Limits of rates.
#[derive(clap::Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct PaceArgs {
    /// Limit the average rate of file content, over all peers, as in 500Mbit/s, 60MB/s, 1.5Gbit/s,
    /// 10MiB/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    bwlimit: Option<u64>,
    /// Limit the metadata operations per second, over all peers of a side. At the source: names
    /// that the scan looks up. At the target: files, directories and links that are created or
    /// renamed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_metadata_ops: Option<u32>,
}

impl PaceArgs {
    /// Returns the limits for `TransferOptions::limits`.
    pub(crate) fn limits(&self) -> Limits {
        Limits { rate_bits_per_s: self.bwlimit, metadata_ops_per_s: self.max_metadata_ops }
    }
}

/// Reads a rate limit in bits per second.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    let rate = parse_rate(text).map_err(|error| error.to_string())?;
    if rate < RATE_MIN {
        return Err(format!("the least limit is {} kbit/s", RATE_MIN / 1000));
    }
    Ok(rate)
}

/// Reads a rate limit, or `none`.
pub(crate) fn rate_or_none(text: &str) -> Result<RateWish, String> {
    if text == "none" { Ok(RateWish(None)) } else { rate(text).map(|rate| RateWish(Some(rate))) }
}

/// A rate limit in bits per second, or that there shall be none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateWish(pub(crate) Option<u64>);

/// Processors of a copy.
#[derive(clap::Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct CpuArgs {
    /// Use at most N CPUs of this host; over ssh, at each end. Default: all that the cgroup
    /// (cpu.max) and the affinity mask allow
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cpus: Option<u32>,
}

impl CpuArgs {
    /// Binds the process to that many CPUs; see [`bind_to_cpus`].
    ///
    /// # Errors
    /// The kernel refuses; exit 7.
    pub(crate) fn apply(&self) -> Result<(), Failure> {
        bind_to_cpus(self.cpus)
    }

    /// The number that was given.
    pub(crate) fn most(&self) -> Option<u32> {
        self.cpus
    }
}

/// Binds this thread, and those that it will start, to so many CPUs, if there is a limit. To be
/// called before the process starts threads: those inherit it, and their number follows from it.
///
/// # Errors
/// The kernel refuses; exit 7.
pub(crate) fn bind_to_cpus(most: Option<u32>) -> Result<(), Failure> {
    let Some(cpus) = most else { return Ok(()) };
    penstock_sys::bind_to_cpus(cpus as usize).map_err(|error| {
        Failure::new(ExitCode::Fatal, format!("cannot keep to {cpus} CPUs"))
            .caused_by(error)
            .hint("leave out --cpus, and limit the CPUs by a cgroup or taskset(1)")
    })
}
