//! Model of the target's journal store and state database: page logs and heads, and the effects of
//! crashes on them.
//!
//! Logs are appended through the page cache and synced before a durable commit (A8). `kill -9`
//! keeps appended bytes, counted by a head or not. A power cut may also cut or garble unsynced
//! bytes, and lose the latest heads that were not committed durably.

use std::collections::BTreeMap;

use penstock_engine::transfer::{LedgerCommit, PageCommit, PageStanding, TransferMachine};
use penstock_proto::id::WriterId;
use penstock_proto::journal::JournalRecord;
use penstock_proto::wire::Reader;
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use crate::source::DataSet;

#[derive(Debug, Default)]
struct Log {
    bytes: Vec<u8>,
    synced: usize,
}

/// Committed state of one page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) standing: PageStanding,
    pub(crate) complete: bool,
}

/// All heads at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heads {
    pub(crate) pages: BTreeMap<u32, Head>,
    /// The last epoch that each writer synced.
    pub(crate) epochs: BTreeMap<WriterId, u64>,
}

/// Logs and heads of one transfer.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    logs: BTreeMap<u32, Log>,
    /// Heads since the last durable commit, that one first.
    history: Vec<Heads>,
    /// Epoch of the controller that may commit (promise (h)).
    pub(crate) fence: u64,
}

impl Journal {
    pub(crate) fn new() -> Self {
        Self { history: vec![Heads::default()], ..Self::default() }
    }

    pub(crate) fn heads(&self) -> Heads {
        self.history.last().cloned().unwrap_or_default()
    }

    /// Appends to the logs, after the committed bytes.
    ///
    /// # Errors
    /// The machine counts more bytes in a log than there are.
    pub(crate) fn append(&mut self, commit: &LedgerCommit) -> Result<(), String> {
        for page in &commit.pages {
            let log = self.logs.entry(page.page).or_default();
            let before = page.log_bytes as usize - page.append.len();
            log.bytes.truncate(before);
            log.synced = log.synced.min(before);
            if log.bytes.len() < before {
                let (found, number) = (log.bytes.len(), page.page);
                return Err(format!("log {number} is {found} bytes long, appended at {before}"));
            }
            log.bytes.extend_from_slice(&page.append);
        }
        Ok(())
    }

    /// Commits the heads; `false` if the controller has been replaced.
    pub(crate) fn commit(&mut self, controller: u64, commit: &LedgerCommit, durable: bool) -> bool {
        if controller < self.fence {
            return false;
        }
        let mut heads = self.heads();
        for page in &commit.pages {
            heads.pages.insert(page.page, head_of(page));
        }
        heads.epochs.extend(&commit.synced);
        if durable {
            self.history.clear();
            for page in &commit.pages {
                if let Some(log) = self.logs.get_mut(&page.page) {
                    log.synced = log.bytes.len();
                }
            }
        }
        self.history.push(heads);
        true
    }

    /// Kills the process, perhaps within an append.
    pub(crate) fn kill(&mut self, torn: &LedgerCommit, rng: &mut ChaCha8Rng) {
        for page in &torn.pages {
            if let Some(log) = self.logs.get_mut(&page.page) {
                let lost = rng.random_range(0..=page.append.len().min(log.bytes.len()));
                log.bytes.truncate(log.bytes.len() - lost);
                log.synced = log.synced.min(log.bytes.len());
            }
        }
    }

    /// Cuts the power of the host.
    pub(crate) fn power_cut(&mut self, rng: &mut ChaCha8Rng) {
        self.history.truncate(rng.random_range(1..=self.history.len()));
        for log in self.logs.values_mut() {
            let kept = rng.random_range(log.synced..=log.bytes.len());
            log.bytes.truncate(kept);
            if kept > log.synced && rng.random_bool(0.5) {
                let at = rng.random_range(log.synced..kept);
                log.bytes[at..].fill(0);
            }
            log.synced = kept;
        }
    }

    /// Returns the sound and committed records of a page, and the length of the log that they fill.
    pub(crate) fn read(&self, page: u32) -> (Vec<JournalRecord>, u64) {
        let committed = self.heads().pages.get(&page).map_or(0, |head| head.standing.log_bytes);
        let Some(log) = self.logs.get(&page) else { return (Vec::new(), 0) };
        let bytes = &log.bytes[..log.bytes.len().min(committed as usize)];
        let mut input = Reader::new(bytes);
        let (mut records, mut sound) = (Vec::new(), 0);
        while input.remaining() > 0 {
            let Ok(record) = JournalRecord::take_from(&mut input) else { break };
            records.push(record);
            sound = (bytes.len() - input.remaining()) as u64;
        }
        (records, sound)
    }

    /// Cuts bytes that do not count off a log.
    pub(crate) fn truncate(&mut self, page: u32, length: u64) {
        if let Some(log) = self.logs.get_mut(&page) {
            log.bytes.truncate(length as usize);
            log.synced = log.synced.min(log.bytes.len());
        }
    }

    /// Opens a page of `data` with the records of its log, `doubting` everything that was not
    /// durable.
    pub(crate) fn open_page(
        &mut self,
        data: &DataSet,
        machine: &mut TransferMachine,
        number: u32,
        doubting: bool,
    ) {
        let (log, length) = self.read(number);
        self.truncate(number, length);
        let (page, digest) = &data.pages[number as usize];
        machine.handle_page(page, *digest, log, length, doubting);
    }

    /// Lets the machine check the pieces of a lost peer when the committed log was read.
    ///
    /// # Errors
    /// More bytes are committed than there are.
    pub(crate) fn read_logs(&self, machine: &mut TransferMachine) -> Result<(), String> {
        while let Some((page, length)) = machine.wants_log() {
            let (log, sound) = self.read(page);
            if sound < length {
                return Err(format!("{length} bytes of log are committed, {sound} are there"));
            }
            machine.handle_log(page, log);
        }
        Ok(())
    }

    /// Opens the journal for another controller; returns its epoch.
    pub(crate) fn take_over(&mut self) -> u64 {
        self.fence += 1;
        self.fence
    }
}

fn head_of(page: &PageCommit) -> Head {
    let standing = PageStanding {
        digest: page.digest,
        log_bytes: page.log_bytes,
        files: page.files,
        bytes: page.bytes,
        failures: page.failures,
        kept: page.kept,
        kept_bytes: page.kept_bytes,
        asks: page.asks,
    };
    Head { standing, complete: page.complete }
}
