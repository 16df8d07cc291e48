//! The state of the host's time of day.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the largest error of the time of day, as the program that keeps it has reported to the
/// kernel; `None` if no program keeps it.
///
/// # Errors
/// Those of adjtimex(2); a sandbox may forbid it.
pub fn clock_error() -> io::Result<Option<Duration>> {
    let mut state = std::mem::MaybeUninit::<libc::timex>::zeroed();
    // SAFETY: all bits zero is a `timex` whose `modes` ask for nothing to be changed; adjtimex(2)
    // fills it and keeps no pointer.
    let told = unsafe { libc::adjtimex(state.as_mut_ptr()) };
    if told < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was zeroed, which is a value of it, and the kernel has filled it.
    let state = unsafe { state.assume_init() };
    if told == libc::TIME_ERROR || state.status & libc::STA_UNSYNC != 0 {
        return Ok(None);
    }
    Ok(Some(Duration::from_micros(u64::try_from(state.esterror).unwrap_or(0))))
}

/// Returns the time of day in seconds since 1970; 0 before that.
pub fn now_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a question about the clock's error changes nothing, and returns the error or a
    /// reason.
    #[test]
    fn the_kernel_tells_how_the_clock_is_kept() {
        match clock_error() {
            Ok(Some(error)) => assert!(error < Duration::from_secs(3600), "{error:?}"),
            Ok(None) => {}
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}"),
        }
    }
}
