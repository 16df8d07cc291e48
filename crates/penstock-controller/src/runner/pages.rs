//! Pulls pages from the source ahead of their need, and compares them with the target, on a thread
//! of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use penstock_api::problem::{Exit, Problem};
use penstock_api::scan::{PageReply, PageSource, ScanSummary};
use penstock_proto::compared::Comparison;
use penstock_proto::digest::Digest;
use penstock_proto::manifest::{Page, page_digest};

use super::control::Shared;

/// Encoded pages pulled ahead, about 300 KiB each.
const AHEAD: usize = 8;
/// How long one request may wait at the source for the scan to come so far.
const WAIT_MS: u32 = 1_000;
/// Waits between attempts after a temporary failure: they double from the first to the last.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// How long a run waits for a page that it has lost, before it ends for now.
const AGAIN_MAX: Duration = Duration::from_secs(30);

/// Compares a page with the target.
pub(crate) type Compare = Arc<dyn Fn(&Page) -> Result<Comparison, Problem> + Send + Sync>;

/// What was pulled.
pub(crate) enum Pulled {
    /// An encoded page, and what comparing it with the target has decided.
    Page(Vec<u8>, Comparison),
    /// The scan is complete: see [`Puller::end`].
    End,
}

/// Compares an encoded page; one that is broken is told by whoever opens it.
fn compare_encoded(compare: &Compare, encoded: &[u8]) -> Result<Comparison, Problem> {
    Page::decode(encoded).map_or_else(|_| Ok(Comparison::default()), |page| compare(&page))
}

#[derive(Default)]
struct State {
    next: Option<u32>,
    again: Option<(u32, Digest)>,
    again_reply: Option<Result<Vec<u8>, Problem>>,
    pulled: BTreeMap<u32, (Vec<u8>, Comparison)>,
    end: Option<ScanSummary>,
    problem: Option<Problem>,
    waiting: String,
    stopped: bool,
}

struct Inner {
    state: Mutex<State>,
    wake: Condvar,
}

/// The puller's handle.
pub(crate) struct Puller {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

impl Puller {
    /// Starts the thread; it idles until the first page is asked for.
    pub(crate) fn start(
        source: Box<dyn PageSource>,
        shared: Arc<Shared>,
        compare: Option<Compare>,
    ) -> Self {
        let inner = Arc::new(Inner { state: Mutex::new(State::default()), wake: Condvar::new() });
        let thread = {
            let inner = Arc::clone(&inner);
            std::thread::Builder::new()
                .name("pages".to_owned())
                .spawn(move || inner.pull(source, &shared, compare.as_ref()))
                .ok()
        };
        Self { inner, thread }
    }

    /// The page `number`, if it is there already; the end, if the scan has no such page. Never
    /// blocks: the run is notified when there is news.
    pub(crate) fn page(&self, number: u32) -> Result<Option<Pulled>, Problem> {
        let mut state = self.inner.lock();
        if let Some(problem) = state.problem.take() {
            return Err(problem);
        }
        if let Some((page, compared)) = state.pulled.remove(&number) {
            self.inner.wake.notify_all();
            return Ok(Some(Pulled::Page(page, compared)));
        }
        if let Some(end) = &state.end
            && number >= end.pages
        {
            return Ok(Some(Pulled::End));
        }
        let runs_ahead = state.next.is_some_and(|next| next >= number);
        if !runs_ahead {
            state.next = Some(number);
            self.inner.wake.notify_all();
        }
        Ok(None)
    }

    /// A page that the ledger knows and the journal store has lost; blocks until it is here, for
    /// [`AGAIN_MAX`] at most.
    pub(crate) fn page_again(&self, number: u32, digest: Digest) -> Result<Vec<u8>, Problem> {
        let mut state = self.inner.lock();
        state.again = Some((number, digest));
        self.inner.wake.notify_all();
        let nothing = |state: &mut State| state.again_reply.is_none();
        let waited = self.inner.wake.wait_timeout_while(state, AGAIN_MAX, nothing);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.again = None;
        state.again_reply.take().unwrap_or_else(|| {
            let title =
                format!("page {number} is lost here, and the source does not give it again");
            Err(Problem::new(Exit::Temporary, "page", title).because(&state.waiting))
        })
    }

    /// How the scan ended, if it has; it may be known long before the last page is wanted.
    pub(crate) fn end(&self) -> Option<ScanSummary> {
        self.inner.lock().end.clone()
    }

    /// What the puller waits for; empty if it does not.
    pub(crate) fn waiting(&self) -> String {
        self.inner.lock().waiting.clone()
    }

    /// Ends the thread, after the request that it may be in.
    pub(crate) fn stop(&mut self) {
        self.inner.lock().stopped = true;
        self.inner.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Inner {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pull(&self, mut source: Box<dyn PageSource>, shared: &Shared, compare: Option<&Compare>) {
        let mut delay = RETRY.0;
        loop {
            let Some(wanted) = self.next_wanted() else { return };
            let (number, again) = wanted;
            let pulled = source.page(number, WAIT_MS).and_then(|reply| {
                let compared = compare.filter(|_| again.is_none()).map(|compare| match &reply {
                    PageReply::Page(encoded) => compare_encoded(compare, encoded),
                    _ => Ok(Comparison::default()),
                });
                Ok((reply, compared.transpose()?.unwrap_or_default()))
            });
            match pulled {
                Ok((reply, compared)) => {
                    delay = RETRY.0;
                    self.take(number, again, reply, compared);
                }
                Err(problem) if problem.exit == Exit::Temporary => {
                    let seconds = delay.as_secs_f64();
                    self.lock().waiting = format!("{problem}; next try in {seconds:.1} s");
                    self.sleep(delay);
                    delay = (delay * 2).min(RETRY.1);
                }
                Err(problem) => {
                    let mut state = self.lock();
                    state.again_reply = again.map(|_| Err(problem.clone()));
                    state.again = None;
                    state.next = None;
                    state.problem = Some(problem);
                }
            }
            self.wake.notify_all();
            shared.notify();
        }
    }

    /// Waits until a page is wanted; `None` when the puller is to end.
    fn next_wanted(&self) -> Option<(u32, Option<Digest>)> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            if let Some((number, digest)) = state.again {
                return Some((number, Some(digest)));
            }
            let room = state.pulled.len() < AHEAD && state.end.is_none();
            if let Some(next) = state.next
                && room
            {
                return Some((next, None));
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn take(&self, number: u32, again: Option<Digest>, reply: PageReply, compared: Comparison) {
        let mut state = self.lock();
        state.waiting.clear();
        if let Some(digest) = again {
            let reply = match reply {
                PageReply::Page(encoded) if page_digest(&encoded) == digest => Ok(encoded),
                PageReply::NotYet => return,
                _ => Err(Problem::new(
                    Exit::Fatal,
                    "manifest-lost",
                    format!("page {number} of the data set is lost at both sites"),
                )
                .hint("cancel the transfer and submit it again")),
            };
            state.again = None;
            state.again_reply = Some(reply);
            return;
        }
        match reply {
            PageReply::Page(encoded) => {
                state.pulled.insert(number, (encoded, compared));
                state.next = Some(number + 1);
            }
            PageReply::NotYet => "the scan at the source".clone_into(&mut state.waiting),
            PageReply::End(summary) => state.end = Some(summary),
        }
    }

    fn sleep(&self, delay: Duration) {
        let state = self.lock();
        let wait = self.wake.wait_timeout_while(state, delay, |state| !state.stopped);
        drop(wait);
    }
}
