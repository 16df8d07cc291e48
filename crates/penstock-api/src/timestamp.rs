//! Times as the API writes them: UTC, with milliseconds (RFC 3339).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};

/// A time, in milliseconds since 1970. In JSON it is a text such as `2026-11-26T07:08:09.000Z`; any
/// offset from UTC is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

/// Last millisecond of the year 9999, the last that RFC 3339 can write.
const MS_MAX: u64 = 253_402_300_799_999;

/// The reason why a text is no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a time is written as `2026-11-26T07:08:09Z` (RFC 3339), from 1970 on")]
pub struct ParseTimestampError;

impl Timestamp {
    /// Returns the time of milliseconds since 1970, at most the end of the year 9999.
    pub fn of_ms(ms: u64) -> Self {
        Self(ms.min(MS_MAX))
    }

    /// Returns the time of seconds since 1970, at most the end of the year 9999.
    pub fn of_seconds(seconds: u64) -> Self {
        Self::of_ms(seconds.saturating_mul(1000))
    }

    /// Returns the milliseconds since 1970.
    pub fn ms(self) -> u64 {
        self.0
    }

    /// Returns the whole seconds since 1970.
    pub fn seconds(self) -> u64 {
        self.0 / 1000
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The bound keeps it within the range of the type.
        let seconds = i64::try_from(self.seconds()).unwrap_or_default();
        let time =
            OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let (year, month, day) = time.to_calendar_date();
        let (hour, minute, second) = time.to_hms();
        let (month, ms) = (u8::from(month), self.0 % 1000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let time = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| ParseTimestampError)?;
        let time = time.to_offset(UtcOffset::UTC);
        let ms = time.unix_timestamp_nanos().div_euclid(1_000_000);
        u64::try_from(ms).map(Self::of_ms).map_err(|_| ParseTimestampError)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: times are those of the calendar, and come back as they were.
    #[test]
    fn a_time_comes_back_as_it_was() {
        let texts = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_795_342_649_123, "2026-11-22T10:17:29.123Z"),
            (MS_MAX, "9999-12-31T23:59:59.999Z"),
        ];
        for (ms, text) in texts {
            assert_eq!(Timestamp::of_ms(ms).to_string(), text);
            assert_eq!(text.parse(), Ok(Timestamp::of_ms(ms)));
            let json = serde_json::to_string(&Timestamp::of_ms(ms)).unwrap();
            assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap().ms(), ms);
        }
        assert_eq!(Timestamp::of_ms(u64::MAX), Timestamp::of_ms(MS_MAX));
    }

    /// Promise: a client may write its own offset and fewer digits; what is no time is refused.
    #[test]
    fn any_offset_is_read() {
        let utc: Timestamp = "2026-11-26T20:00:00Z".parse().unwrap();
        assert_eq!("2026-11-26T21:00:00+01:00".parse(), Ok(utc));
        assert_eq!("2026-11-26t20:00:00.0001z".parse(), Ok(utc));
        for bad in ["", "1795723200", "2026-11-26", "2026-11-26T20:00:00", "1969-12-31T23:59:59Z"] {
            assert_eq!(bad.parse::<Timestamp>(), Err(ParseTimestampError), "`{bad}`");
        }
    }
}
