//! The client of the provider: its facts, its keys, its tokens.
//!
//! Every request has a deadline and a longest answer, and follows no redirect. Facts and keys are
//! kept for an hour. An unknown key is fetched once more, at most every 30 s: the provider may just
//! have changed its keys. A provider that has just failed is not asked again for some seconds, so
//! that many log-ins do not wait for the provider one after the other.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use data_encoding::BASE64;
use form_urlencoded::{Serializer, byte_serialize};
use penstock_api::access::Secret;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_exit::cause::innermost;
use penstock_net::trust::host_client_config;
use penstock_proto::units::Instant;
use penstock_sys::boottime_now;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::id_token::{Claims, Expected, KeySet, TokenFault, TokenHead};
use super::id_token::{accepted_algorithms, claims_of};
use super::metadata::{Metadata, SecretWay};
use super::pending::Pending;
use super::refusal::{down, wrong};
use crate::access::login::passwords::blocking;
use crate::config::OidcConfig;

/// Longest time of a request, from the connection to the end of the answer.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Time for which facts and keys are kept.
const KEPT: Duration = Duration::from_secs(3600);
/// Least time between two searches for a key that is not known.
const SEARCH: Duration = Duration::from_secs(30);
/// Time for which a provider that has failed is not asked for its facts or keys.
const FAILED: Duration = Duration::from_secs(3);

/// The provider of a site.
pub(super) struct Provider {
    pub(super) config: OidcConfig,
    directory: PathBuf,
    client: Client,
    /// Held while facts or keys are fetched, so that they are fetched once.
    known: Mutex<Known>,
}

/// Facts and keys of the provider, each with the time at which it was fetched.
#[derive(Default)]
struct Known {
    metadata: Option<(Instant, Arc<Metadata>)>,
    keys: Option<(Instant, Arc<KeySet>)>,
    searched: Option<Instant>,
    failed: Option<(Instant, Problem)>,
}

/// The tokens of a log-in. They stay here.
#[derive(Deserialize)]
pub(super) struct Tokens {
    id_token: Secret,
    access_token: Option<Secret>,
}

/// An error of the token endpoint (RFC 6749, 5.2).
#[derive(Default, Deserialize)]
struct TokenError {
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_description: String,
}

impl Provider {
    /// Returns the client of a provider. Relative paths are taken from the site directory. Blocks
    /// on storage.
    ///
    /// # Errors
    /// The file with authorities cannot be read, or holds none.
    pub(super) fn new(config: OidcConfig, directory: PathBuf) -> anyhow::Result<Self> {
        let pem = config.ca.as_ref().map(|path| {
            let path = directory.join(path);
            fs::read(&path)
                .with_context(|| format!("cannot read `auth.oidc.ca`, `{}`", path.display()))
        });
        let tls = host_client_config(pem.transpose()?.as_deref())
            .context("`auth.oidc.ca` does not hold authorities")?;
        let client = Client::builder()
            .user_agent(concat!("penstock/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .timeout(REQUEST_MAX)
            .tls_backend_preconfigured(tls)
            .build()
            .context("cannot set up the client of the OpenID provider")?;
        Ok(Self { config, directory, client, known: Mutex::default() })
    }

    /// Returns the facts that the provider publishes about itself.
    ///
    /// # Errors
    /// The provider does not answer, or its answer does not match the configuration.
    pub(super) async fn metadata(&self) -> Result<Arc<Metadata>, Problem> {
        let mut known = self.known.lock().await;
        self.metadata_of(&mut known).await
    }

    async fn metadata_of(&self, known: &mut Known) -> Result<Arc<Metadata>, Problem> {
        if let Some(metadata) = fresh(known.metadata.as_ref(), KEPT) {
            return Ok(metadata);
        }
        let bytes = self.fetch(known, &Metadata::address(&self.config.issuer)).await?;
        let metadata = Arc::new(Metadata::read(&bytes, &self.config)?);
        known.metadata = Some((boottime_now(), Arc::clone(&metadata)));
        Ok(metadata)
    }

    /// Fetches facts or keys, unless the provider has just failed.
    async fn fetch(&self, known: &mut Known, address: &str) -> Result<Vec<u8>, Problem> {
        if let Some((_, problem)) = known.failed.as_ref().filter(|(at, _)| is_within(*at, FAILED)) {
            return Err(problem.clone());
        }
        let (status, bytes) = self.send(self.client.get(address)).await.inspect_err(|problem| {
            known.failed = Some((boottime_now(), problem.clone()));
        })?;
        if status != StatusCode::OK {
            return Err(wrong(format!("`{address}` answers with status {status}")));
        }
        Ok(bytes)
    }

    /// Returns the claims of the ID token of a log-in.
    ///
    /// # Errors
    /// The token is not accepted, or the keys of the provider cannot be fetched.
    pub(super) async fn claims(&self, tokens: &Tokens, nonce: &str) -> Result<Claims, Problem> {
        let token = tokens.id_token.expose();
        let metadata = self.metadata().await?;
        let accepted = accepted_algorithms(&metadata.id_token_signing_alg_values_supported);
        let head = TokenHead::of(token, &accepted)?;
        let mut known = self.known.lock().await;
        let keys = match fresh(known.keys.as_ref(), KEPT) {
            Some(keys) => keys,
            None => self.fetch_keys(&mut known, &metadata).await?,
        };
        let may_search = known.searched.is_none_or(|at| !is_within(at, SEARCH));
        let keys = match keys.find(&head) {
            Err(TokenFault::Key(_)) if may_search => {
                known.searched = Some(boottime_now());
                self.fetch_keys(&mut known, &metadata).await?
            }
            _ => keys,
        };
        drop(known);
        let (issuer, client_id) = (&self.config.issuer, &self.config.client_id);
        let expected = Expected { issuer, client_id, nonce };
        Ok(claims_of(token, &head, keys.find(&head)?, expected)?)
    }

    async fn fetch_keys(
        &self,
        known: &mut Known,
        metadata: &Metadata,
    ) -> Result<Arc<KeySet>, Problem> {
        let bytes = self.fetch(known, &metadata.jwks_uri).await?;
        let keys = KeySet::read(&bytes);
        let keys = keys.map_err(|why| wrong(format!("its keys cannot be read: {why}")))?;
        let keys = Arc::new(keys);
        known.keys = Some((boottime_now(), Arc::clone(&keys)));
        Ok(keys)
    }

    /// Returns the tokens that the provider issues for the code of a log-in (RFC 6749, 4.1.3).
    ///
    /// # Errors
    /// The provider does not accept the code or the client, or does not answer.
    pub(super) async fn redeem(&self, code: &str, pending: &Pending) -> Result<Tokens, Problem> {
        let metadata = self.metadata().await?;
        let secret = self.secret().await?;
        let by_header = match &secret {
            Some(_) => metadata.secret_way()? == SecretWay::Basic,
            None => false,
        };
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &pending.redirect),
            ("code_verifier", pending.verifier.expose()),
        ];
        let mut request = self.client.post(&metadata.token_endpoint);
        match &secret {
            Some(secret) if by_header => {
                request = request.header(AUTHORIZATION, basic(&self.config.client_id, secret));
            }
            Some(secret) => {
                fields.push(("client_id", &self.config.client_id));
                fields.push(("client_secret", secret.expose()));
            }
            None => fields.push(("client_id", &self.config.client_id)),
        }
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let body = Serializer::new(String::new()).extend_pairs(fields).finish();
        let (status, bytes) = self.send(request.body(body)).await?;
        if status == StatusCode::OK {
            let read = serde_json::from_slice(&bytes);
            // The error of serde may repeat a part of a token.
            return read.map_err(|_| wrong("its answer has no `id_token`"));
        }
        Err(refused(status, &bytes))
    }

    /// Reads the client's secret on a thread that may block.
    async fn secret(&self) -> Result<Option<crate::config::Secret>, Problem> {
        let (config, directory) = (self.config.clone(), self.directory.clone());
        let read = blocking(move || {
            config.read_secret(&directory).map_err(|error| {
                tracing::error!(%error, "the secret for the OpenID provider cannot be read");
                wrong("the client's secret cannot be read; the log of the daemon has the reason")
            })
        });
        read.await
    }

    /// Returns further claims about the user of a log-in (OpenID Connect Core 1.0, 5.3); none if
    /// the provider has none.
    ///
    /// # Errors
    /// The provider does not answer, or its claims are about another user.
    pub(super) async fn further_claims(
        &self,
        tokens: &Tokens,
        subject: &str,
    ) -> Result<Claims, Problem> {
        let metadata = self.metadata().await?;
        let (Some(address), Some(token)) = (&metadata.userinfo_endpoint, &tokens.access_token)
        else {
            return Ok(Claims::new());
        };
        let (status, bytes) =
            self.send(self.client.get(address).bearer_auth(token.expose())).await?;
        if status != StatusCode::OK {
            return Err(wrong(format!("its facts about the user came with status {status}")));
        }
        let claims: Claims = serde_json::from_slice(&bytes)
            .map_err(|error| wrong(format!("its facts about the user are not JSON: {error}")))?;
        if claims.get("sub").and_then(serde_json::Value::as_str) != Some(subject) {
            let title = "the provider's facts about the user are about another one";
            return Err(Problem::new(ProblemCode::OidcSubject, title));
        }
        Ok(claims)
    }

    /// Sends a request, and returns the status and the body of the answer.
    async fn send(&self, request: RequestBuilder) -> Result<(StatusCode, Vec<u8>), Problem> {
        let lost = |error: reqwest::Error| {
            let place = error.url().map(place_of).unwrap_or_default();
            down(format!("{place}: {}", innermost(&error.without_url())))
        };
        let mut answer = request.header(ACCEPT, "application/json").send().await.map_err(lost)?;
        let status = answer.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Err(down(format!("{} answers with status {status}", place_of(answer.url()))));
        }
        let mut bytes = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(lost)? {
            bytes.extend_from_slice(&part);
            if bytes.len() > ANSWER_BYTES_MAX {
                let most = ANSWER_BYTES_MAX >> 10;
                return Err(wrong(format!("its answer is longer than {most} KiB")));
            }
        }
        Ok((status, bytes))
    }
}

fn is_within(at: Instant, time: Duration) -> bool {
    boottime_now().since(at) < time
}

fn fresh<T>(kept: Option<&(Instant, Arc<T>)>, time: Duration) -> Option<Arc<T>> {
    kept.filter(|(at, _)| is_within(*at, time)).map(|(_, value)| Arc::clone(value))
}

/// Returns an address without its query.
fn place_of(url: &Url) -> String {
    url.origin().ascii_serialization() + url.path()
}

/// Returns the value of the header by which a client shows its secret (RFC 6749, 2.3.1).
fn basic(client_id: &str, secret: &crate::config::Secret) -> String {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let both = format!("{}:{}", encoded(client_id), encoded(secret.expose()));
    format!("Basic {}", BASE64.encode(both.as_bytes()))
}

/// Returns the problem of a refusal by the token endpoint.
fn refused(status: StatusCode, bytes: &[u8]) -> Problem {
    let TokenError { error, error_description } = serde_json::from_slice(bytes).unwrap_or_default();
    let shown = |text: &str| penstock_proto::text::field(text);
    match error.as_str() {
        "invalid_grant" => {
            let title = "the OpenID provider does not accept the code of the log-in";
            Problem::new(ProblemCode::OidcCode, title)
                .because(shown(&error_description))
                .hint("begin the log-in again")
        }
        "" => wrong(format!("the code was answered with status {status}")),
        _ => wrong(format!("`{}`: {}", shown(&error), shown(&error_description))),
    }
}
