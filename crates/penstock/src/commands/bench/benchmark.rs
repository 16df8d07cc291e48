//! A benchmark of a store that runs at the site, waited for.

use penstock_api::benchmark::{Benchmark, BenchmarkList, BenchmarkState};
use penstock_api::endpoints::LIST_BENCHMARKS;
use penstock_exit::{ExitCode, Failure};
use penstock_proto::id::{Name, TransferId};

use crate::client::Client;

/// Returns a benchmark as it is now; none if the site does not know it any more.
///
/// # Errors
/// The answer of the daemon.
pub(super) fn look(
    client: &Client,
    store: &Name,
    id: TransferId,
) -> anyhow::Result<Option<Benchmark>> {
    let list: BenchmarkList = client.get(&LIST_BENCHMARKS.uri(&[store]))?;
    Ok(list.items.into_iter().find(|benchmark| benchmark.id == id))
}

/// Returns the error of a benchmark that the site does not know any more.
pub(super) fn gone() -> Failure {
    let title = "the benchmark has gone: the daemon was restarted, or another peer is the \
                 controller now";
    Failure::new(ExitCode::Temporary, title)
        .hint("run the same command again; a daemon removes what is left when it starts")
}

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
        let found = look(client, store, id)?.ok_or_else(gone)?;
        if found.state != BenchmarkState::Running {
            return Ok(found);
        }
        wait(&found)?;
    }
}
