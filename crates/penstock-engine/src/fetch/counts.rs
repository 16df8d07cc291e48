//! Counts of a fetch machine, for figures.

/// Bytes that came and had to be sent once more, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResentBytes {
    /// Their lane was lost within the reply.
    pub lane_lost: u64,
    /// Their entries did not pass a check, or could not be written.
    pub entry_failed: u64,
}

impl ResentBytes {
    /// Returns the bytes of all causes.
    pub fn all(self) -> u64 {
        self.lane_lost + self.entry_failed
    }
}

/// Requests of a fetch machine now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchCounts {
    /// Requests that no lane has sent.
    pub queued: usize,
    /// Requests that failed and wait for another attempt.
    pub retrying: usize,
    /// Requests that a lane has sent, and whose answers it has not received.
    pub asked: usize,
}
