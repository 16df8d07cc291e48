//! Log-in of programs without a browser (RFC 8628), at the controller.
//!
//! Pending log-ins are in memory: after a change of the controller their programs start again. An
//! approval names the user; the token is made when the program asks for it, and is stored nowhere
//! else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use data_encoding::BASE32_NOPAD;
use penstock_api::access::{
    DEVICE_CODE_SECONDS, DEVICE_GRANT, DeviceApproval, DeviceAuthorization, DeviceDecision,
    DeviceErrorCode, DeviceRequest, DeviceToken, DeviceTokenRequest, DeviceView, Principal, Right,
    Scope, Secret, TokenRequest, UserCode, Via,
};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::timestamp::Timestamp;
use penstock_proto::id::Name;
use penstock_proto::units::Instant;
use penstock_sys::{boottime_now, now_seconds};

use super::origin::ClientOrigin;
use super::passwords::{Passwords, blocking};
use crate::access::admission::Source;
use crate::access::users::{Users, check_unscoped, unknown_user};
use crate::site::context::Site;

/// Log-ins that wait: in all, and from one source.
const WAITING_MAX: usize = 1000;
const WAITING_OF_SOURCE_MAX: usize = 20;
/// Seconds for which a code whose time is over is kept, so that its program gets the true reason.
const OVER_SECONDS: u64 = 300;
/// Seconds after which a program that got no code may ask again.
const FULL_WAIT_S: u32 = 30;
/// Fewest seconds between two requests for a token, and the seconds that an earlier one adds.
const INTERVAL_S: u64 = 5;
/// Longest name of a program, in characters.
const CLIENT_CHARS_MAX: usize = 80;

/// Programs that wait.
pub(crate) struct Devices {
    site: Arc<Site>,
    users: Arc<Users>,
    passwords: Arc<Passwords>,
    waiting: Mutex<HashMap<UserCode, Waiting>>,
}

struct Waiting {
    /// BLAKE3 of the device code.
    digest: blake3::Hash,
    client: String,
    from: String,
    source: Option<Source>,
    scopes: Option<Vec<Scope>>,
    expires: u64,
    interval_s: u64,
    asked: Option<Instant>,
    decision: Option<Decision>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Decision {
    Approved(Name),
    Denied,
}

/// The reason why a program gets no codes or no token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DeviceRefusal {
    /// A reason that the RFC names.
    Named(DeviceErrorCode, String),
    /// Any other reason.
    Other(Problem),
}

impl From<Problem> for DeviceRefusal {
    fn from(problem: Problem) -> Self {
        Self::Other(problem)
    }
}

impl Devices {
    pub(crate) fn new(site: Arc<Site>, users: Arc<Users>, passwords: Arc<Passwords>) -> Self {
        Self { site, users, passwords, waiting: Mutex::default() }
    }

    /// Begins the log-in of a program.
    ///
    /// # Errors
    /// The request is wrong; too many wait, in all or from its source.
    pub(crate) fn begin(
        &self,
        request: &DeviceRequest,
        origin: &ClientOrigin,
    ) -> Result<DeviceAuthorization, DeviceRefusal> {
        let scopes = scopes_of(request.scope.as_deref())?;
        let client = request.client_id.trim();
        if client.is_empty()
            || client.chars().count() > CLIENT_CHARS_MAX
            || client.chars().any(char::is_control)
        {
            let why = format!("`client_id` has 1 to {CLIENT_CHARS_MAX} characters");
            return Err(DeviceRefusal::Named(DeviceErrorCode::InvalidRequest, why));
        }
        let secret: [u8; 32] = rand::random();
        let device_code = BASE32_NOPAD.encode(&secret).to_ascii_lowercase();
        let user_code = UserCode::of(rand::random());
        let (mut waiting, source, now) = (self.all(), origin.source(), now_seconds());
        waiting.retain(|_, entry| now < entry.expires + OVER_SECONDS);
        let is_of_source = |entry: &&Waiting| entry.source == source && entry.is_open(now);
        let of_source = waiting.values().filter(is_of_source).count();
        if waiting.len() >= WAITING_MAX || of_source >= WAITING_OF_SOURCE_MAX {
            let title = "too many programs wait to be let in";
            let problem = Problem::new(ProblemCode::LoginLater, title)
                .hint("approve or refuse those that wait, or repeat it in some minutes");
            return Err(problem.retry_after(FULL_WAIT_S).into());
        }
        let entry = Waiting {
            digest: blake3::hash(device_code.as_bytes()),
            client: client.to_owned(),
            from: origin.address_text(),
            source,
            scopes,
            expires: now + DEVICE_CODE_SECONDS,
            interval_s: INTERVAL_S,
            asked: None,
            decision: None,
        };
        waiting.insert(user_code.clone(), entry);
        let own = self.site.web_url();
        let url = origin.url.clone().or(own).unwrap_or_default();
        Ok(DeviceAuthorization {
            device_code: Secret::new(device_code),
            verification_uri: format!("{url}/device"),
            verification_uri_complete: format!("{url}/device?user_code={user_code}"),
            user_code,
            expires_in: DEVICE_CODE_SECONDS,
            interval: INTERVAL_S,
        })
    }

    /// Returns the token of a program that was let in, and the principal that it acts as.
    ///
    /// # Errors
    /// Those of RFC 8628, 3.5; the token cannot be made.
    pub(crate) async fn token(
        &self,
        request: &DeviceTokenRequest,
    ) -> Result<(DeviceToken, Principal), DeviceRefusal> {
        if request.grant_type != DEVICE_GRANT {
            let why = format!("`grant_type` must be `{DEVICE_GRANT}`");
            return Err(DeviceRefusal::Named(DeviceErrorCode::UnsupportedGrantType, why));
        }
        let digest = blake3::hash(request.device_code.expose().as_bytes());
        let (user, entry) = self.take_approved(digest, boottime_now())?;
        let request = TokenRequest {
            user: None,
            label: match entry.from.as_str() {
                "" => entry.client,
                from => format!("{} at {from}", entry.client).chars().take(100).collect(),
            },
            scopes: entry.scopes.clone(),
            days: None,
        };
        let users = Arc::clone(&self.users);
        let made = blocking(move || users.issue_token(&user, &request)).await?;
        let directory = self.site.authentication.directory();
        let digest = directory.token(made.id).map(|token| token.digest.clone());
        let found = directory.principal(&digest.unwrap_or_default(), now_seconds());
        let principal = found.map_err(|_| denied("the user is locked out"))?;
        let scope = entry
            .scopes
            .map(|scopes| scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" "));
        let token = DeviceToken {
            access_token: Secret::new(made.token.unwrap_or_default()),
            token_type: "Bearer".to_owned(),
            expires_in: made.expires_at.seconds().saturating_sub(now_seconds()),
            scope,
        };
        Ok((token, principal))
    }

    /// Takes a log-in that was approved out of those that wait.
    fn take_approved(
        &self,
        digest: blake3::Hash,
        now: Instant,
    ) -> Result<(Name, Waiting), DeviceRefusal> {
        let mut waiting = self.all();
        // The comparison of hashes takes the same time wherever they differ.
        let found = waiting.iter().find(|(_, entry)| entry.digest == digest);
        let Some(code) = found.map(|(code, _)| code.clone()) else {
            let why = "the device code was never issued, or its token was taken";
            return Err(DeviceRefusal::Named(DeviceErrorCode::InvalidGrant, why.to_owned()));
        };
        let Some(entry) = waiting.get_mut(&code) else { return Err(denied("it is gone")) };
        let named = |code, why: &str| Err(DeviceRefusal::Named(code, why.to_owned()));
        if entry.expires <= now_seconds() {
            waiting.remove(&code);
            return named(DeviceErrorCode::ExpiredToken, "the time of the code is over");
        }
        match entry.decision.clone() {
            None => {
                let early = entry
                    .asked
                    .is_some_and(|asked| now.since(asked) < Duration::from_secs(entry.interval_s));
                entry.asked = Some(now);
                if early {
                    entry.interval_s += INTERVAL_S;
                    let why = format!("wait for {} s between requests", entry.interval_s);
                    return named(DeviceErrorCode::SlowDown, &why);
                }
                named(DeviceErrorCode::AuthorizationPending, "nobody has approved it yet")
            }
            Some(Decision::Denied) => {
                waiting.remove(&code);
                Err(denied("the user has refused"))
            }
            Some(Decision::Approved(user)) => match waiting.remove(&code) {
                Some(entry) => Ok((user, entry)),
                None => Err(denied("it is gone")),
            },
        }
    }

    /// Returns a log-in that waits.
    ///
    /// # Errors
    /// None waits under that code; the caller has tried too many.
    pub(crate) fn show(
        &self,
        caller: &Principal,
        code: &UserCode,
        origin: &ClientOrigin,
    ) -> Result<DeviceView, Problem> {
        self.found(caller, origin, |waiting| {
            let entry = waiting.get(code).filter(|entry| entry.is_open(now_seconds()))?;
            Some(DeviceView {
                user_code: code.clone(),
                client: entry.client.clone(),
                from: entry.from.clone(),
                scopes: entry.scopes.clone(),
                expires_at: Timestamp::of_seconds(entry.expires),
            })
        })
    }

    /// Approves or refuses a log-in.
    ///
    /// # Errors
    /// None waits under that code; the caller has tried too many, or may not let programs act for
    /// that user.
    pub(crate) fn decide(
        &self,
        caller: &Principal,
        approval: DeviceApproval,
        origin: &ClientOrigin,
    ) -> Result<(), Problem> {
        check_unscoped(caller)?;
        let user = approval.user.as_ref().unwrap_or(&caller.user);
        if *user != caller.user {
            caller.require(Right::Administer)?;
        }
        if approval.decision == DeviceDecision::Approve {
            self.check_user(caller, user)?;
        }
        let decision = match approval.decision {
            DeviceDecision::Approve => Decision::Approved(user.clone()),
            DeviceDecision::Deny => Decision::Denied,
        };
        self.found(caller, origin, |waiting| {
            let entry = waiting.get_mut(&approval.user_code)?;
            let is_same = entry.decision.as_ref().is_some_and(|made| *made == decision);
            (is_same || entry.is_open(now_seconds())).then(|| entry.decision = Some(decision))
        })
    }

    fn check_user(&self, caller: &Principal, user: &Name) -> Result<(), Problem> {
        let directory = self.site.authentication.directory();
        if directory.user(user).is_some_and(|user| !user.is_locked()) {
            return Ok(());
        }
        let is_own = *user == caller.user;
        if is_own && matches!(caller.via, Via::Socket { .. } | Via::Account { .. }) {
            let title = format!("`{user}` is no user of the site, and has no tokens");
            return Err(Problem::new(ProblemCode::Request, title)
                .hint("name the user that the program acts for, as with `--user anna`"));
        }
        Err(unknown_user(user))
    }

    /// Looks a code up, with a wait after many wrong ones.
    fn found<T>(
        &self,
        caller: &Principal,
        origin: &ClientOrigin,
        look: impl FnOnce(&mut HashMap<UserCode, Waiting>) -> Option<T>,
    ) -> Result<T, Problem> {
        let attempt = self.passwords.attempt(&format!("codes {}", caller.user), origin)?;
        let found = look(&mut self.all()).ok_or_else(|| {
            let title = "no program waits under that code";
            Problem::new(ProblemCode::DeviceUnknown, title)
                .hint("compare it with the one that `penstock login` shows, or begin again there")
        })?;
        self.passwords.succeeded(attempt);
        Ok(found)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<UserCode, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Returns whether its user may still decide.
    fn is_open(&self, now: u64) -> bool {
        now < self.expires && self.decision.is_none()
    }
}

fn denied(why: &str) -> DeviceRefusal {
    DeviceRefusal::Named(DeviceErrorCode::AccessDenied, why.to_owned())
}

/// Returns the scopes in a request (RFC 6749, 3.3).
fn scopes_of(text: Option<&str>) -> Result<Option<Vec<Scope>>, DeviceRefusal> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    let scopes: Result<Vec<Scope>, _> = text.split_ascii_whitespace().map(str::parse).collect();
    let mut scopes = scopes.map_err(|error: penstock_api::access::UnknownScope| {
        DeviceRefusal::Named(DeviceErrorCode::InvalidScope, error.to_string())
    })?;
    scopes.sort();
    scopes.dedup();
    Ok(Some(scopes))
}
