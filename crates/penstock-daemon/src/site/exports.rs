//! Rights of sites to stores, by the present configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use penstock_api::access::AccountName;
use penstock_api::rest::StoreView;
use penstock_proto::id::Name;

use crate::config::{Config, Encryption, SiteAccounts, StoreAccount, StoreConfig, lists};
use crate::settings::{Layers, Stamp};

/// The stores of a site and the rights of others to them. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exports(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    stores: BTreeMap<Name, StoreConfig>,
    accounts: BTreeMap<Name, SiteAccounts>,
    /// The layers from which rights are read again when a file changes.
    layers: Option<Layers>,
    /// The files as they were taken last.
    seen: Vec<Stamp>,
    /// The files of which a fault was logged last.
    faulty: Vec<Stamp>,
}

impl Known {
    /// Adopts the present rights of the files. Files with faults change nothing.
    fn refresh(&mut self) {
        let Some(layers) = &self.layers else { return };
        let stamps = layers.stamps();
        // Where the main file cannot be read for now, the rights stay as they are.
        if stamps.first().is_none_or(Option::is_none) || stamps == self.seen {
            return;
        }
        let config = match layers.load_rights() {
            Ok(config) => config,
            // A failure that passes, as of a host without descriptors, must hide no change: the
            // files are read again at the next look.
            Err(error) => {
                if self.faulty != stamps {
                    tracing::warn!(
                        file = %layers.main_file().display(), %error,
                        "the configuration has faults: rights to stores stay as they were"
                    );
                    self.faulty = stamps;
                }
                return;
            }
        };
        self.seen = stamps;
        self.take_rights(config);
    }

    /// Takes the accounts of paired sites, and the rights of stores that are known.
    fn take_rights(&mut self, config: Config) {
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
    /// Returns the exports of a configuration.
    pub(crate) fn of(config: &Config) -> Self {
        let stores = config.stores.iter().map(|store| (store.name.clone(), store.clone()));
        let (stores, accounts) = (stores.collect(), config.accounts.clone());
        Self(Arc::new(Mutex::new(Known { stores, accounts, ..Known::default() })))
    }

    /// Follows the rights in the files of `layers`, whenever one changes. All other settings follow
    /// a reload.
    pub(crate) fn following(self, layers: Layers) -> Self {
        self.lock().layers = Some(layers);
        self
    }

    /// Sets the accounts of paired sites and the rights of stores to those that hold now.
    pub(crate) fn show_rights(&self, config: &mut Config) {
        let mut known = self.lock();
        known.refresh();
        config.accounts.clone_from(&known.accounts);
        for store in &mut config.stores {
            let Some(now) = known.stores.get(&store.name) else { continue };
            let StoreConfig { read, write, delete, remove, .. } = now.clone();
            (store.read, store.write) = (read, write);
            (store.delete, store.remove) = (delete, remove);
        }
    }

    /// Has the stores and accounts of a configuration from now on.
    pub(crate) fn take(&self, config: &Config) {
        let stores = config.stores.iter().map(|store| (store.name.clone(), store.clone()));
        let mut known = self.lock();
        known.stores = stores.collect();
        known.accounts.clone_from(&config.accounts);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a store exists and `allows` the action now.
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

    /// Returns the account as which mapped stores are used for a request of `site`, for its `user`
    /// if it has sent one.
    pub(crate) fn account_of(&self, site: &Name, user: Option<&Name>) -> Option<AccountName> {
        let mut known = self.lock();
        known.refresh();
        known.accounts.get(site)?.of(user).cloned()
    }

    /// Returns whether `site` learns for which user of this one a request is.
    pub(crate) fn tells_users(&self, site: &Name) -> bool {
        let mut known = self.lock();
        known.refresh();
        known.accounts.get(site).is_some_and(|accounts| accounts.tell_users)
    }

    /// Returns whether peers of `site` may read from `store`.
    pub(crate) fn may_read(&self, site: &Name, store: &Name) -> bool {
        self.allows(store, |store| lists(&store.read, site))
    }

    /// Returns whether `site` may have its data written to `store`.
    pub(crate) fn may_write(&self, site: &Name, store: &Name) -> bool {
        self.allows(store, |store| !store.read_only && lists(&store.write, site))
    }

    /// Returns whether transfers of `site` may replace and delete data in `store`.
    pub(crate) fn may_delete(&self, site: &Name, store: &Name) -> bool {
        let both = |store: &StoreConfig| lists(&store.write, site) && lists(&store.delete, site);
        self.allows(store, |store| !store.read_only && both(store))
    }

    /// Returns whether `site` may have data removed in `store` that was moved to it.
    pub(crate) fn may_remove(&self, site: &Name, store: &Name) -> bool {
        self.allows(store, |store| !store.read_only && lists(&store.remove, site))
    }

    /// Returns whether `store` may be read over lanes that are not encrypted.
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

    /// Returns whether a store of this host is used as accounts of users.
    pub(crate) fn is_mapped(&self, store: &Name) -> bool {
        let known = self.lock();
        known.stores.get(store).is_some_and(|store| store.account == StoreAccount::Mapped)
    }

    /// Returns whether this host has a store of this name.
    pub(crate) fn has(&self, store: &Name) -> bool {
        self.lock().stores.contains_key(store)
    }

    /// Returns the directory of a store.
    pub(crate) fn directory(&self, store: &Name) -> Option<PathBuf> {
        self.lock().stores.get(store)?.directory()
    }

    /// Returns the stores as the API shows them.
    pub(crate) fn views(&self) -> Vec<StoreView> {
        let mut known = self.lock();
        known.refresh();
        known.stores.values().map(StoreConfig::view).collect()
    }
}
