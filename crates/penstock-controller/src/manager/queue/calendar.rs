//! Times of the week by the wall clock of a zone.
//!
//! A window begins and ends when a wall clock in its zone shows these times. Where the clock is put
//! forward over a time, the window turns at the moment when it is put forward. Where the clock
//! shows a time twice, a window begins at the first and ends at the second one. The zones are those
//! of the IANA database: of the host, or those that the program brings along.

use jiff::civil::{Date, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan as _};
use penstock_api::queue::{Day, QueueWindowRequest, TimeOfDay};
use penstock_engine::queue::UnixMs;

/// Days after today that a window is looked for.
const DAYS_AHEAD: i64 = 8;

/// The times of a window.
#[derive(Clone, Debug)]
pub(super) struct WeekTimes {
    days: Vec<Day>,
    from: TimeOfDay,
    to: TimeOfDay,
    zone: TimeZone,
}

/// The state of a window at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// True if the time lies within the window.
    pub(super) is_in: bool,
    /// The next begin or end; `None` if there is none within eight days.
    pub(super) next: Option<UnixMs>,
}

impl WeekTimes {
    /// Returns the times of a window.
    ///
    /// # Errors
    /// The reason why its zone is not known, for people.
    pub(super) fn of(window: &QueueWindowRequest) -> Result<Self, String> {
        let zone = TimeZone::get(&window.zone).map_err(|error| error.to_string())?;
        Ok(Self { days: window.days.clone(), from: window.from, to: window.to, zone })
    }

    /// Returns the state of the window at a time.
    pub(super) fn at(&self, now: UnixMs) -> Turn {
        let outside = Turn { is_in: false, next: None };
        let stamp = i64::try_from(now).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let Some(stamp) = stamp else { return outside };
        let today = stamp.to_zoned_datetime(self.zone.clone()).date();
        let mut spans: Vec<(UnixMs, UnixMs)> = Vec::new();
        for ahead in -2..=DAYS_AHEAD {
            let Some((from, to)) = self.span(today, ahead) else { continue };
            match spans.last_mut() {
                // A window that begins as the one before ends does not turn between.
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => spans.push((from, to)),
            }
        }
        let is_in = spans.iter().any(|(from, to)| (*from..*to).contains(&now));
        let turns = spans.iter().flat_map(|(from, to)| [*from, *to]);
        Turn { is_in, next: turns.filter(|turn| *turn > now).min() }
    }

    /// Returns begin and end of the window that begins so many days after a date, if one does.
    fn span(&self, today: Date, ahead: i64) -> Option<(UnixMs, UnixMs)> {
        let date = today.checked_add(ahead.days()).ok()?;
        if !self.days.contains(&day_of(date.weekday())) {
            return None;
        }
        let end = if self.to > self.from { date } else { date.tomorrow().ok()? };
        let from = self.moment(date, self.from, true)?;
        let to = self.moment(end, self.to, false)?;
        (to > from).then_some((from, to))
    }

    /// Returns the moment at which the clock shows a time, the first or the last one.
    fn moment(&self, date: Date, time: TimeOfDay, is_first: bool) -> Option<UnixMs> {
        let civil = date.at(i8::try_from(time.hour).ok()?, i8::try_from(time.minute).ok()?, 0, 0);
        let ambiguous = self.zone.to_ambiguous_zoned_datetime(civil);
        let stamp = match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(civil).ok()?,
            AmbiguousOffset::Fold { before, after } => {
                let offset = if is_first { before } else { after };
                offset.to_timestamp(civil).ok()?
            }
            // The clock jumps over it: the moment of the jump.
            AmbiguousOffset::Gap { .. } => {
                let later = ambiguous.later().ok()?.timestamp();
                // The jump may be at that very moment: the search is for those before a time.
                let jump = self.zone.preceding(later.checked_add(1.second()).ok()?).next();
                jump.map_or(later, |jump| jump.timestamp())
            }
        };
        u64::try_from(stamp.as_millisecond()).ok()
    }
}

fn day_of(day: Weekday) -> Day {
    match day {
        Weekday::Monday => Day::Mon,
        Weekday::Tuesday => Day::Tue,
        Weekday::Wednesday => Day::Wed,
        Weekday::Thursday => Day::Thu,
        Weekday::Friday => Day::Fri,
        Weekday::Saturday => Day::Sat,
        Weekday::Sunday => Day::Sun,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> UnixMs {
        text.parse::<Timestamp>().unwrap().as_millisecond() as u64
    }

    fn times(days: &[Day], from: &str, to: &str, zone: &str) -> WeekTimes {
        WeekTimes::of(&QueueWindowRequest {
            days: days.to_vec(),
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            zone: zone.to_owned(),
            pair: None,
            store: None,
            user: None,
            running: Some(0),
            rate_bits_per_s: None,
        })
        .unwrap()
    }

    /// Returns the turns of a window from one time to another, and whether it is in force at the
    /// first.
    fn turns(times: &WeekTimes, from: &str, to: &str) -> (bool, Vec<String>) {
        let (mut now, end) = (ms(from), ms(to));
        let began = times.at(now).is_in;
        let mut found = Vec::new();
        while let Turn { next: Some(next), is_in } = times.at(now)
            && next < end
        {
            assert_ne!(times.at(next).is_in, is_in, "a turn turns");
            found.push(Timestamp::from_millisecond(next as i64).unwrap().to_string());
            now = next;
        }
        (began, found)
    }

    /// Promise Q5: a window keeps to the wall clock over both changes of the clock.
    #[test]
    fn e9_windows_keep_to_the_wall_clock_over_both_changes() {
        let office = times(&Day::ALL, "08:00", "18:00", "Europe/Zurich");
        let (began, spring) = turns(&office, "2026-03-28T00:00:00Z", "2026-03-30T00:00:00Z");
        assert!(!began);
        assert_eq!(
            spring,
            [
                "2026-03-28T07:00:00Z",
                "2026-03-28T17:00:00Z",
                "2026-03-29T06:00:00Z",
                "2026-03-29T16:00:00Z"
            ]
        );
        let (_, autumn) = turns(&office, "2026-10-24T00:00:00Z", "2026-10-26T00:00:00Z");
        assert_eq!(
            autumn,
            [
                "2026-10-24T06:00:00Z",
                "2026-10-24T16:00:00Z",
                "2026-10-25T07:00:00Z",
                "2026-10-25T17:00:00Z"
            ]
        );
    }

    /// Promise Q5: a window whose begin or end the clock jumps over, or shows twice, begins early
    /// and ends late, and is never lost.
    #[test]
    fn e9_times_that_are_skipped_or_come_twice_are_kept() {
        // On 29 March 2026 the clock jumps from 02:00 to 03:00, at 01:00 UTC.
        let skipped = times(&[Day::Sun], "02:30", "04:00", "Europe/Zurich");
        let (_, spring) = turns(&skipped, "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z");
        assert_eq!(spring, ["2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"]);
        let jump = times(&[Day::Sun], "02:00", "04:00", "Europe/Zurich");
        let (_, at_jump) = turns(&jump, "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z");
        assert_eq!(at_jump, spring);
        let ends = times(&[Day::Sun], "01:00", "02:30", "Europe/Zurich");
        let (_, spring) = turns(&ends, "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z");
        assert_eq!(spring, ["2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"]);
        // On 25 October 2026 the clock shows 02:00 to 03:00 twice, from 00:00 UTC on.
        let twice = times(&[Day::Sun], "02:15", "02:45", "Europe/Zurich");
        let (_, autumn) = turns(&twice, "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z");
        assert_eq!(autumn, ["2026-10-25T00:15:00Z", "2026-10-25T01:45:00Z"]);
    }

    /// Promise Q5: a window may last over midnight, days without a break are one window, and one
    /// that always is in force does not turn.
    #[test]
    fn q5_windows_last_over_midnight() {
        let nights = times(&[Day::Fri], "22:00", "06:00", "America/New_York");
        let (began, found) = turns(&nights, "2026-07-04T03:00:00Z", "2026-07-11T12:00:00Z");
        assert!(began, "it is Friday night");
        assert_eq!(found, ["2026-07-04T10:00:00Z", "2026-07-11T02:00:00Z", "2026-07-11T10:00:00Z"]);
        let weekend = times(&[Day::Sat, Day::Sun], "00:00", "00:00", "UTC");
        let (_, found) = turns(&weekend, "2026-07-03T00:00:00Z", "2026-07-10T00:00:00Z");
        assert_eq!(found, ["2026-07-04T00:00:00Z", "2026-07-06T00:00:00Z"]);
        let always = times(&Day::ALL, "00:00", "00:00", "UTC").at(ms("2026-07-04T03:00:00Z"));
        assert!(always.is_in);
        assert!(always.next.is_some_and(|next| next > ms("2026-07-10T00:00:00Z")));
    }

    /// Promise: a zone that does not exist is refused by its name.
    #[test]
    fn unknown_zones_are_refused() {
        let window = QueueWindowRequest {
            zone: "Europe/Atlantis".to_owned(),
            ..QueueWindowRequest {
                days: Day::ALL.to_vec(),
                from: "00:00".parse().unwrap(),
                to: "00:00".parse().unwrap(),
                zone: String::new(),
                pair: None,
                store: None,
                user: None,
                running: None,
                rate_bits_per_s: None,
            }
        };
        let error = WeekTimes::of(&window).unwrap_err();
        assert!(error.contains("Europe/Atlantis"), "{error}");
    }
}
