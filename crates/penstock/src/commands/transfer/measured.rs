//! The rate of a transfer beside what the stores of this site did when they were measured.

use std::time::Duration;

use penstock_api::benchmark::{Benchmark, BenchmarkList, BenchmarkState};
use penstock_api::endpoints::LIST_BENCHMARKS;
use penstock_api::rest::{Direction, TransferView};
use penstock_api::transfer::TransferState;
use penstock_proto::benchmark::BenchmarkOperation;
use penstock_proto::id::Name;
use penstock_proto::units::{GIB, counted, format_bytes};

use crate::client::Client;

const DAY_SECONDS: u64 = 24 * 3600;
/// Time for the results of a store, whose fingerprint is looked at.
const PATIENCE: Duration = Duration::from_secs(1);
/// Size from which on files are alike: all are cut into the same pieces.
const SIZE_MAX: u64 = GIB;
/// Largest factor between two sizes of files that have about the same rate.
const FACTOR_MAX: f64 = 8.0;

/// Returns a sentence for each store of this site that a transfer uses, and that was measured with
/// files of about its size. Returns none of a transfer that does not run.
pub(super) fn sentences(client: &Client, view: &TransferView, now_seconds: u64) -> Vec<String> {
    if view.state != TransferState::Running || view.progress.files_found == 0 {
        return Vec::new();
    }
    let (source, target) = (&view.source.store, &view.target.store);
    let ends: &[(&Name, BenchmarkOperation)] = match view.direction {
        Direction::In => &[(target, BenchmarkOperation::Write)],
        Direction::Out => &[(source, BenchmarkOperation::Read)],
        Direction::Within => {
            &[(source, BenchmarkOperation::Read), (target, BenchmarkOperation::Write)]
        }
    };
    let file_bytes = view.progress.bytes_found / view.progress.files_found;
    let rate = view.progress.rate_bits_per_s / 8.0;
    let told = |(store, operation): &(&Name, BenchmarkOperation)| {
        // A daemon that cannot tell soon has measured nothing: its store may hang.
        let uri = LIST_BENCHMARKS.uri(&[store]);
        let list: BenchmarkList = client.get_within(&uri, PATIENCE).ok()?;
        let of = usable(&list.items)?;
        let measured = rate_near(of, *operation, file_bytes)?;
        let days = now_seconds.saturating_sub(of.began.seconds()) / DAY_SECONDS;
        Some(sentence(rate, measured, (store, *operation), days))
    };
    ends.iter().filter_map(told).collect()
}

/// Returns the newest result that still says what the store can do: by all peers that reach it,
/// each with the threads that it chooses. A result of other numbers is no bound of a transfer.
pub(crate) fn usable(newest_first: &[Benchmark]) -> Option<&Benchmark> {
    newest_first.iter().find(|one| {
        let is_whole = one.threads_asked.is_empty() && one.peers_left_out == 0;
        is_whole && one.state == BenchmarkState::Done && one.stale.is_none() && !one.with_load
    })
}

/// Returns the measured bytes per second of an operation on files of the nearest size, if that is
/// about the same. Points with a mark say too little.
pub(crate) fn rate_near(
    of: &Benchmark,
    operation: BenchmarkOperation,
    file_bytes: u64,
) -> Option<f64> {
    let known = |size: u64| size.clamp(1, SIZE_MAX) as f64;
    let far = |size: u64| (known(size) / known(file_bytes)).ln().abs();
    let its = of.points.iter().filter(|point| point.operation == operation);
    let sound = its.filter(|point| point.marks.is_empty() && point.bytes_per_s.median > 0.0);
    let near = sound.filter(|point| far(point.size_bytes) <= FACTOR_MAX.ln());
    let nearest = near.min_by(|a, b| far(a.size_bytes).total_cmp(&far(b.size_bytes)))?;
    Some(nearest.bytes_per_s.median)
}

fn sentence(
    rate: f64,
    measured: f64,
    (store, operation): (&Name, BenchmarkOperation),
    days: u64,
) -> String {
    let did = match operation {
        BenchmarkOperation::Read => "read",
        _ => "wrote",
    };
    let when = match days {
        0 => "today".to_owned(),
        days => format!("{} ago", counted(days, "day")),
    };
    format!(
        "{:.0} % of the {}/s that store `{store}` {did} when it was measured {when}",
        rate / measured * 100.0,
        format_bytes(measured as u64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a rate is held against files of the nearest size, and never against a point that
    /// was too short or may be a cache's, nor against what some peers or other threads did. A
    /// result of a release that recorded neither counts.
    #[test]
    fn the_nearest_sound_point_is_cited() {
        let point = |size: u64, rate: f64, marks: &str| {
            let rates = format!(r#"{{"median":{rate},"least":{rate},"greatest":{rate}}}"#);
            format!(
                r#"{{"operation":"write","size_bytes":{size},"bytes_per_s":{rates},
                "files_per_s":{rates},"marks":[{marks}],"runs":[]}}"#
            )
        };
        let points = [
            point(4096, 1e6, ""),
            point(1 << 20, 2e8, r#""short""#),
            point(16 << 20, 4e8, ""),
            point(1 << 30, 5e8, ""),
        ];
        let text = format!(
            r#"{{"id":"07070707070707070707070707070707","store":"data","path":"","state":"done",
            "user":"root","began":"2026-11-26T00:00:00Z","version":"1","steps_done":4,"steps":4,
            "seconds":10,"repeats":1,"budget_bytes":1,"with_load":false,"peers":[],"file_system":
            {{"kind":"XFS","fingerprint":"a","durable_by":"syncfs","direct":true,"free_bytes":1,
            "total_bytes":1}},"points":[{}]}}"#,
            points.join(",")
        );
        let of: Benchmark = serde_json::from_str(&text).unwrap();
        let near = |size| rate_near(&of, BenchmarkOperation::Write, size);
        assert_eq!(near(4 << 20), Some(4e8));
        assert_eq!(near(1 << 20), None, "16 MiB is too far, and 1 MiB was too short");
        assert_eq!((near(512), near(511)), (Some(1e6), None));
        assert_eq!(near(1 << 40), Some(5e8), "large files are alike");
        assert_eq!(rate_near(&of, BenchmarkOperation::Read, 100), None);
        let stale = Benchmark { stale: Some("it is old".to_owned()), ..of.clone() };
        let loaded = Benchmark { with_load: true, ..of.clone() };
        assert_eq!(usable(&[stale, loaded, of.clone()]), Some(&of));
        let one_thread = Benchmark { threads_asked: vec![1], ..of.clone() };
        let one_peer = Benchmark { peers_left_out: 1, ..of.clone() };
        assert_eq!(usable(&[one_thread.clone(), one_peer, of.clone()]), Some(&of));
        assert_eq!(usable(&[one_thread]), None);
        let store = ("data".parse().unwrap(), BenchmarkOperation::Write);
        assert_eq!(
            sentence(2.88e8, 4e8, (&store.0, store.1), 3),
            "72 % of the 381.5 MiB/s that store `data` wrote when it was measured 3 days ago"
        );
    }
}
