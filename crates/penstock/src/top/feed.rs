//! Questions to the daemon and the stream of its events, by threads of their own.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use penstock_api::endpoints::{
    FOLLOW_TRANSFERS, GET_METRICS, LIST_EVENTS, SHOW_HEALTH, SHOW_QUEUE, SHOW_TRANSFER,
};
use penstock_api::rest::{Action, LIST_MAX, Page, TransferQuery, TransferSummary, TransferView};
use penstock_exit::{self as exit, ExitCode, Failure};
use penstock_proto::id::TransferId;

use super::looks::Subject;
use super::update::{Answer, Message, Refusal, Stream};
use crate::client::{Client, Next, Told};

/// Silence after which a daemon is lost. A daemon sends a comment every 15 s at least.
const SILENCE: Duration = Duration::from_secs(20);
/// Waits before the stream is opened again: after the first failure, and after the following ones.
const RETRIES: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
];
/// Transfers of a list of those that wait, or have ended.
const SHORT_LIST: usize = 100;
/// Events of a transfer that are asked for.
const EVENTS: usize = 50;
/// Name of the family with the bytes that a peer has moved between sites.
const BYTES_FAMILY: &str = "penstock_bytes_total{";

/// A question, and the transfer that is open.
type Question = (Subject, Option<TransferId>);

/// The threads. Each ends with the program.
pub(super) struct Feed {
    /// Questions about transfers, and about the site: a slow answer about one does not hold up the
    /// other.
    questions: [Sender<Question>; 2],
    actions: Sender<(TransferId, Action)>,
}

impl Feed {
    /// Starts the threads, which send to `to` from now on.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(client: &Client, to: &Sender<Message>) -> anyhow::Result<Self> {
        let (transfers, asked) = mpsc::channel();
        start("transfers", client, to, move |client, to| answer_all(client, &asked, to))?;
        let (site, asked) = mpsc::channel();
        start("site", client, to, move |client, to| answer_all(client, &asked, to))?;
        let (actions, wanted) = mpsc::channel();
        start("actions", client, to, move |client, to| act_all(client, &wanted, to))?;
        start("events", client, to, follow)?;
        Ok(Self { questions: [transfers, site], actions })
    }

    /// Asks; the answer comes as a message.
    pub(super) fn ask(&self, subject: Subject, open: Option<TransferId>) {
        let thread = usize::from(matches!(subject, Subject::Health | Subject::Sent));
        // A thread that has ended has said so.
        let _ = self.questions[thread].send((subject, open));
    }

    /// Acts on a transfer; the result comes as a message.
    pub(super) fn act(&self, id: TransferId, action: Action) {
        let _ = self.actions.send((id, action));
    }
}

/// Reports the end of a thread, by a panic too.
struct LastWord(Sender<Message>);

impl Drop for LastWord {
    fn drop(&mut self) {
        // Nothing is broken once the program has what it wants.
        let _ = self.0.send(Message::Broken);
    }
}

fn start(
    name: &str,
    client: &Client,
    to: &Sender<Message>,
    run: impl FnOnce(&Client, &Sender<Message>) + Send + 'static,
) -> anyhow::Result<()> {
    let (client, to) = (client.another()?, to.clone());
    let started = thread::Builder::new().name(name.to_owned()).spawn(move || {
        let last_word = LastWord(to);
        run(&client, &last_word.0);
    });
    started.map_err(Failure::no_thread)?;
    Ok(())
}

fn answer_all(client: &Client, asked: &Receiver<Question>, to: &Sender<Message>) {
    for (subject, open) in asked {
        if to.send(answer_of(client, subject, open)).is_err() {
            return;
        }
    }
}

/// Returns the answer to a question. Blocks for as long as the daemon takes.
pub(super) fn answer_of(client: &Client, subject: Subject, open: Option<TransferId>) -> Message {
    let asked_at = Instant::now();
    let result = look(client, subject, open).map_err(|error| Refusal {
        why: exit::chain(error.as_ref()),
        is_forbidden: exit::code_of(&error) == ExitCode::NotAuthorised,
    });
    Message::Answer { subject, asked_at, result }
}

fn look(client: &Client, subject: Subject, open: Option<TransferId>) -> anyhow::Result<Answer> {
    let list = |state: &str, attention: bool, limit: usize| {
        let state = state.to_owned();
        let query =
            TransferQuery { state, attention, limit: Some(limit), ..TransferQuery::default() };
        let page: Page<TransferSummary> = client.get(&query.uri())?;
        let is_complete = page.next.is_none();
        anyhow::Ok(Answer::Transfers { list: page.items, is_complete })
    };
    Ok(match subject {
        Subject::Running => list("running", false, LIST_MAX)?,
        Subject::Waiting => list("queued,paused", false, SHORT_LIST)?,
        Subject::Attention => list("", true, SHORT_LIST)?,
        Subject::Ended => list("done,failed,cancelled", false, SHORT_LIST)?,
        Subject::Queue => Answer::Queue(client.get(&SHOW_QUEUE.uri(&[]))?),
        Subject::Health => Answer::Health(client.get(&SHOW_HEALTH.uri(&[]))?),
        Subject::Sent => {
            let mut text = Vec::new();
            client.get_into(&GET_METRICS.uri(&[]), &mut text)?;
            Answer::Sent(bytes_sent(&String::from_utf8_lossy(&text)))
        }
        Subject::Detail => {
            let id = open.ok_or_else(|| Failure::new(ExitCode::Usage, "no transfer is open"))?;
            let view: Box<TransferView> = client.get(&SHOW_TRANSFER.uri(&[&id]))?;
            let events = LIST_EVENTS.uri(&[]).query("limit", EVENTS).query("transfer", id);
            Answer::Detail { view, events: client.list(&events)? }
        }
    })
}

/// Returns the bytes that a peer has sent to other sites, by its figures (Prometheus, text format
/// 0.0.4).
fn bytes_sent(figures: &str) -> u64 {
    let of_family = figures.lines().filter_map(|line| line.strip_prefix(BYTES_FAMILY));
    let sent = of_family.filter(|line| line.contains("direction=\"out\""));
    let value = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
    sent.filter_map(value).map(|bytes| bytes as u64).sum()
}

fn act_all(client: &Client, wanted: &Receiver<(TransferId, Action)>, to: &Sender<Message>) {
    for (id, action) in wanted {
        let result = client.post::<Box<TransferView>>(&action.endpoint().uri(&[&id]), &());
        let result = result.map_err(|error| exit::chain(error.as_ref()));
        if to.send(Message::Acted { id, action, result }).is_err() {
            return;
        }
    }
}

/// Follows the events of all transfers for ever, each time after the last one that has come.
fn follow(client: &Client, to: &Sender<Message>) {
    let (mut last_id, mut failures) = (None, 0);
    loop {
        let mut is_open = false;
        let uri = FOLLOW_TRANSFERS.uri(&[]);
        let after: Option<String> = last_id.clone();
        let followed = client.follow_after(&uri, after.as_deref(), SILENCE, |told| {
            let news = match told {
                Told::Open => {
                    is_open = true;
                    Stream::Open
                }
                Told::Event { event, id } => {
                    last_id = id.map(str::to_owned).or_else(|| last_id.take());
                    Stream::Event(Box::new(event.clone()))
                }
            };
            let is_over = to.send(Message::Stream(news)).is_err();
            Ok(if is_over { Next::Enough } else { Next::More })
        });
        failures = if is_open { 0 } else { failures + 1 };
        let why = match followed {
            Ok(()) => "the daemon has ended the stream of events".to_owned(),
            Err(error) => exit::chain(error.as_ref()),
        };
        let wait = RETRIES[failures.min(RETRIES.len() - 1)];
        let lost = Stream::Lost { why, retry_in_ms: wait.as_millis() as u64 };
        if to.send(Message::Stream(lost)).is_err() {
            return;
        }
        thread::sleep(wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: only what was sent counts, to all sites together.
    #[test]
    fn bytes_sent_are_read() {
        let figures = "# TYPE penstock_bytes_total counter\n\
            penstock_bytes_total{direction=\"in\",site=\"lab\"} 7\n\
            penstock_bytes_total{direction=\"out\",site=\"lab\"} 1e3\n\
            penstock_bytes_total{direction=\"out\",site=\"x y\"} 24\n\
            penstock_lanes{direction=\"out\",site=\"lab\",network=\"\"} 3\n";
        assert_eq!(bytes_sent(figures), 1024);
        assert_eq!(bytes_sent(""), 0);
    }
}
