//! Budgets of paired sites: what one of them may take of this daemon at a time.
//!
//! Each site has its own places, so that a site at its limits waits for itself. Of what is scarce
//! for the daemon as a whole there is a limit in all as well, above that of one site.
//!
//! | duty | of one site | in all | beyond it |
//! |---|---|---|---|
//! | [`Duty::Connection`]: connections to the site API | 64 | | the connection is closed |
//! | streams of one connection | 128 | | HTTP/2 makes the client wait |
//! | [`Duty::Request`]: requests, until their answers are sent | 256 | | waits, then 503 |
//! | [`Duty::Work`]: requests that hold a thread | 32 | | waits, then 503 |
//! | [`Duty::Wait`]: requests that hold a thread while files are hashed | 32 | | waits, then 503 |
//! | [`Duty::Probe`]: trials of the paths to the site | 1 | 4 | 503 |
//! | [`Duty::Lane`]: lanes | 1,024 | | refused as busy |
//! | [`Duty::Refusal`]: lanes that are told so | 16 | | the connection is closed |
//! | [`LanePlace`]: strides of files in memory, of up to 1 MiB | 64, or 2 a CPU | | lanes wait |
//! | scans that list ([`super::foreign_scans`]) | 64 | | 503 |
//! | scans that are kept | 1,000 | | 503 |
//! | [`Bodies`]: bytes of bodies of up to 1 MiB | 8 MiB | | waits, then 503 |
//! | [`Bodies`]: lists, bodies of up to 64 MiB | 1 | 4 | waits, then 503 |
//! | [`Answers`]: bytes of pages that are not sent yet | 32 MiB | | waits, then 503 |
//!
//! A body has 20 s, a list 60 s; a slower one is refused (408). A request waits for a place for 10
//! s. Other peers of the own site have 1,024 connections, and no other limit.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use hyper::body::{Frame, SizeHint};
use penstock_api::problem::{Exit, Problem};
use penstock_controller::rest::{BODY_BYTES_MAX, ProblemReply};
use penstock_io::buffer::BufferPool;
use penstock_peer::SourceService;
use penstock_proto::id::Name;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use crate::grants::how_to_grant;

use super::port::Connection;
use super::site::Site;

/// How long a request waits for a place.
const PATIENCE: Duration = Duration::from_secs(10);
/// Seconds after which a client that got no place may ask again.
const RETRY_AFTER_S: u32 = 5;
/// Longest body of a request that may name no list of paths.
const SHORT_BYTES_MAX: usize = 1 << 20;
/// Bytes of such bodies at a time.
const SHORT_BYTES_OF_SITE: usize = 8 << 20;
/// How long such a body may take.
const SHORT_DEADLINE: Duration = Duration::from_secs(20);
/// Longer bodies at a time: of one site, and in all.
const LISTS_OF_SITE: usize = 1;
const LISTS: usize = 4;
/// How long one may take.
const LIST_DEADLINE: Duration = Duration::from_secs(60);
/// Items that a list may have: each takes memory of its own beside its bytes.
const ITEMS_MAX: usize = 2_000_000;
/// Bytes of answers of one site that are not sent yet.
const ANSWER_BYTES_OF_SITE: usize = 32 << 20;
/// Trials of paths at a time, in all.
const PROBES: usize = 4;

/// What a site takes a place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// A connection to the site API.
    Connection,
    /// A request, until its answer is sent.
    Request,
    /// A request that holds a thread.
    Work,
    /// The same, for as long as files are hashed.
    Wait,
    /// A trial of the paths to the site.
    Probe,
    /// A lane that is served.
    Lane,
    /// A lane that is refused in order.
    Refusal,
}

impl Duty {
    const ALL: [Self; DUTIES] = [
        Self::Connection,
        Self::Request,
        Self::Work,
        Self::Wait,
        Self::Probe,
        Self::Lane,
        Self::Refusal,
    ];

    /// Places of one site.
    fn places(self) -> usize {
        match self {
            Self::Connection => 64,
            Self::Request => 256,
            Self::Work | Self::Wait => 32,
            Self::Probe => 1,
            Self::Lane => 1024,
            Self::Refusal => 16,
        }
    }
}

/// Kinds of [`Duty`].
const DUTIES: usize = 7;

/// A place of a site, until it is dropped.
pub(crate) type Place = OwnedSemaphorePermit;

/// The budgets of all sites.
pub(crate) struct Budgets {
    own: Name,
    of: Mutex<HashMap<Name, Arc<Budget>>>,
    lists: Arc<Semaphore>,
    probes: Arc<Semaphore>,
}

/// What one site may take.
pub(crate) struct Budget {
    site: Name,
    places: [Arc<Semaphore>; DUTIES],
    buffers: BufferPool,
    bodies: Bodies,
    answers: Answers,
    probes: Arc<Semaphore>,
}

impl Budgets {
    /// Those of the sites that are paired with this one.
    pub(crate) fn new(own: Name) -> Self {
        let (lists, probes) = (Arc::new(Semaphore::new(LISTS)), Arc::new(Semaphore::new(PROBES)));
        Self { own, of: Mutex::default(), lists, probes }
    }

    /// The budget of a site. Callers are sites that have been paired: the table stays small.
    pub(crate) fn of(&self, site: &Name) -> Arc<Budget> {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Budget::new(site.clone(), self));
        Arc::clone(of.entry(site.clone()).or_insert_with(new))
    }
}

impl Budget {
    fn new(site: Name, all: &Budgets) -> Self {
        let places = |duty: Duty| match duty {
            Duty::Connection if site == all.own => OWN_CONNECTIONS_MAX,
            Duty::Lane if site == all.own => OWN_LANES_MAX,
            _ => duty.places(),
        };
        Self {
            places: Duty::ALL.map(|duty| Arc::new(Semaphore::new(places(duty)))),
            buffers: SourceService::buffers(),
            bodies: Bodies {
                short: Arc::new(Semaphore::new(SHORT_BYTES_OF_SITE)),
                lists: Arc::new(Semaphore::new(LISTS_OF_SITE)),
                lists_in_all: Arc::clone(&all.lists),
            },
            answers: Answers(Arc::new(Semaphore::new(ANSWER_BYTES_OF_SITE))),
            probes: Arc::clone(&all.probes),
            site,
        }
    }

    /// A place if one is free now.
    pub(crate) fn try_enter(&self, duty: Duty) -> Option<Place> {
        Arc::clone(&self.places[duty as usize]).try_acquire_owned().ok()
    }

    /// A place, as soon as one is free.
    ///
    /// # Errors
    /// Code `busy`: all of them stay taken for 10 s.
    pub(crate) async fn enter(&self, duty: Duty) -> Result<Place, Problem> {
        wait_for(&self.places[duty as usize], 1).await.ok_or_else(|| self.busy("requests"))
    }

    /// A place for a lane, if one is free now.
    pub(crate) fn lane(self: &Arc<Self>) -> Option<LanePlace> {
        let place = self.try_enter(Duty::Lane)?;
        Some(LanePlace { budget: Arc::clone(self), place: Some(place) })
    }

    /// A place to try paths, of the site and in all.
    ///
    /// # Errors
    /// Code `busy`: other paths are tried now.
    pub(crate) fn probe(&self) -> Result<(Place, Place), Problem> {
        let own = self.try_enter(Duty::Probe);
        let own =
            own.and_then(|own| Some((own, Arc::clone(&self.probes).try_acquire_owned().ok()?)));
        own.ok_or_else(|| self.busy("trials of paths"))
    }

    /// A place for a page that is read and sent.
    ///
    /// # Errors
    /// Code `busy`: the site does not take what it has asked for.
    pub(crate) async fn answer(&self, bytes_max: usize) -> Result<AnswerPlace, Problem> {
        self.answers
            .enter(bytes_max)
            .await
            .ok_or_else(|| self.busy("answers that it does not take"))
    }

    fn busy(&self, what: &str) -> Problem {
        let title = format!("site `{}` has too many {what} at a time", self.site);
        Problem::new(Exit::Temporary, "busy", title).hint("ask again after some seconds")
    }
}

/// Connections of other peers of the own site at a time, some of each, and their lanes.
const OWN_CONNECTIONS_MAX: usize = 1024;
const OWN_LANES_MAX: usize = 16_384;

/// A place for a lane, and the memory through which its bytes go, which the lanes of a site share.
pub(crate) struct LanePlace {
    budget: Arc<Budget>,
    place: Option<Place>,
}

impl LanePlace {
    /// The strides of files that the lanes of the site have in memory.
    pub(crate) fn buffers(&self) -> &BufferPool {
        &self.budget.buffers
    }
}

impl Drop for LanePlace {
    fn drop(&mut self) {
        drop(self.place.take());
        // Without lanes, a site needs no memory for them.
        if self.budget.buffers.usage().in_use == 0 {
            self.budget.buffers.trim();
        }
    }
}

/// So many places, unless they are taken for longer than a request waits.
async fn wait_for(places: &Arc<Semaphore>, count: usize) -> Option<Place> {
    let count = u32::try_from(count).ok()?;
    let place = timeout(PATIENCE, Arc::clone(places).acquire_many_owned(count)).await;
    place.ok().and_then(Result::ok)
}

/// Bodies of requests that one site has in hand here.
struct Bodies {
    /// Bytes of short ones.
    short: Arc<Semaphore>,
    lists: Arc<Semaphore>,
    lists_in_all: Arc<Semaphore>,
}

impl Bodies {
    /// Room for a body, which may be a list.
    async fn enter(&self, bytes: usize) -> Option<(Place, Option<Place>)> {
        if bytes <= SHORT_BYTES_MAX {
            return Some((wait_for(&self.short, bytes).await?, None));
        }
        let own = wait_for(&self.lists, 1).await?;
        Some((own, Some(wait_for(&self.lists_in_all, 1).await?)))
    }
}

/// Answers that are in memory until one site takes them.
struct Answers(Arc<Semaphore>);

impl Answers {
    async fn enter(&self, bytes_max: usize) -> Option<AnswerPlace> {
        let bytes_max = bytes_max.min(ANSWER_BYTES_OF_SITE);
        wait_for(&self.0, bytes_max).await.map(AnswerPlace)
    }
}

/// Room for an answer.
pub(crate) struct AnswerPlace(Place);

impl AnswerPlace {
    /// The answer, which takes its room until its last byte is sent.
    pub(crate) fn hold(mut self, answer: Vec<u8>) -> Bytes {
        let spare = self.0.num_permits().saturating_sub(answer.len());
        drop(self.0.split(spare));
        Bytes::from_owner(HeldAnswer { answer, _place: self.0 })
    }
}

struct HeldAnswer {
    answer: Vec<u8>,
    _place: Place,
}

impl AsRef<[u8]> for HeldAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.answer
    }
}

/// A body of an answer that keeps the place of its request.
struct HeldBody {
    inner: Body,
    _place: Place,
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Keeps the requests of a paired site within its budget: each has a place until its answer is
/// sent. Its body is read here, once there is room for it, and only for a site that may read or
/// write anything at all.
pub(crate) async fn keep_within(
    State(site): State<Arc<Site>>,
    request: Request,
    next: Next,
) -> Response {
    let connection = request.extensions().get::<Connection>();
    let peer = connection.and_then(|connection| connection.peer.as_ref());
    let Some(peer) = peer.filter(|peer| site.is_paired_by(peer)) else {
        return next.run(request).await;
    };
    let budget = site.budgets.of(&peer.peer.site);
    let reply = within(&site, &budget, request, next).await;
    let mut reply = reply.unwrap_or_else(|problem| ProblemReply(problem).into_response());
    if reply.status() == StatusCode::SERVICE_UNAVAILABLE {
        reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
    }
    reply
}

async fn within(
    site: &Site,
    budget: &Budget,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let place = budget.enter(Duty::Request).await?;
    let (request, _body) = if request.body().is_end_stream() {
        (request, None)
    } else {
        let bytes_max = longest(site, &budget.site, request.uri().path())?;
        let (request, body) = take_body(budget, bytes_max, request).await?;
        (request, Some(body))
    };
    let response = next.run(request).await;
    Ok(response.map(|inner| Body::new(HeldBody { inner, _place: place })))
}

/// Longest body of a request of a site to this path.
///
/// # Errors
/// The site has no right to anything there: its body is not read.
fn longest(site: &Site, caller: &Name, path: &str) -> Result<usize, Problem> {
    let path = path.strip_prefix("/site/v1/").unwrap_or(path);
    let parts: Vec<_> = path.split('/').collect();
    let allowed = match parts[..] {
        ["transfers"] | ["plans", ..] => site.may_write_any(caller),
        ["scans"] => site.may_read_any(caller),
        ["scans", _, "receipt"] => true,
        _ => return Ok(SHORT_BYTES_MAX),
    };
    if allowed {
        return Ok(BODY_BYTES_MAX);
    }
    let own = &site.config.site;
    let refused =
        |title: String, hint| Problem::new(Exit::NotAuthorised, "not-exported", title).hint(hint);
    if parts[0] == "scans" {
        let title = format!("site `{caller}` may not read from any store of `{own}`");
        let hint = "an operator there can list the site under `read` of a store in penstock.toml";
        return Err(refused(title, hint.to_owned()));
    }
    let title = format!("site `{caller}` may not write to any store of `{own}`");
    Err(refused(title, how_to_grant(own, caller, "write", "STORE")))
}

/// Reads the body of a request, for which there is room then.
async fn take_body(
    budget: &Budget,
    bytes_max: usize,
    request: Request,
) -> Result<(Request, (Place, Option<Place>)), Problem> {
    let said = request.body().size_hint().exact().map(|bytes| bytes as usize);
    let too_long = || {
        let title = format!("the request's body is longer than {bytes_max} bytes");
        Problem::new(Exit::Usage, "body", title).status(413)
    };
    if said.is_some_and(|bytes| bytes > bytes_max) {
        return Err(too_long());
    }
    // One that does not say how long it is may be as long as any.
    let bytes = said.unwrap_or(bytes_max);
    let room = budget.bodies.enter(bytes).await.ok_or_else(|| budget.busy("bytes of requests"))?;
    let patience = if bytes > SHORT_BYTES_MAX { LIST_DEADLINE } else { SHORT_DEADLINE };
    let deadline = Instant::now() + patience;
    let (parts, body) = request.into_parts();
    let mut stream = body.into_data_stream();
    let mut taken = Vec::new();
    loop {
        let part = timeout_at(deadline, stream.next()).await.map_err(|_| {
            let title = format!("the request's body was not here within {} s", patience.as_secs());
            Problem::new(Exit::Usage, "body", title).status(408)
        })?;
        let Some(part) = part else { break };
        let part = part.map_err(|error| {
            Problem::new(Exit::Usage, "body", "the request's body broke off").because(error)
        })?;
        if taken.len() + part.len() > bytes {
            return Err(too_long());
        }
        if taken.capacity() == 0 {
            taken.reserve_exact(said.unwrap_or(0));
        }
        taken.extend_from_slice(&part);
    }
    let is_plan = parts.uri.path().contains("/plans/");
    if !is_plan && items_in(&taken) > ITEMS_MAX {
        let title = format!("the request's body has more than {ITEMS_MAX} items");
        return Err(Problem::new(Exit::Usage, "body", title).status(413));
    }
    Ok((Request::from_parts(parts, Body::from(taken)), room))
}

/// Items of the lists in a JSON text, or more: a comma within a name counts too.
fn items_in(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b',').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> Name {
        name.parse().unwrap()
    }

    /// D4: one site cannot use up the connections of the others.
    #[test]
    fn d4_connections_are_counted_by_who_makes_them() {
        let budgets = Budgets::new(name("own"));
        let enter = |site: &str| budgets.of(&name(site)).try_enter(Duty::Connection);
        let of_lab: Vec<_> =
            (0..Duty::Connection.places()).map(|_| enter("lab").unwrap()).collect();
        assert!(enter("lab").is_none());
        assert!(enter("hpc").is_some());
        drop(of_lab);
        assert!(enter("lab").is_some());
    }

    /// D4: an answer keeps its own bytes of the site's room until it is sent, and no more.
    #[tokio::test]
    async fn d4_an_answer_takes_room_until_it_is_sent() {
        let budgets = Budgets::new(name("own"));
        let lab = budgets.of(&name("lab"));
        let free = || lab.answers.0.available_permits();
        let place = lab.answer(4 << 20).await.unwrap();
        assert_eq!(free(), ANSWER_BYTES_OF_SITE - (4 << 20));
        let answer = place.hold(vec![7; 1000]);
        let part = answer.slice(990..);
        drop(answer);
        assert_eq!(free(), ANSWER_BYTES_OF_SITE - 1000);
        drop(part);
        assert_eq!(free(), ANSWER_BYTES_OF_SITE);
    }
}
