//! Figures of transfers and peers over time, at real daemons.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use penstock_testkit::{Etcd, Scratch, Site, Wait, figure, make_set, seed, verified_at_least};
use serde_json::{Value, json as value};

const MIB: u64 = 1 << 20;

/// Returns status, media type and body of an answer at the socket of a peer.
fn ask(site: &Site, path: &str) -> (u16, String, String) {
    let mut socket = UnixStream::connect(site.dir.join("penstock.sock")).unwrap();
    let request =
        format!("GET /api/v1{path} HTTP/1.0\r\nHost: penstock\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let head = head.to_lowercase();
    let media = head.lines().find_map(|line| line.strip_prefix("content-type: ")).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, media.to_owned(), body.to_owned())
}

fn json(site: &Site, path: &str) -> Value {
    let (status, _, body) = ask(site, path);
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// Returns the sum of a column of rates over the points of a peer, in bytes.
fn bytes_of(peer: &Value, column: &str) -> f64 {
    let columns = peer["columns"].as_array().unwrap();
    let Some(column) = columns.iter().find(|known| known["name"] == column) else { return 0.0 };
    let (means, seconds) =
        (column["mean"].as_array().unwrap(), peer["seconds"].as_array().unwrap());
    let weighted = means
        .iter()
        .zip(seconds)
        .map(|(mean, seconds)| mean.as_f64().unwrap_or(0.0) * seconds.as_f64().unwrap() / 8.0);
    weighted.sum()
}

fn column_names(peer: &Value) -> Vec<&str> {
    peer["columns"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect()
}

/// Promise: a transfer has a series and a summary at both sites, with processors, memory and an
/// honest word about energy. Its bytes are those of the transfer, but for its last second and looks
/// that were late. It is there as a table, by the command line, and after a restart too.
#[test]
fn a_transfer_has_statistics() {
    let root = Scratch::in_memory();
    let mut hpc = Site::init(root.path(), "hpc", None);
    hpc.start();
    let lab = hpc.paired_lab(root.path());
    make_set(&lab.store.join("set"), 24, 100, seed());
    let id = hpc.submit(&["lab:data/set", "hpc:data/", "--bwlimit=5MiB/s", "--piece-size=1M"]);
    hpc.watch(&id).until(verified_at_least(4 * MIB));
    let summary = hpc.wait_done(&id);
    let moved = figure(&summary, "bytes") as f64;
    for (site, role) in [(&hpc, "target"), (&lab, "source")] {
        let series = json(site, &format!("/transfers/{id}/series"));
        let [peer] = &series["peers"].as_array().unwrap()[..] else { panic!("{series}") };
        let counted = bytes_of(peer, "rate_bits_per_s");
        println!("{role}: {counted} of {moved} bytes");
        assert!(counted > 0.6 * moved && counted < 1.3 * moved, "{role}: {counted} of {moved}");
        for name in ["lanes", "cpu_busy_percent", "cpu_busiest_percent", "memory_used_bytes"] {
            assert!(column_names(peer).contains(&name), "{role}: {name} in {peer}");
        }
        let is_controller = column_names(peer).contains(&"total_rate_bits_per_s");
        assert_eq!(is_controller, role == "target");
        let statistics = json(site, &format!("/transfers/{id}/statistics"));
        let peer = &statistics["peers"][0];
        let rate = peer["columns"].as_array().unwrap().iter();
        let rate = rate.clone().find(|it| it["name"] == "rate_bits_per_s").unwrap();
        let ordered = ["min", "p5", "q1", "median", "q3", "p95", "p99", "max"];
        let values = ordered.map(|name| rate["spread"][name].as_f64().unwrap());
        assert!(values.is_sorted(), "{rate}");
        assert!(!peer["cores"].as_array().unwrap().is_empty(), "{peer}");
        let energy = &peer["energy"];
        assert!(
            energy["is_available"] == true
                || energy["why"].as_str().is_some_and(|why| !why.is_empty()),
            "{energy}"
        );
    }
    let uri = format!("/transfers/{id}/series?columns=lanes&points=3&format=csv");
    let (_, media, table) = ask(&hpc, &uri);
    assert_eq!(media, "text/csv");
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "peer,at,seconds,lanes_min,lanes_mean,lanes_max");
    assert!((2..=4).contains(&lines.len()), "{table}");
    let (status, _, problem) = ask(&hpc, &format!("/transfers/{id}/series?points=0"));
    assert_eq!(status, 400, "{problem}");
    let text = hpc.ok(&["transfer", "show", &id, "--stats"]);
    assert!(text.contains("median") && text.contains("CPU 0, %"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let text = hpc.ok(&["peer", "stats", "--hours", "2"]);
    assert!(text.contains("transfers") && text.contains("CPU 0, %"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    hpc.fails(2, &["peer", "stats", "--hours", "0"]);
    let file = root.path().join("series.csv");
    hpc.ok(&["transfer", "show", &id, "--stats", "--csv", file.to_str().unwrap()]);
    assert!(fs::read_to_string(&file).unwrap().starts_with("peer,at,seconds,"));
    let before = seconds_of(&json(&hpc, &format!("/transfers/{id}/series")));
    hpc.stop();
    hpc.start();
    // The last second of the transfer may have been over only after the look.
    let after = seconds_of(&json(&hpc, &format!("/transfers/{id}/series")));
    assert!(after.starts_with(&before), "{before:?}, then {after:?}");
}

/// Returns each second of the one peer of a series: its begin, and the mean of each column.
fn seconds_of(series: &Value) -> Vec<Vec<Value>> {
    let peer = &series["peers"][0];
    let columns = peer["columns"].as_array().unwrap();
    let second = |(index, at): (usize, &Value)| {
        let means = columns.iter().map(|column| column["mean"][index].clone());
        [at.clone()].into_iter().chain(means).collect()
    };
    peer["at"].as_array().unwrap().iter().enumerate().map(second).collect()
}

/// Promise: lanes use the one suite that a transfer asks for, and its statistics name it. Where
/// either site excludes the suite, the transfer fails at its first attempt with that reason. Lanes
/// in clear have none, and a transfer within a host has no lanes.
#[test]
fn a_transfer_has_the_suite_that_it_asks_for() {
    let root = Scratch::in_memory();
    let mut hpc = Site::init(root.path(), "hpc", None);
    hpc.start();
    let lab = hpc.paired_lab(root.path());
    make_set(&lab.store.join("set"), 4, 100, seed());
    let asking = |suite| ["lab:data/set", "hpc:data/", "--cipher-suite", suite];
    for (suite, cipher) in
        [("chacha20-poly1305", "ChaCha20-Poly1305"), ("aes256-gcm", "AES-256-GCM")]
    {
        let slow = ["--bwlimit=2MiB/s", "--if-exists=replace"];
        let id = hpc.submit(&[&asking(suite)[..], &slow].concat());
        hpc.wait_done(&id);
        for site in [&hpc, &lab] {
            let statistics = json(site, &format!("/transfers/{id}/statistics"));
            assert_eq!(statistics["peers"][0]["cipher"], cipher, "{statistics}");
        }
        assert!(hpc.ok(&["transfer", "show", &id]).contains(&format!("TLS 1.3 with {suite};")));
    }
    let why = hpc.fails(
        2,
        &[&["transfer", "submit"], &asking("aes256-gcm")[..], &["--encryption=off"]].concat(),
    );
    assert!(why.contains("no cipher"), "{why}");

    let places = [
        (["lab:data/set", "hpc:data/clear"], "--encryption=off", "clear"),
        (["hpc:data/set", "hpc:data/within"], "--encryption=tls", "none"),
    ];
    for (places, encryption, cipher) in places {
        let id = hpc.submit(&[&places[..], &["--bwlimit=2MiB/s", encryption]].concat());
        hpc.wait_done(&id);
        let statistics = json(&hpc, &format!("/transfers/{id}/statistics"));
        assert_eq!(statistics["peers"][0]["cipher"], cipher, "{statistics}");
    }

    hpc.set_config(&format!("cipher_suites = [\"aes128-gcm\"]\n{}", hpc.config()));
    hpc.stop();
    hpc.start();
    let id = hpc.submit(&asking("aes256-gcm"));
    let own = hpc.wait(&id);
    assert_eq!((&own["state"], hpc.show(&id)["attempt"].as_u64()), (&"failed".into(), Some(1)));
    assert!(own.to_string().contains("does not allow the cipher suite `aes256-gcm`"), "{own}");
    let id = lab.submit(&["hpc:data/set", "lab:data/back", "--cipher-suite=aes256-gcm"]);
    let other = lab.wait(&id);
    assert_eq!((&other["state"], lab.show(&id)["attempt"].as_u64()), (&"failed".into(), Some(1)));
    assert!(other.to_string().contains("no cipher suite in common"), "{other}");
}

/// Promise: a peer that is asked has the parts of all peers of its site, names one that is silent,
/// and answers without the controller about peers.
#[test]
fn peers_put_their_statistics_together() {
    let root = Scratch::in_memory();
    let Some(etcd) = Etcd::start(root.path(), 1) else { return };
    let h1 = Site::first_peer(root.path(), "hpc", &etcd);
    let mut h2 = h1.join(root.path(), "h2");
    let names = |view: &Value| -> Vec<String> {
        let peers = view["peers"].as_array().unwrap().iter();
        peers.map(|peer| peer["series"]["peer"].as_str().unwrap().to_owned()).collect()
    };
    let both = Wait::new("both peers have samples").until(|| {
        let view = json(&h1, "/statistics?columns=cpu_busy_percent");
        let has = |peer: &Value| !peer["series"]["at"].as_array().unwrap().is_empty();
        let is_whole = names(&view).len() == 2 && view["peers"].as_array().unwrap().iter().all(has);
        if is_whole { Ok(view) } else { Err(view) }
    });
    assert_eq!(both["site"], "hpc");
    let one = json(&h2, &format!("/statistics?peer={}", names(&both)[0]));
    assert_eq!(names(&one), names(&both)[..1]);
    let (status, _, problem) = ask(&h2, "/statistics?peer=nobody");
    assert_eq!((status, problem.contains("peer-unknown")), (404, true), "{problem}");
    h2.kill();
    let alone = json(&h1, "/statistics");
    assert_eq!((names(&alone).len(), &alone["silent"]), (1, &value!(["h2"])), "{alone}");
    let (_, _, table) = ask(&h1, "/statistics?format=csv");
    assert!(table.lines().count() > 1, "{table}");
}
