//! Accounts of this host under which files may be used, as the host's name service knows them.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::sync::Arc;

use rustix::fs::Gid;

use super::credentials::{Credentials, Own};
use crate::users::{find_user, groups_of};

/// The account whose rights nothing limits. Another name of number 0 is rejected.
const ROOT: &str = "root";

/// An account of this host: the numbers by which the kernel judges its rights to files. Clones are
/// the same account, as it was looked up.
#[derive(Clone)]
pub struct Account(Arc<Known>);

struct Known {
    name: String,
    credentials: Credentials,
}

/// The reason why a thread of this process cannot use files as an account.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The name service knows no such account.
    #[error("this host has no account `{0}`")]
    Unknown(String),
    /// The name service does not answer, which may pass.
    #[error("the name service of this host does not answer for account `{name}`")]
    Unanswered {
        /// The account.
        name: String,
        /// Its error.
        source: io::Error,
    },
    /// The account has number 0 under a name other than `root`.
    #[error("account `{0}` has the rights of root, and is not called `root`")]
    HiddenRoot(String),
    /// This process may not change the user of a thread.
    #[error("the daemon runs as user {own}, without the capabilities CAP_SETUID and CAP_SETGID")]
    NotPermitted {
        /// Number of the user that the process runs as.
        own: u32,
    },
}

impl Account {
    /// Looks up an account with all its groups, and checks that threads of this process may use
    /// files as it. Blocks: the name service may ask a server.
    ///
    /// # Errors
    /// [`AccountError`].
    ///
    /// # Sources
    /// getpwnam_r(3), getgrouplist(3).
    pub fn of_name(name: &str) -> Result<Self, AccountError> {
        // Before the first thread acts as another user, so that these are the process's own.
        let own = Own::get();
        let unanswered = |source| AccountError::Unanswered { name: name.to_owned(), source };
        let found = find_user(name.as_bytes()).map_err(unanswered)?;
        let (uid, gid) = found.ok_or_else(|| AccountError::Unknown(name.to_owned()))?;
        if uid == 0 && name != ROOT {
            return Err(AccountError::HiddenRoot(name.to_owned()));
        }
        if uid != own.uid() && !own.may_change() {
            return Err(AccountError::NotPermitted { own: own.uid() });
        }
        let groups = CString::new(name).map_err(io::Error::from);
        let groups = groups.and_then(|name| groups_of(&name, gid)).map_err(unanswered)?;
        let groups = groups.into_iter().map(Gid::from_raw).collect();
        let credentials = Credentials { uid, gid, groups };
        Ok(Self(Arc::new(Known { name: name.to_owned(), credentials })))
    }

    /// Returns the name of the account.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the user and main group: those of new files, unless a directory determines another
    /// group.
    pub fn numbers(&self) -> (u32, u32) {
        (self.0.credentials.uid, self.0.credentials.gid)
    }

    /// Returns whether this is the account that the process runs as.
    pub fn is_own(&self) -> bool {
        self.0.credentials.uid == Own::get().uid()
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.credentials == other.0.credentials
    }

    pub(super) fn credentials(&self) -> &Credentials {
        &self.0.credentials
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (uid, gid) = self.numbers();
        write!(f, "Account({} {uid}:{gid})", self.0.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: an account has the numbers and groups of the name service; one that is not known is
    /// an error of its own.
    #[test]
    fn an_account_has_its_groups() {
        let root = Account::of_name("root").unwrap();
        assert_eq!((root.name(), root.numbers()), ("root", (0, 0)));
        assert!(root.0.credentials.groups.contains(&Gid::from_raw(0)));
        let missing = Account::of_name("no such account").unwrap_err();
        assert!(matches!(missing, AccountError::Unknown(_)), "{missing}");
    }
}
