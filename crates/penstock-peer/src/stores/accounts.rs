//! The accounts as which this host uses mapped stores, by the last answers of its name service.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use penstock_api::access::AccountName;
use penstock_proto::units::Instant;
use penstock_sys::{Account, AccountError, boottime_now};

/// Time for which an answer of the name service about an account is used: each page of a transfer
/// asks for the account, and the service may be on another host.
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use penstock_api::problem::ProblemCode;
    use penstock_proto::id::Name;

    use crate::stores::{StoreKind, StoreSpec, Stores};

    /// Promise (D10): a mapped store is used as an account of this host or not at all; another
    /// store asks for none.
    #[test]
    fn d10_a_mapped_store_is_used_as_an_account() {
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(base.path().join("secret"), "x").unwrap();
        fs::set_permissions(base.path().join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
        let spec = |name: &str, mapped| StoreSpec {
            name: name.parse().unwrap(),
            kind: StoreKind::Posix(base.path().to_owned()),
            read_only: false,
            ephemeral: false,
            allow_privileged: false,
            io: Default::default(),
            mapped,
        };
        let stores = Stores::new([spec("plain", false), spec("mapped", true)]);
        let (plain, mapped): (Name, Name) = ("plain".parse().unwrap(), "mapped".parse().unwrap());
        let code = |account: Option<&str>| {
            let account = account.map(|name| name.parse().unwrap());
            stores.target(&mapped, account.as_ref()).map(drop).map_err(|error| error.code())
        };
        assert_eq!(code(None), Err(ProblemCode::AccountMissing));
        assert_eq!(code(Some("no-such-account")), Err(ProblemCode::AccountMissing));
        assert!(stores.target(&plain, None).is_ok() && stores.own_target(&mapped).is_ok());
        if penstock_sys::own_numbers().0 != 0 {
            assert_eq!(code(Some("nobody")), Err(ProblemCode::AccountRefused));
            #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
            {
                eprintln!("SKIPPED: acting as an account needs root");
            }
            return;
        }
        assert_eq!((code(Some("nobody")), code(Some("root"))), (Ok(()), Ok(())));
        let nobody = "nobody".parse().unwrap();
        let opens = |store: &Name| {
            let source = stores.source(store, Some(&nobody)).unwrap();
            source.open_read(source.root(), b"secret").is_ok()
        };
        assert_eq!((opens(&plain), opens(&mapped)), (true, false));
    }
}
