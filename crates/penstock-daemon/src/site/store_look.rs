//! Looks at stores that may never answer (E2). A caller with other duties, as to follow the
//! election, never waits for a store without end, and a hung store takes few threads.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use penstock_proto::id::Name;

/// The time that a look may take.
const LOOK_MAX: Duration = Duration::from_secs(10);

/// Looks that have not returned, by store. The table belongs to the whole process, as the threads
/// do.
static HANGING: Mutex<BTreeMap<Name, Vec<JoinHandle<()>>>> = Mutex::new(BTreeMap::new());

/// Returns the result of `look` at a store. `None` if that takes longer than [`LOOK_MAX`], or an
/// earlier look at the same store has not returned. Blocks.
pub(crate) fn within<T: Send + 'static>(
    store: &Name,
    look: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    within_time(store, LOOK_MAX, look)
}

fn within_time<T: Send + 'static>(
    store: &Name,
    most: Duration,
    look: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let hanging = || HANGING.lock().unwrap_or_else(PoisonError::into_inner);
    {
        let mut hanging = hanging();
        let earlier = hanging.entry(store.clone()).or_default();
        earlier.retain(|look| !look.is_finished());
        if !earlier.is_empty() {
            return None;
        }
    }
    let (found, finds) = channel();
    let thread = std::thread::Builder::new().name("store-look".to_owned());
    // The receiver is gone if the result is too late.
    let thread = thread.spawn(move || drop(found.send(look()))).ok()?;
    let found = finds.recv_timeout(most).ok();
    if found.is_none() {
        tracing::error!(%store, "a store does not answer: its disk or server hangs");
        hanging().entry(store.clone()).or_default().push(thread);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E2: a store that hangs is waited for once, and not looked at again before it has answered;
    /// others are looked at all the while.
    #[test]
    fn e2_a_store_that_hangs_is_waited_for_once() {
        let [hung, sound] = ["e2-hung", "e2-sound"].map(|name| name.parse::<Name>().unwrap());
        let short = Duration::from_millis(100);
        let (wake, woken) = channel::<()>();
        assert_eq!(within_time(&hung, short, move || woken.recv().is_err()), None);
        let again = within_time(&hung, Duration::from_secs(60), || unreachable!("not now"));
        assert_eq!(again, None::<()>);
        assert_eq!(within(&sound, || 7), Some(7));
        drop(wake);
        let answers = || within_time(&hung, Duration::from_secs(60), || 8);
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while answers() != Some(8) {
            assert!(std::time::Instant::now() < deadline, "it answers, and nobody looks");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
