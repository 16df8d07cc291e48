//! The block devices below a store, and their part in the rate of a benchmark.

use std::iter;

use penstock_api::benchmark::{Benchmark, BenchmarkDevice, BenchmarkPoint, BenchmarkRun};
use penstock_proto::benchmark::BenchmarkOperation;
use penstock_proto::units::format_bytes;

use crate::median;
use crate::output::table::aligned;

/// Heads of the columns of layers.
const HEADS: [&str; 6] = ["OPERATION", "SIZE", "LAYER", "BYTES/S", "RATIO", "BUSY"];
/// True for columns of numbers.
const RIGHT: [bool; 6] = [false, true, false, true, true, true];

/// Devices of one name, kind and depth at all peers that have them.
struct Layer<'a> {
    device: &'a BenchmarkDevice,
    peers: Vec<&'a str>,
}

/// The work of a layer in a run.
struct Work {
    bytes_per_s: f64,
    /// Bytes of the layer by those of files.
    ratio: f64,
    /// Share of the time for which the busiest device was busy.
    busy: f64,
}

/// Returns the table of the layers of a store; `None` if no device is known.
pub(super) fn layer_table(of: &Benchmark) -> Option<String> {
    let rows = rows(of);
    (!rows.is_empty()).then(|| {
        let rows: Vec<_> = iter::once(HEADS.map(str::to_owned)).chain(rows).collect();
        aligned(&rows, &RIGHT)
    })
}

/// Returns rows on the layers of a store: for the largest files that were written, and for those
/// that were read, the file system and each device below it. Values are medians of the repeats.
/// Empty if no device is known.
fn rows(of: &Benchmark) -> Vec<[String; 6]> {
    let layers = layers(of);
    let operations = [BenchmarkOperation::Write, BenchmarkOperation::Read];
    let points = operations.into_iter().filter_map(|operation| largest(of, operation));
    points.flat_map(|point| rows_of(of, &layers, point)).collect()
}

/// Returns the point with the largest files of an operation that has the work of devices; of
/// several numbers of threads the one with the greatest rate.
fn largest(of: &Benchmark, operation: BenchmarkOperation) -> Option<&BenchmarkPoint> {
    let has_work = |point: &&BenchmarkPoint| {
        point.operation == operation && point.runs.iter().any(|run| !run.traffic.is_empty())
    };
    of.points.iter().filter(has_work).max_by(|one, other| {
        let rates = (one.bytes_per_s.median, other.bytes_per_s.median);
        one.size_bytes.cmp(&other.size_bytes).then(rates.0.total_cmp(&rates.1))
    })
}

/// Returns the layers of a store, nearest to the file system first.
fn layers(of: &Benchmark) -> Vec<Layer<'_>> {
    let mut found: Vec<Layer<'_>> = Vec::new();
    for peer in &of.peers {
        for device in &peer.devices {
            match found.iter_mut().find(|layer| layer.device == device) {
                Some(layer) => layer.peers.push(peer.peer.as_str()),
                None => found.push(Layer { device, peers: vec![peer.peer.as_str()] }),
            }
        }
    }
    found.sort_by_key(|layer| layer.device.depth);
    found
}

fn rows_of(of: &Benchmark, layers: &[Layer<'_>], point: &BenchmarkPoint) -> Vec<[String; 6]> {
    let row = |layer: String, bytes_per_s: f64, (ratio, busy): (f64, String)| {
        [
            point.operation.to_string(),
            format_bytes(point.size_bytes),
            layer,
            format_bytes(bytes_per_s as u64),
            format!("{ratio:.2}"),
            busy,
        ]
    };
    let top = row(of.file_system.kind.clone(), point.bytes_per_s.median, (1.0, "-".to_owned()));
    let below = layers.iter().filter_map(|layer| {
        let work = |run| work_of(layer, point.operation, run);
        let all: Vec<Work> = point.runs.iter().filter_map(work).collect();
        let middle = |value: fn(&Work) -> f64| median::of(all.iter().map(value).collect());
        let (ratio, busy) = (middle(|work| work.ratio)?, middle(|work| work.busy)?);
        let busy = format!("{:.0} %", busy * 100.0);
        Some(row(words(layer, of.peers.len()), middle(|work| work.bytes_per_s)?, (ratio, busy)))
    });
    iter::once(top).chain(below).collect()
}

/// Returns the work of a layer in a run; `None` if a peer that has it has no figures of it.
fn work_of(layer: &Layer<'_>, operation: BenchmarkOperation, run: &BenchmarkRun) -> Option<Work> {
    let is_its =
        |device: &str, peer: &str| device == layer.device.name && layer.peers.contains(&peer);
    let its = run.traffic.iter().filter(|one| is_its(&one.device, one.peer.as_str()));
    let its: Vec<_> = its.collect();
    if its.len() < layer.peers.len() || run.bytes == 0 || run.durable_s <= 0.0 {
        return None;
    }
    let bytes = its.iter().map(|one| match operation {
        BenchmarkOperation::Read => one.read_bytes,
        _ => one.written_bytes,
    });
    let bytes = bytes.sum::<u64>() as f64;
    let busiest = its.iter().map(|one| one.busy_ms).max().unwrap_or(0) as f64 / 1000.0;
    Some(Work {
        bytes_per_s: bytes / run.durable_s,
        ratio: bytes / run.bytes as f64,
        busy: (busiest / run.durable_s).min(1.0),
    })
}

/// Returns a layer in words, further to the right the deeper it is.
fn words(layer: &Layer<'_>, peers: usize) -> String {
    let BenchmarkDevice { name, kind, label, depth } = layer.device;
    let indent = "  ".repeat(*depth as usize + 1);
    let mut words = format!("{indent}{name} ({}", kind.as_str());
    for word in label.split_whitespace() {
        words += &format!(" {word}");
    }
    if peers > 1 {
        words += &format!(", {} of {peers} peers", layer.peers.len());
    }
    words + ")"
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::examples::benchmark;
    use super::*;

    /// Returns a point with one run of 10 s for each list of traffic.
    fn point(operation: &str, size: u64, threads: u32, runs: &[Value]) -> BenchmarkPoint {
        let rate = json!({"median": f64::from(threads) * 1e8, "least": 1.0, "greatest": 1.0});
        let run = |traffic: &Value| {
            json!({"bytes": 1_000_000_000, "files": 1, "first_done_s": 9.0, "last_done_s": 9.0,
                   "durable_s": 10.0, "passes": 1, "traffic": traffic})
        };
        serde_json::from_value(json!({
            "operation": operation, "size_bytes": size, "threads": threads, "bytes_per_s": rate,
            "files_per_s": rate, "runs": runs.iter().map(run).collect::<Vec<_>>(),
        }))
        .unwrap()
    }

    fn traffic(peer: &str, device: &str, read: u64, written: u64, busy_ms: u64) -> Value {
        json!({"peer": peer, "device": device, "read_bytes": read, "written_bytes": written,
               "busy_ms": busy_ms})
    }

    /// Returns a benchmark of one peer, of a volume over a disk.
    fn of_a_volume() -> Benchmark {
        let mut of = benchmark();
        of.peers[0].devices = serde_json::from_value(json!([
            {"name": "dm-3", "kind": "dm", "label": "LVM vg-data", "depth": 0},
            {"name": "sda", "kind": "disk", "depth": 1},
        ]))
        .unwrap();
        of
    }

    /// Promise: the layers of the largest files have the medians of rate, ratio and busy share,
    /// with the bytes of the direction that was measured. A run in which a device vanished counts
    /// for the others.
    #[test]
    fn layers_have_rates() {
        let mut of = of_a_volume();
        let run = |written, busy_ms| {
            json!([
                traffic("h1", "dm-3", 5, written, 900),
                traffic("h1", "sda", 7, written, busy_ms)
            ])
        };
        let last = json!([traffic("h1", "dm-3", 0, 0, 10_500)]);
        let runs = [run(1_100_000_000, 5000), run(1_300_000_000, 7000), last];
        of.points = vec![
            point("write", 1 << 20, 1, &[run(1, 1)]),
            point("write", 1 << 30, 1, &runs),
            point("write", 1 << 30, 2, &[json!([])]),
            point("read", 1 << 20, 1, &[json!([])]),
            point("create", 0, 1, &[run(1, 1)]),
        ];
        let found = rows(&of);
        assert_eq!(found[0], ["write", "1.0 GiB", "XFS", "95.4 MiB", "1.00", "-"]);
        assert_eq!(found[1][2..], ["  dm-3 (dm LVM vg-data)", "104.9 MiB", "1.10", "9 %"]);
        assert_eq!(found[2][2..], ["    sda (disk)", "114.4 MiB", "1.20", "60 %"]);
        assert_eq!(found.len(), 3, "a step without known devices has no layers");
    }

    /// Promise: bytes of peers are sums, of which a peer without a figure leaves no part. The
    /// busiest peer decides the busy share.
    #[test]
    fn peers_are_summed() {
        let mut of = of_a_volume();
        let mut other = of.peers[0].clone();
        other.peer = "h2".parse().unwrap();
        other.devices.remove(0);
        of.peers.push(other);
        let run = json!([
            traffic("h1", "dm-3", 500_000_000, 0, 1000),
            traffic("h1", "sda", 500_000_000, 0, 1000),
            traffic("h2", "sda", 250_000_000, 0, 3000),
        ]);
        let without = json!([traffic("h1", "sda", 900_000_000, 0, 1000)]);
        of.points = vec![point("read", 1 << 30, 1, &[run, without])];
        let found = rows(&of);
        assert_eq!(
            found[1][2..],
            ["  dm-3 (dm LVM vg-data, 1 of 2 peers)", "47.7 MiB", "0.50", "10 %"]
        );
        assert_eq!(found[2][2..], ["    sda (disk, 2 of 2 peers)", "71.5 MiB", "0.75", "30 %"]);
    }

    /// Promise: a store on no device has no layers, and results of earlier releases have none.
    #[test]
    fn a_store_without_devices_has_no_layers() {
        let mut of = benchmark();
        of.points = vec![point("write", 1 << 30, 1, &[json!([])])];
        assert!(rows(&of).is_empty());
    }
}
