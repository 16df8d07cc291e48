//! The part of the configuration about accounts of the host, as users of the site at the socket.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use penstock_api::access::{AccountName, Role};
use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

use super::error::MappedUserError;

/// Mark of a group before its name.
const GROUP_MARK: char = '@';
/// Beginning of the word for a role.
const ROLE_MARK: &str = "role:";
/// The word for the user of the account's own name.
const OWN: &str = "self";

/// The user that an account represents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum MappedUser {
    /// The user of the site whose name is that of the account.
    Own,
    /// A user of the site.
    User(Name),
    /// No user of the site: this role, under the name of the account.
    Role(Role),
}

impl FromStr for MappedUser {
    type Err = MappedUserError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == OWN {
            return Ok(Self::Own);
        }
        let Some(role) = text.strip_prefix(ROLE_MARK) else {
            let user = text.parse::<Name>().ok().filter(|user| user.as_str() != "root");
            return user.map(Self::User).ok_or_else(|| MappedUserError::Word(text.to_owned()));
        };
        match role.parse() {
            Ok(Role::User) => Err(MappedUserError::Grants),
            Ok(role) => Ok(Self::Role(role)),
            Err(_) => Err(MappedUserError::Role(role.to_owned())),
        }
    }
}

impl fmt::Display for MappedUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str(OWN),
            Self::User(user) => write!(f, "{user}"),
            Self::Role(role) => write!(f, "{ROLE_MARK}{role}"),
        }
    }
}

impl TryFrom<String> for MappedUser {
    type Error = MappedUserError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<MappedUser> for String {
    fn from(user: MappedUser) -> Self {
        user.to_string()
    }
}

/// Users of the site for accounts of this host and for its groups, which `@` begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixAccounts(BTreeMap<String, MappedUser>);

impl UnixAccounts {
    /// Returns whether no account is mapped.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the user that is named for an account itself.
    pub(crate) fn of_account(&self, account: &AccountName) -> Option<&MappedUser> {
        self.0.get(account.as_str())
    }

    /// Returns the names of groups, without their mark, and the users that are named for them.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&str, &MappedUser)> {
        self.0.iter().filter_map(|(key, user)| Some((key.strip_prefix(GROUP_MARK)?, user)))
    }

    /// Returns the names of accounts that are mapped themselves.
    pub(crate) fn accounts(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(|key| !key.starts_with(GROUP_MARK))
    }

    /// Returns the keys that are no names of accounts or groups.
    pub(super) fn wrong_keys(&self) -> impl Iterator<Item = &str> {
        let is_name = |key: &str| {
            let name = key.strip_prefix(GROUP_MARK).unwrap_or(key);
            name.parse::<AccountName>().is_ok()
        };
        self.0.keys().map(String::as_str).filter(move |key| !is_name(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: an account is mapped to a user, to its own name, or to a role that needs no grants;
    /// root and misspelt roles are refused with a reason.
    #[test]
    fn accounts_and_groups_are_mapped() {
        let text = "anna = \"ben\"\n\"@dtn-ops\" = \"role:operator\"\n\"@users\" = \"self\"\n";
        let read: UnixAccounts = toml::from_str(text).unwrap();
        let groups: Vec<_> = read.groups().map(|(group, user)| (group, user.clone())).collect();
        let operator = MappedUser::Role(Role::Operator);
        assert_eq!(groups, [("dtn-ops", operator), ("users", MappedUser::Own)]);
        let ben = MappedUser::User("ben".parse().unwrap());
        assert_eq!(read.of_account(&"anna".parse().unwrap()), Some(&ben));
        assert_eq!(read.accounts().collect::<Vec<_>>(), ["anna"]);
        assert_eq!(toml::from_str::<UnixAccounts>(&toml::to_string(&read).unwrap()), Ok(read));
        let wrong = |word: &str| word.parse::<MappedUser>().unwrap_err().to_string();
        assert!(wrong("role:user").contains("grants"), "{}", wrong("role:user"));
        assert!(wrong("role:boss").contains("`boss`") && wrong("root").contains("`root`"));
        let keys: UnixAccounts = toml::from_str("\"1000\" = \"a\"\n\"@\" = \"a\"\n").unwrap();
        assert_eq!(keys.wrong_keys().collect::<Vec<_>>(), ["1000", "@"]);
    }
}
