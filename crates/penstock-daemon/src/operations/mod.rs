//! Requests of operators that any peer of a site answers: the peers and their work, events, paths
//! of a transfer, health.
//!
//! The peer that receives a request answers it, also without a controller, when the answers are
//! needed most. It asks other peers directly for facts that only they have, with a short deadline;
//! the answer names silent peers. Orders that change the site's state (`drain`, `forget`) are the
//! controller's ([`drain`]).

pub(crate) mod audit;
pub(crate) mod benchmarks;
pub(crate) mod drain;
pub(crate) mod probe;
mod routes;
pub(crate) mod statistics;
pub(crate) mod stores;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_api::cluster::{KnownPeer, PeerCard, StoreCard};
use penstock_api::operate::{
    EVENTS_SHOWN_MAX, Finding, PeerLoad, PeerStore, PeerView, PeersView, Presence, SiteEvent,
    SiteHealthView, TransferPaths, worst,
};
use penstock_api::problem::{ObjectKind, Problem, ProblemCode};
use penstock_cluster::etcd::Compaction;
use penstock_cluster::keys::Keys;
use penstock_cluster::membership::ClusterNow;
use penstock_net::trust::{Purpose, client_config};
use penstock_peer::{SourceService, TargetService};
use penstock_proto::id::{Name, TransferId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;

use super::cluster::controller::Controller;
use super::cluster::member::Member;
use super::events::log::{EventLog, now_ms};
use super::site::client::Sites;
use super::site::context::Site;
use super::site::store_cards::store_cards;
use super::site::store_reach::compared;
use crate::checks::measured::Measured;
use crate::http;
use penstock_exit::cause::innermost;

/// The time that another peer of the site has for an answer.
const ASK: Duration = Duration::from_secs(2);
/// Path of the request by which peers of one site ask each other for their present work.
const OWN: &str = "/peer/v1/own";

/// The parts that answers need.
pub(crate) struct Operate {
    pub(crate) site: Arc<Site>,
    pub(crate) sites: Arc<Sites>,
    pub(crate) target: Arc<TargetService>,
    pub(crate) source: Arc<SourceService>,
    pub(crate) events: Arc<EventLog>,
    pub(crate) runtime: Handle,
    pub(crate) member: Arc<Member>,
    client: reqwest::Client,
}

/// Answers of peers, each with its duration, or the reason why there is none.
type Answers<T> = BTreeMap<Name, Result<(T, Duration), AskError>>;

/// The reason why another peer of the site gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// The peer belongs to the site and is not present.
    #[error("it is not there")]
    Away,
    /// The request could not be made.
    #[error("it was not asked")]
    NotAsked,
    /// Its card names no address.
    #[error("the peer has no known address")]
    NoAddress,
    /// The last address that was tried sent nothing in time.
    #[error("no answer from {address} within {} s", .limit.as_secs())]
    TimedOut { address: SocketAddr, limit: Duration },
    /// The connection to the last address that was tried failed.
    #[error("{address}: {}", innermost(.cause))]
    Broken { address: SocketAddr, cause: reqwest::Error },
    /// The peer answered with a problem, or with text that this release does not understand.
    #[error(transparent)]
    Answered(#[from] Problem),
}

/// Parts of an [`Operate`] that the daemon has anyway.
pub(crate) struct OperateParts {
    pub(crate) site: Arc<Site>,
    pub(crate) sites: Arc<Sites>,
    pub(crate) target: Arc<TargetService>,
    pub(crate) source: Arc<SourceService>,
    pub(crate) events: Arc<EventLog>,
    pub(crate) runtime: Handle,
}

impl Operate {
    /// # Errors
    /// TLS cannot be set up.
    pub(crate) fn new(parts: OperateParts, member: Arc<Member>) -> anyhow::Result<Self> {
        let OperateParts { site, sites, target, source, events, runtime } = parts;
        let own = Some(site.config.site.clone());
        let tls = client_config(Purpose::SiteApi, &site.identity, &site.trust, own, &site.suites)?;
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured((*tls).clone())
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(ASK)
            .build()?;
        Ok(Self { site, sites, target, source, events, runtime, member, client })
    }

    /// Returns the controller, if it is this peer.
    fn controller(&self) -> Option<Controller> {
        self.member.controller()
    }

    fn own(&self) -> &Name {
        &self.site.config.peer
    }

    pub(crate) fn now(&self) -> Arc<ClusterNow> {
        self.member.now()
    }

    /// Returns the present work of this peer.
    pub(crate) fn load(&self) -> PeerLoad {
        let controller = self.controller();
        let counts = controller.as_ref().map(|controller| controller.manager.counts());
        let (running, queued) = counts.unwrap_or_default();
        PeerLoad {
            peer: self.own().clone(),
            leads: controller.is_some(),
            running,
            queued,
            lanes_served: self.source.lanes_served(),
            tasks: self.target.loads(self.own()),
            host_load: crate::checks::host::host_load(),
            clock_ms: now_ms(),
        }
    }

    /// Asks other peers of the site the same at once; returns each answer, and the milliseconds
    /// from the question to it. Blocks for [`ASK`] at most.
    pub(crate) fn ask_all<T: DeserializeOwned + Send + 'static>(
        &self,
        cards: &[PeerCard],
        path: &str,
    ) -> Answers<T> {
        self.ask_peers(cards, path, None, ASK)
    }

    /// Asks all peers as [`Self::ask_all`] does, with a body; `limit` bounds how long it blocks.
    pub(crate) fn ask_all_with<T: DeserializeOwned + Send + 'static>(
        &self,
        cards: &[PeerCard],
        path: &str,
        body: &impl Serialize,
        limit: Duration,
    ) -> Answers<T> {
        match http::encode(body) {
            Ok(body) => self.ask_peers(cards, path, Some(body), limit),
            Err(_) => BTreeMap::new(),
        }
    }

    fn ask_peers<T: DeserializeOwned + Send + 'static>(
        &self,
        cards: &[PeerCard],
        path: &str,
        body: Option<Vec<u8>>,
        limit: Duration,
    ) -> Answers<T> {
        let others = cards.iter().filter(|card| card.peer != *self.own());
        let asked: Vec<_> = others
            .map(|card| {
                let (client, peer, body) = (self.client.clone(), card.peer.clone(), body.clone());
                let (addresses, path) = (card.addresses.clone(), format!("{OWN}{path}"));
                self.runtime.spawn(async move {
                    (peer, ask(&client, &addresses, &path, body, limit).await)
                })
            })
            .collect();
        self.runtime.block_on(async {
            let mut answers = BTreeMap::new();
            for asked in asked {
                // A panic there is no answer.
                if let Ok((peer, answer)) = asked.await {
                    answers.insert(peer, answer);
                }
            }
            answers
        })
    }

    /// Returns the peers of this site. Blocks for [`ASK`] at most.
    pub(crate) fn peers(&self) -> PeersView {
        let site = self.site.config.site.clone();
        let now = self.now();
        let mut loads = self.ask_all::<PeerLoad>(&now.peers, "/load");
        let mut cards = now.peers.clone();
        if cards.iter().all(|card| card.peer == *self.own()) {
            // There is no other peer to compare its stores with. They are checked every two
            // seconds, so no request waits for a hung one.
            let looked = self.events.store_cards();
            let stores = looked.unwrap_or_else(|| store_cards(&self.site.stores()));
            cards = vec![self.member.card_with(stores)];
        } else if cards.iter().all(|card| card.peer != *self.own()) {
            // This peer has no lease: other peers do not see it, but its own callers do.
            cards.push(self.member.own_card());
        }
        let mut peers: Vec<_> = cards
            .iter()
            .map(|card| {
                let load = loads.remove(&card.peer);
                let view = self.peer_view(&now, card, &cards);
                self.with_load(view, load)
            })
            .collect();
        let gone = now.known.iter().filter(|known| cards.iter().all(|c| c.peer != known.peer));
        peers.extend(gone.map(|known| gone_view(&now, known)));
        peers.sort_by(|a, b| a.peer.cmp(&b.peer));
        PeersView { site, peers }
    }

    /// Returns a store of this peer, compared with those of the others; a store that has
    /// disappeared since is offline.
    fn own_store(&self, card: &StoreCard, cards: &[PeerCard]) -> PeerStore {
        let store = compared(card, self.own(), cards);
        match store.is.as_str() {
            "new" if self.events.is_lost(&card.store) => {
                let why = "at its path is another directory, as after an unmount".to_owned();
                PeerStore { is: "offline".to_owned(), why, ..store }
            }
            _ => store,
        }
    }

    fn peer_view(&self, now: &ClusterNow, card: &PeerCard, cards: &[PeerCard]) -> PeerView {
        let leader = now.leader.as_ref().filter(|(leader, _)| leader.peer == card.peer);
        let store = |store: &StoreCard| match card.peer == *self.own() {
            true => self.own_store(store, cards),
            false => compared(store, &card.peer, cards),
        };
        PeerView {
            peer: card.peer.clone(),
            own: card.peer == *self.own(),
            presence: Presence::Up,
            since: card.since,
            addresses: card.addresses.clone(),
            version: card.version.clone(),
            controller_since: leader.map_or(0, |(leader, _)| leader.since),
            stores: card.stores.iter().map(store).collect(),
            draining: now.draining.iter().find(|mark| mark.peer == card.peer).cloned(),
            load: None,
            clock_ahead_ms: None,
            trouble: String::new(),
        }
    }

    fn with_load(
        &self,
        mut view: PeerView,
        load: Option<Result<(PeerLoad, Duration), AskError>>,
    ) -> PeerView {
        if view.own {
            view.load = Some(self.load());
            view.trouble = self.now().trouble.clone();
            return view;
        }
        match load {
            Some(Ok((load, took))) => {
                let halfway = now_ms() as f64 - took.as_secs_f64() * 500.0;
                view.clock_ahead_ms = Some(load.clock_ms as f64 - halfway);
                view.load = Some(load);
            }
            Some(Err(why)) => {
                (view.presence, view.trouble) = (Presence::Silent, why.to_string());
            }
            None => {}
        }
        view
    }

    /// Returns the findings about this host. Blocks on storage and on etcd.
    pub(crate) fn doctor(&self) -> Vec<Finding> {
        let site = &self.site;
        let mut measured = Vec::new();
        for (other, _) in site.trust.sites() {
            for note in self.target.known_paths(&other) {
                let said = note.ends.rate_bits_per_s().unwrap_or(0) as f64;
                let Some(rtt) = note.rtt else { continue };
                measured.push(Measured {
                    site: other.clone(),
                    path: note.ends.to_string(),
                    rtt,
                    rate_bits_per_s: said.max(note.rate * 8.0),
                });
            }
        }
        let config = site.settings.now();
        let mut findings = crate::checks::local(Some((&config, &site.directory)), &measured);
        if let Some(election) = self.member.election() {
            let mut etcd = election.etcd.health(ASK);
            let key = Keys::of(&site.config.site).leader();
            let off = election.etcd.compaction(&key, ASK) == Ok(Compaction::Off);
            if let Some(first) = etcd.first_mut() {
                first.is_uncompacted = off;
            }
            findings.extend(crate::checks::etcd::judge(&etcd));
        }
        findings
    }

    /// Returns whether the site is healthy. Blocks for some seconds at most.
    pub(crate) fn health(&self) -> SiteHealthView {
        let peers = self.peers();
        let cluster = self.member.view();
        let findings = crate::checks::site::judge(cluster.as_ref(), &peers);
        let level = worst(&findings);
        SiteHealthView { level, findings, peers, cluster }
    }

    /// Returns the reports of this site's peers about a transfer's shares. Blocks for [`ASK`] at
    /// most.
    pub(crate) fn transfer_paths(&self, id: TransferId) -> TransferPaths {
        let now = self.now();
        let mut paths = TransferPaths { shares: self.load().tasks, silent: Vec::new() };
        for (peer, answer) in self.ask_all::<PeerLoad>(&now.peers, "/load") {
            match answer {
                Ok((load, _)) => paths.shares.extend(load.tasks),
                Err(_) => paths.silent.push(peer),
            }
        }
        paths.shares.retain(|share| share.transfer == id);
        paths
    }

    /// Returns the last events of the site, oldest first: an event that several peers have seen
    /// appears once. Blocks for [`ASK`] at most.
    pub(crate) fn site_events(&self, id: Option<TransferId>, most: usize) -> Vec<SiteEvent> {
        let most = most.min(EVENTS_SHOWN_MAX);
        let mut events = self.events.last(id, most);
        let of = id.map_or_else(String::new, |id| format!("&transfer={id}"));
        let path = format!("/events?limit={most}{of}");
        let now = self.now();
        for answer in self.ask_all::<Vec<SiteEvent>>(&now.peers, &path).into_values() {
            events.extend(answer.map_or_else(|_| Vec::new(), |(events, _)| events));
        }
        merge(events, most)
    }
}

/// Findings that all peers share, and that are reported once.
const SEEN_BY_ALL: [&str; 11] = [
    "peer-joined",
    "peer-left",
    "peer-lost",
    "controller",
    "drain",
    "undrain",
    "format",
    "etcd-lost",
    "etcd-back",
    "etcd-member-lost",
    "etcd-member-back",
];
/// Peers see the same thing within this time of each other.
const SEEN_WITHIN_MS: u64 = 30_000;

fn merge(mut events: Vec<SiteEvent>, most: usize) -> Vec<SiteEvent> {
    events.sort_by(|a, b| (a.at_ms, &a.peer).cmp(&(b.at_ms, &b.peer)));
    let mut last: BTreeMap<(String, String), (u64, Name)> = BTreeMap::new();
    events.retain(|event| {
        if !SEEN_BY_ALL.contains(&event.kind.as_str()) {
            return true;
        }
        let key = (event.kind.clone(), event.subject.clone());
        let is_news = last.get(&key).is_none_or(|(at_ms, peer)| {
            // A repeated event of one and the same peer has occurred again.
            *peer == event.peer || event.at_ms.saturating_sub(*at_ms) > SEEN_WITHIN_MS
        });
        if is_news {
            last.insert(key, (event.at_ms, event.peer.clone()));
        }
        is_news
    });
    let surplus = events.len().saturating_sub(most);
    events.drain(..surplus);
    events
}

fn gone_view(now: &ClusterNow, known: &KnownPeer) -> PeerView {
    let (presence, since) =
        if known.left > 0 { (Presence::Left, known.left) } else { (Presence::Lost, known.lost) };
    PeerView {
        peer: known.peer.clone(),
        own: false,
        presence,
        since,
        addresses: Vec::new(),
        version: String::new(),
        controller_since: 0,
        stores: Vec::new(),
        draining: now.draining.iter().find(|mark| mark.peer == known.peer).cloned(),
        load: None,
        clock_ahead_ms: None,
        trouble: String::new(),
    }
}

/// Asks a peer of the own site, at the first of its addresses that answers.
async fn ask<T: DeserializeOwned>(
    client: &reqwest::Client,
    addresses: &[SocketAddr],
    path: &str,
    body: Option<Vec<u8>>,
    limit: Duration,
) -> Result<(T, Duration), AskError> {
    ask_with((client, Delivery::Repeated), addresses, path, body, limit).await
}

/// The number of times that a peer may receive a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Delivery {
    /// Once at most: the next address is tried only where there was no connection.
    Once,
    /// At each of its addresses, until one answers.
    Repeated,
}

/// Asks as [`ask`] does.
async fn ask_with<T: DeserializeOwned>(
    (client, delivery): (&reqwest::Client, Delivery),
    addresses: &[SocketAddr],
    path: &str,
    body: Option<Vec<u8>>,
    limit: Duration,
) -> Result<(T, Duration), AskError> {
    let until = Instant::now() + limit;
    let mut why = AskError::NoAddress;
    for &address in addresses {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let begun = Instant::now();
        let url = format!("https://{address}{path}");
        let asked = match &body {
            None => client.get(url),
            Some(body) => {
                client.post(url).header("content-type", "application/json").body(body.clone())
            }
        };
        let asked = asked.timeout(left).send();
        let answer = async {
            let response = asked.await?;
            let status = response.status();
            Ok::<_, reqwest::Error>((status, response.bytes().await?))
        };
        match answer.await {
            Ok((status, body)) if status.is_success() => {
                let took = begun.elapsed();
                return Ok((http::decode(&body)?, took));
            }
            Ok((status, body)) => return Err(http::problem_of(status.as_u16(), &body).into()),
            Err(cause) => {
                let is_last = delivery == Delivery::Once && !cause.is_connect();
                why = match cause.is_timeout() {
                    true => AskError::TimedOut { address, limit },
                    false => AskError::Broken { address, cause },
                };
                if is_last {
                    break;
                }
            }
        }
    }
    Err(why)
}

fn no_such_peer(peer: &Name, known: &[PeerView]) -> Problem {
    let known: Vec<_> = known.iter().map(|view| view.peer.as_str()).collect();
    let title = format!("peer `{peer}` does not exist at this site");
    Problem::new(ProblemCode::PeerUnknown, title)
        .about(ObjectKind::Peer, peer)
        .hint(format!("known peers: {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(at_ms: u64, peer: &str, kind: &str, subject: &str) -> SiteEvent {
        SiteEvent {
            at_ms,
            peer: peer.parse().unwrap(),
            kind: kind.to_owned(),
            subject: subject.to_owned(),
            transfer: None,
            text: String::new(),
        }
    }

    /// Promise: an event that all peers have seen appears once, from the first that saw it. Events
    /// that each peer saw by itself appear for each.
    #[test]
    fn what_all_have_seen_is_told_once() {
        let merged = merge(
            vec![
                event(1200, "h2", "controller", "h1#9"),
                event(1000, "h1", "controller", "h1#9"),
                event(1100, "h1", "store-offline", "data"),
                event(1101, "h2", "store-offline", "data"),
                event(90_000, "h2", "controller", "h2#12"),
                event(91_000, "h1", "drain", "h3"),
                event(91_500, "h2", "drain", "h3"),
                event(95_000, "h1", "drain", "h3"),
                event(95_500, "h2", "drain", "h3"),
            ],
            10,
        );
        let told: Vec<_> = merged.iter().map(|event| (event.at_ms, event.peer.as_str())).collect();
        let first = [(1000, "h1"), (1100, "h1"), (1101, "h2"), (90_000, "h2")];
        assert_eq!(told[..4], first);
        assert_eq!(told[4..], [(91_000, "h1"), (95_000, "h1")], "what happens twice is told twice");
    }
}
