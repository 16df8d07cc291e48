//! Browser sessions.
//!
//! The cookie of a session has 256 random bits, of which the site keeps the BLAKE3 only, and the
//! time of its last use. A key in the site's record of the session seals that time, so that every
//! peer knows how long a session was idle, and no use of it writes to the site's state.

use std::fmt;
use std::str::FromStr;

use data_encoding::{BASE32_NOPAD, HEXLOWER};
use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

use super::super::id::SessionId;
use super::secret::Secret;
use crate::timestamp::Timestamp;

/// Name of the cookie. Browsers take a name with `__Host-` over HTTPS only, for one host and all of
/// its paths (RFC 6265bis, 4.1.3.2).
pub const SESSION_COOKIE: &str = "__Host-penstock";
/// Sessions of one user at a time; one more ends the oldest.
pub const SESSIONS_OF_USER_MAX: usize = 25;
/// Bytes of the random part of a cookie.
const SECRET_BYTES: usize = 32;
/// Bytes of the seal of a time.
const SEAL_BYTES: usize = 16;

/// Limits to the time of a session, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Longest time without a request.
    pub idle_s: u64,
    /// Longest time from the log-in.
    pub age_s: u64,
}

/// A session, as the site's state keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its identifier.
    pub id: SessionId,
    /// The user.
    pub user: Name,
    /// BLAKE3 of the random part of its cookie, in hex.
    pub digest: String,
    /// The key that seals times of use, 32 bytes in hex. It proves nothing without the cookie.
    pub seal: Secret,
    /// Time of the log-in, in seconds since 1970.
    pub created: u64,
    /// Time at which it ends, in seconds since 1970.
    pub expires: u64,
    /// Address from which its user logged in; empty if it is not known.
    pub from: String,
    /// The program that logged in, as it names itself.
    pub client: String,
    /// True if its user logged in at the site's OpenID provider.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_provider: bool,
}

impl Session {
    /// Returns the cookie with this random part, as it is used at `seen`, in seconds since 1970.
    pub fn cookie(&self, secret: &[u8; SECRET_BYTES], seen: u64) -> SessionCookie {
        SessionCookie { secret: *secret, seen, seal: self.seal_of(seen) }
    }

    /// Returns whether a cookie of this session is accepted at this time, in seconds since 1970.
    pub fn accepts(&self, cookie: &SessionCookie, now: u64, limits: SessionLimits) -> bool {
        // Both are digests with a secret key: how far they are alike tells nothing of use.
        let is_sealed = blake3::hash(&self.seal_of(cookie.seen)) == blake3::hash(&cookie.seal);
        let is_idle = now >= cookie.seen.saturating_add(limits.idle_s);
        is_sealed && !is_idle && now < self.expires
    }

    fn seal_of(&self, seen: u64) -> [u8; SEAL_BYTES] {
        let key = blake3::derive_key("penstock session seal 1", self.seal.expose().as_bytes());
        let mut seal = [0; SEAL_BYTES];
        let whole = blake3::keyed_hash(&key, &seen.to_le_bytes());
        seal.copy_from_slice(&whole.as_bytes()[..SEAL_BYTES]);
        seal
    }
}

/// The value of the cookie of a session: `SECRET.SEEN.SEAL`. Its debug form hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionCookie {
    secret: [u8; SECRET_BYTES],
    seen: u64,
    seal: [u8; SEAL_BYTES],
}

impl SessionCookie {
    /// Returns the BLAKE3 of the random part, in hex, by which the site knows the session.
    pub fn digest(&self) -> String {
        blake3::hash(&self.secret).to_hex().to_string()
    }

    /// Returns the time of the last use that it tells, in seconds since 1970.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns the cookie of the same session, as it is used at `seen`.
    #[must_use]
    pub fn used(&self, session: &Session, seen: u64) -> Self {
        session.cookie(&self.secret, seen)
    }

    /// Returns the value: a secret.
    pub fn expose(&self) -> String {
        let secret = BASE32_NOPAD.encode(&self.secret).to_ascii_lowercase();
        format!("{secret}.{}.{}", self.seen, HEXLOWER.encode(&self.seal))
    }

    /// Returns the cookie in the value of a `Cookie` header (RFC 6265, 4.2.1), if it is there.
    pub fn in_header(value: &str) -> Option<Self> {
        let pairs = value.split(';').filter_map(|pair| pair.trim().split_once('='));
        let mut values = pairs.filter(|(name, _)| *name == SESSION_COOKIE);
        values.next().and_then(|(_, value)| value.parse().ok())
    }
}

impl fmt::Debug for SessionCookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionCookie(…)")
    }
}

/// Error: a text is no cookie of a session. It does not repeat the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text is not the cookie of a session")]
pub struct ParseCookieError;

impl FromStr for SessionCookie {
    type Err = ParseCookieError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('.');
        let mut next = || parts.next().ok_or(ParseCookieError);
        let (secret, seen, seal) = (next()?.to_ascii_uppercase(), next()?, next()?);
        let secret = BASE32_NOPAD.decode(secret.as_bytes()).map_err(|_| ParseCookieError)?;
        let seal = HEXLOWER.decode(seal.as_bytes()).map_err(|_| ParseCookieError)?;
        if parts.next().is_some() {
            return Err(ParseCookieError);
        }
        Ok(Self {
            secret: secret.try_into().map_err(|_| ParseCookieError)?,
            seen: seen.parse().map_err(|_| ParseCookieError)?,
            seal: seal.try_into().map_err(|_| ParseCookieError)?,
        })
    }
}

/// Request that begins a session: `POST /sessions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionRequest {
    /// The user.
    pub name: Name,
    /// Its password.
    pub password: Secret,
}

/// A session as its user sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SessionView {
    /// Its identifier.
    pub id: SessionId,
    /// The user.
    pub user: Name,
    /// Time of the log-in.
    pub created_at: Timestamp,
    /// Time at which it ends. It ends earlier when it is not used.
    pub expires_at: Timestamp,
    /// Address from which its user logged in.
    #[serde(default)]
    pub from: String,
    /// The program that logged in, as it names itself.
    #[serde(default)]
    pub client: String,
    /// True for the session of the request itself.
    #[serde(default)]
    pub is_current: bool,
    /// True if its user logged in at the site's OpenID provider: `/auth/oidc/end` ends the log-in
    /// there.
    #[serde(default)]
    pub at_provider: bool,
}

impl SessionView {
    /// Returns the view of a session. `current` is the session of the request.
    pub fn of(session: &Session, current: Option<SessionId>) -> Self {
        Self {
            id: session.id,
            user: session.user.clone(),
            created_at: Timestamp::of_seconds(session.created),
            expires_at: Timestamp::of_seconds(session.expires),
            from: session.from.clone(),
            client: session.client.clone(),
            is_current: current == Some(session.id),
            at_provider: session.at_provider,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SessionLimits = SessionLimits { idle_s: 100, age_s: 1000 };

    fn session(seal: &str) -> Session {
        Session {
            id: SessionId([1; 8]),
            user: "anna".parse().unwrap(),
            digest: String::new(),
            seal: Secret::new(seal),
            created: 1000,
            expires: 2000,
            from: String::new(),
            client: String::new(),
            at_provider: false,
        }
    }

    /// Promise (C7): a session ends when it was idle for too long or is too old, and nobody can
    /// make an idle one look used without the key of its record.
    #[test]
    fn c7_a_cookie_tells_its_last_use_and_cannot_lie() {
        let anna = session("one");
        let cookie = anna.cookie(&[3; 32], 1500);
        let read: SessionCookie = cookie.expose().parse().unwrap();
        assert_eq!(read, cookie);
        assert!(anna.accepts(&read, 1599, LIMITS) && !anna.accepts(&read, 1600, LIMITS));
        let used = read.used(&anna, 1599);
        assert_eq!(used.digest(), cookie.digest());
        assert!(anna.accepts(&used, 1698, LIMITS));
        assert!(!anna.accepts(&anna.cookie(&[3; 32], 1999), 2000, LIMITS), "too old");
        let forged = cookie.expose().replace(".1500.", ".1900.");
        assert!(!anna.accepts(&forged.parse().unwrap(), 1901, LIMITS));
        assert!(!anna.accepts(&session("two").cookie(&[3; 32], 1500), 1501, LIMITS));
        assert!(!format!("{cookie:?} {anna:?}").contains("one"));
    }

    /// Promise: the cookie is found among others, and a damaged one is none.
    #[test]
    fn a_cookie_is_found_in_its_header() {
        let value = session("one").cookie(&[3; 32], 1500).expose();
        let found = |header: &str| SessionCookie::in_header(header).is_some();
        assert!(found(&format!("{SESSION_COOKIE}={value}")));
        assert!(found(&format!("a=b; {SESSION_COOKIE}={value}; c=d")));
        let near = format!("penstock={value}");
        let cut = format!("{SESSION_COOKIE}={}", &value[..value.len() - 1]);
        let long = format!("{SESSION_COOKIE}={value}.x");
        for wrong in ["", "a", &near, &cut, &long, &format!("{SESSION_COOKIE}=..")] {
            assert!(!found(wrong), "{wrong}");
        }
    }
}
