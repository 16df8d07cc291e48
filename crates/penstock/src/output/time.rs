//! Times for people.

/// Returns the UTC time of milliseconds since 1970, as `2026-11-22 10:17:29.123`.
pub(crate) fn utc(ms: u64) -> String {
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = civil(days);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, milli) = (rest / 1000 % 60, rest % 1000);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{milli:03}")
}

/// Returns the date of a day since 1970 in the Gregorian calendar: the 400 years that begin on
/// 1 March 2000 have 146,097 days; years begin in March here, so that leap days are last.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

/// Returns the UTC time of milliseconds since 1970, to the second, as `2026-11-22 10:17:29`.
pub(crate) fn second(ms: u64) -> String {
    let text = utc(ms);
    text.get(..19).unwrap_or(&text).to_owned()
}

/// Returns the UTC time of seconds since 1970, to the minute, as `2026-11-22 10:17`.
pub(crate) fn minute(seconds: u64) -> String {
    let text = utc(seconds.saturating_mul(1000));
    text.get(..16).unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: times are those of the calendar, leap days and ends of years included.
    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00.000");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00:00.000");
        assert_eq!(utc(1_704_067_199_999), "2023-12-31 23:59:59.999");
        assert_eq!(utc(1_795_342_649_123), "2026-11-22 10:17:29.123");
    }
}
