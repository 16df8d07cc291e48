//! The events of this site, as this peer has seen them: kept in memory and in two files of the site
//! directory, bounded, with times.
//!
//! Each peer keeps its own events: those that a peer saw while it was cut off are worth most. The
//! peer that gets a request merges the events of all peers ([`crate::operations`]). An event that
//! all have seen, as a new controller, appears once there.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use penstock_api::cluster::StoreCard;
use penstock_api::operate::SiteEvent;
use penstock_cluster::etcd::Standing;
use penstock_cluster::membership::ClusterNow;
use penstock_proto::id::{Name, TransferId};

use super::etcd::EtcdSeen;
use super::membership::MembershipSeen;

/// Events in memory, and most that one question is answered with.
pub(crate) const EVENTS_MAX: usize = 2000;
/// A file of events is put aside beyond this; the one put aside before goes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The files, newest first.
const FILES: [&str; 2] = ["events.jsonl", "events.1.jsonl"];

/// Keeps events.
pub(crate) struct EventLog {
    pub(super) peer: Name,
    directory: PathBuf,
    inner: Mutex<Inner>,
    pub(super) store_cards: Mutex<Option<Vec<StoreCard>>>,
}

#[derive(Default)]
pub(super) struct Inner {
    pub(super) kept: VecDeque<SiteEvent>,
    file: Option<(File, u64)>,
    /// The last report of each transfer: a state, and the reason of a wait.
    pub(super) said: BTreeMap<TransferId, String>,
    membership: MembershipSeen,
    etcd: EtcdSeen,
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

impl EventLog {
    /// Records the changes of the members of etcd.
    pub(crate) fn see_etcd(&self, standing: &[Standing]) {
        let changes = self.lock().etcd.changes(standing, now_ms());
        for (kind, subject, text) in changes {
            self.add(kind, &subject, None, &text);
        }
    }

    /// Returns whether something was wrong with etcd at the last look.
    pub(crate) fn is_etcd_ill(&self) -> bool {
        self.lock().etcd.is_ill()
    }

    /// Opens the log in a site directory, with the events that it holds.
    pub(crate) fn open(directory: &Path, peer: &Name) -> Arc<Self> {
        Arc::new(Self::read(directory, peer))
    }

    pub(super) fn read(directory: &Path, peer: &Name) -> Self {
        let mut kept = VecDeque::new();
        for name in FILES.iter().rev() {
            let Ok(file) = File::open(directory.join(name)) else { continue };
            for line in BufReader::new(file).lines().map_while(Result::ok) {
                // A line that a crash has cut is ignored.
                let Ok(event) = serde_json::from_str(&line) else { continue };
                kept.push_back(event);
                if kept.len() > EVENTS_MAX {
                    kept.pop_front();
                }
            }
        }
        let inner = Inner { kept, ..Inner::default() };
        Self {
            peer: peer.clone(),
            directory: directory.to_owned(),
            inner: Mutex::new(inner),
            store_cards: Mutex::default(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last events, oldest first, of one transfer if one is given.
    pub(crate) fn last(&self, transfer: Option<TransferId>, most: usize) -> Vec<SiteEvent> {
        let inner = self.lock();
        let wanted = inner
            .kept
            .iter()
            .filter(|event| transfer.is_none_or(|id| event.transfer.is_none_or(|of| of == id)));
        let mut last: Vec<_> = wanted.rev().take(most.min(EVENTS_MAX)).cloned().collect();
        last.reverse();
        last
    }

    /// Keeps an event. The log names a file that cannot be written; memory has the event.
    pub(crate) fn add(&self, kind: &str, subject: &str, transfer: Option<TransferId>, text: &str) {
        let (kind, subject, text) = (kind.to_owned(), subject.to_owned(), text.to_owned());
        let event =
            SiteEvent { at_ms: now_ms(), peer: self.peer.clone(), kind, subject, transfer, text };
        tracing::info!(target: "penstock::events", kind = %event.kind, subject = %event.subject,
                       text = %event.text);
        let mut inner = self.lock();
        if let Err(error) = self.write(&mut inner, &event) {
            tracing::warn!(%error, "an event is stored in memory only");
            inner.file = None;
        }
        inner.kept.push_back(event);
        if inner.kept.len() > EVENTS_MAX {
            inner.kept.pop_front();
        }
    }

    fn write(&self, inner: &mut Inner, event: &SiteEvent) -> std::io::Result<()> {
        let [newest, older] = FILES.map(|name| self.directory.join(name));
        if inner.file.as_ref().is_some_and(|(_, bytes)| *bytes > FILE_BYTES_MAX) {
            inner.file = None;
            fs::rename(&newest, older)?;
        }
        if inner.file.is_none() {
            let file = OpenOptions::new().create(true).append(true).open(&newest)?;
            let bytes = file.metadata()?.len();
            inner.file = Some((file, bytes));
        }
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        if let Some((file, bytes)) = &mut inner.file {
            file.write_all(&line)?;
            *bytes += line.len() as u64;
        }
        Ok(())
    }

    /// Records the changes of the membership.
    pub(crate) fn see_cluster(&self, now: &ClusterNow) {
        let changes = self.lock().membership.changes(now);
        for (kind, subject, text) in changes {
            self.add(kind, &subject, None, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_api::cluster::{DrainMark, KnownPeer, LeaderCard, PeerCard};

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn card(peer: &str, instance: u64) -> PeerCard {
        PeerCard {
            peer: name(peer),
            instance,
            addresses: Vec::new(),
            data: Vec::new(),
            version: "1".to_owned(),
            boot: String::new(),
            stores: Vec::new(),
            running: 0,
            protocol: 1,
            formats: penstock_proto::version::VersionRange::FIRST,
            since: 5,
            key: String::new(),
            keys_at: Vec::new(),
        }
    }

    fn kinds(log: &EventLog) -> Vec<String> {
        log.last(None, 100).into_iter().map(|event| event.kind).collect()
    }

    /// Promise: a peer that joins, leaves, is lost, leads or drains causes one event each. The
    /// state before the daemon's start causes none, and a restarted daemon still has the events.
    #[test]
    fn the_membership_is_told_as_it_changes() {
        let directory = tempfile::tempdir().unwrap();
        let log = EventLog::read(directory.path(), &name("h1"));
        let known = |peer: &str, lost| KnownPeer {
            peer: name(peer),
            instance: 2,
            joined: 5,
            left: 0,
            lost,
            key: String::new(),
        };
        let leader = |peer: &str| LeaderCard {
            peer: name(peer),
            instance: 1,
            addresses: Vec::new(),
            since: 7,
        };
        let mut now = ClusterNow {
            leader: Some((leader("h1"), 9)),
            peers: vec![card("h1", 1)],
            ..ClusterNow::default()
        };
        log.see_cluster(&now);
        now.peers.push(card("h2", 2));
        now.known.push(known("h2", 0));
        log.see_cluster(&now);
        now.draining.push(DrainMark { peer: name("h2"), since: 8, forced: false });
        log.see_cluster(&now);
        now.draining.clear();
        now.peers.pop();
        log.see_cluster(&now);
        now.known = vec![known("h2", 10)];
        now.leader = None;
        log.see_cluster(&now);
        log.see_cluster(&now);
        let told = ["controller", "peer-joined", "drain", "undrain", "peer-lost", "no-controller"];
        assert_eq!(kinds(&log), told);
        assert_eq!(kinds(&EventLog::read(directory.path(), &name("h1"))), told);
    }

    /// Promise (g): events take a bounded amount of memory and of the disk.
    #[test]
    fn g_events_are_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let log = EventLog::read(directory.path(), &name("h1"));
        let text = "x".repeat(1000);
        for number in 0..2 * EVENTS_MAX {
            log.add("problem", &number.to_string(), None, &text);
        }
        assert_eq!(log.last(None, usize::MAX).len(), EVENTS_MAX);
        let bytes: u64 = FILES
            .map(|name| fs::metadata(directory.path().join(name)).unwrap().len())
            .into_iter()
            .sum();
        assert!(bytes <= 2 * (FILE_BYTES_MAX + 4096), "{bytes} bytes");
        let again = EventLog::read(directory.path(), &name("h1")).last(None, 1);
        assert_eq!(again[0].subject, (2 * EVENTS_MAX - 1).to_string());
    }
}
