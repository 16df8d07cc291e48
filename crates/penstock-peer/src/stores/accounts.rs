//! The accounts as which this host uses mapped stores, as its name service told last.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use penstock_api::access::AccountName;
use penstock_proto::units::Instant;
use penstock_sys::{Account, AccountError, boottime_now};

/// Time for which an account is used as it was told: each page of a transfer asks for it, and the
/// name service may be on another host.
const AGE_MAX: Duration = Duration::from_secs(10);
/// Accounts that are remembered; beyond that all are asked for again.
const ACCOUNTS_MAX: usize = 1024;

/// Accounts of this host by name. An error is not remembered.
#[derive(Debug, Default)]
pub(super) struct Accounts(Mutex<BTreeMap<AccountName, (Instant, Account)>>);

impl Accounts {
    /// Returns an account. Blocks on the name service, without a lock.
    ///
    /// # Errors
    /// Those of [`Account::of_name`].
    pub(super) fn get(&self, name: &AccountName) -> Result<Account, Arc<AccountError>> {
        let now = boottime_now();
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((told, account)) = known().get(name)
            && now.since(*told) <= AGE_MAX
        {
            return Ok(account.clone());
        }
        let account = Account::of_name(name.as_str())?;
        let mut known = known();
        if known.len() >= ACCOUNTS_MAX {
            known.clear();
        }
        known.insert(name.clone(), (now, account.clone()));
        Ok(account)
    }
}
