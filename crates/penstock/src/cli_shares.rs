//! Which peers have a share of a transfer, and over which paths: for `transfer show` and `watch`.

use penstock_api::operate::{TaskLoad, TaskPath, TransferPaths};
use penstock_api::transfer::{TransferState, TransferView};
use penstock_proto::units::format_rate;

use crate::cli_peer::{lanes_text, lasting};
use crate::client::Client;

/// The shares of a transfer that runs; nothing where they are not known.
pub(crate) fn of(client: &Client, view: &TransferView) -> TransferPaths {
    if view.state != TransferState::Running {
        return TransferPaths::default();
    }
    let path = format!("/transfers/{}/paths?owner={}", view.id, view.target.site);
    client.get(&path).unwrap_or_default()
}

/// A transfer's JSON with its shares.
///
/// # Errors
/// It has no JSON form, which would be a mistake of ours.
pub(crate) fn with_json(view: &TransferView, paths: &TransferPaths) -> anyhow::Result<String> {
    let mut value = serde_json::to_value(view)?;
    if let Some(object) = value.as_object_mut() {
        object.insert("shares".to_owned(), serde_json::to_value(&paths.shares)?);
        object.insert("silent_peers".to_owned(), serde_json::to_value(&paths.silent)?);
    }
    Ok(value.to_string())
}

/// One line for each share, and one below it for each path; `now` in seconds since 1970.
pub(crate) fn lines(paths: &TransferPaths, now: u64) -> Vec<String> {
    let mut lines = Vec::new();
    for share in &paths.shares {
        lines.push(share_line(share));
        lines.extend(share.paths.iter().map(|path| path_line(path, now)));
    }
    for peer in &paths.silent {
        lines.push(format!("peer        {peer}: does not answer, its share is not known"));
    }
    lines
}

fn share_line(share: &TaskLoad) -> String {
    let TaskLoad { peer, lanes, .. } = share;
    if share.paths.is_empty() {
        return format!("peer        {peer}: reads and writes itself, without lanes");
    }
    format!(
        "peer        {peer}: {} over {}",
        format_rate(share.rate_bits_per_s),
        lanes_text(*lanes)
    )
}

fn path_line(path: &TaskPath, now: u64) -> String {
    let TaskPath { from, to, to_peer, network, state, .. } = path;
    let network = if network.is_empty() { String::new() } else { format!("{network}  ") };
    let mut text = format!("  path      {network}{from} <- {to_peer} {to}  {state}");
    match state.as_str() {
        "carrying" => {
            let rate = format_rate(path.rate_bits_per_s);
            text += &format!(" {rate}, {}", lanes_text(path.lanes));
        }
        "dead" | "crawling" | "on trial" if path.since > 0 => {
            text += &format!(" for {}", lasting(now.saturating_sub(path.since)));
        }
        _ => {}
    }
    if let Some(rtt) = path.rtt_us.filter(|_| state != "untried") {
        text += &format!(", round trip {:.1} ms", rtt as f64 / 1000.0);
    }
    if !path.why.is_empty() {
        text += &format!(": {}", path.why);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a path that carries says what, one that is dead says since when and why.
    #[test]
    fn paths_say_how_they_are() {
        let good = TaskPath {
            from: "10.50.1.1%eth1".to_owned(),
            to: "10.50.2.1:7444".parse().unwrap(),
            to_peer: "h1".parse().unwrap(),
            network: "fast0".to_owned(),
            state: "carrying".to_owned(),
            since: 100,
            why: String::new(),
            lanes: 8,
            rate_bits_per_s: 2e8,
            rtt_us: Some(90_100),
        };
        assert_eq!(
            path_line(&good, 200),
            "  path      fast0  10.50.1.1%eth1 <- h1 10.50.2.1:7444  carrying 200.00 Mbit/s, \
             8 lanes, round trip 90.1 ms"
        );
        let why = "nothing was heard over it".to_owned();
        let dead = TaskPath { state: "dead".to_owned(), why, rtt_us: None, ..good };
        let line = path_line(&dead, 140);
        assert!(line.ends_with("dead for 40 s: nothing was heard over it"), "{line}");
    }
}
