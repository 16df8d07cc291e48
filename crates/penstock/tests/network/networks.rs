//! Two sites with several network interfaces each, in the project's network laboratory: which
//! interfaces carry, what becomes of a transfer when one is cut or crawls, what is said of it.
//! Needs root, iproute2 and /dev/net/tun, and says so where they are missing.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use penstock_testkit::{
    LabPair, Moment, ProxiedPair, Still, Wait, assert_same_files, can_run_lab, event_ms, seed,
    told, verified_at_least,
};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

/// The first network of the lab is for management, the other two for data.
pub(crate) const TWO: &str = r#"
[[network]]
name = "mgmt"
role = "control"
interface = "net0"
[[network]]
name = "fast0"
prefix = "10.51.0.0/16"
[[network]]
name = "fast1"
interface = "net2"
rate = "1Gbit/s"
"#;

const MIB: u64 = 1 << 20;
/// What TCP of a host begins with.
const CONTROL: &str = "net.ipv4.tcp_congestion_control";

/// Makes a data set of some files of 64 MiB and `small` of some KiB, quickly: each block of a MiB
/// is the same but for its number.
pub(crate) fn make_set(root: &Path, large_mib: u64, small: u64, seed: u64) {
    let mut block = vec![0; MIB as usize];
    ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut block);
    fs::create_dir_all(root).unwrap();
    for file in 0..large_mib.div_ceil(64) {
        let mut content = Vec::new();
        for number in file * 64..((file + 1) * 64).min(large_mib) {
            block[..8].copy_from_slice(&number.to_le_bytes());
            content.extend_from_slice(&block);
        }
        fs::write(root.join(format!("large-{file}.bin")), content).unwrap();
    }
    for number in 0..small {
        let dir = root.join(format!("small-{}", number % 7));
        fs::create_dir_all(&dir).unwrap();
        let length = 1 + number as usize * 37 % 20_000;
        fs::write(dir.join(format!("{number}.bin")), &block[number as usize..][..length]).unwrap();
    }
}

/// Longest until a dead or crawling path is emptied.
const GIVEN_UP_MAX: Duration = Duration::from_secs(3);

/// Says something about a link to the emulator, and asserts that a path of site b is given up as
/// `state` within the promised time, as an event of the transfer says.
fn assert_given_up(world: &LabPair, id: &str, tell: &str, state: &str) {
    let (still, begun) = (Still::watch(), Moment::now());
    world.lab.tell(tell).unwrap();
    world.b.until_log(&format!("state=\"{state}\""));
    let told = || {
        let events = world.b.lines(&["transfer", "events", id, "--json"]);
        let mut events = events.iter();
        events.find(|event| event["kind"] == format!("path-{state}")).map(event_ms)
    };
    let event = Wait::new(format!("an event of a path that is {state}")).some(told);
    still.assert_soon(&begun, event, GIVEN_UP_MAX);
}

fn paths_of(view: &Value) -> Vec<&Value> {
    view["outward"].as_array().unwrap().iter().collect()
}

/// The congestion controls of the connections of a site that have sent much, out of what ss(8)
/// says. Waits until one has.
fn controls_of_senders(process: &str, ss: impl Fn() -> Command) -> Vec<String> {
    let known = ["bbr", "cubic", "reno", "dctcp", "htcp"];
    let found = || -> Option<Vec<String>> {
        let told = ss().args(["-HtinpO", "state", "established"]).output().unwrap();
        let sockets = String::from_utf8(told.stdout).unwrap();
        let sent = |line: &str| -> Option<u64> {
            line.split_once("bytes_sent:")?.1.split_whitespace().next()?.parse().ok()
        };
        let senders = sockets
            .lines()
            .filter(|line| line.contains(process) && sent(line).is_some_and(|sent| sent > MIB));
        let controls: Vec<_> = senders
            .map(|line| {
                let name = line.split_whitespace().find(|word| known.contains(word));
                name.unwrap_or_else(|| panic!("no congestion control in {line}")).to_owned()
            })
            .collect();
        (!controls.is_empty()).then_some(controls)
    };
    Wait::new("a lane that sends").some(found)
}

/// On a host whose default is BBR lanes within a site never begin with it, as nothing makes them
/// unpaced again. Over loopback, where a loaded machine does not make the path a long one.
#[test]
fn lanes_over_a_short_path_are_never_paced() {
    let default = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    let expected = if default.trim() == "bbr" { "cubic" } else { default.trim() };
    let world = ProxiedPair::start();
    make_set(&world.a.store.join("src"), 64, 0, seed());
    let id = world.b.submit(&["a:data/src/", "b:data/dst", "--bwlimit=16MiB/s"]);
    let controls =
        controls_of_senders(&format!("pid={},", world.a.process()), || Command::new("ss"));
    println!("the host has {}: {controls:?}", default.trim());
    assert!(controls.iter().all(|name| name == expected));
    world.b.ok(&["transfer", "cancel", &id]);
}

/// Over a long path all lanes have what the host begins with: where that is BBR and there is loss,
/// CUBIC has a quarter of the rate.
#[test]
fn lanes_over_a_long_path_have_the_hosts_congestion_control() {
    if !can_run_lab("lanes_over_a_long_path_have_the_hosts_congestion_control") {
        return;
    }
    let options = ["--nics", "3", "--rate", "0,80m,80m", "--rtt", "20ms"];
    let world = LabPair::up("control", &options, TWO);
    let default = world.lab.inside("a0", "sysctl").args(["-n", CONTROL]).output().unwrap();
    let default = String::from_utf8(default.stdout).unwrap();
    make_set(&world.a.store.join("src"), 64, 0, seed());
    let id = world.b.submit(&["a:data/src/", "b:data/dst"]);
    let controls = controls_of_senders("\"penstock\"", || world.lab.inside("a0", "ss"));
    println!("the host has {}: {controls:?}", default.trim());
    assert!(controls.iter().all(|name| name == default.trim()));
    world.b.wait_done(&id);
}

/// E5: data goes over both data interfaces at once, by their own counters, and management carries
/// requests only; sites tell each other their addresses and networks, and each path is tried from
/// both ends; the receipt names the networks.
#[test]
fn e5_every_data_interface_carries_and_management_is_silent() {
    if !can_run_lab("e5_every_data_interface_carries_and_management_is_silent") {
        return;
    }
    let options = ["--nics", "3", "--rate", "0,40m,40m", "--rtt", "1ms"];
    let world = LabPair::up("two", &options, TWO);
    make_set(&world.a.store.join("src"), 32, 300, seed());
    let interfaces = ["net0", "net1", "net2"];
    let before = interfaces.map(|device| world.lab.bytes("b0", device).unwrap());
    let id = world.b.submit(&["a:data/src/", "b:data/dst"]);
    let summary = world.b.wait_done(&id);
    let after = interfaces.map(|device| world.lab.bytes("b0", device).unwrap());
    let carried: Vec<u64> =
        after.iter().zip(before).map(|(after, before)| after - before).collect();
    println!("{carried:?} bytes over {interfaces:?}; {}", summary["seconds"]);
    let data = carried[1] + carried[2];
    assert!(carried[1..].iter().all(|bytes| bytes * 5 >= data), "{carried:?}");
    assert!(carried[0] < 3 * MIB, "management has carried {} bytes", carried[0]);
    assert_same_files(&world.a.store.join("src"), &world.b.store.join("dst"));

    let receipt = world.b.ok(&["transfer", "receipt", &id]);
    assert!(receipt.contains("%net1 on network fast0"), "{receipt}");
    assert!(receipt.contains("%net2 on network fast1"), "{receipt}");
    let view = world.b.paths("a");
    for side in ["outward", "inward"] {
        // IPv4 of fast0 alone, which has a prefix; both families of fast1.
        assert_eq!(view[side].as_array().unwrap().len(), 3, "{view}");
        assert!(view[side].as_array().unwrap().iter().all(|path| path["reachable"] == true));
    }
    let states: Vec<_> = paths_of(&view).iter().map(|path| path["state"].clone()).collect();
    assert_eq!(states, ["carrying", "carrying", "standby"], "{view}");
}

/// Promise: a transfer that names a network uses its cards alone, at both ends. A name that neither
/// site knows is refused, with the names that exist. A measurement of each network alone compares
/// their sum with all networks together.
#[test]
fn a_transfer_uses_the_networks_that_it_names() {
    if !can_run_lab("a_transfer_uses_the_networks_that_it_names") {
        return;
    }
    let options = ["--nics", "3", "--rate", "0,80m,80m", "--rtt", "1ms"];
    let config = ["b", "a"].map(|other| {
        format!(
            "{TWO}[[store]]\nname = \"mem\"\npath = \"mem:files=64,size=1M\"\n\
             [[store]]\nname = \"null\"\npath = \"null:\"\nwrite = [\"{other}\"]\n"
        )
    });
    let world = LabPair::with("named", &options, [&config[0], &config[1]]);
    make_set(&world.a.store.join("src"), 16, 20, seed());
    let carried = || ["net1", "net2"].map(|device| world.lab.bytes("b0", device).unwrap());
    let before = carried();
    let id = world.b.submit(&["a:data/src/", "b:data/dst", "--networks", "fast1"]);
    world.b.wait_done(&id);
    let after = carried();
    let [idle, used] = [after[0] - before[0], after[1] - before[1]];
    println!("{idle} bytes over net1, {used} over net2");
    assert!(idle < MIB && used > 16 * MIB, "{idle} bytes over net1, {used} over net2");
    assert_same_files(&world.a.store.join("src"), &world.b.store.join("dst"));
    let receipt = world.b.ok(&["transfer", "receipt", &id]);
    assert!(receipt.contains("on network fast1") && !receipt.contains("fast0"), "{receipt}");

    let unknown = ["transfer", "submit", "a:data/src/", "b:data/x", "--networks", "fast0,fast7"];
    let error = world.b.fails(2, &unknown);
    assert!(error.contains("no network for data is called `fast7`"), "{error}");
    assert!(error.contains("fast0, fast1"), "{error}");

    let each = ["bench", "network", "--each-network", "--bytes", "4M", "--repeats", "1"];
    let table = world.b.ok(&each);
    for row in
        ["b:mem/ to a:null/ over fast0", "a:mem/ to b:null/ over fast1", "the sum of each alone"]
    {
        assert!(table.contains(row), "{table}");
    }
}

/// E5: an address does not choose the interface. Where all routes lead out by one interface, as
/// with two in one subnet, both carry all the same: lanes are bound to interfaces at both ends.
#[test]
fn e5_routes_do_not_choose_the_interface() {
    if !can_run_lab("e5_routes_do_not_choose_the_interface") {
        return;
    }
    let options = ["--nics", "3", "--rate", "0,40m,40m", "--rtt", "1ms"];
    let world = LabPair::up("routes", &options, TWO);
    for host in ["a0", "b0"] {
        // Loose: what comes by another interface than the route says is taken.
        for device in ["all", "net1", "net2"] {
            let file = format!("/proc/sys/net/ipv4/conf/{device}/rp_filter");
            world
                .lab
                .inside(host, "sh")
                .args(["-c", &format!("echo 0 > {file}")])
                .output()
                .unwrap();
        }
        let replace = ["route", "replace", "10.52.0.0/16", "dev", "net1"];
        let output = world.lab.inside(host, "ip").args(replace).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        let delete = ["route", "del", "10.52.0.0/16", "dev", "net2"];
        world.lab.inside(host, "ip").args(delete).output().unwrap();
        let get =
            world.lab.inside(host, "ip").args(["route", "get", "10.52.9.9"]).output().unwrap();
        let route = String::from_utf8_lossy(&get.stdout).into_owned();
        assert!(route.contains("dev net1"), "the routes do not lead elsewhere: {route}");
    }
    make_set(&world.a.store.join("src"), 32, 50, seed());
    let before = ["net1", "net2"].map(|device| world.lab.bytes("b0", device).unwrap());
    let id = world.b.submit(&["a:data/src/", "b:data/dst"]);
    world.b.wait_done(&id);
    let after = ["net1", "net2"].map(|device| world.lab.bytes("b0", device).unwrap());
    let carried = [after[0] - before[0], after[1] - before[1]];
    println!("{carried:?} bytes over net1 and net2");
    let data: u64 = carried.iter().sum();
    assert!(carried.iter().all(|bytes| bytes * 5 >= data), "{carried:?}");
    assert_same_files(&world.a.store.join("src"), &world.b.store.join("dst"));
}

/// Promise (d): an interface that is cut in the middle costs what was in flight on it: the transfer
/// goes on over the other one, and over both again once it is restored; nothing is missing.
#[test]
fn d_a_cut_interface_is_survived_and_taken_back() {
    if !can_run_lab("d_a_cut_interface_is_survived_and_taken_back") {
        return;
    }
    let options = ["--nics", "3", "--rate", "0,80m,80m", "--rtt", "2ms"];
    let world = LabPair::up("cut", &options, TWO);
    make_set(&world.a.store.join("src"), 320, 100, seed());
    let id = world.b.submit(&["a:data/src/", "b:data/dst"]);
    world.b.watch(&id).until(verified_at_least(20 * MIB));
    assert_given_up(&world, &id, "cut b0.net1", "dead");
    world.b.watch(&id).until(verified_at_least(60 * MIB));
    let path = |view: &Value| paths_of(view)[0].clone();
    let dead = path(&world.b.paths("a"));
    assert_eq!((&dead["state"], &dead["reachable"]), (&"dead".into(), &false.into()), "{dead}");
    let why = dead["why"].as_str().unwrap();
    assert!(why.contains("no SYN-ACK from a 10.51.1.1:7444 within 3 s: firewall at a"), "{why}");
    let before = world.lab.bytes("b0", "net1").unwrap();
    world.lab.tell("restore b0.net1").unwrap();
    let restored = Instant::now();
    let flowed = || world.lab.bytes("b0", "net1").unwrap() - before;
    Wait::new("8 MiB that flow again").is(|| flowed() > 8 * MIB);
    println!("8 MiB over it {:.1} s after it was restored", restored.elapsed().as_secs_f64());
    let summary = world.b.wait_done(&id);
    let events = world.b.ok(&["transfer", "events", &id]);
    println!("{events}");
    assert!(
        events.contains("is dead: ") && events.contains("sent again over other paths"),
        "{events}"
    );
    assert!(events.contains("path-back") && events.contains("carries again"), "{events}");
    let resent = summary["bytes_resent"].as_u64().unwrap();
    println!("{resent} bytes sent twice");
    assert!(resent <= 32 * MIB, "{resent} bytes sent twice");
    assert_same_files(&world.a.store.join("src"), &world.b.store.join("dst"));
}

/// Promise (f): an interface that brings next to nothing does not hold up a transfer: what it owes
/// comes over the other one, and it is said which one crawls.
#[test]
fn f_a_crawling_interface_is_emptied() {
    if !can_run_lab("f_a_crawling_interface_is_emptied") {
        return;
    }
    let options = ["--nics", "3", "--rate", "0,80m,80m", "--rtt", "2ms"];
    let world = LabPair::up("crawl", &options, TWO);
    make_set(&world.a.store.join("src"), 192, 100, seed());
    let id = world.b.submit(&["a:data/src/", "b:data/dst"]);
    world.b.watch(&id).until(verified_at_least(30 * MIB));
    assert_given_up(&world, &id, "set net1 rate=100k", "crawling");
    let summary = world.b.wait_done(&id);
    let events = world.b.ok(&["transfer", "events", &id]);
    assert!(events.contains(" crawls: ") && events.contains("emptied"), "{events}");
    // At 100 kbit/s a single MiB takes 84 s, and several are on the way.
    let seconds = summary["seconds"].as_f64().unwrap();
    let view = world.b.paths("a");
    println!("{seconds} s; {view}");
    // That its queue is full of what nobody waits for any more makes dials time out, too.
    assert_ne!(paths_of(&view)[0]["state"], "carrying", "{view}");
    assert!(seconds < 100.0, "{seconds} s");
    assert_same_files(&world.a.store.join("src"), &world.b.store.join("dst"));
}

/// Issue 5: an interface that is twenty times as slow as the other one, all the time, carries what
/// it can: it is not given up while the other is under load, and is not given half, for which all
/// would wait at the end.
#[test]
fn a_slow_interface_keeps_its_share() {
    if !can_run_lab("a_slow_interface_keeps_its_share") {
        return;
    }
    let options = ["--nics", "3", "--rate", "0,80m,4m", "--rtt", "1ms"];
    let world = LabPair::up("slow", &options, TWO);
    make_set(&world.a.store.join("src"), 80, 50, seed());
    let before = world.lab.bytes("b0", "net2").unwrap();
    let id = world.b.submit(&["a:data/src/", "b:data/dst"]);
    let summary = world.b.wait_done(&id);
    let carried = world.lab.bytes("b0", "net2").unwrap() - before;
    let seconds = summary["seconds"].as_f64().unwrap();
    println!("{carried} bytes over the slow one in {seconds} s; {summary}");
    let log = world.b.log_text();
    assert!(!log.contains("path abandoned"), "{log}");
    // 4 Mbit/s beside 80, and a greater part only where it is not the links that limit.
    assert!(carried > MIB && carried < 30 * MIB, "{carried} bytes of 80 MiB");
    assert_same_files(&world.a.store.join("src"), &world.b.store.join("dst"));
}

/// Promise: IPv6 carries as IPv4 does, alone as well.
#[test]
fn ipv6_alone_carries() {
    if !can_run_lab("ipv6_alone_carries") {
        return;
    }
    let six = "\n[[network]]\nname = \"six\"\nprefix = \"fd50:1::/32\"\n\
               [[network]]\nname = \"mgmt\"\nrole = \"control\"\ninterface = \"net0\"\n";
    let world = LabPair::up("six", &["--nics", "2"], six);
    make_set(&world.a.store.join("src"), 8, 50, seed());
    let before = world.lab.bytes("b0", "net1").unwrap();
    let id = world.b.submit(&["a:data/src/", "b:data/dst"]);
    world.b.wait_done(&id);
    assert!(world.lab.bytes("b0", "net1").unwrap() - before > 8 * MIB);
    let receipt = world.b.ok(&["transfer", "receipt", &id]);
    assert!(receipt.contains("fd50:1::2:1%net1 on network six"), "{receipt}");
    assert_same_files(&world.a.store.join("src"), &world.b.store.join("dst"));
}

/// Promise: a port where nobody listens is told from a path that is cut; a lane that comes to an
/// address of a management network is refused, and the transfer says why it waits.
#[test]
fn what_is_wrong_with_a_path_is_said() {
    if !can_run_lab("what_is_wrong_with_a_path_is_said") {
        return;
    }
    // What site a tells of itself is wrong: a port without a listener, and its management address.
    let wrong = TWO.replace("rate = ", "advertise = [\"10.52.1.1:9\"]\nrate = ");
    let wrong = wrong
        .replace("prefix = ", "advertise = [\"10.50.1.1:7444\"]\ninterface = \"net1\"\nprefix = ");
    let two = TWO.replace("interface = \"net0\"", "interface = \"net7\"");
    let two = two.replace("10.51.0.0/16", "10.50.0.0/16");
    let mut world = LabPair::with("wrong", &["--nics", "3"], [&wrong, &two]);
    make_set(&world.a.store.join("src"), 1, 5, seed());
    let view = world.b.paths("a");
    let why = |to: &str| {
        let paths = paths_of(&view);
        let path = paths.iter().find(|path| path["to"] == to).unwrap();
        path["why"].as_str().unwrap().to_owned()
    };
    let refused = why("10.52.1.1:9");
    assert!(refused.contains("refused: no daemon of a is listening at 10.52.1.1:9"), "{refused}");
    assert_eq!(why("10.50.1.1:7444"), "", "requests are taken there");
    let id = world.b.submit(&["a:data/src/", "b:data/dst"]);
    world.b.show_until(&id, |view| {
        let reason = view["reason"].to_string() + &view["progress"].to_string();
        reason.contains("which is not for data (role control)") || reason.contains("refused")
    });

    // Once that is set right the site tells it by itself, on another port as well: nobody pairs
    // again, and the transfer goes on.
    let right = world.a.config().split("[[network]]").next().unwrap().to_owned() + TWO;
    let right = right.replace("0.0.0.0:7444", "0.0.0.0:7555");
    world.a.kill();
    world.a.set_config(&right);
    let right = world.b.config().split("[[network]]").next().unwrap().to_owned() + TWO;
    world.b.set_config(&right);
    world.b.kill();
    world.b.start();
    world.a.start();
    world.b.wait_done(&id);
    let listed = world.b.ok(&["site", "list"]);
    assert!(listed.contains("10.50.1.1:7555"), "{listed}");
    assert_same_files(&world.a.store.join("src"), &world.b.store.join("dst"));
}
