//! Quantities with their units in the type.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::wire::{DecodeError, Reader, Writer};

/// 1 KiB in bytes.
pub const KIB: u64 = 1024;
/// 1 MiB in bytes.
pub const MIB: u64 = 1024 * KIB;
/// 1 GiB in bytes.
pub const GIB: u64 = 1024 * MIB;
/// 1 TiB in bytes.
pub const TIB: u64 = 1024 * GIB;

/// A point in time as file systems store it: seconds since 1970, which may be negative, and
/// nanoseconds of that second (0 to 999 999 999).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct FileTime {
    /// Whole seconds since the Unix epoch.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanoseconds: u32,
}

impl FileTime {
    pub(crate) fn encode(self, out: &mut Writer) {
        out.i64(self.seconds);
        out.u32(self.nanoseconds);
    }

    pub(crate) fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let time = Self { seconds: input.i64("seconds")?, nanoseconds: input.u32("nanoseconds")? };
        if time.nanoseconds >= 1_000_000_000 {
            return Err(DecodeError::Invalid("nanoseconds"));
        }
        Ok(time)
    }
}

/// A monotonic point in time, in nanoseconds since a moment that only the process (or the
/// simulated world) knows.
///
/// The machines of `penstock-engine` take it as an argument and never read a clock. The edges fill
/// it from `CLOCK_BOOTTIME`, which continues while a host sleeps (hard case B4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// Returns the instant `after` later; saturates at the end of time (584 years).
    pub fn plus(self, after: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Returns the time since `earlier`; zero if it is in the future.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Returns a number of things in words, as `1 file` or `2 files`; `thing` is one of them.
pub fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// Writes a byte count for people: `0 B`, `512 B`, `1.5 KiB`, `4.0 GiB`.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < KIB {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / KIB as f64;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= KIB as f64;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Writes a rate for people, decimal as links are sold: `9.41 Gbit/s`.
pub fn format_rate(bits_per_second: f64) -> String {
    const UNITS: [&str; 5] = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];
    // Adding zero turns a negative zero into zero.
    let mut value = bits_per_second + 0.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.2} {}", UNITS[unit])
}

/// Error: a size that a person typed was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a size: give a number and optionally B, K, M, G, T or P (KiB, MiB, … binary; \
     KB, MB, … decimal)"
)]
pub struct ParseSizeError(String);

/// Reads a size as a person types it: `4096`, `64K`, `1.5GiB`, `2GB`.
///
/// `K`, `M`, `G`, `T`, `P` and `KiB` … are powers of 1024; `KB`, `MB` … are powers of 1000.
pub fn parse_size(text: &str) -> Result<u64, ParseSizeError> {
    let error = || ParseSizeError(text.to_owned());
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => KIB,
        "m" | "mib" => MIB,
        "g" | "gib" => GIB,
        "t" | "tib" => TIB,
        "p" | "pib" => 1024 * TIB,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "pb" => 1_000_000_000_000_000,
        _ => return Err(error()),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(error);
    }
    let value: f64 = number.parse().map_err(|_| error())?;
    let bytes = value * factor as f64;
    if !(0.0..9.0e18).contains(&bytes) {
        return Err(error());
    }
    Ok(bytes.round() as u64)
}

/// Error: a rate that a person typed was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a rate: give a number and its unit, bits as in 500Mbit/s (kbit/s, Gbit/s) or \
     bytes as in 60MB/s (kB/s, GB/s; binary KiB/s, MiB/s, GiB/s)"
)]
pub struct ParseRateError(String);

/// Reads a rate as a person types it, in bits per second: `500Mbit/s`, `60MB/s`, `1.5 Gbit/s`.
///
/// `bit` and `bps` are bits, `B` is bytes; `/s` may be left out. A number alone is refused, and so
/// is `b`, which people write for both. `k`, `M`, `G`, `T` are decimal, `Ki`, `Mi`, `Gi` binary.
pub fn parse_rate(text: &str) -> Result<u64, ParseRateError> {
    let error = || ParseRateError(text.to_owned());
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
    let (number, unit) = trimmed.split_at(split);
    let unit = unit.trim_start();
    let unit = unit.strip_suffix("/s").unwrap_or(unit);
    let (scale, bits) = match (unit.strip_suffix("bit"), unit.strip_suffix("bps")) {
        (Some(scale), _) | (None, Some(scale)) => (scale, 1.0),
        (None, None) => (unit.strip_suffix('B').ok_or_else(error)?, 8.0),
    };
    let factor = match scale {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => KIB as f64,
        "Mi" => MIB as f64,
        "Gi" => GIB as f64,
        _ => return Err(error()),
    };
    let value: f64 = number.parse().map_err(|_| error())?;
    let rate = value * factor * bits;
    // Up to 10^15 bit/s every whole number of bits is a floating-point number.
    if !(0.0..1e15).contains(&rate) {
        return Err(error());
    }
    Ok(rate.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the number one has the singular form.
    #[test]
    fn one_thing_is_no_plural() {
        let texts = [0, 1, 2].map(|count| counted(count, "file"));
        assert_eq!(texts, ["0 files", "1 file", "2 files"]);
    }

    /// Promise: a typed size has the meaning that the documentation states.
    #[test]
    fn sizes_are_read_in_binary_and_decimal_units() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64K"), Ok(65_536));
        assert_eq!(parse_size("1.5GiB"), Ok(1_610_612_736));
        assert_eq!(parse_size("2GB"), Ok(2_000_000_000));
        for bad in ["", "K", "12Q", "-1", "1e400", "99999999999P"] {
            assert!(parse_size(bad).is_err(), "`{bad}` must be refused");
        }
    }

    /// Promise: a limit is read by its unit. A limit without a unit, or with an ambiguous one, is
    /// refused, and the message names units.
    #[test]
    fn rates_are_read_with_their_unit_only() {
        assert_eq!(parse_rate("500Mbit/s"), Ok(500_000_000));
        assert_eq!(parse_rate("60MB/s"), Ok(480_000_000));
        assert_eq!(parse_rate("1.5 Gbit"), Ok(1_500_000_000));
        assert_eq!(parse_rate("10MiB/s"), Ok(83_886_080));
        assert_eq!(parse_rate("800kbps"), Ok(800_000));
        for bad in ["", "60", "60M", "60Mb/s", "Mbit/s", "-1Mbit/s", "1e3MB/s", "9999999TB/s"] {
            let error = parse_rate(bad).expect_err(bad);
            assert!(error.to_string().contains("500Mbit/s"), "{error}");
        }
    }

    /// Promise: sizes and rates read well at the borders between units.
    #[test]
    fn amounts_are_written_for_people() {
        assert_eq!(format_bytes(1023), "1023 B");
        assert_eq!(format_bytes(4 * GIB), "4.0 GiB");
        assert_eq!(format_rate(9.41e9), "9.41 Gbit/s");
        assert_eq!(format_rate(0.0), "0.00 bit/s");
        assert_eq!(format_rate(-0.0), "0.00 bit/s");
    }
}
