//! The bytes of one transfer that were sent again, and the fault that each of them follows.
//!
//! The figures of a transfer are those of its present attempt. An attempt says how many bytes it
//! has verified, how many of them it had to ask for twice, and how many it found there when it
//! began. What an attempt had verified and the next one did not find was lost with a host: it is
//! sent again too. What a host had received and nobody has seen is not counted.

use penstock_api::transfer::Progress;
use serde::{Deserialize, Serialize};

/// The last figures of one attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Figures {
    verified: u64,
    resumed: u64,
    resent: u64,
    /// The fault before its begin.
    fault: Option<u64>,
}

impl Figures {
    fn come(&self) -> u64 {
        (self.resumed + self.verified).saturating_sub(self.resent)
    }
}

/// Bytes that were sent again after a fault, or without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SentAgain {
    /// The number of the fault; absent before the first one.
    pub(super) fault: Option<u64>,
    /// The bytes.
    pub(super) bytes: u64,
}

/// Counts the bytes that a transfer sends again. It survives restarts of the soak.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Resent {
    attempts: Vec<Figures>,
    counted: Vec<SentAgain>,
}

impl Resent {
    /// Takes figures of the transfer; `fault` is the last fault before them.
    pub(super) fn see(&mut self, progress: &Progress, fault: Option<u64>) {
        let seen = Figures {
            verified: progress.bytes_verified,
            resumed: progress.bytes_resumed,
            resent: progress.bytes_resent,
            fault,
        };
        let grew = match self.attempts.last_mut() {
            Some(last) if seen.verified >= last.verified => {
                let grew = seen.resent.saturating_sub(last.resent);
                *last = Figures { fault: last.fault, ..seen };
                grew
            }
            _ => {
                self.attempts.push(seen);
                seen.resent
            }
        };
        self.count(fault, grew);
    }

    fn count(&mut self, fault: Option<u64>, bytes: u64) {
        if bytes == 0 {
            return;
        }
        match self.counted.iter_mut().find(|it| it.fault == fault) {
            Some(found) => found.bytes += bytes,
            None => self.counted.push(SentAgain { fault, bytes }),
        }
    }

    /// Returns the bytes by the faults that they follow.
    pub(super) fn by_fault(&self) -> Vec<SentAgain> {
        let mut sum = self.clone();
        for pair in self.attempts.windows(2) {
            sum.count(pair[1].fault, pair[0].come().saturating_sub(pair[1].resumed));
        }
        sum.counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(verified: u64, resumed: u64, resent: u64) -> Progress {
        Progress {
            bytes_verified: verified,
            bytes_resumed: resumed,
            bytes_resent: resent,
            ..Progress::default()
        }
    }

    /// Promise: bytes are counted once, after the fault that they follow: those of lost lanes, and
    /// those that an attempt had and its successor did not find, however slowly that finds them.
    #[test]
    fn bytes_are_counted_by_fault() {
        let mut resent = Resent::default();
        resent.see(&progress(50, 0, 0), None);
        resent.see(&progress(100, 0, 0), None);
        assert_eq!(resent.by_fault(), []);
        resent.see(&progress(150, 0, 10), Some(1));
        // Fault 2 kills the target: 140 had come, of which 130 were committed.
        resent.see(&progress(0, 20, 0), Some(2));
        resent.see(&progress(30, 130, 0), Some(2));
        resent.see(&progress(60, 130, 5), Some(3));
        let text = serde_json::to_string(&resent).unwrap();
        let resent: Resent = serde_json::from_str(&text).unwrap();
        let sums = [(1, 10), (3, 5), (2, 10)];
        let sums = sums.map(|(fault, bytes)| SentAgain { fault: Some(fault), bytes });
        assert_eq!(resent.by_fault(), sums);
    }
}
