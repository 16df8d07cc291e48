//! Accounts of hosts, under which files of users are read and written.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest name of an account, in bytes: that of a user principal name.
const BYTES_MAX: usize = 256;

/// The name of an account of a host (getpwnam(3)). Hosts exchange names, never numbers: one number
/// may be another user elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AccountName(String);

/// Error: a text is no name of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name of an account has 1 to 256 bytes, without `/`, `:`, spaces or control characters, \
     does not begin with `-`, and is no number"
)]
pub struct AccountNameError;

impl AccountName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for AccountName {
    type Error = AccountNameError;

    fn try_from(text: String) -> Result<Self, AccountNameError> {
        let is_bad = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '/' | ':');
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let is_name = (1..=BYTES_MAX).contains(&text.len())
            && !text.starts_with('-')
            && !is_number
            && !text.contains(is_bad);
        is_name.then_some(Self(text)).ok_or(AccountNameError)
    }
}

impl FromStr for AccountName {
    type Err = AccountNameError;

    fn from_str(text: &str) -> Result<Self, AccountNameError> {
        text.to_owned().try_into()
    }
}

impl From<AccountName> for String {
    fn from(name: AccountName) -> Self {
        name.0
    }
}

impl Borrow<str> for AccountName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: names of directory services are names of accounts; numbers, paths and options are
    /// not.
    #[test]
    fn a_name_of_an_account_is_no_number() {
        for name in ["anna", "root", "svc_1", "EXAMPLE\\anna", "anna@example.org", "x$", "7up"] {
            assert_eq!(name.parse::<AccountName>().map(String::from).as_deref(), Ok(name));
        }
        let long = "a".repeat(257);
        for bad in ["", "0", "1000", "-x", "a:b", "a/b", "a b", "a\n", long.as_str()] {
            assert_eq!(bad.parse::<AccountName>(), Err(AccountNameError), "{bad:?}");
        }
    }
}
