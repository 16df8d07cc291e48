//! Authentication of the API: the principal of a request, by the socket or by a token.
//!
//! Every peer keeps the users and tokens of its site in memory, as the controller has written them
//! last, so that it judges requests by itself. A token that is revoked is refused by all peers
//! within the interval at which they look at the membership.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use penstock_api::access::{Directory, Principal, TokenText, Via};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_proto::id::Name;
use penstock_sys::now_seconds;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Users and tokens, as this peer knows them.
pub(crate) struct Authentication {
    directory: RwLock<Arc<Directory>>,
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
    pub(crate) fn new(directory: Directory) -> Self {
        let (places, refusals) = Default::default();
        let readers = Arc::new(Semaphore::new(READER_CONNECTIONS_MAX));
        Self { directory: RwLock::new(Arc::new(directory)), places, readers, refusals }
    }

    /// Takes users and tokens as the controller has written them.
    pub(crate) fn follow(&self, directory: Directory) {
        *self.directory.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(directory);
    }

    /// Returns users and tokens.
    pub(crate) fn directory(&self) -> Arc<Directory> {
        Arc::clone(&self.directory.read().unwrap_or_else(PoisonError::into_inner))
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
        let Via::Token { id } = principal.via else { return Ok(principal) };
        let directory = self.directory();
        let digest = directory.token(id).map(|token| token.digest.clone()).unwrap_or_default();
        directory.principal(&digest, now_seconds()).map_err(|refused| {
            tracing::debug!(why = refused.as_str(), "a token of another peer was refused");
            unauthenticated().because("the token is not accepted")
        })
    }

    /// Returns the principal that the `Authorization` header proves (RFC 6750); `None` if there is
    /// no such header.
    ///
    /// # Errors
    /// The header is no bearer token, or the token is not accepted: code `unauthenticated`. All
    /// reasons have one text; the log tells them apart.
    pub(crate) fn by_header(&self, headers: &HeaderMap) -> Result<Option<Principal>, Problem> {
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

/// The problem of a request without good credentials.
pub(crate) fn unauthenticated() -> Problem {
    Problem::new(ProblemCode::Unauthenticated, "the request needs credentials")
        .hint("send `Authorization: Bearer TOKEN`; `penstock token create` makes a token")
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use penstock_api::access::{Role, Token, TokenId, TokenSecret, User};

    use super::*;

    fn headers(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        headers
    }

    /// Promise (C6): a token proves its user until it is revoked; anything else proves nobody, and
    /// the refusal tells no reason.
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
        let authentication = Authentication::new(Directory::default());
        let bearer = headers(&format!("Bearer {}", secret.expose()));
        assert_eq!(authentication.by_header(&HeaderMap::new()), Ok(None));
        let unknown = authentication.by_header(&bearer).unwrap_err();
        authentication.follow(Directory::new(vec![user.clone()], vec![token]));
        let anna = authentication.by_header(&bearer).unwrap().unwrap();
        assert_eq!((anna.user, anna.role), (user.name.clone(), Role::Operator));
        for bad in ["Basic YTpi", "Bearer", "Bearer x", "bearer pstk_", secret.expose()] {
            let refused = authentication.by_header(&headers(bad)).unwrap_err();
            assert_eq!(refused.status, 401, "{bad}");
        }
        authentication.follow(Directory::new(vec![user], Vec::new()));
        assert_eq!(authentication.by_header(&bearer), Err(unknown));
    }

    /// Promise: one user takes neither all connections nor all memory; the places of another user
    /// are free meanwhile, and those of a request return with its end.
    #[test]
    fn a_user_has_a_bounded_number_of_places() {
        let authentication = Authentication::new(Directory::default());
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
