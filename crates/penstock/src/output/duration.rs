//! Times in words.

/// Returns a time to the second, as `5 s`, `3:20 min` or `2:05 h`.
pub(crate) fn exact(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds / 60 % 60),
    }
}

/// Returns a time that was estimated, with no more digits than an estimate has.
pub(crate) fn estimated(seconds: f64) -> String {
    match seconds {
        ..1e-3 => format!("{:.0} µs", seconds * 1e6),
        ..0.1 => format!("{:.1} ms", seconds * 1e3),
        ..9.5 => format!("{seconds:.1} s"),
        ..119.5 => format!("{seconds:.0} s"),
        ..7200.0 => format!("{:.0} min", seconds / 60.0),
        ..172_800.0 => format!("{:.1} h", seconds / 3600.0),
        _ => format!("{:.1} days", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a time has the unit that suits it, and its digits fit it.
    #[test]
    fn times_have_units() {
        assert_eq!([exact(59), exact(200), exact(7500)], ["59 s", "3:20 min", "2:05 h"]);
        for (seconds, text) in [
            (4.2e-5, "42 µs"),
            (0.0042, "4.2 ms"),
            (0.62, "0.6 s"),
            (9.6, "10 s"),
            (119.6, "2 min"),
            (7199.0, "120 min"),
            (9000.0, "2.5 h"),
            (4e5, "4.6 days"),
        ] {
            assert_eq!(estimated(seconds), text);
        }
    }
}
