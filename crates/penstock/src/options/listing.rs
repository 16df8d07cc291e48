//! The options that choose transfers for a list.

use penstock_api::rest::TransferQuery;
use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::TransferState;
use penstock_proto::id::Name;
use penstock_sys::now_seconds;

use super::select::parse_age;

/// The choice of transfers, and their order.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct ListArgs {
    /// Only transfers in these states: queued, running, paused, done, failed, cancelled
    #[arg(long, value_name = "STATE,…", value_delimiter = ',', value_parser = parse_state)]
    state: Vec<TransferState>,
    /// Only transfers of which SITE is the source or the target
    #[arg(long, value_name = "SITE")]
    site: Option<Name>,
    /// Only transfers of which a store of this name is the source or the target
    #[arg(long, value_name = "STORE")]
    store: Option<Name>,
    /// Only transfers that this user submitted
    #[arg(long, value_name = "USER")]
    owner: Option<Name>,
    /// Only transfers whose label has this text in it, in any case
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    label: String,
    /// Only transfers submitted since then: 2026-11-26T20:00:00Z, or 2h, 7d ago
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<Timestamp>,
    /// Only transfers submitted before then
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    until: Option<Timestamp>,
    /// Only transfers that have failed, or that wait for what does not come by itself
    #[arg(long)]
    attention: bool,
    /// Oldest first
    #[arg(long)]
    reverse: bool,
}

impl ListArgs {
    /// Returns the query that asks for these transfers.
    pub(crate) fn query(&self) -> TransferQuery {
        let states: Vec<_> = self.state.iter().map(|state| state.as_str()).collect();
        TransferQuery {
            state: states.join(","),
            site: self.site.clone(),
            store: self.store.clone(),
            owner: self.owner.clone(),
            label: self.label.clone(),
            since: self.since,
            until: self.until,
            attention: self.attention,
            sort: if self.reverse { "created".to_owned() } else { String::new() },
            ..TransferQuery::default()
        }
    }
}

fn parse_state(text: &str) -> Result<TransferState, String> {
    let state = TransferState::ALL.into_iter().find(|state| state.as_str() == text);
    let known = || TransferState::ALL.map(TransferState::as_str).join(", ");
    state.ok_or_else(|| format!("not one of {}", known()))
}

/// Returns a time, or the one that is so long ago.
fn parse_time(text: &str) -> Result<Timestamp, String> {
    if let Some(ago) = parse_age(text) {
        return Ok(Timestamp::of_seconds(now_seconds().saturating_sub(ago)));
    }
    text.parse().map_err(|_| "neither an age (2h, 7d) nor a time (2026-11-26T20:00:00Z)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a time is read as it is written, or as an age; a state that does not exist is
    /// refused.
    #[test]
    fn times_and_states_are_read() {
        let time = parse_time("2026-11-26T20:00:00Z").unwrap();
        assert_eq!(time.seconds(), 1_795_723_200);
        let ago = now_seconds() - parse_time("1h").unwrap().seconds();
        assert!((3590..3700).contains(&ago), "{ago}");
        assert!(parse_time("yesterday").is_err());
        assert_eq!(parse_state("paused"), Ok(TransferState::Paused));
        assert!(parse_state("frozen").unwrap_err().contains("queued, running"));
    }
}
