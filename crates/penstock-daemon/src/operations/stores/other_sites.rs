//! Stores of paired sites, as users of this site look into them, and stores of this site, as
//! users of paired sites do.
//!
//! The site that has a store judges by the pairing: a site that may read or write there may list
//! it. The site that asks judges its user.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::{DirectoryRequest, EntriesQuery, EntryList, SiteStoreView, StoreUsage};
use penstock_proto::id::Name;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::{ANSWER, StoreBrowser};
use crate::site::client::Sites;
use crate::site::submission::check_writable;

/// Requests to one site at a time; further ones wait.
const ASKS_OF_SITE: usize = 4;
/// Round trips that a request takes with a new connection, and the least time for them.
const ROUND_TRIPS: u32 = 4;
const ROUND_TRIPS_MIN: Duration = Duration::from_millis(500);

impl StoreBrowser {
    /// Returns whether a name is that of this site.
    pub(crate) fn is_own(&self, site: &Name) -> bool {
        *site == self.operate.site.config.site
    }

    /// Returns the stores of a site that it lets this one read or write; of this one, those that
    /// its peers have.
    ///
    /// # Errors
    /// `not-paired`, `site-unreachable`, `version`, `busy`.
    pub(crate) async fn stores_of_site(&self, site: &Name) -> Result<Vec<SiteStoreView>, Problem> {
        if self.is_own(site) {
            let all = self.store_names().into_iter();
            return Ok(all.map(|name| self.rights_of(site, name, true)).collect());
        }
        let name = site.clone();
        self.ask_site(site, move |sites, deadline| sites.stores(&name, deadline)).await
    }

    /// Returns a part of the entries of a directory of a paired site, or of this one.
    ///
    /// # Errors
    /// Those of [`StoreBrowser::entries`] and [`StoreBrowser::stores_of_site`]; `not-exported`.
    pub(crate) async fn entries_of_site(
        &self,
        (site, store): (&Name, &Name),
        query: EntriesQuery,
    ) -> Result<EntryList, Problem> {
        if self.is_own(site) {
            return self.entries(store, &query).await;
        }
        let (name, store) = (site.clone(), store.clone());
        self.ask_site(site, move |sites, limit| sites.entries((&name, &store), &query, limit)).await
    }

    /// Returns how full a store of a paired site is, or one of this site.
    ///
    /// # Errors
    /// Those of [`StoreBrowser::usage`] and [`StoreBrowser::stores_of_site`]; `not-exported`.
    pub(crate) async fn usage_of_site(
        &self,
        (site, store): (&Name, &Name),
    ) -> Result<StoreUsage, Problem> {
        if self.is_own(site) {
            return self.usage(store).await;
        }
        let (name, store) = (site.clone(), store.clone());
        self.ask_site(site, move |sites, limit| sites.usage((&name, &store), limit)).await
    }

    /// Makes a directory at a paired site, or at this one.
    ///
    /// # Errors
    /// Those of [`StoreBrowser::make_directory`] and [`StoreBrowser::stores_of_site`];
    /// `not-exported`.
    pub(crate) async fn make_directory_at(
        &self,
        (site, store): (&Name, &Name),
        request: DirectoryRequest,
    ) -> Result<(), Problem> {
        if self.is_own(site) {
            return self.make_directory(store, &request).await;
        }
        let (name, store) = (site.clone(), store.clone());
        let ask =
            move |sites: &Sites, limit| sites.make_directory((&name, &store), &request, limit);
        self.ask_site(site, ask).await
    }

    /// Asks a paired site, a few requests at a time. It has [`ANSWER`] and some round trips.
    async fn ask_site<T: Send + 'static>(
        &self,
        site: &Name,
        ask: impl FnOnce(&Sites, Duration) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        if !self.operate.site.is_paired(site) {
            let title = format!("site `{site}` is not paired with this one");
            return Err(Problem::new(ProblemCode::NotPaired, title)
                .hint("`penstock site list` shows the paired sites"));
        }
        let places = {
            let mut all = self.asks.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || Arc::new(Semaphore::new(ASKS_OF_SITE));
            Arc::clone(all.entry(site.clone()).or_insert_with(new))
        };
        let Ok(Ok(place)) = timeout(ANSWER, places.acquire_owned()).await else {
            let title = format!("too many requests look into stores of site `{site}`");
            return Err(Problem::new(ProblemCode::Busy, title));
        };
        let sites = Arc::clone(&self.operate.sites);
        let way = sites.round_trip(site).unwrap_or_default() * ROUND_TRIPS;
        let limit = ANSWER + way.max(ROUND_TRIPS_MIN);
        let asked = self.operate.runtime.spawn_blocking(move || {
            // A cancelled request keeps its place until it ends.
            let _place = place;
            ask(&sites, limit)
        });
        match timeout(limit, asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                tracing::error!(%error, "a request to another site");
                let title = "asking a site broke an assumption of ours";
                Err(Problem::new(ProblemCode::Internal, title))
            }
            Err(_) => {
                let title = format!("site `{site}` cannot be reached");
                let why = format!("no answer in {:.1} s", limit.as_secs_f64());
                Err(Problem::new(ProblemCode::SiteUnreachable, title).because(why))
            }
        }
    }

    /// Returns the stores of this site that a paired one may read or write.
    pub(super) fn stores_for(&self, site: &Name) -> Vec<SiteStoreView> {
        let all = self.store_names().into_iter().map(|name| self.rights_of(site, name, false));
        all.filter(|store| store.read || store.write).collect()
    }

    /// Names of the stores that peers of this site have.
    fn store_names(&self) -> Vec<Name> {
        let own = self.operate.site.exports.views().into_iter().map(|view| view.name);
        let now = self.operate.now();
        let far = now.peers.iter().flat_map(|card| &card.stores).map(|card| card.store.clone());
        let mut names: Vec<_> = own.chain(far).collect();
        names.sort();
        names.dedup();
        names
    }

    fn rights_of(&self, site: &Name, name: Name, is_own: bool) -> SiteStoreView {
        let own = &self.operate.site;
        SiteStoreView {
            read: is_own || own.may_read(site, &name),
            write: is_own || own.may_write(site, &name),
            delete: is_own || own.may_delete(site, &name),
            remove: is_own || own.may_remove(site, &name),
            name,
        }
    }

    /// Checks that a paired site may list a store of this one.
    ///
    /// # Errors
    /// `not-exported`, of a store that does not exist as well; `store-elsewhere`.
    pub(super) fn check_listable(&self, site: &Name, store: &Name) -> Result<(), Problem> {
        let own = &self.operate.site;
        if own.may_read(site, store) || own.may_write(site, store) {
            return Ok(());
        }
        Err(own.unknown_now(store).unwrap_or_else(|| {
            let own = &own.config.site;
            let title = format!("site `{site}` may not list `{own}:{store}`");
            Problem::new(ProblemCode::NotExported, title).hint(format!(
                "an operator of `{own}` can list the site under `read` of the store in its \
                 configuration"
            ))
        }))
    }

    /// Makes a directory for a paired site.
    ///
    /// # Errors
    /// `not-exported`; those of [`StoreBrowser::make_directory`].
    pub(super) async fn make_directory_for(
        &self,
        (site, store): (&Name, &Name),
        request: &DirectoryRequest,
    ) -> Result<(), Problem> {
        check_writable(&self.operate.site, site, store)?;
        self.make_directory(store, request).await
    }
}
