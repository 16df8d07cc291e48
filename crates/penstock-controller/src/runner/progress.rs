//! The progress of a run, as users see it: figures, failed items, the reason why it waits.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use penstock_api::bottleneck::Bottleneck;
use penstock_api::preserve::{NotKept, NotKeptWhy, add_not_kept};
use penstock_api::proof::ProofProgress;
use penstock_api::rest::FlightKind;
use penstock_api::scan::ScanSummary;
use penstock_api::task::TaskFigures;
use penstock_api::time_use::TransferTime;
use penstock_api::transfer::{FailedItem, Progress};
use penstock_engine::bottleneck::Supply;
use penstock_engine::transfer::Phase;
use penstock_proto::attributes::AttributeClass;
use penstock_proto::units::Instant as Moment;

use super::context::RunContext;
use super::failure_text::failed_item;
use super::input::{FAILURES_SHOWN, VIEW_INTERVAL};
use super::pages::found::Found;
use super::pages::puller::{Puller, THE_SCAN};
use super::pages::scan_end::ScanEnd;
use super::shared::RunShared;
use super::tasks::TaskSet;
use super::tasks::run_bottleneck::{self, RunBottleneck};

/// The reason that a run shows while the source looks again at changed entries.
const ASKING_AGAIN: &str = "the source examines changed files again";
/// The reason that a run shows while it removes at the source.
const REMOVING: &str = "removing at the source what was moved";

/// Totals of the removal at the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RemovalTotals {
    /// Items that are gone from the source.
    pub(crate) removed: u64,
    /// Items that stay there.
    pub(crate) stayed: u64,
    /// Items among these that are reported as failed.
    pub(crate) failures: u64,
}

/// The figures of one round, to which each phase adds its own.
pub(crate) struct RunProgress {
    /// Progress of earlier rounds.
    carried: Progress,
    began: Instant,
    viewed_at: Instant,
    rate: RateView,
    bottleneck: RunBottleneck,
    failures: Vec<FailedItem>,
    /// The contents of the pages that were opened.
    pub(crate) found: Found,
    /// The progress of reading files back.
    pub(crate) read_back: Arc<ProofProgress>,
    /// Totals of the removal at the source; `None` before the removal begins.
    pub(crate) removal: Option<RemovalTotals>,
    /// Files that the digest list lacks for their holes.
    pub(crate) not_listed: u64,
    /// Set once all is done: the bottleneck that is shown is that of the whole transfer.
    pub(crate) is_whole: bool,
    /// Set while the source is asked about changed entries.
    pub(crate) is_asking: bool,
    /// Set once the deletion at the target has begun.
    pub(crate) is_deleting: bool,
}

impl RunProgress {
    /// Begins with the progress of earlier rounds, and the contents of the pages of an earlier run.
    pub(crate) fn new(carried: Progress, found: Found) -> Self {
        Self {
            bottleneck: RunBottleneck::after(carried.bottleneck.as_ref(), carried.seconds),
            carried,
            began: Instant::now(),
            viewed_at: Instant::now(),
            rate: RateView::default(),
            failures: Vec::new(),
            found,
            read_back: Arc::default(),
            removal: None,
            not_listed: 0,
            is_whole: false,
            is_asking: false,
            is_deleting: false,
        }
    }

    /// Returns whether the view is due.
    pub(crate) fn is_due(&self) -> bool {
        self.viewed_at.elapsed() >= VIEW_INTERVAL
    }

    /// Returns how many more failed items are shown.
    pub(crate) fn room_for_failures(&self) -> usize {
        FAILURES_SHOWN.saturating_sub(self.failures.len())
    }

    /// Shows failed items, as far as there is room.
    pub(crate) fn add_failures(&mut self, failures: impl IntoIterator<Item = FailedItem>) {
        let room = self.room_for_failures();
        self.failures.extend(failures.into_iter().take(room));
    }

    /// Counts files that are fetched again because they were damaged.
    pub(crate) fn add_repairs(&mut self, files: u64) {
        self.carried.repairs += files;
    }

    /// Shows the items that have failed since the last call.
    pub(crate) fn show_failures(&mut self, shared: &RunShared) {
        let news = shared.machine().take_failures();
        for (number, failure) in news {
            if self.room_for_failures() == 0 {
                return;
            }
            let page = shared.read_page(number).ok();
            self.add_failures(page.and_then(|page| failed_item(&page.page, &failure)));
        }
    }

    /// Brings the view up to date.
    pub(crate) fn show(
        &mut self,
        context: &RunContext,
        tasks: &mut TaskSet,
        puller: &Puller,
        scan: &ScanEnd,
    ) {
        self.viewed_at = Instant::now();
        let shared = &context.shared;
        let totals = shared.machine().totals();
        let (figures, peers) = tasks.figures();
        let (time, bottleneck) = self.time_use(shared, &figures, scan.summary().is_some());
        // The last report covers the whole run.
        if let Some(found) = bottleneck.as_ref().filter(|_| !self.is_whole) {
            context.control.flight().add(FlightKind::Bottleneck, "", &found.words());
        }
        let seconds = self.carried.seconds + self.began.elapsed().as_secs_f64();
        let bytes_verified = self.carried.bytes_verified + figures.bytes_verified;
        let bytes_read_back = self.read_back.bytes.load(Ordering::Relaxed);
        self.rate.add(seconds, bytes_verified);
        let scan = scan.summary();
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
            not_kept: not_kept(figures.not_kept, scan),
            not_listed: self.not_listed,
            deleted: self.carried.deleted + shared.deleted_here(),
            removed: removal.removed,
            stayed: removal.stayed,
            errors: totals.failures + removal.failures + scan.map_or(0, |scan| scan.errors),
            lanes: figures.lanes,
            peers,
            rate_bits_per_s: self.rate.now,
            rate_max_bits_per_s: self.rate.greatest,
            seconds,
            cpu_seconds: self.carried.cpu_seconds + figures.cpu_seconds,
            limit: bottleneck.as_ref().map_or_else(String::new, Bottleneck::words),
            bottleneck,
            time,
        };
        let reason = self.reason(shared, puller, figures.waiting);
        let failures = self.failures.clone();
        context.control.update(|view| {
            view.progress = progress;
            view.reason = reason;
            view.failures = failures;
        });
    }

    /// Returns the time of all threads, that of earlier rounds included, and the bottleneck.
    fn time_use(
        &mut self,
        shared: &RunShared,
        figures: &TaskFigures,
        is_listed: bool,
    ) -> (TransferTime, Option<Bottleneck>) {
        let mut time = self.carried.time.clone();
        time.add(&figures.time);
        let elapsed = self.began.elapsed();
        let supply = match (shared.comparing.busy.load(Ordering::Acquire), is_listed) {
            (true, _) => Supply::Comparing,
            (false, true) => Supply::Whole,
            (false, false) => Supply::Scanning,
        };
        let now = Moment(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
        let present = self.bottleneck.now(now, &figures.time, supply, &figures.limit);
        let reads_back = self.read_back.bytes.load(Ordering::Relaxed) > 0;
        let found = match self.is_whole {
            true => self.bottleneck.overall(&time, self.carried.seconds + elapsed.as_secs_f64()),
            false if reads_back => Some(run_bottleneck::readback()),
            false => present,
        };
        (time, found)
    }

    /// Returns the reason why the run waits; tasks report theirs as `waiting`.
    fn reason(&self, shared: &RunShared, puller: &Puller, waiting: String) -> String {
        let pulling = pulling(shared, puller);
        let deleting = self.is_deleting && shared.machine().phase() == Phase::Deleting;
        match () {
            () if self.is_asking && pulling.is_empty() => ASKING_AGAIN.to_owned(),
            () if deleting => "deleting what is not at the source".to_owned(),
            () if self.removal.is_some() => REMOVING.to_owned(),
            () if waiting.is_empty() => pulling,
            () if pulling.is_empty() || pulling == THE_SCAN => waiting,
            // The reason why the list cannot be read is more useful than the fact that no lane
            // accepts work.
            () => format!("{pulling}; {waiting}"),
        }
    }
}

/// Returns in words the wait of the thread that pulls pages.
fn pulling(shared: &RunShared, puller: &Puller) -> String {
    let waiting = puller.waiting();
    if waiting.is_empty() && shared.comparing.busy.load(Ordering::Acquire) {
        return "comparing what is in the files with the source".to_owned();
    }
    waiting
}

/// Returns all attributes that were not kept: at the target, and already at the source.
fn not_kept(mut told: Vec<NotKept>, scan: Option<&ScanSummary>) -> Vec<NotKept> {
    let items = scan.map_or(0, |scan| scan.xattrs_left_out);
    if items > 0 {
        let (class, why) = (AttributeClass::UserXattrs, NotKeptWhy::Unfit);
        add_not_kept(&mut told, &[NotKept { class, why, items }]);
    }
    told
}

/// The rate over the last second or so, and the greatest such rate.
#[derive(Debug, Default)]
struct RateView {
    samples: std::collections::VecDeque<(f64, u64)>,
    now: f64,
    greatest: f64,
}

impl RateView {
    fn add(&mut self, seconds: f64, bytes: u64) {
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
