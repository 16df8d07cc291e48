//! A daemon that a soak asks: transfers, directories, and figures of its process.
//!
//! Each question has a short deadline, so that a daemon that hangs delays no fault's end. Who asks
//! decides how long a daemon may be silent.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use penstock_api::benchmark::BenchmarkList;
use penstock_api::endpoints::{
    CANCEL_TRANSFER, GET_METRICS, GET_RECEIPT, LIST_BENCHMARKS, LIST_SITE_STORES, LIST_SITES,
    PAUSE_TRANSFER, RESUME_TRANSFER, RETRY_TRANSFER, SHOW_STATUS, SHOW_STORE, SHOW_TRANSFER,
    SUBMIT_TRANSFER,
};
use penstock_api::place::PathText;
use penstock_api::problem::Problem;
use penstock_api::rest::{
    EntryList, SiteStoreView, SiteView, StatusView, StoreDetails, SubmitRequest, TransferView,
};
use penstock_api::transfer::{Location, TransferRequest};
use penstock_proto::id::{Name, TransferId};

use super::record::SampleRecord;
use crate::client::Client;

/// How long a daemon may take for an answer.
const DEADLINE: Duration = Duration::from_secs(3);
/// How long it may take to submit or steer a transfer, which may ask another site.
const STEER_DEADLINE: Duration = Duration::from_secs(30);
/// Files and directories of a site directory that hold its state (docs/internals.md, "On disk").
const STATE: [&str; 6] =
    ["state.db", "state.db-wal", "statistics.db", "statistics.db-wal", "journal", "source"];
/// Files and directories of a site directory that hold its logs.
const LOGS: [&str; 6] = [
    "events.jsonl",
    "events.1.jsonl",
    "audit.jsonl",
    "deliveries.jsonl",
    "deliveries.1.jsonl",
    "flights",
];

/// A daemon, and who it is.
pub(super) struct Daemon {
    client: Client,
    directory: Option<PathBuf>,
    status: StatusView,
}

impl Daemon {
    /// Returns the daemon that a client asks, which has to answer.
    ///
    /// # Errors
    /// No daemon answers.
    pub(super) fn of(client: Client) -> anyhow::Result<Self> {
        let status = client.get(&SHOW_STATUS.uri(&[]))?;
        let directory = client.site_directory().map(Path::to_owned);
        Ok(Self { client, directory, status })
    }

    /// Returns the site of the daemon.
    pub(super) fn site(&self) -> &Name {
        &self.status.site.name
    }

    /// Returns whether the daemon is one of this host, so that its stores may be seen here.
    pub(super) fn is_here(&self) -> bool {
        self.directory.is_some()
    }

    /// Returns its site and peer.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.status.site.name, self.status.peer)
    }

    /// Returns its site, peer and release.
    pub(super) fn version(&self) -> String {
        format!("{} penstock {}", self.name(), self.status.version)
    }

    /// Returns a store of the site.
    pub(super) fn store(&self, store: &Name) -> anyhow::Result<StoreDetails> {
        self.client.get_within(&SHOW_STORE.uri(&[store]), DEADLINE)
    }

    /// Returns what the site keeps of measurements of a store.
    pub(super) fn benchmarks(&self, store: &Name) -> anyhow::Result<BenchmarkList> {
        self.client.get_within(&LIST_BENCHMARKS.uri(&[store]), DEADLINE)
    }

    /// Returns the sites that are paired with this one.
    pub(super) fn sites(&self) -> anyhow::Result<Vec<SiteView>> {
        self.client.list(&LIST_SITES.uri(&[]))
    }

    /// Returns the stores of another site that this site may use.
    pub(super) fn stores_of(&self, site: &Name) -> anyhow::Result<Vec<SiteStoreView>> {
        self.client.list(&LIST_SITE_STORES.uri(&[site]))
    }

    /// Returns the entries of a directory whose names begin with `prefix`, as [`Client::look`].
    pub(super) fn look(
        &self,
        place: &Location,
        prefix: &PathText,
    ) -> anyhow::Result<Result<EntryList, Problem>> {
        self.client.look(self.site(), place, prefix)
    }

    /// Makes a directory, or finds it made.
    pub(super) fn make_directory(&self, place: &Location) -> anyhow::Result<()> {
        self.client.make_directory(self.site(), place)
    }

    /// Submits a transfer, or finds it submitted.
    pub(super) fn submit(&self, request: TransferRequest) -> anyhow::Result<TransferView> {
        let request = SubmitRequest::from(request);
        self.client.post_within(&SUBMIT_TRANSFER.uri(&[]), &request, STEER_DEADLINE)
    }

    /// Returns a transfer.
    pub(super) fn transfer(&self, id: TransferId) -> anyhow::Result<TransferView> {
        self.client.get_within(&SHOW_TRANSFER.uri(&[&id]), DEADLINE)
    }

    /// Starts a failed transfer again.
    pub(super) fn retry(&self, id: TransferId) -> anyhow::Result<TransferView> {
        self.client.post_within(&RETRY_TRANSFER.uri(&[&id]), &(), STEER_DEADLINE)
    }

    /// Pauses a transfer.
    pub(super) fn pause(&self, id: TransferId) -> anyhow::Result<TransferView> {
        self.client.post_within(&PAUSE_TRANSFER.uri(&[&id]), &(), STEER_DEADLINE)
    }

    /// Continues a transfer.
    pub(super) fn resume(&self, id: TransferId) -> anyhow::Result<TransferView> {
        self.client.post_within(&RESUME_TRANSFER.uri(&[&id]), &(), STEER_DEADLINE)
    }

    /// Cancels a transfer.
    pub(super) fn cancel(&self, id: TransferId) -> anyhow::Result<TransferView> {
        self.client.post_within(&CANCEL_TRANSFER.uri(&[&id]), &(), STEER_DEADLINE)
    }

    /// Returns the receipt of a transfer as it is kept.
    pub(super) fn receipt(&self, id: TransferId) -> anyhow::Result<Vec<u8>> {
        self.client.get_bytes_within(&GET_RECEIPT.uri(&[&id]), DEADLINE)
    }

    /// Returns figures of the daemon's process and directory now; none while it does not answer.
    pub(super) fn sample(&mut self, at_seconds: f64) -> Option<SampleRecord> {
        self.status = self.client.get_within(&SHOW_STATUS.uri(&[]), DEADLINE).ok()?;
        let text = self.client.get_bytes_within(&GET_METRICS.uri(&[]), DEADLINE);
        // A user without the right to read metrics has the other figures.
        let text = String::from_utf8(text.unwrap_or_default()).unwrap_or_default();
        let sum = |names: &[&str]| {
            let directory = self.directory.as_ref()?;
            let sizes = names.iter().map(|name| bytes_below(&directory.join(name)));
            fs::metadata(directory).ok().map(|_| sizes.sum::<u64>() as f64)
        };
        Some(SampleRecord {
            at_seconds,
            daemon: self.name(),
            process: self.status.pid,
            memory_bytes: figure(&text, "process_resident_memory_bytes"),
            open_files: figure(&text, "process_open_fds"),
            threads: figure(&text, "process_threads"),
            state_bytes: sum(&STATE),
            log_bytes: sum(&LOGS),
        })
    }
}

/// Returns the value of a family without labels in a text of Prometheus (exposition format 0.0.4).
fn figure(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.split(' ').next()?.parse().ok()
}

/// Returns the bytes of a file, or of all files below a directory. What goes meanwhile counts as
/// nothing.
fn bytes_below(path: &Path) -> u64 {
    let Ok(meta) = fs::symlink_metadata(path) else { return 0 };
    if !meta.is_dir() {
        return meta.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| bytes_below(&entry.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a figure is that of its own family, not of one whose name begins alike.
    #[test]
    fn figures_are_read() {
        let text = "# HELP process_open_fds Open.\nprocess_open_fds_max 9\nprocess_open_fds 42\n\
                    process_resident_memory_bytes 1.5e6 1700000000000\n";
        assert_eq!(figure(text, "process_open_fds"), Some(42.0));
        assert_eq!(figure(text, "process_resident_memory_bytes"), Some(1.5e6));
        assert_eq!(figure(text, "process_threads"), None);
    }
}
