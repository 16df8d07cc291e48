//! How long a sweep will take, from what is known of its stores.

use penstock_api::benchmark::{Benchmark, BenchmarkPoint};
use penstock_proto::benchmark::BenchmarkOperation;

use super::record::SizeClass;

/// Seconds that each cell takes beside its transfer and its cool-down.
pub(super) const CELL_SECONDS: f64 = 4.0;

/// Returns the seconds for which a store works on files, by the nearest measured sizes; none
/// without a measurement.
pub(super) fn seconds(
    histogram: &[SizeClass],
    kept: Option<&Benchmark>,
    operation: BenchmarkOperation,
) -> Option<f64> {
    let points = kept?.points.iter();
    let points: Vec<&BenchmarkPoint> =
        points.filter(|point| point.operation == operation && point.size_bytes > 0).collect();
    let mut sum = 0.0;
    for class in histogram.iter().filter(|class| class.files > 0) {
        let size = (class.bytes as f64 / class.files as f64).max(1.0).log2();
        let distance = |point: &&&BenchmarkPoint| ((point.size_bytes as f64).log2() - size).abs();
        let nearest =
            points.iter().min_by(|one, other| distance(one).total_cmp(&distance(other)))?;
        let (bytes, files) = (nearest.bytes_per_s.median, nearest.files_per_s.median);
        if bytes <= 0.0 || files <= 0.0 {
            return None;
        }
        sum += (class.bytes as f64 / bytes).max(class.files as f64 / files);
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kept() -> Benchmark {
        let point = |size: u64, bytes: f64| {
            let files = bytes / size as f64;
            let rate = |median: f64| json!({"median": median, "least": median, "greatest": median});
            json!({"operation": "write", "size_bytes": size, "bytes_per_s": rate(bytes),
                   "files_per_s": rate(files), "runs": []})
        };
        serde_json::from_value(json!({
            "id": "00".repeat(16), "store": "s", "path": "", "state": "done", "user": "u",
            "began": "2026-01-01T00:00:00Z", "version": "0", "steps_done": 1, "steps": 1,
            "seconds": 1, "repeats": 1, "budget_bytes": 1, "with_load": false, "peers": [],
            "file_system": {"kind": "XFS", "fingerprint": "", "durable_by": "", "direct": false,
                            "free_bytes": 1, "total_bytes": 1},
            "points": [point(4096, 4_096_000.0), point(1 << 30, 1e9)],
        }))
        .unwrap()
    }

    /// Promise: small files are reckoned by their number, large ones by their bytes, each by the
    /// nearest measured size; without a measurement nothing is told.
    #[test]
    fn time_follows_from_the_nearest_sizes() {
        let class = |from_bytes, files, bytes| SizeClass { from_bytes, files, bytes };
        let small = class(1024, 500, 500 * 1024);
        let large = class(1 << 31, 2, 4_000_000_000);
        let kept = kept();
        let of = |classes: &[SizeClass]| {
            seconds(classes, Some(&kept), BenchmarkOperation::Write).unwrap()
        };
        assert!((of(&[small]) - 0.5).abs() < 1e-9, "{}", of(&[small]));
        assert!((of(&[small, large]) - 4.5).abs() < 1e-9);
        assert_eq!(seconds(&[small], Some(&kept), BenchmarkOperation::Read), None);
        assert_eq!(seconds(&[small], None, BenchmarkOperation::Write), None);
    }
}
