//! Benchmarks of stores as tables.

use penstock_api::benchmark::{Benchmark, BenchmarkPoint, BenchmarkRate, BenchmarkState};
use penstock_exit as exit;
use penstock_proto::units::format_bytes;

use crate::output::table::aligned;
use crate::output::time::minute;

/// Prints a benchmark: its facts, and a row for each point.
pub(super) fn print_benchmark(of: &Benchmark) -> anyhow::Result<()> {
    let path = if of.path.0.is_empty() { String::new() } else { format!(":{}", of.path) };
    exit::print(&format!(
        "{}{path}  {}  {}  {}",
        of.store,
        of.id.short(),
        minute(of.began.seconds()),
        state(of)
    ))?;
    let system = &of.file_system;
    let direct = if system.direct { ", large files past the page cache" } else { "" };
    exit::print(&format!("{}, durable by {}{direct}", system.kind, system.durable_by))?;
    let peers = of.peers.iter().map(|peer| {
        let memory = format_bytes(peer.memory_bytes);
        let (processors, threads) = (peer.processors, peer.threads);
        format!("{} ({processors} processors, {memory}, {threads} threads)", peer.peer)
    });
    exit::print(&format!("measured by {}", peers.collect::<Vec<_>>().join(", ")))?;
    if !of.left_out.is_empty() {
        let sizes: Vec<String> = of.left_out.iter().map(|size| format_bytes(*size)).collect();
        exit::warn(&format!("too large for the budget, and left out: {}", sizes.join(", ")));
    }
    if of.points.is_empty() {
        return Ok(());
    }
    let heads = ["OPERATION", "SIZE", "BYTES/S", "LEAST", "GREATEST", "FILES/S", "CACHE", "MARKS"];
    let mut rows = vec![heads.map(str::to_owned)];
    let mut points: Vec<&BenchmarkPoint> = of.points.iter().collect();
    points.sort_by_key(|point| (point.operation, point.size_bytes));
    rows.extend(points.into_iter().map(row));
    let right = [false, true, true, true, true, true, false, false];
    exit::print(&aligned(&rows, &right))?;
    Ok(())
}

fn row(point: &BenchmarkPoint) -> [String; 8] {
    let moves = point.operation.moves_bytes();
    let size = if moves { format_bytes(point.size_bytes) } else { "-".to_owned() };
    let BenchmarkRate { median, least, greatest } =
        if moves { point.bytes_per_s } else { point.files_per_s };
    let ends = |rate: f64| if moves { per_second(rate) } else { format!("{rate:.0}") };
    let bytes = if moves { per_second(median) } else { "-".to_owned() };
    let cache = point.runs.iter().filter_map(|run| run.cache).max();
    let marks: Vec<&str> = point.marks.iter().map(|mark| mark.as_str()).collect();
    [
        point.operation.to_string(),
        size,
        bytes,
        ends(least),
        ends(greatest),
        format!("{:.0}", point.files_per_s.median),
        cache.map_or("-", |cache| cache.as_str()).to_owned(),
        marks.join(","),
    ]
}

fn per_second(bytes: f64) -> String {
    format_bytes(bytes as u64)
}

/// Prints a row for each benchmark.
pub(super) fn print_list(all: &[Benchmark]) -> anyhow::Result<()> {
    let heads = ["STORE", "ID", "BEGAN", "STATE", "PEERS", "WRITE", "READ"];
    let mut rows = vec![heads.map(str::to_owned)];
    rows.extend(all.iter().map(|of| {
        let best = |operation: &str| {
            let its = of.points.iter().filter(|point| point.operation.as_str() == operation);
            let rates = its.map(|point| point.bytes_per_s.median);
            rates.reduce(f64::max).map_or_else(|| "-".to_owned(), per_second)
        };
        [
            of.store.to_string(),
            of.id.short(),
            minute(of.began.seconds()),
            state(of),
            of.peers.len().to_string(),
            best("write"),
            best("read"),
        ]
    }));
    exit::print(&aligned(&rows, &[false, false, false, false, true, true, true]))?;
    Ok(())
}

fn state(of: &Benchmark) -> String {
    let mut words = match of.state {
        BenchmarkState::Running if of.steps_done < of.steps => {
            format!("running, step {} of {}", of.steps_done + 1, of.steps)
        }
        state => state.as_str().to_owned(),
    };
    if of.with_load {
        words += ", beside transfers";
    }
    if let Some(why) = &of.stale {
        words = format!("{words}, stale: {why}");
    }
    if let Some(problem) = &of.problem {
        words = format!("{words}: {problem}");
    }
    words
}
