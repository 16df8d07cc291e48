//! Choice of links where there are more than may be used.

use std::collections::BTreeMap;

use penstock_proto::id::Name;

/// Identity of a link: the interface here, and the network there, or its address if it has no name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Link {
    /// The interface here, or a substitute for its name.
    pub device: String,
    /// The remote peer.
    pub peer: Name,
    /// Its network, or its address.
    pub card: String,
}

/// Property that links have in common: each is to be used equally often.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Part<'a> {
    Device(&'a str),
    Peer(&'a Name),
    Card(&'a Name, &'a str),
    /// A device and the index of a card within its peer: the first cards of peers are mostly on one
    /// network, the second ones on another, and a device may reach only one of those.
    Rail(&'a str, usize),
    /// A device and a peer.
    Meeting(&'a str, &'a Name),
}

/// The parts of one link, numbered.
#[derive(Clone, Copy)]
struct Parts {
    device: usize,
    peer: usize,
    card: usize,
    rail: usize,
    meeting: usize,
}

impl Parts {
    fn all(self) -> [usize; 5] {
        [self.device, self.peer, self.card, self.rail, self.meeting]
    }
}

/// Numbers the parts of links.
#[derive(Default)]
struct Numbers<'a> {
    parts: BTreeMap<Part<'a>, usize>,
    cards: BTreeMap<&'a Name, Vec<&'a str>>,
}

impl<'a> Numbers<'a> {
    fn of(&mut self, link: &'a Link) -> Parts {
        let Link { device, peer, card } = link;
        let cards = self.cards.entry(peer).or_default();
        let place = cards.iter().position(|known| known == card).unwrap_or_else(|| {
            cards.push(card);
            cards.len() - 1
        });
        let mut number = |part| {
            let next = self.parts.len();
            *self.parts.entry(part).or_insert(next)
        };
        Parts {
            device: number(Part::Device(device)),
            peer: number(Part::Peer(peer)),
            card: number(Part::Card(peer, card)),
            rail: number(Part::Rail(device, place)),
            meeting: number(Part::Meeting(device, peer)),
        }
    }
}

/// Chooses `room` of the links `offered`, beside those `known`; returns their indices, in the order
/// of use. A link with a device, peer or card that is not used yet comes first, then one whose
/// parts are used least. Between equals, peers are taken in turn from the one at `start`,
/// cyclically.
pub(super) fn spread(known: &[Link], offered: &[Link], start: u64, room: usize) -> Vec<usize> {
    let mut numbers = Numbers::default();
    let used: Vec<Parts> = known.iter().map(|link| numbers.of(link)).collect();
    let mut left: Vec<(usize, Parts)> =
        offered.iter().enumerate().map(|(at, link)| (at, numbers.of(link))).collect();
    let mut uses = vec![0u32; numbers.parts.len()];
    let count = |uses: &mut [u32], parts: Parts| parts.all().iter().for_each(|at| uses[*at] += 1);
    used.into_iter().for_each(|parts| count(&mut uses, parts));
    let turns = turns(offered, start);
    let mut chosen = Vec::new();
    while chosen.len() < room {
        let key = |(at, parts): &(usize, Parts)| {
            let Parts { device, peer, card, rail, meeting } = *parts;
            let old = [device, peer, card].into_iter().filter(|part| uses[*part] > 0).count();
            let used = [device, rail, meeting, peer, card].map(|part| uses[part]);
            (old, used, turns[*at], *at)
        };
        let Some(best) = (0..left.len()).min_by_key(|at| key(&left[*at])) else { break };
        let (at, parts) = left.swap_remove(best);
        count(&mut uses, parts);
        chosen.push(at);
    }
    chosen
}

/// Returns the turn of each link's peer.
fn turns(offered: &[Link], start: u64) -> Vec<usize> {
    let mut peers: Vec<&Name> = offered.iter().map(|link| &link.peer).collect();
    peers.sort();
    peers.dedup();
    let count = peers.len().max(1);
    let start = (start % count as u64) as usize;
    let turn = |link: &Link| {
        let place = peers.binary_search(&&link.peer).unwrap_or(0);
        (place + count - start) % count
    };
    offered.iter().map(turn).collect()
}
