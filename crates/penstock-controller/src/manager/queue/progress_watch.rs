//! The watch over a running attempt: an attempt that makes no progress for too long ends.

use std::time::{Duration, Instant};

use penstock_api::time_use::TransferTime;
use penstock_api::transfer::{PROGRESS_TIMEOUT_S, Progress, TransferRequest};

/// The figures of an attempt as they changed last.
#[derive(Debug)]
pub(super) struct ProgressWatch {
    most: Duration,
    seen: Progress,
    moved: Instant,
}

impl ProgressWatch {
    /// Returns a watch over an attempt that begins now.
    pub(super) fn new(request: &TransferRequest, now: Instant) -> Self {
        let most = request.progress_timeout_s.unwrap_or(PROGRESS_TIMEOUT_S);
        let most = Duration::from_secs(most.into());
        Self { most, seen: Progress::default(), moved: now }
    }

    /// Looks at the figures of the attempt. Returns the time without progress if it is over. Work
    /// that no figure shows counts as progress.
    pub(super) fn look(
        &mut self,
        progress: &Progress,
        is_uncounted: bool,
        now: Instant,
    ) -> Option<Duration> {
        let is_moving = progress.rate_bits_per_s > 0.0 || is_uncounted;
        let seen = figures_of(progress);
        if is_moving || seen != self.seen {
            (self.seen, self.moved) = (seen, now);
        }
        let nothing_for = now.saturating_duration_since(self.moved);
        (nothing_for >= self.most).then_some(nothing_for)
    }
}

/// Returns the figures that change by progress alone: entries found, items and bytes done, items
/// deleted and removed.
fn figures_of(progress: &Progress) -> Progress {
    Progress {
        lanes: 0,
        peers: Vec::new(),
        rate_bits_per_s: 0.0,
        rate_max_bits_per_s: 0.0,
        seconds: 0.0,
        cpu_seconds: 0.0,
        limit: String::new(),
        bottleneck: None,
        time: TransferTime::default(),
        repairs: 0,
        bytes_resent: 0,
        ..progress.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: an attempt ends after the time without progress that its request allows, and each
    /// kind of progress begins that time again: entries found, bytes, items removed.
    #[test]
    fn what_moves_is_left_alone() {
        let id = penstock_proto::id::TransferId([1; 16]);
        let (source, target) = ("lab:raw/a".parse().unwrap(), "hpc:s/1".parse().unwrap());
        let request = TransferRequest {
            progress_timeout_s: Some(60),
            ..TransferRequest::new(id, source, target, Default::default())
        };
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut watch = ProgressWatch::new(&request, began);
        let mut progress = Progress::default();
        assert_eq!(watch.look(&progress, false, at(59)), None);
        assert_eq!(watch.look(&progress, false, at(60)), Some(Duration::from_secs(60)));
        progress.entries_found = 5;
        assert_eq!(watch.look(&progress, false, at(61)), None);
        (progress.seconds, progress.lanes) = (61.0, 3);
        assert_eq!(watch.look(&progress, false, at(121)), Some(Duration::from_secs(60)));
        progress.removed = 1;
        assert_eq!(watch.look(&progress, false, at(122)), None);
        progress.rate_bits_per_s = 1.0;
        assert_eq!(watch.look(&progress, false, at(300)), None);
        (progress.rate_bits_per_s, progress.removed) = (0.0, 2);
        assert_eq!(watch.look(&progress, false, at(301)), None);
        assert_eq!(watch.look(&progress, true, at(500)), None, "a search for what to delete");
        assert_eq!(watch.look(&progress, false, at(560)), Some(Duration::from_secs(60)));
        let usual = TransferRequest { progress_timeout_s: None, ..request };
        let mut watch = ProgressWatch::new(&usual, began);
        assert_eq!(watch.look(&Progress::default(), false, at(599)), None);
        assert!(watch.look(&Progress::default(), false, at(600)).is_some());
    }
}
