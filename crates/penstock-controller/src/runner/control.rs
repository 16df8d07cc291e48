//! The control through which others steer and watch a run.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use penstock_api::problem::Problem;
use penstock_api::rest::PieceMap;
use penstock_api::transfer::{FailedItem, Progress};

use super::pages::piece_map::MapMaker;
use super::warnings::Warnings;
use crate::flight::FlightRecorder;

/// Steers and watches a run from other threads.
#[derive(Debug, Default)]
pub struct RunControl {
    wish: AtomicU8,
    /// A rate that was set since the run looked last.
    rate: Mutex<Option<Option<u64>>>,
    view: Mutex<RunView>,
    warnings: Warnings,
    flight: FlightRecorder,
    map: MapMaker,
    expects_full: AtomicBool,
    /// Pieces of work under way that no figure shows.
    uncounted: AtomicUsize,
}

/// Work of a run that no figure shows, until this is dropped.
#[derive(Debug)]
pub(crate) struct UncountedWork<'a>(&'a RunControl);

impl Drop for UncountedWork<'_> {
    fn drop(&mut self) {
        self.0.uncounted.fetch_sub(1, Ordering::AcqRel);
    }
}

const WISH_PAUSE: u8 = 1;
const WISH_CANCEL: u8 = 2;

/// The end that a user has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Stop and keep the ledger.
    Pause,
    /// Stop and remove all files.
    Cancel,
}

/// The public view of a run.
#[derive(Clone, Debug, Default)]
pub struct RunView {
    /// Figures.
    pub progress: Progress,
    /// The reason why the run waits, and until when; empty if it moves data.
    pub reason: String,
    /// The method that makes the data durable, in words.
    pub durable_by: String,
    /// The first failed items.
    pub failures: Vec<FailedItem>,
    /// A remark on a run that has ended as done; usually empty.
    pub remark: String,
}

impl RunControl {
    /// Asks the run to stop and keep its ledger.
    pub fn pause(&self) {
        let _ = self.wish.compare_exchange(0, WISH_PAUSE, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Asks the run to stop and to remove its files.
    pub fn cancel(&self) {
        self.wish.store(WISH_CANCEL, Ordering::Release);
    }

    /// Returns whether a user has asked the run to stop.
    pub fn is_asked_to_stop(&self) -> bool {
        self.wish().is_some()
    }

    /// Returns the end that a user has asked for, if one has.
    pub(crate) fn wish(&self) -> Option<Wish> {
        match self.wish.load(Ordering::Acquire) {
            0 => None,
            WISH_CANCEL => Some(Wish::Cancel),
            _ => Some(Wish::Pause),
        }
    }

    /// Shows a run that takes place elsewhere.
    pub fn show(&self, seen: RunView) {
        self.update(|view| *view = seen);
    }

    /// Sets another limit of the rate, in bits per second; `None` for none.
    pub fn set_rate(&self, rate_bits_per_s: Option<u64>) {
        *self.rate.lock().unwrap_or_else(PoisonError::into_inner) = Some(rate_bits_per_s);
    }

    pub(crate) fn take_rate(&self) -> Option<Option<u64>> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the current view of the run.
    pub fn view(&self) -> RunView {
        self.view.lock().map(|view| view.clone()).unwrap_or_default()
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut RunView)) {
        if let Ok(mut view) = self.view.lock() {
            change(&mut view);
        }
    }

    /// Records an event of the run that does not end it.
    pub(crate) fn note(&self, warning: Problem) {
        self.warnings.add(warning);
    }

    /// Returns the recorder of the decisions about the transfer.
    pub(crate) fn flight(&self) -> &FlightRecorder {
        &self.flight
    }

    /// Returns the piece map; `None` while the run has read no ledger, or has ended.
    pub(crate) fn piece_map(&self) -> Option<PieceMap> {
        self.map.map(&self.view().progress)
    }

    /// Returns the maker of piece maps, which the run informs about its ledger.
    pub(crate) fn map_maker(&self) -> &MapMaker {
        &self.map
    }

    /// Marks the run as a test whether the target is still full. A peer that finds it full is no
    /// event then.
    pub fn expect_full(&self) {
        self.expects_full.store(true, Ordering::Release);
    }

    /// Returns whether the run only tests whether the target is still full.
    pub(crate) fn expects_full(&self) -> bool {
        self.expects_full.load(Ordering::Acquire)
    }

    /// Begins work that no figure shows, such as a search for entries to delete.
    pub(crate) fn begin_uncounted(&self) -> UncountedWork<'_> {
        self.uncounted.fetch_add(1, Ordering::AcqRel);
        UncountedWork(self)
    }

    /// Returns whether the run does work that no figure shows. Stores and peers that hang meanwhile
    /// have deadlines of their own.
    pub fn is_uncounted(&self) -> bool {
        self.uncounted.load(Ordering::Acquire) > 0
    }

    /// Returns the events since the last call, in order.
    pub fn take_notes(&self) -> Vec<Problem> {
        self.warnings.take()
    }
}
