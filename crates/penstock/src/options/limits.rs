//! How much of the world may be used: `--bwlimit`, `--max-lanes`, `--max-metadata-ops`, `--cpus`.

use penstock_api::limits::{Limits, RATE_MIN};
use penstock_api::transfer::LANES_MAX;
use penstock_proto::units::parse_rate;

use penstock_exit::{ExitCode, Failure};

const HEADING: &str = "Limits";

/// Limits of one copy or transfer.
#[derive(clap::Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct LimitArgs {
    /// Move at most so much file content per second on average, all peers together, bits or bytes,
    /// with the unit: as in 500Mbit/s, 60MB/s, 1.5Gbit/s, 10MiB/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    bwlimit: Option<u64>,
    /// Most lanes at a time, those of all target peers together, of which no more take part; on one
    /// host, threads that read and write. Default: as the path, the peers and their CPUs need
    #[arg(long, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(LANES_MAX)))]
    pub(crate) max_lanes: Option<u32>,
    /// At most so many metadata operations per second, all peers of a side together: names looked
    /// up by the scan at the source; files, directories and links made, and names given, at the
    /// target
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_metadata_ops: Option<u32>,
}

impl LimitArgs {
    /// For `TransferOptions::limits`.
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

/// Processors of this process.
#[derive(clap::Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct CpuArgs {
    /// Keep at most so many CPUs of this host busy, over ssh at each end. Default: all that its
    /// cgroup (cpu.max) and its affinity mask allow
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cpus: Option<u32>,
}

impl CpuArgs {
    /// Binds the process to that many CPUs, or to `configured`. To be called before it starts
    /// threads: those inherit it, and their number follows from it.
    ///
    /// # Errors
    /// The kernel refuses; exit 7.
    pub(crate) fn apply(&self, configured: Option<u32>) -> Result<(), Failure> {
        bind_to_cpus(self.cpus.or(configured))
    }

    /// The number that was given.
    pub(crate) fn most(&self) -> Option<u32> {
        self.cpus
    }
}

/// Binds this thread, and those that it will start, to so many CPUs, if there is a limit.
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
