//! Keys on disk through crashes, and statements by sites without that right.

use super::*;

fn peer() -> PeerId {
    PeerId { site: "lab".parse().unwrap(), peer: "dtn1".parse().unwrap() }
}

fn keys() -> OwnKeys {
    OwnKeys::of(SiteAuthority::create("lab".parse().unwrap()).unwrap())
}

fn pairing_with(keys: &OwnKeys) -> Pairing {
    Pairing {
        site: "lab".parse().unwrap(),
        ca: keys.authority.certificate().to_vec(),
        capability_key: Vec::new(),
        addresses: Vec::new(),
        paired: 1,
        keys: 0,
        revoked: Vec::new(),
        told: 0,
    }
}

/// Promise: a commit that is cut short after any of its steps is completed at the next start: all
/// keys are the new ones, and fit each other. Keys that were staged alone are not taken.
#[test]
fn a_commit_that_is_cut_short_is_completed() {
    let steps = SHARED.len() + 2;
    for cut in 0..=steps {
        let directory = tempfile::tempdir().unwrap();
        let trust = directory.path();
        let first = keys();
        first.authority.save(trust).unwrap();
        first.authority.issue_peer(&peer()).unwrap().save(trust).unwrap();
        let next = first.next(None, 5).unwrap();
        next.stage(trust, &peer()).unwrap();
        let loaded = OwnKeys::load(trust).unwrap();
        assert_eq!(loaded.sequence(), 0, "staged is not committed");
        let (staged, issued) = OwnKeys::load_staged(trust).unwrap().unwrap();
        assert_eq!(
            (staged.sequence(), issued.authority()),
            (1, next.authority.certificate().clone())
        );
        let committed = trust.join(COMMITTED);
        fs::rename(trust.join(NEXT), &committed).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(&committed).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort_by_key(|name| name == STATEMENTS);
        assert_eq!(names.len(), steps);
        for name in &names[..cut] {
            fs::rename(committed.join(name), trust.join(name)).unwrap();
        }
        let loaded = OwnKeys::load(trust).unwrap();
        assert_eq!(loaded.sequence(), 1, "cut after {cut} steps");
        assert_eq!(loaded.authority.fingerprint(), next.authority.fingerprint());
        let identity = PeerCertificate::load(trust).unwrap();
        assert_eq!(identity.authority(), *next.authority.certificate());
        assert!(!committed.exists());
    }
}

/// Promise: a capability by the key before is good for as long as one lasts, and no longer.
#[test]
fn c4_a_retired_capability_key_lasts_as_long_as_a_capability() {
    let first = keys();
    let old = first.authority.capability_key().public_key();
    let next = first.next(None, 1000).unwrap();
    let good = |now| next.capability_keys(now).any(|key| key == old);
    assert!(good(1000) && good(1000 + CAPABILITY_SECONDS - 1));
    assert!(!good(1000 + CAPABILITY_SECONDS));
}

/// D4: a site follows its statements one after the other, and takes none that is altered, of
/// another authority, out of turn, or another one with a number that was accepted.
#[test]
fn d4_statements_are_followed_in_turn_and_by_the_pin_alone() {
    let first = keys();
    let lost = RevokedKey { peer: "h2".parse().unwrap(), key: "ab".repeat(32) };
    let second = first.next(Some(lost.clone()), 5).unwrap();
    let third = second.next(None, 6).unwrap();
    let start = pairing_with(&first);
    let followed = follow(&start, &third.statements_after(0)).unwrap().unwrap();
    assert_eq!((followed.keys, &followed.revoked), (2, &vec![lost.key.clone()]));
    assert_eq!(followed.ca, third.authority.certificate().to_vec());
    assert_eq!(follow(&followed, &third.statements_after(0)).unwrap(), None, "it is known");
    // Out of turn.
    assert!(follow(&start, &third.statements_after(1)).is_err());
    // Another one with the same number.
    let other = first.next(None, 7).unwrap();
    let followed = follow(&start, &second.statements_after(0)).unwrap().unwrap();
    assert!(follow(&followed, &other.statements_after(0)).unwrap_err().title.contains("two sets"));
    // Keys of another authority, or altered ones.
    let foreign = keys().next(None, 5).unwrap();
    assert!(follow(&start, &foreign.statements_after(0)).is_err());
    let mut altered = second.statements_after(0);
    altered.statements[0].statement =
        altered.statements[0].statement.replace("\"made\":5", "\"made\":6");
    assert!(follow(&start, &altered).is_err());
    // The new authority has not signed.
    let mut half = second.statements_after(0);
    let by_previous = half.statements[0].by_previous.clone();
    half.statements[0].by_new = by_previous;
    assert!(follow(&start, &half).is_err());
    // More than a site keeps.
    let mut many = second.statements_after(0);
    many.statements = vec![many.statements[0].clone(); LINKS_MAX + 1];
    assert!(follow(&start, &many).unwrap_err().title.contains("too much"));
    // A list that is too long.
    let key = |at: u32| RevokedKey { peer: "h2".parse().unwrap(), key: format!("{at:064x}") };
    let long = OwnKeys { revoked: (0..1500).map(key).collect(), ..keys() };
    let start = pairing_with(&long);
    let followed =
        follow(&start, &long.next(None, 5).unwrap().statements_after(0)).unwrap().unwrap();
    assert_eq!(followed.revoked.len(), REVOKED_MAX);
    assert_eq!(followed.revoked.last(), Some(&format!("{:064x}", 1499)));
}
