//! Certificates that end.

use penstock_api::operate::{Finding, Level};
use penstock_sys::now_seconds;

/// Seconds of a day.
pub(super) const DAY: u64 = 24 * 3600;

/// What is to be said of something that ends at a time, in seconds since 1970.
pub(crate) fn expiry(code: &str, what: &str, expires: u64) -> Finding {
    let days = expires.saturating_sub(now_seconds()) / DAY;
    let why = "other sites refuse the lanes and requests of a peer whose certificate has expired";
    let action = "its daemon issues another one by itself when it starts, and every hour when a \
                  third of the time is left: start it; if it runs, its log says what keeps it";
    match days {
        0 => {
            Finding::new(Level::Bad, code, format!("{what} has expired or does today"), why, action)
        }
        1..30 => Finding::new(
            Level::Warning,
            code,
            format!("{what} expires in {days} days"),
            why,
            action,
        ),
        _ => Finding::ok(code, format!("{what} is good for {days} more days")),
    }
}
