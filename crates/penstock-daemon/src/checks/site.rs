//! The health of a site, as `site status` shows it at one glance.

use penstock_api::cluster::ClusterView;
use penstock_api::operate::{Finding, Level, PeerStore, PeerView, PeersView, Presence};
use penstock_proto::id::Name;

use super::etcd;

/// Difference of the clocks of peers that causes no harm, in milliseconds.
const CLOCK_MS_MAX: f64 = 1000.0;

/// Returns the findings about a site, by the answers of its peers and etcd. `cluster` is `None` for
/// a site of one peer.
pub(crate) fn judge(cluster: Option<&ClusterView>, peers: &PeersView) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(cluster) = cluster {
        findings.push(leader(cluster));
        // Possible improvements are for `doctor`.
        let etcd = etcd::judge(&cluster.etcd).into_iter();
        findings.extend(etcd.filter(|finding| finding.level != Level::Note));
    }
    for peer in &peers.peers {
        findings.extend(presence(peer));
        findings.extend(clock(peer));
        let reached = |name: &Name| peers.peers.iter().any(|peer| reaches(peer, name));
        findings.extend(stores(peer, &reached));
    }
    findings.extend(versions(&peers.peers));
    findings
}

fn leader(cluster: &ClusterView) -> Finding {
    let code = "controller";
    match &cluster.leader {
        Some(leader) => Finding::ok(code, format!("peer `{}` is the controller", leader.peer)),
        None => Finding::new(
            Level::Bad,
            code,
            "no peer is the controller",
            "nothing is scheduled, finished or called durable until one is",
            "it passes within some seconds, or the lines on etcd and peers say why not",
        ),
    }
}

fn presence(peer: &PeerView) -> Option<Finding> {
    let (code, name) = ("peer", &peer.peer);
    let finding = match peer.presence {
        Presence::Up if peer.trouble.is_empty() => return draining(peer),
        Presence::Up => Finding::new(
            Level::Bad,
            code,
            format!("it cannot take part: {}", peer.trouble),
            "it cannot lead, and others do not count on it",
            "correct what the message names",
        ),
        Presence::Silent => Finding::new(
            Level::Warning,
            code,
            format!("it holds its lease, and does not answer: {}", peer.trouble),
            "it cannot forward requests to the controller, and the controller cannot forward \
             requests to it",
            "a firewall between the peers at its port, or a host that is too busy",
        ),
        Presence::Left => Finding::new(
            Level::Note,
            code,
            "its daemon was ended in order",
            "the others do its work",
            format!("start it; or, if it is gone for good: penstock peer forget {name}"),
        ),
        Presence::Lost => Finding::new(
            Level::Warning,
            code,
            "it is lost: its lease has ended without a word",
            "the other peers do its work; an unreachable host may return",
            format!("check the host; if it is gone for good: penstock peer forget {name}"),
        ),
    };
    Some(finding.of(name))
}

fn draining(peer: &PeerView) -> Option<Finding> {
    let mark = peer.draining.as_ref()?;
    let idle = peer.load.as_ref().is_some_and(|load| load.is_idle());
    let how = if idle { "it has no work" } else { "it still has work" };
    let what = format!("it is draining, and {how}");
    let why = if mark.forced {
        "it was ordered though it was the last one that reached a store in use: what needs that \
         waits"
    } else {
        "it gets no new work"
    };
    let action = format!("when it is to work again: penstock peer drain {} --undo", peer.peer);
    Some(Finding::new(Level::Note, "drain", what, why, action).of(&peer.peer))
}

fn clock(peer: &PeerView) -> Option<Finding> {
    let ahead = peer.clock_ahead_ms.filter(|ahead| ahead.abs() > CLOCK_MS_MAX)?;
    let way = if ahead > 0.0 { "ahead of" } else { "behind" };
    let what =
        format!("its clock is {:.1} s {way} that of the peer that answers", ahead.abs() / 1e3);
    let why = "times of events and receipts contradict each other; by minutes, certificates and \
               capabilities are refused";
    let level = if ahead.abs() > 60_000.0 { Level::Bad } else { Level::Warning };
    let action = "run chrony or another NTP client on both";
    Some(Finding::new(level, "clock", what, why, action).of(&peer.peer))
}

fn reaches(peer: &PeerView, name: &Name) -> bool {
    peer.stores.iter().any(|store| store.store == *name && !store.identity.is_empty())
}

/// Returns the faults of a peer's stores; `reached` tells whether some peer reaches a store.
fn stores(peer: &PeerView, reached: &dyn Fn(&Name) -> bool) -> Vec<Finding> {
    let finding = |store: &PeerStore| match (&store.store, store.is.as_str()) {
        (name, "offline") if reached(name) => Some(Finding::new(
            Level::Warning,
            "store",
            format!("store `{name}` is offline there, and is not at other peers"),
            "it takes no part in what uses that store",
            "mount it there",
        )),
        (name, "offline") => Some(Finding::new(
            Level::Bad,
            "store",
            format!("store `{name}` is offline: {}", store.why),
            "transfers that use it wait",
            "mount it, or correct its path in penstock.toml",
        )),
        (name, "other") => Some(Finding::new(
            Level::Bad,
            "store",
            format!("store `{name}` is another one there than at other peers"),
            "a transfer that is taken over there would not find what was written elsewhere: it \
             waits instead",
            "mount the same one everywhere, or give it another name in that penstock.toml",
        )),
        _ => None,
    };
    let found = peer.stores.iter().filter_map(finding);
    found.map(|finding| finding.of(&peer.peer)).collect()
}

fn versions(peers: &[PeerView]) -> Option<Finding> {
    let up = peers.iter().filter(|peer| !peer.version.is_empty());
    let mut versions: Vec<_> = up.map(|peer| peer.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    (versions.len() > 1).then(|| {
        Finding::new(
            Level::Note,
            "version",
            format!("the peers have versions {}", versions.join(" and ")),
            "they work together while an upgrade lasts; what is new waits until all have it",
            "finish the upgrade",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_api::cluster::LeaderCard;
    use penstock_api::operate::worst;

    fn peer(name: &str) -> PeerView {
        PeerView {
            peer: name.parse().unwrap(),
            own: false,
            presence: Presence::Up,
            since: 1,
            addresses: Vec::new(),
            version: "1.0.0".to_owned(),
            controller_since: 0,
            stores: vec![PeerStore {
                store: "data".parse().unwrap(),
                identity: "7f".to_owned(),
                is: "same".to_owned(),
                why: String::new(),
            }],
            draining: None,
            load: None,
            clock_ahead_ms: Some(3.0),
            trouble: String::new(),
        }
    }

    fn judged(change: impl Fn(&mut PeerView)) -> Level {
        let mut second = peer("h2");
        change(&mut second);
        let peers = PeersView { site: "hpc".parse().unwrap(), peers: vec![peer("h1"), second] };
        let leader = LeaderCard {
            peer: "h1".parse().unwrap(),
            instance: 1,
            addresses: Vec::new(),
            since: 1,
        };
        let cluster = ClusterView { leader: Some(leader), ..ClusterView::default() };
        worst(&judge(Some(&cluster), &peers))
    }

    /// Promise: one glance shows the health of the site: a peer that is lost, silent, late or
    /// without its store is a warning. Another store under the same name is bad, and a peer that
    /// was ended on purpose is neither.
    #[test]
    fn a_site_is_judged_by_its_peers() {
        assert_eq!(judged(|_| {}), Level::Ok);
        assert_eq!(judged(|peer| peer.presence = Presence::Lost), Level::Warning);
        assert_eq!(judged(|peer| peer.presence = Presence::Silent), Level::Warning);
        assert_eq!(judged(|peer| peer.presence = Presence::Left), Level::Note);
        assert_eq!(judged(|peer| peer.clock_ahead_ms = Some(-2000.0)), Level::Warning);
        assert_eq!(judged(|peer| "offline".clone_into(&mut peer.stores[0].is)), Level::Warning);
        assert_eq!(judged(|peer| "other".clone_into(&mut peer.stores[0].is)), Level::Bad);
        assert_eq!(judged(|peer| "1.1.0".clone_into(&mut peer.version)), Level::Note);
        let none = judge(
            Some(&ClusterView::default()),
            &PeersView { site: "hpc".parse().unwrap(), peers: vec![peer("h1")] },
        );
        assert_eq!(worst(&none), Level::Bad);
        let mut alone = peer("h1");
        alone.stores[0].identity.clear();
        "offline".clone_into(&mut alone.stores[0].is);
        "no such directory".clone_into(&mut alone.stores[0].why);
        let peers = PeersView { site: "hpc".parse().unwrap(), peers: vec![alone] };
        let lost = judge(None, &peers);
        assert_eq!(worst(&lost), Level::Bad, "nobody reaches the store");
        assert!(lost[0].what.ends_with("offline: no such directory"), "{}", lost[0].what);
    }
}
