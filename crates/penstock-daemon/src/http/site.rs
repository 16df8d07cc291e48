//! The site API `/site/v1`: the requests of paired sites. The certificate identifies the caller.
//!
//! A site may open scans of stores that are exported to it, and submit transfers from itself to
//! stores that it may write to. It may see and steer the transfers that read from it. Pairing,
//! joining and the health check alone need no certificate.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{
    DefaultBodyLimit, Extension, FromRequestParts, Json, Path, Query, Request, State,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use axum::{RequestPartsExt as _, Router};
use penstock_api::access::AccountName;
use penstock_api::keys::{KEYS_HEADER, KeysHeard, KeysRecord};
use penstock_api::limits::LimitRequest;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::proof::Document;
use penstock_api::receipt::{ReceiptBody, ReceiptSignature, ReceiptSigner, Role};
use penstock_api::removal::RemoveReply;
use penstock_api::rest::{Event, PieceMap, Steering, TransferPatch};
use penstock_api::scan::{
    DigestWish, PageReply, RecheckRequest, ScanRequest, SourcePeer, WishedDigests,
};
use penstock_api::site::{
    JoinHalf, JoinedSite, OpenScan, OpenedScan, PAGE_WAIT_MS_MAX, PairHalf, RemoveMoved,
    SPEAKS_HEADER, SiteAddresses, SiteHealth, USER_HEADER, VERSION_HEADER, check_version,
};
use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::{PathText, TransferReport, TransferRequest, TransferState};
use penstock_controller::manager::{
    Caller, EventReader, Manager, NextEvent, SourceAccount, check_as_source,
};
use penstock_proto::id::{Name, TransferId};
use penstock_proto::manifest::PAGE_BYTES_MAX;
use penstock_proto::name;
use penstock_proto::network::DataAddress;
use penstock_sys::now_seconds;
use serde::Deserialize;
use tokio::sync::watch;

use super::compressed::{self, ZSTD};
use super::connection::Connection;
use crate::access::admission::RefusedKind;
use crate::access::budget::{AnswerPlace, Duty};
use crate::access::pairing;
use crate::http::reply::{ProblemReply, Reply, blocking, not_found, stream_file};
use crate::http::request::{BODY_BYTES_MAX, Body, PlanQuery, checksum_kind};
use crate::site::context::Site;
use crate::site::foreign_scans::{ForeignScans, foreign_scan};
use crate::site::reported_addresses::believable;
use crate::site::submission;

/// The intervals at which a request that waits for a page looks for it, without news of the scan:
/// at first, and in the end.
const PAGE_LOOK: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Longest body of a request to pair, which any client may send.
const PAIR_BYTES_MAX: usize = 16 << 10;

/// The parts that the handlers share.
#[derive(Clone)]
pub(crate) struct SiteParts {
    pub(crate) site: Arc<Site>,
    pub(crate) manager: Arc<Manager>,
    pub(crate) source: Arc<dyn SourcePeer>,
    pub(crate) signer: Arc<dyn ReceiptSigner>,
    pub(crate) scans: Arc<ForeignScans>,
    /// See [`OpenedScan::instance`].
    pub(crate) instance: u64,
}

/// Runs blocking work for a site, once that site has a place for it.
async fn work<T: Send + 'static>(
    parts: SiteParts,
    site: Name,
    duty: Duty,
    work: impl FnOnce(&SiteParts, &Name) -> Result<T, Problem> + Send + 'static,
) -> Result<T, ProblemReply> {
    let place = parts.site.budgets.of(&site).enter(duty).await?;
    blocking(move || {
        // A cancelled request keeps its thread until the work is done.
        let _place = place;
        work(&parts, &site)
    })
    .await
}

/// Returns the routes of the site API.
pub(crate) fn router(parts: SiteParts) -> Router {
    let long = || DefaultBodyLimit::max(BODY_BYTES_MAX);
    let api = Router::new()
        .route("/health", get(health))
        .route("/pair", post(pair).layer(DefaultBodyLimit::max(PAIR_BYTES_MAX)))
        .route("/addresses", post(addresses))
        .route("/keys", post(take_keys).layer(long()))
        .route("/keys/{after}", get(give_keys))
        .route("/join", post(join).layer(DefaultBodyLimit::max(PAIR_BYTES_MAX)))
        .route("/transfers", post(submit).layer(long()))
        .route("/plans", post(plan).layer(long()))
        .route("/plans/{id}", post(put_plan).layer(long()))
        .route("/transfers/{id}", get(show))
        .route("/transfers/{id}/digests", get_document(Document::Digests))
        .route("/transfers/{id}/checksums/{kind}", get(checksums))
        .route("/transfers/{id}/receipt", get_document(Document::Receipt))
        .route("/transfers/{id}/failures", get_document(Document::Failures))
        .route("/transfers/{id}/flight", get_document(Document::Flight))
        .route("/transfers/{id}/pieces", get(piece_map))
        .route("/transfers/{id}/limits", post(limit))
        .route("/transfers/{id}/change", post(change))
        .route("/transfers/{id}/{action}", post(act))
        .route("/scans", post(open_scan).layer(long()))
        .route("/stores/{store}/peers", get(source_peers))
        .route("/scans/{id}", delete(release))
        .route("/scans/{id}/receipt", post(countersign).layer(long()))
        .route("/scans/{id}/pages/{number}", get(page))
        .route("/scans/{id}/asked", post(ask))
        .route("/scans/{id}/hashed", post(hash))
        .route("/scans/{id}/remove", post(remove))
        .method_not_allowed_fallback(not_found);
    Router::new()
        .nest("/site/v1", api)
        .fallback(not_found)
        .layer(middleware::from_fn_with_state(Arc::clone(&parts.site), versioned))
        .with_state(parts)
}

/// Refuses versions of this API that the site does not speak, before the request is examined; the
/// error names the versions that it speaks.
pub(crate) async fn versioned(
    State(site): State<Arc<Site>>,
    request: Request,
    next: Next,
) -> Response {
    let speaks = site.speaks();
    let checked = {
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
        check_version(speaks, header(VERSION_HEADER), header(SPEAKS_HEADER))
    };
    let (version, mut response) = match checked {
        Ok(version) => (version, next.run(request).await),
        Err(problem) => (speaks.newest, ProblemReply(problem).into_response()),
    };
    response.headers_mut().insert(VERSION_HEADER, HeaderValue::from(version));
    response.headers_mut().insert(KEYS_HEADER, HeaderValue::from(site.keys().sequence()));
    if let Ok(speaks) = HeaderValue::from_str(&speaks.to_string()) {
        response.headers_mut().insert(SPEAKS_HEADER, speaks);
    }
    response
}

/// The calling site: paired at this moment, and by the authority that vouched for its connection.
struct Calling(Name);

impl FromRequestParts<SiteParts> for Calling {
    type Rejection = ProblemReply;

    async fn from_request_parts(
        request: &mut Parts,
        parts: &SiteParts,
    ) -> Result<Self, Self::Rejection> {
        let connection = request.extract::<Extension<Connection>>().await.ok();
        let peer = connection.and_then(|Extension(connection)| connection.peer);
        let refused = |title: String| ProblemReply(Problem::new(ProblemCode::NotAuthorised, title));
        let peer = peer.ok_or_else(|| refused("a client certificate is needed".to_owned()))?;
        let site = peer.peer.site.clone();
        if !parts.site.is_paired_by(&peer) {
            return Err(refused(format!(
                "site `{site}` is not paired with `{}`",
                parts.site.config.site
            )));
        }
        Ok(Self(site))
    }
}

/// The user of the calling site for whom a request is, if that site sends it.
struct ForUser(Option<Name>);

impl FromRequestParts<SiteParts> for ForUser {
    type Rejection = ProblemReply;

    async fn from_request_parts(request: &mut Parts, _: &SiteParts) -> Result<Self, ProblemReply> {
        let Some(text) = request.headers.get(USER_HEADER) else { return Ok(Self(None)) };
        let user = text.to_str().ok().and_then(|text| text.parse().ok());
        user.map(Some).map(Self).ok_or_else(|| {
            let title = format!("the header `{USER_HEADER}` is no name");
            ProblemReply(Problem::new(ProblemCode::Name, title))
        })
    }
}

async fn health(State(parts): State<SiteParts>) -> Json<SiteHealth> {
    Json(SiteHealth {
        site: parts.site.config.site.clone(),
        peer: parts.site.config.peer.clone(),
        version: parts.site.speaks().newest,
        release: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// Proof that a token of this kind is valid now. Without such a token no body is read.
struct Offered;

impl FromRequestParts<SiteParts> for Offered {
    type Rejection = ProblemReply;

    async fn from_request_parts(
        request: &mut Parts,
        parts: &SiteParts,
    ) -> Result<Self, Self::Rejection> {
        let join = request.uri.path().ends_with("/join");
        Ok(parts.site.check_offered(join, now_seconds()).map(|()| Self)?)
    }
}

async fn pair(
    State(parts): State<SiteParts>,
    Extension(connection): Extension<Connection>,
    _: Offered,
    Body(half): Body<PairHalf>,
) -> Reply<PairHalf> {
    blocking(move || {
        pairing::accept(&parts.site, &half, &connection.exporter, now_seconds()).inspect_err(
            |problem| {
                let why = format!("site `{}`: {problem}", half.site);
                parts.site.admission.note_refused(connection.from.ip(), RefusedKind::Pairing, &why);
            },
        )
    })
    .await
    .map(Json)
}

/// Exchanges addresses: a site sends its present ones, and receives ours.
async fn addresses(
    State(parts): State<SiteParts>,
    Calling(site): Calling,
    Extension(connection): Extension<Connection>,
    Body(theirs): Body<SiteAddresses>,
) -> Reply<SiteAddresses> {
    let theirs = believable(theirs.bounded(), &[connection.from.ip()]);
    work(parts, site, Duty::Work, move |parts, site| {
        parts.site.learn(site, &theirs)?;
        Ok(parts.site.addresses())
    })
    .await
    .map(Json)
}

/// Accepts the statements of a paired site about its keys.
async fn take_keys(
    State(parts): State<SiteParts>,
    Calling(site): Calling,
    Body(offered): Body<KeysRecord>,
) -> Reply<KeysHeard> {
    let own = Arc::clone(&parts.site);
    let heard = blocking(move || {
        parts.site.accept_keys(&site, &offered).inspect_err(|problem| {
            tracing::error!(%site, %problem, "keys that a site states are not trusted");
        })
    });
    let sequence = heard.await?;
    tokio::spawn(own.tell_trust_news_soon());
    Ok(Json(KeysHeard { sequence }))
}

/// Returns the statements about our keys after the one with a number.
async fn give_keys(
    State(parts): State<SiteParts>,
    Calling(_): Calling,
    Path(after): Path<u64>,
) -> Json<KeysRecord> {
    Json(parts.site.keys().statements_after(after))
}

async fn join(
    State(parts): State<SiteParts>,
    Extension(connection): Extension<Connection>,
    _: Offered,
    Body(half): Body<JoinHalf>,
) -> Reply<JoinedSite> {
    blocking(move || {
        crate::access::join::accept(&parts.site, &half, &connection.exporter, now_seconds())
            .inspect_err(|problem| {
                let why = format!("peer `{}`: {problem}", half.peer);
                parts.site.admission.note_refused(connection.from.ip(), RefusedKind::Joining, &why);
            })
    })
    .await
    .map(Json)
}

/// Returns the caller for a request of a site to stores of this one, for its user if it has sent
/// one.
fn mapped(parts: &SiteParts, site: &Name, user: Option<&Name>) -> Caller {
    Caller::Site { site: site.clone(), account: parts.site.exports.account_of(site, user) }
}

async fn submit(
    State(parts): State<SiteParts>,
    Calling(site): Calling,
    ForUser(user): ForUser,
    Body(request): Body<TransferRequest>,
) -> Result<(StatusCode, Json<TransferReport>), ProblemReply> {
    let request = submission::within_rights(&parts.site, &site, request)?;
    let (view, new) = work(parts, site, Duty::Work, move |parts, site| {
        let (report, new) = parts.manager.submit(&request, &mapped(parts, site, user.as_ref()))?;
        Ok((report.without_paths(), new))
    })
    .await?;
    Ok((if new { StatusCode::CREATED } else { StatusCode::OK }, Json(view)))
}

async fn plan(
    State(parts): State<SiteParts>,
    Calling(site): Calling,
    ForUser(user): ForUser,
    Body(request): Body<TransferRequest>,
) -> Result<Response, ProblemReply> {
    let request = submission::within_rights(&parts.site, &site, request)?;
    let file = work(parts, site, Duty::Work, move |parts, site| {
        parts.manager.plan(&request, &mapped(parts, site, user.as_ref()))
    })
    .await?;
    Ok(stream_file(file, "application/octet-stream"))
}

async fn put_plan(
    State(parts): State<SiteParts>,
    Calling(site): Calling,
    Path(id): Path<String>,
    Query(query): Query<PlanQuery>,
    part: axum::body::Bytes,
) -> Result<StatusCode, ProblemReply> {
    submission::check_writable(&parts.site, &site, &query.store)?;
    work(parts, site, Duty::Work, move |parts, site| {
        let (own, caller) = (parts.manager.site(), Caller::site(site.clone()));
        let place = (own, &query.store);
        parts.manager.put_plan(place, id_of(&id)?, query.offset, &part, &caller)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct NewsQuery {
    /// Answer when the state is another one than this, or `wait_ms` have passed.
    seen: Option<TransferState>,
    #[serde(default)]
    wait_ms: u32,
}

async fn show(
    State(parts): State<SiteParts>,
    Calling(site): Calling,
    Path(id): Path<String>,
    Query(query): Query<NewsQuery>,
) -> Reply<TransferReport> {
    let id = id_of(&id)?;
    let mut events = parts.manager.events();
    let look = || {
        work(parts.clone(), site.clone(), Duty::Work, move |parts, site| {
            let report = parts.manager.show(id, &Caller::site(site.clone()))?;
            Ok(report.without_paths())
        })
    };
    let view = look().await?;
    if query.seen != Some(view.state) {
        return Ok(Json(view));
    }
    let wait = Duration::from_millis(query.wait_ms.min(PAGE_WAIT_MS_MAX).into());
    another_state(&mut events, id, view.state, wait).await;
    look().await.map(Json)
}

/// Waits until one of `events` shows that a transfer is in another state than `seen`, `wait` at
/// most.
async fn another_state(
    events: &mut EventReader,
    id: TransferId,
    seen: TransferState,
    wait: Duration,
) {
    let changed = async {
        while let Some(next) = events.next().await {
            let NextEvent::Event(_, told) = next else { return };
            if let Event::Status(event) | Event::Summary(event) = &told.event
                && event.id == id
                && event.state != seen
            {
                return;
            }
        }
    };
    // The caller checks again in either case.
    let _ = tokio::time::timeout(wait, changed).await;
}

/// Returns the handler of a document of a transfer.
fn get_document(wanted: Document) -> MethodRouter<SiteParts> {
    get(move |parts: State<SiteParts>, calling: Calling, Path(id): Path<String>| {
        document(parts, calling, id, wanted)
    })
}

async fn checksums(
    parts: State<SiteParts>,
    calling: Calling,
    Path((id, kind)): Path<(String, String)>,
) -> Result<Response, ProblemReply> {
    document(parts, calling, id, Document::Checksums(checksum_kind(&kind)?)).await
}

async fn document(
    State(parts): State<SiteParts>,
    Calling(site): Calling,
    id: String,
    document: Document,
) -> Result<Response, ProblemReply> {
    let file = work(parts, site, Duty::Work, move |parts, site| {
        parts.manager.document(id_of(&id)?, document, &Caller::site(site.clone()))
    })
    .await?;
    Ok(stream_file(file, "application/octet-stream"))
}

async fn piece_map(
    State(parts): State<SiteParts>,
    Calling(site): Calling,
    Path(id): Path<String>,
) -> Reply<PieceMap> {
    work(parts, site, Duty::Work, move |parts, site| {
        parts.manager.piece_map(id_of(&id)?, &Caller::site(site.clone()))
    })
    .await
    .map(Json)
}

/// Query of an action. Fields of a later release are passed over.
#[derive(Deserialize)]
struct ActionQuery {
    /// Time at which a paused transfer resumes by itself.
    until: Option<Timestamp>,
}

async fn act(
    State(parts): State<SiteParts>,
    Calling(site): Calling,
    Path((id, action)): Path<(String, String)>,
    Query(ActionQuery { until }): Query<ActionQuery>,
) -> Reply<TransferReport> {
    work(parts, site, Duty::Work, move |parts, site| {
        let caller = Caller::site(site.clone());
        let steering = Steering { action: action.parse()?, until };
        let report = parts.manager.act(id_of(&id)?, steering, &caller)?;
        Ok(report.without_paths())
    })
    .await
    .map(Json)
}

async fn limit(
    State(parts): State<SiteParts>,
    Calling(site): Calling,
    Path(id): Path<String>,
    Body(limit): Body<LimitRequest>,
) -> Reply<TransferReport> {
    work(parts, site, Duty::Work, move |parts, site| {
        let (patch, caller) = (limit.into(), Caller::site(site.clone()));
        let report = parts.manager.change(id_of(&id)?, &patch, &|_| true, &caller)?;
        Ok(report.without_paths())
    })
    .await
    .map(Json)
}

async fn change(
    State(parts): State<SiteParts>,
    Calling(site): Calling,
    Path(id): Path<String>,
    Body(patch): Body<TransferPatch>,
) -> Reply<TransferReport> {
    work(parts, site, Duty::Work, move |parts, site| {
        let caller = Caller::site(site.clone());
        let report = parts.manager.change(id_of(&id)?, &patch, &|_| true, &caller)?;
        Ok(report.without_paths())
    })
    .await
    .map(Json)
}

async fn open_scan(
    State(parts): State<SiteParts>,
    Calling(site): Calling,
    ForUser(user): ForUser,
    Body(open): Body<OpenScan>,
) -> Reply<OpenedScan> {
    let transfer = open.transfer;
    let (noting, owner) = (parts.clone(), site.clone());
    let (opened, new) = work(parts, site, Duty::Work, move |parts, site| {
        open_for(parts, (site, user.as_ref()), open.into())
    })
    .await?;
    if new {
        // The call may take a while, and the caller waits for its scan.
        tokio::spawn(work(noting, owner, Duty::Wait, move |parts, site| {
            parts.manager.note_foreign(site, transfer);
            Ok(())
        }));
    }
    Ok(Json(opened))
}

/// Returns the addresses at which peers of this site that reach a store accept lanes now.
async fn source_peers(
    State(parts): State<SiteParts>,
    Calling(site): Calling,
    Path(store): Path<String>,
) -> Reply<Vec<DataAddress>> {
    work(parts, site, Duty::Work, move |parts, site| {
        let store = store.parse().map_err(|error| {
            Problem::new(ProblemCode::Request, "the text is not the name of a store").because(error)
        })?;
        check_readable(&parts.site, site, &store)?;
        Ok(parts.site.data_known_for(&store))
    })
    .await
    .map(Json)
}

fn check_readable(own: &Site, site: &Name, store: &Name) -> Result<(), Problem> {
    if own.may_read(site, store) {
        return Ok(());
    }
    let unknown = own.unknown_now(store);
    Err(unknown.unwrap_or_else(|| not_exported(own, site, store)))
}

/// Returns the account as which a mapped store is read for a transfer that another site owns: that
/// of the user of this site who submitted it, or else the account that the site is mapped to.
fn source_account(
    parts: &SiteParts,
    (site, user): (&Name, Option<&Name>),
    id: TransferId,
    source: (&Name, &PathText),
) -> Result<Option<AccountName>, Problem> {
    Ok(match parts.manager.source_account(site, id, source)? {
        SourceAccount::Submitter(account) => account,
        SourceAccount::Mapped => parts.site.exports.account_of(site, user),
    })
}

/// Opens a scan; returns whether it is a new one.
fn open_for(
    parts: &SiteParts,
    (site, user): (&Name, Option<&Name>),
    mut request: ScanRequest,
) -> Result<(OpenedScan, bool), Problem> {
    let own = &parts.site;
    check_readable(own, site, &request.store)?;
    if request.remove && !own.may_remove(site, &request.store) {
        return Err(not_removable(own, site, &request.store));
    }
    let paths = std::iter::once(&request.root).chain(&request.files_from);
    for path in paths {
        name::check_relative(&path.0).map_err(|_| {
            let title = format!("`{path}` is not a path within a store");
            Problem::new(ProblemCode::Request, title)
        })?;
    }
    let id = request.transfer;
    // The state database survives a restart, and has the own transfers.
    if parts.manager.owner(id)?.is_some_and(|owner| owner != *site) {
        return Err(foreign_scan(id));
    }
    request.account = source_account(parts, (site, user), id, (&request.store, &request.root))?;
    let new = parts.scans.enter(site, id, &*parts.source)?;
    request.slicing = request.slicing.no_newer_than(own.format().slicer);
    let root = parts.source.open_scan(&request).inspect_err(|_| {
        if new {
            parts.scans.give_up(id);
        }
    })?;
    parts.scans.check(site, id)?;
    let peers = own.data_for(&request.store);
    let capability = data_encoding::HEXLOWER.encode(&own.capability(site, &request));
    Ok((OpenedScan { root, capability, peers, instance: parts.instance }, new))
}

#[derive(Deserialize)]
struct PageQuery {
    #[serde(default)]
    wait_ms: u32,
}

async fn page(
    State(parts): State<SiteParts>,
    Calling(site): Calling,
    Path((id, number)): Path<(String, u32)>,
    Query(query): Query<PageQuery>,
    headers: HeaderMap,
) -> Result<Response, ProblemReply> {
    let asked = compressed::is_asked_for(&headers);
    let id = id_of(&id)?;
    let wait = Duration::from_millis(query.wait_ms.min(PAGE_WAIT_MS_MAX).into());
    let (reply, place) = next_page(&parts, &site, (id, number), wait, asked).await?;
    let kind = (header::CONTENT_TYPE, "application/octet-stream");
    Ok(match reply {
        Paged { compressed: Some(short), .. } => {
            ([kind, (header::CONTENT_ENCODING, ZSTD)], place.hold(short)).into_response()
        }
        Paged { reply: PageReply::Page(bytes), .. } => ([kind], place.hold(bytes)).into_response(),
        Paged { reply: PageReply::NotYet, .. } => StatusCode::NO_CONTENT.into_response(),
        Paged { reply: PageReply::End(summary), .. } => {
            parts.scans.note_end(id);
            Json(summary).into_response()
        }
    })
}

/// An answer to a request for a page.
struct Paged {
    reply: PageReply,
    compressed: Option<Vec<u8>>,
    news: Option<watch::Receiver<()>>,
}

/// Returns a page, once there is one or `wait` is over. A request that waits holds no thread,
/// unless the data set is listed by another peer of this site.
async fn next_page(
    parts: &SiteParts,
    site: &Name,
    (id, number): (TransferId, u32),
    wait: Duration,
    compress: bool,
) -> Result<(Paged, AnswerPlace), ProblemReply> {
    let until = Instant::now() + wait;
    let budget = parts.site.budgets.of(site);
    let (mut wait_ms, mut pause) = (0, PAGE_LOOK.0);
    loop {
        let place = budget.answer(PAGE_BYTES_MAX).await?;
        let duty = if wait_ms == 0 { Duty::Work } else { Duty::Wait };
        let paged = work(parts.clone(), site.clone(), duty, move |parts, site| {
            parts.scans.check(site, id)?;
            // Before the look for the page: news that arrive meanwhile are not missed.
            let news = parts.source.page_news(id);
            let reply = parts.source.page(id, number, wait_ms)?;
            let compressed = match &reply {
                PageReply::Page(bytes) if compress => compressed::compress(bytes),
                _ => None,
            };
            Ok(Paged { reply, compressed, news })
        });
        let mut paged = paged.await?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || paged.reply != PageReply::NotYet {
            return Ok((paged, place));
        }
        drop(place);
        match &mut paged.news {
            Some(news) => {
                // A page that is not full is sealed early for a request that looks again.
                let _ = tokio::time::timeout(pause.min(left), news.changed()).await;
                pause = (pause * 2).min(PAGE_LOOK.1);
            }
            None => wait_ms = left.as_millis() as u32,
        }
    }
}

/// Looks again at entries that have changed: the number of pages that there are now.
async fn ask(
    State(parts): State<SiteParts>,
    Calling(site): Calling,
    Path(id): Path<String>,
    Body(question): Body<RecheckRequest>,
) -> Reply<u32> {
    work(parts, site, Duty::Work, move |parts, site| {
        let id = id_of(&id)?;
        parts.scans.check(site, id)?;
        parts.source.ask(id, &question)
    })
    .await
    .map(Json)
}

/// Hashes files of a page; null if that takes longer.
async fn hash(
    State(parts): State<SiteParts>,
    Calling(site): Calling,
    Path(id): Path<String>,
    Query(query): Query<PageQuery>,
    Body(wish): Body<DigestWish>,
) -> Reply<Option<WishedDigests>> {
    work(parts, site, Duty::Wait, move |parts, site| {
        let id = id_of(&id)?;
        parts.scans.check(site, id)?;
        parts.source.digests(id, &wish, query.wait_ms.min(PAGE_WAIT_MS_MAX))
    })
    .await
    .map(Json)
}

async fn remove(
    State(parts): State<SiteParts>,
    Calling(site): Calling,
    Path(id): Path<String>,
    Body(body): Body<RemoveMoved>,
) -> Reply<RemoveReply> {
    work(parts, site, Duty::Work, move |parts, site| {
        let id = id_of(&id)?;
        parts.scans.check(site, id)?;
        check_removal(&parts.site, site, id, &body.capability)?;
        parts.source.remove(id, &body.order)
    })
    .await
    .map(Json)
}

/// Checks that a capability grants the caller the right to remove moved items now. It must be ours,
/// for this transfer and this site, and the store must still allow removal.
fn check_removal(own: &Site, site: &Name, id: TransferId, shown: &str) -> Result<(), Problem> {
    let void = |why: String| {
        let title = "the capability does not allow to remove anything";
        Problem::new(ProblemCode::CapabilityVoid, title).because(why)
    };
    let bytes = data_encoding::HEXLOWER
        .decode(shown.as_bytes())
        .map_err(|error| void(error.to_string()))?;
    let capability = own.verify_capability(&bytes, now_seconds());
    let capability = capability.map_err(|error| void(error.to_string()))?;
    if capability.transfer != id || capability.target != *site || !capability.remove {
        return Err(void("it is for something else".to_owned()));
    }
    if !own.may_remove(site, &capability.store) {
        return Err(not_removable(own, site, &capability.store));
    }
    Ok(())
}

async fn release(
    State(parts): State<SiteParts>,
    Calling(site): Calling,
    Path(id): Path<String>,
) -> Result<StatusCode, ProblemReply> {
    work(parts, site, Duty::Work, move |parts, site| {
        let id = id_of(&id)?;
        // The owner of a stub need not open a scan once more, just to drop it after a restart.
        if parts.manager.owner(id)?.as_ref() != Some(site) {
            parts.scans.check(site, id)?;
        }
        parts.scans.remove(id);
        parts.manager.forget_foreign(site, id);
        Ok(())
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Countersigns a receipt of a transfer that reads from here, as far as it was seen from here.
async fn countersign(
    State(parts): State<SiteParts>,
    Calling(site): Calling,
    ForUser(user): ForUser,
    Path(id): Path<String>,
    Body(body): Body<ReceiptBody>,
) -> Reply<ReceiptSignature> {
    work(parts, site, Duty::Work, move |parts, site| {
        let id = id_of(&id)?;
        parts.scans.check(site, id)?;
        let own = &parts.site.config.site;
        if body.id != id || body.source.site != *own || body.target.site != *site {
            let title = "the receipt is not one of a transfer from here to the caller";
            return Err(Problem::new(ProblemCode::ReceiptForeign, title));
        }
        let place = (&body.source.store, &body.source.path);
        let account = source_account(parts, (site, user.as_ref()), id, place)?;
        check_as_source(&*parts.source, parts.manager.fence(), &body, account.as_ref())?;
        parts.signer.sign(&body, Role::Source)
    })
    .await
    .map(Json)
}

/// Returns the problem of a store that is not exported, which is that of one that does not exist.
fn not_exported(own: &Site, site: &Name, store: &Name) -> Problem {
    let own = &own.config.site;
    let title = format!("site `{site}` may not read from `{own}:{store}`");
    Problem::new(ProblemCode::NotExported, title).hint(format!(
        "an operator of `{own}` can list the store, or the site, in its configuration"
    ))
}

/// Returns the problem of a move from a store without the right to remove: a move is more than a
/// read.
fn not_removable(own: &Site, site: &Name, store: &Name) -> Problem {
    let own = &own.config.site;
    let title = format!("site `{site}` may not remove anything from `{own}:{store}`");
    Problem::new(ProblemCode::RemoveNotAllowed, title).hint(format!(
        "an operator of `{own}` can list the site under `remove` of the store in its \
         configuration; without `--remove-source` it is a copy"
    ))
}

fn id_of(text: &str) -> Result<TransferId, Problem> {
    text.parse().map_err(|error: penstock_proto::id::ParseIdError| {
        Problem::new(ProblemCode::Id, error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a site of a later release may send fields that this one does not know.
    #[test]
    fn an_action_takes_unknown_fields() {
        let uri = "/transfers/1/pause?until=2026-11-26T20:00:00Z&why=upgrade".parse().unwrap();
        let Query(query) = Query::<ActionQuery>::try_from_uri(&uri).unwrap();
        assert_eq!(query.until, Some("2026-11-26T20:00:00Z".parse().unwrap()));
    }
}
