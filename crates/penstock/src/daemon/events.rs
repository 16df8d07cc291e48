//! What has happened at this site, as this peer has seen it: kept in memory and in two files of
//! the site directory, bounded, with times.
//!
//! Each peer keeps its own: what a peer saw while it was cut off is worth most. Whoever is asked
//! puts those of all peers together ([`super::operate`]); what all have seen, as another
//! controller, is told once there.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use etcd::{Change, EtcdSeen};
use penstock_api::cluster::{KnownPeer, PeerCard};
use penstock_api::operate::SiteEvent;
use penstock_api::rest::{Event, TransferEvent};
use penstock_api::transfer::TransferState;
use penstock_controller::cluster::ClusterNow;
use penstock_controller::etcd::Standing;
use penstock_controller::manager::Manager;
use penstock_peer::{PathNews, PathState, TargetService};
use penstock_proto::id::{Name, TransferId};
use tokio::sync::broadcast::error::RecvError;

mod etcd;
mod part;
mod stores;

/// Events in memory, and most that one question is answered with.
pub(crate) const EVENTS_MAX: usize = 2000;
/// A file of events is put aside beyond this; the one put aside before goes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Transfers of which the last state is remembered.
const TRANSFERS_MAX: usize = 4096;
/// The files, newest first.
const FILES: [&str; 2] = ["events.jsonl", "events.1.jsonl"];

/// Keeps events.
pub(crate) struct EventLog {
    peer: Name,
    directory: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    kept: VecDeque<SiteEvent>,
    file: Option<(File, u64)>,
    /// What was said last of each transfer: a state, and what it waits for.
    said: BTreeMap<TransferId, String>,
    /// What was last told of the membership; `None` before the first look.
    seen: Option<Seen>,
    etcd: EtcdSeen,
}

#[derive(Default)]
struct Seen {
    leader: Option<(Name, u64)>,
    /// Who has led last.
    led: Option<Name>,
    format: u16,
    known: BTreeMap<Name, KnownPeer>,
    cards: BTreeMap<Name, u64>,
    draining: Vec<Name>,
    trouble: String,
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

impl EventLog {
    /// Records what changed at the members of etcd.
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

    /// A log in a site directory, with what was kept there before; from now on it takes note of
    /// what becomes of the paths of this peer's transfers.
    pub(crate) fn open(directory: &Path, peer: &Name, target: &TargetService) -> Arc<Self> {
        let log = Arc::new(Self::read(directory, peer));
        let told = Arc::clone(&log);
        target.listen_to_paths(Arc::new(move |news| told.see_path(news)));
        log
    }

    fn read(directory: &Path, peer: &Name) -> Self {
        let mut kept = VecDeque::new();
        for name in FILES.iter().rev() {
            let Ok(file) = File::open(directory.join(name)) else { continue };
            for line in BufReader::new(file).lines().map_while(Result::ok) {
                // A line that a crash has cut is none.
                let Ok(event) = serde_json::from_str(&line) else { continue };
                kept.push_back(event);
                if kept.len() > EVENTS_MAX {
                    kept.pop_front();
                }
            }
        }
        let inner = Inner { kept, ..Inner::default() };
        Self { peer: peer.clone(), directory: directory.to_owned(), inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last events, oldest first, of one transfer if that is said.
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

    /// Keeps an event. A file that cannot be written is said in the log, and memory has it.
    pub(crate) fn add(&self, kind: &str, subject: &str, transfer: Option<TransferId>, text: &str) {
        let (kind, subject, text) = (kind.to_owned(), subject.to_owned(), text.to_owned());
        let event =
            SiteEvent { at_ms: now_ms(), peer: self.peer.clone(), kind, subject, transfer, text };
        tracing::info!(target: "penstock::events", kind = %event.kind, subject = %event.subject,
                       text = %event.text);
        let mut inner = self.lock();
        if let Err(error) = self.write(&mut inner, &event) {
            tracing::warn!(%error, "an event is kept in memory only");
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

    /// Takes note of what the membership has become.
    pub(crate) fn see_cluster(&self, now: &ClusterNow) {
        let changes = self.lock().changes(now);
        for (kind, subject, text) in changes {
            self.add(kind, &subject, None, &text);
        }
    }

    /// Takes note of what has become of a path.
    pub(crate) fn see_path(&self, news: &PathNews) {
        let (state, ends) = (news.note.state, news.note.ends.to_string());
        let subject = format!("{} {ends}", news.site);
        let was_bad = matches!(news.was, PathState::Dead | PathState::Crawling | PathState::Trial);
        let (kind, text) = match state {
            PathState::Dead if news.was != PathState::Dead => (
                "path-dead",
                format!(
                    "path to {subject} is dead: {}; what it had in hand is asked for anew, and \
                     nothing goes over it until it heals",
                    news.note.why
                ),
            ),
            PathState::Crawling if !was_bad => (
                "path-crawling",
                format!(
                    "path to {subject} crawls: {}; it is emptied, and tried again now and then",
                    news.note.why
                ),
            ),
            PathState::Carrying if was_bad => {
                ("path-back", format!("path to {subject} carries again"))
            }
            _ => return,
        };
        self.add(kind, &subject, Some(news.transfer), &text);
    }

    fn see_transfer(&self, event: &TransferEvent) {
        let state = crate::output::progress::state_name(event.state);
        // What a running one waits for changes all the while; a problem is told by itself. A reason
        // that counts down is the same one until the next attempt.
        let reason = match event.state {
            TransferState::Running => "",
            _ => event.reason.split("; next attempt").next().unwrap_or_default(),
        };
        let text = if reason.is_empty() { state.to_owned() } else { format!("{state}: {reason}") };
        {
            let mut inner = self.lock();
            if inner.said.get(&event.id) == Some(&text) {
                return;
            }
            if inner.said.len() >= TRANSFERS_MAX {
                inner.said.clear();
            }
            inner.said.insert(event.id, text.clone());
        }
        self.add("transfer", &event.id.to_string(), Some(event.id), &text);
    }

    fn see_event(&self, event: &Event) {
        match event {
            Event::Status(status) | Event::Summary(status) => self.see_transfer(status),
            Event::Error(error) => {
                let text = error.problem.to_string();
                self.add("problem", &error.problem.code, Some(error.id), &text);
            }
        }
    }

    /// Takes note of a manager's transfers until that ends.
    pub(crate) fn follow_transfers(self: &Arc<Self>, manager: &Manager) {
        let (log, mut events) = (Arc::clone(self), manager.events());
        tokio::spawn(async move {
            loop {
                match events.recv().await {
                    Ok(event) => log.see_event(&event),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        });
    }
}

impl Inner {
    /// What is another than when the membership was last looked at, in words.
    fn changes(&mut self, now: &ClusterNow) -> Vec<Change> {
        let first = self.seen.is_none();
        let before = self.seen.take().unwrap_or_default();
        let seen = Seen {
            leader: now.leader.as_ref().map(|(card, revision)| (card.peer.clone(), *revision)),
            led: now.leader.as_ref().map(|(card, _)| card.peer.clone()).or(before.led.clone()),
            format: now.format,
            known: now.known.iter().map(|known| (known.peer.clone(), known.clone())).collect(),
            cards: now.peers.iter().map(|card| (card.peer.clone(), card.instance)).collect(),
            draining: now.draining.iter().map(|mark| mark.peer.clone()).collect(),
            trouble: now.trouble.clone(),
        };
        let mut changes = Vec::new();
        if !first {
            changes.extend(peer_changes(&before, &seen, &now.peers));
        }
        if before.leader != seen.leader {
            changes.push(match &seen.leader {
                Some((peer, revision)) => {
                    let instead = match before.led.as_ref().filter(|led| *led != peer) {
                        Some(led) => format!(
                            " in place of `{led}`: what that one guided goes on from its ledger"
                        ),
                        None => String::new(),
                    };
                    let text =
                        format!("peer `{peer}` is the controller, epoch {revision}{instead}");
                    ("controller", format!("{peer}#{revision}"), text)
                }
                None => {
                    let text = "no peer is the controller: nothing is finished until one is";
                    ("no-controller", String::new(), text.to_owned())
                }
            });
        }
        if before.format != 0 && before.format != seen.format {
            let (old, new) = (before.format, seen.format);
            let text = format!("the site's records are of format {new} from now on, not {old}");
            changes.push(("format", new.to_string(), text));
        }
        if before.trouble != seen.trouble {
            let text = match seen.trouble.as_str() {
                "" => "this peer takes part again".to_owned(),
                trouble => format!("this peer cannot take part: {trouble}"),
            };
            changes.push(("etcd", String::new(), text));
        }
        self.seen = Some(seen);
        changes
    }
}

fn peer_changes(before: &Seen, now: &Seen, cards: &[PeerCard]) -> Vec<Change> {
    let mut changes = Vec::new();
    for card in cards {
        let joined = match before.cards.get(&card.peer) {
            None => before.known.get(&card.peer).is_none_or(|known| {
                known.instance != card.instance || known.lost > 0 || known.left > 0
            }),
            Some(instance) => *instance != card.instance,
        };
        if joined {
            let text = format!("peer `{}` is there, version {}", card.peer, card.version);
            changes.push(("peer-joined", format!("{}#{}", card.peer, card.instance), text));
        }
    }
    for (peer, known) in &now.known {
        let old = before.known.get(peer);
        if known.lost > 0 && old.is_none_or(|old| old.lost == 0) {
            let text = format!(
                "peer `{peer}` is lost: its lease has ended without a word; the others go on \
                 without it"
            );
            changes.push(("peer-lost", format!("{peer}#{}", known.instance), text));
        }
        if known.left > 0 && old.is_none_or(|old| old.left == 0) {
            let text = format!("peer `{peer}` was ended in order");
            changes.push(("peer-left", format!("{peer}#{}", known.instance), text));
        }
    }
    for peer in now.draining.iter().filter(|peer| !before.draining.contains(peer)) {
        let text = format!("peer `{peer}` is draining: it gets no new work");
        changes.push(("drain", peer.to_string(), text));
    }
    for peer in before.draining.iter().filter(|peer| !now.draining.contains(peer)) {
        changes.push(("undrain", peer.to_string(), format!("peer `{peer}` takes work again")));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_api::cluster::{DrainMark, LeaderCard};

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

    /// Promise: who joins, leaves, is lost, leads and drains is told once each, with nothing told
    /// of what was so before the daemon began; and a daemon that starts again has it still.
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
