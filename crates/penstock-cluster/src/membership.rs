//! Peers of one site: membership, election, and the duration of a controllership.
//!
//! Each peer keeps a lease in etcd, and under it a card that describes the peer. A peer that finds
//! no leader's key makes it, under its lease. The revision at which the key was made is the epoch
//! of everything that this leader, the *controller*, does from then on ([`Tenure`]). One thread
//! does all of this and nothing else, so that no other work of the daemon delays the lease.
//!
//! A tenure holds for as long as the lease, less a tenth (B4). Its time is counted on
//! `CLOCK_BOOTTIME` from the *request* of the last keep-alive that succeeded. A host that was
//! suspended, or a process that was stopped, therefore finds its tenure over when it wakes, before
//! etcd can have let another peer lead. A tenure found to be over stays over, whatever etcd answers
//! later.
//!
//! Each transaction of a controller compares its key and the incarnation of the site's records. An
//! election also compares the incarnation, and checks that no host is changing it at that moment
//! ([`crate::state::recover`]). Facts that a peer has read earlier do not count.
//!
//! The site's records have a *format* ([`penstock_proto::version`]), which is stored beside them. A
//! peer stands for election only if it knows that format, and only if the format is still the same
//! when its key is made. The controller raises the format when every present peer has known the
//! next one for six lengths of the lease. Peers are upgraded one by one, each of them away for less
//! than that. As long as one peer has the older release, the others can return to it as well.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use penstock_api::access::Directory;
use penstock_api::cluster::{DrainMark, KnownPeer, LeaderCard, PeerCard};
use penstock_proto::id::Name;
use penstock_proto::version;
use tokio::sync::watch;

use crate::clock::now_seconds;
use crate::etcd::{Compare, Etcd, EtcdError, KeyValue, Operation};
use crate::keys::{Keys, incarnation_of, incarnation_text};
use crate::state::{JournalError, Pairing};
pub use crate::tenure::{Clock, Tenure, epoch_of};

mod drain;

/// A request of a peer to the journal store, which knows the incarnation of the records it belongs
/// to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Checks whether the peer may lead: it reaches the journal that the records belong to, and the
    /// records are not older than the journal's copy.
    Lead {
        /// Incarnation of the records.
        incarnation: u64,
        /// Revision of etcd at which one of them was written last.
        written: u64,
    },
    /// Makes it the journal of a site's first records, of this incarnation.
    Begin(u64),
    /// Withdraws that: the first records are of another incarnation.
    Withdraw(u64),
}

/// The reason why a peer may not use the journal store as requested.
#[derive(Debug, thiserror::Error)]
pub enum Ineligible {
    /// The journal forbids it, or cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A witness has no journal.
    #[error("this host only witnesses: it never leads")]
    Witness,
    /// The peer was elected a moment ago and failed.
    #[error("this peer could not begin as the controller: {0}")]
    JustFailed(String),
}

/// Makes a request to the journal store. Blocks on storage.
pub type Eligible = dyn Fn(Ask) -> Result<(), Ineligible> + Send;

/// The next format is taken when all peers have known it for so many lengths of the lease.
const SETTLE_LEASES: u64 = 6;

/// The configuration with which a peer joins.
pub struct ClusterConfig {
    /// The site.
    pub site: Name,
    /// The card of the peer.
    pub card: PeerCard,
    /// Length of the lease in seconds, for which others wait for a silent peer; etcd takes no less
    /// than 2.
    pub lease_seconds: u64,
    /// The clock.
    pub clock: Clock,
    /// Checks with the journal store whether this peer may lead.
    pub eligible: Box<Eligible>,
}

/// The site's peers, as this one saw them last.
#[derive(Clone, Debug, Default)]
pub struct ClusterNow {
    /// The leader, and the create revision of its key.
    pub leader: Option<(LeaderCard, u64)>,
    /// Incarnation of the site's records; 0 while it is not known.
    pub incarnation: u64,
    /// Format of the site's records; 0 while that is not known.
    pub format: u16,
    /// The own tenure, if this peer leads.
    pub tenure: Option<Arc<Tenure>>,
    /// Peers that are there.
    pub peers: Vec<PeerCard>,
    /// Peers that belong to the site, whether they are there or not.
    pub known: Vec<KnownPeer>,
    /// Peers that are to have no new work.
    pub draining: Vec<DrainMark>,
    /// Set if this peer leads and is draining, and another one may lead instead.
    pub gives_up: bool,
    /// Sites that are paired with this one.
    pub pairings: Vec<Pairing>,
    /// Users and tokens of the site.
    pub directory: Directory,
    /// The reason why this peer cannot take part; empty if there is none.
    pub trouble: String,
}

impl ClusterNow {
    /// Returns the peers that can take part: those that know the format of the site's records. A
    /// peer of too old a release is there, and can read neither pages nor logs.
    pub fn fit_peers(&self) -> impl Iterator<Item = &PeerCard> {
        self.peers.iter().filter(|peer| peer.formats.contains(self.format))
    }
}

/// The membership of this peer; ends with it.
pub struct Cluster {
    shared: Arc<Shared>,
    keys: Keys,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    etcd: Arc<Etcd>,
    now: watch::Sender<Arc<ClusterNow>>,
    card: Mutex<PeerCard>,
    stopping: Mutex<bool>,
    wake: Condvar,
    /// Set if the tenure must end: its runs have stopped.
    yields: AtomicBool,
    /// Time of the last round of the thread.
    moved: Mutex<Instant>,
}

impl Cluster {
    /// Starts the thread. It retries while etcd cannot be reached.
    ///
    /// # Errors
    /// There are no threads left.
    pub fn start(etcd: Arc<Etcd>, config: ClusterConfig) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            etcd,
            now: watch::channel(Arc::default()).0,
            card: Mutex::new(config.card),
            stopping: Mutex::new(false),
            wake: Condvar::new(),
            yields: AtomicBool::new(false),
            moved: Mutex::new(Instant::now()),
        });
        let keys = Keys::of(&config.site);
        let mut member = Member {
            shared: Arc::clone(&shared),
            keys,
            lease_seconds: config.lease_seconds,
            clock: config.clock,
            eligible: config.eligible,
            lease: None,
            tenure: None,
            told: None,
            ripe_since: None,
            leaderless: None,
            missing: BTreeMap::new(),
            begun: None,
        };
        let thread =
            std::thread::Builder::new().name("cluster".to_owned()).spawn(move || member.run())?;
        Ok(Self { shared, keys: Keys::of(&config.site), thread: Mutex::new(Some(thread)) })
    }

    /// Returns the site's peers, now and whenever that changes.
    pub fn watch(&self) -> watch::Receiver<Arc<ClusterNow>> {
        self.shared.now.subscribe()
    }

    /// Returns the time since the thread that keeps the lease began its last round.
    pub fn silence(&self) -> Duration {
        self.shared.moved.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Changes the card of this peer.
    pub fn update_card(&self, change: impl FnOnce(&mut PeerCard)) {
        change(&mut self.shared.card.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns the card of this peer.
    pub fn card(&self) -> PeerCard {
        self.shared.card.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Leaves: ends the tenure and the lease, so that another peer leads at once. Blocks for a
    /// round trip or two.
    pub fn stop(&self) {
        *self.shared.stopping.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.wake.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The thread never panics on purpose. If it did, its lease would end by itself.
            let _ = thread.join();
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A lease: its id, and until when it is good, counted from our request.
#[derive(Clone, Copy)]
struct Lease {
    id: u64,
    until: u64,
}

struct Member {
    shared: Arc<Shared>,
    keys: Keys,
    lease_seconds: u64,
    clock: Clock,
    eligible: Box<Eligible>,
    lease: Option<Lease>,
    tenure: Option<Arc<Tenure>>,
    /// The card as it is in etcd, under the lease.
    told: Option<(u64, PeerCard)>,
    /// Time since which all peers have known the next format, while this one leads.
    ripe_since: Option<u64>,
    /// Time on the clock since which there is no leader.
    leaderless: Option<u64>,
    /// Time on the clock since which peers have no card, though they have not announced that they
    /// leave.
    missing: BTreeMap<Name, u64>,
    /// The incarnation that this peer would have the site's first records be of, until it is known
    /// which one they are of.
    begun: Option<u64>,
}

impl Member {
    fn tick(&self) -> Duration {
        Duration::from_millis(self.lease_seconds * 1000 / 5).min(Duration::from_secs(1))
    }

    /// Returns the longest time that etcd may take for one answer.
    fn patience(&self) -> Duration {
        Duration::from_millis(self.lease_seconds * 1000 / 3)
    }

    /// Returns the wait before the next request after etcd did not answer. The wait is short: while
    /// etcd elects a leader of its own, the lease of this peer runs.
    fn pause(&self) -> Duration {
        self.tick() / 4
    }

    fn run(&mut self) {
        loop {
            *self.shared.moved.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            let stepped = self.step();
            let unanswered = matches!(stepped, Err(EtcdError::Unavailable(_)));
            let wait = if unanswered { self.pause() } else { self.tick() };
            if self.tenure.as_ref().is_some_and(|tenure| !tenure.holds()) {
                self.resign();
            }
            if let Err(error) = stepped {
                let trouble = error.to_string();
                let tenure = self.tenure.clone();
                self.shared.now.send_if_modified(|now| {
                    let changed =
                        now.trouble != trouble || now.tenure.is_some() != tenure.is_some();
                    *now = Arc::new(ClusterNow { trouble, tenure, ..(**now).clone() });
                    changed
                });
            }
            let stopping = self.shared.stopping.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self.shared.wake.wait_timeout_while(stopping, wait, |stop| !*stop);
            if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                break;
            }
        }
        if let Some(tenure) = self.tenure.take() {
            tenure.end();
        }
        if let Some(lease) = self.lease.take() {
            self.tell_leaving();
            // Else it ends by itself.
            let _ = self.shared.etcd.revoke(lease.id, self.patience());
        }
    }

    /// Ends the tenure: removes its key, so that a controller is elected again.
    fn resign(&mut self) {
        let Some(tenure) = self.tenure.take() else { return };
        tenure.end();
        tracing::warn!(epoch = tenure.epoch(), "this peer is no longer the controller");
        self.told = None;
        if let Some(lease) = self.lease.take() {
            // If etcd is out of reach the lease ends by itself.
            let _ = self.shared.etcd.revoke(lease.id, self.patience());
        }
    }

    fn step(&mut self) -> Result<(), EtcdError> {
        let lease = self.keep_lease()?;
        let seen = self.look()?;
        self.tell_card(lease)?;
        let incarnation = match seen.incarnation {
            0 => return self.begin_incarnation(),
            known => known,
        };
        self.settle(incarnation);
        if self.tenure.as_ref().is_some_and(|tenure| tenure.incarnation() != incarnation) {
            tracing::warn!(
                "the records of the site have another incarnation; this peer is no \
                            longer the controller"
            );
            self.resign();
            return Ok(());
        }
        let mut leader = seen.leader.clone();
        let own = self.tenure.as_ref().map(|tenure| tenure.revision());
        if own.is_some() && own != leader.as_ref().map(|(_, revision)| *revision) {
            tracing::warn!("another peer leads, or none; this peer is no longer the controller");
            self.resign();
            return Ok(());
        }
        if self.shared.yields.swap(false, Ordering::AcqRel) && own.is_some() {
            return self.step_down();
        }
        self.miss_peers(&seen)?;
        let mut trouble = unfit(seen.format).unwrap_or_default();
        if !trouble.is_empty() {
            // The peer could not read the records with which it would have to continue.
        } else if leader.is_none() {
            (leader, trouble) = self.try_to_lead(incarnation, lease, &seen)?;
        } else if own.is_none() && leader.as_ref().is_some_and(|(card, _)| self.is_own(card)) {
            // A tenure of ours that we know nothing of: an answer was lost on the way.
            let _ = self.shared.etcd.revoke(lease.id, self.patience());
            self.lease = None;
            return Ok(());
        }
        let format = self.raise_format(&seen)?;
        let gives_up = self.gives_up(&seen);
        let draining = seen.draining.into_iter().map(|(mark, _)| mark).collect();
        let now = ClusterNow {
            leader,
            incarnation,
            format,
            tenure: self.tenure.clone(),
            peers: seen.peers,
            known: seen.known,
            draining,
            gives_up,
            pairings: seen.pairings,
            directory: seen.directory,
            trouble,
        };
        self.shared.now.send_if_modified(|before| {
            let changed = !is_same(before, &now);
            *before = Arc::new(now);
            changed
        });
        Ok(())
    }

    fn is_own(&self, leader: &LeaderCard) -> bool {
        let card = self.shared.card.lock().unwrap_or_else(PoisonError::into_inner);
        leader.peer == card.peer && leader.instance == card.instance
    }

    /// Gets a lease, or keeps the one that there is.
    fn keep_lease(&mut self) -> Result<Lease, EtcdError> {
        let asked = (self.clock)();
        let (id, seconds) = match self.lease {
            Some(lease) => (lease.id, self.shared.etcd.keep_alive(lease.id, self.patience())?),
            None => self.shared.etcd.grant(self.lease_seconds, self.patience())?,
        };
        if seconds == 0 {
            self.lease = None;
            if let Some(tenure) = self.tenure.take() {
                tenure.end();
            }
            self.told = None;
            return Err(EtcdError::Refused("the lease of this peer has ended".to_owned()));
        }
        // A tenth less, for clocks that do not run alike.
        let lease = Lease { id, until: asked + seconds * 900_000_000 };
        self.lease = Some(lease);
        if let Some(tenure) = &self.tenure {
            tenure.extend(lease.until);
        }
        Ok(lease)
    }

    fn look(&self) -> Result<Seen, EtcdError> {
        let gets = [
            Operation::Get(self.keys.leader()),
            Operation::Get(self.keys.incarnation()),
            Operation::Get(self.keys.recovering()),
            Operation::Get(self.keys.format()),
            Operation::Get(self.keys.tail()),
            Operation::GetPrefix(self.keys.at("peers/")),
            Operation::GetPrefix(self.keys.at("pairings/")),
            Operation::GetPrefix(self.keys.at("known/")),
            Operation::GetPrefix(self.keys.at("draining/")),
            Operation::GetPrefix(self.keys.at("users/")),
            Operation::GetPrefix(self.keys.at("tokens/")),
            Operation::GetPrefix(self.keys.at("sessions/")),
        ];
        let answer = self.shared.etcd.transact(&[], &gets, self.patience())?;
        let mut read = answer.read.into_iter();
        let mut next = || read.next().unwrap_or_default();
        let leader = next().into_iter().next();
        let leader = leader.map(|found| Ok((parse(&found)?, found.created))).transpose()?;
        let incarnation = next().first().map_or(0, |found| incarnation_of(&found.value));
        let is_recovering = !next().is_empty();
        let key = self.keys.format();
        let (format, format_is) = match next().into_iter().next() {
            Some(found) => (parse(&found)?, Compare::Value(key, found.value)),
            None => (version::known().formats().oldest, Compare::Created(key, 0)),
        };
        let written = next().first().map_or(0, |tail| tail.written);
        let cards: Vec<_> = next().iter().map(parse).collect();
        let all_read = cards.iter().all(Result::is_ok);
        let readable = |card: Result<PeerCard, EtcdError>| {
            card.inspect_err(|error| tracing::warn!(%error, "a peer's card cannot be read")).ok()
        };
        let peers = cards.into_iter().filter_map(readable).collect();
        let pairings = next().iter().map(parse).collect::<Result<_, _>>()?;
        let known = next().iter().map(parse).collect::<Result<_, _>>()?;
        let mark = |found: &KeyValue| Ok((parse(found)?, found.created));
        let draining = next().iter().map(mark).collect::<Result<_, _>>()?;
        let users = next().iter().filter_map(principal).collect();
        let tokens = next().iter().filter_map(principal).collect();
        let sessions = next().iter().filter_map(principal).collect();
        Ok(Seen {
            directory: Directory::new(users, tokens, sessions),
            leader,
            incarnation,
            is_recovering,
            written,
            format,
            format_is,
            peers,
            all_read,
            known,
            draining,
            pairings,
        })
    }

    /// Publishes the card of this peer, if it has not been published under this lease.
    fn tell_card(&mut self, lease: Lease) -> Result<(), EtcdError> {
        let card = self.shared.card.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if self.told.as_ref().is_some_and(|(id, told)| *id == lease.id && *told == card) {
            return Ok(());
        }
        let key = self.keys.at(&format!("peers/{}", card.peer));
        let mut puts = vec![Operation::Put(key, value_of(&card)?, lease.id)];
        if self.told.as_ref().is_none_or(|(id, _)| *id != lease.id) {
            puts.push(self.known_put(&card, false)?);
        }
        self.shared.etcd.transact(&[], &puts, self.patience())?;
        self.told = Some((lease.id, card));
        Ok(())
    }

    /// Sets the incarnation of the records, as the first peer of a site. The journal belongs to
    /// them before etcd has the incarnation. A peer that dies in between leaves a mark in the
    /// journal without a reference to it. The other order would leave records with which no peer
    /// may lead.
    fn begin_incarnation(&mut self) -> Result<(), EtcdError> {
        // The 24 bits of it that epochs hold have room to count up: see `state::recover`.
        let random = || (rand::random::<u64>() & !0x80_0000).max(1);
        let incarnation = *self.begun.get_or_insert_with(random);
        let begun = (self.eligible)(Ask::Begin(incarnation));
        begun.map_err(|why| EtcdError::Refused(why.to_string()))?;
        let key = self.keys.incarnation();
        let puts = [
            Operation::Put(key.clone(), incarnation_text(incarnation), 0),
            Operation::Put(self.keys.format(), value_of(&version::known().formats().newest)?, 0),
        ];
        self.shared.etcd.transact(&[Compare::Created(key, 0)], &puts, self.patience()).map(drop)
    }

    /// Withdraws this peer's mark in the journal if another peer began the records.
    fn settle(&mut self, incarnation: u64) {
        let Some(begun) = self.begun.take().filter(|begun| *begun != incarnation) else { return };
        if let Err(why) = (self.eligible)(Ask::Withdraw(begun)) {
            // No record refers to the mark.
            tracing::debug!(%why, "a mark of this peer stays in the journal");
        }
    }

    /// Raises the format of the site's records if this peer leads and all present peers have known
    /// the next one for long enough. Returns the format that counts now.
    fn raise_format(&mut self, seen: &Seen) -> Result<u16, EtcdError> {
        let (format, next) = (seen.format, seen.format + 1);
        let known = version::known().formats().contains(next)
            && seen.all_read
            && seen.peers.iter().all(|peer| peer.formats.contains(next));
        let Some(tenure) = self.tenure.clone().filter(|_| known) else {
            self.ripe_since = None;
            return Ok(format);
        };
        let now = (self.clock)();
        let since = *self.ripe_since.get_or_insert(now);
        if now.saturating_sub(since) < SETTLE_LEASES * self.lease_seconds * 1_000_000_000 {
            return Ok(format);
        }
        let [leads, is_same] = tenure.stands(&self.keys);
        let put = Operation::Put(self.keys.format(), value_of(&next)?, 0);
        let compare = [leads, is_same, seen.format_is.clone()];
        if !self.shared.etcd.transact(&compare, &[put], self.patience())?.succeeded {
            return Ok(format);
        }
        tracing::info!(
            format = next,
            "all peers know it: the site's records are of it from now on"
        );
        self.ripe_since = None;
        tenure.set_format(next);
        Ok(next)
    }

    /// Stands for election, when there is no leader, if this peer may. Returns the leader, or the
    /// reason why this peer cannot stand.
    fn try_to_lead(
        &mut self,
        incarnation: u64,
        lease: Lease,
        seen: &Seen,
    ) -> Result<(Option<(LeaderCard, u64)>, String), EtcdError> {
        if seen.is_recovering {
            let why = "the site's records are being recovered; if that was cut short, `penstock \
                       site recover` finishes it";
            return Ok((None, why.to_owned()));
        }
        if !self.may_stand(seen) {
            return Ok((None, String::new()));
        }
        match (self.eligible)(Ask::Lead { incarnation, written: seen.written }) {
            Ok(()) => Ok((self.stand(incarnation, lease, seen)?, String::new())),
            Err(why) => Ok((None, why.to_string())),
        }
    }

    /// Stands for election.
    fn stand(
        &mut self,
        incarnation: u64,
        lease: Lease,
        seen: &Seen,
    ) -> Result<Option<(LeaderCard, u64)>, EtcdError> {
        let card = self.shared.card.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let leader = LeaderCard {
            peer: card.peer,
            instance: card.instance,
            addresses: card.addresses,
            since: now_seconds(),
        };
        let key = self.keys.leader();
        let put = Operation::Put(key.clone(), value_of(&leader)?, lease.id);
        let compare = [
            Compare::Created(key, 0),
            Compare::Created(self.keys.recovering(), 0),
            self.keys.incarnation_is(incarnation),
            seen.format_is.clone(),
        ];
        let stood = self.shared.etcd.transact(&compare, &[put], self.patience())?;
        if !stood.succeeded {
            return Ok(None);
        }
        let tenure = Tenure::new(incarnation, stood.revision, self.clock);
        tenure.set_format(seen.format);
        tenure.extend(lease.until);
        tracing::info!(epoch = tenure.epoch(), "this peer is the controller of its site");
        self.tenure = Some(Arc::new(tenure));
        Ok(Some((leader, stood.revision)))
    }
}

struct Seen {
    leader: Option<(LeaderCard, u64)>,
    incarnation: u64,
    /// Set while a host changes the incarnation of the records.
    is_recovering: bool,
    /// Revision at which a record was written last; 0 if none ever was.
    written: u64,
    format: u16,
    /// The comparison that the format is unchanged.
    format_is: Compare,
    peers: Vec<PeerCard>,
    /// Set if the cards of all present peers could be read.
    all_read: bool,
    known: Vec<KnownPeer>,
    /// Draining peers, with the revisions at which the marks were made.
    draining: Vec<(DrainMark, u64)>,
    pairings: Vec<Pairing>,
    directory: Directory,
}

/// Returns the reason why this release cannot take part in a site whose records have this format.
fn unfit(format: u16) -> Option<String> {
    let known = version::known().formats();
    (!known.contains(format)).then(|| {
        let other = if format > known.newest { "newer" } else { "older" };
        format!(
            "the site's records are of format {format}, and this release of penstock knows \
             {known}: install the {other} release that the other peers have"
        )
    })
}

fn is_same(before: &ClusterNow, now: &ClusterNow) -> bool {
    let epoch = |now: &ClusterNow| now.tenure.as_ref().map(|tenure| tenure.epoch());
    before.leader == now.leader
        && before.incarnation == now.incarnation
        && before.format == now.format
        && epoch(before) == epoch(now)
        && before.peers == now.peers
        && before.known == now.known
        && before.draining == now.draining
        && before.gives_up == now.gives_up
        && before.pairings == now.pairings
        && before.directory == now.directory
        && before.trouble == now.trouble
}

/// Returns a user, a token or a session; one that this release cannot read has no rights at this
/// peer.
fn principal<T: serde::de::DeserializeOwned>(found: &KeyValue) -> Option<T> {
    let read = parse(found);
    let log = |error: &EtcdError| tracing::warn!(%error, "credentials cannot be read");
    read.inspect_err(log).ok()
}

fn value_of(value: &impl serde::Serialize) -> Result<Vec<u8>, EtcdError> {
    serde_json::to_vec(value).map_err(|error| EtcdError::Answer(error.to_string()))
}

fn parse<T: serde::de::DeserializeOwned>(found: &KeyValue) -> Result<T, EtcdError> {
    serde_json::from_slice(&found.value)
        .map_err(|error| EtcdError::Answer(format!("{}: {error}", found.key)))
}
