//! Server-sent events: of one transfer until it ends, or of all.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName};
use axum::response::sse::{Event as Line, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{self, Stream};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::Event;
use penstock_api::transfer::{TransferReport, TransferState};
use penstock_controller::manager::{Caller, EventReader, Manager, NextEvent};
use penstock_proto::id::TransferId;
use tokio::time::Instant;

use super::state::{Leading, User};
use crate::http::reply::{ProblemReply, blocking};

/// Interval at which a transfer is polled when no event of it arrives.
const LOOK: Duration = Duration::from_secs(1);

/// Header with the id of the event that a client has received last (WHATWG HTML, 9.2.3).
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The event that reports a loss, as JSON.
const RESET: &str = r#"{"type":"reset"}"#;
/// Bytes of events after which a part of a stream is sent.
const PART_BYTES_MAX: usize = 16 << 10;
/// Longest silence of a stream.
const SILENCE_MAX: Duration = Duration::from_secs(15);

fn line(event: &Event) -> Line {
    // Our own types always have a JSON form; an empty line would be no event at all.
    Line::default().json_data(event).unwrap_or_default()
}

/// Streams the events of transfers that this site owns and the caller may see: from now on, or
/// after the one that `Last-Event-ID` names. If some are gone, an event of the type `reset` asks
/// the client to read the state again.
pub(super) async fn all(
    Leading(manager): Leading,
    User(caller): User,
    headers: HeaderMap,
) -> Result<Response, ProblemReply> {
    let events = match headers.get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or_default()) {
        None => manager.events(),
        Some(text) => match text.parse() {
            Ok(after) => manager.events_after(after),
            Err(why) => return Err(ProblemReply(Problem::new(ProblemCode::Query, why))),
        },
    };
    let stream = stream::unfold(Listener { caller, events }, async |mut listener| {
        let part = listener.next_part().await?;
        Some((Ok::<_, Infallible>(part), listener))
    });
    let head = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")];
    Ok((head, Body::from_stream(stream)).into_response())
}

/// A reader of the events of all transfers.
struct Listener {
    caller: Caller,
    events: EventReader,
}

impl Listener {
    /// Returns the next part of the stream: all present events for the caller, up to
    /// [`PART_BYTES_MAX`]. After [`SILENCE_MAX`] without any, returns a comment, so that no proxy
    /// takes the connection for a dead one. `None` at the end.
    async fn next_part(&mut self) -> Option<Bytes> {
        let mut part = String::new();
        let silent = tokio::time::sleep(SILENCE_MAX);
        tokio::pin!(silent);
        while part.is_empty() {
            tokio::select! {
                next = self.events.next() => self.write(&mut part, next?),
                () = &mut silent => part.push_str(":\n\n"),
            }
            while part.len() < PART_BYTES_MAX
                && let Some(next) = self.events.try_next()
            {
                self.write(&mut part, next);
            }
        }
        Some(Bytes::from(part))
    }

    /// Writes an event as a client reads it (WHATWG HTML, 9.2.6), if the caller may see it.
    fn write(&self, part: &mut String, next: NextEvent) {
        // Writing to a string never fails.
        let _ = match next {
            NextEvent::Missed => write!(part, "data: {RESET}\n\n"),
            NextEvent::Event(id, told) if self.caller.may_see_of(told.owner.as_ref()) => {
                write!(part, "data: {}\nid: {id}\n\n", told.json())
            }
            NextEvent::Event(..) => Ok(()),
        };
    }
}

struct Follow {
    manager: Arc<Manager>,
    id: TransferId,
    caller: Caller,
    events: EventReader,
    /// The state that was sent last.
    seen: Option<TransferState>,
}

/// Streams one transfer: its status at once, then every second or on a change, its summary at last.
pub(super) async fn one(
    Leading(manager): Leading,
    User(caller): User,
    Path(id): Path<String>,
) -> Result<Sse<impl Stream<Item = Result<Line, Infallible>>>, ProblemReply> {
    let (events, resolver) = (manager.events(), Arc::clone(&manager));
    let sees = caller.clone();
    let id = blocking(move || {
        let id = resolver.resolve(&id, &sees)?;
        resolver.show(id, &sees).map(|_| id)
    });
    let follow = Follow { manager, id: id.await?, caller, events, seen: None };
    Ok(Sse::new(stream::unfold(follow, async |mut follow| {
        let event = follow.next().await?;
        Some((Ok(line(&event)), follow))
    })))
}

impl Follow {
    async fn next(&mut self) -> Option<Event> {
        if self.seen.is_some_and(TransferState::is_ended) {
            return None;
        }
        let (manager, id) = (Arc::clone(&self.manager), self.id);
        let mut told = None;
        if let Some(seen) = self.seen {
            told = self.foreign(seen).await;
            if told.is_none()
                && let Some(error) = self.wait().await
            {
                return Some(error);
            }
        }
        let view = match told {
            Some(view) => view,
            None => {
                let caller = self.caller.clone();
                blocking(move || manager.show(id, &caller)).await.ok()?
            }
        };
        self.seen = Some(view.state);
        Some(Event::of(&view))
    }

    /// Waits until the owner of a foreign transfer has news, or for [`LOOK`]; `None` at once if
    /// this site owns it.
    async fn foreign(&self, seen: TransferState) -> Option<TransferReport> {
        let (manager, id) = (Arc::clone(&self.manager), self.id);
        let wake = Instant::now() + LOOK;
        let view = blocking(move || manager.foreign_news(id, seen, LOOK.as_millis() as u32));
        let view = view.await.ok()??;
        if view.state == seen {
            // The request about an unreachable owner returns at once, hence this wait.
            tokio::time::sleep_until(wake).await;
        }
        Some(view)
    }

    /// Waits until an event must be sent; an error event is sent as it is.
    async fn wait(&mut self) -> Option<Event> {
        let wake = tokio::time::sleep(LOOK);
        tokio::pin!(wake);
        loop {
            tokio::select! {
                () = &mut wake => return None,
                next = self.events.next() => match next? {
                    NextEvent::Event(_, told) if told.event.id() != Some(self.id) => {}
                    NextEvent::Event(_, told) if matches!(told.event, Event::Error(_)) => {
                        return Some(told.event.clone());
                    }
                    NextEvent::Event(..) => return None,
                    NextEvent::Missed => return Some(Event::Reset),
                },
            }
        }
    }
}
