//! Statements of a configuration that no daemon can follow.

use std::net::IpAddr;

use penstock_exit::{ExitCode, Failure};
use penstock_proto::frame::UnknownCipherSuite;
use penstock_proto::id::Name;

use super::destination::EntryError;
use crate::networks::NetworkError;

/// A statement of the configuration that cannot be followed, with its key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Two stores have one name.
    #[error("store `{0}` is listed twice")]
    StoreTwice(Name),
    /// The path of a store is invalid.
    #[error("store `{store}`: `{path}` is neither an absolute path nor `null:` nor `mem:…`")]
    StorePath {
        /// The store.
        store: Name,
        /// The path as it is written.
        path: String,
    },
    /// The holder of a right is no name of a site.
    #[error("store `{store}`: `{site}` is not a site")]
    StoreSite {
        /// The store.
        store: Name,
        /// The word in place of a site.
        site: String,
    },
    /// A number of this key is 0.
    #[error("`{0}` must be at least 1")]
    Zero(&'static str),
    /// A cipher suite is not known.
    #[error("`cipher_suites`: {0}")]
    CipherSuite(#[from] UnknownCipherSuite),
    /// The level of the log is invalid.
    #[error("`log`: {0}")]
    Log(String),
    /// A network is wrong.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The table `web` is wrong.
    #[error("`web`: {0}")]
    Web(#[from] WebConfigError),
    /// The table `webhook` is wrong.
    #[error("`webhook.allow`: {0}")]
    Webhook(#[from] EntryError),
    /// The table `notify` is wrong.
    #[error("`notify`: {0}")]
    Notify(#[from] NotifyConfigError),
    /// The table `auth` is wrong.
    #[error("`auth`: {0}")]
    Auth(#[from] AuthConfigError),
    /// The table `auth.oidc` is wrong.
    #[error("`auth.oidc`: {0}")]
    Oidc(#[from] OidcConfigError),
    /// The table `cluster` is wrong.
    #[error("`cluster`: {0}")]
    Cluster(#[from] ClusterConfigError),
    /// The table `own_etcd` is wrong.
    #[error(transparent)]
    OwnEtcd(#[from] OwnEtcdError),
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::new(ExitCode::Usage, error.to_string())
    }
}

/// A statement about the HTTPS API that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebConfigError {
    /// There is nothing to listen at.
    #[error("`listen` names no address")]
    NoAddress,
    /// A certificate or a key is alone.
    #[error("`certificate` and `key` belong together")]
    HalfPair,
    /// An entry of `names` is no host.
    #[error("`names`: `{0}` is neither a DNS name nor an address")]
    Name(String),
}

/// A statement about log-ins that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthConfigError {
    /// A number of seconds is too low or too high.
    #[error("`{key}` must be from 1 to {most}")]
    Seconds {
        /// The key.
        key: &'static str,
        /// Its highest value.
        most: u64,
    },
    /// The path of the socket depends on where the daemon runs.
    #[error("`socket` must be an absolute path")]
    RelativeSocket,
    /// Accounts are mapped, and none reaches a socket.
    #[error("`unix` needs `socket_group`, the group whose accounts may connect")]
    NoSocketGroup,
    /// A key of `unix` is invalid.
    #[error("`unix`: `{0}` is neither the name of an account nor `@` and the name of a group")]
    AccountKey(String),
}

/// A word that names no user for an account.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappedUserError {
    /// The text is no name of a user.
    #[error("`{0}` is neither a user of the site, nor `self`, nor `role:` and a role")]
    Word(String),
    /// The text names a role that does not exist.
    #[error("`{0}` is no role: `role:viewer`, `role:operator` or `role:administrator`")]
    Role(String),
    /// The role `user` does nothing without grants, which only a user of the site has.
    #[error(
        "the role `user` needs grants, which users of the site have: map the account to one of \
         them, or to `self`"
    )]
    Grants,
}

/// A statement about log-ins at an OpenID provider that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OidcConfigError {
    /// The address of the provider is invalid.
    #[error("`issuer`: `{0}` is not https://HOST[/PATH], nor http:// and an address of this host")]
    Issuer(String),
    /// A text that is needed is empty.
    #[error("`{0}` is empty")]
    Empty(&'static str),
    /// The secret of the client comes from two places.
    #[error(
        "one of `client_secret_file`, `client_secret_command` and `client_secret` gives the secret"
    )]
    Secrets,
    /// The name on the button is too long or empty.
    #[error("`name` has 1 to {0} characters")]
    Name(usize),
    /// A scope is invalid (RFC 6749, 3.3).
    #[error("`scopes`: `{0}` is not a scope: visible ASCII characters without space and quotes")]
    Scope(String),
}

/// A statement about `notify.command` that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotifyConfigError {
    /// The command does not begin with the path of a program.
    #[error("`command` begins with the absolute path of a program")]
    Program,
    /// An event is not known.
    #[error("`on`: {0}")]
    Event(String),
    /// The account is not known to the host.
    #[error("`user`: the host has no account `{0}`")]
    Account(String),
}

/// A statement about the peers of a site that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterConfigError {
    /// There is no etcd.
    #[error("`etcd` names no endpoint")]
    NoEndpoint,
    /// A witness has no member of etcd that votes.
    #[error("a witness is of use to `own_etcd` only")]
    Witness,
    /// There are two etcds.
    #[error("it is either `etcd` or `own_etcd`")]
    TwoEtcds,
    /// An endpoint is no URL.
    #[error("`{0}` is not https://HOST:PORT")]
    Endpoint(String),
    /// The secret for etcd would be sent without TLS.
    #[error("`{0}` would give the password away")]
    PlainEndpoint(String),
    /// Peers cannot share the journal by a path that depends on where they run.
    #[error("`journal` must be an absolute path")]
    RelativeJournal,
    /// A number of seconds is too low or too high.
    #[error("`{key}` must be from {least} to {most}")]
    Seconds {
        /// The key.
        key: &'static str,
        /// Its least value.
        least: u64,
        /// Its highest value.
        most: u64,
    },
    /// The password comes from two places.
    #[error("one of `password_file`, `password_command` and `password` gives the password")]
    Passwords,
    /// A pair of keys lacks one of the two.
    #[error("`{0}` and `{1}` belong together")]
    Together(&'static str, &'static str),
}

/// A statement about the etcd of a site that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnEtcdError {
    /// Four hosts tolerate no more than three.
    #[error("etcd on 4 hosts tolerates no more losses than on 3: choose 3 or 5")]
    FourHosts,
    /// The number of hosts is no good one.
    #[error("etcd runs on 1, 2, 3 or 5 hosts of a site; 3 is right for nearly all")]
    Hosts,
    /// The address is of no single host.
    #[error("`own_etcd`: no other host reaches `{0}`")]
    Address(IpAddr),
    /// The port, or the port after it, is invalid.
    #[error("`own_etcd`: `address` needs a port, and the one after it")]
    Port,
}
