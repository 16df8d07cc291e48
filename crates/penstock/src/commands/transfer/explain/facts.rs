//! What the site knows of a transfer, as the API tells it.

use std::collections::BTreeMap;
use std::io::{self, Write};

use penstock_api::endpoints::{GET_FAILURES, GET_FLIGHT, SHOW_QUEUE, SHOW_TRANSFER};
use penstock_api::queue::QueueView;
use penstock_api::rest::{FlightRecord, TransferView};
use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::{FailedItem, TransferState};
use serde::de::DeserializeOwned;

use crate::client::Client;
use crate::commands::transfer::measured;

/// Longest line of a list. A longer one is passed over.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Most failed items that are counted.
const FAILED_MAX: usize = 100_000;

/// The facts about a transfer.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) view: TransferView,
    /// The queue; `None` if the caller may not see it, or the transfer does not wait in it.
    pub(super) queue: Option<QueueView>,
    /// The decisions that are kept, oldest first.
    pub(super) flight: Vec<FlightRecord>,
    /// Number of failed items by code.
    pub(super) failed: BTreeMap<String, u64>,
    /// True if there may be more of them than were counted.
    pub(super) failed_is_cut: bool,
    /// The rate of a transfer that runs beside what its stores did when they were measured.
    pub(super) measured: Vec<String>,
    /// The time of now.
    pub(super) now: Timestamp,
}

impl Facts {
    /// Asks the daemon. What cannot be had beside the transfer itself is left out.
    ///
    /// # Errors
    /// No daemon answers, or the transfer is not known.
    pub(super) fn fetch(client: &Client, id: &str) -> anyhow::Result<Self> {
        let view: TransferView = client.get(&SHOW_TRANSFER.uri(&[&id]))?;
        let waits = view.state == TransferState::Queued;
        let queue = waits.then(|| client.get(&SHOW_QUEUE.uri(&[])).ok()).flatten();
        let (mut flight, mut failed) = (Vec::new(), BTreeMap::new());
        let mut lines = Lines::new(|record: FlightRecord| flight.push(record));
        if client.get_into(&GET_FLIGHT.uri(&[&view.id]), &mut lines).is_err() {
            flight.clear();
        }
        let mut failed_is_cut = false;
        if view.failures.count > 0 {
            let count = |item: FailedItem| *failed.entry(item.code).or_default() += 1;
            let mut lines = Lines { left: FAILED_MAX, ..Lines::new(count) };
            let got = client.get_into(&GET_FAILURES.uri(&[&view.id]), &mut lines);
            failed_is_cut = lines.left == 0;
            if got.is_err() && !failed_is_cut {
                failed.clear();
                for item in &view.failures.first {
                    *failed.entry(item.code.clone()).or_default() += 1;
                }
            }
        }
        let seconds = penstock_sys::now_seconds();
        let measured = measured::sentences(client, &view, seconds);
        let now = Timestamp::of_seconds(seconds);
        Ok(Self { view, queue, flight, failed, failed_is_cut, measured, now })
    }
}

/// Reads JSON Lines as they come, so that a list of any length needs no memory.
struct Lines<T, F: FnMut(T)> {
    part: Vec<u8>,
    /// Lines that are still taken; the next write after these fails.
    left: usize,
    handle: F,
    of: std::marker::PhantomData<T>,
}

impl<T: DeserializeOwned, F: FnMut(T)> Lines<T, F> {
    fn new(handle: F) -> Self {
        Self { part: Vec::new(), left: usize::MAX, handle, of: std::marker::PhantomData }
    }
}

impl<T: DeserializeOwned, F: FnMut(T)> Write for Lines<T, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.left == 0 {
                return Err(io::Error::other("enough lines"));
            }
            if self.part.len() + piece.len() <= LINE_BYTES_MAX {
                self.part.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                // A line of another release may have a form that this one does not know.
                if let Ok(line) = serde_json::from_slice(&self.part) {
                    (self.handle)(line);
                }
                self.part.clear();
                self.left -= 1;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: lines are read whole, however they are cut on their way, and one that is no record
    /// is passed over.
    #[test]
    fn lines_are_read_however_they_are_cut() {
        let text = b"{\"path\":\"a\",\"code\":\"denied\",\"message\":\"m\"}\nnothing\n\
                     {\"path\":\"b\",\"code\":\"read\",\"message\":\"m\"}\n";
        for cut in 1..text.len() {
            let mut codes = Vec::new();
            let mut lines = Lines::new(|item: FailedItem| codes.push(item.code));
            text.chunks(cut).for_each(|part| lines.write_all(part).unwrap());
            assert_eq!(codes, ["denied", "read"], "cut at {cut}");
        }
    }

    /// Promise: a list is read up to so many lines, and no further.
    #[test]
    fn a_long_list_is_cut() {
        let mut codes = Vec::new();
        let count = |item: FailedItem| codes.push(item.code);
        let mut lines = Lines { left: 2, ..Lines::new(count) };
        let text = b"{\"path\":\"a\",\"code\":\"denied\",\"message\":\"m\"}\n".repeat(3);
        assert!(lines.write_all(&text).is_err());
        assert_eq!(codes, ["denied", "denied"]);
    }
}
