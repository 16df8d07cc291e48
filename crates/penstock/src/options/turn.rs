//! The options that decide when a transfer starts.

use penstock_api::deadline::{Deadline, DeadlinePolicy};
use penstock_api::rest::TransferPatch;
use penstock_api::timestamp::Timestamp;
use penstock_proto::units::parse_size;
use penstock_sys::now_seconds;

use super::select::parse_age;

/// When a transfer starts, beside others.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Turn")]
pub(crate) struct TurnArgs {
    /// A note that `list` and `show` print
    #[arg(long, value_name = "TEXT", default_value = "", value_parser = parse_label,
        hide_default_value = true)]
    pub(crate) label: String,
    /// Priority among the waiting transfers of the same user, 0 to 100. Default: 50
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) priority: Option<u8>,
    /// Do not start before this time: 2026-11-26T20:00:00Z, or after 2h, 1d
    #[arg(long, value_name = "TIME", value_parser = parse_start)]
    pub(crate) not_before: Option<u64>,
    /// Be done by this time: 2026-11-26T20:00:00Z, or within 2h, 1d
    #[arg(long, value_name = "TIME", value_parser = parse_start)]
    deadline: Option<u64>,
    /// What a deadline means. `promise`: the site refuses the transfer if the forecast does not
    /// keep it, and else reserves a place. `best_effort`: the site reports when it is at risk.
    /// `cancel`: a transfer that is late is cancelled
    #[arg(long, value_name = "POLICY", default_value = "promise", requires = "deadline",
        hide_default_value = true, value_parser = parse_policy)]
    deadline_policy: DeadlinePolicy,
    /// The bytes that are expected, as in 2T, for the forecast of a deadline
    #[arg(long, value_name = "BYTES", requires = "deadline", value_parser = parse_bytes)]
    expect: Option<u64>,
    /// Start before the transfers of all users. For operators
    #[arg(long)]
    pub(crate) urgent: bool,
    /// End an attempt after so many seconds without any progress, 10 to 86400, and retry it later.
    /// Default: 600
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(10..=86_400))]
    pub(crate) progress_timeout: Option<u32>,
    /// Give the transfer up after N attempts in a row that move nothing. Default: retry until it is
    /// cancelled
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) attempts: Option<u32>,
}

impl TurnArgs {
    /// Returns the deadline, if one was given.
    pub(crate) fn deadline(&self) -> Option<Deadline> {
        self.deadline.map(|at| Deadline {
            at: Timestamp::of_seconds(at),
            policy: self.deadline_policy,
            bytes: self.expect,
        })
    }
}

/// Reads the policy of a deadline.
pub(crate) fn parse_policy(text: &str) -> Result<DeadlinePolicy, String> {
    let all = [DeadlinePolicy::Promise, DeadlinePolicy::BestEffort, DeadlinePolicy::Cancel];
    let policy = all.into_iter().find(|policy| policy.as_str() == text);
    policy.ok_or_else(|| "promise, best_effort or cancel".to_owned())
}

/// Reads a number of bytes.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|error| error.to_string())
}

/// Change of when a transfer starts, and of its label.
#[derive(clap::Args, Clone, Debug)]
#[group(required = true, multiple = true)]
pub(crate) struct TurnChange {
    /// A note that `list` and `show` print; an empty one removes it
    #[arg(long, value_name = "TEXT", value_parser = parse_label)]
    label: Option<String>,
    /// Priority among the waiting transfers of the same user, 0 to 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=100))]
    priority: Option<u8>,
    /// Do not start before this time: 2026-11-26T20:00:00Z, or after 2h, 1d; `now` removes it
    #[arg(long, value_name = "TIME", value_parser = parse_new_start)]
    not_before: Option<NewStart>,
}

/// Another start time; `None` for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NewStart(Option<Timestamp>);

impl TurnChange {
    /// Returns the request that makes the change.
    pub(crate) fn patch(&self) -> TransferPatch {
        TransferPatch {
            label: self.label.clone().map(|label| Some(label).filter(|label| !label.is_empty())),
            priority: self.priority.map(Some),
            not_before: self.not_before.map(|start| start.0),
            limits: None,
        }
    }
}

fn parse_new_start(text: &str) -> Result<NewStart, String> {
    if text == "now" {
        return Ok(NewStart(None));
    }
    parse_start(text).map(|seconds| NewStart(Some(Timestamp::of_seconds(seconds))))
}

/// Most characters of a label.
const LABEL_MAX: usize = 200;

fn parse_label(text: &str) -> Result<String, String> {
    if text.chars().count() > LABEL_MAX || text.chars().any(char::is_control) {
        return Err(format!("a label has up to {LABEL_MAX} characters, and no line breaks"));
    }
    Ok(text.to_owned())
}

/// Returns the seconds since 1970 of a time, or of now and a delay.
pub(crate) fn parse_start(text: &str) -> Result<u64, String> {
    if let Some(delay) = parse_age(text) {
        return Ok(now_seconds().saturating_add(delay));
    }
    let wrong = "neither a delay (2h, 1h30m) nor a time (2026-11-26T20:00:00Z)";
    text.parse().map(Timestamp::seconds).map_err(|_| wrong.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a start time is read as a time or as a delay, and nothing else.
    #[test]
    fn start_times_are_read() {
        assert_eq!(parse_start("2026-11-26T20:00:00Z"), Ok(1_795_723_200));
        let soon = parse_start("1h").unwrap();
        assert!((3590..3700).contains(&(soon - now_seconds())), "{soon}");
        for bad in ["", "tomorrow", "20:00", "1900-01-01T00:00:00Z"] {
            assert!(parse_start(bad).is_err(), "`{bad}`");
        }
    }
}
