//! Certificates that end.

use penstock_api::operate::{Finding, Level};
use penstock_sys::now_seconds;

/// Seconds of a day.
pub(super) const DAY: u64 = 24 * 3600;

/// Returns the finding about a certificate that expires at a time, in seconds since 1970.
pub(crate) fn expiry(code: &str, what: &str, expires: u64) -> Finding {
    let days = expires.saturating_sub(now_seconds()) / DAY;
    let why = "other sites refuse the lanes and requests of a peer whose certificate has expired";
    let action = "start its daemon, which renews the certificate at its start and hourly in the \
                  last third of its life; if it runs, check its log";
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
