//! Reading of fields for people, from any writer: the result is short and in one line.

use std::net::SocketAddr;

use penstock_proto::id::Name;
use penstock_proto::text;
use penstock_proto::units::FileTime;
use serde::{Deserialize, Deserializer};
use time::OffsetDateTime;

/// Reads a field for people, for `#[serde(deserialize_with)]`; see [`text::field`].
///
/// # Errors
/// It is no string.
pub fn field<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(text::field(&String::deserialize(from)?))
}

/// Reads a field for people that may be absent.
pub(crate) fn optional_field<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.map(|said| text::field(&said)))
}

/// Returns a time in UTC as RFC 3339 writes it, such as `2026-11-22T10:17:29.5Z`; `None` beyond the
/// years 1 to 9999.
pub fn rfc3339(time: FileTime) -> Option<String> {
    let whole = OffsetDateTime::from_unix_timestamp(time.seconds).ok()?;
    let (year, month, day) = whole.to_calendar_date();
    let (hour, minute, second) = whole.to_hms();
    let month = u8::from(month);
    let nanoseconds = format!(".{:09}", time.nanoseconds);
    let fraction = nanoseconds.trim_end_matches('0').trim_end_matches('.');
    let text =
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z");
    (1..=9999).contains(&year).then_some(text)
}

/// Reads pairs of an address and a field for people.
pub(crate) fn by_address<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Vec<(SocketAddr, String)>, D::Error> {
    let pairs: Vec<(SocketAddr, String)> = Vec::deserialize(from)?;
    Ok(pairs.into_iter().map(|(address, said)| (address, text::field(&said))).collect())
}

/// Reads pairs of a name and a field for people.
pub(crate) fn by_name<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(Name, String)>, D::Error> {
    let pairs: Vec<(Name, String)> = Vec::deserialize(from)?;
    Ok(pairs.into_iter().map(|(name, said)| (name, text::field(&said))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: times are those of the calendar, to the nanosecond.
    #[test]
    fn times_are_written_as_rfc_3339_says() {
        let of = |seconds, nanoseconds| rfc3339(FileTime { seconds, nanoseconds });
        assert_eq!(of(0, 0).unwrap(), "1970-01-01T00:00:00Z");
        assert_eq!(of(-1, 999_999_999).unwrap(), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(of(951_782_400, 500_000_000).unwrap(), "2000-02-29T00:00:00.5Z");
        assert_eq!((of(i64::MAX, 0), of(i64::MIN, 0), of(-62_135_596_801, 0)), (None, None, None));
    }
}
