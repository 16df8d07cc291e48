//! Tries the paths to another site, from both ends, and says in words what is wrong with each.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use penstock_api::paths::{PathView, PathsView};
use penstock_api::problem::Problem;
use penstock_io::net::{self, ConnectError, LocalBind, SocketOptions};
use penstock_peer::{LocalEnd, PathEnds, PathNote, TargetService, pair};
use penstock_proto::id::Name;
use penstock_proto::network::DataAddress;
use rustix::io::Errno;

use super::site::Site;
use super::site_client::Sites;

/// How long a SYN-ACK may take.
pub(crate) const PROBE_MAX: Duration = Duration::from_secs(3);

/// Tries all paths from here to a site, and has it try those to here.
///
/// # Errors
/// The site is not paired, or cannot be asked for its addresses.
pub(crate) fn paths(
    site: &Site,
    sites: &Arc<Sites>,
    target: &TargetService,
    other: &Name,
) -> Result<PathsView, Problem> {
    let theirs = sites.exchange_addresses(other)?;
    let (inward, outward) = std::thread::scope(|scope| {
        let inward = scope.spawn(|| sites.ask_for_probe(other));
        let outward = probe(site, target, other, &theirs.data);
        (inward.join(), outward)
    });
    let (inward, why) = match inward {
        Ok(Ok(inward)) => (inward, String::new()),
        Ok(Err(problem)) => (Vec::new(), problem.to_string()),
        Err(_) => (Vec::new(), "a thread has ended".to_owned()),
    };
    Ok(PathsView { site: other.clone(), outward, inward, inward_problem: why })
}

/// Tries all paths from here to `theirs`, at once; blocks for [`PROBE_MAX`].
pub(crate) fn probe(
    site: &Site,
    target: &TargetService,
    other: &Name,
    theirs: &[DataAddress],
) -> Vec<PathView> {
    let locals = site.networks().local_ends();
    let known = target.known_paths(other);
    let paths = pair(&locals, theirs);
    if paths.is_empty() {
        tracing::warn!(site = %other, "no address here pairs with one there");
    }
    std::thread::scope(|scope| {
        let probes: Vec<_> = paths
            .iter()
            .map(|ends| {
                let note = known.iter().find(|note| same(&note.ends, ends));
                scope.spawn(move || probe_one(other, ends, note))
            })
            .collect();
        probes.into_iter().filter_map(|probe| probe.join().ok()).collect()
    })
}

fn same(a: &PathEnds, b: &PathEnds) -> bool {
    (&a.local.address, &a.local.device, a.remote.address)
        == (&b.local.address, &b.local.device, b.remote.address)
}

fn probe_one(other: &Name, ends: &PathEnds, note: Option<&PathNote>) -> PathView {
    let LocalEnd { address, device, .. } = ends.local.clone();
    let bind = LocalBind { address, device };
    let dialled = net::dial(ends.remote.address, &bind, PROBE_MAX, &SocketOptions::default());
    let rtt = dialled.as_ref().ok().and_then(|dialled| dialled.rtt().ok());
    let why = match &dialled {
        Ok(_) => String::new(),
        Err(error) => why_not(error, other, &ends.local, ends.remote.address),
    };
    let least = note.and_then(|note| note.rtt).into_iter().chain(rtt).min();
    PathView {
        from: ends.local.to_string(),
        to: ends.remote.address,
        network: ends.network(),
        reachable: dialled.is_ok(),
        why,
        rtt_us: least.map(|rtt| rtt.as_micros() as u64),
        rate_bits_per_s: note.map(|note| note.rate * 8.0).filter(|rate| *rate > 0.0),
        state: note.map_or("untried", |note| note.state.as_str()).to_owned(),
        since: note.map_or(0, |note| note.since),
        last_failure: note.map_or_else(String::new, |note| note.why.clone()),
    }
}

/// Why a peer was not reached, and where to look.
fn why_not(error: &ConnectError, other: &Name, local: &LocalEnd, to: SocketAddr) -> String {
    match error {
        ConnectError::TimedOut { .. } => format!(
            "no SYN-ACK from {other} {to} within {} s: firewall at {other}, or a cut between?",
            PROBE_MAX.as_secs()
        ),
        ConnectError::Unreachable { source, .. } => match Errno::from_io_error(source) {
            Some(Errno::CONNREFUSED) => {
                format!("refused: no daemon of {other} is listening at {to}")
            }
            Some(Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::NETDOWN) => {
                format!("no route from {local} to {to}: {source}")
            }
            _ => format!("{to} cannot be reached from {local}: {source}"),
        },
        ConnectError::Socket { source, .. } => {
            format!("{local} cannot be used here: {source}: {}", source.source)
        }
        other => other.to_string(),
    }
}
