//! The routes for requests of other peers and paired sites. Those for operators are in
//! [`crate::http::local`].

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{
    DefaultBodyLimit, Extension, FromRef, FromRequestParts, Json, Path, Query, State,
};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::middleware;
use axum::routing::{get, post};
use axum::{RequestPartsExt as _, Router};
use penstock_api::cluster::StoreCard;
use penstock_api::keys::{KeysHeard, StageKeys};
use penstock_api::operate::{EVENTS_SHOWN_MAX, PeerLoad, SiteEvent, TransferPaths};
use penstock_api::paths::{PeerProbe, SiteProbe};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::site::SiteAddresses;
use penstock_proto::id::{Name, TransferId};
use serde::Deserialize;
use tokio::time::Instant;

use super::Operate;
use super::probe::{UNPROVEN, disclose, echo as echo_back};
use crate::access::budget::Duty;
use crate::http::connection::Connection;
use crate::http::reply::{ProblemReply, Reply, blocking};
use crate::http::request::{BODY_BYTES_MAX, Body, parsed};
use crate::http::site::versioned;
use crate::site::reported_addresses::believable;
use crate::site::store_cards::store_cards;

type Shared = State<Arc<Operate>>;

impl Operate {
    /// Returns the routes of requests that any peer answers for other peers of its site, and paired
    /// sites.
    pub(crate) fn remote(self: &Arc<Self>) -> Router {
        let long = || DefaultBodyLimit::max(BODY_BYTES_MAX);
        let sites = Router::new()
            .route("/site/v1/echo", post(echo))
            .route("/site/v1/probe", post(probe))
            .route("/site/v1/transfers/{id}/paths", get(paths_of_other))
            .layer(middleware::from_fn_with_state(Arc::clone(&self.site), versioned));
        Router::new()
            .route("/peer/v1/own/load", get(load))
            .route("/peer/v1/own/keys", get(keys).post(stage_keys).layer(long()))
            .route("/peer/v1/own/keys/commit", post(commit_keys))
            .route("/peer/v1/own/stores", get(own_stores))
            .route("/peer/v1/own/events", get(own_events))
            .route("/peer/v1/own/probe/{site}", post(own_probe))
            .merge(sites)
            .with_state(Arc::clone(self))
    }
}

fn refused(title: impl Into<String>) -> ProblemReply {
    ProblemReply(Problem::new(ProblemCode::NotAuthorised, title))
}

/// The calling site, by its certificate: paired by the authority that vouched for it, or the own
/// one.
pub(super) struct CallingSite(pub(super) Name);

impl<S: Send + Sync> FromRequestParts<S> for CallingSite
where
    Arc<Operate>: FromRef<S>,
{
    type Rejection = ProblemReply;

    async fn from_request_parts(request: &mut Parts, shared: &S) -> Result<Self, Self::Rejection> {
        let operate = Arc::<Operate>::from_ref(shared);
        let connection = request.extract::<Extension<Connection>>().await.ok();
        let peer = connection.and_then(|Extension(connection)| connection.peer);
        let peer = peer.ok_or_else(|| refused("a client certificate is needed"))?;
        let site = &operate.site;
        if site.is_own_peer(&peer) || site.is_paired_by(&peer) {
            return Ok(Self(peer.peer.site));
        }
        Err(refused(format!("site `{}` is not paired with this one", peer.peer.site)))
    }
}

/// Proof that the caller is a peer of the own site.
pub(super) struct OwnPeer;

impl<S: Send + Sync> FromRequestParts<S> for OwnPeer
where
    Arc<Operate>: FromRef<S>,
{
    type Rejection = ProblemReply;

    async fn from_request_parts(request: &mut Parts, shared: &S) -> Result<Self, Self::Rejection> {
        let operate = Arc::<Operate>::from_ref(shared);
        let CallingSite(site) = CallingSite::from_request_parts(request, shared).await?;
        if site == operate.site.config.site {
            return Ok(Self);
        }
        Err(refused("only peers of this site may ask that"))
    }
}

/// Answers with the number of this peer's keys.
async fn keys(State(operate): Shared, _: OwnPeer) -> Json<KeysHeard> {
    Json(KeysHeard { sequence: operate.site.keys().sequence() })
}

/// Takes the next keys from another peer of this site.
async fn stage_keys(
    State(operate): Shared,
    _: OwnPeer,
    Body(staged): Body<StageKeys>,
) -> Reply<KeysHeard> {
    blocking(move || operate.stage_keys(&staged)).await.map(Json)
}

/// Commits the next keys, which all peers of this site have.
async fn commit_keys(
    State(operate): Shared,
    _: OwnPeer,
    Body(heard): Body<KeysHeard>,
) -> Reply<KeysHeard> {
    let site = Arc::clone(&operate.site);
    let committed = blocking(move || operate.commit_keys(heard.sequence)).await?;
    tokio::spawn(site.tell_trust_news_soon());
    Ok(Json(committed))
}

/// Returns the shares of a transfer that reads from the calling site.
async fn paths_of_other(
    State(operate): Shared,
    CallingSite(site): CallingSite,
    Path(id): Path<String>,
) -> Reply<TransferPaths> {
    let _place = operate.site.budgets.of(&site).enter(Duty::Work).await?;
    blocking(move || {
        let mut paths = operate.transfer_paths(parsed(&id)?);
        paths.shares.retain(|share| share.source.as_ref() == Some(&site));
        Ok(paths)
    })
    .await
    .map(Json)
}

#[derive(Deserialize)]
struct EventsQuery {
    transfer: Option<TransferId>,
    limit: Option<usize>,
}

async fn own_events(
    State(operate): Shared,
    _: OwnPeer,
    Query(query): Query<EventsQuery>,
) -> Json<Vec<SiteEvent>> {
    let most = query.limit.unwrap_or(EVENTS_SHOWN_MAX);
    Json(operate.events.last(query.transfer, most))
}

async fn load(State(operate): Shared, _: OwnPeer) -> Reply<PeerLoad> {
    blocking(move || Ok(operate.load())).await.map(Json)
}

async fn own_stores(State(operate): Shared, _: OwnPeer) -> Reply<Vec<StoreCard>> {
    blocking(move || Ok(store_cards(&operate.site.stores()))).await.map(Json)
}

/// Returns the received bytes, and the time.
async fn echo(_: CallingSite, body: Bytes) -> (HeaderMap, Bytes) {
    echo_back(body).await
}

/// Answers a site's question how its addresses are reached from here.
async fn probe(
    State(operate): Shared,
    CallingSite(site): CallingSite,
    Extension(connection): Extension<Connection>,
    Body(theirs): Body<SiteAddresses>,
) -> Reply<SiteProbe> {
    let _turn = operate.site.budgets.of(&site).probe()?;
    let until = Instant::now() + UNPROVEN;
    let theirs = believable(theirs.bounded(), &[connection.from.ip()]);
    let to = site.clone();
    let mut probe = blocking(move || Ok(operate.probe(&site, &theirs))).await?;
    if !disclose(&mut probe, &to) {
        tokio::time::sleep_until(until).await;
    }
    Ok(Json(probe))
}

/// Returns the probes of this peer alone, for another one of its site.
async fn own_probe(
    State(operate): Shared,
    _: OwnPeer,
    Path(site): Path<String>,
    Body(theirs): Body<SiteAddresses>,
) -> Reply<PeerProbe> {
    blocking(move || Ok(operate.probe_from_here(&parsed(&site)?, &theirs.bounded())))
        .await
        .map(Json)
}
