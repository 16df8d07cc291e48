//! Stores of this site as users look into them: their state, usage, entries, new directories. Any
//! peer answers, and asks another one if it does not reach the store itself.
//!
//! An answer takes [`ANSWER`] at most, whatever the store does. The peer that receives the request
//! has checked the rights of the user before.
//!
//! | module | duty |
//! |---|---|
//! | `threads` | threads that may hang in a store |
//! | `other_sites` | these questions to paired sites, and theirs to this one |
//! | `routes` | the routes for requests of peers and paired sites |

mod other_sites;
mod routes;
mod threads;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use penstock_api::access::StoreGrant;
use penstock_api::cluster::PeerCard;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::{
    DirectoryRequest, EntriesQuery, EntryList, StoreDetails, StorePeer, StoreState, StoreUsage,
};
use penstock_peer::{Stores, list_entries, make_directory, store_space};
use penstock_proto::id::Name;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::{AskError, OWN, Operate, ask};
use crate::http;
use crate::site::store_cards::store_card;
use crate::site::store_reach::{compared, reaches};
use threads::StoreThreads;

/// Time that an answer may take, for any state of a store.
const ANSWER: Duration = Duration::from_secs(2);
/// Time for the way to another peer of the site and back.
const WAY: Duration = Duration::from_millis(500);

/// Answers users who look into stores.
pub(crate) struct StoreBrowser {
    operate: Arc<Operate>,
    threads: StoreThreads,
    /// Places for requests to each paired site.
    asks: Mutex<BTreeMap<Name, Arc<Semaphore>>>,
}

impl StoreBrowser {
    pub(crate) fn new(operate: Arc<Operate>) -> Self {
        Self { operate, threads: StoreThreads::default(), asks: Mutex::default() }
    }

    fn stores(&self) -> Arc<Stores> {
        Arc::clone(self.operate.source.stores())
    }

    /// Returns a part of the entries of a directory.
    ///
    /// # Errors
    /// Those of [`list_entries`]; `store-hung`, `store-elsewhere`, `busy`.
    pub(crate) async fn entries(
        &self,
        store: &Name,
        query: &EntriesQuery,
    ) -> Result<EntryList, Problem> {
        let path = format!("/stores/{store}/entries");
        let body = Some(http::encode(query)?);
        let until = Instant::now() + ANSWER;
        self.ask_any(store, until, self.own_entries(store, query, until), path, body).await
    }

    /// Returns the entries that this peer alone sees.
    async fn own_entries(
        &self,
        store: &Name,
        query: &EntriesQuery,
        until: Instant,
    ) -> Result<EntryList, Problem> {
        let (stores, name, query) = (self.stores(), store.clone(), query.clone());
        self.threads.run(store, until, move || list_entries(&stores, &name, &query)).await
    }

    /// Returns how full a store is.
    ///
    /// # Errors
    /// Those of [`store_space`]; `store-hung`, `store-elsewhere`, `busy`.
    pub(crate) async fn usage(&self, store: &Name) -> Result<StoreUsage, Problem> {
        let until = Instant::now() + ANSWER;
        let path = format!("/stores/{store}/usage");
        self.ask_any(store, until, self.own_usage(store, until), path, None).await
    }

    async fn own_usage(&self, store: &Name, until: Instant) -> Result<StoreUsage, Problem> {
        let (stores, name) = (self.stores(), store.clone());
        let look = move || store_space(&stores, &name).map(|space| StoreUsage { space });
        self.threads.run(store, until, look).await
    }

    /// Makes a directory whose parent exists.
    ///
    /// # Errors
    /// Those of [`make_directory`]; `store-hung`, `store-elsewhere`, `busy`.
    pub(crate) async fn make_directory(
        &self,
        store: &Name,
        request: &DirectoryRequest,
    ) -> Result<(), Problem> {
        let path = format!("/stores/{store}/directories");
        let body = Some(http::encode(request)?);
        let until = Instant::now() + ANSWER;
        self.ask_any(store, until, self.make_own_directory(store, request, until), path, body).await
    }

    async fn make_own_directory(
        &self,
        store: &Name,
        request: &DirectoryRequest,
        until: Instant,
    ) -> Result<(), Problem> {
        let (stores, name, path) = (self.stores(), store.clone(), request.path.0.clone());
        self.threads.run(store, until, move || make_directory(&stores, &name, &path)).await
    }

    /// Returns a store and how it is now, with these rights of the caller.
    ///
    /// # Errors
    /// `store-unknown`, `store-elsewhere`.
    pub(crate) async fn details(
        &self,
        store: &Name,
        rights: StoreGrant,
    ) -> Result<StoreDetails, Problem> {
        let until = Instant::now() + ANSWER;
        let own = self.own_details(store, until);
        let asked = self.ask_any(store, until, own, format!("/stores/{store}"), None);
        let mut details = StoreDetails { rights, ..asked.await? };
        details.peers = self.peers_of(store);
        if details.peers.is_empty() {
            // The only peer of a site has no other stores to compare with.
            let is = if details.state == StoreState::Online { "alone" } else { "offline" };
            let (peer, why) = (self.operate.own().clone(), details.why.clone());
            details.peers.push(StorePeer { peer, is: is.to_owned(), why });
        }
        Ok(details)
    }

    async fn own_details(&self, store: &Name, until: Instant) -> Result<StoreDetails, Problem> {
        let site = &self.operate.site;
        let mut views = site.exports.views().into_iter();
        let view = views.find(|view| view.name == *store).ok_or_else(|| self.unknown(store))?;
        let config = site.stores().into_iter().find(|config| config.name == *store);
        let (stores, name) = (self.stores(), store.clone());
        let look = move || {
            let card = config.as_ref().map(store_card);
            Ok((card, store_space(&stores, &name)))
        };
        let mut details = StoreDetails {
            store: view,
            state: StoreState::Online,
            why: String::new(),
            identity: String::new(),
            space: None,
            peers: Vec::new(),
            rights: StoreGrant::default(),
        };
        match self.threads.run(store, until, look).await {
            Ok((card, space)) => {
                let card = card.map(|card| (card.identity, card.trouble)).unwrap_or_default();
                details.identity = card.0;
                match space {
                    Ok(space) => details.space = space,
                    Err(problem) => {
                        (details.state, details.why) = (StoreState::Offline, problem.to_string());
                    }
                }
                if details.why.is_empty() && !card.1.is_empty() {
                    (details.state, details.why) = (StoreState::Offline, card.1);
                }
            }
            Err(problem) if problem.code == ProblemCode::StoreHung => {
                (details.state, details.why) = (StoreState::Hung, problem.to_string());
            }
            Err(problem) => return Err(problem),
        }
        Ok(details)
    }

    /// Returns the peers that have a store, by their cards.
    fn peers_of(&self, store: &Name) -> Vec<StorePeer> {
        let now = self.operate.now();
        let peers = now.peers.iter().filter_map(|card| {
            let found = card.stores.iter().find(|found| found.store == *store)?;
            let found = compared(found, &card.peer, &now.peers);
            Some(StorePeer { peer: card.peer.clone(), is: found.is, why: found.why })
        });
        peers.collect()
    }

    /// Returns the answer of this peer, or of another one that has the store if this one cannot
    /// use it.
    async fn ask_any<T: DeserializeOwned + Send + 'static>(
        &self,
        store: &Name,
        until: Instant,
        own: impl Future<Output = Result<T, Problem>>,
        path: String,
        body: Option<Vec<u8>>,
    ) -> Result<T, Problem> {
        let mut first = None;
        if self.operate.site.exports.has(store) {
            match own.await {
                Err(problem) if is_of_peer(&problem) => first = Some(problem),
                answer => return answer,
            }
        }
        for card in self.others_with(store) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let peer = card.peer.clone();
            let problem = match self.ask_peer(card, &path, body.clone(), left + WAY).await {
                Ok(answer) => return Ok(answer),
                Err(AskError::Answered(problem)) if !is_of_peer(&problem) => return Err(problem),
                Err(AskError::Answered(problem)) => problem,
                Err(why) => {
                    let title = format!("peer `{peer}`, which has store `{store}`, is silent");
                    Problem::new(ProblemCode::StoreElsewhere, title).because(why)
                }
            };
            first.get_or_insert(problem);
        }
        Err(first.unwrap_or_else(|| self.unknown(store)))
    }

    /// Returns the other peers that have a store; first those that reach it.
    fn others_with(&self, store: &Name) -> Vec<PeerCard> {
        let now = self.operate.now();
        let has = |card: &&PeerCard| {
            card.peer != *self.operate.own() && card.stores.iter().any(|has| has.store == *store)
        };
        let mut others: Vec<_> = now.peers.iter().filter(has).cloned().collect();
        others.sort_by_key(|card| !reaches(card, store));
        others
    }

    async fn ask_peer<T: DeserializeOwned + Send + 'static>(
        &self,
        card: PeerCard,
        path: &str,
        body: Option<Vec<u8>>,
        limit: Duration,
    ) -> Result<T, AskError> {
        let (client, path) = (self.operate.client.clone(), format!("{OWN}{path}"));
        let asked = self
            .operate
            .runtime
            .spawn(async move { ask(&client, &card.addresses, &path, body, limit).await });
        // A panic there is no answer.
        asked.await.map_err(|_| AskError::NotAsked)?.map(|(answer, _)| answer)
    }

    fn unknown(&self, store: &Name) -> Problem {
        let site = &self.operate.site;
        site.unknown_now(store).unwrap_or_else(|| {
            let title = format!("site `{}` has no store `{store}`", site.config.site);
            Problem::new(ProblemCode::StoreUnknown, title)
                .hint("`penstock store list` shows the stores")
        })
    }
}

/// Returns whether a problem is of the peer, so that another one may do better.
fn is_of_peer(problem: &Problem) -> bool {
    use ProblemCode::{
        Busy, HostShort, StoreDenied, StoreHung, StoreOffline, StoreUnknown, Threads,
    };
    let codes = [Busy, HostShort, StoreDenied, StoreHung, StoreOffline, StoreUnknown, Threads];
    codes.contains(&problem.code)
}
