//! The part of the configuration about log-ins.

use std::path::{Path, PathBuf};

use penstock_api::access::{AccountName, SessionLimits};
use serde::{Deserialize, Serialize};

use super::error::AuthConfigError;
use super::unix_accounts::UnixAccounts;

/// The socket for accounts of the host, unless configured.
pub const ACCOUNT_SOCKET_DEFAULT: &str = "/run/penstock/penstock.sock";
use super::oidc::OidcConfig;

/// Longest time of a session that may be configured, in seconds.
const SESSION_SECONDS_MAX: u64 = 90 * 24 * 3600;

/// The ways in which people prove their identity to the API. All peers of a site should have the
/// same values, but for those of the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthConfig {
    /// Users may log in by name and password. Default: true.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub password: bool,
    /// Seconds without a request after which a browser session ends. Default: 43200, 12 hours.
    #[serde(default = "session_idle_default", skip_serializing_if = "is_session_idle_default")]
    pub session_idle_seconds: u64,
    /// Seconds after its log-in at which a browser session ends. Default: 604800, 7 days.
    #[serde(default = "session_max_default", skip_serializing_if = "is_session_max_default")]
    pub session_max_seconds: u64,
    /// Group of this host whose accounts may connect to `socket`. Default: none; there is no such
    /// socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket_group: Option<AccountName>,
    /// Path of the socket for accounts of this host. Default: [`ACCOUNT_SOCKET_DEFAULT`].
    #[serde(default = "socket_default", skip_serializing_if = "is_socket_default")]
    pub socket: PathBuf,
    /// Users of the site for accounts of this host, and for its groups, which `@` begins. Default:
    /// none.
    #[serde(default, skip_serializing_if = "UnixAccounts::is_empty")]
    pub unix: UnixAccounts,
    /// Log-in at an OpenID provider. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc: Option<OidcConfig>,
}

fn yes() -> bool {
    true
}

fn session_idle_default() -> u64 {
    12 * 3600
}

fn session_max_default() -> u64 {
    7 * 24 * 3600
}

fn socket_default() -> PathBuf {
    PathBuf::from(ACCOUNT_SOCKET_DEFAULT)
}

// A default value is not written: a change of one key then changes no other.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_yes(value: &bool) -> bool {
    *value
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_session_idle_default(seconds: &u64) -> bool {
    *seconds == session_idle_default()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_session_max_default(seconds: &u64) -> bool {
    *seconds == session_max_default()
}

fn is_socket_default(path: &Path) -> bool {
    path == Path::new(ACCOUNT_SOCKET_DEFAULT)
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            password: yes(),
            session_idle_seconds: session_idle_default(),
            session_max_seconds: session_max_default(),
            socket_group: None,
            socket: socket_default(),
            unix: UnixAccounts::default(),
            oidc: None,
        }
    }
}

impl AuthConfig {
    /// Returns every statement that cannot be followed, with its key in the table.
    pub(crate) fn wrong_statements(&self) -> Vec<(String, AuthConfigError)> {
        let mut wrong = Vec::new();
        let seconds = [
            ("session_idle_seconds", self.session_idle_seconds),
            ("session_max_seconds", self.session_max_seconds),
        ];
        for (key, seconds) in seconds {
            if !(1..=SESSION_SECONDS_MAX).contains(&seconds) {
                let error = AuthConfigError::Seconds { key, most: SESSION_SECONDS_MAX };
                wrong.push((key.to_owned(), error));
            }
        }
        if !self.socket.is_absolute() {
            wrong.push(("socket".to_owned(), AuthConfigError::RelativeSocket));
        }
        if self.socket_group.is_none() && !self.unix.is_empty() {
            wrong.push(("unix".to_owned(), AuthConfigError::NoSocketGroup));
        }
        let keys = self.unix.wrong_keys();
        wrong.extend(
            keys.map(|key| (format!("unix.{key}"), AuthConfigError::AccountKey(key.to_owned()))),
        );
        wrong
    }

    /// Returns whether all values are the defaults, which are not written to a file.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the limits of sessions.
    pub(crate) fn session_limits(&self) -> SessionLimits {
        SessionLimits { idle_s: self.session_idle_seconds, age_s: self.session_max_seconds }
    }
}
