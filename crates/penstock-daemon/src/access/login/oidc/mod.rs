//! Log-in at the site's OpenID provider: the authorization code flow with PKCE (OpenID Connect Core
//! 1.0, 3.1; RFC 7636), at the controller.
//!
//! The browser carries the code and nothing else: tokens of the provider stay here, and are dropped
//! when the session begins. A person is bound to a user by `issuer` and `subject`. A user that was
//! made here is never bound to a person by its name, but only by an administrator.
//!
//! | module | duty |
//! |---|---|
//! | `pending` | log-ins that are under way, each for one browser and once |
//! | `provider` | the client of the provider |
//! | `metadata` | the facts that the provider publishes about itself |
//! | `id_token` | tokens of the provider, and the keys that sign them |
//! | `claims` | name and groups of a person |
//! | `person` | the user of a person, with the role that follows from its groups |
//! | `refusal` | the reasons why a log-in fails |

mod claims;
mod id_token;
mod metadata;
mod pending;
mod person;
mod provider;
mod refusal;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE64URL_NOPAD;
use penstock_api::access::{ProviderMethod, Secret};
use penstock_api::endpoints::{BEGIN_OIDC, FINISH_OIDC};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_sys::boottime_now;
use reqwest::Url;
use tokio::sync::Semaphore;

use self::pending::{Pending, PendingLogins, random_text};
use self::person::Person;
use self::provider::Provider;
use self::refusal::{denied, down, off, wrong};
use super::origin::ClientOrigin;
use super::passwords::{Passwords, blocking};
use super::sessions::{Begun, Sessions};
use crate::access::admission::RefusedKind;
use crate::access::users::Users;
use crate::site::context::Site;

pub(crate) use self::pending::LOG_IN_MAX;

/// Log-ins that ask the provider at a time.
const ASKING_MAX: usize = 16;
/// Longest time of one of them.
const ASKING_TIME_MAX: Duration = Duration::from_secs(30);
/// Longest path to return to, in bytes.
const RETURN_BYTES_MAX: usize = 512;
/// Bytes of the cookie of a browser.
const BROWSER_BYTES: usize = 43;

/// Log-ins at the provider of a site.
pub(crate) struct Oidc {
    site: Arc<Site>,
    users: Arc<Users>,
    passwords: Arc<Passwords>,
    sessions: Arc<Sessions>,
    provider: Option<Provider>,
    pending: Mutex<PendingLogins>,
    asking: Semaphore,
}

/// The way of a browser to the provider.
#[derive(Debug)]
pub(crate) struct Departure {
    /// The page of the provider.
    pub(crate) url: String,
    /// The cookie of the browser.
    pub(crate) browser: Secret,
}

/// The answer of the provider, which a browser carries here (RFC 6749, 4.1.2).
#[derive(Debug, Default)]
pub(crate) struct ProviderAnswer {
    pub(crate) code: Option<Secret>,
    pub(crate) state: Option<String>,
    pub(crate) issuer: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) error_description: Option<String>,
}

impl Oidc {
    /// Returns the log-ins of a site. Blocks on storage.
    ///
    /// # Errors
    /// The configuration names a file that cannot be used.
    pub(crate) fn new(
        site: Arc<Site>,
        users: Arc<Users>,
        passwords: Arc<Passwords>,
        sessions: Arc<Sessions>,
    ) -> anyhow::Result<Self> {
        let config = site.config.auth.oidc.clone();
        let provider = config.map(|config| Provider::new(config, site.directory.clone()));
        let (provider, pending) = (provider.transpose()?, Mutex::default());
        let asking = Semaphore::new(ASKING_MAX);
        Ok(Self { site, users, passwords, sessions, provider, pending, asking })
    }

    /// Returns the way to log in, if the site has a provider.
    pub(crate) fn method(&self) -> Option<ProviderMethod> {
        let provider = self.provider.as_ref()?;
        let (name, start) = (provider.config.shown_name(), BEGIN_OIDC.path.to_owned());
        Some(ProviderMethod { name, start })
    }

    /// Begins the log-in of a browser.
    ///
    /// # Errors
    /// The site has no provider, or it does not answer; `return_to` is no path of this site; the
    /// request came by the Unix socket.
    pub(crate) async fn begin(
        &self,
        return_to: Option<String>,
        origin: &ClientOrigin,
    ) -> Result<Departure, Problem> {
        let provider = self.provider.as_ref().ok_or_else(off)?;
        let return_to = return_to.unwrap_or_else(|| "/".to_owned());
        check_return(&return_to)?;
        let own = own_url(origin)?;
        let metadata = self.within_time(provider.metadata()).await?;
        let is_ours = |known: &&Secret| known.expose().len() == BROWSER_BYTES;
        // Two log-ins of one browser may be under way.
        let browser = origin.browser.as_ref().filter(is_ours).cloned();
        let browser = browser.unwrap_or_else(|| Secret::new(random_text()));
        let redirect = format!("{own}{}", FINISH_OIDC.path);
        let at = (origin.source(), boottime_now());
        let pending = Pending::new(&browser, redirect, return_to, at);
        let challenge = digest(&SHA256, pending.verifier.expose().as_bytes());
        let challenge = BASE64URL_NOPAD.encode(challenge.as_ref());
        let mut url = Url::parse(&metadata.authorization_endpoint).map_err(wrong)?;
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &provider.config.client_id)
            .append_pair("redirect_uri", &pending.redirect)
            .append_pair("scope", &provider.config.scope())
            .append_pair("nonce", &pending.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        let state = self.pending().add(pending);
        url.query_pairs_mut().append_pair("state", &state);
        Ok(Departure { url: url.into(), browser })
    }

    /// Finishes a log-in by the answer of the provider: begins a session, and returns it with the
    /// path at which the browser continues.
    ///
    /// # Errors
    /// The log-in was not begun by that browser, the provider refuses or does not answer, its token
    /// is not accepted, or the person may not log in here: each by a code of its own.
    pub(crate) async fn finish(
        &self,
        answer: ProviderAnswer,
        origin: ClientOrigin,
    ) -> Result<(Begun, String), Problem> {
        let provider = self.provider.as_ref().ok_or_else(off)?;
        // A state cannot be guessed, so a page of another site cannot make an attempt fail.
        let state = answer.state.as_deref().unwrap_or_default();
        let pending = self.pending().take(state, origin.browser.as_ref(), boottime_now())?;
        let attempt =
            self.passwords.attempt(&format!("oidc {}", origin.address_text()), &origin)?;
        let from = origin.from;
        match self.prove(provider, (answer, pending), origin).await {
            Ok(done) => {
                self.passwords.succeeded(attempt);
                Ok(done)
            }
            Err(problem) => {
                if let Some(from) = from {
                    self.site.admission.note_refused(from, RefusedKind::Login, &problem);
                }
                // The provider or this daemon is at fault, not the person that logs in.
                if matches!(problem.code, ProblemCode::OidcProviderDown | ProblemCode::Busy) {
                    self.passwords.succeeded(attempt);
                }
                Err(problem)
            }
        }
    }

    async fn prove(
        &self,
        provider: &Provider,
        (answer, pending): (ProviderAnswer, Pending),
        origin: ClientOrigin,
    ) -> Result<(Begun, String), Problem> {
        let proving = async {
            self.check_answer(provider, &answer).await?;
            let code = answer.code.as_ref().ok_or_else(|| wrong("it sent no code"))?;
            let tokens = provider.redeem(code.expose(), &pending).await?;
            let claims = provider.claims(&tokens, &pending.nonce).await?;
            let mut person = Person::of(&claims, &provider.config)?;
            if person.is_incomplete() {
                let further = provider.further_claims(&tokens, &person.subject).await?;
                person.complete(&further);
            }
            Ok(person)
        };
        let person = self.within_time(proving).await?;
        let (users, limits) = (Arc::clone(&self.users), self.sessions.limits());
        let config = provider.config.clone();
        let begun = blocking(move || {
            // A refused person may have lost its role, which peers have to learn.
            users.change(|state, directory| {
                Ok(person.log_in(state, directory, &config, (&origin, limits)))
            })
        });
        let (session, cookie) = begun.await??;
        let begun = self.sessions.begun(&session, cookie)?;
        Ok((begun, pending.return_to))
    }

    /// Checks the parameters that a browser has brought from the provider.
    ///
    /// # Errors
    /// The parameters are of another provider (RFC 9207), or a refusal.
    async fn check_answer(
        &self,
        provider: &Provider,
        answer: &ProviderAnswer,
    ) -> Result<(), Problem> {
        let metadata = provider.metadata().await?;
        let is_named = metadata.authorization_response_iss_parameter_supported;
        let is_own = match &answer.issuer {
            Some(issuer) => *issuer == provider.config.issuer,
            None => !is_named,
        };
        if !is_own {
            let title = "the answer is of another OpenID provider than the site's";
            return Err(Problem::new(ProblemCode::OidcIssuer, title));
        }
        match &answer.error {
            Some(error) => Err(denied(error, answer.error_description.as_deref())),
            None => Ok(()),
        }
    }

    /// Returns the address at which a browser ends its log-in at the provider; the own page if the
    /// provider has no such address, or does not answer.
    pub(crate) async fn end(&self, origin: &ClientOrigin) -> String {
        // The page begins two levels above this address, also below a path of a proxy.
        let own_page = || "../../".to_owned();
        let (Some(provider), Some(own)) = (&self.provider, &origin.url) else { return own_page() };
        let Ok(metadata) = self.within_time(provider.metadata()).await else { return own_page() };
        let Some(address) = &metadata.end_session_endpoint else { return own_page() };
        let Ok(mut url) = Url::parse(address) else { return own_page() };
        // No token is named as a hint: it would reach the browser.
        url.query_pairs_mut()
            .append_pair("client_id", &provider.config.client_id)
            .append_pair("post_logout_redirect_uri", &format!("{own}/"));
        url.into()
    }

    /// Runs a request to the provider, within limits of time and of the number of requests.
    async fn within_time<T>(
        &self,
        asking: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        let Ok(_place) = self.asking.try_acquire() else {
            let title = "too many log-ins ask the OpenID provider at this time";
            return Err(Problem::new(ProblemCode::Busy, title).hint("repeat it in some seconds"));
        };
        match tokio::time::timeout(ASKING_TIME_MAX, asking).await {
            Ok(done) => done,
            Err(_) => Err(down(format!("no answer within {} s", ASKING_TIME_MAX.as_secs()))),
        }
    }

    fn pending(&self) -> MutexGuard<'_, PendingLogins> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the address by which a browser has reached this site.
///
/// # Errors
/// The request came by the Unix socket.
fn own_url(origin: &ClientOrigin) -> Result<&str, Problem> {
    origin.url.as_deref().ok_or_else(|| {
        let title = "a log-in at the OpenID provider needs a browser, over HTTPS";
        Problem::new(ProblemCode::Request, title).hint("open the page of the site")
    })
}

/// Checks that a browser which goes to a path of this site stays at it, and reaches a page.
///
/// # Errors
/// The path leads elsewhere, or to the API: code `query`.
fn check_return(path: &str) -> Result<(), Problem> {
    // Texts that browsers read as `//` must count as a host here too.
    let own = Url::parse("https://penstock.invalid/").ok();
    let stays = own.is_some_and(|own| own.join(path).is_ok_and(|to| to.origin() == own.origin()));
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_page = !["/api/", "/auth/"].iter().any(|begin| path.starts_with(begin));
    if path.starts_with('/') && stays && is_plain && is_page && path.len() <= RETURN_BYTES_MAX {
        return Ok(());
    }
    let title = "`return` is no path of a page of this site";
    Err(Problem::new(ProblemCode::Query, title)
        .hint("name one as `/transfers?state=failed`, at most 512 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (C8): a log-in leads to no page of another site.
    #[test]
    fn c8_a_log_in_ends_at_this_site() {
        for good in ["/", "/device?user_code=A-B", "/transfers?x=https://h#a", "/a//b"] {
            assert!(check_return(good).is_ok(), "{good}");
        }
        let long = format!("/{}", "a".repeat(RETURN_BYTES_MAX));
        let bad = [
            "",
            "x",
            "//evil.org",
            "///evil.org",
            "/\\evil.org",
            "\\\\evil.org",
            "https://evil.org",
            "/\t/evil.org",
            "/\n",
            "/ä",
            "javascript:alert(1)",
            "/api/v1/me",
            "/auth/oidc/start",
            &long,
        ];
        for bad in bad {
            let found = check_return(bad).map_err(|problem| problem.code);
            assert_eq!(found, Err(ProblemCode::Query), "{bad}");
        }
    }
}
