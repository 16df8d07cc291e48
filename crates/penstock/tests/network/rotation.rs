//! Other keys for a site, while it works: what the old ones open afterwards, and what goes on.

use std::fs;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use penstock_net::trust::{PeerCertificate, Purpose, SiteAuthority};
use penstock_testkit::{
    ProxiedPair, Scratch, Wait, assert_same_files, make_set, penstock, seed, tls, told,
};
use rustls::ClientConfig;
use serde_json::{Value, json};

use crate::doors::{CUT_MAX, FOR_PAIRED, Kept, sites};

/// A statement that `by` is followed by `next`, as the body of a request.
fn statement(by: &SiteAuthority, next: &SiteAuthority, sequence: u64) -> String {
    let text = json!({
        "site": by.site().as_str(), "sequence": sequence, "made": 1, "revoked": [],
        "previous": HEXLOWER.encode(by.certificate()),
        "authority": HEXLOWER.encode(next.certificate()),
        "previous_capability_key": HEXLOWER.encode(&by.capability_key().public_key()),
        "capability_key": HEXLOWER.encode(&next.capability_key().public_key()),
    });
    let text = text.to_string();
    let signed = |by: &SiteAuthority| HEXLOWER.encode(&by.sign_keys(text.as_bytes()).unwrap());
    let signed = json!({ "by_previous": signed(by), "by_new": signed(next), "statement": text });
    json!({ "statements": [signed] }).to_string()
}

/// D4: a site replaces its authority while its transfers run. The paired site hears of it within
/// seconds and cuts what the old keys have opened; they open nothing more, sign no certificate and
/// no further statement. Transfers go on in both directions, and receipts of before still check.
#[test]
fn d4_a_rotation_shuts_the_old_keys_out_and_stops_no_transfer() {
    let world = ProxiedPair::start();
    let (a, b) = (&world.a, &world.b);
    make_set(&a.store.join("small"), 1, 5, seed());
    let before = b.submit(&["a:data/small/", "b:data/small"]);
    b.wait_done(&before);
    let receipt = world.root.path().join("before.json");
    fs::write(&receipt, b.ok(&["transfer", "receipt", &before])).unwrap();
    make_set(&a.store.join("src"), 24, 50, seed());
    make_set(&b.store.join("src"), 24, 50, seed());
    world.proxy_a.set_rate(Some(8e6));
    world.proxy_b.set_rate(Some(8e6));
    let there = b.submit(&["a:data/src/", "b:data/dst"]);
    let back = a.submit(&["b:data/src/", "a:data/dst"]);
    let moves = |view: &Value| view["progress"]["bytes_verified"].as_u64() > Some(0);
    b.show_until(&there, moves);
    a.show_until(&back, moves);
    let thief = world.root.path().join("thief");
    a.copy_trust(&thief);
    let old = tls(&PeerCertificate::load(&thief).unwrap(), b, Purpose::SiteApi);
    let address = world.proxy_b.upstream();
    let mut standing = Kept::open(&old, address).unwrap();
    assert_eq!(standing.get(FOR_PAIRED).unwrap(), 200);
    let said = a.ok(&["site", "rotate"]);
    let took = standing.until_cut();
    println!("cut after {took:?}");
    assert!(took < CUT_MAX);
    let new = a.listed("a")["fingerprint"].as_str().unwrap().to_owned();
    assert_eq!(said.trim(), format!("fingerprint {new}"));
    assert_eq!(b.listed("a")["fingerprint"], *new);
    assert_eq!(a.listed("b")["unheard"], false);
    let refused = |config: &Arc<ClientConfig>| {
        Kept::open(config, address).and_then(|mut kept| kept.get(FOR_PAIRED)).is_err()
    };
    assert!(refused(&old), "the old certificate is accepted");
    let authority = SiteAuthority::load(&thief).unwrap();
    let identity = PeerCertificate::load(&thief).unwrap();
    let issued = authority.issue_peer(identity.peer()).unwrap();
    assert!(refused(&tls(&issued, b, Purpose::SiteApi)), "the old authority still issues");
    let ours = a.tls_towards(b, Purpose::SiteApi);
    let mut ours = Kept::open(&ours, address).unwrap();
    assert_eq!(ours.get(FOR_PAIRED).unwrap(), 200);
    let next = authority.succeed().unwrap();
    for sequence in [1, 2] {
        let told = ours.ask("POST", "/site/v1/keys", &statement(&authority, &next, sequence));
        assert_ne!(told.unwrap(), 200, "the old authority states other keys");
    }
    assert_eq!(b.listed("a")["fingerprint"], *new);
    b.wait_done(&there);
    a.wait_done(&back);
    assert_same_files(&a.store.join("src"), &b.store.join("dst"));
    assert_same_files(&b.store.join("src"), &a.store.join("dst"));
    let kept = a.dir.join("trust/authority-0.pem");
    let authority_b = b.dir.join("trust/authority.pem");
    let mut check = penstock();
    check.args(["receipt", "check"]).arg(&receipt).arg("--trust").arg(&kept);
    let output = check.arg("--trust").arg(&authority_b).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
}

/// Promise: a site that is off while another one rotates its keys, once or a few times, learns of
/// that when it is back, and nobody pairs again; until then the other one says that it has not
/// heard.
#[test]
fn a_site_that_was_away_follows_when_it_is_back() {
    let root = Scratch::in_memory();
    let (mut a, mut b, address) = sites(root.path());
    a.pair(&b);
    b.stop();
    let output = a.run(&["site", "rotate"]);
    assert!(output.status.success(), "{}", told(&output));
    assert!(told(&output).contains("site `b` does not know the new keys yet"));
    a.ok(&["site", "rotate", "--json"]);
    assert!(a.ok(&["site", "list"]).contains("does not know our new keys yet"));
    // The keys are read from disk, and `b` is told by a daemon that did not make them.
    a.kill();
    a.start_with(&["--listen", &address.to_string()]);
    assert_eq!(
        (a.listed("a")["keys"].as_u64(), &a.listed("b")["unheard"]),
        (Some(2), &true.into())
    );
    b.start();
    // Its address is another one, which it tells by itself.
    Wait::new("it to hear").is(|| a.listed("b")["unheard"] == false);
    assert_eq!(b.listed("a")["fingerprint"], a.listed("a")["fingerprint"]);
    make_set(&a.store.join("src"), 1, 20, seed());
    let id = b.submit(&["a:data/src/", "b:data/dst"]);
    b.wait_done(&id);
    assert_same_files(&a.store.join("src"), &b.store.join("dst"));
}

/// Promise: of two statements with one number the first that a site accepts is the only one. The
/// other one changes nothing, and the log says that fingerprints are to be compared.
#[test]
fn the_first_statement_wins() {
    let root = Scratch::in_memory();
    let (a, b, _) = sites(root.path());
    a.pair(&b);
    let address: std::net::SocketAddr =
        b.listed("b")["addresses"][0].as_str().unwrap().parse().unwrap();
    let trust = a.dir.join("trust");
    let authority = SiteAuthority::load(&trust).unwrap();
    let next = authority.succeed().unwrap();
    let thief = a.tls_towards(&b, Purpose::SiteApi);
    let mut thief = Kept::open(&thief, address).unwrap();
    let stated = thief.ask("POST", "/site/v1/keys", &statement(&authority, &next, 1)).unwrap();
    assert_eq!(stated, 200, "{}", b.log_text());
    let theirs = next.fingerprint().to_string();
    assert_eq!(b.listed("a")["fingerprint"], *theirs);
    let output = a.run(&["site", "rotate"]);
    assert!(told(&output).contains("site `b` does not know"), "{}", told(&output));
    assert_eq!(b.listed("a")["fingerprint"], *theirs);
    assert_eq!(a.listed("b")["unheard"], true);
}
