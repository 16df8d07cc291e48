//! The end of a soak, and times as people type them.

use std::fmt;
use std::str::FromStr;

use penstock_proto::units::{counted, format_bytes, parse_size};
use serde::{Deserialize, Serialize};

use crate::output::duration;

/// The amount of work after which a soak ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Until {
    /// Bytes of rounds that were good.
    Bytes(u64),
    /// Seconds of work, over all starts of the command.
    Seconds(u64),
    /// Complete rounds.
    Rounds(u64),
}

/// Work that a soak has done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Worked {
    /// Bytes of rounds that were good.
    pub(super) bytes: u64,
    /// Seconds.
    pub(super) seconds: f64,
    /// Complete rounds.
    pub(super) rounds: u64,
}

impl Until {
    /// Returns whether so much work is enough.
    pub(super) fn is_reached(self, worked: &Worked) -> bool {
        match self {
            Self::Bytes(bytes) => worked.bytes >= bytes,
            Self::Seconds(seconds) => worked.seconds >= seconds as f64,
            Self::Rounds(rounds) => worked.rounds >= rounds,
        }
    }
}

impl FromStr for Until {
    type Err = String;

    /// Reads `1TB`, `2h` or `10-rounds`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` is no end: give a volume (1TB), a time (90s, 30min, 2h) or 10-rounds")
        };
        // Sizes elsewhere may be bare numbers of bytes, and `m` is a mebibyte there.
        if text.ends_with('m') {
            return Err(format!("`{text}` may be minutes or mebibytes: give `min` or `MiB`"));
        }
        if !text.is_empty() && text.chars().all(|letter| letter.is_ascii_digit()) {
            return Err(format!("`{text}` has no unit: give {text}-rounds, {text}s or {text}MB"));
        }
        let rounds = text.strip_suffix("-rounds").or_else(|| text.strip_suffix("-round"));
        let until = match (rounds, seconds(text)) {
            (Some(number), _) => Self::Rounds(number.parse().map_err(|_| wrong())?),
            (None, Ok(seconds)) => Self::Seconds(seconds),
            (None, Err(_)) => Self::Bytes(parse_size(text).map_err(|_| wrong())?),
        };
        let (Self::Bytes(amount) | Self::Seconds(amount) | Self::Rounds(amount)) = until;
        if amount == 0 { Err(format!("`{text}` is reached at once")) } else { Ok(until) }
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&match self {
            Self::Bytes(bytes) => format_bytes(*bytes),
            Self::Seconds(seconds) => duration::exact(*seconds),
            Self::Rounds(rounds) => counted(*rounds, "round"),
        })
    }
}

/// Reads a time: `90s`, `30min`, `2h` or `1d`.
///
/// # Errors
/// The text is no time, for people.
pub(super) fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no time: give 90s, 30min, 2h or 1d");
    let units = [("s", 1), ("min", 60), ("h", 3600), ("d", 24 * 3600)];
    let split = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(*factor).ok_or_else(wrong)
}

/// Reads the mean time between faults.
///
/// # Errors
/// The text is no time, or none at all.
pub(super) fn interval(text: &str) -> Result<u64, String> {
    match seconds(text) {
        Ok(0) => Err("faults need some time between them: give 1s or more".to_owned()),
        read => read,
    }
}

/// Longest time without progress that is accepted, in seconds.
const STALL_MAX: u64 = 365 * 24 * 3600;

/// Reads the longest time without progress.
///
/// # Errors
/// The text is no time, none at all, or more than a year.
pub(super) fn stall(text: &str) -> Result<u64, String> {
    match seconds(text) {
        Ok(0) => Err("every transfer needs some time to begin: give 1s or more".to_owned()),
        Ok(read) if read > STALL_MAX => Err(format!("`{text}` is too long: give 365d or less")),
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: volumes, times and numbers of rounds are read as they are meant, and an end that
    /// would never or at once be reached is refused.
    #[test]
    fn ends_are_read() {
        let read = |text: &str| text.parse::<Until>();
        assert_eq!(read("1TB"), Ok(Until::Bytes(1_000_000_000_000)));
        assert_eq!(read("2GiB"), Ok(Until::Bytes(2 << 30)));
        assert_eq!(read("2h"), Ok(Until::Seconds(7200)));
        assert_eq!(read("30min"), Ok(Until::Seconds(1800)));
        assert_eq!(read("1-round"), Ok(Until::Rounds(1)));
        assert_eq!(read("12-rounds"), Ok(Until::Rounds(12)));
        for wrong in ["", "0s", "0B", "0-rounds", "h", "-rounds", "x-rounds", "1 day", "-1s"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        for bare in ["0", "10"] {
            assert!(read(bare).unwrap_err().contains("no unit"), "{bare}");
        }
        assert!(read("2m").unwrap_err().contains("`min` or `MiB`"));
        assert_eq!((interval("1s"), interval("0s").is_err()), (Ok(1), true));
        assert_eq!((stall("15min"), stall("0s").is_err()), (Ok(900), true));
        assert!(stall("366d").is_err());
        let worked = Worked { bytes: 5, seconds: 1.5, rounds: 1 };
        assert!(Until::Bytes(5).is_reached(&worked) && !Until::Bytes(6).is_reached(&worked));
        assert!(Until::Seconds(1).is_reached(&worked) && !Until::Rounds(2).is_reached(&worked));
    }
}
