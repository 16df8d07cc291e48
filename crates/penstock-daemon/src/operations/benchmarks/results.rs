//! Results of benchmarks that the site keeps.

use std::sync::Arc;
use std::time::Duration;

use penstock_api::benchmark::{BENCHMARKS_KEPT, Benchmark, BenchmarkState};
use penstock_api::fence::not_controller;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_cluster::state::{SiteState, StateError};
use penstock_engine::benchmark::{RESULT_AGE_MAX, Staleness, staleness};
use penstock_proto::id::{Name, TransferId};
use penstock_store::{PosixOptions, PosixStore};

use super::Benchmarks;
use super::peers::is_known;
use crate::events::log::now_ms;
use crate::site::store_look;

impl Benchmarks {
    fn state(&self) -> Result<Arc<dyn SiteState>, Problem> {
        let controller = self.operate.member.controller().ok_or_else(not_controller)?;
        Ok(controller.state)
    }

    /// Returns the results of a store, oldest first, with the reasons why they are stale.
    pub(super) fn results(&self, store: &Name) -> Result<Vec<Benchmark>, Problem> {
        let mut all = self.state()?.benchmarks().map_err(|error| failed(&error))?;
        all.retain(|result| result.store == *store);
        if all.is_empty() {
            return Ok(all);
        }
        let now = self.fingerprint(store);
        for result in &mut all {
            let age = Duration::from_millis(now_ms().saturating_sub(result.began.ms()));
            result.stale = staleness(age, (&result.file_system.fingerprint, &now)).map(words);
        }
        Ok(all)
    }

    /// Returns the fingerprint of a store as this peer sees it; empty if that is not known.
    fn fingerprint(&self, store: &Name) -> String {
        let mut stores = self.operate.site.stores().into_iter();
        let config = stores.find(|config| config.name == *store);
        let Some(directory) = config.and_then(|config| config.directory()) else {
            return String::new();
        };
        let look = move || {
            let options = PosixOptions { read_only: true, ..PosixOptions::default() };
            let opened = PosixStore::open(&directory, options).ok()?;
            opened.fingerprint().ok().map(|fingerprint| fingerprint.to_string())
        };
        store_look::within(store, look).flatten().unwrap_or_default()
    }

    /// Stores a result. Older ones of its store make room, first interrupted ones, and stale ones
    /// of stores that the site no longer has.
    pub(super) fn keep(&self, result: &Benchmark) {
        let kept = || -> Result<(), Problem> {
            let state = self.state()?;
            state.put_benchmark(result).map_err(|error| failed(&error))?;
            let all = state.benchmarks().map_err(|error| failed(&error))?;
            let has_gone = |store: &Name| {
                let operate = &self.operate;
                !is_known(operate, store) && operate.site.unknown_now(store).is_none()
            };
            for old in surplus(&all, result, now_ms(), has_gone) {
                state.remove_benchmark(old).map_err(|error| failed(&error))?;
            }
            Ok(())
        };
        if let Err(problem) = kept() {
            tracing::warn!(store = %result.store, %problem, "the result of a benchmark is lost");
        }
    }

    /// Removes a result.
    pub(super) fn forget(&self, store: &Name, id: TransferId) -> Result<(), Problem> {
        let state = self.state()?;
        let all = state.benchmarks().map_err(|error| failed(&error))?;
        if !all.iter().any(|kept| kept.id == id && kept.store == *store) {
            let title = format!("store `{store}` has no benchmark {id}");
            return Err(Problem::new(ProblemCode::BenchmarkUnknown, title));
        }
        state.remove_benchmark(id).map_err(|error| failed(&error))
    }
}

/// Returns the results that make room for a new one.
fn surplus(
    all: &[Benchmark],
    new: &Benchmark,
    now_ms: u64,
    has_gone: impl Fn(&Name) -> bool,
) -> Vec<TransferId> {
    // The new result stays in any case: a user waits for it.
    let others = all.iter().filter(|kept| kept.id != new.id);
    let (mut own, others): (Vec<_>, Vec<_>) = others.partition(|kept| kept.store == new.store);
    own.sort_by_key(|kept| (kept.state == BenchmarkState::Done, kept.began));
    let most = (own.len() + 1).saturating_sub(BENCHMARKS_KEPT);
    let is_old = |kept: &&Benchmark| {
        let age = Duration::from_millis(now_ms.saturating_sub(kept.began.ms()));
        age > RESULT_AGE_MAX && has_gone(&kept.store)
    };
    let gone = others.into_iter().filter(is_old);
    own.into_iter().take(most).chain(gone).map(|kept| kept.id).collect()
}

fn words(staleness: Staleness) -> String {
    match staleness {
        Staleness::Old => {
            format!("it is older than {} days", RESULT_AGE_MAX.as_secs() / (24 * 3600))
        }
        Staleness::OtherFileSystem => "the store is on another file system now".to_owned(),
    }
}

fn failed(error: &StateError) -> Problem {
    let title = "the state of the site cannot be used for a benchmark";
    Problem::new(ProblemCode::Internal, title).because(penstock_exit::chain(error))
}

#[cfg(test)]
mod tests {
    use penstock_api::timestamp::Timestamp;

    use super::*;
    use crate::operations::benchmarks::tests::benchmark;

    fn result(id: u8, state: BenchmarkState) -> Benchmark {
        let began = Timestamp::of_seconds(u64::from(id) * 1000);
        Benchmark { id: TransferId([id; 16]), state, began, ..benchmark() }
    }

    /// Promise: the newest result is kept after eight good ones, however it ended; it takes the
    /// place of one that broke off, or of the oldest.
    #[test]
    fn the_newest_result_is_kept() {
        let mut all: Vec<_> = (1..=8).map(|id| result(id, BenchmarkState::Done)).collect();
        let new = result(9, BenchmarkState::Cancelled);
        all.push(new.clone());
        let stays = |_: &Name| false;
        assert_eq!(surplus(&all, &new, 0, stays), [TransferId([1; 16])]);
        all[4].state = BenchmarkState::Failed;
        assert_eq!(surplus(&all, &new, 0, stays), [TransferId([5; 16])]);
        assert!(surplus(&all[1..], &new, 0, stays).is_empty());
    }

    /// Promise: results of a store that the site no longer has are removed when they are stale.
    #[test]
    fn results_of_a_store_that_has_gone_go() {
        let mut old = result(1, BenchmarkState::Done);
        old.store = "gone".parse().unwrap();
        let all = [old, result(2, BenchmarkState::Done)];
        let days = |days: u64| days * 24 * 3_600_000;
        let gone = |store: &Name| store.as_str() == "gone";
        assert_eq!(surplus(&all, &all[1], days(100), gone), [TransferId([1; 16])]);
        assert!(surplus(&all, &all[1], days(80), gone).is_empty());
        assert!(surplus(&all, &all[1], days(100), |_| false).is_empty());
    }
}
