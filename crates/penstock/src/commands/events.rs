//! `penstock site events` and `penstock transfer events`: what has happened, with times.

use std::collections::VecDeque;
use std::sync::mpsc;
use std::time::Duration;

use penstock_api::endpoints::{LIST_EVENTS, SHOW_TRANSFER};
use penstock_api::operate::SiteEvent;
use penstock_api::transfer::TransferView;
use penstock_proto::id::TransferId;

use crate::client::Client;
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
    let events: Vec<SiteEvent> = client.get(&uri)?;
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
    let mut seen: Option<VecDeque<SiteEvent>> = None;
    loop {
        // A daemon that does not answer is said by who follows the transfer.
        let events = client.get::<VecDeque<SiteEvent>>(&uri).unwrap_or_default();
        // These are told by the transfer itself.
        let of_paths = |event: &&SiteEvent| !["transfer", "problem"].contains(&event.kind.as_str());
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

/// The UTC time of milliseconds since 1970, as `2026-11-22 10:17:29.123`.
fn utc(ms: u64) -> String {
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = civil(days);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, milli) = (rest / 1000 % 60, rest % 1000);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{milli:03}")
}

/// The date of a day since 1970 in the Gregorian calendar: the 400 years that begin on 1 March 2000
/// have 146,097 days; years begin in March here, so that leap days are last.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

fn line(event: &SiteEvent, of_one: bool) -> String {
    let id = event.transfer.filter(|_| !of_one).map(|id| id.to_string());
    let id = id.map_or_else(String::new, |id| format!("{}  ", id.get(..8).unwrap_or(&id)));
    format!("{}  {:<8} {:<13} {id}{}", utc(event.at_ms), event.peer, event.kind, event.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: times are those of the calendar, leap days and ends of years included.
    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00.000");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00:00.000");
        assert_eq!(utc(1_704_067_199_999), "2023-12-31 23:59:59.999");
        assert_eq!(utc(1_795_342_649_123), "2026-11-22 10:17:29.123");
    }
}
