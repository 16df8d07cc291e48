//! Results of benchmarks for tests.

use serde_json::json;

use super::*;

/// Returns a result of writing, with sizes and bytes per second.
pub(crate) fn written(id: u8, points: &[(u64, f64)]) -> Benchmark {
    let point = |(size, rate): &(u64, f64)| {
        let of = |rate: f64| json!({"median": rate, "least": rate / 2.0, "greatest": rate * 2.0});
        json!({"operation": "write", "size_bytes": size, "bytes_per_s": of(*rate),
               "files_per_s": of(rate / *size as f64), "runs": []})
    };
    let points: Vec<_> = points.iter().map(point).collect();
    serde_json::from_value(json!({
        "id": format!("{id:02x}").repeat(16), "store": "scratch", "path": "", "state": "done",
        "user": "u", "began": "2026-01-01T00:00:00Z", "version": "0", "steps_done": 1,
        "steps": 1, "seconds": 1, "repeats": 1, "budget_bytes": 1, "with_load": false,
        "peers": [], "points": points, "file_system": {"kind": "XFS", "fingerprint": "a",
        "durable_by": "syncfs", "direct": true, "free_bytes": 1, "total_bytes": 1},
    }))
    .unwrap()
}
