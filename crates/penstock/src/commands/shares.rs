//! Which peers have a share of a transfer, and over which paths: for `transfer show` and `watch`.

use penstock_api::endpoints::SHOW_TRANSFER_PATHS;
use penstock_api::operate::{TaskLoad, TaskPath, TransferPaths};
use penstock_api::rest::TransferView;
use penstock_api::transfer::{PeerShare, TransferState};
use penstock_proto::id::Name;
use penstock_proto::units::{format_bytes, format_rate};

use crate::client::Client;
use crate::commands::peer::{lanes_text, lasting};

/// The shares of a transfer that runs; nothing where they are not known.
pub(crate) fn of(client: &Client, view: &TransferView) -> TransferPaths {
    if view.state != TransferState::Running {
        return TransferPaths::default();
    }
    let uri = SHOW_TRANSFER_PATHS.uri(&[&view.id]).query("owner", &view.target.site);
    client.get(&uri).unwrap_or_default()
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

/// A line for each peer that has a share, as the transfer's controller sees it (`peers`) and as the
/// peer says itself, and one below it for each of its paths; `now` in seconds since 1970.
pub(crate) fn lines(paths: &TransferPaths, peers: &[PeerShare], now: u64) -> Vec<String> {
    let mut lines = Vec::new();
    for share in peers {
        let own = paths.shares.iter().find(|own| own.peer.as_str() == share.peer);
        let silent = paths.silent.iter().any(|peer| peer.as_str() == share.peer);
        lines.push(format!("peer        {}", share_text(share, own, silent)));
        lines.extend(own.into_iter().flat_map(|own| &own.paths).map(|path| path_line(path, now)));
    }
    // What began or ended a moment ago, only the peer itself knows.
    let is_new = |peer: &Name| !peers.iter().any(|share| share.peer == peer.as_str());
    for own in paths.shares.iter().filter(|own| is_new(&own.peer)) {
        lines.push(format!("peer        {}: {}", own.peer, moving_text(own)));
        lines.extend(own.paths.iter().map(|path| path_line(path, now)));
    }
    for peer in paths.silent.iter().filter(|peer| is_new(peer)) {
        lines.push(format!("peer        {peer}: does not answer, its share is not known"));
    }
    lines
}

/// What one peer does: how it stands, what it has done, what it moves now, what it waits for.
fn share_text(share: &PeerShare, own: Option<&TaskLoad>, silent: bool) -> String {
    let PeerShare { peer, state, lanes, bytes_verified, waiting } = share;
    let bytes = format_bytes(*bytes_verified);
    let moving = own.map_or_else(|| lanes_text(*lanes), moving_text);
    // What another host reports begins with its name, which stands here already.
    let state = state.replace(&format!("peer `{peer}`: "), "");
    let mut text = format!("{peer}: {state}, {bytes} verified, {moving}");
    if silent {
        text += "; it does not answer, its paths are not known";
    }
    if !waiting.is_empty() {
        text += &format!("; {waiting}");
    }
    text
}

fn moving_text(own: &TaskLoad) -> String {
    if own.paths.is_empty() {
        return "reads and writes itself, without lanes".to_owned();
    }
    format!("{} over {}", format_rate(own.rate_bits_per_s), lanes_text(own.lanes))
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
    use penstock_proto::id::TransferId;

    use super::*;

    /// Promise: each peer has one line, whoever knows of it, and none is left out.
    #[test]
    fn a_peer_has_one_line() {
        let share = |peer: &str, state: &str, waiting: &str| PeerShare {
            peer: peer.to_owned(),
            state: state.to_owned(),
            lanes: 4,
            bytes_verified: 3 << 20,
            waiting: waiting.to_owned(),
        };
        let own = |peer: &str| TaskLoad {
            transfer: TransferId([7; 16]),
            peer: peer.parse().unwrap(),
            source: None,
            store: "data".parse().unwrap(),
            bytes_verified: 3 << 20,
            rate_bits_per_s: 0.0,
            lanes: 0,
            paths: Vec::new(),
        };
        let paths = TransferPaths {
            shares: vec![own("h1"), own("h4")],
            silent: vec!["h2".parse().unwrap(), "h5".parse().unwrap()],
        };
        let peers = [
            share("h1", "working", ""),
            share("h2", "working", "no lane to lab"),
            share("h3", "out: peer `h3`: its store is offline", ""),
        ];
        assert_eq!(
            lines(&paths, &peers, 0),
            [
                "peer        h1: working, 3.0 MiB verified, reads and writes itself, without lanes",
                "peer        h2: working, 3.0 MiB verified, 4 lanes; it does not answer, its paths \
                 are not known; no lane to lab",
                "peer        h3: out: its store is offline, 3.0 MiB verified, 4 lanes",
                "peer        h4: reads and writes itself, without lanes",
                "peer        h5: does not answer, its share is not known",
            ]
        );
    }

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
        let why = "no message arrived over it".to_owned();
        let dead = TaskPath { state: "dead".to_owned(), why, rtt_us: None, ..good };
        let line = path_line(&dead, 140);
        assert!(line.ends_with("dead for 40 s: no message arrived over it"), "{line}");
    }
}
