//! Sites that run etcd themselves: three hosts in two commands, and what may be lost of them. Real
//! daemons and real members of etcd on addresses of the loopback network. Needs no privileges;
//! skips, loudly, where etcd is not installed.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "seeds, and what was seen when a test fails")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use penstock_testkit::{
    Etcd, PATIENCE, Scratch, Signal, Site, Still, Wait, answered, assert_same_files, issue_anew,
    make_set, penstock, print_tail, seed, told, verified_at_least,
};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// Hosts of a site `hpc`, each with an address of its own on the loopback network.
struct Hosts {
    root: Scratch,
    net: String,
    /// Site directories whose etcd is ended with the test.
    dirs: Vec<PathBuf>,
}

impl Hosts {
    /// `None`, loudly, where etcd is not installed.
    fn new() -> Option<Self> {
        if !Etcd::is_installed() {
            return None;
        }
        // Tests run side by side: each has a network of its own.
        let bytes: [u8; 2] = rand::random();
        let net = format!("127.{}.{}", 1 + bytes[0] % 250, bytes[1]);
        Some(Self { root: Scratch::in_memory(), net, dirs: Vec::new() })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn listen(&self, number: usize) -> String {
        format!("--listen={}.{number}:7444", self.net)
    }

    fn store(&self) -> PathBuf {
        let store = self.at("store");
        fs::create_dir_all(&store).unwrap();
        store
    }

    /// The site directory of a host, whose etcd is ended with the test.
    fn dir(&mut self, number: usize) -> PathBuf {
        let dir = self.at(&format!("host-{number}"));
        self.dirs.push(dir.clone());
        dir
    }

    fn adopt(&mut self, number: usize) -> Site {
        Site::adopt("hpc", self.dir(number), self.store())
    }

    /// The first host, whose daemon runs and leads.
    fn first(&mut self, peers: usize) -> Site {
        let mut site = self.adopt(1);
        let (peers, journal) = (format!("--peers={peers}"), self.at("journal"));
        let journal = format!("--journal={}", journal.display());
        site.init_with(&["--peer", "h1", &self.listen(1), &peers, &journal]);
        site.start();
        site.status_until(leads);
        site
    }

    /// Another host, made known and started.
    fn join(&mut self, at: &Site, number: usize, more: &[&str]) -> Site {
        self.join_as(at, number, &format!("h{number}"), more)
    }

    fn join_as(&mut self, at: &Site, number: usize, name: &str, more: &[&str]) -> Site {
        let listen = self.listen(number);
        let mut site = at.add_peer(self.dir(number), name, &[&[&*listen], more].concat());
        site.start();
        site
    }

    /// All three of a site that runs etcd on three.
    fn three(&mut self) -> [Site; 3] {
        let h1 = self.first(3);
        let h2 = self.join(&h1, 2, &[]);
        let h3 = self.join(&h1, 3, &[]);
        for site in [&h1, &h2, &h3] {
            site.status_until(|status| votes(status) == 3 && healthy(status));
        }
        [h1, h2, h3]
    }

    fn lab(&self) -> Site {
        let mut lab = Site::init(self.root.path(), "lab", None);
        lab.start();
        lab
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for dir in &self.dirs {
            if std::thread::panicking() {
                print_tail(&dir.join("etcd/etcd.log"), 8);
            }
            if let Some(id) = etcd_id(dir) {
                kill("KILL", id);
            }
        }
        if !std::thread::panicking() {
            self.dirs.iter().filter(|dir| dir.exists()).for_each(|dir| assert_purged(dir));
        }
    }
}

/// Promise of each test here: a purge of the Debian package removes all that a site directory has,
/// files that a crash leaves included, and nothing else.
fn assert_purged(dir: &Path) {
    let id = "0123456789abcdef".repeat(2);
    for (folder, name) in [
        ("benchmarks", format!("{id}.new")),
        ("flights", format!("{id}.1f.new")),
        ("journal", "fetched-0123456789abcdef".to_owned()),
        ("receipts", format!("{id}.json.penstock-new")),
        ("", "foreign".to_owned()),
    ] {
        fs::create_dir_all(dir.join(folder)).unwrap();
        fs::write(dir.join(folder).join(name), "").unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/deb/postrm");
    let script = fs::read_to_string(script).unwrap();
    let (functions, _) = script.split_once("if [ \"$1\" = purge ]").unwrap();
    let here = functions.replace("state=/var/lib/penstock", "state=$1");
    assert_ne!(here, functions, "the script has another place of the site directory");
    let script = format!("{here}\npurge_state");
    let output = Command::new("sh").args(["-ec", &script, "sh"]).arg(dir).output().unwrap();
    let left: Vec<_> = fs::read_dir(dir).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert!(output.status.success() && left == ["foreign"], "{left:?}: {}", told(&output));
}

fn kill(name: &str, id: u32) {
    let mut kill = Command::new("kill");
    let _ = kill.arg(format!("-{name}")).arg(id.to_string()).stderr(Stdio::null()).status();
    if name == "KILL" {
        // Its sockets answer until the kernel has closed them, which is when the last of its
        // threads has ended; the first one may be a zombie before.
        let is_over = || {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            let threads = fs::read_dir(format!("/proc/{id}/task")).map_or(0, Iterator::count);
            stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['Z', 'X']))
                && threads <= 1
        };
        Wait::new("the end of a process").is(is_over);
    }
}

fn led_by_another(peer: &str) -> impl Fn(&Value) -> bool + '_ {
    move |status| led(status) && status["cluster"]["leader"]["peer"] != peer
}

/// Number of the etcd that runs with the data of a site directory.
fn etcd_id(dir: &Path) -> Option<u32> {
    let mark = format!("--data-dir={}", dir.join("etcd/data").display());
    fs::read_dir("/proc").unwrap().find_map(|entry| {
        let id: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let line = fs::read(format!("/proc/{id}/cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        line.split('\0').any(|word| word == mark).then_some(id)
    })
}

fn leads(status: &Value) -> bool {
    status["cluster"]["is_leader"] == true
}

fn led(status: &Value) -> bool {
    !status["cluster"]["leader"].is_null()
}

/// Members of etcd that have a vote, as a status tells of them.
fn votes(status: &Value) -> usize {
    let all = status["cluster"]["etcd"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    all.iter().filter(|one| one["learner"] == false).count()
}

/// Whether every member answers, and one of them leads the others.
fn healthy(status: &Value) -> bool {
    let all = status["cluster"]["etcd"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    all.iter().all(|one| one["trouble"] == "") && all.iter().any(|one| one["leads"] == true)
}

fn trouble(status: &Value) -> String {
    status["cluster"]["trouble"].as_str().unwrap_or_default().to_owned()
}

/// Whether what is told to anybody who asks without the site's keys, or without its password, is
/// nothing. With curl, which has nothing of ours in it.
fn assert_closed(site: &Site, url: &str) {
    let ask = |more: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["-s", "-m", "5", "-d", r#"{"key":"Lw=="}"#]).args(more);
        curl.arg(format!("{url}/v3/kv/range")).output()
    };
    let at = |name: &str| site.dir.join(name).display().to_string();
    let Ok(plain) = ask(&["-k"]) else {
        println!("SKIPPED: what etcd tells strangers; there is no curl");
        return;
    };
    assert!(!plain.status.success(), "without a certificate: {}", told(&plain));
    let (ca, cert, key) = (at("etcd/authority.pem"), at("etcd/client.pem"), at("etcd/client.key"));
    let known = ask(&["--cacert", &ca, "--cert", &cert, "--key", &key]).unwrap();
    let text = String::from_utf8_lossy(&known.stdout);
    assert!(text.contains("user name is empty"), "without a password: {}", told(&known));
}

/// Issue 5: an operator with three hosts and no etcd has a cluster in two commands; its etcd takes
/// nobody without the site's keys and its password; a member that is killed comes back; a daemon
/// that is killed leaves its member at work, and the next one takes it on; one that is stopped ends
/// it in order.
#[test]
fn three_hosts_are_a_cluster_in_two_commands() {
    let Some(mut hosts) = Hosts::new() else { return };
    let [h1, mut h2, mut h3] = hosts.three();
    assert_closed(&h1, &format!("https://{}.1:7445", hosts.net));
    // Issue 5 (6): one member dies, and neither leadership changes nor membership.
    let before = h1.status_until(led)["cluster"]["epoch"].clone();
    let (began, still) = (Instant::now(), Still::watch());
    let first = etcd_id(&h2.dir).unwrap();
    kill("KILL", first);
    Wait::new("etcd of h2 again").is(|| etcd_id(&h2.dir).is_some_and(|id| id != first));
    let after = h1.status_until(|status| led(status) && healthy(status) && votes(status) == 3);
    // Leases end where the machine stands still.
    if still.between(began, Instant::now()) < Duration::from_secs(1) {
        assert_eq!(after["cluster"]["epoch"], before);
    }
    // A daemon that crashes.
    let etcd = etcd_id(&h2.dir).unwrap();
    h2.kill();
    assert_eq!(etcd_id(&h2.dir), Some(etcd), "it outlives its daemon");
    h2.start();
    h2.status_until(|status| led(status) && healthy(status));
    assert_eq!(etcd_id(&h2.dir), Some(etcd), "the next daemon takes it on");
    // A daemon that is stopped.
    h3.signal(Signal::TERM);
    Wait::new("the end of etcd of h3").is(|| etcd_id(&h3.dir).is_none());
    h1.status_until(led);
    h3.kill();
    h3.start();
    h3.status_until(|status| led(status) && healthy(status) && votes(status) == 3);
}

/// Issue 5 (7), promise (h): with the majority of etcd lost nobody leads and nothing is committed;
/// when it is back the same membership goes on.
#[test]
fn b4_a_lost_majority_comes_back() {
    let Some(mut hosts) = Hosts::new() else { return };
    let [mut h1, h2, mut h3] = hosts.three();
    let lab = hosts.lab();
    lab.pair(&h2);
    let (one, three) = (etcd_id(&h1.dir).unwrap(), etcd_id(&h3.dir).unwrap());
    h1.kill();
    h3.kill();
    kill("KILL", one);
    kill("KILL", three);
    let status = h2.status_until(|status| !trouble(status).is_empty());
    assert_eq!(status["cluster"]["is_leader"], false, "{status}");
    let refused = h2.run(&["site", "unpair", "lab"]);
    assert!(!refused.status.success(), "{}", told(&refused));
    h1.start();
    h3.start();
    for site in [&h1, &h2, &h3] {
        site.status_until(|status| led(status) && votes(status) == 3 && healthy(status));
    }
    assert!(h2.ok(&["site", "list"]).contains("lab"));
}

/// Issue 5: a site of one peer becomes one of several with a transfer that is parked, its pairings
/// and its receipts; the transfer goes on, and what is unpaired later stays so.
#[test]
fn a_site_of_one_peer_grows() {
    let Some(mut hosts) = Hosts::new() else { return };
    let lab = hosts.lab();
    let mut h1 = hosts.adopt(1);
    h1.init_with(&["--peer", "h1", &hosts.listen(1)]);
    h1.start();
    lab.pair(&h1);
    make_set(&lab.store.join("first"), 1, 20, seed());
    let done = h1.submit(&["lab:data/first", "hpc:data/"]);
    h1.wait_done(&done);
    let receipt = h1.ok(&["transfer", "receipt", &done]);
    make_set(&lab.store.join("set"), 16, 50, seed());
    let parked = h1.submit(&["lab:data/set", "hpc:data/", "--bwlimit=8MiB/s", "--piece-size=1M"]);
    h1.watch(&parked).until(verified_at_least(4 * MIB));
    h1.ok(&["transfer", "pause", &parked]);
    h1.show_until(&parked, |view| view["state"] == "paused");
    let journal = format!("--journal={}", hosts.at("journal").display());
    let refused = h1.run(&["site", "grow", &journal]);
    assert_eq!(refused.status.code(), Some(6), "the daemon runs: {}", told(&refused));
    h1.kill();
    h1.ok(&["site", "grow", &journal]);
    h1.start();
    h1.status_until(leads);
    let h2 = hosts.join(&h1, 2, &[]);
    h2.status_until(|status| led(status) && votes(status) == 2);
    // Whichever host is asked.
    assert_eq!(h2.show(&parked)["state"], "paused");
    assert_eq!(h2.ok(&["transfer", "receipt", &done]), receipt);
    h2.ok(&["transfer", "resume", &parked]);
    let summary = h2.wait_done(&parked);
    assert!(summary["bytes_resumed"].as_u64().unwrap() > 0, "{summary}");
    assert_same_files(&lab.store.join("set"), &h1.store.join("set"));
    h1.ok(&["site", "unpair", "lab"]);
    h1.kill();
    h1.start();
    h1.status_until(led);
    assert!(!h1.ok(&["site", "list"]).contains("lab"), "what was unpaired stays so");
}

/// Issue 5: a host that is lost for good is replaced by another one under its name, or by one that
/// was there already once its operator says so; not while it lives. What comes back all the same
/// is a peer without etcd.
#[test]
fn a_lost_host_is_replaced() {
    let Some(mut hosts) = Hosts::new() else { return };
    let [h1, mut h2, mut h3] = hosts.three();
    let lose = |site: &mut Site| {
        let etcd = etcd_id(&site.dir).unwrap();
        site.kill();
        kill("KILL", etcd);
        Wait::new("the end of its etcd").is(|| etcd_id(&site.dir).is_none());
    };
    let endpoints = |status: &Value| status["cluster"]["etcd"].to_string();
    // Its daemon is away, which may be for a moment: its etcd is at work.
    let etcd = etcd_id(&h3.dir).unwrap();
    h3.kill();
    h1.status_until(|status| {
        led(status) && !status["cluster"]["peers"].to_string().contains("\"h3\"")
    });
    let token = h1.ok(&["site", "join"]);
    let mut command = penstock();
    command.args(["site", "join", token.trim(), "--peer=h3", &hosts.listen(34), "--dir"]);
    let refused = command.arg(hosts.at("host-34")).output().unwrap();
    assert_eq!(refused.status.code(), Some(6), "it lives: {}", told(&refused));
    assert!(told(&refused).contains("`h3` answers at"), "{}", told(&refused));
    kill("KILL", etcd);
    Wait::new("the end of etcd of h3").is(|| etcd_id(&h3.dir).is_none());
    let other = hosts.join_as(&h1, 33, "h3", &[]);
    let url = |number: usize| format!("https://{}.{number}:7445", hosts.net);
    let status = other.status_until(|status| votes(status) == 3 && healthy(status));
    assert!(endpoints(&status).contains(&url(33)) && !endpoints(&status).contains(&url(3)));
    let fourth = hosts.join(&h1, 4, &[]);
    fourth.status_until(|status| led(status) && votes(status) == 3);
    assert_eq!(etcd_id(&fourth.dir), None, "three are enough");
    let refused = h1.run(&["site", "remove", "h2"]);
    assert_eq!(refused.status.code(), Some(6), "it lives: {}", told(&refused));
    lose(&mut h2);
    h1.ok(&["site", "remove", "h2"]);
    let url = |number: usize| format!("https://{}.{number}:7445", hosts.net);
    let status = fourth.status_until(|status| {
        votes(status) == 3 && healthy(status) && endpoints(status).contains(&url(4))
    });
    assert!(!endpoints(&status).contains(&url(2)), "{status}");
    h2.start();
    h2.status_until(|status| led(status) && votes(status) == 3 && healthy(status));
    assert_eq!(etcd_id(&h2.dir), None, "its place is taken");
}

/// B4: of two hosts the one that is left takes over when its operator says that the other is
/// fenced, and not before; the records have another incarnation, and the other, when it comes
/// back, has nothing to say and joins anew.
#[test]
fn b4_the_last_host_takes_over() {
    let Some(mut hosts) = Hosts::new() else { return };
    let mut h1 = hosts.first(2);
    let mut h2 = hosts.join(&h1, 2, &[]);
    for site in [&h1, &h2] {
        site.status_until(|status| votes(status) == 2 && healthy(status));
    }
    let lab = hosts.lab();
    lab.pair(&h1);
    let refused = |site: &Site, args: &[&str]| {
        let output = site.run(&[&["site", "takeover"], args].concat());
        assert_eq!(output.status.code(), Some(6), "{}", told(&output));
        told(&output)
    };
    assert!(refused(&h1, &["--i-have-fenced=h2"]).contains("h2` answers"));
    assert!(refused(&h1, &["--i-have-fenced=h1"]).contains("not named as fenced"));
    let epoch = h1.status_until(led)["cluster"]["epoch"].as_str().unwrap().to_owned();
    let noted = hosts.at("journal/voters.json");
    let voters = || {
        let text = fs::read(&noted).unwrap_or_default();
        serde_json::from_slice::<Vec<Value>>(&text).unwrap_or_default()
    };
    Wait::new("the journal knows both").is(|| voters().len() == 2);
    let etcd = etcd_id(&h2.dir).unwrap();
    h2.kill();
    kill("KILL", etcd);
    // Its etcd lives on and has no leader: a daemon that begins beside it sees just that.
    h1.kill();
    h1.start();
    let alone = |status: &Value| status["cluster"]["etcd"].to_string().contains("has no leader");
    h1.status_until(|status| alone(status) && !leads(status) && !trouble(status).is_empty());
    assert!(refused(&h1, &["--i-have-fenced=h9"]).contains("not named as fenced"));
    // What this host saw last may be old: the journal knows who has joined since, or that it does
    // not know.
    let mut voters = voters();
    assert_eq!(voters.len(), 2, "{voters:?}");
    voters.push(serde_json::json!({
        "name": "h3", "client_url": "https://127.255.0.1:1", "peer_url": "https://127.255.0.1:2",
    }));
    fs::write(&noted, serde_json::to_vec(&voters).unwrap()).unwrap();
    assert!(refused(&h1, &["--i-have-fenced=h2"]).contains("also runs at `h3`"));
    let set_time = |time| {
        let file = fs::File::options().write(true).open(&noted).unwrap();
        file.set_modified(time).unwrap();
    };
    set_time(std::time::SystemTime::UNIX_EPOCH);
    let both = ["--i-have-fenced=h2", "--i-have-fenced=h3"];
    assert!(refused(&h1, &both).contains("for the site now are not known"));
    set_time(std::time::SystemTime::now());
    let told = h1.ok(&[&["site", "takeover"][..], &both].concat());
    let status = h1.status_until(leads);
    let after = status["cluster"]["epoch"].as_str().unwrap();
    let incarnation = |epoch: &str| u64::from_str_radix(&epoch[..16], 16).unwrap();
    assert_eq!(incarnation(after), incarnation(&epoch) + 1, "{told}");
    assert!(h1.ok(&["site", "list"]).contains("lab"));
    make_set(&lab.store.join("set"), 1, 20, seed());
    let id = h1.submit(&["lab:data/set", "hpc:data/"]);
    h1.wait_done(&id);
    h2.start();
    for site in [&h1, &h2] {
        site.status_until(|status| led(status) && votes(status) == 2 && healthy(status));
    }
    assert_eq!(h2.show(&id)["state"], "done");
}

/// B4: both hosts have lost their power and one is back, so that its etcd takes no requests. A
/// takeover whose host dies when its etcd is about to lead alone leaves a site that nobody leads,
/// least of all under what was before the takeover; the same order finishes it.
#[test]
fn b4_a_takeover_that_was_cut_short_is_finished() {
    let Some(mut hosts) = Hosts::new() else { return };
    let mut h1 = hosts.first(2);
    let mut h2 = hosts.join(&h1, 2, &[]);
    for site in [&h1, &h2] {
        site.status_until(|status| votes(status) == 2 && healthy(status));
    }
    let epoch = h1.status_until(led)["cluster"]["epoch"].as_str().unwrap().to_owned();
    h1.kill();
    h2.kill();
    for site in [&h1, &h2] {
        kill("KILL", etcd_id(&site.dir).unwrap());
    }
    // An etcd that leads alone no sooner than it is told to.
    let (program, begun, held) = (hosts.at("etcd.sh"), hosts.at("begun"), hosts.at("held"));
    let (begun_path, held_path) = (begun.display(), held.display());
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *force-new-cluster*)\n  touch '{begun_path}'\n  while [ -e \
         '{held_path}' ]; do sleep 0.1; done;;\nesac\nexec etcd \"$@\"\n"
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&held, "").unwrap();
    let table = "[cluster.own_etcd]\n";
    h1.reconfigure(table, &format!("{table}program = \"{}\"\n", program.display()));
    h1.start();
    Wait::new("etcd is there again").is(|| etcd_id(&h1.dir).is_some());
    h1.status_until(|status| !leads(status) && !trouble(status).is_empty());
    let takeover = ["site", "takeover", "--i-have-fenced=h2"];
    let mut order = h1.command(&takeover).stderr(Stdio::null()).spawn().unwrap();
    Wait::new("etcd alone").is(|| begun.exists());
    h1.kill();
    assert!(!order.wait().unwrap().success());
    fs::remove_file(&held).unwrap();
    // While one program takes the place of another, the kernel shows the words of neither.
    let is_etcd =
        |id| fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name == "etcd\n");
    Wait::new("etcd itself").is(|| etcd_id(&h1.dir).is_some_and(is_etcd));
    h1.start();
    let status = h1.status_until(|status| trouble(status).contains("not complete"));
    assert!(!led(&status) && !leads(&status), "{status}");
    let told = h1.ok(&takeover);
    let status = h1.status_until(leads);
    let after = status["cluster"]["epoch"].as_str().unwrap();
    let incarnation = |epoch: &str| u64::from_str_radix(&epoch[..16], 16).unwrap();
    assert_eq!(incarnation(after), incarnation(&epoch) + 2, "one for each attempt: {told}");
}

/// Issue 5: two hosts and a witness bear the loss of either host; the witness moves no data, and
/// needs neither stores nor journal.
#[test]
fn two_hosts_and_a_witness_bear_a_loss() {
    let Some(mut hosts) = Hosts::new() else { return };
    let mut h1 = hosts.first(3);
    let h2 = hosts.join(&h1, 2, &[]);
    let h3 = hosts.join(&h1, 3, &["--witness"]);
    h3.status_until(|status| led(status) && votes(status) == 3 && healthy(status));
    let text = h3.config();
    assert!(!text.contains("[[store]]"), "{text}");
    let etcd = etcd_id(&h1.dir).unwrap();
    h1.kill();
    kill("KILL", etcd);
    let status = h2.status_until(leads);
    assert_eq!(status["cluster"]["leader"]["peer"], "h2");
    // Nobody is told to fetch data from a witness.
    let cards = status["cluster"]["peers"].as_array().unwrap();
    let witness = cards.iter().find(|card| card["peer"] == "h3").unwrap();
    assert_eq!(witness["data"].as_array().unwrap().len(), 0, "{witness}");
}

/// B4: an etcd that was restored from a backup leads nobody: the journal knows better. `site
/// recover` goes on from the journal, under another incarnation; the same where all of etcd is
/// lost.
#[test]
fn b4_the_journal_knows_more_than_a_backup() {
    let Some(mut hosts) = Hosts::new() else { return };
    let mut h1 = hosts.first(1);
    let lab = hosts.lab();
    lab.pair(&h1);
    let end = |site: &mut Site| {
        site.signal(Signal::TERM);
        let dir = site.dir.clone();
        Wait::new("the end of etcd").is(|| etcd_id(&dir).is_none());
        site.kill();
    };
    let copy = |from: &Path, to: &Path| {
        let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
        assert!(copied.success());
    };
    let data = h1.dir.join("etcd/data");
    end(&mut h1);
    copy(&data, &hosts.at("backup"));
    h1.start();
    h1.status_until(leads);
    make_set(&lab.store.join("set"), 16, 50, seed());
    let parked = h1.submit(&["lab:data/set", "hpc:data/", "--bwlimit=8MiB/s", "--piece-size=1M"]);
    h1.watch(&parked).until(verified_at_least(4 * MIB));
    h1.ok(&["transfer", "pause", &parked]);
    h1.show_until(&parked, |view| view["state"] == "paused");
    let refused = h1.run(&["site", "recover"]);
    assert_eq!(refused.status.code(), Some(6), "it leads: {}", told(&refused));
    end(&mut h1);
    fs::remove_dir_all(&data).unwrap();
    copy(&hosts.at("backup"), &data);
    h1.start();
    let status = h1.status_until(|status| trouble(status).contains("older than the journal"));
    assert!(!led(&status), "{status}");
    let told_text = h1.ok(&["site", "recover"]);
    assert!(told_text.contains("1 transfers, from the journal"), "{told_text}");
    let status = h1.status_until(leads);
    let epoch = status["cluster"]["epoch"].as_str().unwrap().to_owned();
    assert_eq!(h1.show(&parked)["state"], "paused");
    // All of it is lost.
    end(&mut h1);
    fs::remove_dir_all(&data).unwrap();
    h1.start();
    let told_text = h1.ok(&["site", "recover", "--new-etcd"]);
    assert!(told_text.contains("1 transfers, from the journal"), "{told_text}");
    let after = h1.status_until(leads)["cluster"]["epoch"].as_str().unwrap().to_owned();
    assert_ne!(after[..16], epoch[..16]);
    h1.ok(&["transfer", "resume", &parked]);
    let summary = h1.wait_done(&parked);
    assert!(summary["bytes_resumed"].as_u64().unwrap() > 0, "{summary}");
    assert_same_files(&lab.store.join("set"), &h1.store.join("set"));
}

/// B4: a host that was set up from the backed-up keys begins no new etcd while the others have
/// their majority, of which it knows nothing: their controller is seen in the journal.
#[test]
fn b4_no_new_etcd_is_begun_beside_one_that_lives() {
    let Some(mut hosts) = Hosts::new() else { return };
    let [mut h1, h2, _h3] = hosts.three();
    let etcd = etcd_id(&h1.dir).unwrap();
    h1.kill();
    kill("KILL", etcd);
    // Of what stands behind it another controller of the same etcd has another.
    let incarnation =
        |status: &Value| status["cluster"]["epoch"].as_str().map(|epoch| epoch[..16].to_owned());
    let before = incarnation(&h2.status_until(led_by_another("h1")));
    for gone in ["etcd/data", "etcd/members.json", "etcd/member.json", "state.db"] {
        let path = h1.dir.join(gone);
        let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
    }
    h1.start();
    let refused = h1.run(&["site", "recover", "--new-etcd"]);
    assert_eq!(refused.status.code(), Some(6), "{}", told(&refused));
    assert!(told(&refused).contains("is at work"), "{}", told(&refused));
    assert_eq!(etcd_id(&h1.dir), None, "an etcd beside that of the others");
    assert_eq!(incarnation(&h2.status_until(led)), before);
}

fn etcd_password(site: &Site) -> String {
    fs::read_to_string(site.dir.join("etcd/password")).unwrap()
}

/// D4: the disk of a host is stolen while a transfer runs. One command at a host that lives shuts
/// the thief out, at the host's own site and at a paired one: a copy of its site directory opens
/// nothing any more, neither with its certificate nor with another one of the stolen authority.
/// etcd has another password. The transfer goes on, and a new host takes the stolen one's place.
#[test]
fn d4_a_stolen_host_is_shut_out_while_a_transfer_runs() {
    let Some(mut hosts) = Hosts::new() else { return };
    let [h1, mut h2, h3] = hosts.three();
    let lab = hosts.lab();
    lab.pair(&h1);
    make_set(&lab.store.join("src"), 48, 200, seed());
    let limit = ["--bwlimit", "4MiB/s"];
    let args = [&["lab:data/src/", "hpc:data/dst"][..], &limit].concat();
    let id = h1.submit(&args);
    h1.show_until(&id, |view| view["progress"]["bytes_verified"].as_u64() > Some(0));
    let stolen = hosts.at("stolen");
    h2.copy_trust(&stolen);
    let password = etcd_password(&h1);
    let own = format!("{}.1:7444", hosts.net).parse().unwrap();
    let other = format!("{}.3:7444", hosts.net).parse().unwrap();
    let far = lab.address();
    let load = "/peer/v1/own/load";
    let stores = "/site/v1/stores/data/peers";
    assert!(answered(&stolen, &h1, own, load) && answered(&stolen, &lab, far, stores));
    let at = h1.status_until(led)["cluster"]["leader"]["peer"].clone();
    let (leader, lives) = if at == "h3" { (&h3, &h1) } else { (&h1, &h3) };
    if at == "h2" {
        h2.signal(Signal::STOP);
        h1.status_until(led_by_another("h2"));
        h2.signal(Signal::CONT);
    }
    let there = leader.run(&["peer", "forget", "h2"]);
    assert_eq!(there.status.code(), Some(6), "it is there: {}", told(&there));
    let began = Instant::now();
    let forgot = leader.run(&["peer", "forget", "h2", "--stolen"]);
    println!("{}: {}", began.elapsed().as_secs_f32(), told(&forgot));
    assert!(forgot.status.success(), "{}", lives.log_text());
    assert!(!told(&forgot).contains("did not answer"), "{}", told(&forgot));
    let issued = hosts.at("issued");
    issue_anew(&stolen, &issued, "hpc", "h9");
    let shut = |trust: &Path| {
        !answered(trust, &h1, own, load)
            && !answered(trust, &h3, other, load)
            && !answered(trust, &lab, far, stores)
    };
    Wait::new("the stolen keys to open nothing").is(|| shut(&stolen) && shut(&issued));
    println!("shut out after {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_ne!(etcd_password(&h1), password);
    assert_eq!(etcd_password(&h1), etcd_password(&h3));
    assert_eq!(h1.listed("hpc")["fingerprint"], h3.listed("hpc")["fingerprint"]);
    assert_eq!(h1.listed("hpc")["fingerprint"], lab.listed("hpc")["fingerprint"]);
    h2.kill();
    h1.wait_done(&id);
    assert_same_files(&lab.store.join("src"), &h1.store.join("dst"));
    h1.status_until(|status| led(status) && healthy(status));
    if let Some(id) = etcd_id(&h2.dir) {
        kill("KILL", id);
    }
    let anew = hosts.join_as(&h1, 4, "h2", &[]);
    anew.status_until(led);
    let id = lab.submit(&["lab:data/src/", "hpc:data/again"]);
    lab.wait_done(&id);
    // The other way round: each peer of the site hears of other keys of a paired one.
    let before = hosts.at("lab-before");
    lab.copy_trust(&before);
    assert!(answered(&before, &h1, own, stores) && answered(&before, &h3, other, stores));
    lab.ok(&["site", "rotate"]);
    let shut = || !answered(&before, &h1, own, stores) && !answered(&before, &h3, other, stores);
    Wait::new("the old keys of lab to open nothing").is(shut);
    let id = lab.submit(&["lab:data/src/", "hpc:data/third"]);
    lab.wait_done(&id);
}

/// Issue 5, D5: an etcd of the operator's is reached by mutual TLS and with a password, by the
/// first host and by those that join; here it is the one that another site runs.
#[test]
fn d5_an_operators_etcd_is_reached_by_tls_and_password() {
    let Some(mut hosts) = Hosts::new() else { return };
    let operators = hosts.first(1);
    let url = format!("https://{}.1:7445", hosts.net);
    let file = |name: &str| operators.dir.join(name).display().to_string();
    let mut far = Site::adopt("far", hosts.at("far"), hosts.at("store-far"));
    fs::create_dir(&far.store).unwrap();
    let journal = hosts.at("journal-far").display().to_string();
    let (ca, cert) = (file("etcd/authority.pem"), file("etcd/client.pem"));
    far.init_with(
        &[
            &["--peer", "f1", "--listen=127.0.0.1:0", "--journal", &journal, "--etcd", &url][..],
            &["--etcd-ca", &ca, "--etcd-cert", &cert, "--etcd-key", &file("etcd/client.key")],
            &["--etcd-user=root", "--etcd-password-file", &file("etcd/password")],
        ]
        .concat(),
    );
    far.start();
    far.status_until(leads);
    let mut second = far.add_peer(hosts.at("far-2"), "f2", &["--listen=127.0.0.1:0"]);
    second.start();
    second.status_until(|status| led(status) && healthy(status));
    // Its tokens are void when it is started again.
    kill("KILL", etcd_id(&operators.dir).unwrap());
    for site in [&far, &second] {
        site.status_until(|status| led(status) && healthy(status) && trouble(status).is_empty());
    }
    let view = far.run(&["site", "takeover", "--i-have-fenced=f2"]);
    assert_eq!(view.status.code(), Some(6), "{}", told(&view));
    assert!(told(&view).contains("site recover"), "{}", told(&view));
    let dirs = [far, second].map(|site| site.dir.clone());
    dirs.iter().for_each(|dir| assert_purged(dir));
}

/// E6: an etcd of the operator's that keeps all of its history is refused when the daemon starts.
#[test]
fn e6_an_etcd_that_never_forgets_is_refused() {
    let Some(hosts) = Hosts::new() else { return };
    let (client, peer) =
        (format!("http://{}.1:7445", hosts.net), format!("http://{}.1:7446", hosts.net));
    let mut etcd = Command::new("etcd")
        .args(["--name=m", "--auto-compaction-retention=0", "--data-dir"])
        .arg(hosts.at("etcd"))
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .arg(format!("--initial-cluster=m={peer}"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let address = client.trim_start_matches("http://").to_owned();
    Wait::new("etcd").is(|| std::net::TcpStream::connect(&address).is_ok());
    let dir = hosts.at("far");
    let mut command = penstock();
    command.args(["site", "init", "--name=far", "--listen=127.0.0.1:0", "--etcd", &client]);
    command.arg("--journal").arg(hosts.at("journal")).arg("--dir").arg(&dir);
    assert!(command.status().unwrap().success());
    // It answers once it has elected itself.
    let began = Instant::now();
    let output = loop {
        let mut daemon = penstock();
        daemon.args(["daemon", "--dir"]).arg(&dir).stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = daemon.spawn().unwrap();
        std::thread::sleep(Duration::from_secs(3));
        // One that runs has not had an answer in time.
        if child.try_wait().unwrap().is_some() {
            break child.wait_with_output().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(began.elapsed() < PATIENCE, "it was not refused");
    };
    etcd.kill().unwrap();
    etcd.wait().unwrap();
    assert_eq!(output.status.code(), Some(6), "{}", told(&output));
    assert!(told(&output).contains("--auto-compaction-retention"), "{}", told(&output));
}

/// Promise: a host that has lost its program `etcd` starts all the same, says what it lacks, and
/// goes on by itself once that is there again.
#[test]
fn a_host_without_its_etcd_waits_for_it() {
    let Some(mut hosts) = Hosts::new() else { return };
    let mut h1 = hosts.first(1);
    let id = etcd_id(&h1.dir).unwrap();
    h1.kill();
    kill("KILL", id);
    Wait::new("the end of etcd").is(|| etcd_id(&h1.dir).is_none());
    let program = hosts.at("etcd-later");
    let own = "[cluster.own_etcd]\n";
    h1.reconfigure(own, &format!("{own}program = \"{}\"\n", program.display()));
    h1.start();
    h1.status_until(|status| trouble(status).contains("cannot be run"));
    let which = Command::new("sh").args(["-c", "command -v etcd"]).output().unwrap();
    let which = String::from_utf8(which.stdout).unwrap();
    std::os::unix::fs::symlink(which.trim(), &program).unwrap();
    h1.status_until(|status| leads(status) && trouble(status).is_empty());
}

/// Promise: an operator who lacks etcd is told which package has it, before anything is made.
#[test]
fn a_missing_etcd_is_named_with_its_package() {
    let root = Scratch::in_memory();
    let dir = root.path().join("h1");
    let mut command = penstock();
    command.args(["site", "init", "--name=hpc", "--peers=3", "--listen=127.0.0.1:0", "--dir"]);
    command.arg(&dir).arg("--journal").arg(root.path().join("journal")).env("PATH", root.path());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", told(&output));
    assert!(told(&output).contains("etcd-server"), "{}", told(&output));
    assert!(!dir.exists());
}
