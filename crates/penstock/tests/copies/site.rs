//! Two sites, each a real daemon on loopback: pairing, trust, transfers seen from both, refusals.
//! Every test makes its own sites in a temporary directory and ends only the processes it started.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use penstock_api::site::OpenScan;
use penstock_api::transfer::PathText;
use penstock_net::trust::{Purpose, preferred_suites};
use penstock_proto::slicing::Slicing;
use penstock_testkit::{Scratch, Site, Wait, assert_same_files, penstock, request, talk};
use rustls::ClientConfig;

/// Makes a site below `base`, and starts its daemon.
fn site(base: &Path, name: &'static str) -> Site {
    let mut site = Site::at_port(base, name, &base.join(format!("{name}-data")));
    site.start();
    site
}

fn token(site: &Site) -> String {
    site.ok(&["site", "pair"]).trim().to_owned()
}

/// The state and reason of a transfer as a site shows it.
fn state(site: &Site, id: &str) -> (String, String) {
    let view = site.show(id);
    let text = |field: &str| view[field].as_str().unwrap().to_owned();
    (text("state"), text("reason"))
}

fn two_paired(base: &Path) -> (Site, Site) {
    let (lab, hpc) = (site(base, "lab"), site(base, "hpc"));
    hpc.ok(&["site", "pair", &token(&lab)]);
    (lab, hpc)
}

fn write_files(directory: &Path, count: usize) {
    fs::create_dir_all(directory.join("sub")).unwrap();
    for number in 0..count {
        let bytes = vec![number as u8; 1 + number * 977];
        fs::write(directory.join(format!("sub/f{number}")), bytes).unwrap();
    }
}

/// D5: a token pairs two sites once, both see each other's fingerprint, and nobody else gets in by
/// it: not with a wrong one, not with the same one again, not as a third site.
#[test]
fn d5_a_token_pairs_two_sites_once() {
    let base = Scratch::on_disk();
    let (lab, hpc) = (site(base.path(), "lab"), site(base.path(), "hpc"));
    let spy = site(base.path(), "spy");
    let used = token(&lab);
    assert!(lab.fails(2, &["site", "pair", &used]).contains("this very site"));
    spy.fails(2, &["site", "pair", &used[..used.len() - 4]]);
    let said = hpc.ok(&["site", "pair", &used]);
    for site in [&lab, &hpc] {
        let fingerprint =
            site.lines(&["site", "list", "--json"])[0]["fingerprint"].as_str().unwrap().to_owned();
        assert!(said.contains(&fingerprint), "{said}");
    }
    spy.fails(12, &["site", "pair", &used]);
    let names = |site: &Site| -> Vec<String> {
        let sites = site.lines(&["site", "list", "--json"]);
        sites.iter().map(|site| site["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (names(&lab), names(&hpc)),
        (vec!["lab".into(), "hpc".into()], vec!["hpc".into(), "lab".into()])
    );
    assert_eq!(names(&spy), vec!["spy".to_owned()]);
    let refused = spy.fails(12, &["transfer", "submit", "spy:data/x", "lab:data/x"]);
    assert!(refused.contains("not paired"), "{refused}");
    // Who has another token, which is used up, uses up no try of one that he has not seen.
    let first = token(&lab);
    for _ in 0..5 {
        assert!(hpc.fails(12, &["site", "pair", &used]).contains("token"));
    }
    spy.ok(&["site", "pair", &first]);
}

/// Promise: either site takes a submission, both show it, data flow in both directions at once, and
/// what arrives is what was sent.
#[test]
fn transfers_go_both_ways_and_show_at_both_sites() {
    let base = Scratch::on_disk();
    let (lab, hpc) = two_paired(base.path());
    write_files(&lab.store.join("run"), 120);
    write_files(&hpc.store.join("result"), 80);
    let there = lab.ok(&["transfer", "submit", "lab:data/run", "hpc:data/in/"]);
    let back = lab.ok(&["transfer", "submit", "hpc:data/result/", "lab:data/back"]);
    for (id, files) in [(there.trim(), 120), (back.trim(), 80)] {
        for site in [&lab, &hpc] {
            let summary = site.watch(id).until(|event| event["type"] == "summary");
            assert_eq!((&summary["state"], &summary["exit"]), (&"done".into(), &"done".into()));
            assert_eq!(summary["files"], files);
            assert_eq!(summary["bytes_verified"], summary["bytes_found"]);
            site.ok(&["transfer", "wait", &id[..10]]);
            assert_eq!(site.lines(&["transfer", "list", "--json"]).len(), 2);
        }
    }
    assert_same_files(&lab.store.join("run"), &hpc.store.join("in/run"));
    assert_same_files(&hpc.store.join("result"), &lab.store.join("back"));
    for site in [&lab, &hpc] {
        assert!(site.lines(&["transfer", "orphans", "--json"]).is_empty());
        assert_eq!(fs::read_dir(site.dir.join("source")).unwrap().count(), 0);
    }
}

/// Promise: a digest list is to be had at either site, and names every file; XXH3 has none (D3).
#[test]
fn d3_a_digest_list_comes_from_the_site_that_has_it() {
    let base = Scratch::on_disk();
    let (lab, hpc) = two_paired(base.path());
    write_files(&lab.store.join("run"), 30);
    let list = base.path().join("digests");
    let list = list.to_str().unwrap();
    let submit = ["transfer", "submit", "lab:data/run/", "hpc:data/in", "--wait"];
    let with = |more: &[&'static str]| -> Vec<String> {
        let all = submit.iter().chain(more).map(|part| (*part).to_owned());
        all.chain(["--write-digests".to_owned(), list.to_owned()]).collect()
    };
    let refused = with(&["--digest", "xxh3-128"]);
    let refused: Vec<_> = refused.iter().map(String::as_str).collect();
    lab.fails(2, &refused);
    let args = with(&[]);
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let id = lab.ok(&args);
    let text = fs::read_to_string(list).unwrap();
    assert_eq!(text.lines().count(), 30);
    assert!((0..30).all(|n| text.contains(&format!("  sub/f{n}\n"))), "{text}");
    let other = base.path().join("other");
    let other = other.to_str().unwrap();
    hpc.ok(&["transfer", "digests", id.trim(), "--output", other]);
    assert_eq!(fs::read_to_string(other).unwrap(), text);
    assert!(
        hpc.lines(&["transfer", "orphans", "--remove", "--json"])[0]["removed"].as_bool().unwrap()
    );
    lab.fails(6, &["transfer", "digests", id.trim(), "--output", other]);
}

/// Promise (f), (d), B8: while the source is gone the transfer waits and says so; its place is
/// refused to others by its id, exit 6; when the source is back it goes on by itself.
#[test]
fn b8_a_transfer_waits_for_its_source_and_guards_its_target() {
    let base = Scratch::on_disk();
    let (mut lab, hpc) = two_paired(base.path());
    write_files(&lab.store.join("run"), 10);
    lab.kill();
    let id = hpc.ok(&["transfer", "submit", "lab:data/run/", "hpc:data/a/b"]);
    let id = id.trim();
    hpc.watch(id).until(|event| {
        let reason = event["reason"].as_str().unwrap_or_default();
        reason.contains("`lab` cannot be reached") && reason.contains("next attempt in")
    });
    for target in ["hpc:data/a/b", "hpc:data/a", "hpc:data/a/b/c"] {
        let refused = hpc.fails(6, &["transfer", "submit", "lab:data/other/", target]);
        assert!(refused.contains(id), "{refused}");
    }
    let refused = hpc.fails(6, &["transfer", "submit", "hpc:data/a/", "hpc:data/a/c"]);
    assert!(refused.contains("overlap"), "{refused}");
    lab.start();
    hpc.ok(&["transfer", "wait", id]);
    assert_same_files(&lab.store.join("run"), &hpc.store.join("a/b"));
}

/// Promise: pause, resume and cancel work from the other site too, and survive both daemons.
#[test]
fn a_paused_transfer_stays_paused_through_a_restart() {
    let base = Scratch::on_disk();
    let (mut lab, mut hpc) = two_paired(base.path());
    write_files(&lab.store.join("run"), 10);
    lab.kill();
    let id = hpc.ok(&["transfer", "submit", "lab:data/run", "hpc:data/in"]);
    let id = id.trim();
    hpc.ok(&["transfer", "pause", id]);
    hpc.watch(id).until(|event| event["state"] == "paused");
    hpc.kill();
    hpc.start();
    lab.start();
    assert_eq!(state(&hpc, id).0, "paused");
    hpc.fails(6, &["transfer", "retry", id]);
    hpc.ok(&["transfer", "resume", &id[..8]]);
    hpc.ok(&["transfer", "wait", id]);
    assert_same_files(&lab.store.join("run"), &hpc.store.join("in/run"));
    let done = lab.fails(6, &["transfer", "cancel", id]);
    assert!(done.contains("done"), "the source sees and asks, the owner decides: {done}");
}

/// Promise: items that failed are listed in a file that --files-from takes, exit as documented;
/// the rest has moved.
#[test]
fn failed_items_are_listed_for_files_from() {
    let base = Scratch::on_disk();
    let (lab, hpc) = two_paired(base.path());
    write_files(&lab.store.join("run"), 5);
    // A directory where a file is to be: that one item cannot get its name.
    fs::create_dir_all(hpc.store.join("in/sub/f3/keep")).unwrap();
    let args = ["transfer", "submit", "lab:data/run/", "hpc:data/in", "--wait"];
    let said = hpc.fails(3, &args);
    let list = fs::read_dir(base.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().unwrap().to_string_lossy().starts_with("penstock-failed-"));
    let list = list.expect("a list is written");
    assert!(said.contains(&*list.file_name().unwrap().to_string_lossy()), "{said}");
    assert_eq!(fs::read_to_string(&list).unwrap(), "sub/f3\n");
    assert_eq!(fs::read(hpc.store.join("in/sub/f4")).unwrap(), vec![4; 1 + 4 * 977]);
    let failed = &hpc.lines(&["transfer", "list", "--json"])[0]["id"];
    let failed = failed.as_str().unwrap();
    hpc.ok(&["transfer", "cancel", failed]);
    hpc.watch(failed).until(|event| event["state"] == "cancelled");
    let names = fs::read_dir(hpc.store.join("in/sub")).unwrap();
    let left = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(left.filter(|name| name.starts_with(".pst-")).count(), 0, "nothing temporary");
    fs::remove_dir_all(hpc.store.join("in/sub/f3")).unwrap();
    let list = list.to_str().unwrap();
    let again =
        ["transfer", "submit", "lab:data/run/", "hpc:data/in", "--wait", "--files-from", list];
    hpc.ok(&again);
    assert_same_files(&lab.store.join("run"), &hpc.store.join("in"));
}

/// Promise (c), E7: the list of failed items is complete between sites too, however long it is, at
/// the target's site and at the source's.
#[test]
fn e7_a_list_of_failures_between_sites_is_complete() {
    let base = Scratch::on_disk();
    let (lab, hpc) = two_paired(base.path());
    write_files(&lab.store.join("run"), 1);
    let names: Vec<_> = (0..1_500).map(|number| format!("late/{number:05} \\ \u{e9}")).collect();
    let wanted = base.path().join("wanted");
    fs::write(&wanted, names.join("\0")).unwrap();
    let from = format!("--files-from={}", wanted.display());
    let submit = ["transfer", "submit", "lab:data/run/", "hpc:data/in", "--wait", "-0", &from];
    let list = |said: &str| {
        let found = fs::read_dir(base.path()).unwrap().map(|entry| entry.unwrap().path());
        let is_list = |path: &PathBuf| said.contains(&*path.file_name().unwrap().to_string_lossy());
        let list = found.filter(|path| path.extension().is_some()).find(is_list).expect(said);
        let lines = fs::read_to_string(&list).unwrap();
        fs::rename(&list, base.path().join("list")).unwrap();
        lines.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let said = hpc.fails(3, &submit);
    assert!(said.contains("1500 of 1501 items failed"), "{said}");
    let escaped: Vec<_> = names.iter().map(|name| name.replace('\\', "\\\\")).collect();
    assert_eq!(list(&said), escaped);
    let id = &hpc.lines(&["transfer", "list", "--json"])[0]["id"];
    let id = id.as_str().unwrap();
    assert_eq!(list(&lab.fails(3, &["transfer", "wait", id])), escaped);
    let shown = hpc.ok(&["transfer", "show", id]);
    assert!(shown.lines().last().unwrap().ends_with(" more"), "{shown}");
    fs::create_dir(lab.store.join("run/late")).unwrap();
    for name in &names {
        fs::write(lab.store.join("run").join(name), name).unwrap();
    }
    let from = format!("--files-from={}", base.path().join("list").display());
    hpc.ok(&["transfer", "submit", "lab:data/run/", "hpc:data/in", "--wait", &from]);
    assert_same_files(&lab.store.join("run/late"), &hpc.store.join("in/late"));
}

/// Promise: one daemon per site directory, and a port that is taken is told; both exit 7.
#[test]
fn a8_a_second_daemon_and_a_taken_port_are_refused() {
    let base = Scratch::on_disk();
    let lab = site(base.path(), "lab");
    let said = lab.fails(7, &["daemon"]);
    let process = lab.process().to_string();
    assert!(said.contains(&process), "{said}");
    lab.fails(6, &["site", "init", "--name", "lab"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = site(base.path(), "other");
    let mut other = other;
    other.kill();
    let address = taken.local_addr().unwrap().to_string();
    let said = other.fails(7, &["daemon", "--listen", &address]);
    assert!(said.contains(&address) && said.contains("another program"), "{said}");
    assert!(other.fails(5, &["site", "status"]).contains("no daemon"));
}

/// Promise: a store that is not there is told: by `site init`, which makes the site all the same,
/// by `site status`, which is not well then, and by `peer list`; until it is there.
#[test]
fn a_store_that_is_missing_is_told() {
    let base = Scratch::on_disk();
    let mut lab = site(base.path(), "lab");
    lab.ok(&["site", "status"]);
    lab.kill();
    let away = base.path().join("away");
    fs::rename(&lab.store, &away).unwrap();
    lab.start();
    let status = lab.run(&["site", "status"]);
    let text = String::from_utf8_lossy(&status.stdout);
    assert_eq!(status.status.code(), Some(7), "{text}");
    for word in ["NOT WELL", "`data` is offline", lab.store.to_str().unwrap(), "do:  mount it"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(lab.ok(&["peer", "list"]).contains("data (offline)"));
    fs::rename(&away, &lab.store).unwrap();
    Wait::new("a look at the store").is(|| lab.ok(&["peer", "list"]).contains("data (new)"));
    lab.ok(&["site", "status"]);
    let store = format!("data={}", away.display());
    let other = base.path().join("other");
    let made = penstock()
        .args(["site", "init", "--name", "other", "--store", &store, "--dir"])
        .arg(&other)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
    assert!(said.contains("away` does not exist") && said.contains("mounted or made"), "{said}");
    assert!(other.join("penstock.toml").exists());
}

/// Promise: what names nothing is told: a grant to a site that is not paired, a store that does not
/// exist, paths of a site without pairings, lists without lines.
#[test]
fn what_names_nothing_is_told() {
    let base = Scratch::on_disk();
    let mut lab = site(base.path(), "lab");
    let says = |site: &Site, args: &[&str], word: &str| {
        let output = site.run(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains(word), "{args:?}: {said}");
    };
    let grant = ["site", "grant", "hpc", "--write", "data"];
    says(&lab, &grant, "site `hpc` is not paired with this one");
    says(&lab, &["site", "grant", "lab", "--write", "data"], "is this site");
    let said = lab.fails(2, &["site", "grant", "hpc", "--write", "dat"]);
    assert!(said.contains("known stores: data"), "{said}");
    says(&lab, &["site", "paths"], "is paired with no other");
    says(&lab, &["transfer", "list"], "no transfers");
    let said = lab.fails(12, &["site", "paths", "hpc"]);
    assert!(said.contains("penstock site list"), "{said}");
    let hpc = site(base.path(), "hpc");
    hpc.ok(&["site", "pair", &token(&lab)]);
    let said = String::from_utf8_lossy(&lab.run(&grant).stderr).into_owned();
    assert!(!said.contains("not paired"), "{said}");
    lab.kill();
    says(&lab, &grant, "was not checked");
    lab.dir = base.path().join("elsewhere");
    let said = lab.fails(5, &["transfer", "list"]);
    assert!(said.contains("is not a site directory"), "{said}");
}

/// Promise: SIGTERM ends a daemon within its five seconds, some more on a busy machine, exit 0, and
/// its socket is gone.
#[test]
fn sigterm_ends_a_daemon_in_time() {
    let base = Scratch::on_disk();
    let mut lab = site(base.path(), "lab");
    let began = std::time::Instant::now();
    lab.stop();
    assert!(began.elapsed() < Duration::from_secs(20));
    assert!(!lab.dir.join("penstock.sock").exists());
}

/// Promise: an order for a site of several peers says at a site of one that it has one, and what to
/// do instead; no answer is a bare path of the API.
#[test]
fn a_site_of_one_peer_says_so_to_orders_for_several() {
    let base = Scratch::on_disk();
    let lab = site(base.path(), "lab");
    let sqlite = "this site has one peer and keeps its state in SQLite";
    for (order, texts) in [
        (&["site", "recover"][..], [sqlite, "no etcd to recover", "from a backup"]),
        (&["site", "takeover", "--i-have-fenced=h2"], [sqlite, "no etcd to take over", "restart"]),
        (&["site", "remove", "h2"], [sqlite, "no host runs etcd", "penstock site grow"]),
        (&["peer", "drain", "dtn1"], ["peer `dtn1` is the only one", "take its work", "pause"]),
        (&["peer", "forget", "dtn1"], ["peer `dtn1` is the only one", "nothing without", "unpair"]),
        (&["site", "join"], ["only one peer", "no host can join", "penstock site grow"]),
    ] {
        let said = lab.fails(6, order);
        assert!(texts.iter().all(|text| said.contains(text)), "{order:?}: {said}");
        assert!(!said.contains("/api/"), "{order:?}: {said}");
    }
    for order in ["drain", "forget"] {
        let said = lab.fails(2, &["peer", order, "h2"]);
        assert!(said.contains("peer `h2` does not exist") && said.contains("dtn1"), "{said}");
    }
    for id in ["", "x1", "../peers"] {
        let said = lab.fails(2, &["transfer", "show", id]);
        assert!(said.contains("hexadecimal digits") && !said.contains("/api/"), "{id:?}: {said}");
    }
    let peers = lab.peers();
    assert_eq!(peers.len(), 1, "{peers:?}");
    assert_eq!(peers[0]["peer"], "dtn1");
    assert_eq!((&peers[0]["presence"], &peers[0]["load"]["leads"]), (&"up".into(), &true.into()));
    assert_eq!(peers[0]["stores"][0]["store"], "data");
    lab.ok(&["site", "rotate"]);
}

/// Promise: a site of another version is told so, by both versions; a wrong certificate, none, and
/// a pairing that was ended get nothing.
#[test]
fn d4_who_is_not_paired_or_not_of_this_version_gets_nothing() {
    let base = Scratch::on_disk();
    let (lab, hpc) = two_paired(base.path());
    let spy = site(base.path(), "spy");
    let paired = hpc.tls_towards(&lab, Purpose::SiteApi);
    let health = request("GET /site/v1/health", "");
    let reply = talk(&paired, lab.address(), &health).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200") && reply.contains("\"site\":\"lab\""), "{reply}");
    let reply = talk(&paired, lab.address(), &health.replace("version: 1", "version: 9")).unwrap();
    assert!(reply.starts_with("HTTP/1.1 426") && reply.contains("version 9"), "{reply}");
    let show = request(&format!("GET /site/v1/transfers/{}", "0".repeat(32)), "");
    let reply = talk(&paired, lab.address(), &show).unwrap();
    assert!(reply.starts_with("HTTP/1.1 404"), "{reply}");
    let foreign = spy.tls_towards(&lab, Purpose::SiteApi);
    let foreign = talk(&foreign, lab.address(), &health);
    assert!(foreign.is_err(), "a certificate of a site that is not paired: {foreign:?}");
    let authority = lab.authority();
    let anonymous =
        penstock_net::trust::pairing_client_config(authority.fingerprint(), &preferred_suites());
    let reply = talk(&anonymous.unwrap(), lab.address(), &show).unwrap();
    assert!(reply.starts_with("HTTP/1.1 403"), "{reply}");
    lab.ok(&["site", "unpair", "hpc"]);
    let ended = talk(&paired, lab.address(), &health);
    assert!(ended.is_err(), "a pairing that was ended: {ended:?}");
    let said = hpc.fails(12, &["transfer", "submit", "hpc:data/x", "lab:data/x"]);
    let words = ["trust", "refuses", "not paired"];
    assert!(words.iter().any(|word| said.contains(word)), "{said}");
}

/// Asks `site` to do something with the scan of a transfer; gives the status of the reply.
fn scan(site: &Site, client: &ClientConfig, method: &str, path: &str, body: &str) -> String {
    let reply = ask(site, client, method, &format!("/scans{path}"), body);
    reply.split(' ').nth(1).unwrap_or_default().to_owned()
}

/// Sends a request with a body; gives the reply.
fn ask(site: &Site, client: &ClientConfig, method: &str, path: &str, body: &str) -> String {
    let line = format!("{method} /site/v1{path}");
    talk(client, site.address(), &request(&line, body)).unwrap()
}

/// C4: a scan is for the site that opened it alone: no other site may open, read or drop it, and
/// nobody but this site itself one of its own transfers.
#[test]
fn c4_a_scan_is_for_the_site_that_opened_it() {
    let base = Scratch::on_disk();
    let (mut lab, hpc) = two_paired(base.path());
    let spy = site(base.path(), "spy");
    spy.ok(&["site", "pair", &token(&lab)]);
    write_files(&lab.store.join("run"), 3);
    let own = lab.ok(&["transfer", "submit", "lab:data/run/", "lab:data/copy"]);
    let own = own.trim();
    lab.ok(&["transfer", "wait", own]);
    let open = |id: &str| {
        let open = OpenScan {
            listing: 0,
            transfer: id.parse().unwrap(),
            store: "data".parse().unwrap(),
            root: PathText(b"run".to_vec()),
            slicing: Slicing::default(),
            files_from: Vec::new(),
            select: Default::default(),
            metadata_ops_per_s: None,
            preserve: Default::default(),
            remove: false,
        };
        serde_json::to_string(&open).unwrap()
    };
    let (friend, foe) =
        (hpc.tls_towards(&lab, Purpose::SiteApi), spy.tls_towards(&lab, Purpose::SiteApi));
    assert_eq!(scan(&lab, &foe, "POST", "", &open(own)), "403");
    assert_eq!(scan(&lab, &foe, "GET", &format!("/{own}/pages/0"), ""), "404");
    assert_eq!(scan(&lab, &foe, "DELETE", &format!("/{own}"), ""), "404");
    let id = "7".repeat(32);
    let (first, all) = (format!("/{id}/pages/0?wait_ms=9000"), format!("/{id}"));
    assert_eq!(scan(&lab, &friend, "POST", "", &open(&id)), "200");
    assert_eq!(scan(&lab, &foe, "POST", "", &open(&id)), "403");
    assert_eq!(scan(&lab, &foe, "GET", &first, ""), "403");
    assert_eq!(scan(&lab, &foe, "DELETE", &all, ""), "403");
    assert_eq!(scan(&lab, &friend, "GET", &first, ""), "200");
    lab.kill();
    lab.start();
    assert_eq!(scan(&lab, &friend, "GET", &first, ""), "404");
    assert_eq!(scan(&lab, &friend, "POST", "", &open(&id)), "200");
    assert_eq!(scan(&lab, &friend, "GET", &first, ""), "200");
    assert_eq!(scan(&lab, &friend, "DELETE", &all, ""), "204");
    assert_eq!(scan(&lab, &friend, "GET", &first, ""), "404");
    assert_eq!(fs::read_dir(lab.dir.join("source")).unwrap().count(), 0);
}

/// Promise: a list of files of some megabytes is taken by both APIs; what a stranger sends is not
/// read beyond what pairing needs.
#[test]
fn bodies_are_as_long_as_they_need_to_be() {
    let base = Scratch::on_disk();
    let (lab, hpc) = two_paired(base.path());
    write_files(&lab.store.join("run"), 2);
    let list = base.path().join("list");
    let absent = format!("{}\n", "x".repeat(200)).repeat(15_000);
    fs::write(&list, format!("sub/f1\n{absent}")).unwrap();
    let list = list.to_str().unwrap();
    let args = ["transfer", "submit", "lab:data/run/", "hpc:data/in", "--files-from", list];
    // By way of the other site: its own API, the owner's, and the scan's.
    let id = lab.ok(&args);
    lab.watch(id.trim()).until(|event| event["type"] == "summary");
    assert!(hpc.store.join("in/sub/f1").exists());
    let authority = lab.authority();
    let stranger =
        penstock_net::trust::pairing_client_config(authority.fingerprint(), &preferred_suites());
    let (client, body) = (stranger.unwrap(), |bytes: usize| format!("\"{}\"", "x".repeat(bytes)));
    let reply = ask(&lab, &client, "POST", "/pair", &body(20_000));
    assert!(reply.contains("used up, or too old"), "no token is open, so no body is read: {reply}");
    token(&lab);
    let reply = ask(&lab, &client, "POST", "/pair", &body(20_000));
    assert!(reply.contains("length limit"), "{reply}");
    let request = format!(
        "POST /site/v1/pair HTTP/1.1\r\nhost: x\r\npenstock-site-version: 1\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n\
         ffffff\r\n{}",
        body(1 << 20)
    );
    let reply = talk(&client, lab.address(), &request);
    assert!(reply.is_err() || reply.is_ok_and(|reply| !reply.contains("HTTP/1.1 200")));
}
