//! Rates of the steps of a benchmark, and of their repeats.
//!
//! All peers start together, so a rate is the work of all in the time of the last of them: a slow
//! peer counts. Of repeats the median is shown with both ends; no repeat is left out.

/// The work of one peer in a step, with times since the step began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeerTimes {
    /// Bytes of payload.
    pub bytes: u64,
    /// Files, or names.
    pub files: u64,
    /// Time until its last byte or name was done, in seconds.
    pub done_s: f64,
    /// Time until all was durable, in seconds; that of its last byte where nothing is written.
    pub durable_s: f64,
}

/// The work of all peers in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepTimes {
    /// Bytes of payload.
    pub bytes: u64,
    /// Files, or names.
    pub files: u64,
    /// Time until the first peer was done, in seconds.
    pub first_done_s: f64,
    /// Time until the last peer was done, in seconds.
    pub last_done_s: f64,
    /// Time until all was durable, in seconds.
    pub durable_s: f64,
}

impl StepTimes {
    /// Merges the times of the peers of a step; zeros if there are none.
    pub fn of(peers: &[PeerTimes]) -> Self {
        let first = peers.iter().map(|peer| peer.done_s).reduce(f64::min).unwrap_or(0.0);
        let last = |time: fn(&PeerTimes) -> f64| peers.iter().map(time).fold(0.0, f64::max);
        Self {
            bytes: peers.iter().map(|peer| peer.bytes).sum(),
            files: peers.iter().map(|peer| peer.files).sum(),
            first_done_s: first,
            last_done_s: last(|peer| peer.done_s),
            durable_s: last(|peer| peer.durable_s),
        }
    }

    /// Returns bytes and files per second until all was durable; zeros if no time has passed.
    pub fn rates(&self) -> (f64, f64) {
        if self.durable_s <= 0.0 {
            return (0.0, 0.0);
        }
        (self.bytes as f64 / self.durable_s, self.files as f64 / self.durable_s)
    }
}

/// Repeats of one value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// The median; of an even number of repeats the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
}

/// Returns the summary of some values; zeros if there are none.
pub fn summarize(values: &[f64]) -> Summary {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (Some(&least), Some(&greatest)) = (sorted.first(), sorted.last()) else {
        return Summary::default();
    };
    let middle = sorted.len() / 2;
    let median = match sorted.len() % 2 {
        0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    };
    Summary { median, least, greatest }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the slowest peer decides the rate, and durability counts.
    #[test]
    fn the_last_peer_counts() {
        let peer = |bytes, done_s, durable_s| PeerTimes { bytes, files: 1, done_s, durable_s };
        let step = StepTimes::of(&[peer(100, 1.0, 4.0), peer(300, 2.0, 3.0)]);
        assert_eq!((step.first_done_s, step.last_done_s, step.durable_s), (1.0, 2.0, 4.0));
        assert_eq!(step.rates(), (100.0, 0.5));
        assert_eq!(StepTimes::of(&[]).rates(), (0.0, 0.0));
    }

    /// Promise: a median is one of the repeats or between two of them, with both ends shown.
    #[test]
    fn repeats_have_a_median() {
        let summary = summarize(&[3.0, 1.0, 2.0]);
        assert_eq!((summary.median, summary.least, summary.greatest), (2.0, 1.0, 3.0));
        assert_eq!(summarize(&[4.0, 1.0]).median, 2.5);
        assert_eq!(summarize(&[]), Summary::default());
    }
}
