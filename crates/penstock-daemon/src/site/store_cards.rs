//! The stores of this peer, as its card names them.

use penstock_api::cluster::StoreCard;
use penstock_store::{PosixOptions, PosixStore};

use super::store_look;
use crate::config::StoreConfig;

/// What a store in memory is known by at a site: no other peer reaches it.
pub(crate) const IN_MEMORY: &str = "memory";

/// The stores of this peer with their identities, as far as they are there now (A5). Blocks on
/// storage, but for no longer than ten seconds for each store; one that hangs has no identity.
pub(crate) fn store_cards(stores: &[StoreConfig]) -> Vec<StoreCard> {
    let card = |store: &StoreConfig| {
        let asked = store.clone();
        store_look::within(&store.name, move || store_card(&asked)).unwrap_or_else(|| StoreCard {
            store: store.name.clone(),
            identity: String::new(),
            mounts: String::new(),
            rights: store.rights(),
        })
    };
    stores.iter().map(card).collect()
}

fn store_card(store: &StoreConfig) -> StoreCard {
    let identity = |store: &StoreConfig| {
        let options = PosixOptions { read_only: true, ..PosixOptions::default() };
        let opened = PosixStore::open(&store.directory()?, options).ok()?;
        Some(data_encoding::HEXLOWER.encode(&opened.identity().ok()?.id))
    };
    let identity = |store: &StoreConfig| match store.path.as_str() {
        "null:" => "null".to_owned(),
        text if text.starts_with("mem:") => IN_MEMORY.to_owned(),
        _ => identity(store).unwrap_or_default(),
    };
    StoreCard {
        store: store.name.clone(),
        identity: identity(store),
        mounts: mounts_text(store),
        rights: store.rights(),
    }
}

/// What is mounted within a store, in words that are the same where the same is mounted: some of
/// it by name, and a digest of all if that is more.
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
