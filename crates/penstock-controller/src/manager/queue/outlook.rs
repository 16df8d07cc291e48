//! The outlook of a deadline while its transfer waits and runs.

use penstock_api::deadline::{Deadline, DeadlinePolicy, Promise};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_engine::queue::UnixMs;
use penstock_proto::id::TransferId;

/// Time before a deadline from which a transfer without a forecast is at risk.
const UNKNOWN_MS: u64 = 10 * 60 * 1000;
/// Part of the time that is left by which a forecast has to be better before a deadline counts as
/// kept again, so that the outlook does not waver.
const BETTER: u64 = 20;

/// Returns the outlook of a deadline. `before` is the last one, and `forecast` the expected end.
pub(super) fn outlook(
    deadline: &Deadline,
    before: Promise,
    forecast: Option<UnixMs>,
    now: UnixMs,
) -> Promise {
    let at = deadline.at.ms();
    let left = at.saturating_sub(now);
    match (before, forecast) {
        _ if left == 0 => Promise::Missed,
        (Promise::AtRisk, Some(end)) if end > at - left / BETTER => Promise::AtRisk,
        (_, Some(end)) if end > at => Promise::AtRisk,
        (_, None) if left < UNKNOWN_MS => Promise::AtRisk,
        _ => Promise::Kept,
    }
}

/// Returns the notice for users about an outlook that has become worse; `None` if it has not.
pub(super) fn news(
    id: TransferId,
    deadline: &Deadline,
    (before, now): (Promise, Promise),
    forecast: Option<UnixMs>,
) -> Option<Problem> {
    let short = id.short();
    match (before, now) {
        (Promise::Kept, Promise::AtRisk) => {
            let title = format!("the deadline of transfer {short} is at risk");
            let problem = Problem::new(ProblemCode::DeadlineAtRisk, title);
            let late =
                forecast.and_then(|end| end.checked_sub(deadline.at.ms())).map(|late| late / 1000);
            Some(match late {
                Some(late) => problem.because(format!("by forecast it ends {late} s late")),
                None => problem.because("there is no forecast of its end"),
            })
        }
        (Promise::Kept | Promise::AtRisk, Promise::Missed) => {
            let title = format!("the deadline of transfer {short} is over");
            let problem = Problem::new(ProblemCode::DeadlineMissed, title);
            Some(match deadline.policy {
                DeadlinePolicy::Cancel => problem.because("it is cancelled, as its user wants"),
                DeadlinePolicy::Promise | DeadlinePolicy::BestEffort => {
                    problem.because("it continues")
                }
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use penstock_api::timestamp::Timestamp;

    use super::*;

    /// Promise Q3: a deadline is at risk as soon as the forecast is late, or ten minutes before it
    /// without a forecast. A wavering forecast is reported once.
    #[test]
    fn q3_what_is_late_by_forecast_is_at_risk() {
        let deadline = Deadline {
            at: Timestamp::of_seconds(10_000),
            policy: DeadlinePolicy::Promise,
            bytes: None,
        };
        let minutes = |left: u64| 10_000_000 - left * 60_000;
        let of = |before, forecast, now| outlook(&deadline, before, forecast, now);
        assert_eq!(of(Promise::Kept, Some(10_000_000), minutes(60)), Promise::Kept);
        assert_eq!(of(Promise::Kept, Some(10_000_001), minutes(60)), Promise::AtRisk);
        assert_eq!(of(Promise::AtRisk, Some(9_999_000), minutes(60)), Promise::AtRisk);
        assert_eq!(of(Promise::AtRisk, Some(minutes(4)), minutes(60)), Promise::Kept);
        assert_eq!(of(Promise::Kept, None, minutes(11)), Promise::Kept);
        assert_eq!(of(Promise::Kept, None, minutes(9)), Promise::AtRisk);
        assert_eq!(of(Promise::AtRisk, Some(1), minutes(0)), Promise::Missed);
        let id = TransferId([1; 16]);
        let hears = |pair| news(id, &deadline, pair, Some(10_060_000)).map(|it| it.code);
        assert_eq!(hears((Promise::Kept, Promise::AtRisk)), Some(ProblemCode::DeadlineAtRisk));
        assert_eq!(hears((Promise::AtRisk, Promise::AtRisk)), None);
        assert_eq!(hears((Promise::AtRisk, Promise::Kept)), None);
        assert_eq!(hears((Promise::Kept, Promise::Missed)), Some(ProblemCode::DeadlineMissed));
    }
}
