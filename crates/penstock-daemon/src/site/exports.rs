//! Which site may do what with which store, as the configuration says now.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use penstock_api::access::AccountName;
use penstock_api::rest::StoreView;
use penstock_proto::id::Name;

use crate::config::{Config, Encryption, SiteAccounts, StoreAccount, StoreConfig, lists};

/// The stores of a site and the rights of others to them. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exports(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    stores: BTreeMap<Name, StoreConfig>,
    accounts: BTreeMap<Name, SiteAccounts>,
    /// Where rights are read again when it changes.
    file: Option<PathBuf>,
    /// The file as it was read last.
    seen: Option<Stamp>,
}

/// What tells a file from its successor: time of modification, size, inode.
type Stamp = (SystemTime, u64, u64);

impl Known {
    /// Takes the rights that the file gives now. One that is wrong changes nothing.
    fn refresh(&mut self) {
        let Some(file) = &self.file else { return };
        let stamp = fs::metadata(file).and_then(|meta| {
            let modified = meta.modified()?;
            Ok((modified, meta.len(), meta.ino()))
        });
        // Where the file cannot be read for now, the rights stay as they are.
        let Ok(stamp) = stamp else { return };
        if self.seen.replace(stamp) == Some(stamp) {
            return;
        }
        let read = fs::read_to_string(file).map_err(anyhow::Error::from);
        let parsed = read.and_then(|text| {
            let config: Config = toml::from_str(&text)?;
            config.check()?;
            Ok(config)
        });
        let config = match parsed {
            Ok(config) => config,
            Err(error) => {
                tracing::warn!(
                    file = %file.display(), %error,
                    "the configuration is wrong: rights to stores stay as they were"
                );
                return;
            }
        };
        self.accounts = config.accounts;
        for new in config.stores {
            let Some(known) = self.stores.get_mut(&new.name) else { continue };
            let StoreConfig { read, write, delete, remove, .. } = new;
            (known.read, known.write) = (read, write);
            (known.delete, known.remove) = (delete, remove);
        }
    }
}

impl Exports {
    /// What a configuration exports.
    pub(crate) fn of(config: &Config) -> Self {
        let stores = config.stores.iter().map(|store| (store.name.clone(), store.clone()));
        let (stores, accounts) = (stores.collect(), config.accounts.clone());
        Self(Arc::new(Mutex::new(Known { stores, accounts, ..Known::default() })))
    }

    /// Follows the rights that `file` gives, whenever it changes. All else stays as it was when the
    /// daemon began.
    pub(crate) fn following(self, file: PathBuf) -> Self {
        self.lock().file = Some(file);
        self
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a store is there and `allows` something now.
    fn allows(&self, store: &Name, allows: impl FnOnce(&StoreConfig) -> bool) -> bool {
        let mut known = self.lock();
        known.refresh();
        known.stores.get(store).is_some_and(allows)
    }

    /// Returns whether any store `allows` something now.
    fn any(&self, allows: impl Fn(&StoreConfig) -> bool) -> bool {
        let mut known = self.lock();
        known.refresh();
        known.stores.values().any(allows)
    }

    /// The account as which mapped stores are used for a request of `site`, for its `user` if it
    /// has told one.
    pub(crate) fn account_of(&self, site: &Name, user: Option<&Name>) -> Option<AccountName> {
        let mut known = self.lock();
        known.refresh();
        known.accounts.get(site)?.of(user).cloned()
    }

    /// Whether `site` is told for which user of this one a request is.
    pub(crate) fn tells_users(&self, site: &Name) -> bool {
        let mut known = self.lock();
        known.refresh();
        known.accounts.get(site).is_some_and(|accounts| accounts.tell_users)
    }

    /// Whether peers of `site` may read from `store`.
    pub(crate) fn may_read(&self, site: &Name, store: &Name) -> bool {
        self.allows(store, |store| lists(&store.read, site))
    }

    /// Whether `site` may have its data written to `store`.
    pub(crate) fn may_write(&self, site: &Name, store: &Name) -> bool {
        self.allows(store, |store| !store.read_only && lists(&store.write, site))
    }

    /// Whether transfers of `site` may replace and delete what is in `store`.
    pub(crate) fn may_delete(&self, site: &Name, store: &Name) -> bool {
        let both = |store: &StoreConfig| lists(&store.write, site) && lists(&store.delete, site);
        self.allows(store, |store| !store.read_only && both(store))
    }

    /// Whether `site` may have removed in `store` what was moved to it.
    pub(crate) fn may_remove(&self, site: &Name, store: &Name) -> bool {
        self.allows(store, |store| !store.read_only && lists(&store.remove, site))
    }

    /// Whether `store` may be read over lanes that are not encrypted.
    pub(crate) fn may_be_clear(&self, store: &Name) -> bool {
        let known = self.lock();
        known.stores.get(store).is_none_or(|store| store.encryption == Encryption::Optional)
    }

    /// Returns whether peers of `site` may read from any store.
    pub(crate) fn may_read_any(&self, site: &Name) -> bool {
        self.any(|store| lists(&store.read, site))
    }

    /// Returns whether `site` may have its data written to any store.
    pub(crate) fn may_write_any(&self, site: &Name) -> bool {
        self.any(|store| !store.read_only && lists(&store.write, site))
    }

    /// Whether a store of this host is used as accounts of users.
    pub(crate) fn is_mapped(&self, store: &Name) -> bool {
        let known = self.lock();
        known.stores.get(store).is_some_and(|store| store.account == StoreAccount::Mapped)
    }

    /// Whether this host has a store of this name.
    pub(crate) fn has(&self, store: &Name) -> bool {
        self.lock().stores.contains_key(store)
    }

    /// The directory of a store.
    pub(crate) fn directory(&self, store: &Name) -> Option<PathBuf> {
        self.lock().stores.get(store)?.directory()
    }

    /// The stores as the API shows them.
    pub(crate) fn views(&self) -> Vec<StoreView> {
        let mut known = self.lock();
        known.refresh();
        known.stores.values().map(StoreConfig::view).collect()
    }
}
