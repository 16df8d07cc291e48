//! Benchmarks for tests.

use penstock_api::benchmark::Benchmark;
use serde_json::json;

/// Returns a benchmark of one peer, without points.
pub(super) fn benchmark() -> Benchmark {
    let peer = json!({"peer": "h1", "processors": 2, "memory_bytes": 1, "threads": 4});
    serde_json::from_value(json!({
        "id": "07".repeat(16), "store": "data", "path": "", "state": "done", "user": "root",
        "began": "2026-11-26T00:00:00Z", "version": "1", "steps_done": 4, "steps": 4,
        "seconds": 10, "repeats": 1, "budget_bytes": 1, "with_load": false, "peers": [peer],
        "file_system": {"kind": "XFS", "fingerprint": "a", "durable_by": "syncfs",
                        "direct": true, "free_bytes": 1, "total_bytes": 1},
        "points": [],
    }))
    .unwrap()
}
