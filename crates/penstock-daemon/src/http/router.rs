//! Forwards requests to the controller, from any peer of the site that receives them.
//!
//! The table of endpoints ([`penstock_api::endpoints`]) marks those of the local API that the
//! controller answers; of the site API the controller answers nearly all. A peer that is not the
//! controller forwards a request of its own users, or of a paired site, over mutual TLS:
//! `/peer/v1/local/…` and `/peer/v1/site/…`. Only peers of the own site may use these paths; their
//! statement of the original caller is trusted. Without a controller, a request waits for one for a
//! limited time. The only peer of a site always is the controller, and forwards no request.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Extension, Json, Request, State};
use axum::http::{StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use penstock_api::access::{Principal, Right};
use penstock_api::cluster::{LeaderCard, PeerCard};
use penstock_api::endpoints::{AnsweredBy, Endpoint};
use penstock_api::fence::not_controller;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rpc::lease::LEASES;
use penstock_api::site::SiteHealth;
use penstock_cluster::membership::ClusterNow;
use penstock_proto::id::Name;
use penstock_proto::version;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;
use tower::ServiceExt as _;

use super::client::{MetricsReader, no_principal};
use super::connection::Connection;
use super::forward::{self, ForwardError, Forwarded, LOCAL, Origin, SITE, maybe_done};
use super::local::{self, LocalApi};
use crate::cluster::controller::Controller;
use crate::cluster::listing::{Allies, LIST, Lister};
use crate::cluster::member::Member;
use crate::http::reply::{ProblemReply, blocking, method_unknown, not_found};
use crate::http::request::BODY_BYTES_MAX;
use crate::managed_etcd::voters::MEMBERS;
use crate::metrics::Requests;
use crate::peer_client::client::PeerClient;
use crate::peer_server::{Host, with_version};

/// The time for which a request waits for a controller.
const PATIENCE: Duration = Duration::from_secs(20);
/// Wait before a request that was not taken is offered again.
const AGAIN: Duration = Duration::from_millis(200);
/// Paths of a controller's requests to this peer (see [`crate::peer_server`]).
const TASK: &str = "/peer/v1/task";
const CALL: &str = "/peer/v1/call";

/// The handler of a request if this peer is the controller.
enum Here {
    /// By a handler of the local API.
    Local(Next),
    /// By the controller's site API.
    Site,
}

/// The parts that forward a request to the peer that answers it.
#[derive(Clone)]
pub(crate) struct ClusterRouter {
    api: LocalApi,
    client: PeerClient,
    host: Arc<Host>,
    lister: Lister,
    /// The address at which the controller has answered last: asked first, so that a dead one costs
    /// its time once, not with each request.
    answered: Arc<Mutex<Option<SocketAddr>>>,
}

impl ClusterRouter {
    pub(crate) fn new(api: LocalApi, client: PeerClient, host: Arc<Host>, lister: Lister) -> Self {
        Self { api, client, host, lister, answered: Arc::default() }
    }

    /// Serves the local API, whichever peer is the controller.
    ///
    /// # Errors
    /// An endpoint has no handler.
    pub(crate) fn local(&self) -> anyhow::Result<Router> {
        let routes = local::handlers()?.router(|endpoint, route| {
            let route = match endpoint.answered_by {
                AnsweredBy::AnyPeer | AnsweredBy::ThisPeer => route,
                AnsweredBy::Controller => {
                    route.route_layer(from_fn_with_state((self.clone(), endpoint), lead))
                }
            };
            let route = route.layer(DefaultBodyLimit::max(endpoint.body_bytes_max()));
            let route = route.route_layer(from_fn_with_state(endpoint, guard));
            let requests = Arc::clone(&self.api.metrics.requests);
            Some(route.route_layer(from_fn_with_state((requests, endpoint), count)))
        });
        Ok(self.complete(routes))
    }

    /// Serves requests of the local API that other peers of the site forward, as they are the
    /// controller's.
    fn handed_over(&self) -> anyhow::Result<Router> {
        let routes = local::handlers()?.router(|endpoint, route| {
            let route = route.layer(DefaultBodyLimit::max(endpoint.body_bytes_max()));
            let route = route.route_layer(from_fn_with_state(endpoint, guard));
            (endpoint.answered_by == AnsweredBy::Controller).then_some(route)
        });
        Ok(self.complete(routes))
    }

    fn complete(&self, routes: Router<LocalApi>) -> Router {
        routes
            .method_not_allowed_fallback(method_unknown)
            .fallback(not_found)
            .with_state(self.api.clone())
    }

    /// Serves the site API, and requests that other peers of the own site forward.
    ///
    /// # Errors
    /// An endpoint has no handler.
    pub(crate) fn site(&self) -> anyhow::Result<Router> {
        let state = (self.clone(), self.handed_over()?);
        let remote = self.api.operate.remote().merge(self.api.stores.remote());
        let remote = remote.merge(self.api.audit.remote()).merge(self.api.statistics.remote());
        let remote = remote.merge(self.api.benchmarks.remote());
        Ok(Router::new().fallback(site).with_state(state).merge(remote))
    }

    fn member(&self) -> &Arc<Member> {
        &self.api.member
    }

    /// Returns the other peers, as helpers of a scan of this one.
    pub(crate) fn allies(&self) -> Arc<Allies> {
        Arc::new(Allies {
            own: self.member().parts.site.config.peer.clone(),
            client: self.client.clone(),
            now: self.watch(),
            runtime: Handle::current(),
        })
    }

    fn watch(&self) -> watch::Receiver<Arc<ClusterNow>> {
        self.member().watch()
    }
}

/// Lets a request pass whose principal has the right that its endpoint needs.
async fn guard(
    State(endpoint): State<&'static Endpoint>,
    request: Request,
    next: Next,
) -> Response {
    let is_scrape = endpoint.right == Right::Metrics;
    if endpoint.right == Right::Public
        || is_scrape && request.extensions().get::<MetricsReader>().is_some()
    {
        return next.run(request).await;
    }
    match request.extensions().get::<Principal>().map(|user| user.require(endpoint.right)) {
        Some(Ok(())) => next.run(request).await,
        Some(Err(why)) => problem(why),
        None => no_principal(),
    }
}

/// Counts a request under the name of its endpoint, with its status and the time until the head of
/// its answer.
async fn count(
    State((requests, endpoint)): State<(Arc<Requests>, &'static Endpoint)>,
    request: Request,
    next: Next,
) -> Response {
    let begun = Instant::now();
    let _under_way = requests.begin();
    let response = next.run(request).await;
    requests.count(endpoint.name, response.status().as_u16(), begun.elapsed());
    response
}

/// Leads a request of a user to the controller, which may be this peer.
async fn lead(
    State((router, endpoint)): State<(ClusterRouter, &'static Endpoint)>,
    request: Request,
    next: Next,
) -> Response {
    let response = router.forward(Origin::User(endpoint), request, Here::Local(next)).await;
    if let Some(made) = response.extensions().get::<Principal>() {
        router.member().parts.site.authentication.until_known(&made.via).await;
    }
    response
}

async fn site(
    State((router, handed_over)): State<(ClusterRouter, Router)>,
    Extension(connection): Extension<Connection>,
    request: Request,
) -> Response {
    let path = request.uri().path();
    let own = &router.member().parts.site.config.site;
    let faces = [LOCAL, SITE, TASK, CALL, LEASES, MEMBERS, LIST];
    let face = faces.into_iter().find(|face| path.starts_with(face));
    // The only peer of a site has no others that may ask it.
    if let Some(face) = face.filter(|_| router.member().election().is_some()) {
        let peer = connection.peer.as_ref();
        let peer = peer.filter(|peer| router.member().parts.site.is_own_peer(peer));
        let Some(peer) = peer.map(|vouched| &vouched.peer.peer) else {
            return refused("only peers of this site may hand requests over");
        };
        return match face {
            LEASES => with_version(Json(router.member().lease_left(path, peer)).into_response()),
            MEMBERS => {
                let member = Arc::clone(router.member());
                let told = blocking(move || {
                    let told = member.election().map(|election| election.members_told());
                    Ok(told.unwrap_or_default())
                });
                with_version(told.await.map(Json).into_response())
            }
            TASK | CALL => router.host.answer(request).await,
            LIST => router.lister.serve(request).await,
            _ => take_over(&router, handed_over, face, connection, request).await,
        };
    }
    if let Some(controller) = router.member().controller() {
        return answer(controller.site.oneshot(request).await);
    }
    match (path, connection.peer) {
        ("/site/v1/health", _) => Json(SiteHealth {
            site: own.clone(),
            peer: router.member().parts.site.config.peer.clone(),
            version: version::known().site_api(router.watch().borrow().format).newest,
            release: env!("CARGO_PKG_VERSION").to_owned(),
        })
        .into_response(),
        (_, Some(peer)) if router.member().parts.site.is_paired_by(&peer) => {
            router.forward(Origin::Site(peer), request, Here::Site).await
        }
        ("/site/v1/pair" | "/site/v1/join", None) => problem(
            not_controller().hint("make a new token: another peer is the controller by now"),
        ),
        _ => refused("a client certificate of a paired site is needed"),
    }
}

/// Serves a request that another peer of this site has taken.
async fn take_over(
    router: &ClusterRouter,
    handed_over: Router,
    face: &str,
    connection: Connection,
    mut request: Request,
) -> Response {
    let Some(controller) = router.member().controller() else { return problem(not_controller()) };
    let rest = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let Ok(uri) = rest[face.len()..].parse::<Uri>() else {
        return refused("the path does not exist");
    };
    *request.uri_mut() = uri;
    if face == LOCAL {
        if let Some(origin) = forward::origin_of(request.headers()) {
            request.extensions_mut().insert(origin);
        }
        // Without a user only public endpoints answer.
        if forward::names_principal(request.headers()) {
            let Some(principal) = forward::principal_of(request.headers()) else {
                return refused("the request does not name its user");
            };
            let authentication = &router.member().parts.site.authentication;
            match authentication.renewed(principal) {
                Ok(principal) => drop(request.extensions_mut().insert(principal)),
                Err(why) => return problem(why),
            }
        }
        let response = forward::tell_principal(answer(handed_over.oneshot(request).await));
        return router.cut_with_tenure(&controller, response);
    }
    let Some(peer) = forward::caller_of(request.headers()) else {
        return refused("the request does not name a site");
    };
    let connection = Connection { peer: Some(peer), ..connection };
    request.extensions_mut().insert(connection);
    answer(controller.site.oneshot(request).await)
}

impl ClusterRouter {
    /// Passes an answer of this peer as the controller on. A stream of events ends with the
    /// controllership: its later events would be wrong.
    fn cut_with_tenure(&self, controller: &Controller, response: Response) -> Response {
        let kind = response.headers().get(header::CONTENT_TYPE);
        if kind.is_none_or(|kind| kind.as_bytes() != b"text/event-stream") {
            return response;
        }
        let (parts, body) = response.into_parts();
        let (now, revision) = (self.watch(), controller.revision);
        let parts_of = futures_util::stream::unfold(Some(body.into_data_stream()), move |body| {
            let now = now.clone();
            async move {
                let mut body = body?;
                tokio::select! {
                    part = body.next() => Some((part?.map_err(std::io::Error::other), Some(body))),
                    () = no_tenure(now, revision) => Some((Err(changed()), None)),
                }
            }
        });
        Response::from_parts(parts, Body::from_stream(parts_of))
    }

    /// Forwards a request of this peer's users to the controller, which may be this peer, or one of
    /// a site to another peer. Waits for a controller if there is none, or if the controller is
    /// deposed before it has carried the request out.
    async fn forward(&self, origin: Origin, request: Request, here: Here) -> Response {
        let forwarded = match Forwarded::of(origin, request).await {
            Ok(forwarded) => forwarded,
            Err(why) => return problem(why),
        };
        let until = Instant::now() + PATIENCE;
        let mut now = self.watch();
        loop {
            let seen = Arc::clone(&now.borrow_and_update());
            let why = match self.attempt(&forwarded, &here, &seen).await {
                Ok(response) => return response,
                Err(why) => why,
            };
            if Instant::now() >= until {
                return problem(not_controller().because(why));
            }
            let wait = tokio::time::sleep(AGAIN);
            tokio::select! { _ = now.changed() => {}, () = wait => {} }
        }
    }

    /// Asks the present controller; returns the answer, or the reason why the request may be
    /// repeated.
    async fn attempt(
        &self,
        forwarded: &Forwarded,
        here: &Here,
        seen: &ClusterNow,
    ) -> Result<Response, MayRepeat> {
        if let Some(controller) = self.member().controller() {
            return match self.serve(&controller, forwarded, here).await {
                Err(found) if !forwarded.may_repeat() => Ok(problem(found)),
                served => Ok(served?),
            };
        }
        let own = &self.member().parts.site.config.peer;
        match seen.leader.as_ref().filter(|(card, _)| card.peer != *own) {
            Some((leader, epoch)) => self.offer(forwarded, seen, leader, *epoch).await,
            None => Err(MayRepeat::NoController),
        }
    }

    /// Carries out a request as the controller. The problem is that this peer no longer leads.
    async fn serve(
        &self,
        controller: &Controller,
        forwarded: &Forwarded,
        here: &Here,
    ) -> Result<Response, Problem> {
        let request = forwarded.request();
        deposed(match here {
            Here::Local(next) => self.cut_with_tenure(controller, next.clone().run(request).await),
            Here::Site => answer(controller.site.clone().oneshot(request).await),
        })
        .await
    }

    /// Offers a request to a controller; returns the answer, or the reason why it may be offered
    /// again.
    async fn offer(
        &self,
        forwarded: &Forwarded,
        seen: &ClusterNow,
        leader: &LeaderCard,
        epoch: u64,
    ) -> Result<Response, MayRepeat> {
        let answered = || self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        // The addresses at its election, and its present ones.
        let (mut addresses, first) = (leader.addresses.clone(), *answered());
        let is_its =
            |card: &&PeerCard| (&card.peer, card.instance) == (&leader.peer, leader.instance);
        let now = seen.peers.iter().filter(is_its).flat_map(|card| &card.addresses);
        let further: Vec<_> = now.filter(|address| !leader.addresses.contains(address)).collect();
        addresses.extend(further);
        addresses.sort_by_key(|address| Some(*address) != first);
        let sent = tokio::select! {
            sent = forwarded.send(self.client.plain(), "https", &addresses) => sent,
            () = another_leader(self.watch(), epoch) => {
                Err(ForwardError::MaybeDone("the controller has changed".to_owned()))
            }
        };
        match sent {
            Ok((address, reply)) => {
                *answered() = Some(address);
                if reply.status() != StatusCode::SERVICE_UNAVAILABLE {
                    return Ok(pass_on(reply, self.watch(), epoch));
                }
                match refusal(reply).await {
                    found if found.code == ProblemCode::NotController => Err(found.into()),
                    found => Ok(problem(found)),
                }
            }
            Err(ForwardError::MaybeDone(why)) if !forwarded.may_repeat() => {
                Ok(problem(maybe_done(&why)))
            }
            Err(ForwardError::NotSent(why) | ForwardError::MaybeDone(why)) => {
                Err(MayRepeat::Lost { peer: leader.peer.clone(), why })
            }
        }
    }
}

/// The reason why a request was not carried out and may be sent again.
#[derive(Debug, thiserror::Error)]
enum MayRepeat {
    /// The site has no controller.
    #[error("no peer of this site is the controller now")]
    NoController,
    /// The peer that was asked no longer leads.
    #[error(transparent)]
    Deposed(#[from] Problem),
    /// The peer that leads was not reached, or lost.
    #[error("peer `{peer}`: {why}")]
    Lost { peer: Name, why: String },
}

/// Returns when another peer leads than the one of this epoch, or none.
async fn another_leader(mut now: watch::Receiver<Arc<ClusterNow>>, epoch: u64) {
    let gone = |now: &Arc<ClusterNow>| now.leader.as_ref().is_none_or(|(_, known)| *known != epoch);
    // The membership ends with the daemon.
    let _ = now.wait_for(gone).await;
}

/// Returns when this peer has no tenure of this epoch: another peer leads, or the tenure is over
/// and the next leader is unknown.
async fn no_tenure(mut now: watch::Receiver<Arc<ClusterNow>>, epoch: u64) {
    let over =
        |now: &Arc<ClusterNow>| now.tenure.as_ref().is_none_or(|tenure| tenure.revision() != epoch);
    // The membership ends with the daemon.
    let _ = now.wait_for(over).await;
}

/// Passes a reply on, unless it reports that this peer is no longer the controller.
async fn deposed(reply: Response) -> Result<Response, Problem> {
    if reply.status() != StatusCode::SERVICE_UNAVAILABLE {
        return Ok(reply);
    }
    let (parts, body) = reply.into_parts();
    // Problems are short; an unreadable answer is one that was cut.
    let bytes = axum::body::to_bytes(body, BODY_BYTES_MAX).await.unwrap_or_default();
    let found = crate::http::problem_of(parts.status.as_u16(), &bytes);
    match found.code == ProblemCode::NotController {
        true => Err(found),
        false => Ok(Response::from_parts(parts, Body::from(bytes))),
    }
}

/// Returns the problem in a reply.
async fn refusal(reply: reqwest::Response) -> Problem {
    let status = reply.status().as_u16();
    let body = reply.bytes().await.unwrap_or_default();
    crate::http::problem_of(status, &body)
}

/// Passes another peer's reply to the caller as it arrives. The reply is cut when that peer is no
/// longer the controller, so that no client waits for a stream that has ended.
fn pass_on(
    reply: reqwest::Response,
    now: watch::Receiver<Arc<ClusterNow>>,
    epoch: u64,
) -> Response {
    let response = forward::passed_back(&reply);
    let parts = futures_util::stream::unfold(Some(reply), move |reply| {
        let now = now.clone();
        async move {
            let mut reply = reply?;
            let part: Result<Option<Bytes>, std::io::Error> = tokio::select! {
                part = reply.chunk() => part.map_err(std::io::Error::other),
                () = another_leader(now, epoch) => Err(changed()),
            };
            match part {
                Ok(Some(part)) => Some((Ok(part), Some(reply))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        }
    });
    response.body(Body::from_stream(parts)).unwrap_or_else(|error| {
        let title = "a peer's reply cannot be passed on";
        problem(Problem::new(ProblemCode::Internal, title).because(error))
    })
}

fn changed() -> std::io::Error {
    std::io::Error::other("the controller has changed")
}

fn answer(outcome: Result<Response, std::convert::Infallible>) -> Response {
    match outcome {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

fn problem(problem: Problem) -> Response {
    ProblemReply(problem).into_response()
}

fn refused(why: &str) -> Response {
    problem(Problem::new(ProblemCode::NotAuthorised, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a request that this peer could not carry out, as it no longer led, is offered to
    /// the next controller. Any other answer goes to its caller unchanged.
    #[tokio::test]
    async fn only_who_leads_no_more_is_not_an_answer() {
        assert_eq!(
            deposed(problem(not_controller())).await.unwrap_err().code,
            ProblemCode::NotController
        );
        let busy = Problem::new(ProblemCode::Busy, "too much to do");
        let reply = deposed(problem(busy)).await.unwrap();
        assert_eq!(reply.status(), StatusCode::SERVICE_UNAVAILABLE);
        let body = axum::body::to_bytes(reply.into_body(), BODY_BYTES_MAX).await.unwrap();
        assert_eq!(crate::http::problem_of(503, &body).code, ProblemCode::Busy);
        assert_eq!(deposed("ok".into_response()).await.unwrap().status(), StatusCode::OK);
    }
}
