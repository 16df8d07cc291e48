//! Pulls pages from the source ahead of their need, and compares them with the target, on a thread
//! of its own.
//!
//! A page waits if an entry of it cannot be made because of an obstacle at the target. Obstacles
//! are removed when the whole list of the source is known and all guards agree. So the pages behind
//! are gathered in the journal store, the obstacles are removed, and pulling resumes where it
//! stopped. Pages opened before continue meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::scan::{PageReply, PageSource, RecheckRequest, ScanSummary};
use penstock_proto::compared::Comparison;
use penstock_proto::digest::Digest;
use penstock_proto::manifest::{Page, page_digest};

use super::unlisted;
use crate::runner::bounded_join::ends_within;
use crate::runner::shared::RunShared;

/// Encoded pages pulled ahead, about 300 KiB each.
const AHEAD: usize = 8;
/// The longest time that one request may wait at the source for the scan, in milliseconds.
const WAIT_MS: u32 = 1_000;
/// Waits between attempts after a temporary failure: they double from the first to the last.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// The longest time that the top item of the source may fail before the run ends with its error.
const TOP_MAX: Duration =
    if cfg!(test) { Duration::from_millis(500) } else { Duration::from_secs(30) };

/// The reason that is shown while the puller waits without any error.
pub(crate) const THE_SCAN: &str = "the scan at the source";
/// The longest time that the thread may take to end; a request to another site ends earlier by
/// itself.
const STOP_MAX: Duration = Duration::from_secs(90);
/// The longest time that a run waits for a page that it has lost, before it ends for now.
const AGAIN_MAX: Duration = Duration::from_secs(30);

/// Compares a page with the target.
pub(crate) type Compare = Arc<dyn Fn(&Page) -> Result<Comparison, Problem> + Send + Sync>;

/// Removes obstacles, given the end of the scan; stops early if the flag is set.
pub(crate) type Clear = Box<dyn Fn(&ScanSummary, &AtomicBool) -> Result<(), Problem> + Send>;

/// The treatment of pages besides pulling them.
pub(crate) struct Treatment {
    /// Compares those pages with the target for which [`RunShared::is_compared`] returns true.
    pub(crate) compare: Compare,
    /// Removes obstacles; only where deletion is allowed.
    pub(crate) clear: Option<Clear>,
}

/// The result of pulling.
pub(crate) enum Pulled {
    /// An encoded page, and the result of its comparison with the target.
    Page(Vec<u8>, Comparison),
    /// The scan is complete: see [`Puller::end`].
    End,
}

/// Compares an encoded page. Ignores a damaged one; opening it reports the error.
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
    question: Option<RecheckRequest>,
    answer: Option<Result<u32, Problem>>,
    waiting: String,
    stopped: bool,
    /// The first page with an obstacle, and the next page to gather.
    gathering: Option<(u32, u32)>,
    /// Set when the obstacles were removed. Remaining obstacles stay, and their items fail.
    cleared: bool,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    wake: Condvar,
    /// Ends the clearing.
    stop: AtomicBool,
}

/// A request to the source.
enum Wanted {
    Page(WantedPage),
    /// A question about entries that have changed.
    Answer(RecheckRequest),
}

/// A page that is requested.
struct WantedPage {
    number: u32,
    /// The digest of a page that was pulled before and is lost.
    again: Option<Digest>,
    /// Set if the page is only gathered.
    gathered: bool,
}

/// The puller's handle.
pub(crate) struct Puller {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
}

impl Puller {
    /// Starts the thread; it idles until the first page is asked for.
    ///
    /// # Errors
    /// `threads`.
    pub(crate) fn start(
        source: Box<dyn PageSource>,
        shared: Arc<RunShared>,
        treatment: Treatment,
    ) -> Result<Self, Problem> {
        let inner = Arc::new(Inner::default());
        let thread = {
            let inner = Arc::clone(&inner);
            std::thread::Builder::new()
                .name("pages".to_owned())
                .spawn(move || inner.pull(source, &shared, &treatment))
                .map_err(Problem::no_thread)?
        };
        Ok(Self { inner, thread: Some(thread) })
    }

    /// Returns the page `number`, if it is there already; the end, if the scan has no such page.
    /// Never blocks: the run is notified when there is news.
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

    /// Returns a page that the ledger knows and the journal store has lost. Blocks until the page
    /// is here, for [`AGAIN_MAX`] at most.
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
            Err(Problem::new(ProblemCode::Page, title).because(&state.waiting))
        })
    }

    /// Asks the source about entries that have changed: see [`Puller::answer`].
    pub(crate) fn ask(&self, question: RecheckRequest) {
        self.inner.lock().question = Some(question);
        self.inner.wake.notify_all();
    }

    /// Returns how many pages the source has after the last question; `None` before it has
    /// answered. Never blocks.
    pub(crate) fn answer(&self) -> Option<Result<u32, Problem>> {
        self.inner.lock().answer.take()
    }

    /// Returns the end of the scan, if the scan has ended. It may be known long before the last
    /// page is wanted.
    pub(crate) fn end(&self) -> Option<ScanSummary> {
        self.inner.lock().end.clone()
    }

    /// Returns the reason why the puller waits; empty if it does not.
    pub(crate) fn waiting(&self) -> String {
        self.inner.lock().waiting.clone()
    }

    /// Ends the thread after the request that it may be in. A thread that hangs in it is abandoned,
    /// and its result is dropped (E2).
    pub(crate) fn stop(&mut self) {
        self.inner.stop.store(true, Ordering::Release);
        self.inner.lock().stopped = true;
        self.inner.wake.notify_all();
        let Some(thread) = self.thread.take() else { return };
        if ends_within(&thread, STOP_MAX) {
            let _ = thread.join();
        } else {
            tracing::error!("what pulls and compares pages hangs: it is left behind");
        }
    }
}

/// Returns whether the source may answer later in this attempt. Threads that cannot be started may
/// be those of this attempt itself: it ends, and its caller retries or reports the problem.
fn is_waited_for(problem: &Problem) -> bool {
    problem.exit == Exit::Temporary && problem.code != ProblemCode::Threads
}

impl Inner {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pull(&self, mut source: Box<dyn PageSource>, shared: &RunShared, treatment: &Treatment) {
        let mut delay = RETRY.0;
        let mut failing = None;
        loop {
            let wanted = match self.next_wanted() {
                None => return,
                Some(Wanted::Page(wanted)) => wanted,
                Some(Wanted::Answer(question)) => {
                    self.take_answer(source.ask(&question), &mut delay);
                    shared.notify();
                    continue;
                }
            };
            let again = wanted.again;
            let pulled = source.page(wanted.number, WAIT_MS).and_then(|reply| {
                if let PageReply::End(scan) = &reply {
                    unlisted::fetch(source.as_mut(), scan, shared)?;
                }
                Ok(reply)
            });
            match &pulled {
                Ok(PageReply::NotYet) => {}
                Err(problem) if problem.code == ProblemCode::Source => {
                    failing.get_or_insert_with(Instant::now);
                }
                _ => failing = None,
            }
            let lasts = failing.is_some_and(|since| since.elapsed() > TOP_MAX);
            match pulled.and_then(|reply| self.treat(&wanted, reply, shared, treatment)) {
                Ok(()) => delay = RETRY.0,
                Err(problem) if is_waited_for(&problem) && !lasts => {
                    self.wait_after(&problem, &mut delay);
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

    fn treat(
        &self,
        wanted: &WantedPage,
        reply: PageReply,
        shared: &RunShared,
        treatment: &Treatment,
    ) -> Result<(), Problem> {
        let Treatment { compare, clear } = treatment;
        let number = wanted.number;
        if let Some(clear) = clear.as_ref().filter(|_| wanted.gathered) {
            return self.gather(number, reply, shared, clear);
        }
        let compared = match &reply {
            PageReply::Page(encoded)
                if wanted.again.is_none() && shared.is_compared_encoded(encoded) =>
            {
                let compared = compare_encoded(compare, encoded)?;
                if compared.in_the_way > 0 && clear.is_some() && !self.lock().cleared {
                    tracing::info!(number, items = compared.in_the_way, "something is in the way");
                    shared.journal().write_page(number, encoded)?;
                    self.lock().gathering = Some((number, number + 1));
                    return Ok(());
                }
                compared
            }
            _ => Comparison::default(),
        };
        self.take(number, wanted.again, reply, compared);
        Ok(())
    }

    /// Stores a page that is only gathered. At the end of the scan removes the obstacles, so that
    /// pulling can resume where it stopped.
    fn gather(
        &self,
        number: u32,
        reply: PageReply,
        shared: &RunShared,
        clear: &Clear,
    ) -> Result<(), Problem> {
        let waiting = "the whole list of the source: something at the target is in the way";
        match reply {
            PageReply::Page(encoded) => {
                shared.journal().write_page(number, &encoded)?;
                let mut state = self.lock();
                waiting.clone_into(&mut state.waiting);
                state.gathering = state.gathering.map(|(first, next)| (first, next + 1));
            }
            PageReply::NotYet => waiting.clone_into(&mut self.lock().waiting),
            PageReply::End(summary) => {
                for (number, (encoded, _)) in &self.lock().pulled {
                    shared.journal().write_page(*number, encoded)?;
                }
                "taking away what is in the way at the target".clone_into(&mut self.lock().waiting);
                clear(&summary, &self.stop)?;
                let mut state = self.lock();
                state.waiting.clear();
                state.cleared = true;
                state.next = state.gathering.take().map(|(first, _)| first);
            }
        }
        Ok(())
    }

    fn wait_after(&self, problem: &Problem, delay: &mut Duration) {
        let seconds = delay.as_secs_f64();
        self.lock().waiting = format!("{problem}; next try in {seconds:.1} s");
        self.sleep(*delay);
        *delay = (*delay * 2).min(RETRY.1);
    }

    /// Handles an answer of the source, or has the request repeated.
    fn take_answer(&self, answer: Result<u32, Problem>, delay: &mut Duration) {
        match answer {
            Err(problem) if is_waited_for(&problem) => self.wait_after(&problem, delay),
            answer => {
                *delay = RETRY.0;
                let mut state = self.lock();
                state.waiting.clear();
                state.question = None;
                // Further pages may follow the earlier end.
                state.end = None;
                state.answer = Some(answer);
            }
        }
    }

    /// Waits until a page is wanted; `None` when the puller is to end.
    fn next_wanted(&self) -> Option<Wanted> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            if let Some((number, digest)) = state.again {
                let again = Some(digest);
                return Some(Wanted::Page(WantedPage { number, again, gathered: false }));
            }
            if let Some(question) = &state.question {
                return Some(Wanted::Answer(question.clone()));
            }
            if let Some((_, number)) = state.gathering {
                return Some(Wanted::Page(WantedPage { number, again: None, gathered: true }));
            }
            let room = state.pulled.len() < AHEAD && state.end.is_none();
            if let Some(next) = state.next
                && room
            {
                let page = WantedPage { number: next, again: None, gathered: false };
                return Some(Wanted::Page(page));
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
                    ProblemCode::ManifestLost,
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
            PageReply::NotYet => THE_SCAN.clone_into(&mut state.waiting),
            PageReply::End(summary) => state.end = Some(summary),
        }
    }

    fn sleep(&self, delay: Duration) {
        let state = self.lock();
        let wait = self.wake.wait_timeout_while(state, delay, |state| !state.stopped);
        drop(wait);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use penstock_api::heads::LedgerHead;
    use penstock_api::removal::{RemoveOrder, RemoveReply};
    use penstock_api::scan::{DigestWish, WishedDigests};
    use penstock_api::transfer::TransferOptions;
    use penstock_proto::id::TransferId;

    use super::*;
    use crate::runner::journal::Journal;
    use crate::runner::phases::setup::machine_of;

    struct Silent;

    impl PageSource for Silent {
        fn remove(&mut self, _: &RemoveOrder) -> Result<RemoveReply, Problem> {
            Ok(RemoveReply::default())
        }

        fn page(&mut self, _: u32, _: u32) -> Result<PageReply, Problem> {
            Ok(PageReply::NotYet)
        }

        fn ask(&mut self, _: &RecheckRequest) -> Result<u32, Problem> {
            Ok(0)
        }

        fn digests(&mut self, _: &DigestWish, _: u32) -> Result<Option<WishedDigests>, Problem> {
            Ok(None)
        }
    }

    /// A source whose top item cannot be looked at.
    struct Broken;

    impl PageSource for Broken {
        fn remove(&mut self, _: &RemoveOrder) -> Result<RemoveReply, Problem> {
            Ok(RemoveReply::default())
        }

        fn page(&mut self, _: u32, _: u32) -> Result<PageReply, Problem> {
            Err(Problem::new(ProblemCode::Source, "cannot examine the source"))
        }

        fn ask(&mut self, _: &RecheckRequest) -> Result<u32, Problem> {
            Ok(0)
        }

        fn digests(&mut self, _: &DigestWish, _: u32) -> Result<Option<WishedDigests>, Problem> {
            Ok(None)
        }
    }

    fn shared_in(directory: &std::path::Path) -> Arc<RunShared> {
        let journal = Journal::open(directory, 0, &[]).unwrap();
        let (options, head) = (TransferOptions::default(), LedgerHead::default());
        let machine = machine_of(&options, &head, false, TransferId([1; 16]));
        Arc::new(RunShared::new(machine, journal, false))
    }

    /// Promise: an error of the source's top item that lasts ends the run with that error.
    #[test]
    fn an_error_of_the_top_item_is_not_retried_without_end() {
        let directory = tempfile::tempdir().unwrap();
        let shared = shared_in(directory.path());
        let compare: Compare = Arc::new(|_| Ok(Comparison::default()));
        let treatment = Treatment { compare, clear: None };
        let mut puller = Puller::start(Box::new(Broken), shared, treatment).unwrap();
        let began = Instant::now();
        let problem = loop {
            match puller.page(0) {
                Err(problem) => break problem,
                Ok(_) => std::thread::yield_now(),
            }
            assert!(began.elapsed() < Duration::from_secs(60), "retried without end");
        };
        assert_eq!(problem.code, ProblemCode::Source);
        puller.stop();
    }

    /// Promise: a run whose thread for pages cannot be started fails with that reason and is
    /// retried, instead of waiting for pages for ever.
    #[test]
    fn a_run_without_a_thread_for_pages_is_tried_again() {
        const MARK: &str = "PENSTOCK_TEST_WITHOUT_THREADS";
        const TEST: &str =
            "runner::pages::puller::tests::a_run_without_a_thread_for_pages_is_tried_again";
        if std::env::var_os(MARK).is_none() {
            let mut alone = Command::new(std::env::current_exe().unwrap());
            alone.args([TEST, "--exact", "--nocapture", "--test-threads=1"]);
            // No address space has room for such a stack.
            alone.env(MARK, "1").env("RUST_MIN_STACK", (1_u64 << 48).to_string());
            let ran = alone.output().unwrap();
            let told = String::from_utf8_lossy(&ran.stdout).into_owned();
            assert!(ran.status.success() && told.contains("1 passed"), "{told}");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let shared = shared_in(directory.path());
        let compare: Compare = Arc::new(|_| Ok(Comparison::default()));
        let started = Puller::start(Box::new(Silent), shared, Treatment { compare, clear: None });
        let problem = started.map(drop).unwrap_err();
        assert_eq!((&problem.code, problem.exit), (&ProblemCode::Threads, Exit::Temporary));
    }
}
