//! One-time links: the first administrator's, and those by which users set their own passwords.
//!
//! A code is in the answer that makes it, and nowhere else: the state has its digest. Of two that
//! use a link at once, one wins, as the controller makes changes one at a time.

use std::sync::Arc;

use penstock_api::access::{
    InvitationRequest, Link, LinkCode, LinkPurpose, LinkView, Role, Secret, SetUpRequest, User,
};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::timestamp::Timestamp;
use penstock_cluster::state::SiteState;
use penstock_proto::id::Name;
use penstock_sys::now_seconds;

use super::origin::ClientOrigin;
use super::passwords::{Passwords, blocking};
use super::sessions::{Begun, Proved, Sessions, begin};
use crate::access::users::{Users, check_name, check_room, end_sessions, unknown_user};
use crate::site::context::Site;

/// Seconds for which a link to make an administrator is good, and one for a password.
const SET_UP_SECONDS: u64 = 15 * 60;
const PASSWORD_SECONDS: u64 = 3 * 24 * 3600;

/// Links of a site.
pub(crate) struct Links {
    site: Arc<Site>,
    users: Arc<Users>,
    passwords: Arc<Passwords>,
    sessions: Arc<Sessions>,
}

impl Links {
    pub(crate) fn new(
        site: Arc<Site>,
        users: Arc<Users>,
        passwords: Arc<Passwords>,
        sessions: Arc<Sessions>,
    ) -> Self {
        Self { site, users, passwords, sessions }
    }

    /// Makes the link for a new administrator; an earlier one ends. Blocks on the site's state.
    ///
    /// # Errors
    /// The state cannot be written.
    pub(crate) fn make_setup(&self) -> Result<LinkView, Problem> {
        self.users.change(|state, _| make(state, LinkPurpose::SetUp, SET_UP_SECONDS))
    }

    /// Makes the link by which a user sets its password; an earlier one ends. Blocks on the site's
    /// state.
    ///
    /// # Errors
    /// There is no such user, or the state cannot be written.
    pub(crate) fn invite(&self, user: &Name) -> Result<LinkView, Problem> {
        self.users.change(|state, directory| {
            directory.user(user).ok_or_else(|| unknown_user(user))?;
            make(state, LinkPurpose::Password { user: user.clone() }, PASSWORD_SECONDS)
        })
    }

    /// Makes an administrator by the code of a link, and begins a session of it.
    ///
    /// # Errors
    /// The link is void; the name is taken, which leaves the link good; the password is unfit.
    pub(crate) async fn set_up(
        &self,
        request: SetUpRequest,
        origin: ClientOrigin,
    ) -> Result<Begun, Problem> {
        let SetUpRequest { code, name, password } = request;
        check_name(&name)?;
        self.check(&code, |purpose| *purpose == LinkPurpose::SetUp).await?;
        if self.site.authentication.directory().user(&name).is_some() {
            return Err(user_known(&name));
        }
        let hash = self.passwords.hash(password).await?;
        let (users, limits) = (Arc::clone(&self.users), self.sessions.limits());
        let (session, cookie) = blocking(move || {
            users.change(|state, directory| {
                let link = good_link(state, &code, |purpose| *purpose == LinkPurpose::SetUp)?;
                if directory.user(&name).is_some() {
                    return Err(user_known(&name));
                }
                check_room(directory)?;
                let user = User {
                    name,
                    role: Role::Administrator,
                    created: now_seconds(),
                    disabled: false,
                    grants: [].into(),
                    account: None,
                    group: None,
                    password: Some(hash),
                    identity: None,
                };
                // A crash in between leaves a used link, and never one that is good twice.
                state.put_link(&Link { used: true, ..link })?;
                state.put_user(&user)?;
                begin(state, directory, &user.name, &origin, limits, Proved::Here)
            })
        })
        .await?;
        self.sessions.begun(&session, cookie)
    }

    /// Sets the password of the user of a link, ends its sessions, and begins a new one.
    ///
    /// # Errors
    /// The link is void; the user is locked out or was removed; the password is unfit.
    pub(crate) async fn accept(
        &self,
        request: InvitationRequest,
        origin: ClientOrigin,
    ) -> Result<Begun, Problem> {
        let InvitationRequest { code, password } = request;
        let is_invitation = |purpose: &LinkPurpose| *purpose != LinkPurpose::SetUp;
        self.check(&code, is_invitation).await?;
        let hash = self.passwords.hash(password).await?;
        let (users, limits) = (Arc::clone(&self.users), self.sessions.limits());
        let (session, cookie) = blocking(move || {
            users.change(|state, directory| {
                let link = good_link(state, &code, is_invitation)?;
                let LinkPurpose::Password { user } = link.purpose.clone() else {
                    return Err(void("it is for another purpose"));
                };
                let user = directory.user(&user).filter(|user| !user.is_locked());
                let user = user.ok_or_else(|| void("its user is locked out"))?;
                state.put_link(&Link { used: true, ..link })?;
                state.put_user(&User { password: Some(hash), ..user.clone() })?;
                end_sessions(state, directory, &user.name, None)?;
                begin(state, directory, &user.name, &origin, limits, Proved::Here)
            })
        })
        .await?;
        self.sessions.begun(&session, cookie)
    }

    /// Checks that a code is good, before a hash is computed for it.
    async fn check(
        &self,
        code: &Secret,
        is_for: impl Fn(&LinkPurpose) -> bool + Send + 'static,
    ) -> Result<(), Problem> {
        let (state, code) = (self.site.state(), code.clone());
        blocking(move || good_link(&*state, &code, is_for).map(drop)).await
    }
}

fn make(state: &dyn SiteState, purpose: LinkPurpose, seconds: u64) -> Result<LinkView, Problem> {
    let code = LinkCode::of(rand::random());
    let expires = now_seconds() + seconds;
    let link = Secret::new(format!("{}#{}", purpose.page(), code.expose()));
    state.put_link(&Link { purpose, digest: code.digest(), expires, used: false })?;
    let expires_at = Timestamp::of_seconds(expires);
    Ok(LinkView { code: Secret::new(code.expose()), link, expires_at })
}

/// Returns the link of a code, if it is good now.
///
/// # Errors
/// The link was used, is too old, was replaced, or was never made: code `link-void`, and the
/// reason.
fn good_link(
    state: &dyn SiteState,
    code: &Secret,
    is_for: impl Fn(&LinkPurpose) -> bool,
) -> Result<Link, Problem> {
    let code: LinkCode = code.expose().parse().map_err(|error| void(&format!("{error}")))?;
    let digest = code.digest();
    let links = state.links()?;
    let link = links.into_iter().find(|link| link.digest == digest && is_for(&link.purpose));
    let link = link.ok_or_else(|| void("a later link has replaced it, or it was never made"))?;
    if link.used {
        return Err(void("it was used already"));
    }
    if link.expires <= now_seconds() {
        return Err(void("its time is over"));
    }
    Ok(link)
}

fn void(why: &str) -> Problem {
    Problem::new(ProblemCode::LinkVoid, "the link is not good any more").because(why).hint(
        "have another one made: `penstock web setup` on a host of the site, or `penstock user \
         invite NAME`",
    )
}

fn user_known(name: &Name) -> Problem {
    Problem::new(ProblemCode::UserKnown, format!("user `{name}` exists already")).hint(format!(
        "choose another name; `penstock user set {name} --role administrator` changes that user"
    ))
}
