//! `penstock doctor` and `doctor --pair`: what it says of hosts, stores and paths that are not as
//! they should be. The tests with firewalls and cuts need root, iproute2 and /dev/net/tun, and say
//! so where they are missing.

use std::process::Output;

use penstock_testkit::{LabPair, ProxiedPair, Scratch, Site, can_run_lab, told};
use serde_json::Value;

const TWO: &str = r#"
[[network]]
name = "mgmt"
role = "control"
interface = "net0"
[[network]]
name = "fast0"
interface = "net1"
[[network]]
name = "fast1"
interface = "net2"
"#;

fn findings(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let parsed = text.lines().map(serde_json::from_str).collect::<Result<_, _>>();
    parsed.unwrap_or_else(|error| panic!("{error}: {}", told(output)))
}

fn of<'a>(findings: &'a [Value], code: &str) -> Vec<&'a Value> {
    findings.iter().filter(|finding| finding["code"] == code).collect()
}

fn what(findings: &[Value]) -> String {
    let bad = findings.iter().filter(|finding| finding["level"] != "ok");
    bad.map(|finding| format!("{}: {}\n", finding["code"], finding["what"])).collect()
}

/// Promise: a store that is not there, and one that is nearly nothing but memory, are said with
/// what to do; the exit code tells scripts, and each finding is one JSON object.
#[test]
fn a5_a_store_that_is_not_there_is_said() {
    let root = Scratch::in_memory();
    let mut site = Site::init(root.path(), "lab", None);
    let more = "\n[[store]]\nname = \"gone\"\npath = \"/nonexistent/store\"\n";
    site.set_config(&(site.config() + more));
    site.start();
    let output = site.run(&["doctor", "--json"]);
    assert_eq!(output.status.code(), Some(7), "{}", told(&output));
    let found = findings(&output);
    let gone = of(&found, "store");
    assert_eq!((gone.len(), &gone[0]["level"]), (1, &"bad".into()), "{found:?}");
    assert!(gone[0]["what"].as_str().unwrap().contains("`gone` is not there"), "{}", gone[0]);
    assert!(gone[0]["action"].as_str().unwrap().contains("/nonexistent/store"));
    assert_eq!(of(&found, "durability").len(), 1, "{found:?}");
    let text = told(&site.run(&["doctor"]));
    assert!(text.contains("why:") && text.contains("do:"), "{text}");
    println!("{text}");
}

/// Promise: two sites that fit together are said to be well, with round trip and clock, from either
/// end; a connection that opens and then passes nothing is not called good.
#[test]
fn a_path_that_opens_and_passes_nothing_is_not_good() {
    let world = ProxiedPair::start();
    let well = world.b.run(&["doctor", "--pair", "a", "--all"]);
    println!("{}", told(&well));
    assert!(well.status.success(), "{}", told(&well));
    let text = told(&well);
    assert!(text.contains("1 of 1 paths from b to a carry packets of full size"), "{text}");
    assert!(text.contains("the clocks differ by") && text.contains("both sites run"), "{text}");
    assert!(world.a.run(&["doctor", "--pair", "b"]).status.success());

    // The proxy before a passes 400 bit/s from now on: a handshake's few packets take for ever.
    world.proxy_a.set_rate(Some(8_000.0));
    let output = world.b.run(&["doctor", "--pair", "a", "--json"]);
    world.proxy_a.set_rate(None);
    let found = findings(&output);
    let mtu = of(&found, "mtu");
    assert!(!mtu.is_empty(), "{}", told(&output));
    assert!(mtu[0]["what"].as_str().unwrap().contains("64 KiB do not pass"), "{}", mtu[0]);
    assert_eq!(output.status.code(), Some(7), "{}", told(&output));

    let unpaired = world.b.run(&["doctor", "--pair", "zz"]);
    assert_eq!(unpaired.status.code(), Some(12), "{}", told(&unpaired));
}

/// Promise: a firewall at one end is told from a cut cable, since both ends have tried: the one
/// reaches this end over the same two addresses and listens there, the other does not.
#[test]
fn a_firewall_is_told_from_a_cut() {
    if !can_run_lab("a_firewall_is_told_from_a_cut") {
        return;
    }
    let world = LabPair::up("doctor", &["--nics", "3", "--rtt", "2ms"], TWO);
    let well = world.b.run(&["doctor", "--pair", "a", "--all"]);
    println!("{}", told(&well));
    assert!(
        told(&well).contains("paths from b to a carry packets of full size"),
        "{}",
        told(&well)
    );

    // A firewall at a: what comes in by net1 for port 7444 is dropped, by a rule of the routes,
    // which every kernel has.
    let rules = "ip rule add pref 100 lookup local; ip rule del pref 0; \
                 ip rule add pref 10 iif net1 ipproto tcp dport 7444 blackhole; \
                 ip -6 rule add pref 100 lookup local; ip -6 rule del pref 0; \
                 ip -6 rule add pref 10 iif net1 ipproto tcp dport 7444 blackhole";
    let output = world.lab.inside("a0", "sh").args(["-ec", rules]).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let output = world.b.run(&["doctor", "--pair", "a", "--json"]);
    let found = findings(&output);
    println!("{}", what(&found));
    assert_eq!(output.status.code(), Some(3), "one network is good: {}", told(&output));
    let walled = of(&found, "path");
    let walled = walled.iter().filter(|finding| finding["level"] == "warning");
    let words: Vec<_> = walled.map(|finding| finding["what"].as_str().unwrap()).collect();
    assert!(!words.is_empty(), "{found:?}");
    for word in &words {
        assert!(word.contains("10.51.1.1:7444") || word.contains("[fd50:1::1:1]:7444"), "{word}");
        assert!(word.ends_with("a firewall at a"), "{word}");
    }
    let back = "ip rule del pref 10; ip -6 rule del pref 10";
    world.lab.inside("a0", "sh").args(["-ec", back]).output().unwrap();

    world.lab.tell("cut b0.net1").unwrap();
    let found = findings(&world.b.run(&["doctor", "--pair", "a", "--json"]));
    println!("{}", what(&found));
    world.lab.tell("restore b0.net1").unwrap();
    let cut = of(&found, "path");
    let cut = cut.iter().filter(|finding| finding["level"] == "warning");
    let words: Vec<_> = cut.map(|finding| finding["what"].as_str().unwrap()).collect();
    assert!(words.iter().any(|word| word.contains("a cut between, or two firewalls")), "{words:?}");
    assert!(words.iter().all(|word| !word.ends_with("a firewall at a")), "{words:?}");

    let alone = told(&world.b.run(&["doctor"]));
    println!("{alone}");
}
