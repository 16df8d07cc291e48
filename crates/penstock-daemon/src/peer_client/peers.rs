//! The choice of the peers that may take part in a transfer, and of the peer that works for all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use penstock_api::cluster::{PeerCard, StoreCard};
use penstock_api::delete::{DeleteOrder, SurplusQuery};
use penstock_api::peers::{Member, PartNews, Peers};
use penstock_api::problem::Problem;
use penstock_api::proof::ProofProgress;
use penstock_api::request::{PeerReply, TargetRequest};
use penstock_api::rpc::task::{Caller, PEER_API_VERSION};
use penstock_api::task::{TargetPeer, Task, TaskControl, TaskSpec};
use penstock_cluster::membership::ClusterNow;
use penstock_proto::id::{Name, PeerId, TransferId, WriterId};
use penstock_proto::network::DataAddress;
use penstock_proto::units::Instant;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::client::PeerClient;
use super::peer::RemotePeer;
use crate::cluster::target_side::TargetSide;
use crate::events::log::EventLog;
use crate::leases::Leases;
use crate::site::exports::Exports;
use crate::site::store_cards::IN_MEMORY;

/// The other peers of the site, as its controller sees them.
#[derive(Clone)]
pub(crate) struct Others {
    pub(crate) own: PeerId,
    pub(crate) client: PeerClient,
    pub(crate) runtime: Handle,
    pub(crate) now: watch::Receiver<Arc<ClusterNow>>,
    pub(crate) caller: Caller,
    /// Receives the peers that join and leave a run.
    pub(crate) events: Arc<EventLog>,
    pub(crate) leases: Arc<Leases>,
}

impl Others {
    /// Returns the way to a peer.
    pub(crate) fn remote(&self, card: &PeerCard) -> RemotePeer {
        RemotePeer {
            name: card.peer.clone(),
            addresses: card.addresses.clone(),
            client: self.client.clone(),
            runtime: self.runtime.clone(),
            caller: self.caller.clone(),
            leases: Arc::clone(&self.leases),
        }
    }

    /// Returns the cards of all peers, this host's first.
    fn own_first<'a>(
        &self,
        now: &'a ClusterNow,
    ) -> impl Iterator<Item = &'a PeerCard> + Clone + use<'a> {
        let own = now.peers.iter().find(|card| card.peer == self.own.peer);
        own.into_iter().chain(now.peers.iter())
    }

    /// Returns another peer that has a store of this name, speaks our version, and can read the
    /// site's records. A peer that sees the store is preferred.
    fn with_store(&self, store: &Name) -> Option<PeerCard> {
        let now = Arc::clone(&self.now.borrow());
        let others = now.fit_peers().filter(|card| card.peer != self.own.peer);
        let others = others.filter(|card| card.protocol == PEER_API_VERSION);
        let others = others.filter(|card| told_of(card, store).is_some());
        others.min_by_key(|card| !sees(card, store)).cloned()
    }

    /// Returns whether this host sees nothing at the path of a store that another peer sees: the
    /// store is not mounted here.
    pub(super) fn lacks(&self, store: &Name) -> bool {
        let now = Arc::clone(&self.now.borrow());
        let own = now.peers.iter().find(|card| card.peer == self.own.peer);
        own.is_some_and(|own| !sees(own, store)) && now.peers.iter().any(|card| sees(card, store))
    }
}

/// Returns whether a peer reports an identity of a store.
fn sees(card: &PeerCard, store: &Name) -> bool {
    told_of(card, store).is_some_and(|told| !told.identity.is_empty())
}

/// Returns the id by which peers ask each other for a store, from a card. A store in memory, or
/// without an identity, has none.
fn id_of(told: &StoreCard) -> Option<u64> {
    let id = u64::from_str_radix(told.identity.get(..16)?, 16).ok()?;
    Some(id.swap_bytes())
}

/// Returns a peer's report of a store, if it has one of this name.
pub(super) fn told_of<'a>(card: &'a PeerCard, store: &Name) -> Option<&'a StoreCard> {
    card.stores.iter().find(|known| known.store == *store)
}

/// Returns the reason why a peer takes no part in transfers to a store, if it does not. `seen` is
/// the store as the site knows it, by the controller's own peer if that has it. A peer without
/// knowledge of the store is asked before it starts, as it may have the store all the same (A5). A
/// peer with other file systems mounted within the store would write beneath those that the others
/// see (C3).
fn left_out(card: &PeerCard, store: &Name, seen: Option<&StoreCard>) -> Option<String> {
    let in_memory = told_of(card, store).is_some_and(|told| told.identity == IN_MEMORY);
    cannot_read(card, store, seen)
        .or_else(|| in_memory.then(|| format!("its store `{store}` is in the memory of that peer")))
}

/// Returns the reason why a peer cannot read from a store for this controller, as [`left_out`]
/// does.
pub(super) fn cannot_read(
    card: &PeerCard,
    store: &Name,
    seen: Option<&StoreCard>,
) -> Option<String> {
    let Some(told) = told_of(card, store) else {
        return Some(format!("it has no store `{store}`"));
    };
    if card.protocol != PEER_API_VERSION {
        let (theirs, release) = (card.protocol, &card.version);
        return Some(format!(
            "it speaks version {theirs} (release {release}), the controller {PEER_API_VERSION}"
        ));
    }
    if card.addresses.is_empty() {
        return Some("the peer has no known address".to_owned());
    }
    let seen = seen?;
    if told.mapped != seen.mapped {
        return Some(format!("its configuration has another `account` for store `{store}`"));
    }
    if !told.identity.is_empty() && !seen.identity.is_empty() && told.identity != seen.identity {
        return Some(format!("its store `{store}` is another one"));
    }
    let named = |mounts: &str| if mounts.is_empty() { "nothing".to_owned() } else { mounts.into() };
    (told.mounts != seen.mounts).then(|| {
        let (there, here) = (named(&told.mounts), named(&seen.mounts));
        format!("mounted within its store `{store}` is {there}, elsewhere {here}")
    })
}

/// Returns the reason why a peer's release is too old for the site's records, if it is.
pub(super) fn too_old(card: &PeerCard, format: u16) -> Option<String> {
    let reads = format == 0 || card.formats.contains(format);
    let release = &card.version;
    (!reads).then(|| format!("its release {release} cannot read records of format {format}"))
}

/// Returns a store as the site knows it: by its identity at the first of these peers that reports
/// one, or by any report of it.
pub(super) fn seen_of<'a>(
    cards: impl Iterator<Item = &'a PeerCard> + Clone,
    store: &Name,
) -> Option<&'a StoreCard> {
    let told = || cards.clone().filter_map(|card| told_of(card, store));
    told().find(|told| !told.identity.is_empty()).or_else(|| told().next())
}

/// The peers that may take part in one run: this host and other peers that reach its store.
pub(crate) struct SitePeers {
    pub(crate) own: Arc<dyn TargetPeer>,
    /// Stores of this host, as they are configured now.
    pub(crate) stores: Exports,
    pub(crate) store: Name,
    /// The store that they read from themselves: of the own site.
    pub(crate) reads: Option<Name>,
    pub(crate) others: Others,
    pub(crate) grant: Duration,
    /// The peers that were left out, and the reasons, when that was last checked.
    pub(crate) told: Mutex<BTreeMap<Name, String>>,
}

impl SitePeers {
    /// Returns whether this host has the store, and that which is read.
    fn has_stores(&self) -> bool {
        self.stores.has(&self.store) && self.reads.as_ref().is_none_or(|read| self.stores.has(read))
    }

    /// Logs the peers that take no part, once.
    fn tell(&self, left: BTreeMap<Name, String>) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if *told == left {
            return;
        }
        for (peer, why) in left.iter().filter(|(peer, why)| told.get(*peer) != Some(*why)) {
            tracing::info!(store = %self.store, %peer, why, "a peer takes no part");
        }
        *told = left;
    }
}

impl Peers for SitePeers {
    fn present(&self) -> Vec<Member> {
        let now = Arc::clone(&self.others.now.borrow());
        let cards = self.others.own_first(&now);
        let seen = seen_of(cards.clone(), &self.store);
        let read = self.reads.as_ref().map(|store| (store, seen_of(cards, store)));
        let drains = |peer: &Name| now.draining.iter().any(|mark| mark.peer == *peer);
        let mut members = Vec::new();
        if self.has_stores() {
            members.push(Member {
                name: self.others.own.peer.to_string(),
                writer: WriterId::of(&self.others.own),
                // This very process, whatever its card has: it is never another one.
                instance: 0,
                is_own: true,
                is_draining: drains(&self.others.own.peer),
                peer: Arc::clone(&self.own),
            });
        }
        let mut left = BTreeMap::new();
        for card in now.peers.iter().filter(|card| card.peer != self.others.own.peer) {
            let why = left_out(card, &self.store, seen)
                .or_else(|| read.and_then(|(store, seen)| cannot_read(card, store, seen)))
                .or_else(|| too_old(card, now.format));
            if let Some(why) = why {
                left.insert(card.peer.clone(), why);
                continue;
            }
            let id = PeerId { site: self.others.own.site.clone(), peer: card.peer.clone() };
            members.push(Member {
                name: card.peer.to_string(),
                writer: WriterId::of(&id),
                instance: card.instance,
                is_own: false,
                is_draining: drains(&card.peer),
                peer: Arc::new(self.others.remote(card)),
            });
        }
        self.tell(left);
        members
    }

    fn left_out(&self) -> Vec<(String, String)> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.iter().map(|(peer, why)| (peer.to_string(), why.clone())).collect()
    }

    fn store_id(&self) -> Option<u64> {
        let now = Arc::clone(&self.others.now.borrow());
        seen_of(self.others.own_first(&now), &self.store).and_then(id_of)
    }

    fn grant(&self) -> Option<Duration> {
        Some(self.grant)
    }

    fn now(&self) -> Instant {
        penstock_sys::boottime_now()
    }

    fn tell(&self, transfer: TransferId, peer: &str, news: &PartNews) {
        self.others.events.see_part(transfer, peer, news);
    }
}

/// The site's target side where one peer does something for all: this host's, if it has the store
/// and sees it; else another peer's that has it.
pub(crate) struct SiteTarget {
    pub(crate) own: Arc<dyn TargetPeer>,
    /// Stores of this host, as they are configured now.
    pub(crate) stores: Exports,
    pub(crate) others: Others,
}

impl SiteTarget {
    /// Returns the whole target side of the site, with grants of this duration.
    pub(crate) fn into_side(self, grant: Duration) -> TargetSide {
        let target = Arc::new(self);
        let site = Arc::clone(&target);
        let peers = move |store: &Name, reads: Option<&Name>| {
            let peers = SitePeers {
                own: Arc::clone(&site.own),
                stores: site.stores.clone(),
                store: store.clone(),
                reads: reads.cloned(),
                others: site.others.clone(),
                grant,
                told: Mutex::default(),
            };
            Arc::new(peers) as Arc<dyn Peers>
        };
        TargetSide { target, peers: Arc::new(peers) }
    }

    fn of(&self, store: &Name) -> Arc<dyn TargetPeer> {
        let has = self.stores.has(store) && !self.others.lacks(store);
        let other = if has { None } else { self.others.with_store(store) };
        // The own host also reports unknown stores.
        other.map_or_else(|| Arc::clone(&self.own), |card| Arc::new(self.others.remote(&card)))
    }
}

impl TargetPeer for SiteTarget {
    fn call(
        &self,
        request: TargetRequest<'_>,
        progress: &ProofProgress,
    ) -> Result<PeerReply, Problem> {
        self.of(request.store()).call(request, progress)
    }

    fn find_surplus(&self, spec: &TaskSpec, query: SurplusQuery<'_>) -> Result<u64, Problem> {
        self.of(&spec.store).find_surplus(spec, query)
    }

    fn delete(&self, spec: &TaskSpec, order: DeleteOrder<'_>) -> Result<(), Problem> {
        self.of(&spec.store).delete(spec, order)
    }

    fn start(
        &self,
        spec: &TaskSpec,
        control: Arc<dyn TaskControl>,
    ) -> Result<Arc<dyn Task>, Problem> {
        self.of(&spec.store).start(spec, control)
    }

    fn expect_source(&self, store: &Name, site: &Name, peers: &[DataAddress], lanes_max: u32) {
        if self.stores.has(store) {
            self.own.expect_source(store, site, peers, lanes_max);
        }
    }
}

#[cfg(test)]
mod tests {
    use penstock_store::StoreIdentity;

    use super::*;

    fn card(identity: &str) -> PeerCard {
        PeerCard {
            peer: "h2".parse().unwrap(),
            instance: 1,
            addresses: vec!["127.0.0.1:1".parse().unwrap()],
            data: Vec::new(),
            version: "9.9.9".to_owned(),
            protocol: PEER_API_VERSION,
            formats: penstock_proto::version::known().formats(),
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
            since: 0,
            key: String::new(),
            keys_at: Vec::new(),
        }
    }

    /// A5, C3: a peer that sees another store under the name, or none that can be shared, takes no
    /// part. During a rolling upgrade, neither does a peer that speaks another version. Each with a
    /// reason.
    #[test]
    fn a5_who_sees_another_store_takes_no_part() {
        let (data, other) = ("data".parse().unwrap(), "other".parse().unwrap());
        let seen = |identity: &str| card(identity).stores.pop();
        let out =
            |told: &str, identity: &str| left_out(&card(told), &data, seen(identity).as_ref());
        assert_eq!(out("aa", "aa"), None);
        assert_eq!(out("", "aa"), None, "it is asked before it begins");
        assert_eq!(out("aa", ""), None);
        assert_eq!(left_out(&card("aa"), &data, None), None);
        assert!(out("bb", "aa").unwrap().contains("another one"));
        assert!(left_out(&card("aa"), &other, seen("aa").as_ref()).unwrap().contains("no store"));
        assert!(out(IN_MEMORY, "").unwrap().contains("memory"));
        let old = PeerCard { protocol: 0, ..card("aa") };
        assert!(left_out(&old, &data, seen("aa").as_ref()).unwrap().contains("9.9.9"));
        let silent = PeerCard { addresses: Vec::new(), ..card("aa") };
        assert!(left_out(&silent, &data, seen("aa").as_ref()).is_some());
    }

    /// A5: the id in a card is the one that peers ask for.
    #[test]
    fn a5_a_card_tells_the_id_that_peers_ask_for() {
        let identity = StoreIdentity { id: *b"0123456789abcdef", created_seconds: 1 };
        let told = card(&identity.id_hex()).stores.remove(0);
        assert_eq!(id_of(&told), Some(u64::from_le_bytes(*b"01234567")));
        for none in ["", IN_MEMORY, "aa"] {
            assert_eq!(id_of(&card(none).stores[0]), None, "{none}");
        }
    }

    /// C3: a peer with fewer or more mounts within the store would write beneath those that the
    /// others see. It takes no part, and the reason names the mounts of each.
    #[test]
    fn c3_who_lacks_a_mount_within_the_store_takes_no_part() {
        let data = "data".parse().unwrap();
        let with = |mounts: &str| {
            let mut card = card("aa");
            card.stores[0].mounts = mounts.to_owned();
            card
        };
        let seen = |mounts: &str| with(mounts).stores.pop();
        let out = |told: &str, here: &str| left_out(&with(told), &data, seen(here).as_ref());
        assert_eq!(out("home (nfs4)", "home (nfs4)"), None);
        let why = out("", "home (nfs4)").unwrap();
        assert!(why.contains("nothing, elsewhere home (nfs4)"), "{why}");
        assert!(out("home (nfs4)", "").is_some());
        assert!(out("home (xfs)", "home (nfs4)").is_some());
    }
}
