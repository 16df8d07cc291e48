//! Against a real etcd, which each test starts for itself.

use std::sync::atomic::{AtomicU64, Ordering};

use penstock_api::heads::{HeadCommit, HeadStore as _, LedgerHead, PageHead};
use penstock_proto::digest::Digest;
use penstock_proto::id::WriterId;

use super::*;
use crate::etcd::{Compare, EtcdConfig};
use crate::keys::incarnation_text;
use penstock_api::problem::ProblemCode;
use penstock_api::queue::QueueShare;

mod fences;

static NOW: AtomicU64 = AtomicU64::new(0);

/// A member of etcd, and the directory in which a site and its journal lie beside it.
struct Member {
    etcd: penstock_testkit::Etcd,
    directory: tempfile::TempDir,
}

impl Member {
    /// Starts a member of etcd; `None`, with a message, where etcd is not installed.
    fn start() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let etcd = penstock_testkit::Etcd::start(directory.path(), 1)?;
        Some(Self { etcd, directory })
    }

    fn client(&self) -> Arc<Etcd> {
        let http = reqwest::Client::builder();
        let config = EtcdConfig {
            endpoints: self.etcd.endpoints(),
            http: http.tls_backend_preconfigured(no_tls()).build().unwrap(),
            user: None,
            patience: Duration::from_secs(20),
        };
        let etcd = Etcd::new(config).unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while let Err(error) = etcd.grant(10, Duration::from_secs(1)) {
            if Instant::now() >= until {
                penstock_testkit::print_tail(&self.directory.path().join("etcd-0.log"), 20);
                panic!("etcd does not answer: {error}");
            }
        }
        Arc::new(etcd)
    }
}

/// Returns a TLS configuration that is not used: the member speaks plain HTTP.
fn no_tls() -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

fn elect(etcd: &Etcd, keys: &Keys) -> Arc<Tenure> {
    etcd.transact(&[], &[Operation::Put(keys.incarnation(), incarnation_text(5), 0)], ATTEMPT)
        .unwrap();
    elect_under(etcd, keys, 5)
}

/// Elects a leader whatever the journal has, with records that already have an incarnation.
fn elect_under(etcd: &Etcd, keys: &Keys, incarnation: u64) -> Arc<Tenure> {
    let (lease, seconds) = etcd.grant(60, ATTEMPT).unwrap();
    assert!(seconds >= 60);
    let key = keys.leader();
    let put = Operation::Put(key.clone(), b"me".to_vec(), lease);
    let answer = etcd.transact(&[Compare::Created(key, 0)], &[put], ATTEMPT).unwrap();
    assert!(answer.succeeded);
    Arc::new(Tenure::new(incarnation, answer.revision, || NOW.load(Ordering::Acquire)))
}

fn head(page: u32, complete: bool) -> PageHead {
    PageHead {
        page,
        digest: Digest([page as u8; 32]),
        log: 7,
        log_bytes: 10,
        complete,
        files: u64::MAX,
        bytes: 1,
        failures: 0,
        kept: 0,
        kept_bytes: 3,
        asks: page == 2,
    }
}

fn commit(pages: Vec<PageHead>) -> HeadCommit {
    HeadCommit { pages, durable: true, ..HeadCommit::default() }
}

/// B4, promise (h): of two controllers only the one whose key exists commits. The transaction of
/// the other is refused as a whole, which ends its controllership. Its successor has exactly the
/// committed records, including heads of complete pages from the file.
#[test]
fn b4_a_stale_epochs_transaction_is_refused() {
    let Some(member) = Member::start() else { return };
    let etcd = member.client();
    let keys = Keys::of(&"hpc".parse().unwrap());
    let journal = member.directory.path().join("shared/journal");
    let open = |tenure: &Arc<Tenure>, name: &str| {
        let cache = member.directory.path().join(name);
        let etcd = Arc::clone(&etcd);
        EtcdState::open(etcd, keys.clone(), Arc::clone(tenure), &cache, &journal).unwrap()
    };
    let id = TransferId([3; 16]);
    let first = elect(&etcd, &keys);
    let old = open(&first, "old.db");
    assert_eq!(old.load(id).unwrap(), LedgerHead::default());
    old.commit(id, &commit(vec![head(0, true), head(1, false), head(2, false)])).unwrap();
    let epochs = vec![(WriterId::SOLE, 4), (WriterId(u64::MAX), 7)];
    old.commit(id, &HeadCommit { epochs, ..commit(vec![head(1, true)]) }).unwrap();

    // Its lease ends while it does not look, and another is elected.
    etcd.transact(&[], &[Operation::Delete(keys.leader())], ATTEMPT).unwrap();
    let second = elect(&etcd, &keys);
    assert!(second.epoch() > first.epoch());
    let new = open(&second, "new.db");
    new.commit(id, &commit(vec![head(2, true)])).unwrap();

    assert!(first.holds(), "it does not know yet");
    let problem = old.commit(id, &commit(vec![head(9, true)])).unwrap_err();
    assert_eq!(problem.code, ProblemCode::NotController);
    assert!(!first.holds(), "it knows now");
    let pairing = Pairing {
        site: "lab".parse().unwrap(),
        ca: vec![1],
        capability_key: vec![2],
        addresses: Vec::new(),
        paired: 1,
        keys: 0,
        revoked: Vec::new(),
        told: 0,
    };
    assert!(old.pair(&pairing).is_err());

    new.pair(&pairing).unwrap();
    let share = |weight| QueueRule::Share(QueueShare { user: "anna".to_owned(), weight });
    new.put_queue_rule(&share(2)).unwrap();
    new.put_queue_rule(&share(3)).unwrap();
    let third = open(&second, "again.db");
    assert_eq!(third.pairings().unwrap(), vec![pairing]);
    assert_eq!(third.queue_rules().unwrap(), vec![share(3)]);
    third.remove_queue_rule(&share(3).key()).unwrap();
    assert_eq!(open(&second, "last.db").queue_rules().unwrap(), Vec::new());
    let loaded = third.load(id).unwrap();
    let expected = vec![head(0, true), head(1, true), head(2, true)];
    let epochs = [(WriterId::SOLE, 4), (WriterId(u64::MAX), 7)].into();
    assert_eq!((loaded.pages, loaded.epochs), (expected, epochs));
    third.remove(id).unwrap();
    assert_eq!(third.ledgers().unwrap(), Vec::new());
}

/// B4: a tenure whose time has passed commits nothing, though etcd has not noticed.
#[test]
fn b4_a_tenure_ends_by_the_clock() {
    let Some(member) = Member::start() else { return };
    let etcd = member.client();
    let keys = Keys::of(&"lab".parse().unwrap());
    let tenure = elect(&etcd, &keys);
    let cache = member.directory.path().join("cache.db");
    let journal = member.directory.path().join("journal");
    let state = EtcdState::open(etcd, keys, Arc::clone(&tenure), &cache, &journal).unwrap();
    let id = TransferId([4; 16]);
    state.commit(id, &commit(vec![head(0, false)])).unwrap();
    // The clock of the other test is at 0 as well: its tenures have no end.
    tenure.extend(0);
    let problem = state.commit(id, &commit(vec![head(0, true)])).unwrap_err();
    assert_eq!(problem.code, ProblemCode::NotController);
    tenure.extend(u64::MAX);
    assert!(!tenure.holds(), "what is over stays over");
}

/// E6: a value that is too long for etcd lies in the journal store, whole, and no file of an
/// earlier value stays.
#[test]
fn e6_long_values_go_to_the_journal_store() {
    let Some(member) = Member::start() else { return };
    let etcd = member.client();
    let keys = Keys::of(&"far".parse().unwrap());
    let tenure = elect(&etcd, &keys);
    let cache = member.directory.path().join("cache.db");
    let journal = member.directory.path().join("shared/journal");
    let open = || {
        let (etcd, tenure) = (Arc::clone(&etcd), Arc::clone(&tenure));
        EtcdState::open(etcd, keys.clone(), tenure, &cache, &journal).unwrap()
    };
    let state = open();
    let id = TransferId([5; 16]);
    for round in 0..3 {
        let pages = (0..2000).map(|page| PageHead { bytes: round, ..head(page, false) });
        state.commit(id, &commit(pages.collect())).unwrap();
    }
    let files = || fs::read_dir(journal.with_file_name("values")).unwrap().count();
    assert_eq!(files(), 1);
    drop(state);
    let state = open();
    let pages = state.load(id).unwrap().pages;
    assert!(pages.len() == 2000 && pages.iter().all(|page| page.bytes == 2));
    let (_, bytes) = etcd.written();
    assert!(bytes < 4096, "{bytes} bytes for three heads");
    state.remove(id).unwrap();
    assert_eq!(files(), 0);
}

/// B4: records that have gone back are recognized, however far joining and leaving peers raise the
/// revision of etcd as a whole. Records that have not gone back never count as such.
#[test]
fn b4_peers_that_come_and_go_do_not_bring_records_forward() {
    let Some(member) = Member::start() else { return };
    let etcd = member.client();
    let keys = Keys::of(&"back".parse().unwrap());
    let journal = member.directory.path().join("shared/journal");
    let shared = SharedJournal::new(journal.parent().unwrap());
    shared.set_mark(5).unwrap();
    let written = || {
        let answer = etcd.transact(&[], &[Operation::Get(keys.tail())], ATTEMPT).unwrap();
        answer.read[0].first().map_or(0, |tail| tail.written)
    };
    assert_eq!(written(), 0);
    shared.check(5, written()).unwrap();
    let tenure = elect(&etcd, &keys);
    let cache = member.directory.path().join("cache.db");
    let open = || {
        let (etcd, tenure) = (Arc::clone(&etcd), Arc::clone(&tenure));
        EtcdState::open(etcd, keys.clone(), tenure, &cache, &journal).unwrap()
    };
    let state = open();
    shared.check(5, written()).unwrap();
    let backup = written();
    state.commit(TransferId([6; 16]), &commit(vec![head(0, true)])).unwrap();
    for number in 0..20 {
        let card = Operation::Put(keys.at("peers/h1"), vec![number], 0);
        etcd.transact(&[], &[card], ATTEMPT).unwrap();
    }
    assert!(written() > backup, "each record moves it");
    shared.check(5, written()).unwrap();
    let why = shared.check(5, backup).unwrap_err();
    assert!(matches!(why, JournalError::EtcdIsOlder { .. }), "{why}");
    // The next controller's copy, which lists etcd at a later revision.
    drop(state);
    open();
    shared.check(5, written()).unwrap();
    shared.check(5, backup).unwrap_err();
}
