//! Authentication of the API: the principal of a request, by a token or by the cookie of a session.
//!
//! Every peer keeps the users, tokens and sessions of its site in memory, as the controller has
//! written them last, so that it judges requests by itself. A token that is revoked, or a session
//! that is ended, is refused by all peers within the interval at which they look at the membership.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, COOKIE};
use penstock_api::access::{
    Directory, Principal, SessionCookie, SessionLimits, TokenRefused, TokenText, Via,
};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_proto::id::Name;
use penstock_sys::now_seconds;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Users, tokens and sessions, as this peer knows them.
pub(crate) struct Authentication {
    directory: watch::Sender<Arc<Directory>>,
    sessions: Mutex<SessionLimits>,
    places: Mutex<HashMap<Name, UserPlaces>>,
    /// Connections of programs that read metrics without a token.
    readers: Arc<Semaphore>,
    /// Requests that were refused since the process began.
    refusals: Refusals,
}

/// Counts of requests that were refused.
#[derive(Debug, Default)]
struct Refusals {
    malformed: AtomicU64,
    refused: AtomicU64,
    connections: AtomicU64,
    requests: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The time for which an answer waits until this peer knows the session or token that the
/// controller has made: twice the interval at which the peer looks.
const NEWS_WAIT: Duration = Duration::from_secs(3);
/// Parts of the longest idle time after which the cookie of a session is renewed.
const RENEWALS: u64 = 16;

/// Connections of one user at a time.
const CONNECTIONS_OF_USER_MAX: usize = 128;
/// Requests of one user that are under way at a time, streams of events among them.
const REQUESTS_OF_USER_MAX: usize = 128;
/// Connections of programs that read metrics without a token, at a time.
const READER_CONNECTIONS_MAX: usize = 32;
/// A request with a long body, up to 64 MiB in memory, counts as so many.
const LONG_REQUEST: u32 = 32;

/// Places of one user at this peer.
struct UserPlaces {
    connections: Arc<Semaphore>,
    requests: Arc<Semaphore>,
}

impl Default for UserPlaces {
    fn default() -> Self {
        let connections = Arc::new(Semaphore::new(CONNECTIONS_OF_USER_MAX));
        Self { connections, requests: Arc::new(Semaphore::new(REQUESTS_OF_USER_MAX)) }
    }
}

/// Returns the BLAKE3 of a token's text, in hex, by which it is stored. The text has 256 random
/// bits, so that a slow hash would add nothing.
pub(crate) fn digest_of(text: &TokenText) -> String {
    blake3::hash(text.expose().as_bytes()).to_hex().to_string()
}

impl Authentication {
    pub(crate) fn new(directory: Directory, sessions: SessionLimits) -> Self {
        let (places, refusals) = Default::default();
        let readers = Arc::new(Semaphore::new(READER_CONNECTIONS_MAX));
        let directory = watch::Sender::new(Arc::new(directory));
        let sessions = Mutex::new(sessions);
        Self { directory, sessions, places, readers, refusals }
    }

    /// Takes users, tokens and sessions as the controller has written them.
    pub(crate) fn follow(&self, directory: Directory) {
        self.directory.send_replace(Arc::new(directory));
    }

    /// Returns users, tokens and sessions.
    pub(crate) fn directory(&self) -> Arc<Directory> {
        Arc::clone(&self.directory.borrow())
    }

    /// Returns the limits of sessions.
    pub(crate) fn session_limits(&self) -> SessionLimits {
        *self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets other limits of sessions. A session that has begun ends no later than before.
    pub(crate) fn set_session_limits(&self, limits: SessionLimits) {
        *self.sessions.lock().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// Waits until this peer knows a session or a token that the controller has just made, so that
    /// its user can use it here at once; no longer than [`NEWS_WAIT`].
    pub(crate) async fn until_known(&self, via: &Via) {
        let mut directory = self.directory.subscribe();
        let known = directory.wait_for(|directory| directory.knows(via));
        if tokio::time::timeout(NEWS_WAIT, known).await.is_err() {
            tracing::warn!("the controller has made a session that this peer has not heard of");
        }
    }

    /// Returns a place for a request of a user; `None` if it has too many under way. `is_long` is
    /// whether the body of the request may be longer than an ordinary one.
    pub(crate) fn request_place(&self, user: &Name, is_long: bool) -> Option<OwnedSemaphorePermit> {
        let places = if is_long { LONG_REQUEST } else { 1 };
        let requests = self.with_places(user, |places| Arc::clone(&places.requests));
        let place = requests.try_acquire_many_owned(places);
        place.inspect_err(|_| count(&self.refusals.requests)).ok()
    }

    /// Returns a place for a connection of a user; `None` if it has too many.
    pub(crate) fn connection_place(&self, user: &Name) -> Option<OwnedSemaphorePermit> {
        let connections = self.with_places(user, |places| Arc::clone(&places.connections));
        let place = connections.try_acquire_owned();
        place.inspect_err(|_| count(&self.refusals.connections)).ok()
    }

    /// Returns how often credentials were not accepted since the process began, by reason.
    pub(crate) fn failures(&self) -> [(&'static str, u64); 2] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Refusals { malformed, refused, .. } = &self.refusals;
        [("malformed", read(malformed)), ("refused", read(refused))]
    }

    /// Returns how often a user had too many connections or requests since the process began.
    pub(crate) fn crowded(&self) -> [(&'static str, u64); 2] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Refusals { connections, requests, .. } = &self.refusals;
        [("connection", read(connections)), ("request", read(requests))]
    }

    /// Counts a request of an account of this host that represents no user.
    pub(crate) fn note_refused_account(&self) {
        count(&self.refusals.refused);
    }

    /// Counts a connection of an account of this host that has too many.
    pub(crate) fn note_crowded_account(&self) {
        count(&self.refusals.connections);
    }

    /// Returns a place for a connection that reads metrics without a token; `None` if there are too
    /// many.
    pub(crate) fn reader_place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.readers).try_acquire_owned().ok()
    }

    fn with_places<T>(&self, user: &Name, get: impl FnOnce(&UserPlaces) -> T) -> T {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        // Users that were removed are few, and their places are free.
        get(places.entry(user.clone()).or_default())
    }

    /// Returns a principal that another peer of the site vouches for, with the rights that its user
    /// has here now.
    ///
    /// # Errors
    /// Its token is not accepted here: code `unauthenticated`.
    pub(crate) fn renewed(&self, principal: Principal) -> Result<Principal, Problem> {
        let directory = self.directory();
        let found = match &principal.via {
            Via::Socket { .. } => return Ok(principal),
            Via::Account { role: None, .. } => {
                directory.principal_of_user(&principal.user, principal.via.clone())
            }
            // A user of the site by that name may be another person.
            Via::Account { role: Some(_), .. } => match directory.user(&principal.user) {
                Some(_) => Err(TokenRefused::UserLocked),
                None => return Ok(principal),
            },
            Via::Token { id } => {
                let digest = directory.token(*id).map(|token| token.digest.clone());
                directory.principal(&digest.unwrap_or_default(), now_seconds())
            }
            Via::Session { id } => directory.principal_of_session_id(*id),
        };
        found.map_err(|refused| {
            tracing::debug!(why = refused.as_str(), "credentials of another peer were refused");
            unauthenticated().because("the token, session or account is not accepted")
        })
    }

    /// Returns the principal that the headers of a request prove: by a token, else by the cookie
    /// of a session; `None` if there is neither, or the session is over.
    ///
    /// # Errors
    /// As [`Self::by_token`]. A cookie is no error: a browser sends an old one with each log-in.
    pub(crate) fn prove(&self, headers: &HeaderMap) -> Result<Option<Principal>, Problem> {
        if headers.contains_key(AUTHORIZATION) {
            return self.by_token(headers);
        }
        let Some(cookie) = cookie_of(headers) else { return Ok(None) };
        let found =
            self.directory().principal_of_cookie(&cookie, now_seconds(), self.session_limits());
        let log = |refused: &TokenRefused| {
            tracing::debug!(why = refused.as_str(), "a session was refused");
        };
        Ok(found.inspect_err(log).ok())
    }

    /// Returns the cookie with the present time, if the one of a request is accepted and its time
    /// of use is old; `None` if it need not be set again. The time is renewed [`RENEWALS`] times
    /// within the longest idle time.
    pub(crate) fn renewed_cookie(&self, headers: &HeaderMap) -> Option<(SessionCookie, u64)> {
        let (cookie, now, limits) = (cookie_of(headers)?, now_seconds(), self.session_limits());
        let is_old = now.saturating_sub(cookie.seen()) > limits.idle_s / RENEWALS;
        let directory = self.directory();
        let session = directory.session_of(&cookie).filter(|_| is_old)?;
        let is_good = session.accepts(&cookie, now, limits);
        let left = session.expires.saturating_sub(now);
        is_good.then(|| (cookie.used(session, now), left))
    }

    /// Returns the principal that the `Authorization` header proves (RFC 6750); `None` if there is
    /// no such header.
    ///
    /// # Errors
    /// The header is no bearer token, or the token is not accepted: code `unauthenticated`. All
    /// reasons have one text; the log has the difference.
    fn by_token(&self, headers: &HeaderMap) -> Result<Option<Principal>, Problem> {
        let Some(header) = headers.get(AUTHORIZATION) else { return Ok(None) };
        let text = header.to_str().ok().and_then(|text| text.split_once(' '));
        let token = text.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let token = token.map(|(_, token)| token.trim().parse::<TokenText>());
        let Some(Ok(token)) = token else {
            count(&self.refusals.malformed);
            return Err(unauthenticated().because("the header is not `Bearer pstk_…`"));
        };
        match self.directory().principal(&digest_of(&token), now_seconds()) {
            Ok(principal) => Ok(Some(principal)),
            Err(refused) => {
                count(&self.refusals.refused);
                tracing::debug!(why = refused.as_str(), "a token was refused");
                Err(unauthenticated().because("the token is not accepted"))
            }
        }
    }
}

/// Returns the cookie of a session in the headers of a request.
fn cookie_of(headers: &HeaderMap) -> Option<SessionCookie> {
    // HTTP/2 may split the header (RFC 9113, 8.2.3).
    let mut values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    values.find_map(SessionCookie::in_header)
}

/// Returns the problem of a request without good credentials.
pub(crate) fn unauthenticated() -> Problem {
    Problem::new(ProblemCode::Unauthenticated, "the request needs credentials").hint(
        "log in with `penstock login`, or send `Authorization: Bearer TOKEN`; \
         `penstock token create` makes a token",
    )
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use penstock_api::access::{
        Role, SESSION_COOKIE, Secret, Session, SessionId, Token, TokenId, TokenSecret, User,
    };

    use super::*;

    fn authentication() -> Authentication {
        Authentication::new(Directory::default(), SessionLimits { idle_s: 160, age_s: 1000 })
    }

    fn headers(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        headers
    }

    /// Promise (C6): a token proves its user until it is revoked. Any other text proves no user,
    /// and the refusal has no reason.
    #[test]
    fn c6_a_token_proves_its_user_until_it_is_revoked() {
        let secret = TokenText::of(&TokenSecret([3; 32]));
        let user = User {
            name: "anna".parse().unwrap(),
            role: Role::Operator,
            created: 1,
            disabled: false,
            grants: [].into(),
            account: None,
            group: None,
            password: None,
            identity: None,
        };
        let token = Token {
            id: TokenId([9; 8]),
            user: user.name.clone(),
            digest: digest_of(&secret),
            label: String::new(),
            scopes: None,
            created: 1,
            expires: u64::MAX,
        };
        let authentication = authentication();
        let bearer = headers(&format!("Bearer {}", secret.expose()));
        assert_eq!(authentication.prove(&HeaderMap::new()), Ok(None));
        let unknown = authentication.prove(&bearer).unwrap_err();
        authentication.follow(Directory::new(vec![user.clone()], vec![token], Vec::new()));
        let anna = authentication.prove(&bearer).unwrap().unwrap();
        assert_eq!((anna.user, anna.role), (user.name.clone(), Role::Operator));
        for bad in ["Basic YTpi", "Bearer", "Bearer x", "bearer pstk_", secret.expose()] {
            let refused = authentication.prove(&headers(bad)).unwrap_err();
            assert_eq!(refused.status, 401, "{bad}");
        }
        authentication.follow(Directory::new(vec![user], Vec::new(), Vec::new()));
        assert_eq!(authentication.prove(&bearer), Err(unknown));
    }

    /// Promise (C7): a cookie proves its user until the session is idle for too long, ended, or its
    /// user is locked out. A cookie in use is renewed, and a bad one counts as none.
    #[test]
    fn c7_a_cookie_proves_its_user_until_the_session_ends() {
        let (authentication, now) = (authentication(), now_seconds());
        let mut session = Session {
            id: SessionId([9; 8]),
            user: "anna".parse().unwrap(),
            digest: String::new(),
            seal: Secret::new("seal"),
            created: now,
            expires: now + 1000,
            from: String::new(),
            client: String::new(),
            at_provider: false,
        };
        session.digest = session.cookie(&[3; 32], now).digest();
        let mut user = User {
            name: session.user.clone(),
            role: Role::Operator,
            created: 1,
            disabled: false,
            grants: [].into(),
            account: None,
            group: None,
            password: None,
            identity: None,
        };
        let with = |cookie: &SessionCookie| {
            let mut headers = HeaderMap::new();
            let value = format!("{SESSION_COOKIE}={}", cookie.expose());
            headers.insert(COOKIE, HeaderValue::from_str(&value).unwrap());
            headers
        };
        let fresh = with(&session.cookie(&[3; 32], now));
        assert_eq!(authentication.prove(&fresh), Ok(None));
        let sessions = vec![session.clone()];
        authentication.follow(Directory::new(vec![user.clone()], Vec::new(), sessions.clone()));
        let via = authentication.prove(&fresh).unwrap().unwrap().via;
        assert_eq!(via, Via::Session { id: session.id });
        assert_eq!(authentication.renewed_cookie(&fresh), None);
        let (renewed, left) =
            authentication.renewed_cookie(&with(&session.cookie(&[3; 32], now - 20))).unwrap();
        assert!(renewed.seen() >= now && left <= 1000);
        for bad in [session.cookie(&[3; 32], now - 160), session.cookie(&[4; 32], now)] {
            assert_eq!(authentication.prove(&with(&bad)), Ok(None));
            assert_eq!(authentication.renewed_cookie(&with(&bad)), None);
        }
        user.disabled = true;
        authentication.follow(Directory::new(vec![user.clone()], Vec::new(), sessions));
        assert_eq!(authentication.prove(&fresh), Ok(None));
    }

    /// Promise: one user takes neither all connections nor all memory; the places of another user
    /// are free meanwhile, and those of a request return with its end.
    #[test]
    fn a_user_has_a_bounded_number_of_places() {
        let authentication = authentication();
        let (anna, ben) = ("anna".parse().unwrap(), "ben".parse().unwrap());
        let long: Vec<_> = (0..4).map(|_| authentication.request_place(&anna, true)).collect();
        assert!(long.iter().all(Option::is_some));
        assert!(authentication.request_place(&anna, false).is_none());
        assert!(authentication.request_place(&ben, true).is_some());
        drop(long);
        assert!(authentication.request_place(&anna, true).is_some());
        let connections: Vec<_> = (0..CONNECTIONS_OF_USER_MAX)
            .map(|_| authentication.connection_place(&anna).unwrap())
            .collect();
        assert!(authentication.connection_place(&anna).is_none());
        assert!(authentication.connection_place(&ben).is_some());
        drop(connections);
        assert!(authentication.connection_place(&anna).is_some());
    }
}
