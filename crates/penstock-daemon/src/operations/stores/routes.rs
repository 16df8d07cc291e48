//! The paths under which other peers and paired sites look into stores of this one.

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRef, Json, Path, State};
use axum::middleware;
use axum::routing::{get, post};
use penstock_api::rest::{
    DirectoryRequest, EntriesQuery, EntryList, SiteStoreView, StoreDetails, StoreUsage,
};
use penstock_proto::id::Name;
use tokio::time::Instant;

use super::super::Operate;
use super::super::routes::{CallingSite, OwnPeer};
use super::{ANSWER, StoreBrowser};
use crate::access::budget::Duty;
use crate::http::reply::Reply;
use crate::http::request::{Body, parsed};
use crate::http::site::versioned;

#[derive(Clone)]
struct Shared(Arc<StoreBrowser>);

impl FromRef<Shared> for Arc<Operate> {
    fn from_ref(shared: &Shared) -> Self {
        Arc::clone(&shared.0.operate)
    }
}

impl StoreBrowser {
    /// Returns the routes of requests that any peer answers for other peers of its site, and paired
    /// sites.
    pub(crate) fn remote(self: &Arc<Self>) -> Router {
        let site = Arc::clone(&self.operate.site);
        let sites = Router::new()
            .route("/site/v1/stores", get(stores_for_site))
            .route("/site/v1/stores/{store}/entries", post(entries_for_site))
            .route("/site/v1/stores/{store}/usage", get(usage_for_site))
            .route("/site/v1/stores/{store}/directories", post(directory_for_site))
            .layer(middleware::from_fn_with_state(site, versioned));
        Router::new()
            .route("/peer/v1/own/stores/{store}", get(own_details))
            .route("/peer/v1/own/stores/{store}/entries", post(own_entries))
            .route("/peer/v1/own/stores/{store}/usage", get(own_usage))
            .route("/peer/v1/own/stores/{store}/directories", post(own_directory))
            .merge(sites)
            .with_state(Shared(Arc::clone(self)))
    }
}

async fn own_details(
    State(Shared(browser)): State<Shared>,
    _: OwnPeer,
    Path(store): Path<String>,
) -> Reply<StoreDetails> {
    Ok(Json(browser.own_details(&parsed(&store)?, Instant::now() + ANSWER).await?))
}

async fn own_entries(
    State(Shared(browser)): State<Shared>,
    _: OwnPeer,
    Path(store): Path<String>,
    Body(query): Body<EntriesQuery>,
) -> Reply<EntryList> {
    let until = Instant::now() + ANSWER;
    Ok(Json(browser.own_entries(&parsed(&store)?, &query, until).await?))
}

async fn own_usage(
    State(Shared(browser)): State<Shared>,
    _: OwnPeer,
    Path(store): Path<String>,
) -> Reply<StoreUsage> {
    Ok(Json(browser.own_usage(&parsed(&store)?, Instant::now() + ANSWER).await?))
}

async fn own_directory(
    State(Shared(browser)): State<Shared>,
    _: OwnPeer,
    Path(store): Path<String>,
    Body(request): Body<DirectoryRequest>,
) -> Reply<()> {
    let until = Instant::now() + ANSWER;
    Ok(Json(browser.make_own_directory(&parsed(&store)?, &request, until).await?))
}

async fn stores_for_site(
    State(Shared(browser)): State<Shared>,
    CallingSite(site): CallingSite,
) -> Json<Vec<SiteStoreView>> {
    Json(browser.stores_for(&site))
}

async fn entries_for_site(
    State(Shared(browser)): State<Shared>,
    CallingSite(site): CallingSite,
    Path(store): Path<String>,
    Body(query): Body<EntriesQuery>,
) -> Reply<EntryList> {
    let store: Name = parsed(&store)?;
    browser.check_listable(&site, &store)?;
    let _place = browser.operate.site.budgets.of(&site).enter(Duty::Work).await?;
    Ok(Json(browser.entries(&store, &query).await?))
}

async fn usage_for_site(
    State(Shared(browser)): State<Shared>,
    CallingSite(site): CallingSite,
    Path(store): Path<String>,
) -> Reply<StoreUsage> {
    let store: Name = parsed(&store)?;
    browser.check_listable(&site, &store)?;
    let _place = browser.operate.site.budgets.of(&site).enter(Duty::Work).await?;
    Ok(Json(browser.usage(&store).await?))
}

async fn directory_for_site(
    State(Shared(browser)): State<Shared>,
    CallingSite(site): CallingSite,
    Path(store): Path<String>,
    Body(request): Body<DirectoryRequest>,
) -> Reply<()> {
    let store: Name = parsed(&store)?;
    let _place = browser.operate.site.budgets.of(&site).enter(Duty::Work).await?;
    Ok(Json(browser.make_directory_for((&site, &store), &request).await?))
}
