//! The watch over a transfer of a soak, which a daemon may let wait without limit: for room, for a
//! site that is away, for the end of a hold, for a user who has paused it.
//!
//! Each attempt finds again what earlier ones have moved. So a figure that grows is progress only
//! beyond its greatest value, or where it counts bytes that came in the attempt itself.

use std::mem;
use std::time::Duration;

use penstock_api::rest::TransferView;
use penstock_api::transfer::TransferState;

use crate::output::duration;
use crate::progress_mark::ProgressMark;

/// Time without progress after which a wait is reported.
const REPORTED_AFTER: Duration = Duration::from_secs(5);

/// Factor by which work that no figure shows may take longer than other work.
pub(crate) const HIDDEN_WORK: u32 = 10;

/// A change that is reported to the user.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum News {
    /// The transfer waits, for this reason.
    Waits(String),
    /// The transfer moves again, after this time without progress.
    Moves(Duration),
}

/// The watch over one transfer.
pub(crate) struct WaitWatch {
    /// Longest time without progress.
    most: Duration,
    /// Time without progress so far.
    quiet: Duration,
    /// Longest time in which the transfer runs without progress, if another limit holds for it.
    hidden_most: Option<Duration>,
    /// Such time so far.
    hidden: Duration,
    mark: ProgressMark,
    /// The last attempt, and the bytes that came in it.
    come: (u32, u64),
    is_running: bool,
    /// The reason of the present wait.
    reason: String,
    /// The kinds of the waits that were reported since the last progress.
    reported: Vec<String>,
}

impl WaitWatch {
    /// Returns a watch that begins now; `most` is the longest time without progress.
    pub(crate) fn new(most: Duration) -> Self {
        Self {
            most,
            quiet: Duration::ZERO,
            hidden_most: None,
            hidden: Duration::ZERO,
            mark: ProgressMark::default(),
            come: (0, 0),
            is_running: false,
            reason: String::new(),
            reported: Vec::new(),
        }
    }

    /// Sets another limit for the time in which the transfer runs: a comparison by digests and the
    /// search for entries to delete show no figures.
    #[must_use]
    pub(crate) fn with_hidden_work(self, most: Duration) -> Self {
        Self { hidden_most: Some(most), ..self }
    }

    /// Takes a view of the transfer; returns the change to report.
    pub(crate) fn see(&mut self, view: &TransferView) -> Option<News> {
        self.is_running = view.state == TransferState::Running;
        let (kind, reason) = wait_of(view);
        self.reason = reason;
        if self.has_moved(view) || view.state.is_ended() {
            let waited = mem::take(&mut self.quiet) + mem::take(&mut self.hidden);
            let was_reported = !mem::take(&mut self.reported).is_empty();
            let moves = !view.state.is_ended() || view.state == TransferState::Done;
            return (was_reported && moves).then_some(News::Moves(waited));
        }
        let is_long = self.quiet >= REPORTED_AFTER.min(self.most / 2) || self.hidden >= self.most;
        if !is_long || self.reported.contains(&kind) {
            return None;
        }
        self.reported.push(kind);
        Some(News::Waits(self.reason.clone()))
    }

    /// Counts time in which no fault was open.
    pub(crate) fn pass(&mut self, time: Duration) {
        match self.is_running && self.hidden_most.is_some() {
            true => self.hidden += time,
            false => self.quiet += time,
        }
    }

    /// Returns the reason why the transfer stalls, if it had no progress for too long.
    pub(crate) fn stall(&self) -> Option<String> {
        let hidden = self.hidden_most.filter(|most| self.hidden >= *most);
        let most = (self.quiet >= self.most).then_some(self.most).or(hidden)?;
        let most = duration::exact(most.as_secs());
        Some(format!("nothing has moved for {most}: {}", self.reason))
    }

    fn has_moved(&mut self, view: &TransferView) -> bool {
        let has_moved = self.mark.rises(&view.progress);
        // Between attempts the figures may be those of any earlier one.
        if !self.is_running {
            return has_moved;
        }
        let come = view.progress.bytes_verified.saturating_sub(view.progress.bytes_resent);
        let before = if self.come.0 == view.attempt { self.come.1 } else { 0 };
        self.come = (view.attempt, come.max(before));
        has_moved || come > before
    }
}

/// Returns the kind of a wait, and the reason in words.
fn wait_of(view: &TransferView) -> (String, String) {
    let (kind, text) = match &view.waiting {
        Some(waiting) => {
            let on = waiting.on.as_ref().map_or("", |on| on.name.as_str());
            let text = format!("the transfer waits for {}", waiting.text);
            (format!("{} {on}", waiting.code), text)
        }
        None => {
            let state = view.state.as_str();
            (state.to_owned(), format!("the transfer is {state} and makes no progress"))
        }
    };
    match view.reason.as_str() {
        "" => (kind, text),
        reason => (kind, format!("{text}: {reason}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_api::limits::Limits;
    use penstock_api::transfer::{Progress, TransferOptions};
    use serde_json::{Value, json};

    fn view(state: &str, attempt: u32, waiting: Value, progress: Progress) -> TransferView {
        let view = json!({
            "id": "00112233445566778899aabbccddeeff", "source": "a:mem/", "target": "b:data/",
            "direction": "in", "state": state, "created_at": "2026-11-26T20:00:00Z",
            "limits": Limits::default(), "attempt": attempt,
            "options": TransferOptions::default(), "files_from_count": 0, "progress": progress,
            "failures": { "count": 0 }, "waiting": waiting,
        });
        serde_json::from_value(view).unwrap()
    }

    fn held(progress: Progress) -> TransferView {
        let since = "2026-11-26T20:00:00Z";
        let waiting = json!({ "code": "pause-rule", "since": since, "text": "the end of a hold" });
        view("queued", 2, waiting, progress)
    }

    fn progress(resumed: u64, verified: u64) -> Progress {
        Progress {
            bytes_found: 100,
            bytes_resumed: resumed,
            bytes_verified: verified,
            ..Default::default()
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Promise: a wait is reported once with its reason, and so is its end; a wait for another
    /// reason is reported as well, and a short wait is not.
    #[test]
    fn a_wait_is_reported_once() {
        let mut watch = WaitWatch::new(seconds(900));
        assert_eq!(watch.see(&held(progress(0, 40))), None);
        watch.pass(seconds(4));
        assert_eq!(watch.see(&held(progress(0, 40))), None);
        watch.pass(seconds(4));
        let news = watch.see(&held(progress(0, 40)));
        let text = "the transfer waits for the end of a hold";
        assert_eq!(news, Some(News::Waits(text.to_owned())));
        assert_eq!(watch.see(&held(progress(0, 40))), None);
        let news = watch.see(&view("running", 3, Value::Null, progress(40, 0)));
        assert!(matches!(news, Some(News::Waits(text)) if text.contains("is running")));
        let news = watch.see(&view("running", 3, Value::Null, progress(40, 1)));
        assert_eq!(news, Some(News::Moves(seconds(8))));
        assert_eq!(watch.see(&view("running", 3, Value::Null, progress(40, 2))), None);
    }

    /// Promise: an attempt that only finds again what earlier ones have moved is no progress, bytes
    /// that come again after a loss are; a transfer that has ended does not stall.
    #[test]
    fn new_bytes_alone_are_progress() {
        let mut watch = WaitWatch::new(seconds(60));
        watch.see(&view("running", 1, Value::Null, progress(0, 40)));
        watch.pass(seconds(50));
        for resumed in [0, 20, 40] {
            watch.see(&view("running", 2, Value::Null, progress(resumed, 0)));
        }
        watch.see(&held(progress(0, 40)));
        assert_eq!(watch.stall(), None);
        watch.pass(seconds(10));
        let stall = watch.stall().unwrap();
        let text = "nothing has moved for 1:00 min: the transfer waits for the end of a hold";
        assert_eq!(stall, text);
        watch.see(&view("running", 3, Value::Null, progress(10, 5)));
        assert_eq!(watch.stall(), None);
        watch.pass(seconds(60));
        watch.see(&view("failed", 3, Value::Null, progress(10, 5)));
        assert_eq!(watch.stall(), None);
    }

    /// Promise: work that no figure shows has a limit of its own, beside that of a wait.
    #[test]
    fn hidden_work_may_take_longer() {
        let watch = || WaitWatch::new(seconds(60)).with_hidden_work(seconds(600));
        let running = || view("running", 1, Value::Null, progress(0, 40));
        let mut waits = watch();
        waits.see(&running());
        waits.pass(seconds(599));
        waits.see(&held(progress(0, 40)));
        waits.pass(seconds(59));
        assert_eq!(waits.stall(), None);
        waits.pass(seconds(1));
        assert!(waits.stall().unwrap().contains("for 1:00 min"));
        let mut works = watch();
        works.see(&running());
        works.pass(seconds(600));
        assert!(works.stall().unwrap().contains("for 10:00 min"));
    }
}
