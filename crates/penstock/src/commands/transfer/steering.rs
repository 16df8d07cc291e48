//! `penstock transfer pause|resume|cancel|retry|deadline|urgent`: what users ask of transfers.

use std::collections::BTreeMap;

use penstock_api::deadline::{Deadline, DeadlinePolicy};
use penstock_api::endpoints::{
    ACT_ON_TRANSFERS, REMOVE_DEADLINE, REMOVE_URGENT, SET_DEADLINE, SET_URGENT,
};
use penstock_api::queue::{BulkFilter, BulkItem, BulkReply, BulkRequest};
use penstock_api::rest::{Action, Steering, TransferView};
use penstock_api::timestamp::Timestamp;
use penstock_exit::{self as exit, ExitCode};
use penstock_proto::id::Name;

use crate::client::Client;
use crate::commands::queue::deadline_text;
use crate::options::transfer_id::parse_id_digits;
use crate::options::turn::{parse_bytes, parse_policy, parse_start};

/// Transfers by their ids, or all that fit.
#[derive(clap::Args)]
#[command(after_help = exit::help(&ExitCode::ALL))]
pub(crate) struct ManyArgs {
    /// The ids of transfers, or their first digits
    #[arg(value_name = "ID", value_parser = parse_id_digits, required_unless_present = "all",
        conflicts_with = "all")]
    ids: Vec<String>,
    /// All transfers that this fits and that you may steer. The options below choose among them
    #[arg(long)]
    all: bool,
    /// Only those of this user; `@SITE` for those that a paired site submitted
    #[arg(long, requires = "all")]
    user: Option<String>,
    /// Only those with this site
    #[arg(long, requires = "all")]
    site: Option<Name>,
    /// Only those that read or write this store of this site
    #[arg(long, requires = "all")]
    store: Option<Name>,
    /// Only those with this in their labels
    #[arg(long, requires = "all", value_name = "TEXT")]
    label: Option<String>,
}

/// Transfers to be paused, and until when.
#[derive(clap::Args)]
#[command(after_help = exit::help(&ExitCode::ALL))]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    transfers: ManyArgs,
    /// Resume them by itself at this time: 2026-11-26T20:00:00Z, or after 2h, 1d. Without it they
    /// stay paused until somebody resumes them. Of paused transfers this is the new end; `--all`
    /// leaves those without an end as they are
    #[arg(long, value_name = "TIME", value_parser = parse_start)]
    until: Option<u64>,
}

impl PauseArgs {
    /// Pauses the transfers.
    ///
    /// # Errors
    /// As [`ManyArgs::act`]; the time is over, or more than a year ahead.
    pub(crate) fn run(self, client: &Client) -> anyhow::Result<ExitCode> {
        let until = self.until.map(Timestamp::of_seconds);
        self.transfers.act(client, Steering { action: Action::Pause, until })
    }
}

impl ManyArgs {
    /// Acts on the transfers.
    ///
    /// # Errors
    /// No daemon answers, or it refuses the action on a transfer that is named.
    pub(crate) fn act(
        self,
        client: &Client,
        steering: impl Into<Steering>,
    ) -> anyhow::Result<ExitCode> {
        let steering = steering.into();
        let Steering { action, until } = steering;
        if !self.all {
            for id in &self.ids {
                act(client, id, steering)?;
            }
            return Ok(ExitCode::Done);
        }
        let Self { user, site, store, label, .. } = self;
        let filter = Some(BulkFilter { user, store, site, label, state: None });
        let mut request = BulkRequest { action, until, ids: Vec::new(), filter, after: None };
        let mut totals = Totals::default();
        loop {
            let reply: BulkReply = client.post(&ACT_ON_TRANSFERS.uri(&[]), &request)?;
            for item in &reply.items {
                if let Some(line) = totals.add(item) {
                    exit::warn(&line);
                }
            }
            if reply.next.is_none() {
                break;
            }
            request.after = reply.next;
        }
        exit::warn(&totals.text(action));
        Ok(if totals.refused.is_empty() { ExitCode::Done } else { ExitCode::SomeFailed })
    }
}

/// Refused transfers that are named; further ones are in the totals alone.
const REFUSED_NAMED: u64 = 20;

/// What came of an action on many transfers.
#[derive(Default)]
struct Totals {
    done: u64,
    /// Numbers of refused transfers by the code of the reason.
    refused: BTreeMap<String, u64>,
}

impl Totals {
    /// Counts a transfer, and returns the line that names it if it is refused.
    fn add(&mut self, item: &BulkItem) -> Option<String> {
        let Some(problem) = &item.problem else {
            self.done += 1;
            return None;
        };
        *self.refused.entry(problem.code.as_str().to_owned()).or_default() += 1;
        let is_named = self.refused.values().sum::<u64>() <= REFUSED_NAMED;
        is_named.then(|| format!("{} {}", item.id.short(), problem.detail))
    }

    fn text(&self, action: Action) -> String {
        let past = match action {
            Action::Pause => "paused",
            Action::Resume => "resumed",
            Action::Cancel => "cancelled",
            Action::Retry => "to be retried",
        };
        let codes = self.refused.iter().map(|(code, count)| format!("{count} {code}"));
        let codes = codes.collect::<Vec<_>>().join(", ");
        let codes = if codes.is_empty() { codes } else { format!(" ({codes})") };
        let refused: u64 = self.refused.values().sum();
        format!("{} transfers {past}, {refused} refused{codes}", self.done)
    }
}

fn act(client: &Client, id: &str, Steering { action, until }: Steering) -> anyhow::Result<()> {
    let mut uri = action.endpoint().uri(&[&id]);
    if let Some(until) = until {
        uri = uri.query("until", until);
    }
    let view: TransferView = client.post(&uri, &())?;
    let reason = if view.reason.is_empty() { String::new() } else { format!(": {}", view.reason) };
    let state = match action {
        Action::Cancel if !view.state.is_ended() => "is being cancelled",
        _ => view.state.as_str(),
    };
    exit::warn(&format!("{} {state}{reason}", view.id.short()));
    Ok(())
}

/// The deadline of a transfer.
#[derive(clap::Args)]
pub(crate) struct DeadlineArgs {
    /// The id of the transfer, or its first digits
    #[arg(value_parser = parse_id_digits)]
    id: String,
    /// The time: 2026-11-26T20:00:00Z, or within 2h, 1d; or `none`
    #[arg(value_name = "TIME|none", value_parser = parse_deadline)]
    at: DeadlineWish,
    /// What it means: promise, best_effort or cancel; see `transfer submit --help`
    #[arg(long, value_name = "POLICY", default_value = "promise", value_parser = parse_policy)]
    policy: DeadlinePolicy,
    /// The bytes that are expected, as in 2T, for the forecast
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    expect: Option<u64>,
}

/// A time in seconds since 1970, or none.
#[derive(Clone, Copy, Debug)]
struct DeadlineWish(Option<u64>);

fn parse_deadline(text: &str) -> Result<DeadlineWish, String> {
    let at = if text == "none" { None } else { Some(parse_start(text)?) };
    Ok(DeadlineWish(at))
}

impl DeadlineArgs {
    /// Changes the deadline.
    ///
    /// # Errors
    /// The site refuses it: with the policy `promise`, if the forecast does not keep it.
    pub(crate) fn run(self, client: &Client) -> anyhow::Result<()> {
        let view: TransferView = match self.at.0 {
            Some(at) => {
                let at = Timestamp::of_seconds(at);
                let deadline = Deadline { at, policy: self.policy, bytes: self.expect };
                client.post(&SET_DEADLINE.uri(&[&self.id]), &deadline)?
            }
            None => serde_json::from_slice(&client.delete(&REMOVE_DEADLINE.uri(&[&self.id]))?)?,
        };
        let text = view.deadline.as_ref().map_or("none".to_owned(), deadline_text);
        exit::warn(&format!("{} has the deadline {text}", view.id.short()));
        Ok(())
    }
}

/// Puts a transfer before those of all users, or back among them.
///
/// # Errors
/// The caller is no operator, or the transfer has ended.
pub(crate) fn make_urgent(client: &Client, id: &str, undo: bool) -> anyhow::Result<()> {
    let view: TransferView = match undo {
        true => serde_json::from_slice(&client.delete(&REMOVE_URGENT.uri(&[&id]))?)?,
        false => client.post(&SET_URGENT.uri(&[&id]), &())?,
    };
    let is = if view.urgent { "starts before all others" } else { "waits for its turn" };
    exit::warn(&format!("{} {is}", view.id.short()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use penstock_api::problem::{Problem, ProblemCode};
    use penstock_api::transfer::TransferState;
    use penstock_proto::id::TransferId;

    use super::*;

    /// Promise: totals count all transfers and the reasons of those that were refused; only the
    /// first of these are named.
    #[test]
    fn totals_count_what_was_refused() {
        let item = |problem: Option<Problem>| BulkItem {
            id: TransferId([7; 16]),
            state: problem.is_none().then_some(TransferState::Paused),
            problem: problem.map(Into::into),
        };
        let mut totals = Totals::default();
        assert_eq!(totals.add(&item(None)), None);
        let busy = || Some(Problem::new(ProblemCode::TransferBusy, "its run ends"));
        let named = (0..30).filter_map(|_| totals.add(&item(busy()))).count();
        assert_eq!(named, 20);
        let state = Problem::new(ProblemCode::WrongState, "it has ended").because("since noon");
        assert_eq!(totals.add(&item(Some(state))), None);
        let text = totals.text(Action::Pause);
        assert_eq!(text, "1 transfers paused, 31 refused (30 transfer-busy, 1 wrong-state)");
    }
}
