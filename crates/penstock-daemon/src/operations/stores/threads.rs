//! Threads for users who look into stores. A store may never answer (E2). Then few threads hang in
//! it, the requester gets an error in time, and requests for other stores have threads of their
//! own.
//!
//! Looks of users are apart from those of transfers: no transfer waits because a user looks into a
//! slow store, and a late look here proves nothing about the store to a transfer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use penstock_api::problem::{Problem, ProblemCode};
use penstock_proto::id::Name;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

/// Threads of one store at a time; further requests wait for one.
const THREADS_OF_STORE: usize = 4;

/// The threads of all stores of this peer.
#[derive(Default)]
pub(super) struct StoreThreads(Mutex<BTreeMap<Name, Arc<Threads>>>);

struct Threads {
    places: Arc<Semaphore>,
    /// Threads that did not answer in time.
    late: Mutex<Vec<JoinHandle<()>>>,
}

impl Default for Threads {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(THREADS_OF_STORE)), late: Mutex::default() }
    }
}

impl Threads {
    /// Returns whether a thread hangs that was late before.
    fn hang(&self) -> bool {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        late.retain(|thread| !thread.is_finished());
        !late.is_empty()
    }
}

impl StoreThreads {
    /// Runs `work` on a thread of a store of this peer, and waits for it until `until`. Work that
    /// is late keeps its thread until it returns.
    ///
    /// # Errors
    /// Those of `work`; `store-hung` if it is late, or an earlier one has not returned; `busy` if
    /// all threads of the store are at work; `threads`.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        store: &Name,
        until: Instant,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let threads = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(store.clone()).or_default())
        };
        if threads.hang() {
            return Err(hung(store));
        }
        let place = timeout_at(until, Arc::clone(&threads.places).acquire_owned()).await;
        let Ok(Ok(place)) = place else {
            if threads.hang() {
                return Err(hung(store));
            }
            let title = format!("too many requests look into store `{store}`");
            return Err(Problem::new(ProblemCode::Busy, title));
        };
        let (answer, answered) = oneshot::channel();
        let thread = std::thread::Builder::new().name("store-entries".to_owned());
        let thread = thread.spawn(move || {
            let found = work();
            drop(place);
            // The receiver is gone if the result is too late.
            let _ = answer.send(found);
        });
        let thread = thread.map_err(Problem::no_thread)?;
        match timeout_at(until, answered).await {
            Ok(Ok(found)) => found,
            Ok(Err(_)) => {
                let title = format!("looking into store `{store}` broke an assumption of ours");
                Err(Problem::new(ProblemCode::Internal, title))
            }
            Err(_) => {
                tracing::error!(%store, "a store hangs: a look of a user is left behind");
                threads.late.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
                Err(hung(store))
            }
        }
    }
}

fn hung(store: &Name) -> Problem {
    let title = format!("store `{store}` does not answer: a call to it hangs");
    Problem::new(ProblemCode::StoreHung, title)
        .hint("check its disk or server, and the name service (`getent passwd`)")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// E2, promise (f): a hung store is reported in time, and at once to later requests. It takes
    /// few threads for any number of requests, delays no other store, and serves again when it
    /// answers.
    #[tokio::test]
    async fn e2_a_store_that_hangs_is_told_in_time() {
        let threads = Arc::new(StoreThreads::default());
        let [hung, sound] = ["hung", "sound"].map(|name| name.parse::<Name>().unwrap());
        let (wake, woken) = mpsc::channel::<()>();
        let woken = Arc::new(Mutex::new(woken));
        let begun = Arc::new(Mutex::new(0));
        let until = Instant::now() + Duration::from_millis(200);
        let asked: Vec<_> = (0..12)
            .map(|_| {
                let (threads, store) = (Arc::clone(&threads), hung.clone());
                let (woken, begun) = (Arc::clone(&woken), Arc::clone(&begun));
                tokio::spawn(async move {
                    let work = move || {
                        *begun.lock().unwrap() += 1;
                        let _ = woken.lock().unwrap().recv();
                        Ok(())
                    };
                    threads.run(&store, until, work).await.unwrap_err().code
                })
            })
            .collect();
        let later = || Instant::now() + Duration::from_secs(60);
        assert_eq!(threads.run(&sound, later(), || Ok(7)).await, Ok(7));
        let mut codes = Vec::new();
        for asked in asked {
            codes.push(asked.await.unwrap());
        }
        codes.retain(|code| *code == ProblemCode::StoreHung);
        assert!(codes.len() >= THREADS_OF_STORE, "{}", codes.len());
        assert_eq!(*begun.lock().unwrap(), THREADS_OF_STORE);
        let again = threads.run(&hung, later(), || -> Result<(), _> { unreachable!() }).await;
        assert_eq!(again.unwrap_err().code, ProblemCode::StoreHung);
        drop(wake);
        let answers = async {
            while threads.run(&hung, later(), || Ok(())).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), answers).await.unwrap();
    }
}
