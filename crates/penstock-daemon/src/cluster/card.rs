//! The card by which the peers of a site know this one.

use penstock_api::cluster::PeerCard;
use penstock_api::rpc::task::PEER_API_VERSION;
use penstock_api::site::SiteAddresses;
use penstock_proto::version;

use crate::site::context::Site;

/// Returns the card of this peer without its stores, which were not looked at yet.
pub(super) fn own_card(site: &Site) -> PeerCard {
    let SiteAddresses { addresses, data } = told_addresses(site);
    PeerCard {
        peer: site.config.peer.clone(),
        instance: rand::random(),
        addresses,
        data,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: PEER_API_VERSION,
        formats: version::known().formats(),
        boot: String::new(),
        stores: Vec::new(),
        running: 0,
        since: penstock_sys::now_seconds(),
        key: site.own_key(),
        keys_at: site.own_addresses().addresses,
    }
}

/// Returns the addresses at which others reach this peer. A witness gets no requests, and serves no
/// data.
pub(super) fn told_addresses(site: &Site) -> SiteAddresses {
    match &site.config.cluster {
        Some(cluster) if cluster.witness => SiteAddresses::default(),
        _ => site.own_addresses(),
    }
}
