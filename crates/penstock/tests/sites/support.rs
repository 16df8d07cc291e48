//! What helps when something is wrong: decisions, explanations, and bundles, of real daemons.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use penstock_testkit::{
    Scratch, Site, Wait, make_set, penstock, random_file, rng, seed, told, two_sites,
};
use serde_json::Value;

/// A slow transfer: minutes for 16 MiB.
const SLOW: &str = "1Mbit/s";

/// Returns whether bytes of a transfer have come.
fn has_begun(view: &Value) -> bool {
    view["progress"]["bytes_verified"].as_u64().is_some_and(|bytes| bytes > 0)
}

/// Returns the texts of the evidence about a subject.
fn evidence(explained: &Value, about: &str) -> String {
    let all = explained["evidence"].as_array().unwrap().iter();
    let found = all.filter(|evidence| evidence["about"] == about);
    found.map(|evidence| evidence["text"].as_str().unwrap()).collect::<Vec<_>>().join("; ")
}

fn explain(site: &Site, id: &str) -> Value {
    site.lines(&["transfer", "explain", id, "--all", "--json"]).remove(0)
}

fn kinds(explained: &Value) -> Vec<&str> {
    let decisions = explained["decisions"].as_array().unwrap().iter();
    decisions.map(|decision| decision["kind"].as_str().unwrap()).collect()
}

/// Makes two sites, and data at the first: `set` of small files and `large` of 16 MiB.
fn world(base: &Path) -> (Site, Site) {
    let (store_a, store_b) = (base.join("store-a"), base.join("store-b"));
    let mut rng = rng("support");
    make_set(&store_a.join("set"), 1, 20, seed());
    random_file(&store_a.join("large"), 16 << 20, &mut rng);
    random_file(&store_a.join("few/one"), 100, &mut rng);
    fs::create_dir_all(&store_b).unwrap();
    two_sites(base, &store_a, &store_b)
}

/// Promise: a transfer is explained in each state, from its own decisions: one at a limit, one that
/// waits for its turn, one that is paused, one whose items failed, one that is done. The decisions
/// outlive a restart of the daemon, and the other site of a transfer sees them too.
#[test]
fn a_transfer_is_explained_in_each_state() {
    let scratch = Scratch::on_disk();
    let (a, mut b) = world(scratch.path());
    b.ok(&["queue", "limit", "site", "b", "--running", "1"]);
    let slow = b.submit(&["a:data/large", "b:data/large", "--bwlimit", SLOW]);
    b.show_until(&slow, has_begun);
    let limited = Wait::new("the limit shows").some(|| {
        Some(explain(&b, &slow)).filter(|it| it.to_string().contains("the limit that was set"))
    });
    assert!(limited["summary"].as_str().unwrap().contains("runs at"), "{limited}");
    assert_eq!(evidence(&limited, "own limit"), "1.00 Mbit/s");
    for kind in ["attempt-begin", "phase", "peer-in", "grant", "bottleneck"] {
        assert!(kinds(&limited).contains(&kind), "{kind}: {limited}");
    }
    let far = explain(&a, &slow);
    assert!(kinds(&far).contains(&"attempt-begin"), "the source's site sees it: {far}");

    let waits = b.submit(&["a:data/set", "b:data/set"]);
    b.show_until(&waits, |view| view["state"] == "queued");
    let waiting = explain(&b, &waits);
    assert!(waiting["summary"].as_str().unwrap().contains("for its turn"), "{waiting}");
    assert!(evidence(&waiting, "limit").contains("1 of at most 1 run"), "{waiting}");

    b.ok(&["transfer", "pause", &slow]);
    b.show_until(&slow, |view| view["state"] == "paused");
    let paused = explain(&b, &slow);
    assert!(paused["summary"].as_str().unwrap().contains("has been paused by"), "{paused}");
    assert!(kinds(&paused).contains(&"attempt-end"), "{paused}");

    b.wait_done(&waits);
    let done = explain(&b, &waits);
    assert!(done["summary"].as_str().unwrap().starts_with("The transfer is done: "), "{done}");
    b.kill();
    b.start();
    let after = explain(&b, &waits);
    assert_eq!(after["decisions"], done["decisions"], "they outlive a kill");

    // A directory is in the way of a file, and nothing is to be replaced.
    fs::create_dir_all(b.store.join("kept/one")).unwrap();
    let fails = b.submit(&["a:data/few/", "b:data/kept", "--if-exists", "fail"]);
    b.show_until(&fails, |view| view["state"] == "failed");
    let failed = explain(&b, &fails);
    assert!(failed["summary"].as_str().unwrap().starts_with("The transfer has failed"), "{failed}");
    assert!(evidence(&failed, "failed").starts_with("1 item, exists, as `one`"), "{failed}");
    let words = b.ok(&["transfer", "explain", &fails]);
    assert!(words.contains("What to do:") && words.contains("Last decisions"), "{words}");
}

/// Writes a program `journalctl` that prints these lines, and returns the PATH that finds it first.
fn journal_of(base: &Path, lines: &[String]) -> String {
    let bin = base.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let program = bin.join("journalctl");
    fs::write(&program, format!("#!/bin/sh\ncat <<'END'\n{}\nEND\n", lines.join("\n"))).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

/// Returns the files of a bundle, which `tar` unpacks.
fn unpacked(base: &Path, bundle: &Path) -> BTreeMap<String, String> {
    let into = base.join("unpacked");
    fs::create_dir_all(&into).unwrap();
    let tar = Command::new("tar").arg("-xzf").arg(bundle).arg("-C").arg(&into).output().unwrap();
    assert!(tar.status.success(), "{}", told(&tar));
    let (mut files, mut left) = (BTreeMap::new(), vec![into.clone()]);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
                continue;
            }
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0);
            let name = path.strip_prefix(into.join("penstock-support")).unwrap();
            files.insert(name.display().to_string(), fs::read_to_string(&path).unwrap());
        }
    }
    fs::remove_dir_all(into).unwrap();
    files
}

/// A site with a transfer that runs, and secrets in all places that a daemon shows.
struct Planted {
    b: Site,
    /// The source of the transfer.
    _a: Site,
    id: String,
    secrets: Vec<String>,
    /// The PATH under which the log has these secrets.
    path: String,
}

impl Planted {
    fn new(base: &Path) -> Self {
        let (a, mut b) = world(base);
        b.stop();
        let hooks = "[webhook]\nallow = [\"https://hooks.invalid/\"]";
        b.set_config(&format!("{}\n{hooks}\n", b.config()));
        b.start();
        b.ok(&["user", "set", "canary-anna", "--role", "user"]);
        let word = |text: &str, begin: &str| {
            let found = text.split_whitespace().find(|word| word.starts_with(begin));
            found.unwrap_or_else(|| panic!("no `{begin}` in {text}")).to_owned()
        };
        let token = word(&b.ok(&["token", "create", "--user", "canary-anna"]), "pstk_");
        let pairing = word(&b.ok(&["site", "pair"]), "pst1:");
        let url = "https://hooks.invalid/T01/canary-path";
        let secret = word(&b.ok(&["webhook", "set", "chat", url]), "whsec_");
        let key = fs::read_to_string(b.dir.join("trust/peer.key")).unwrap();
        let key = key.lines().find(|line| line.len() > 40).unwrap().to_owned();
        fs::rename(a.store.join("large"), a.store.join("canary-file.h5")).unwrap();
        let (file, label) = ("a:data/canary-file.h5", "password=canary-label");
        let to = "b:data/canary-file.h5";
        let id = b.submit(&[file, to, "--bwlimit", SLOW, "--label", label]);
        b.show_until(&id, has_begun);
        let lines = [
            format!("refused token {token} and code {pairing}"),
            format!("webhook {url} failed, signed with {secret}"),
            format!("a key: {key}"),
            "client_secret = 'canary-client' and https://x:canary-user@h.invalid/".to_owned(),
            "AKIAIOSFODNN7CANARY1 wJalrXUtnFEMI/K7MDENG/bPxRfiCYCANARYKEY".to_owned(),
        ];
        let path = journal_of(base, &lines);
        let known = [
            "canary-label",
            "canary-path",
            "canary-client",
            "canary-user",
            "AKIAIOSFODNN7CANARY1",
            "bPxRfiCYCANARYKEY",
        ];
        let mut secrets = vec![token, pairing, secret, key];
        secrets.extend(known.map(str::to_owned));
        Self { b, _a: a, id, secrets, path }
    }

    /// Makes a bundle, checks that it has no secret, and returns its files.
    fn bundle(&self, base: &Path, name: &str, options: &[&str]) -> BTreeMap<String, String> {
        let out = base.join(name);
        let mut command = penstock();
        command.args(["support-bundle", "--dir"]).arg(&self.b.dir).arg("--output").arg(&out);
        let made = command.args(options).env("PATH", &self.path).output().unwrap();
        assert!(made.status.success(), "{}", told(&made));
        assert_eq!(fs::metadata(&out).unwrap().permissions().mode() & 0o777, 0o600);
        let files = unpacked(base, &out);
        for (name, text) in &files {
            for secret in &self.secrets {
                assert!(!text.contains(secret.as_str()), "{name} has `{secret}`:\n{text}");
            }
        }
        files
    }
}

/// Files of every bundle that is made beside a daemon.
const FILES: [&str; 19] = [
    "MANIFEST",
    "version.txt",
    "status.json",
    "health.json",
    "peers.json",
    "stores.json",
    "sites.json",
    "queue.json",
    "webhooks.json",
    "metrics.txt",
    "settings.json",
    "config-check.txt",
    "doctor.json",
    "events.jsonl",
    "host.txt",
    "devices.txt",
    "sysctl.txt",
    "log.txt",
    "transfers.jsonl",
];

/// Promise (E14): a bundle of a daemon at work has what helps and no secret that the site has:
/// tokens, pairing codes, secrets and addresses of webhooks, keys, and what looks like one in
/// labels and in the log. With pseudonyms it names no file and no user. It replaces no file, and is
/// made without a daemon too.
#[test]
fn e14_a_bundle_of_a_daemon_has_no_secret() {
    let scratch = Scratch::on_disk();
    let base = scratch.path();
    let mut planted = Planted::new(base);
    let id = planted.id.clone();
    let files = planted.bundle(base, "1.tar.gz", &[]);
    for name in FILES {
        assert!(files.contains_key(name), "{name}: {:?}", files.keys());
    }
    for what in ["json", "flight.jsonl", "events.json", "paths.json", "explain.txt"] {
        let name = format!("transfers/{id}.{what}");
        assert!(files.contains_key(&name), "{name}: {:?}", files.keys());
        assert!(files["MANIFEST"].contains(&name), "{name}: {}", files["MANIFEST"]);
    }
    assert!(files[&format!("transfers/{id}.json")].contains("canary-file.h5"));
    let files = planted.bundle(base, "2.tar.gz", &["--redact-names", "--transfer", &id[..8]]);
    for (name, text) in &files {
        for secret in ["canary-file", "canary-anna"] {
            assert!(!text.contains(secret), "{name} has `{secret}`:\n{text}");
        }
    }
    let (before, again) = (fs::read(base.join("2.tar.gz")).unwrap(), base.join("2.tar.gz"));
    planted.b.fails(6, &["support-bundle", "--output", &again.display().to_string()]);
    assert_eq!(fs::read(&again).unwrap(), before, "a bundle replaces no file");
    planted.b.kill();
    let files = planted.bundle(base, "3.tar.gz", &[]);
    assert!(files["MANIFEST"].contains("What could not be had"), "{}", files["MANIFEST"]);
    assert!(files.contains_key(&format!("transfers/{id}.flight.jsonl")), "{:?}", files.keys());
}
