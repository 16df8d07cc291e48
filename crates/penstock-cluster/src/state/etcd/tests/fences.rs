//! Fences between two controllers, and between two recoveries of one site.

use std::time::SystemTime;

use penstock_api::cluster::PeerCard;
use penstock_proto::version;

use super::super::recover::Claim;
use super::*;
use crate::keys::incarnation_text;
use crate::membership::{Ask, Cluster, ClusterConfig, ClusterNow, Ineligible};

/// The longest time that a step may take on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// A site's etcd and journal.
#[derive(Clone)]
struct Place {
    root: PathBuf,
    etcd: Arc<Etcd>,
    keys: Keys,
    journal: SharedJournal,
}

impl Place {
    /// Returns a place with its member of etcd.
    fn start() -> Option<(Member, Self)> {
        let member = Member::start()?;
        let root = member.directory.path().to_owned();
        let (etcd, keys) = (member.client(), Keys::of(&"hpc".parse().unwrap()));
        let journal = SharedJournal::new(&root.join("shared"));
        Some((member, Self { root, etcd, keys, journal }))
    }

    fn open(&self, tenure: &Arc<Tenure>, name: &str) -> EtcdState {
        let (etcd, keys) = (Arc::clone(&self.etcd), self.keys.clone());
        let (cache, journal) = (self.root.join(name), self.root.join("shared/journal"));
        EtcdState::open(etcd, keys, Arc::clone(tenure), &cache, &journal).unwrap()
    }

    fn recover(&self, fenced: Option<u64>) -> Result<Recovered, RecoverError> {
        recover(&self.etcd, &self.keys, &self.journal, fenced)
    }

    fn claim(&self) -> Claim<'_> {
        Claim::make(&self.etcd, &self.keys, &self.journal, None).unwrap()
    }

    fn put(&self, key: String, value: Vec<u8>) {
        self.etcd.transact(&[], &[Operation::Put(key, value, 0)], ATTEMPT).unwrap();
    }

    fn delete(&self, key: String) {
        self.etcd.transact(&[], &[Operation::Delete(key)], ATTEMPT).unwrap();
    }

    fn get(&self, key: String) -> Option<Vec<u8>> {
        let answer = self.etcd.transact(&[], &[Operation::Get(key)], ATTEMPT).unwrap();
        answer.read[0].first().map(|found| found.value.clone())
    }

    /// Returns a peer that asks the journal as daemons do, and then calls `also`.
    fn join(&self, also: impl Fn(&Self, Ask) + Send + 'static) -> Cluster {
        let place = self.clone();
        let eligible = move |ask| {
            let answer = match ask {
                Ask::Lead { incarnation, written } => place.journal.check(incarnation, written),
                Ask::Begin(incarnation) => place.journal.begin(incarnation),
                Ask::Withdraw(incarnation) => place.journal.withdraw(incarnation),
            };
            also(&place, ask);
            answer.map_err(Ineligible::from)
        };
        let config = ClusterConfig {
            site: "hpc".parse().unwrap(),
            card: card(),
            lease_seconds: 10,
            clock: || SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64,
            eligible: Box::new(eligible),
        };
        Cluster::start(Arc::clone(&self.etcd), config).unwrap()
    }
}

fn card() -> PeerCard {
    PeerCard {
        peer: "h1".parse().unwrap(),
        instance: 1,
        addresses: Vec::new(),
        data: Vec::new(),
        version: String::new(),
        protocol: 1,
        formats: version::known().formats(),
        boot: String::new(),
        stores: Vec::new(),
        running: 0,
        since: 1,
        key: String::new(),
        keys_at: Vec::new(),
    }
}

/// Returns the state of the peers once `is` holds of it; the peers look once a second.
fn seen(cluster: &Cluster, what: &str, is: impl Fn(&ClusterNow) -> bool) -> Arc<ClusterNow> {
    let (watch, until) = (cluster.watch(), Instant::now() + PATIENCE);
    loop {
        let now = Arc::clone(&watch.borrow());
        if is(&now) {
            return now;
        }
        assert!(Instant::now() < until, "waited in vain: {what}; {now:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// B4: the incarnation of the records may change before the key of an eligible peer exists. Such a
/// peer is not elected with the earlier incarnation, nor during the change.
#[test]
fn b4_an_election_is_void_once_the_records_are_others() {
    let Some((_member, place)) = Place::start() else { return };
    let recovered = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&recovered);
    let cluster = place.join(move |place, ask| {
        if let Ask::Lead { incarnation, .. } = ask
            && told.load(Ordering::Acquire) == 0
        {
            // At the first request the recovery has come this far; at the second it has ended.
            let claim = place.claim();
            told.store(incarnation, Ordering::Release);
            assert_eq!(claim.next, incarnation + 1);
        }
    });
    seen(&cluster, "a recovery", |now| now.trouble.contains("being recovered"));
    let old = recovered.load(Ordering::Acquire);
    assert_eq!(place.get(place.keys.leader()), None);
    cluster.stop();
    drop(cluster);
    let done = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&done);
    place.delete(place.keys.recovering());
    let cluster = place.join(move |place, ask| {
        if matches!(ask, Ask::Lead { .. }) && told.load(Ordering::Acquire) == 0 {
            let recovered = place.recover(None).unwrap();
            told.store(recovered.incarnation, Ordering::Release);
        }
    });
    let first = seen(&cluster, "an election", |now| now.tenure.is_some());
    assert_eq!((done.load(Ordering::Acquire), first.incarnation), (old + 1, old + 1));
    let tenure = first.tenure.clone().unwrap();
    assert_eq!(tenure.epoch() >> 40, (old + 1) & 0xff_ffff, "not one of the incarnation before");
}

/// B4: a controller whose records are of another incarnation writes nothing, although its key
/// exists.
#[test]
fn b4_a_controller_of_another_incarnation_writes_nothing() {
    let Some((_member, place)) = Place::start() else { return };
    let tenure = elect(&place.etcd, &place.keys);
    let state = place.open(&tenure, "one.db");
    let id = TransferId([7; 16]);
    state.commit(id, &commit(vec![head(0, false)])).unwrap();
    place.put(place.keys.incarnation(), incarnation_text(6));
    let problem = state.commit(id, &commit(vec![head(1, false)])).unwrap_err();
    assert_eq!(problem.code, ProblemCode::NotController);
    assert!(!tenure.holds(), "it knows now");
}

/// B4: of two recoveries of one site the slower one changes nothing from the start of the other on:
/// neither the records, nor the later leader. The journal stays the other's.
#[test]
fn b4_the_slower_of_two_recoveries_changes_nothing() {
    let Some((_member, place)) = Place::start() else { return };
    place.journal.set_mark(5).unwrap();
    let before = elect(&place.etcd, &place.keys);
    let state = place.open(&before, "one.db");
    let id = TransferId([8; 16]);
    state.commit(id, &commit(vec![head(0, true)])).unwrap();
    assert!(matches!(place.recover(None), Err(RecoverError::Led(_))));
    // Records that have gone back: those of the journal are to be written.
    let key = place.keys.at(&format!("heads/{id}"));
    let record = place.get(key.clone()).unwrap();
    place.delete(key.clone());
    place.delete(place.keys.leader());
    place.delete(place.keys.tail());
    let (late, slow) = (place.claim(), place.claim());
    assert!(slow.take(&place.journal, None).unwrap());
    let done = place.recover(None).unwrap();
    assert_eq!(done, Recovered { incarnation: 7, transfers: 0, from_journal: true });
    assert_eq!(place.get(key.clone()), Some(record));
    let after = elect_under(&place.etcd, &place.keys, 7);
    let state = place.open(&after, "two.db");
    state.commit(id, &commit(vec![head(1, true)])).unwrap();
    let record = place.get(key.clone());
    assert!(!late.take(&place.journal, None).unwrap(), "what it would take is of the past");
    for claim in [slow, late] {
        assert!(matches!(claim.finish(&place.journal), Err(RecoverError::Superseded)));
    }
    assert_eq!(place.get(key), record);
    assert_eq!(place.journal.marks().unwrap(), vec![7]);
    state.commit(id, &commit(vec![head(2, true)])).unwrap();
}

/// B4: a takeover claims the journal before it changes etcd: no peer is elected with the earlier
/// records, whatever step fails then. The takeover succeeds although the lost host's key exists. It
/// fails once another host has taken the journal.
#[test]
fn b4_a_takeover_has_the_journal_before_it_has_etcd() {
    let Some((_member, place)) = Place::start() else { return };
    place.journal.set_mark(5).unwrap();
    let tenure = elect(&place.etcd, &place.keys);
    drop(place.open(&tenure, "one.db"));
    let cut_short = || is_cut_short(&place.etcd, &place.keys, &place.journal).unwrap();
    assert!(!cut_short());
    let taken = place.journal.take_next(5).unwrap();
    assert_eq!(taken, Some(6));
    assert!(cut_short());
    place.journal.check(5, u64::MAX).unwrap_err();
    assert!(!place.journal.beat(5).unwrap(), "whoever is fenced and is not learns of it");
    let other = place.journal.take_next(5).unwrap();
    assert!(matches!(place.recover(taken), Err(RecoverError::Superseded)));
    assert!(place.get(place.keys.leader()).is_some(), "untouched");
    assert_eq!(place.recover(other).unwrap().incarnation, 7);
    assert_eq!(place.get(place.keys.leader()), None);
    assert!(!cut_short());
    place.journal.check(7, 1).unwrap();
}

/// B4: of two peers that start a site at once, one sets the incarnation of its records; the other
/// leaves no file of its own in the journal.
#[test]
fn b4_who_begins_a_site_second_withdraws() {
    let Some((_member, place)) = Place::start() else { return };
    const OTHER: u64 = 0x77;
    let withdrawn = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&withdrawn);
    let cluster = place.join(move |place, ask| match ask {
        Ask::Begin(_) => {
            place.journal.begin(OTHER).unwrap();
            place.put(place.keys.incarnation(), incarnation_text(OTHER));
        }
        Ask::Withdraw(incarnation) => told.store(incarnation, Ordering::Release),
        Ask::Lead { .. } => {}
    });
    let now = seen(&cluster, "an election", |now| now.tenure.is_some());
    assert_eq!(now.incarnation, OTHER);
    assert_ne!(withdrawn.load(Ordering::Acquire), 0);
    assert_eq!(place.journal.marks().unwrap(), vec![OTHER]);
}
