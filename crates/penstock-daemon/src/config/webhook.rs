//! The parts of the configuration about webhooks and `notify.command`.

use std::path::PathBuf;

use penstock_api::webhook::WebhookKind;
use serde::{Deserialize, Serialize};

use super::destination::{Destinations, EntryError};
use super::error::NotifyConfigError;

/// The destinations that webhooks may have. The webhooks themselves are made over the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookConfig {
    /// Beginnings of the addresses that webhooks may have, as `https://hooks.example.org/`.
    /// Default: `[]`, no webhook can be made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Authorities of receivers beside those that the host trusts, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
}

impl WebhookConfig {
    /// Returns whether it is as without the table.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the addresses that webhooks may have.
    ///
    /// # Errors
    /// An entry is no beginning of an address.
    pub(crate) fn destinations(&self) -> Result<Destinations, EntryError> {
        Destinations::new(&self.allow)
    }
}

/// A command that is run on the controller's host for each transfer that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotifyConfig {
    /// The program and its arguments; no shell reads them. The message comes on standard input, as
    /// JSON. A run that fails, or takes more than 60 s, is repeated for a day.
    pub command: Vec<String>,
    /// Account of the command, where the daemon runs as root. Default: `nobody`.
    #[serde(default = "user_default")]
    pub user: String,
    /// The ends to tell: `done`, `failed`, `cancelled`. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
}

fn user_default() -> String {
    "nobody".to_owned()
}

impl NotifyConfig {
    /// Checks all that needs no look at the accounts of the host.
    pub(crate) fn check(&self) -> Result<(), NotifyConfigError> {
        if self.command.first().is_none_or(|program| !program.starts_with('/')) {
            return Err(NotifyConfigError::Program);
        }
        self.kinds().map(drop)
    }

    /// Returns the kinds of ends that the command gets.
    ///
    /// # Errors
    /// A word is no such kind.
    pub(crate) fn kinds(&self) -> Result<Vec<WebhookKind>, NotifyConfigError> {
        self.on.iter().map(|kind| kind.parse().map_err(NotifyConfigError::Event)).collect()
    }

    /// Returns the numbers of the account and its group that the command runs as; `None` leaves
    /// those of the daemon. Blocks: the name service may ask a server.
    ///
    /// # Errors
    /// The account does not exist.
    pub(crate) fn account(&self) -> Result<Option<(u32, u32)>, NotifyConfigError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let numbers = penstock_sys::user_numbers(self.user.as_bytes());
        numbers.map(Some).ok_or_else(|| NotifyConfigError::Account(self.user.clone()))
    }
}
