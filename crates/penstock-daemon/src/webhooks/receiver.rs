//! Receivers of messages: programs at the address of a webhook, and `notify.command`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use penstock_api::webhook::Webhook;
use penstock_net::trust::host_client_config;
use penstock_sys::now_seconds;
use reqwest::Client;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::redirect::Policy;

use super::command::NotifyCommand;
use super::message::Message;
use super::signature::signatures;
use crate::config::Destinations;

/// Longest time of an attempt, from the connection to the end of the answer's headers.
const ATTEMPT_MAX: Duration = Duration::from_secs(10);

/// Sends messages.
pub(super) struct Sender {
    client: Client,
    destinations: Destinations,
    command: Option<NotifyCommand>,
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    /// Status of the receiver's answer; of a command, none.
    pub(super) status: Option<u16>,
    /// Reason of a failure; empty after a success.
    pub(super) error: String,
    /// Delay that the receiver asks for before another attempt.
    pub(super) retry_after: Option<Duration>,
    /// Time until the answer or the failure.
    pub(super) took: Duration,
}

impl Attempt {
    pub(super) fn is_delivered(&self) -> bool {
        self.error.is_empty()
    }
}

impl Sender {
    /// Returns a sender to these destinations, which trusts the authorities of the host and those
    /// in the file `ca`.
    ///
    /// # Errors
    /// The file cannot be read, or holds no certificate.
    pub(super) fn new(
        destinations: Destinations,
        ca: Option<&Path>,
        command: Option<NotifyCommand>,
    ) -> anyhow::Result<Self> {
        let pem = ca.map(|path| {
            fs::read(path)
                .with_context(|| format!("cannot read `webhook.ca`, `{}`", path.display()))
        });
        let tls = host_client_config(pem.transpose()?.as_deref())
            .context("`webhook.ca` does not hold authorities")?;
        let client = Client::builder()
            .user_agent(concat!("penstock/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .timeout(ATTEMPT_MAX)
            .tls_backend_preconfigured(tls)
            .build()
            .context("cannot set up the client of webhooks")?;
        Ok(Self { client, destinations, command })
    }

    /// Returns the addresses that webhooks may have.
    pub(super) fn destinations(&self) -> &Destinations {
        &self.destinations
    }

    /// Returns the command for ended transfers, if there is one.
    pub(super) fn command(&self) -> Option<&NotifyCommand> {
        self.command.as_ref()
    }

    /// Delivers a message to a webhook, or to the command.
    pub(super) async fn attempt(&self, hook: &Webhook, message: &Message) -> Attempt {
        let start = Instant::now();
        let (status, error, retry_after) = match &self.command {
            Some(command) if command.is(&hook.name) => {
                (None, command.run(message.body.clone()).await.err().unwrap_or_default(), None)
            }
            _ => self.post(hook, message).await,
        };
        Attempt { status, error, retry_after, took: start.elapsed() }
    }

    async fn post(
        &self,
        hook: &Webhook,
        message: &Message,
    ) -> (Option<u16>, String, Option<Duration>) {
        // The configuration may have changed since the webhook was made.
        let url = match self.destinations.check(&hook.settings.url) {
            Ok(url) => url,
            Err(problem) => return (None, problem.to_string(), None),
        };
        let now = now_seconds();
        let request = self
            .client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", now)
            .header("webhook-signature", signatures(hook, &message.id, now, &message.body))
            .body(message.body.to_vec());
        match request.send().await {
            Ok(answer) if answer.status().is_success() => {
                (Some(answer.status().as_u16()), String::new(), None)
            }
            Ok(answer) => {
                let after = answer.headers().get(RETRY_AFTER).and_then(|it| it.to_str().ok());
                let after = after.and_then(|text| text.parse().ok()).map(Duration::from_secs);
                let status = answer.status();
                let text = if status.is_redirection() {
                    format!("the receiver redirects ({status}); redirects are not followed")
                } else {
                    format!("the receiver answered {status}")
                };
                (Some(status.as_u16()), text, after)
            }
            Err(error) => (None, reason(error), None),
        }
    }
}

/// Returns the reason of a failed request without its address, the query of which often is a
/// credential.
fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    if error.is_timeout() {
        return format!("no answer within {} s", ATTEMPT_MAX.as_secs());
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(next) = cause {
        text = next.to_string();
        cause = next.source();
    }
    text
}
