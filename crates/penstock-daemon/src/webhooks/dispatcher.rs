//! Delivery: the ends of transfers, the receivers of each, and the times of delivery.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use penstock_api::problem::Problem;
use penstock_api::rest::Event;
use penstock_api::transfer::TransferReport;
use penstock_api::webhook::{DeliveryResult, Webhook};
use penstock_cluster::state::{ListOrder, Listed, SiteState, StateError, Stub};
use penstock_controller::manager::{EventReader, NextEvent};
use penstock_proto::id::{Name, TransferId};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::message::{Message, ended_ms};
use super::outbox::{AfterFailure, Outbox};
use super::receiver::Attempt;
use super::registry::{Backlog, Webhooks};
use crate::events::log::now_ms;

/// The interval at which changed marks of deliveries are stored: etcd has a budget.
const MARKS_EVERY: Duration = Duration::from_secs(30);
/// Time before a mark whose ends another controller delivers again: the clocks of two hosts differ,
/// and ends are not stored in the order of their times.
const OVERLAP_MS: u64 = 10_000;
/// Transfers that are read at a time.
const PAGE: usize = 200;
/// Delay before the state is read again after a failure.
const STATE_RETRY: Duration = Duration::from_secs(5);

/// A receiver, and its waiting messages.
struct Receiver {
    hook: Webhook,
    outbox: Outbox<Message>,
    error: Option<String>,
}

/// The way in which the dispatcher learned of an end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    /// The manager has just reported the end.
    Now,
    /// The end is among those that were stored; ends before a mark are delivered already.
    SinceMark,
    /// The end is a stored one of a transfer that another site owns, whose clock gives the time.
    OfOtherSite,
}

/// An attempt that has ended.
struct Ended {
    name: Name,
    message: Message,
    number: u32,
    attempt: Attempt,
}

/// Delivers to all receivers while this peer is the controller.
pub(crate) struct Dispatcher {
    webhooks: Arc<Webhooks>,
    state: Arc<dyn SiteState>,
    receivers: BTreeMap<Name, Receiver>,
    attempts: JoinSet<Ended>,
    /// Set when marks have changed since they were stored.
    are_marks_new: bool,
}

impl Dispatcher {
    /// Delivers the ends of transfers, until the manager of these events ends.
    pub(crate) fn start(webhooks: Arc<Webhooks>, state: Arc<dyn SiteState>, events: EventReader) {
        let (receivers, attempts) = (BTreeMap::new(), JoinSet::new());
        let dispatcher = Self { webhooks, state, receivers, attempts, are_marks_new: false };
        tokio::spawn(dispatcher.run(events));
    }

    async fn run(mut self, mut events: EventReader) {
        let mut marks = tokio::time::interval(MARKS_EVERY);
        marks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // Events since `events` was made are read after this: none is between the two.
        let mut is_behind = true;
        let mut retry = Instant::now();
        loop {
            self.start_due();
            self.show();
            let due = self.next_due();
            tokio::select! {
                () = tokio::time::sleep_until(retry), if is_behind => {
                    is_behind = self.catch_up().await.is_err();
                    retry = Instant::now() + STATE_RETRY;
                }
                event = events.next() => match event {
                    None => break,
                    Some(NextEvent::Missed) => (is_behind, retry) = (true, Instant::now()),
                    // The records that are read again have this end too.
                    Some(NextEvent::Event(..)) if is_behind => {}
                    Some(NextEvent::Event(_, told)) => {
                        if let Event::Summary(ended) = &told.event {
                            is_behind = self.tell(ended.id).await.is_err();
                        }
                    }
                },
                () = self.webhooks.changed() => {
                    (is_behind, retry) = (true, Instant::now());
                }
                Some(ended) = self.attempts.join_next() => {
                    if let Ok(ended) = ended {
                        self.finish(ended);
                    }
                }
                () = wait_until(due) => {}
                _ = marks.tick(), if !is_behind => self.store_marks().await,
            }
        }
        // Marks do not cover records that are not read.
        if !is_behind {
            self.store_marks().await;
        }
    }

    /// Reads the webhooks, and adds messages about all that has ended since their marks.
    async fn catch_up(&mut self) -> Result<(), Problem> {
        let (webhooks, state) = (Arc::clone(&self.webhooks), Arc::clone(&self.state));
        let hooks = reading(move || webhooks.receivers(&*state)).await?;
        self.receivers.retain(|name, _| hooks.iter().any(|hook| hook.name == *name));
        for hook in hooks {
            let (mut outbox, mut error) = (Outbox::new(hook.delivered_ms), None);
            if let Some(known) = self.receivers.remove(&hook.name) {
                (outbox, error) = (known.outbox, known.error);
                if known.hook.settings != hook.settings {
                    // Messages that wait are made again by the other settings, or not at all.
                    outbox.clear();
                    error = None;
                }
            }
            self.receivers.insert(hook.name.clone(), Receiver { hook, outbox, error });
        }
        let marks = self.receivers.values().map(|receiver| receiver.hook.delivered_ms);
        let Some(mark) = marks.min() else { return Ok(()) };
        let mut after = None;
        loop {
            let state = Arc::clone(&self.state);
            let page = reading(move || state.overview(ListOrder::NewestFirst, after, PAGE)).await?;
            after = page.last().map(Listed::key);
            for listed in &page {
                let (view, news) = match listed {
                    Listed::Own(record) => (record.brief(), News::SinceMark),
                    Listed::Stub(stub) => (of_stub(stub), News::OfOtherSite),
                };
                if ended_ms(&view).saturating_add(OVERLAP_MS) > mark {
                    self.add(&view, news);
                }
            }
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }

    /// Adds the messages about a transfer that has ended.
    async fn tell(&mut self, id: TransferId) -> Result<(), Problem> {
        if self.receivers.is_empty() {
            return Ok(());
        }
        let state = Arc::clone(&self.state);
        let found = reading(move || {
            let own = state.transfer(id)?.map(|record| record.brief());
            Ok(if own.is_some() { own } else { state.stub(id)?.as_ref().map(of_stub) })
        });
        if let Some(view) = found.await? {
            self.add(&view, News::Now);
        }
        Ok(())
    }

    fn add(&mut self, view: &TransferReport, news: News) {
        // The clock of another site, which owns the transfer, may be ahead: no mark follows it.
        let (now, at) = (Instant::now(), ended_ms(view).min(now_ms()));
        for (name, receiver) in &mut self.receivers {
            let is_told = at.saturating_add(OVERLAP_MS) <= receiver.hook.delivered_ms;
            // By the site's own clock the overlap does not reach back before its creation.
            let is_earlier = at < receiver.hook.created.saturating_mul(1000);
            let is_old = match news {
                News::Now => false,
                News::SinceMark => is_told || is_earlier,
                News::OfOtherSite => is_told,
            };
            if is_old {
                continue;
            }
            self.are_marks_new = true;
            let Some(message) = Message::of(self.webhooks.site_name(), &receiver.hook, view) else {
                receiver.outbox.pass(at);
                continue;
            };
            let gone = receiver.outbox.add(message.id.clone(), message, at, now);
            if let Some(id) = gone {
                self.webhooks.tell_given_up(name, &id, "too many messages wait");
            }
        }
    }

    /// Starts the attempts that are due.
    fn start_due(&mut self) {
        let now = Instant::now();
        for (name, receiver) in &mut self.receivers {
            while let Some((_, message, number)) = receiver.outbox.take_due(now) {
                let webhooks = Arc::clone(&self.webhooks);
                let (name, hook) = (name.clone(), receiver.hook.clone());
                self.attempts.spawn(async move {
                    let attempt = webhooks.sender().attempt(&hook, &message).await;
                    Ended { name, message, number, attempt }
                });
            }
        }
    }

    fn finish(&mut self, ended: Ended) {
        let Ended { name, message, number, attempt } = ended;
        let now = Instant::now();
        // A webhook that was removed, or got other settings meanwhile, does not wait for this
        // result.
        let Some(receiver) = self.receivers.get_mut(&name) else { return };
        if !receiver.outbox.has(&message.id) {
            return;
        }
        let result = if attempt.is_delivered() {
            receiver.outbox.delivered(&message.id, now);
            receiver.error = None;
            DeliveryResult::Delivered
        } else {
            receiver.error = Some(attempt.error.clone());
            match receiver.outbox.failed(&message.id, now, attempt.retry_after) {
                AfterFailure::Retry => DeliveryResult::Failed,
                AfterFailure::GivenUp => DeliveryResult::GivenUp,
            }
        };
        self.are_marks_new = true;
        if result == DeliveryResult::GivenUp {
            self.webhooks.tell_given_up(&name, &message.id, &attempt.error);
        }
        self.webhooks.record(&name, &message, number, (&attempt, result));
    }

    fn next_due(&self) -> Option<Instant> {
        self.receivers.values().filter_map(|receiver| receiver.outbox.next_due()).min()
    }

    fn show(&self) {
        let backlog = self.receivers.iter().map(|(name, receiver)| {
            let pending = receiver.outbox.len() as u64;
            (name.clone(), Backlog { pending, error: receiver.error.clone() })
        });
        self.webhooks.show_backlog(backlog.collect());
    }

    async fn store_marks(&mut self) {
        if !std::mem::take(&mut self.are_marks_new) {
            return;
        }
        let marks = self.receivers.iter();
        let marks: BTreeMap<_, _> =
            marks.map(|(name, receiver)| (name.clone(), receiver.outbox.delivered_ms())).collect();
        let (webhooks, state) = (Arc::clone(&self.webhooks), Arc::clone(&self.state));
        let stored = reading(move || webhooks.store_marks(&*state, &marks)).await;
        if let Err(problem) = stored {
            self.are_marks_new = true;
            tracing::info!(%problem, "marks of webhooks are not stored");
            return;
        }
        for receiver in self.receivers.values_mut() {
            let mark = receiver.outbox.delivered_ms();
            receiver.outbox.forget_before(mark.saturating_sub(OVERLAP_MS));
        }
    }
}

/// Waits until a time, or for ever.
async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Runs a read or write of the state on a thread that may block.
async fn reading<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StateError> + Send + 'static,
) -> Result<T, Problem> {
    let work = move || work().map_err(Problem::from);
    crate::http::reply::blocking(work).await.map_err(|reply| reply.0)
}

/// Returns a transfer that another site owns, as one of its user here.
fn of_stub(stub: &Stub) -> TransferReport {
    TransferReport { owner: stub.user.clone(), ..stub.view.clone() }
}
