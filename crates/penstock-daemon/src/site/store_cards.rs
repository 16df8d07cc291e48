//! The stores of this peer, as its card names them.

use std::path::Path;

use penstock_api::cluster::StoreCard;
use penstock_store::{PosixOptions, PosixStore, StoreError, StoreOffline};

use super::store_look;
use crate::config::{StoreAccount, StoreConfig};

/// The identity of a store in memory at a site: no other peer reaches it.
pub(crate) const IN_MEMORY: &str = "memory";

/// Returns the stores of this peer with their identities, as far as they are there now (A5). Blocks
/// on storage, but for no longer than ten seconds for each store; one that hangs has no identity.
pub(crate) fn store_cards(stores: &[StoreConfig]) -> Vec<StoreCard> {
    let card = |store: &StoreConfig| {
        let asked = store.clone();
        store_look::within(&store.name, move || store_card(&asked)).unwrap_or_else(|| StoreCard {
            store: store.name.clone(),
            identity: String::new(),
            mounts: String::new(),
            rights: store.rights(),
            trouble: "a call to it hangs".to_owned(),
            mapped: store.account == StoreAccount::Mapped,
        })
    };
    stores.iter().map(card).collect()
}

/// Returns the card of one store. Blocks on storage, for as long as that takes.
pub(crate) fn store_card(store: &StoreConfig) -> StoreCard {
    let (identity, trouble) = match store.directory() {
        None if store.path == "null:" => ("null".to_owned(), String::new()),
        None => (IN_MEMORY.to_owned(), String::new()),
        Some(directory) => match identity_at(&directory) {
            Ok(identity) => (identity, String::new()),
            Err(error) => (String::new(), penstock_exit::chain(&error)),
        },
    };
    StoreCard {
        store: store.name.clone(),
        identity,
        mounts: mounts_text(store),
        rights: store.rights(),
        trouble,
        mapped: store.account == StoreAccount::Mapped,
    }
}

/// Returns the identity of the store at a directory, in hex; empty if it has none yet.
fn identity_at(directory: &Path) -> Result<String, StoreError> {
    let options = PosixOptions { read_only: true, ..PosixOptions::default() };
    match PosixStore::open(directory, options)?.identity() {
        Ok(identity) => Ok(data_encoding::HEXLOWER.encode(&identity.id)),
        Err(StoreOffline::IdentityMissing { .. }) => Ok(String::new()),
        Err(offline) => Err(offline.into()),
    }
}

/// Returns the mounts within a store as text that is equal where the mounts are. It has some of
/// them by name, and a digest of all if there are more.
fn mounts_text(store: &StoreConfig) -> String {
    const NAMED_MAX: usize = 4;
    // A store that cannot be looked at has no identity either: it is left out for that.
    let found = store.directory().and_then(|root| penstock_sys::mounts_within(&root).ok());
    let names: Vec<String> = found
        .unwrap_or_default()
        .iter()
        .map(|mount| format!("{} ({})", mount.at.display(), mount.kind))
        .collect();
    match names.get(..NAMED_MAX) {
        Some(named) if names.len() > NAMED_MAX => {
            let all = blake3::hash(names.join("\n").as_bytes()).to_hex();
            let more = names.len() - NAMED_MAX;
            format!("{} and {more} more [{}]", named.join(", "), &all[..16])
        }
        _ => names.join(", "),
    }
}
