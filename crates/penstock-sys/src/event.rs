//! Waking a thread that sleeps in `epoll_wait` or `poll`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};

/// A flag that another thread can wait for by polling it for reading.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// Returns a flag that is not raised.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Raises the flag; from any thread, never blocks. Raising it twice is raising it once.
    pub fn signal(&self) {
        // The one possible error is a full counter, and then the flag is up already.
        let _ = write(&self.0, &1u64.to_ne_bytes());
    }

    /// Lowers the flag; returns whether it was up. Never blocks.
    pub fn clear(&self) -> bool {
        let mut counter = [0; 8];
        loop {
            match read(&self.0, &mut counter) {
                Err(Errno::INTR) => {}
                outcome => return outcome.is_ok(),
            }
        }
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a signal is seen once, however often it was given.
    #[test]
    fn a_flag_is_raised_and_lowered() {
        let flag = EventFd::new().unwrap();
        assert!(!flag.clear());
        flag.signal();
        flag.signal();
        assert!(flag.clear());
        assert!(!flag.clear());
    }
}
