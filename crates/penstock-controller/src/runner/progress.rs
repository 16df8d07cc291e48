//! The public view of a run: its figures, and the reason why it waits.

use std::sync::atomic::Ordering;
use std::time::Instant;

use penstock_api::transfer::Progress;
use penstock_engine::transfer::Phase;

use super::pages::puller::THE_SCAN;
use super::phases::outcome;
use super::phases::source_removal::REMOVING;
use super::{ASKING_AGAIN, READING_AGAIN, Run};

impl Run {
    /// Returns in words what the thread that pulls pages waits for.
    fn pulling(&self) -> String {
        let waiting = self.puller.waiting();
        let busy = self.shared.comparing.busy.load(Ordering::Acquire);
        if waiting.is_empty() && busy {
            return "comparing what is in the files with the source".to_owned();
        }
        waiting
    }

    /// Brings the figures up to date.
    pub(crate) fn show(&mut self) {
        self.viewed_at = Instant::now();
        let totals = self.shared.machine().totals();
        let (figures, peers) = self.tasks.figures();
        let seconds = self.carried.seconds + self.began.elapsed().as_secs_f64();
        let bytes_verified = self.carried.bytes_verified + figures.bytes_verified;
        let bytes_read_back = self.proving.bytes.load(Ordering::Relaxed);
        self.rate.add(seconds, bytes_verified);
        let scan = self.scan.as_ref();
        let removal = self.removal.unwrap_or_default();
        let progress = Progress {
            entries_found: scan.map_or(self.found.entries, |scan| scan.entries),
            files_found: scan.map_or(self.found.files, |scan| scan.files),
            bytes_found: scan.map_or(self.found.bytes, |scan| scan.bytes),
            scan_complete: scan.is_some(),
            files: totals.files,
            bytes: totals.bytes,
            bytes_durable: totals.bytes_durable,
            bytes_verified,
            bytes_read_back: self.carried.bytes_read_back + bytes_read_back,
            bytes_resumed: totals.bytes_resumed,
            bytes_resent: self.carried.bytes_resent + figures.bytes_resent,
            repairs: self.carried.repairs + figures.repairs,
            skipped: totals.kept + scan.map_or(0, |scan| scan.skipped),
            bytes_skipped: totals.kept_bytes,
            excluded: scan.map_or(0, |scan| scan.excluded),
            sockets: scan.map_or(0, |scan| scan.sockets),
            own_state: scan.map_or(0, |scan| scan.own_state),
            not_kept: outcome::not_kept(figures.not_kept, scan),
            not_listed: self.not_listed,
            deleted: self.carried.deleted + self.deleted(),
            removed: removal.removed,
            stayed: removal.stayed,
            errors: totals.failures + removal.failures + scan.map_or(0, |scan| scan.errors),
            lanes: figures.lanes,
            peers,
            rate_bits_per_s: self.rate.now,
            rate_max_bits_per_s: self.rate.greatest,
            seconds,
            cpu_seconds: self.carried.cpu_seconds + figures.cpu_seconds,
            limit: if bytes_read_back > 0 { READING_AGAIN.to_owned() } else { figures.limit },
        };
        let pulling = self.pulling();
        let deleting = self.deletion.is_some() && self.shared.machine().phase() == Phase::Deleting;
        let asking = self.asking.is_some();
        let reason = match () {
            () if asking && pulling.is_empty() => ASKING_AGAIN.to_owned(),
            () if deleting => "deleting what is not at the source".to_owned(),
            () if self.removal.is_some() => REMOVING.to_owned(),
            () if figures.waiting.is_empty() => pulling,
            () if pulling.is_empty() || pulling == THE_SCAN => figures.waiting,
            // The reason why the list cannot be read is more useful than the fact that no lane
            // accepts work.
            () => format!("{pulling}; {}", figures.waiting),
        };
        let failures = self.failures_shown.clone();
        self.control.update(|view| {
            view.progress = progress;
            view.reason = reason;
            view.failures = failures;
        });
    }
}

/// The rate over the last second or so, and the greatest such rate.
#[derive(Debug, Default)]
pub(crate) struct RateView {
    samples: std::collections::VecDeque<(f64, u64)>,
    now: f64,
    greatest: f64,
}

impl RateView {
    pub(crate) fn add(&mut self, seconds: f64, bytes: u64) {
        self.samples.push_back((seconds, bytes));
        while self.samples.len() > 2 && self.samples[1].0 + 1.0 <= seconds {
            self.samples.pop_front();
        }
        if let Some((then, before)) = self.samples.front()
            && seconds - then > 0.05
        {
            self.now = (bytes - before) as f64 * 8.0 / (seconds - then);
            self.greatest = self.greatest.max(self.now);
        }
    }
}
