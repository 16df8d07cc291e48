//! Events of the membership of the site: peers that join, leave, are lost, lead and drain.

use std::collections::BTreeMap;

use penstock_api::cluster::{KnownPeer, PeerCard};
use penstock_cluster::membership::ClusterNow;
use penstock_proto::id::Name;

use super::etcd::Change;

/// The membership as it was when it was last looked at; `None` before the first look.
#[derive(Default)]
pub(super) struct MembershipSeen(Option<Seen>);

#[derive(Default)]
struct Seen {
    leader: Option<(Name, u64)>,
    /// The last leader.
    led: Option<Name>,
    format: u16,
    known: BTreeMap<Name, KnownPeer>,
    cards: BTreeMap<Name, u64>,
    draining: Vec<Name>,
    trouble: String,
}

impl MembershipSeen {
    /// Compares `now` with the last look, and returns the events that follow.
    pub(super) fn changes(&mut self, now: &ClusterNow) -> Vec<Change> {
        let first = self.0.is_none();
        let before = self.0.take().unwrap_or_default();
        let seen = Seen {
            leader: now.leader.as_ref().map(|(card, revision)| (card.peer.clone(), *revision)),
            led: now.leader.as_ref().map(|(card, _)| card.peer.clone()).or(before.led.clone()),
            format: now.format,
            known: now.known.iter().map(|known| (known.peer.clone(), known.clone())).collect(),
            cards: now.peers.iter().map(|card| (card.peer.clone(), card.instance)).collect(),
            draining: now.draining.iter().map(|mark| mark.peer.clone()).collect(),
            trouble: now.trouble.clone(),
        };
        let mut changes = Vec::new();
        if !first {
            changes.extend(peer_changes(&before, &seen, &now.peers));
        }
        if before.leader != seen.leader {
            changes.push(match &seen.leader {
                Some((peer, revision)) => {
                    let instead = match before.led.as_ref().filter(|led| *led != peer) {
                        Some(led) => format!(
                            " in place of `{led}`, whose transfers resume from their ledgers"
                        ),
                        None => String::new(),
                    };
                    let text =
                        format!("peer `{peer}` is the controller, epoch {revision}{instead}");
                    ("controller", format!("{peer}#{revision}"), text)
                }
                None => {
                    let text = "no peer is the controller: nothing is finished until one is";
                    ("no-controller", String::new(), text.to_owned())
                }
            });
        }
        if before.format != 0 && before.format != seen.format {
            let (old, new) = (before.format, seen.format);
            let text = format!("the site's records are of format {new} from now on, not {old}");
            changes.push(("format", new.to_string(), text));
        }
        if before.trouble != seen.trouble {
            let text = match seen.trouble.as_str() {
                "" => "this peer takes part again".to_owned(),
                trouble => format!("this peer cannot take part: {trouble}"),
            };
            changes.push(("etcd", String::new(), text));
        }
        self.0 = Some(seen);
        changes
    }
}

fn peer_changes(before: &Seen, now: &Seen, cards: &[PeerCard]) -> Vec<Change> {
    let mut changes = Vec::new();
    for card in cards {
        let joined = match before.cards.get(&card.peer) {
            None => before.known.get(&card.peer).is_none_or(|known| {
                known.instance != card.instance || known.lost > 0 || known.left > 0
            }),
            Some(instance) => *instance != card.instance,
        };
        if joined {
            let text = format!("peer `{}` is up, version {}", card.peer, card.version);
            changes.push(("peer-joined", format!("{}#{}", card.peer, card.instance), text));
        }
    }
    for (peer, known) in &now.known {
        let old = before.known.get(peer);
        if known.lost > 0 && old.is_none_or(|old| old.lost == 0) {
            let text = format!(
                "peer `{peer}` is lost: its lease has ended; the other peers continue without it"
            );
            changes.push(("peer-lost", format!("{peer}#{}", known.instance), text));
        }
        if known.left > 0 && old.is_none_or(|old| old.left == 0) {
            let text = format!("peer `{peer}` was ended in order");
            changes.push(("peer-left", format!("{peer}#{}", known.instance), text));
        }
    }
    for peer in now.draining.iter().filter(|peer| !before.draining.contains(peer)) {
        let text = format!("peer `{peer}` is draining: it gets no new work");
        changes.push(("drain", peer.to_string(), text));
    }
    for peer in before.draining.iter().filter(|peer| !now.draining.contains(peer)) {
        changes.push(("undrain", peer.to_string(), format!("peer `{peer}` takes work again")));
    }
    changes
}
