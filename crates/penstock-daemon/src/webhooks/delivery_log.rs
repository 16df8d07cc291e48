//! The attempts of this peer to deliver messages: in memory and in two files of the site directory,
//! bounded.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use penstock_api::webhook::Delivery;
use penstock_proto::id::Name;

/// Attempts in memory.
const DELIVERIES_MAX: usize = 5000;
/// The file is put aside beyond this; the one put aside before is removed.
const FILE_BYTES_MAX: u64 = 2 << 20;
/// The files, newest first.
const FILES: [&str; 2] = ["deliveries.jsonl", "deliveries.1.jsonl"];

/// Keeps attempts.
pub(super) struct DeliveryLog {
    directory: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    kept: VecDeque<Delivery>,
    /// Attempts since the process began, by result.
    results: BTreeMap<&'static str, u64>,
    file: Option<(File, u64)>,
}

impl DeliveryLog {
    /// Opens the log in a site directory, with the attempts that it holds.
    pub(super) fn open(directory: &Path) -> Self {
        let mut kept = VecDeque::new();
        for name in FILES.iter().rev() {
            let Ok(file) = File::open(directory.join(name)) else { continue };
            for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
                // A line that a crash has cut holds no attempt.
                let Ok(delivery) = serde_json::from_slice(&line) else { continue };
                push(&mut kept, delivery);
            }
        }
        let inner = Mutex::new(Inner { kept, ..Inner::default() });
        Self { directory: directory.to_owned(), inner }
    }

    /// Returns the last attempts of a webhook, newest first.
    pub(super) fn last(&self, webhook: &Name, most: usize) -> Vec<Delivery> {
        let inner = self.lock();
        let of = inner.kept.iter().rev().filter(|delivery| delivery.webhook == *webhook);
        of.take(most).cloned().collect()
    }

    /// Adds an attempt. Blocks for a write to the page cache.
    pub(super) fn add(&self, delivery: Delivery) {
        let mut inner = self.lock();
        if let Err(error) = self.write(&mut inner, &delivery) {
            tracing::warn!(%error, "an attempt of a webhook is recorded in memory only");
            inner.file = None;
        }
        *inner.results.entry(delivery.result.as_str()).or_default() += 1;
        push(&mut inner.kept, delivery);
    }

    /// Returns the attempts since the process began, by result.
    pub(super) fn results(&self) -> BTreeMap<&'static str, u64> {
        self.lock().results.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, inner: &mut Inner, delivery: &Delivery) -> io::Result<()> {
        let [newest, older] = FILES.map(|name| self.directory.join(name));
        if inner.file.as_ref().is_some_and(|(_, bytes)| *bytes > FILE_BYTES_MAX) {
            inner.file = None;
            fs::rename(&newest, older)?;
        }
        let (file, bytes) = match &mut inner.file {
            Some(open) => open,
            none => {
                let mut file =
                    OpenOptions::new().create(true).append(true).mode(0o600).open(&newest)?;
                let bytes = file.metadata()?.len();
                // A crash may have cut the last line.
                if bytes > 0 {
                    file.write_all(b"\n")?;
                }
                none.insert((file, bytes))
            }
        };
        let mut line = serde_json::to_vec(delivery)?;
        line.push(b'\n');
        *bytes += line.len() as u64;
        file.write_all(&line)
    }
}

fn push(kept: &mut VecDeque<Delivery>, delivery: Delivery) {
    kept.push_back(delivery);
    if kept.len() > DELIVERIES_MAX {
        kept.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use penstock_api::timestamp::Timestamp;
    use penstock_api::webhook::{DeliveryResult, WebhookKind};

    use super::*;

    fn delivery(webhook: &str, at_ms: u64) -> Delivery {
        Delivery {
            webhook: webhook.parse().unwrap(),
            id: format!("msg_{at_ms}"),
            kind: WebhookKind::Done,
            transfer: None,
            at: Timestamp::of_ms(at_ms),
            attempt: 1,
            result: DeliveryResult::Delivered,
            status: Some(200),
            error: "x".repeat(500),
            took_ms: 3,
        }
    }

    /// Promise: a line that a crash has cut, within a character too, takes no other attempt away.
    #[test]
    fn a_cut_line_takes_no_other_away() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILES[0]);
        let cut = [b"{\"error\":\"".as_slice(), &[0xc3]].concat();
        let good = serde_json::to_vec(&delivery("ops", 1)).unwrap();
        fs::write(&path, [cut.as_slice(), b"\n", &good, b"\n", &cut].concat()).unwrap();
        let of_ops = |log: &DeliveryLog| {
            let last = log.last(&"ops".parse().unwrap(), 9);
            last.into_iter().map(|delivery| delivery.id).collect::<Vec<_>>()
        };
        let log = DeliveryLog::open(directory.path());
        assert_eq!(of_ops(&log), ["msg_1"]);
        log.add(delivery("ops", 2));
        assert_eq!(of_ops(&DeliveryLog::open(directory.path())), ["msg_2", "msg_1"]);
    }

    /// Promise (g): the log is bounded in memory and on the disk, and a daemon that starts again
    /// has the newest attempts.
    #[test]
    fn g_the_log_is_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let log = DeliveryLog::open(directory.path());
        let count = 2 * DELIVERIES_MAX as u64;
        for at in 0..count {
            log.add(delivery(if at % 2 == 0 { "even" } else { "odd" }, at));
        }
        let bytes = FILES.map(|name| fs::metadata(directory.path().join(name)).unwrap().len());
        assert!(bytes.iter().sum::<u64>() <= 2 * (FILE_BYTES_MAX + 4096), "{bytes:?} bytes");
        for log in [log, DeliveryLog::open(directory.path())] {
            let even = log.last(&"even".parse().unwrap(), 2);
            let times: Vec<_> = even.iter().map(|delivery| delivery.at.ms()).collect();
            assert_eq!(times, [count - 2, count - 4]);
            assert!(log.lock().kept.len() <= DELIVERIES_MAX);
        }
    }
}
