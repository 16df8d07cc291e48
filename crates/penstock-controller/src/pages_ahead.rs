//! Pages of another site that are requested before they are needed.
//!
//! Over distance each request takes a round trip. Requests one after the other would slow down a
//! data set of small files: 4,096 entries a round trip. So a few further pages are requested while
//! one is processed. Their requests follow when the first page has arrived, which has the
//! connection for itself.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use penstock_api::problem::Problem;
use penstock_api::scan::PageReply;

/// Pages that are on their way at a time: with the one of them that waits at the source for the
/// scan to come so far, about 1 MiB and three threads.
const PAGES: u32 = 3;

/// Asks the source for the page of this number, which may wait there for so many milliseconds.
pub(crate) type AskPage = Arc<dyn Fn(u32, u32) -> Result<PageReply, Problem> + Send + Sync>;

/// Pages that are requested. On drop, waits for the open requests: the end of a transfer may then
/// report to the source that no more requests will follow.
pub(crate) struct PagesAhead {
    ask: AskPage,
    /// Requested pages by ascending numbers, without a gap.
    coming: VecDeque<(u32, Receiver<Result<PageReply, Problem>>)>,
    threads: Vec<JoinHandle<()>>,
}

impl PagesAhead {
    pub(crate) fn new(ask: AskPage) -> Self {
        Self { ask, coming: VecDeque::new(), threads: Vec::new() }
    }

    /// Returns the reply to an earlier request for this page, or for the end. `None` if the page
    /// must be requested now: it was not requested before, or did not exist yet. Blocks as long as
    /// the request takes.
    ///
    /// # Errors
    /// The error of the source. No other earlier request is waited for then.
    pub(crate) fn take(&mut self, number: u32) -> Option<Result<PageReply, Problem>> {
        // The page before did not exist yet: requests for those behind it are still in progress.
        if self.coming.front().is_some_and(|(next, _)| *next == number.saturating_add(1)) {
            return None;
        }
        if self.coming.front().is_none_or(|(next, _)| *next != number) {
            self.coming.clear();
        }
        let reply = self.coming.pop_front()?.1.recv().ok()?;
        if reply.is_err() {
            self.coming.clear();
        }
        Some(reply).filter(|reply| *reply != Ok(PageReply::NotYet))
    }

    /// Asks for some of the pages behind this one, which has come. Does not block.
    pub(crate) fn ask_behind(&mut self, number: u32, wait_ms: u32) {
        self.threads.retain(|thread| !thread.is_finished());
        let first = self.coming.back().map_or(number, |(last, _)| *last).saturating_add(1);
        for next in first..=number.saturating_add(PAGES) {
            let (answer, coming) = channel();
            let ask = Arc::clone(&self.ask);
            let thread = std::thread::Builder::new().name("page-ahead".to_owned());
            // The reply may no longer be needed. If no thread starts, the page is requested in its
            // turn.
            let started = thread.spawn(move || drop(answer.send(ask(next, wait_ms))));
            let Ok(thread) = started else { return };
            self.threads.push(thread);
            self.coming.push_back((next, coming));
        }
    }

    /// Drops all earlier requests, since other pages may exist now, or an end further away.
    pub(crate) fn forget(&mut self) {
        self.coming.clear();
    }
}

impl Drop for PagesAhead {
    fn drop(&mut self) {
        for thread in self.threads.drain(..) {
            // A thread that panicked has sent no reply.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use penstock_api::problem::ProblemCode;

    /// Promise: pages do not wait for each other over distance: the next three are asked for while
    /// none of them is answered, and each is asked for once.
    #[test]
    fn pages_do_not_wait_for_each_other() {
        let (asked, questions) = channel();
        let (answer, answers) = channel::<()>();
        let (asked, answers) = (Mutex::new(asked), Mutex::new(answers));
        let ask = move |number: u32, _: u32| {
            asked.lock().unwrap().send(number).unwrap();
            let _ = answers.lock().unwrap().recv();
            Ok(PageReply::Page(vec![number as u8]))
        };
        let mut pages = PagesAhead::new(Arc::new(ask));
        assert_eq!(pages.take(0), None, "the first has the connection for itself");
        pages.ask_behind(0, 1000);
        let next = || questions.recv_timeout(Duration::from_secs(60)).unwrap();
        let mut numbers = [next(), next(), next()];
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2, 3]);
        drop(answer);
        let page = |number: u32| Some(Ok(PageReply::Page(vec![number as u8])));
        assert_eq!(pages.take(1), page(1));
        pages.ask_behind(1, 1000);
        assert_eq!(next(), 4);
        assert_eq!([2, 3, 4].map(|number| pages.take(number)), [2, 3, 4].map(page));
        assert!(questions.try_recv().is_err(), "something was asked for twice");
    }

    /// Promise: a page that was requested ahead and was not ready, or may have changed, is
    /// requested again in its turn. A failed request is reported, and no page is waited for twice.
    #[test]
    fn what_did_not_come_is_asked_for_in_its_turn() {
        let failed = || Problem::new(ProblemCode::SiteUnreachable, "no answer");
        let ask = move |number: u32, _: u32| match number {
            1 => Ok(PageReply::NotYet),
            3 => Err(failed()),
            _ => Ok(PageReply::Page(Vec::new())),
        };
        let mut pages = PagesAhead::new(Arc::new(ask));
        pages.ask_behind(0, 1000);
        assert_eq!((pages.take(1), pages.take(1)), (None, None));
        assert_eq!(pages.take(2), Some(Ok(PageReply::Page(Vec::new()))));
        assert_eq!((pages.take(3), pages.take(3)), (Some(Err(failed())), None));
        pages.ask_behind(3, 1000);
        pages.forget();
        assert_eq!(pages.take(4), None);
        pages.ask_behind(4, 1000);
        assert_eq!(pages.take(9), None, "another is wanted than comes");
        assert_eq!(pages.take(5), None);
    }

    /// Promise: when a transfer ends, no further request for it is sent.
    #[test]
    fn no_question_outlives_its_transfer() {
        let open = Arc::new(());
        let (held, (begun, begins)) = (Arc::downgrade(&open), channel());
        let begun = Mutex::new(begun);
        let ask = move |_: u32, _: u32| {
            let _open = Arc::clone(&open);
            begun.lock().unwrap().send(()).unwrap();
            Ok(PageReply::NotYet)
        };
        let mut pages = PagesAhead::new(Arc::new(ask));
        pages.ask_behind(0, 1000);
        begins.recv_timeout(Duration::from_secs(60)).unwrap();
        pages.forget();
        drop(pages);
        assert!(held.upgrade().is_none(), "a thread holds what it asks with");
    }
}
