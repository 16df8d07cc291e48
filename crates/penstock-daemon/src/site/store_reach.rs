//! Returns the peers that reach a store, by their cards.

use penstock_api::cluster::{PeerCard, StoreCard};
use penstock_api::operate::PeerStore;
use penstock_cluster::membership::ClusterNow;
use penstock_proto::id::Name;

/// Returns the identities that peers other than `of` see for a store.
fn seen_elsewhere<'a>(store: &Name, of: &Name, cards: &'a [PeerCard]) -> Vec<&'a str> {
    let others = cards.iter().filter(|card| card.peer != *of);
    let stores = others.flat_map(|card| card.stores.iter().filter(|other| other.store == *store));
    stores.map(|other| other.identity.as_str()).filter(|identity| !identity.is_empty()).collect()
}

/// Returns a store of one peer beside those of the others.
pub(crate) fn compared(store: &StoreCard, of: &Name, cards: &[PeerCard]) -> PeerStore {
    let others = seen_elsewhere(&store.store, of, cards);
    let is = match store.identity.as_str() {
        "" if !others.is_empty() || !store.trouble.is_empty() => "offline",
        "" => "new",
        _ if others.is_empty() => "alone",
        own if others.iter().any(|other| *other != own) => "other",
        _ => "same",
    };
    let why = if is == "offline" { store.trouble.clone() } else { String::new() };
    let (name, identity) = (store.store.clone(), store.identity.clone());
    PeerStore { store: name, identity, is: is.to_owned(), why }
}

/// Returns whether others see a store that this peer has not seen: one that is gone here, or a new
/// one that has got its identity since it looked.
pub(crate) fn lacks_store(own: &PeerCard, cards: &[PeerCard]) -> bool {
    own.stores.iter().any(|store| {
        store.identity.is_empty() && !seen_elsewhere(&store.store, &own.peer, cards).is_empty()
    })
}

/// Returns whether a peer has a store with an identity: one that is mounted there.
pub(crate) fn reaches(card: &PeerCard, store: &Name) -> bool {
    card.stores.iter().any(|found| found.store == *store && !found.identity.is_empty())
}

/// Returns whether a peer that is to be drained stops serving: another one reaches each of its
/// stores, or the order forces it.
pub(crate) fn stops_serving(now: &ClusterNow, own: &Name) -> bool {
    let Some(mark) = now.draining.iter().find(|mark| mark.peer == *own) else { return false };
    let others = |card: &&PeerCard| card.peer != *own && !now.is_draining(&card.peer);
    let others: Vec<_> = now.peers.iter().filter(others).collect();
    let stores = now.peers.iter().find(|card| card.peer == *own).map(|card| &card.stores);
    let mut stores = stores.into_iter().flatten();
    mark.forced
        || (!others.is_empty()
            && stores.all(|store| {
                store.identity.is_empty() || others.iter().any(|card| reaches(card, &store.store))
            }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A5: a store that a peer does not reach, or that is another one there, is distinguished from
    /// one that all share.
    #[test]
    fn a5_stores_are_compared_between_peers() {
        let card = |peer: &str, identity: &str| PeerCard {
            peer: peer.parse().unwrap(),
            instance: 1,
            addresses: Vec::new(),
            data: Vec::new(),
            version: String::new(),
            boot: String::new(),
            stores: vec![StoreCard {
                store: "data".parse().unwrap(),
                identity: identity.to_owned(),
                mounts: String::new(),
                rights: Default::default(),
                trouble: String::new(),
                mapped: false,
            }],
            running: 0,
            protocol: 1,
            formats: penstock_proto::version::VersionRange::FIRST,
            since: 0,
            key: String::new(),
            keys_at: Vec::new(),
        };
        let is = |identities: [&str; 3]| {
            let cards: Vec<_> =
                identities.iter().zip(["a", "b", "c"]).map(|(id, peer)| card(peer, id)).collect();
            let is = compared(&cards[0].stores[0], &cards[0].peer, &cards).is;
            assert_eq!(lacks_store(&cards[0], &cards), is == "offline");
            is
        };
        assert_eq!(is(["7f", "7f", "7f"]), "same");
        assert_eq!(is(["7f", "7f", ""]), "same");
        assert_eq!(is(["", "7f", "7f"]), "offline");
        assert_eq!(is(["aa", "7f", "7f"]), "other");
        assert_eq!(is(["", "", ""]), "new");
        assert_eq!(is(["7f", "", ""]), "alone");
        let mut alone = card("a", "");
        alone.stores[0].trouble = "no such directory".to_owned();
        let only = compared(&alone.stores[0], &alone.peer, &[]);
        assert_eq!((only.is.as_str(), only.why.as_str()), ("offline", "no such directory"));
        assert!(!lacks_store(&alone, &[]), "no other peer sees it");
    }
}
