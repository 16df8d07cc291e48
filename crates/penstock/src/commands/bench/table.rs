//! Benchmarks of stores as tables.

use penstock_api::benchmark::{Benchmark, BenchmarkPoint, BenchmarkRate, BenchmarkState};
use penstock_exit as exit;
use penstock_proto::units::{counted, format_bytes};

use super::layers::layer_table;
use crate::output::table::aligned;
use crate::output::time::minute;

/// Heads of the columns of points.
const HEADS: [&str; 9] =
    ["OPERATION", "SIZE", "THREADS", "BYTES/S", "LEAST", "GREATEST", "FILES/S", "CACHE", "MARKS"];

/// Prints a benchmark: its facts, a row for each point, and the layers below the store.
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
    warnings(of).iter().for_each(|warning| exit::warn(warning));
    if of.points.is_empty() {
        return Ok(());
    }
    let mut rows = vec![HEADS.map(str::to_owned)];
    let mut points: Vec<&BenchmarkPoint> = of.points.iter().collect();
    points.sort_by_key(|point| (point.operation, point.size_bytes, point.threads));
    rows.extend(points.into_iter().map(row));
    let right = [false, true, true, true, true, true, true, false, false];
    exit::print(&aligned(&rows, &right))?;
    if let Some(layers) = layer_table(of) {
        exit::print(
            "Layers of the largest files: devices below the file system, by their counters",
        )?;
        exit::print(&layers)?;
    }
    Ok(())
}

/// Returns what a benchmark does not say although it was asked for, and why.
fn warnings(of: &Benchmark) -> Vec<String> {
    let sizes = |all: &[u64]| {
        let all: Vec<String> = all.iter().map(|size| format_bytes(*size)).collect();
        all.join(", ")
    };
    let too_large = (!of.left_out.is_empty())
        .then(|| format!("too large for the budget, and left out: {}", sizes(&of.left_out)));
    let unread = (!of.unread.is_empty()).then(|| {
        let (sizes, seconds) = (sizes(&of.unread), of.seconds);
        format!(
            "left out: read of {sizes}: no file was written whole in {seconds} s; give more \
             `--seconds`"
        )
    });
    let kept = of.peers.iter().filter_map(|peer| {
        let (why, peer) = (peer.caches_kept.as_ref()?, &peer.peer);
        Some(format!(
            "host `{peer}` did not drop its caches: {why}; `--drop-caches` needs a daemon that \
             runs as root"
        ))
    });
    too_large.into_iter().chain(unread).chain(kept).collect()
}

fn row(point: &BenchmarkPoint) -> [String; 9] {
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
        if point.threads == 0 { "-".to_owned() } else { point.threads.to_string() },
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
    if let [first, others @ ..] = &of.threads_asked[..] {
        let others = others.iter().map(|number| format!(",{number}"));
        words += &format!(", with --threads {first}{}", others.collect::<String>());
    }
    if of.peers_left_out > 0 {
        words += &format!(", without {}", counted(of.peers_left_out.into(), "peer"));
    }
    if let Some(why) = &of.stale {
        words = format!("{words}, stale: {why}");
    }
    if let Some(problem) = &of.problem {
        words = format!("{words}: {problem}");
    }
    words
}

#[cfg(test)]
mod tests {

    use super::super::examples::benchmark;
    use super::*;

    /// Promise: all that was asked for and not measured is named with its reason, and nothing of a
    /// benchmark that has measured all.
    #[test]
    fn what_is_missing_is_named() {
        let mut of = benchmark();
        assert_eq!(warnings(&of), [""; 0]);
        of.left_out = vec![1 << 40];
        of.unread = vec![4 << 30, 16 << 30];
        of.peers[0].caches_kept = Some("cannot write `file`: Permission denied".to_owned());
        let [left_out, unread, kept] = &warnings(&of)[..] else { panic!("three warnings") };
        assert_eq!(left_out, "too large for the budget, and left out: 1.0 TiB");
        assert_eq!(
            unread,
            "left out: read of 4.0 GiB, 16.0 GiB: no file was written whole in 10 s; give more \
             `--seconds`"
        );
        assert!(kept.contains("`h1` did not drop its caches: cannot write `file`: Perm"), "{kept}");
        assert!(kept.contains("root"), "{kept}");
    }

    /// Promise: a result that is not what the whole store can do is shown as such.
    #[test]
    fn a_part_of_a_store_is_named() {
        let mut of = benchmark();
        assert_eq!(state(&of), "done");
        (of.threads_asked, of.peers_left_out) = (vec![1, 2], 1);
        assert_eq!(state(&of), "done, with --threads 1,2, without 1 peer");
    }
}
