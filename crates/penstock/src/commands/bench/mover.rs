//! Transfers of a benchmark: submitted, followed through a restart of the daemon, cancelled. A
//! transfer that makes no progress for too long is cancelled with its reason.

mod outage;
mod stall;

use std::mem;
use std::thread;
use std::time::{Duration, Instant};

use penstock_api::endpoints::{FOLLOW_TRANSFER, SHOW_TRANSFER, SUBMIT_TRANSFER};
use penstock_api::place::Location;
use penstock_api::rest::{
    Action, Event, SubmitRequest, TransferEvent, TransferQuery, TransferSummary, TransferView,
};
use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::{TransferOptions, TransferRequest, TransferState};
use penstock_exit::{self as exit, ExitCode, Failure, exit_code};
use penstock_proto::id::TransferId;
use penstock_sys::wall_clock_now;
use serde::{Deserialize, Serialize};

use super::interruption::{Interruption, interrupted};
use crate::client::{Client, Next};
use outage::Outage;
pub(crate) use outage::patiently;
use stall::{Stall, Standing};

/// Interval at which the end of a transfer that was cancelled is looked for.
const LOOK: Duration = Duration::from_millis(300);
/// Longest wait for the end of a transfer that was cancelled.
const CANCEL_TIME: Duration = Duration::from_secs(60);
/// Most characters of a label.
const LABEL_MAX: usize = 200;
/// Attempts in a row that fail and move nothing, after which a transfer has failed.
const ATTEMPTS_MAX: u32 = 10;

/// Runs transfers one after the other.
pub(crate) struct Mover<'a> {
    pub(crate) client: &'a Client,
    pub(crate) interruption: &'a Interruption,
    /// Begin of the labels of its transfers, by which those that it has left are found.
    pub(crate) label: String,
    /// Time without progress after which a transfer is cancelled.
    pub(crate) stall: Duration,
}

/// Moments of a transfer, in seconds since its submission.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Times {
    pub(crate) submitted: Option<Timestamp>,
    pub(crate) accepted: Option<f64>,
    pub(crate) first_byte: Option<f64>,
    pub(crate) first_done: Option<f64>,
    pub(crate) last_byte: Option<f64>,
    pub(crate) durable: Option<f64>,
    pub(crate) done: Option<f64>,
}

/// A transfer that has ended, in whatever state.
pub(crate) struct Moved {
    pub(crate) view: TransferView,
    pub(crate) times: Times,
    /// The wait for which it was cancelled, in words, if it was.
    stalled: Option<String>,
}

impl Moved {
    /// Returns the error of a transfer that is not done.
    pub(crate) fn error(&self) -> Option<anyhow::Error> {
        let view = &self.view;
        (view.state != TransferState::Done).then(|| {
            let (short, state) = (view.id.short(), view.state.as_str());
            let (code, why) = match &self.stalled {
                Some(stalled) => (ExitCode::Temporary, stalled),
                None => (view.exit.map_or(ExitCode::Unclassified, exit_code), &view.reason),
            };
            let failure = Failure::new(code, format!("transfer {short} {state}: {why}"));
            let failure = match view.failures.first.first() {
                Some(item) => failure.caused_by(format!("{}: {}", item.path, item.message)),
                None => failure,
            };
            failure.hint(format!("`penstock transfer explain {short}` says more")).into()
        })
    }
}

/// The moments of a transfer as its events show them.
struct Watch {
    since: Instant,
    times: Times,
    heard: Instant,
    summary: Option<TransferEvent>,
    stall: Stall,
    /// The reason of a wait that has lasted for too long.
    stalled: Option<String>,
}

impl Watch {
    /// Returns the watch over a transfer that begins now, and may make no progress for `stall`.
    fn new(stall: Duration) -> Self {
        let since = Instant::now();
        let times = Times { submitted: Some(now()), ..Times::default() };
        let (summary, stalled) = (None, None);
        Self { since, times, heard: since, summary, stall: Stall::new(stall), stalled }
    }

    fn is_over(&self) -> bool {
        self.summary.is_some() || self.stalled.is_some()
    }

    fn see(&mut self, event: &Event) {
        let gap = mem::replace(&mut self.heard, Instant::now()).elapsed();
        if let Event::Status(status) = event {
            self.see_progress(status, gap);
        }
        let seconds = self.since.elapsed().as_secs_f64();
        let (event, is_end) = match event {
            Event::Status(event) => (event, false),
            Event::Summary(event) => (event, true),
            Event::Error(_) | Event::Reset => return,
        };
        let progress = &event.progress;
        // What is known only at the end was not seen.
        if progress.bytes_verified > 0 && !is_end {
            self.times.first_byte.get_or_insert(seconds);
        }
        if progress.scan_complete && progress.bytes_durable >= progress.bytes_found {
            self.times.durable.get_or_insert(seconds);
        }
        if is_end {
            self.times.done = Some(seconds);
            self.summary = Some(event.clone());
        }
    }

    fn see_progress(&mut self, status: &TransferEvent, gap: Duration) {
        match self.stall.handle_status(status, gap) {
            Standing::Usual => {}
            Standing::Waits(why) => {
                exit::warn(&format!("transfer {} makes no progress: {why}", status.id.short()));
            }
            Standing::Stalled(why) => self.stalled = Some(why),
        }
    }
}

impl Mover<'_> {
    /// Runs a transfer until it ends. A transfer that was interrupted, or makes no progress for
    /// the time of the mover, is cancelled.
    ///
    /// # Errors
    /// [`Refused`] if the request was; exit 130 if a signal came; the daemon gives no answer for
    /// ten minutes; a transfer that was cancelled does not end.
    pub(crate) fn run(
        &self,
        what: &str,
        source: Location,
        target: Location,
        options: TransferOptions,
    ) -> anyhow::Result<Moved> {
        let id = TransferId(rand::random());
        let request = TransferRequest {
            label: format!("{} {what}", self.label).chars().take(LABEL_MAX).collect(),
            attempts_max: Some(ATTEMPTS_MAX),
            ..TransferRequest::new(id, source, target, options)
        };
        let mut watch = Watch::new(self.stall);
        self.submit(request)?;
        watch.heard = Instant::now();
        watch.times.accepted = Some(watch.since.elapsed().as_secs_f64());
        if let Err(error) = self.follow(id, &mut watch) {
            if exit::code_of(&error) == ExitCode::Interrupted {
                self.cancel(id, "was interrupted")?;
                return Err(interrupted());
            }
            return Err(error);
        }
        let wait = |why| format!("no progress for {} s: {why}", self.stall.as_secs());
        let stalled = watch.stalled.map(wait);
        if let Some(wait) = &stalled {
            self.cancel(id, &format!("has made {wait}"))?;
        }
        let view: TransferView =
            self.ask_patiently(|client| client.get(&SHOW_TRANSFER.uri(&[&id])))?;
        let stalled = stalled.filter(|_| view.state == TransferState::Cancelled);
        Ok(Moved { view, times: watch.times, stalled })
    }

    fn submit(&self, request: TransferRequest) -> anyhow::Result<()> {
        let body = SubmitRequest::from(request);
        let submitted: anyhow::Result<TransferView> =
            self.ask_patiently(|client| client.post(&SUBMIT_TRANSFER.uri(&[]), &body));
        submitted.map(drop).map_err(|error| match exit::code_of(&error) {
            ExitCode::Interrupted | ExitCode::Temporary => error,
            _ => anyhow::Error::new(Refused(error)),
        })
    }

    /// Follows a transfer until it ends, or stalls.
    fn follow(&self, id: TransferId, watch: &mut Watch) -> anyhow::Result<()> {
        let mut outage = Outage::since(watch.heard);
        loop {
            self.interruption.check()?;
            let before = watch.heard;
            let followed = self.client.follow(&FOLLOW_TRANSFER.uri(&[&id]), |event| {
                watch.see(event);
                let is_over = watch.is_over() || self.interruption.is_asked();
                Ok(if is_over { Next::Enough } else { Next::More })
            });
            if watch.is_over() {
                return Ok(());
            }
            if watch.heard > before {
                outage = Outage::since(watch.heard);
            }
            let error = followed.err().unwrap_or_else(|| {
                Failure::new(ExitCode::Temporary, "the events of the transfer broke off").into()
            });
            thread::sleep(outage.handle(error)?);
        }
    }

    /// Asks until the daemon answers, for ten minutes at most.
    ///
    /// # Errors
    /// What the daemon answers; exit 130.
    pub(crate) fn ask_patiently<T>(
        &self,
        ask: impl Fn(&Client) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        patiently(|time| self.interruption.sleep(time), || ask(self.client))
    }

    /// Cancels a transfer, and waits for its end; `why` follows its name in the error.
    ///
    /// # Errors
    /// It does not end within a minute.
    fn cancel(&self, id: TransferId, why: &str) -> anyhow::Result<()> {
        let begun = Instant::now();
        let cancel = Action::Cancel.endpoint().uri(&[&id]);
        let mut refused = self.client.post_bytes(&cancel, Vec::new()).err();
        while begun.elapsed() < CANCEL_TIME {
            match self.client.get::<TransferView>(&SHOW_TRANSFER.uri(&[&id])) {
                Ok(view) if view.state.is_ended() => return Ok(()),
                Ok(_) if refused.is_some() => {
                    refused = self.client.post_bytes(&cancel, Vec::new()).err();
                }
                _ => {}
            }
            thread::sleep(LOOK);
        }
        let (short, seconds) = (id.short(), CANCEL_TIME.as_secs());
        let message = format!("transfer {short} {why}; it did not end in {seconds} s");
        let failure = Failure::new(ExitCode::Temporary, message)
            .hint(format!("`penstock transfer cancel {short}` cancels it"));
        Err(match refused {
            Some(error) => failure.caused_by(error).into(),
            None => failure.into(),
        })
    }

    /// Cancels the transfers that an earlier process of this sweep has left behind.
    ///
    /// # Errors
    /// As [`Mover::run`]; one of them does not end.
    pub(crate) fn cancel_abandoned(&self) -> anyhow::Result<()> {
        let query = TransferQuery {
            state: "queued,running,paused".to_owned(),
            label: self.label.clone(),
            ..TransferQuery::default()
        };
        let left: Vec<TransferSummary> = self.ask_patiently(|client| client.list(&query.uri()))?;
        for transfer in left {
            exit::warn(&format!(
                "transfer {} of an earlier process is cancelled",
                transfer.id.short()
            ));
            self.cancel(transfer.id, "of an earlier process was cancelled")?;
        }
        if self.interruption.is_asked() { Err(interrupted()) } else { Ok(()) }
    }
}

/// The daemon has refused a transfer.
#[derive(Debug, thiserror::Error)]
#[error("the transfer was refused: {}", exit::chain(.0.as_ref()))]
pub(crate) struct Refused(pub(crate) anyhow::Error);

/// Returns the time by the clock of this host.
pub(crate) fn now() -> Timestamp {
    let now = wall_clock_now();
    let seconds = u64::try_from(now.seconds).unwrap_or_default();
    Timestamp::of_ms(seconds * 1000 + u64::from(now.nanoseconds) / 1_000_000)
}

#[cfg(test)]
mod tests {
    use penstock_api::transfer::Progress;

    use super::*;

    fn event(progress: Progress, state: TransferState) -> Event {
        let event = TransferEvent {
            v: 1,
            id: TransferId([1; 16]),
            state,
            reason: String::new(),
            progress,
            durable_by: String::new(),
            exit: None,
            failures: Vec::new(),
        };
        if state.is_ended() { Event::Summary(event) } else { Event::Status(event) }
    }

    /// Promise: a moment is the first at which it was seen; what only the end shows has no first
    /// byte.
    #[test]
    fn moments_are_the_first() {
        let watch = || Watch { times: Times::default(), ..Watch::new(Duration::from_secs(60)) };
        let part = Progress { bytes_verified: 5, bytes_found: 9, ..Progress::default() };
        let all = Progress { scan_complete: true, bytes_durable: 9, ..part.clone() };
        let mut long = watch();
        long.see(&event(Progress::default(), TransferState::Queued));
        assert_eq!(long.times, Times::default());
        long.see(&event(part, TransferState::Running));
        let first = long.times.first_byte.unwrap();
        long.see(&event(all.clone(), TransferState::Running));
        assert!(long.times.durable.is_some() && long.times.done.is_none());
        long.see(&Event::Reset);
        long.see(&event(all.clone(), TransferState::Done));
        assert_eq!(long.times.first_byte, Some(first));
        assert!(long.times.done >= long.times.durable && long.summary.is_some());
        let mut short = watch();
        short.see(&event(all, TransferState::Done));
        assert_eq!((short.times.first_byte, short.times.durable), (None, short.times.done));
    }
}
