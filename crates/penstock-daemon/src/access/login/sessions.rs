//! Browser sessions: the controller begins and ends them, every peer accepts them.

use std::collections::HashMap;
use std::sync::Arc;

use penstock_api::access::{
    Directory, Principal, Right, SESSIONS_OF_USER_MAX, Secret, Session, SessionCookie, SessionId,
    SessionLimits, SessionRequest, SessionView, Via,
};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_cluster::state::SiteState;
use penstock_proto::id::Name;
use penstock_sys::now_seconds;

use super::origin::ClientOrigin;
use super::passwords::{Passwords, blocking, login_refused};
use crate::access::users::{Users, check_unscoped};
use crate::site::context::Site;

/// Sessions of a site. Every peer keeps them in memory and reads them each second.
const SESSIONS_MAX: usize = 2000;
/// Sessions that are over and are removed with one log-in.
const REMOVED_MAX: usize = 20;
/// Longest name of a program that is kept, in characters.
const CLIENT_CHARS_MAX: usize = 100;

/// Sessions of users.
pub(crate) struct Sessions {
    site: Arc<Site>,
    users: Arc<Users>,
    passwords: Arc<Passwords>,
}

/// A session that has begun, with all that its client gets.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) view: SessionView,
    pub(crate) cookie: SessionCookie,
    /// The principal, for the audit log.
    pub(crate) principal: Principal,
}

/// The place where a user has proved its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proved {
    /// At this site, by a password or a link.
    Here,
    /// At the site's OpenID provider.
    AtProvider,
}

impl Sessions {
    pub(crate) fn new(site: Arc<Site>, users: Arc<Users>, passwords: Arc<Passwords>) -> Self {
        Self { site, users, passwords }
    }

    /// Begins a session by name and password.
    ///
    /// # Errors
    /// Those of [`Passwords::prove`]; log-ins by password are off: code `login-off`.
    pub(crate) async fn log_in(
        &self,
        request: SessionRequest,
        origin: ClientOrigin,
    ) -> Result<Begun, Problem> {
        if !self.site.settings.now().auth.password {
            let title = "nobody logs in by a password at this site";
            return Err(Problem::new(ProblemCode::LoginOff, title));
        }
        let hash = self.passwords.prove(&request.name, request.password, &origin).await?;
        let (users, limits) = (Arc::clone(&self.users), self.limits());
        blocking(move || {
            users.change(|state, directory| {
                // Password and user may have changed while the hash was computed.
                let user = directory.user(&request.name).filter(|user| !user.is_locked());
                let user = user.filter(|user| user.password.as_ref() == Some(&hash));
                let user = user.ok_or_else(login_refused)?;
                begin(state, directory, &user.name, &origin, limits, Proved::Here)
            })
        })
        .await
        .and_then(|(session, cookie)| self.begun(&session, cookie))
    }

    /// Returns the limits of sessions.
    pub(super) fn limits(&self) -> SessionLimits {
        self.site.authentication.session_limits()
    }

    /// Returns the answer for the client of a new session.
    ///
    /// # Errors
    /// The session has ended meanwhile.
    pub(super) fn begun(&self, session: &Session, cookie: SessionCookie) -> Result<Begun, Problem> {
        let directory = self.site.authentication.directory();
        let found = directory.principal_of_session_id(session.id);
        let principal = found.map_err(|_| login_refused())?;
        Ok(Begun { view: SessionView::of(session, Some(session.id)), cookie, principal })
    }

    /// Returns the sessions of a user that are not over, oldest first.
    ///
    /// # Errors
    /// The user is another one and the caller does not administer.
    pub(crate) fn list(
        &self,
        caller: &Principal,
        user: Option<&Name>,
    ) -> Result<Vec<SessionView>, Problem> {
        let user = user.unwrap_or(&caller.user);
        if *user != caller.user {
            caller.require(Right::Administer)?;
        }
        let (directory, now) = (self.site.authentication.directory(), now_seconds());
        let current = session_of(caller);
        let sessions = directory.sessions_of(Some(user)).into_iter();
        let lasting = sessions.filter(|session| now < session.expires);
        Ok(lasting.map(|session| SessionView::of(session, current)).collect())
    }

    /// Ends a session; without an id that of the caller. Blocks on the site's state.
    ///
    /// # Errors
    /// The caller sees no session of that id.
    pub(crate) fn end(&self, caller: &Principal, id: Option<SessionId>) -> Result<(), Problem> {
        let own = session_of(caller);
        let Some(id) = id.or(own) else {
            let title = "the request is not one of a session";
            return Err(Problem::new(ProblemCode::SessionUnknown, title)
                .hint("a token is revoked by `penstock logout` or `penstock token revoke`"));
        };
        if own != Some(id) {
            check_unscoped(caller)?;
        }
        let administers = caller.check(Right::Administer).is_ok();
        self.users.change(|state, directory| {
            let may = |session: &&Session| administers || session.user == caller.user;
            directory.session(id).filter(may).ok_or_else(|| {
                let title = format!("session `{id}` does not exist");
                Problem::new(ProblemCode::SessionUnknown, title)
                    .hint("`penstock auth sessions` shows the sessions")
            })?;
            Ok(state.remove_session(id)?)
        })
    }
}

fn session_of(caller: &Principal) -> Option<SessionId> {
    match caller.via {
        Via::Session { id } => Some(id),
        Via::Socket { .. } | Via::Account { .. } | Via::Token { .. } => None,
    }
}

/// Begins a session of a user. Where there are too many, the oldest of the user ends, or of the
/// user with the most.
pub(super) fn begin(
    state: &dyn SiteState,
    directory: &Directory,
    user: &Name,
    origin: &ClientOrigin,
    limits: SessionLimits,
    proved: Proved,
) -> Result<(Session, SessionCookie), Problem> {
    let now = now_seconds();
    let all = directory.sessions_of(None);
    let (over, lasting): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|session| session.expires <= now);
    for session in over.into_iter().take(REMOVED_MAX) {
        state.remove_session(session.id)?;
    }
    if let Some(session) = one_too_many(&lasting, user) {
        state.remove_session(session.id)?;
    }
    let secret: [u8; 32] = rand::random();
    let client = origin.agent.chars().filter(|found| !found.is_control());
    let mut session = Session {
        id: SessionId(rand::random()),
        user: user.clone(),
        digest: String::new(),
        seal: Secret::new(data_encoding::HEXLOWER.encode(&rand::random::<[u8; 32]>())),
        created: now,
        expires: now + limits.age_s,
        from: origin.address_text(),
        client: client.take(CLIENT_CHARS_MAX).collect(),
        at_provider: proved == Proved::AtProvider,
    };
    let cookie = session.cookie(&secret, now);
    session.digest = cookie.digest();
    state.put_session(&session)?;
    Ok((session, cookie))
}

/// Returns the session that makes room for one more of a user, if one has to. `sessions` are all
/// of the site, oldest first.
fn one_too_many<'a>(sessions: &[&'a Session], user: &Name) -> Option<&'a Session> {
    let oldest_of = |user: &Name| sessions.iter().find(|session| session.user == *user).copied();
    let mut counts: HashMap<&Name, usize> = HashMap::new();
    sessions.iter().for_each(|session| *counts.entry(&session.user).or_default() += 1);
    if counts.get(user).is_some_and(|count| *count >= SESSIONS_OF_USER_MAX) {
        return oldest_of(user);
    }
    if sessions.len() < SESSIONS_MAX {
        return None;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.and_then(|(user, _)| oldest_of(user))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: u64, user: &str) -> Session {
        Session {
            id: SessionId(number.to_be_bytes()),
            user: user.parse().unwrap(),
            digest: String::new(),
            seal: Secret::default(),
            created: number,
            expires: u64::MAX,
            from: String::new(),
            client: String::new(),
            at_provider: false,
        }
    }

    /// Promise (C7): a user has at most 25 sessions, and a user with many displaces no session of
    /// another.
    #[test]
    fn c7_sessions_have_a_bound() {
        let anna: Name = "anna".parse().unwrap();
        let own: Vec<_> = (0..25).map(|number| session(number, "anna")).collect();
        let some: Vec<_> = own.iter().collect();
        assert_eq!(one_too_many(&some[..24], &anna), None);
        assert_eq!(one_too_many(&some, &anna), Some(&own[0]));
        assert_eq!(one_too_many(&some, &"ben".parse().unwrap()), None);
        let many = (0..SESSIONS_MAX as u64 - 25).map(|number| session(100 + number, "crowd"));
        let all: Vec<_> = own.iter().cloned().chain(many).collect();
        let all: Vec<_> = all.iter().collect();
        let ended = one_too_many(&all, &"ben".parse().unwrap()).unwrap();
        assert_eq!((ended.user.as_str(), ended.created), ("crowd", 100));
    }
}
