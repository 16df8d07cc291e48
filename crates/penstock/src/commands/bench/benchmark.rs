//! A benchmark of a store that runs at the site, waited for.

use penstock_api::benchmark::{Benchmark, BenchmarkList, BenchmarkState};
use penstock_api::endpoints::LIST_BENCHMARKS;
use penstock_exit::{ExitCode, Failure};
use penstock_proto::id::{Name, TransferId};

use crate::client::Client;

/// Waits for the end of a benchmark, and returns how it ended; `wait` waits between two looks, and
/// is given the last one.
///
/// # Errors
/// What the daemon answers; the benchmark has gone; what `wait` returns.
pub(super) fn ended(
    client: &Client,
    store: &Name,
    id: TransferId,
    mut wait: impl FnMut(&Benchmark) -> anyhow::Result<()>,
) -> anyhow::Result<Benchmark> {
    loop {
        let list: BenchmarkList = client.get(&LIST_BENCHMARKS.uri(&[store]))?;
        let Some(found) = list.items.into_iter().find(|benchmark| benchmark.id == id) else {
            let title = "the benchmark has gone: another peer is the controller now";
            return Err(Failure::new(ExitCode::Temporary, title).into());
        };
        if found.state != BenchmarkState::Running {
            return Ok(found);
        }
        wait(&found)?;
    }
}
