//! What a user sees: JSON Lines, errors with their exit codes, digest lists, how soon it is told.

use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use penstock_testkit::{
    ProxiedPair, Scratch, Site, assert_same_files, make_set, random_file, seed, told,
};
use serde_json::Value;

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

/// Promise: with `--json`, standard output is JSON Lines of `status`, `error` and `summary` events,
/// each with its version, the last with all fields of a summary; and so are the other commands'.
#[test]
fn json_is_json_lines_with_the_documented_fields() {
    let world = ProxiedPair::start();
    make_set(&world.a.store.join("src"), 1, 20, seed());
    for site in [&world.a, &world.b] {
        let target = format!("b:data/{}", site.name);
        let text = site.ok(&["transfer", "submit", "a:data/src/", &target, "--wait", "--json"]);
        let events: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for event in &events {
            let kind = event["type"].as_str().unwrap();
            assert!(["status", "error", "summary"].contains(&kind), "{event}");
            assert_eq!((&event["v"], event["id"].is_string()), (&Value::from(1), true), "{event}");
        }
        let summary = events.last().unwrap();
        assert_eq!((&summary["type"], &summary["state"]), (&"summary".into(), &"done".into()));
        for field in [
            "files",
            "bytes",
            "seconds",
            "rate_bits_per_s",
            "rate_max_bits_per_s",
            "bytes_verified",
            "bytes_resumed",
            "bytes_resent",
            "skipped",
            "errors",
            "cpu_seconds",
        ] {
            assert!(summary[field].is_number(), "`{field}` in {summary}");
        }
        assert!(summary["limit"].is_string(), "{summary}");
        let [rate, most] = ["rate_bits_per_s", "rate_max_bits_per_s"]
            .map(|field| summary[field].as_f64().unwrap());
        assert!(rate > 0.0 && most >= rate, "the greatest rate is below the mean: {summary}");
    }
    for command in [
        &["transfer", "list", "--json"][..],
        &["site", "list", "--json"],
        &["site", "status", "--json"],
        &["store", "list", "--json"],
    ] {
        let text = world.a.ok(command);
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        assert!(lines.count() > 0, "{command:?} prints nothing");
    }
}

/// An error must end with this code and say these things, the last of them as a hint.
fn fails(output: &Output, code: i32, says: &[&str], hint: &str) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{}", told(output));
    assert!(text.starts_with("error: ") || text.contains("\nerror: "), "{}", told(output));
    for word in says {
        assert!(text.contains(word), "it does not say `{word}`: {}", told(output));
    }
    let mut hints =
        text.lines().filter(|line| line.starts_with("hint:") || line.contains("--help"));
    let told_so = hint.is_empty() || hints.any(|line| line.contains(hint));
    assert!(told_so, "no hint at `{hint}`: {}", told(output));
}

/// Promise: what is wrong is told as error, cause and hint, with the documented exit code.
#[test]
fn errors_say_what_why_and_what_next() {
    let world = ProxiedPair::start();
    fs::write(world.a.store.join("file"), "x").unwrap();
    let lone = Site::init(world.root.path(), "lone", None);
    fails(&lone.run(&["transfer", "list"]), 5, &["no daemon", "cause: "], "penstock daemon");
    let submit = |site: &Site, args: &[&str]| {
        let args: Vec<_> = ["transfer", "submit"].iter().chain(args).copied().collect();
        site.run(&args)
    };
    let (a, b) = (&world.a, &world.b);
    let output = submit(b, &["a:data/file", "b:nosuch/file"]);
    fails(&output, 2, &["store `nosuch` does not exist here"], "known stores: data");
    let output = submit(a, &["a:data/file", "b:nosuch/file"]);
    fails(&output, 12, &["`a` may not write to `b:nosuch`"], "operator of `b`");
    let output = submit(b, &["a:nosuch/file", "b:data/file", "--wait"]);
    fails(&output, 12, &["`b` may not read from `a:nosuch`"], "");
    for target in ["zz:data/x", "lone:data/x"] {
        let output = submit(a, &["a:data/file", target]);
        fails(&output, 12, &["is not paired with this one"], "penstock site pair");
    }
    let output = submit(a, &["lone:data/file", "b:data/x"]);
    fails(&output, 12, &["may only submit transfers from itself"], "at site `b`");
    for wrong in ["data/file", "a:data/../file", "A:data/file", "a:"] {
        fails(&submit(a, &[wrong, "b:data/x"]), 2, &["is not SITE:STORE/PATH"], "--help");
    }
    let list = ["a:data/file", "b:data/x", "--wait", "--write-digests", "l"];
    let with_xxh3: Vec<_> = list.iter().chain(&["--digest", "xxh3-128"]).copied().collect();
    fails(&submit(a, &with_xxh3), 2, &["XXH3 gives no digests"], "leave out");
    let output = submit(b, &["a:data/nosuch", "b:data/x", "--wait"]);
    fails(&output, 4, &["nosuch", "No such file", "correct the path of the source"], "retry");
    let id = b.list()[0]["id"].as_str().unwrap().to_owned();
    let output = b.run(&["transfer", "digests", &id, "--output", "list"]);
    fails(&output, 6, &["has no digest list"], "--write-digests");
    assert!(!told(&output).contains("os error"), "{}", told(&output));
    fails(&a.run(&["site", "pair", "garbage"]), 2, &["not a pairing token", "cause: "], "");
    fails(
        &b.run(&["transfer", "show", "123"]),
        2,
        &["transfer `123` does not exist"],
        "transfer list",
    );
    assert!(
        fs::read_dir(&b.store)
            .unwrap()
            .all(|entry| entry.unwrap().file_name() == ".penstock-store-7q2mv0kd9j")
    );
}

/// D4: a site whose certificate is not the one of the pairing is told apart, exit 12, whichever
/// side dials; nothing is sent to it.
#[test]
fn d4_a_wrong_certificate_is_told() {
    let world = ProxiedPair::start();
    fs::write(world.a.store.join("file"), "x").unwrap();
    let elsewhere = Scratch::in_memory();
    let mut imposter = Site::init(elsewhere.path(), "b", None);
    world.proxy_b.set_upstream(imposter.start());
    world.proxy_b.reset();
    let output = world.a.run(&["transfer", "submit", "a:data/file", "b:data/x", "--wait"]);
    fails(&output, 12, &["do not trust each other", "cause: "], "site pair");
    let mut imposter = Site::init(&elsewhere.path().join("store-b"), "a", None);
    world.proxy_a.set_upstream(imposter.start());
    world.proxy_a.reset();
    let output = world.b.run(&["transfer", "submit", "a:data/file", "b:data/x", "--wait"]);
    fails(&output, 12, &["do not trust each other"], "");
    assert!(!world.b.store.join("x").exists());
}

/// Promise: `--write-digests` gives the BLAKE3 digest of each file as `b3sum --check` reads it.
#[test]
fn a_digest_list_is_what_b3sum_checks() {
    let world = ProxiedPair::start();
    make_set(&world.a.store.join("src"), 17, 60, seed());
    let list = world.root.path().join("list");
    let list_text = list.to_str().unwrap();
    let args = ["transfer", "submit", "a:data/src/", "b:data/dst", "--write-digests", list_text];
    let args: Vec<_> = args.iter().chain(&["--wait"]).copied().collect();
    world.a.ok(&args);
    let target = world.b.store.join("dst");
    let lines = fs::read_to_string(&list).unwrap();
    for line in lines.lines() {
        let (digest, path) = line.split_once("  ").unwrap();
        let there = blake3::hash(&fs::read(target.join(path)).unwrap());
        assert_eq!(there.to_hex().as_str(), digest, "{path}");
    }
    assert_eq!(lines.lines().count(), 65, "every file is listed once");
    assert_same_files(&world.a.store.join("src"), &target);
    match Command::new("b3sum").arg("--check").arg(&list).current_dir(&target).output() {
        Ok(output) => assert!(output.status.success(), "{}", told(&output)),
        Err(error) => println!("not checked with b3sum: {error}"),
    }
}

/// Promise: whoever waits is told at once, at either site. A look once a second, as there was at
/// the site that does not own the transfer, makes every one of these take a second; of a machine
/// that is busy, one of many is quick.
#[test]
fn the_end_of_a_transfer_is_told_at_once() {
    let world = ProxiedPair::start();
    let mut rng = ChaCha8Rng::seed_from_u64(seed());
    random_file(&world.a.store.join("src/file"), 1000, &mut rng);
    for site in [&world.a, &world.b] {
        let mut times = (0..40).map(|number| {
            let target = format!("b:data/{}{number}", site.name);
            let began = Instant::now();
            site.ok(&["transfer", "submit", "a:data/src/", &target, "--wait"]);
            began.elapsed()
        });
        let quick = times.find(|took| *took < Duration::from_secs(1));
        println!("at {}: {quick:?}", site.name);
        assert!(quick.is_some(), "all took longer than a second at {}", site.name);
    }
}

/// Promise: errors are told, however long the paths are: the answer that ends a scan may be larger
/// than any page. A thousand paths that are not UTF-8, each escaped to five times its length.
#[test]
fn a_scan_ends_over_two_sites_with_a_thousand_long_errors() {
    const MISSING: usize = 1000;
    let world = ProxiedPair::start();
    fs::create_dir(world.a.store.join("src")).unwrap();
    fs::write(world.a.store.join("src/there"), b"1").unwrap();
    let directories = [&[0xff; 200], b"/".as_slice()].concat().repeat(5);
    let mut list = b"there\0".to_vec();
    for number in 0..MISSING {
        list.extend([&directories, number.to_string().as_bytes(), b"\0"].concat());
    }
    let file = world.root.path().join("list");
    fs::write(&file, list).unwrap();
    let from = format!("--files-from={}", file.display());
    let args = ["transfer", "submit", "a:data/src/", "b:data/dst", &from, "--from0"];
    let output = world.b.run(&[&args[..], &["--wait"]].concat());
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    let is_list = |name: &str| name.starts_with("penstock-failed-");
    let mut beside = fs::read_dir(world.root.path()).unwrap().map(|entry| entry.unwrap());
    let list = beside.find(|entry| entry.file_name().to_str().is_some_and(is_list)).unwrap();
    let failed = fs::read_to_string(list.path()).unwrap();
    let long = failed.lines().filter(|line| line.len() > 2 * directories.len());
    assert_eq!((long.count(), failed.lines().count()), (MISSING, MISSING));
    assert_eq!(fs::read(world.b.store.join("dst/there")).unwrap(), b"1");
}
