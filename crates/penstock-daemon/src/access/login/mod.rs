//! Log-ins of people: accounts of the host, passwords, browser sessions, one-time links, programs
//! that a user approves.
//!
//! | module | duty |
//! |---|---|
//! | `accounts` | accounts of the host at the socket, and the users that they represent |
//! | `hasher` | hashing passwords within a bound of memory |
//! | `throttle` | the wait after log-ins that failed |
//! | `passwords` | proving and setting a password |
//! | `sessions` | sessions, which begin and end at the controller |
//! | `links` | one-time links, for the first administrator and for new passwords |
//! | `oidc` | log-in at the site's OpenID provider |
//! | `devices` | log-in of programs without a browser (RFC 8628) |
//! | `origin` | the client of a request, as it was seen |

pub(crate) mod accounts;
pub(crate) mod devices;
mod hasher;
pub(crate) mod links;
pub(crate) mod oidc;
mod origin;
pub(crate) mod passwords;
pub(crate) mod sessions;
mod throttle;

pub(crate) use origin::ClientOrigin;

use std::sync::Arc;

use super::users::Users;
use crate::site::context::Site;

/// All log-ins of a site.
pub(crate) struct Logins {
    pub(crate) site: Arc<Site>,
    pub(crate) passwords: Arc<passwords::Passwords>,
    pub(crate) sessions: Arc<sessions::Sessions>,
    pub(crate) links: links::Links,
    pub(crate) devices: devices::Devices,
    pub(crate) oidc: oidc::Oidc,
}

impl Logins {
    /// Returns the log-ins of a site. Blocks on storage.
    ///
    /// # Errors
    /// The configuration names a file that cannot be used.
    pub(crate) fn new(site: &Arc<Site>, users: &Arc<Users>) -> anyhow::Result<Self> {
        let (site, users) = (|| Arc::clone(site), || Arc::clone(users));
        let passwords = Arc::new(passwords::Passwords::new(site(), users()));
        let own = || Arc::clone(&passwords);
        let sessions = Arc::new(sessions::Sessions::new(site(), users(), own()));
        let links = links::Links::new(site(), users(), own(), Arc::clone(&sessions));
        let devices = devices::Devices::new(site(), users(), own());
        let oidc = oidc::Oidc::new(site(), users(), own(), Arc::clone(&sessions))?;
        Ok(Self { site: site(), passwords, sessions, links, devices, oidc })
    }
}
