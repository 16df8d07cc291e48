//! Server-sent events: of one transfer until it ends, or of all.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Path;
use axum::response::sse::{Event as Line, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use penstock_api::rest::Event;
use penstock_api::transfer::{TransferState, TransferView};
use penstock_controller::manager::{Caller, Manager};
use penstock_proto::id::TransferId;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use super::state::Leading;
use crate::http::reply::{ProblemReply, blocking};

/// Interval at which a transfer is polled when no event of it arrives.
const LOOK: Duration = Duration::from_secs(1);

fn line(event: &Event) -> Result<Line, Infallible> {
    // Our own types always have a JSON form; an empty line would be no event at all.
    Ok(Line::default().json_data(event).unwrap_or_default())
}

/// Streams all events of transfers that this site owns.
pub(super) async fn all(
    Leading(manager): Leading,
) -> Sse<impl Stream<Item = Result<Line, Infallible>>> {
    let stream = stream::unfold(manager.events(), async |mut events| {
        loop {
            match events.recv().await {
                Ok(event) => return Some((line(&event), events)),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    });
    Sse::new(stream).keep_alive(KeepAlive::default())
}

struct Follow {
    manager: Arc<Manager>,
    id: TransferId,
    events: Receiver<Event>,
    /// The state that was sent last.
    seen: Option<TransferState>,
}

/// Streams one transfer: its status at once, then every second or on a change, its summary at last.
pub(super) async fn one(
    Leading(manager): Leading,
    Path(id): Path<String>,
) -> Result<Sse<impl Stream<Item = Result<Line, Infallible>>>, ProblemReply> {
    let (events, resolver) = (manager.events(), Arc::clone(&manager));
    let id = blocking(move || resolver.resolve(&id)).await?;
    let follow = Follow { manager, id, events, seen: None };
    Ok(Sse::new(stream::unfold(follow, async |mut follow| {
        let event = follow.next().await?;
        Some((line(&event), follow))
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
            None => blocking(move || manager.show(id, &Caller::User)).await.ok()?,
        };
        self.seen = Some(view.state);
        Some(Event::of(&view))
    }

    /// Waits until the owner of a foreign transfer has news, or for [`LOOK`]; `None` at once if
    /// this site owns it.
    async fn foreign(&self, seen: TransferState) -> Option<TransferView> {
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
                event = self.events.recv() => match event {
                    Ok(event @ Event::Error(_)) if event.id() == self.id => return Some(event),
                    Ok(event) if event.id() == self.id => return None,
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                },
            }
        }
    }
}
