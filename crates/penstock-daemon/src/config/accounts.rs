//! The part of the configuration about accounts, as which mapped stores are used.

use std::collections::BTreeMap;

use penstock_api::access::AccountName;
use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

/// The account as which the files of a store are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreAccount {
    /// The daemon's own user.
    #[default]
    Daemon,
    /// The account of the user, or of the paired site, whose transfer it is.
    Mapped,
}

impl StoreAccount {
    /// Returns whether a configuration file may leave the value out.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The accounts of this site for requests of a paired site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteAccounts {
    /// The account for all its users that `users` does not name. Default: none; their requests to
    /// mapped stores are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<AccountName>,
    /// Accounts of single users, by their names at that site, which sends them (`tell_users`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub users: BTreeMap<Name, AccountName>,
    /// Tells that site for which user of this one a request is. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tell_users: bool,
}

impl SiteAccounts {
    /// Returns the account for a user of that site, if the site has sent one.
    pub(crate) fn of(&self, user: Option<&Name>) -> Option<&AccountName> {
        user.and_then(|user| self.users.get(user)).or(self.all.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a user of a paired site has its own account, if one is configured, or else that of
    /// the site, if there is one. A number is refused as the name of an account.
    #[test]
    fn users_of_a_site_have_accounts() {
        let read = |text: &str| toml::from_str::<SiteAccounts>(text);
        let accounts = read("all = \"hpcxfer\"\nusers = { anna = \"am17\" }").unwrap();
        let of = |accounts: &SiteAccounts, user: Option<&str>| {
            let user = user.map(|user| user.parse().unwrap());
            accounts.of(user.as_ref()).map(ToString::to_string)
        };
        assert_eq!(of(&accounts, Some("anna")).as_deref(), Some("am17"));
        assert_eq!(of(&accounts, Some("ben")).as_deref(), Some("hpcxfer"));
        assert_eq!(of(&accounts, None).as_deref(), Some("hpcxfer"));
        let only = read("users = { anna = \"am17\" }").unwrap();
        assert_eq!((of(&only, Some("ben")), of(&only, None)), (None, None));
        assert!(read("all = \"1000\"").is_err() && read("al = \"x\"").is_err());
    }
}
