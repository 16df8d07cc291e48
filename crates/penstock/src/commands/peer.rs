//! `penstock peer`: the peers of a site, and orders to them.

use std::time::{Duration, Instant};

use penstock_api::endpoints::{DRAIN_PEER, FORGET_PEER, LIST_PEERS};
use penstock_api::keys::{ForgetRequest, RotateReply};
use penstock_api::operate::{DrainRequest, PeerView, PeersView, Presence};
use penstock_proto::id::Name;
use penstock_sys::now_seconds;

use crate::client::Client;
use crate::commands::site::rotation;
use crate::commands::statistics;
use crate::options::directory::DirectoryArgs;
use crate::output::table::table;
use penstock_exit::{self as exit, ExitCode, Failure};

/// How often a peer that drains is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Lists, measures, drains and forgets peers of this site
#[derive(clap::Args)]
pub(crate) struct PeerArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(subcommand)]
    command: PeerCommand,
}

#[derive(clap::Subcommand)]
enum PeerCommand {
    /// Lists the peers of this site with their state, their work and the stores that each reaches
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows how busy peers were: rates, processors, memory, cards, disks, energy
    Stats {
        /// One peer; all unless it is given
        peer: Option<Name>,
        /// Time before now that is shown
        #[arg(long, value_name = "NUMBER", default_value_t = 1,
            value_parser = clap::value_parser!(u32).range(1..=9600))]
        hours: u32,
        /// Print JSON, with the figures over time
        #[arg(long)]
        json: bool,
    },
    /// Assigns a peer no new work, and lets it finish its current work
    Drain(DrainArgs),
    /// Forgets a peer that will not return, and locks its host out
    ///
    /// The key of the peer is revoked and the keys of the site are replaced, here and at all paired
    /// sites. The keys on the disk of the host are then useless.
    Forget {
        /// Its name
        peer: Name,
        /// The host is in other hands: forget the peer even if it is up, and do not wait for peers
        /// that do not answer
        #[arg(long)]
        stolen: bool,
    },
}

#[derive(clap::Args)]
struct DrainArgs {
    /// Its name
    peer: Name,
    /// End the drain; the peer gets work again
    #[arg(long, conflicts_with_all = ["wait", "force"])]
    undo: bool,
    /// Wait until the peer has finished its work
    #[arg(long)]
    wait: bool,
    /// Maximum time to wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, requires = "wait")]
    timeout: u64,
    /// Drain the peer even if it is the last one that reaches a store of a running transfer, which
    /// then waits
    #[arg(long)]
    force: bool,
    /// Print the state of the peer at the end as JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// No daemon answers, or what it answers; the time to wait is over.
pub(crate) fn run(args: PeerArgs) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.directory.directory)?;
    match args.command {
        PeerCommand::List { json } => list(&client, json)?,
        PeerCommand::Stats { peer, hours, json } => {
            statistics::show_peers(&client, peer.as_ref(), hours, json)?;
        }
        PeerCommand::Drain(args) => drain(&client, &args)?,
        PeerCommand::Forget { peer, stolen } => {
            let request = ForgetRequest { stolen };
            let reply: RotateReply = client.post(&FORGET_PEER.uri(&[&peer]), &request)?;
            exit::warn(&format!(
                "peer `{peer}` is forgotten and its host is locked out; to return, it must join \
                 again"
            ));
            rotation::tell(&client, &reply)?;
        }
    }
    Ok(ExitCode::Done)
}

fn list(client: &Client, json: bool) -> anyhow::Result<()> {
    let view: PeersView = client.get(&LIST_PEERS.uri(&[]))?;
    if json {
        for peer in &view.peers {
            exit::print(&serde_json::to_string(peer)?)?;
        }
        return Ok(());
    }
    let head = ["PEER", "STATE", "VERSION", "IN HAND", "STORES", "ADDRESSES"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(view.peers.iter().map(|peer| row(peer, now_seconds())));
    exit::print(&table(&rows))?;
    Ok(())
}

fn row(peer: &PeerView, now: u64) -> [String; 6] {
    let store = |store: &penstock_api::operate::PeerStore| match store.is.as_str() {
        "same" | "alone" => store.store.to_string(),
        "other" => format!("{} (ANOTHER ONE)", store.store),
        is => format!("{} ({is})", store.store),
    };
    let stores: Vec<_> = peer.stores.iter().map(store).collect();
    let addresses: Vec<_> = peer.addresses.iter().map(ToString::to_string).collect();
    [
        peer.peer.to_string(),
        peer_state(peer, now),
        peer.version.clone(),
        in_hand(peer),
        stores.join(", "),
        addresses.join(","),
    ]
}

/// How a peer is, in words.
pub(crate) fn peer_state(peer: &PeerView, now: u64) -> String {
    let since = |since: u64| lasting(now.saturating_sub(since));
    let mut text = match peer.presence {
        Presence::Up => format!("up {}", since(peer.since)),
        Presence::Silent => "SILENT".to_owned(),
        Presence::Left => format!("left {} ago", since(peer.since)),
        Presence::Lost if peer.since == 0 => "LOST just now".to_owned(),
        Presence::Lost => format!("LOST {} ago", since(peer.since)),
    };
    if peer.controller_since > 0 {
        text += &format!(", controller {}", since(peer.controller_since));
    }
    if let Some(mark) = &peer.draining {
        text += &format!(", draining {}", since(mark.since));
    }
    text
}

/// What a peer has in hand, in words.
pub(crate) fn in_hand(peer: &PeerView) -> String {
    let Some(load) = &peer.load else { return "?".to_owned() };
    let mut parts = Vec::new();
    if load.leads && load.running > 0 {
        parts.push(format!("leads {}", load.running));
    }
    if !load.tasks.is_empty() {
        let lanes: u32 = load.tasks.iter().map(|task| task.lanes).sum();
        parts.push(format!("writes {} ({})", load.tasks.len(), lanes_text(lanes)));
    }
    if load.lanes_served > 0 {
        parts.push(format!("serves {}", lanes_text(load.lanes_served)));
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

/// A number of lanes.
pub(crate) fn lanes_text(lanes: u32) -> String {
    if lanes == 1 { "1 lane".to_owned() } else { format!("{lanes} lanes") }
}

/// How long something has lasted, in one unit.
pub(crate) fn lasting(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

fn drain(client: &Client, args: &DrainArgs) -> anyhow::Result<()> {
    let DrainArgs { peer, undo, force, wait, json, .. } = args;
    let request = DrainRequest { undo: *undo, force: *force };
    let mut view: PeerView = client.post(&DRAIN_PEER.uri(&[peer]), &request)?;
    exit::warn(&match undo {
        true => format!("peer `{peer}` takes work again"),
        false => format!("peer `{peer}` gets no new work"),
    });
    if *wait {
        view = wait_idle(client, peer, Duration::from_secs(args.timeout))?;
        exit::warn(&format!("peer `{peer}` has no work; you can stop its daemon"));
    }
    if *json {
        exit::print(&serde_json::to_string(&view)?)?;
    }
    Ok(())
}

/// Waits until a peer has nothing in hand, and says meanwhile what it still has.
fn wait_idle(client: &Client, peer: &Name, most: Duration) -> anyhow::Result<PeerView> {
    let (begun, mut told) = (Instant::now(), String::new());
    loop {
        let peers: PeersView = client.get(&LIST_PEERS.uri(&[]))?;
        let view = peers.peers.into_iter().find(|view| view.peer == *peer).ok_or_else(|| {
            Failure::new(ExitCode::Temporary, format!("peer `{peer}` is forgotten meanwhile"))
        })?;
        let gone = matches!(view.presence, Presence::Left | Presence::Lost);
        // Only once the mark has reached it: before, it may be given more.
        let idle = view.draining.is_some()
            && view.controller_since == 0
            && view.load.as_ref().is_some_and(|load| load.is_idle());
        if gone || idle {
            return Ok(view);
        }
        if view.draining.is_none() && begun.elapsed() > LOOK * 10 {
            let message = format!("the drain of peer `{peer}` has ended");
            return Err(Failure::new(ExitCode::Temporary, message).into());
        }
        let mut has = in_hand(&view);
        if view.load.as_ref().is_some_and(|load| load.leads) {
            has += ", is the controller";
        }
        if has != told {
            exit::warn(&format!("waiting; it still has: {has}"));
            told = has;
        }
        if begun.elapsed() >= most {
            let message =
                format!("peer `{peer}` still has work after {} s: {told}", most.as_secs());
            return Err(Failure::new(ExitCode::Temporary, message)
                .hint("the drain continues; `penstock peer drain PEER --wait` waits again")
                .into());
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: columns stand below each other, and how long something lasts is one number.
    #[test]
    fn rows_are_easy_to_read() {
        let rows = [["PEER", "STATE"], ["h1", "up 3 min"]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "PEER  STATE\nh1    up 3 min");
        assert_eq!(lasting(119), "119 s");
        assert_eq!(lasting(7199), "119 min");
        assert_eq!(lasting(7200), "2 h");
        assert_eq!(lasting(200_000), "2 d");
    }
}
