//! Many data paths at once, and a network for management that carries none of the data.

use std::collections::BTreeMap;

use penstock_lab::Lab;

use crate::common_failover::{MIB, bring_up};
use crate::common_net::{make_set, seed};

/// Four peers with four interfaces each, of 8 Mbit/s, meet the four of one peer, which are not
/// limited: each of 16 paths has an interface of its own that limits it.
const SIXTEEN: [&str; 6] =
    ["--peers=4,1", "--nics", "4", "--nic-rate=8m", "--rtt=2ms", "--buffer=128k"];
/// MiB of the large file: some 13 s of all 16 paths.
const LARGE_MIB: usize = 192;
/// What interfaces that are equal may differ from their mean.
const SPREAD_MAX: f64 = 0.05;

/// Bytes that each interface of a site's hosts has received and sent: data, and management.
fn counted(lab: &Lab, site: char) -> [BTreeMap<String, u64>; 2] {
    let mut counts = [BTreeMap::new(), BTreeMap::new()];
    for host in lab.hosts(site) {
        for (name, bytes) in lab.counters(&host).unwrap() {
            if name.starts_with("net") {
                let is_management = usize::from(name == "net0");
                counts[is_management].insert(format!("{host}.{name}"), bytes.iter().sum());
            }
        }
    }
    counts
}

fn since(now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    now.iter().map(|(name, bytes)| (name.clone(), bytes - before[name])).collect()
}

/// How far the one that is farthest from the mean is from it.
fn spread(counts: &BTreeMap<String, u64>) -> f64 {
    let mean = counts.values().sum::<u64>() as f64 / counts.len() as f64;
    counts.values().map(|bytes| (*bytes as f64 - mean).abs() / mean).fold(0.0, f64::max)
}

/// Issue 5, E5: 16 data paths carry one transfer, in equal shares where links are equal, by the
/// interfaces' own counters, and management carries requests only.
#[test]
fn e5_sixteen_data_paths_carry_alike() {
    let Some(mut world) = bring_up("d16", "b0", &SIXTEEN) else { return };
    for nic in 1..=4 {
        world.lab.tell(&format!("set b0.net{nic} rate=100m")).unwrap();
    }
    make_set(&world.lab.store('a').join("set"), LARGE_MIB, 300, seed());
    let [begun, begun_control] = counted(&world.lab, 'a');
    let [_, target_control] = counted(&world.lab, 'b');
    world.submit_with(&["--piece-size=1M"]);
    world.until_bytes(LARGE_MIB as u64 * MIB / 8);
    let [first, _] = counted(&world.lab, 'a');
    world.until_bytes(LARGE_MIB as u64 * MIB * 7 / 8);
    let [last, _] = counted(&world.lab, 'a');
    let summary = world.finish();
    let [ended, ended_control] = counted(&world.lab, 'a');

    let (middle, whole) = (since(&last, &first), since(&ended, &begun));
    println!("{} bytes/s; {middle:?}", summary["rate_bits_per_s"].as_f64().unwrap() / 8.0);
    println!(
        "spread {:.1} %, of the whole run {:.1} %",
        spread(&middle) * 100.0,
        spread(&whole) * 100.0
    );
    assert_eq!(whole.len(), 16);
    assert!(whole.values().all(|bytes| *bytes > MIB), "not all of them carry: {whole:?}");
    assert!(spread(&middle) <= SPREAD_MAX, "{middle:?}");
    assert!(spread(&whole) <= SPREAD_MAX, "{whole:?}");
    let payload = summary["bytes"].as_u64().unwrap();
    let [_, target_ended] = counted(&world.lab, 'b');
    let control = since(&target_ended, &target_control)["b0.net0"];
    println!(
        "management: {control} bytes at the target, {:?}",
        since(&ended_control, &begun_control)
    );
    assert!(control < payload / 50, "management has carried {control} bytes of {payload}");
}
