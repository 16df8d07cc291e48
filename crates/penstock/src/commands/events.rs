//! `penstock site events` and `penstock transfer events`: what has happened, with times.

use std::sync::mpsc;
use std::time::Duration;

use penstock_api::endpoints::{LIST_EVENTS, SHOW_TRANSFER};
use penstock_api::operate::SiteEventView;
use penstock_api::rest::TransferView;
use penstock_proto::id::TransferId;

use crate::client::Client;
use crate::output::time::utc;
use penstock_exit as exit;

/// How often it is asked what is new.
const NEWS_LOOK: Duration = Duration::from_secs(2);
/// News between two such questions are no more than this.
const NEWS_MAX: usize = 50;

/// Prints the last events of the site, or those that matter to one transfer, oldest first.
///
/// # Errors
/// No daemon answers.
pub(crate) fn show(
    client: &Client,
    transfer: Option<TransferId>,
    limit: usize,
    json: bool,
) -> anyhow::Result<()> {
    let uri = LIST_EVENTS.uri(&[]).query("limit", limit);
    let uri = match transfer {
        Some(id) => uri.query("transfer", id),
        None => uri,
    };
    let events: Vec<SiteEventView> = client.list(&uri)?;
    for event in &events {
        if json {
            exit::print(&serde_json::to_string(event)?)?;
        } else {
            exit::print(&line(event, transfer.is_some()))?;
        }
    }
    if events.is_empty() && !json {
        exit::warn("no events are recorded");
    }
    Ok(())
}

/// What happens to paths, peers and stores while a transfer is watched. Asked for by a thread of
/// its own, which ends with it.
pub(crate) struct News(mpsc::Receiver<String>);

impl News {
    /// From now on, of one transfer.
    pub(crate) fn of(client: &Client, id: &str) -> Self {
        let (tell, told) = mpsc::channel();
        if let Ok(client) = client.another() {
            let id = id.to_owned();
            // Without it the transfer is watched all the same.
            let _ = std::thread::Builder::new().spawn(move || listen(&client, &id, &tell));
        }
        Self(told)
    }

    /// What there is that was not told.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> + use<'_> {
        self.0.try_iter()
    }
}

fn listen(client: &Client, id: &str, tell: &mpsc::Sender<String>) {
    let Ok(view) = client.get::<TransferView>(&SHOW_TRANSFER.uri(&[&id])) else { return };
    let uri = LIST_EVENTS.uri(&[]).query("limit", NEWS_MAX).query("transfer", view.id);
    let mut seen: Option<Vec<SiteEventView>> = None;
    loop {
        // A daemon that does not answer is said by who follows the transfer.
        let events = client.list::<SiteEventView>(&uri).unwrap_or_default();
        // These are told by the transfer itself.
        let of_paths =
            |event: &&SiteEventView| !["transfer", "problem"].contains(&event.kind.as_str());
        if let Some(seen) = &seen {
            let new = events.iter().filter(|event| !seen.contains(event));
            for event in new.filter(of_paths) {
                if tell.send(line(event, true)).is_err() {
                    return;
                }
            }
        }
        if seen.is_none() || !events.is_empty() {
            seen = Some(events);
        }
        std::thread::sleep(NEWS_LOOK);
    }
}

fn line(event: &SiteEventView, of_one: bool) -> String {
    let id = event.transfer.filter(|_| !of_one).map(|id| id.to_string());
    let id = id.map_or_else(String::new, |id| format!("{}  ", id.get(..8).unwrap_or(&id)));
    format!("{}  {:<8} {:<13} {id}{}", utc(event.at.ms()), event.peer, event.kind, event.text)
}
