//! The state of a running site: configuration, keys, trust, pairings.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use penstock_api::access::Directory;
use penstock_api::cluster::{PeerCard, StoreCard, StoreRights};
use penstock_api::keys::KeysRecord;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::SiteView;
use penstock_api::scan::ScanRequest;
use penstock_api::site::SiteAddresses;
use penstock_api::task::SourceAccess;
use penstock_api::timestamp::Timestamp;
use penstock_cluster::state::{Pairing, SiteState};
use penstock_net::trust::{
    CapabilityError, PairingOffer, PeerCertificate, TrustError, TrustStore, Vouched,
    verify_capability,
};
use penstock_proto::capability::Capability;
use penstock_proto::frame::CipherSuite;
use penstock_proto::id::Name;
use penstock_proto::network::{self, ADDRESSES_MAX, DataAddress};
use penstock_proto::version::{self, Format, VersionRange};
use penstock_sys::now_seconds;
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;

use super::exports::Exports;
use super::settings::Settings;
use crate::access::admission::Admission;
use crate::access::authentication::Authentication;
use crate::access::budget::Budgets;
use crate::access::keys::{CAPABILITY_SECONDS, OwnKeys, fingerprint_text, follow, revoked_of};
use crate::config::{Config, StoreConfig, lists};
use crate::networks::Networks;

/// Time in which a reply goes out.
const REPLY_GOES: Duration = Duration::from_millis(100);
/// Pairing tokens that are outstanding at a time; the oldest is void when more are made.
const OFFERS_MAX: usize = 16;

/// The site, shared by all that serves it.
pub(crate) struct Site {
    /// The configuration at the start, for settings that a reload does not change.
    pub(crate) config: Config,
    /// The configuration in force.
    pub(crate) settings: Settings,
    pub(crate) exports: Exports,
    pub(crate) directory: PathBuf,
    /// Replaced by a rotation.
    keys: RwLock<Arc<OwnKeys>>,
    /// Held while the own keys are replaced.
    pub(crate) rotation: Mutex<()>,
    /// Held while a pairing is read, changed and stored.
    pairings: Mutex<()>,
    pub(crate) identity: PeerCertificate,
    pub(crate) trust: Arc<TrustStore>,
    /// The limits of connections without credentials.
    pub(crate) admission: Arc<Admission>,
    /// Users and tokens of the site.
    pub(crate) authentication: Arc<Authentication>,
    /// Address of the HTTPS API of this peer, while it is served.
    web_url: Mutex<Option<String>>,
    /// The limits of each paired site.
    pub(crate) budgets: Budgets,
    /// Changes when an authority is pinned or taken off.
    trust_news: watch::Sender<()>,
    /// The site's records, as this peer may see them: replaced when it becomes the controller.
    state: Mutex<Arc<dyn SiteState>>,
    /// The site's other peers, and where they listen.
    others: Mutex<Vec<(Name, SiteAddresses)>>,
    /// Stores that each of them reaches.
    far: Mutex<Vec<(Name, Vec<StoreCard>)>>,
    /// Absent peers of the site: the stores that they reach are unknown.
    away: Mutex<Vec<Name>>,
    /// Addresses at which each of them last accepted requests, also of absent peers.
    seen: Mutex<BTreeMap<Name, Vec<SocketAddr>>>,
    /// Pairings as the controller has written them, where another peer may be that.
    followed: Mutex<Vec<Pairing>>,
    /// Addresses at which the peers of other sites accept lanes, by their last statement.
    theirs: Mutex<BTreeMap<Name, Vec<DataAddress>>>,
    /// True while other sites do not receive this peer's addresses for data: other peers serve.
    draining: AtomicBool,
    /// The largest number of data addresses that were left out, as the log has it.
    left_out: AtomicUsize,
    pub(crate) listen: SocketAddr,
    pub(crate) suites: Vec<CipherSuite>,
    offers: Mutex<Vec<PairingOffer>>,
    /// Offers to hosts that are to join this site: never mixed with those to other sites.
    invitations: Mutex<Vec<PairingOffer>>,
}

impl Site {
    /// Returns a site that listens at `listen`, trusting those it is paired with.
    ///
    /// # Errors
    /// The pairings cannot be read, or one holds no authority; a cipher suite is not known.
    pub(crate) fn new(
        settings: impl Into<Settings>,
        directory: PathBuf,
        keys: OwnKeys,
        identity: PeerCertificate,
        state: Arc<dyn SiteState>,
        listen: SocketAddr,
    ) -> anyhow::Result<Self> {
        let settings = settings.into();
        let config = (*settings.now()).clone();
        let own = keys.authority.certificate().clone();
        let trust = TrustStore::new(own.clone())?;
        trust.replace(own, keys.revoked())?;
        for pairing in state.pairings()? {
            trust_pairing(&trust, &pairing)?;
        }
        let suites = config.suites()?;
        Ok(Self {
            exports: Exports::of(&config).following(settings.layers()),
            budgets: Budgets::new(config.site.clone()),
            admission: Arc::new(Admission::new(config.site.clone())),
            authentication: Arc::new(Authentication::new(
                match &config.cluster {
                    None => Directory::new(state.users()?, state.tokens()?, state.sessions()?),
                    // The membership supplies them; the earlier records of this host are out of
                    // date.
                    Some(_) => Directory::default(),
                },
                config.auth.session_limits(),
            )),
            web_url: Mutex::default(),
            config,
            settings,
            directory,
            keys: RwLock::new(Arc::new(keys)),
            rotation: Mutex::default(),
            pairings: Mutex::default(),
            identity,
            trust: Arc::new(trust),
            trust_news: watch::Sender::new(()),
            state: Mutex::new(state),
            others: Mutex::default(),
            far: Mutex::default(),
            away: Mutex::default(),
            seen: Mutex::default(),
            followed: Mutex::default(),
            theirs: Mutex::default(),
            draining: AtomicBool::new(false),
            left_out: AtomicUsize::new(0),
            listen,
            suites,
            offers: Mutex::default(),
            invitations: Mutex::default(),
        })
    }

    /// Sets the other peers that are present, fit to work or not, with their cards.
    pub(crate) fn see_peers<'a>(&self, cards: impl Iterator<Item = &'a PeerCard> + Clone) {
        let stores = cards.clone().map(|card| (card.peer.clone(), card.stores.clone()));
        *self.far.lock().unwrap_or_else(PoisonError::into_inner) = stores.collect();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend(cards.map(|card| (card.peer.clone(), card.addresses.clone())));
    }

    /// Returns whether a peer of this name is present now.
    pub(crate) fn has_peer(&self, peer: &Name) -> bool {
        let far = self.far.lock().unwrap_or_else(PoisonError::into_inner);
        *peer == self.config.peer || far.iter().any(|(there, _)| there == peer)
    }

    /// Returns the addresses at which a peer last accepted requests, since this daemon was started.
    pub(crate) fn last_addresses(&self, peer: &Name) -> Vec<SocketAddr> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(peer).cloned().unwrap_or_default()
    }

    /// Sets the peers that belong to the site and are absent.
    pub(crate) fn set_away(&self, peers: Vec<Name>) {
        *self.away.lock().unwrap_or_else(PoisonError::into_inner) = peers;
    }

    /// Returns the reason why the rights to a store are unknown now, if they are: no peer that is
    /// present has the store, and an absent one may.
    pub(crate) fn unknown_now(&self, store: &Name) -> Option<Problem> {
        let far = self.far.lock().unwrap_or_else(PoisonError::into_inner);
        let mut told = far.iter().flat_map(|(_, stores)| stores);
        if self.exports.has(store) || told.any(|card| card.store == *store) {
            return None;
        }
        let away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        let away: Vec<_> = away.iter().map(|peer| format!("`{peer}`")).collect();
        let title =
            format!("no peer of site `{}` that is up has store `{store}`", self.config.site);
        let problem = Problem::new(ProblemCode::StoreElsewhere, title);
        let problem = problem.because(format!("{} is not there, and may have it", away.join(", ")));
        (!away.is_empty()).then(|| problem.hint("start a peer with the store"))
    }

    /// Returns whether `site` may act on a store that other peers have and this one does not: all
    /// of them must allow it.
    fn far_allows(
        &self,
        site: &Name,
        store: &Name,
        of: impl Fn(&StoreRights) -> &Vec<String>,
    ) -> bool {
        let far = self.far.lock().unwrap_or_else(PoisonError::into_inner);
        let all = far.iter().flat_map(|(_, stores)| stores);
        let mut told = all.filter(|card| card.store == *store).peekable();
        told.peek().is_some() && told.all(|card| lists(of(&card.rights), site))
    }

    /// Returns whether peers of `site` may read from `store`, which this peer or others have.
    pub(crate) fn may_read(&self, site: &Name, store: &Name) -> bool {
        match self.exports.has(store) {
            true => self.exports.may_read(site, store),
            false => self.far_allows(site, store, |rights| &rights.read),
        }
    }

    /// Returns whether `site` may have its data written to `store`.
    pub(crate) fn may_write(&self, site: &Name, store: &Name) -> bool {
        match self.exports.has(store) {
            true => self.exports.may_write(site, store),
            false => self.far_allows(site, store, |rights| &rights.write),
        }
    }

    /// Returns whether transfers of `site` may replace and delete data in `store`.
    pub(crate) fn may_delete(&self, site: &Name, store: &Name) -> bool {
        match self.exports.has(store) {
            true => self.exports.may_delete(site, store),
            false => {
                self.far_allows(site, store, |rights| &rights.write)
                    && self.far_allows(site, store, |rights| &rights.delete)
            }
        }
    }

    /// Returns whether `site` may read from any store, as far as is known: an absent peer may have
    /// one.
    pub(crate) fn may_read_any(&self, site: &Name) -> bool {
        self.exports.may_read_any(site) || self.far_may_any(site, |rights| &rights.read)
    }

    /// Returns whether `site` may have its data written to any store, as far as is known.
    pub(crate) fn may_write_any(&self, site: &Name) -> bool {
        self.exports.may_write_any(site) || self.far_may_any(site, |rights| &rights.write)
    }

    fn far_may_any(&self, site: &Name, of: impl Fn(&StoreRights) -> &Vec<String>) -> bool {
        let far = self.far.lock().unwrap_or_else(PoisonError::into_inner);
        let mut told = far.iter().flat_map(|(_, stores)| stores);
        let away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        !away.is_empty() || told.any(|card| lists(of(&card.rights), site))
    }

    /// Returns whether `site` may have data removed in `store` that was moved to it.
    pub(crate) fn may_remove(&self, site: &Name, store: &Name) -> bool {
        match self.exports.has(store) {
            true => self.exports.may_remove(site, store),
            false => self.far_allows(site, store, |rights| &rights.remove),
        }
    }

    /// Returns the networks of this host as they are now.
    pub(crate) fn networks(&self) -> Networks<'static> {
        Networks::now(self.settings.now().networks.clone())
    }

    /// Returns the stores of this host as they are configured now.
    pub(crate) fn stores(&self) -> Vec<StoreConfig> {
        self.settings.now().stores.clone()
    }

    /// Returns the address of the HTTPS API of this peer, while it is served.
    pub(crate) fn web_url(&self) -> Option<String> {
        self.web_url.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the address of the HTTPS API of this peer.
    pub(crate) fn set_web_url(&self, url: Option<String>) {
        *self.web_url.lock().unwrap_or_else(PoisonError::into_inner) = url;
    }

    /// Returns the addresses at which this site accepts requests of others: the configured ones, or
    /// those that follow from the networks.
    pub(crate) fn advertised(&self) -> Vec<SocketAddr> {
        let config = self.settings.now();
        if config.networks.is_empty() || !config.advertise.is_empty() {
            return config.advertised(self.listen);
        }
        self.networks().control_addresses(self.listen.port())
    }

    /// Returns the addresses at which this peer accepts requests and lanes now.
    pub(crate) fn own_addresses(&self) -> SiteAddresses {
        let addresses = self.advertised();
        let (peer, port) = (&self.config.peer, self.listen.port());
        let data = self.networks().data_addresses(peer, port, &addresses);
        SiteAddresses { addresses, data }.bounded()
    }

    /// Returns the addresses at which the peers of this site accept requests and lanes now, this
    /// one before the others. Leaves out addresses that other sites would not use.
    pub(crate) fn addresses(&self) -> SiteAddresses {
        self.all_addresses().bounded()
    }

    fn all_addresses(&self) -> SiteAddresses {
        let SiteAddresses { mut addresses, data: own } = self.own_addresses();
        let mut data = if self.draining.load(Ordering::Relaxed) { Vec::new() } else { own.clone() };
        for (_, other) in self.others.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            addresses.extend(&other.addresses);
            data.extend(other.data.iter().cloned());
        }
        // Better one that is to have no new work than none.
        let data = if data.is_empty() { own } else { data };
        SiteAddresses { addresses, data }
    }

    /// Returns the addresses of lanes of those peers of this site that reach a store: the others
    /// would refuse lanes. If no peer is known to reach it, returns those of all peers.
    pub(crate) fn data_for(&self, store: &Name) -> Vec<DataAddress> {
        let found = self.data_known_for(store);
        if found.is_empty() { self.bounded(self.all_addresses().data) } else { found }
    }

    /// Returns the addresses of lanes of the peers that are known to reach a store.
    pub(crate) fn data_known_for(&self, store: &Name) -> Vec<DataAddress> {
        let all = self.all_addresses().data;
        let far = self.far.lock().unwrap_or_else(PoisonError::into_inner);
        // A peer of an earlier release does not use the accounts of a mapped store.
        let is_mapped = self.exports.is_mapped(store)
            || far
                .iter()
                .flat_map(|(_, stores)| stores)
                .any(|card| card.store == *store && card.mapped);
        let is_it = |card: &StoreCard| card.store == *store && card.mapped == is_mapped;
        let has_it =
            |store: &Name| self.exports.has(store) && self.exports.is_mapped(store) == is_mapped;
        let reaches = |address: &&DataAddress| {
            if address.peer == self.config.peer {
                return has_it(store);
            }
            let told = far.iter().find(|(peer, _)| *peer == address.peer);
            told.is_some_and(|(_, stores)| stores.iter().any(&is_it))
        };
        let found: Vec<_> = all.iter().filter(reaches).cloned().collect();
        match found.is_empty() {
            // This peer alone has it, and drains.
            true if has_it(store) => self.own_addresses().data,
            _ => self.bounded(found),
        }
    }

    /// Returns as many addresses as other sites look at. Writes to the log, once, if some are left
    /// out.
    fn bounded(&self, data: Vec<DataAddress>) -> Vec<DataAddress> {
        let left_out = data.len().saturating_sub(ADDRESSES_MAX);
        if left_out > self.left_out.fetch_max(left_out, Ordering::Relaxed) {
            tracing::warn!(
                left_out,
                "the peers that reach a store have more addresses for data than the \
                 {ADDRESSES_MAX} that another site uses; give networks that are not for data `role \
                 = \"control\"`"
            );
        }
        network::bounded(data)
    }

    /// Returns a signed capability (C4) for peers of a site to read a data set of this one.
    pub(crate) fn capability(&self, target: &Name, request: &ScanRequest) -> Vec<u8> {
        self.keys().authority.capability_key().sign(&Capability {
            transfer: request.transfer,
            source: self.config.site.clone(),
            target: target.clone(),
            store: request.store.clone(),
            root: request.root.0.clone(),
            remove: request.remove,
            expires: now_seconds() + CAPABILITY_SECONDS,
        })
    }

    /// Returns the access by which peers of this site read a data set in a store that they do not
    /// have: over lanes, from those that have it. `None` where this peer is the whole site.
    pub(crate) fn own_lanes(&self, request: &ScanRequest) -> Option<SourceAccess> {
        self.config.cluster.as_ref()?;
        let site = self.config.site.clone();
        let capability = self.capability(&site, request);
        let peers = self.data_for(&request.store);
        Some(SourceAccess::Remote { site, own_site: true, peers, capability })
    }

    /// Sets whether this peer's addresses for data are left out of messages to other sites.
    pub(crate) fn set_draining(&self, draining: bool) {
        self.draining.store(draining, Ordering::Relaxed);
    }

    /// Informs the admission of the addresses from which paired sites, and the other peers, may
    /// connect.
    pub(crate) fn expect_known(&self, pairings: &[Pairing]) {
        let paired = pairings.iter().flat_map(|pairing| pairing.addresses.clone());
        let theirs: Vec<_> = self.theirs().values().flatten().map(|data| data.address).collect();
        let own = self.all_addresses();
        let own = own.data.into_iter().map(|data| data.address).chain(own.addresses);
        self.admission.expect(paired.chain(theirs).chain(own).map(|address| address.ip()));
    }

    /// Returns a pairing, as this peer knows it: the controller's own, or the last one that it
    /// wrote.
    ///
    /// # Errors
    /// The database cannot be read.
    pub(crate) fn pairing(&self, site: &Name) -> Result<Option<Pairing>, Problem> {
        if let Some(pairing) = self.state().pairing(site)? {
            return Ok(Some(pairing));
        }
        let followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(followed.iter().find(|pairing| pairing.site == *site).cloned())
    }

    fn theirs(&self) -> MutexGuard<'_, BTreeMap<Name, Vec<DataAddress>>> {
        self.theirs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the addresses at which another site's peers accept lanes, as far as it has sent them
    /// since this daemon started.
    pub(crate) fn data_of(&self, site: &Name) -> Vec<DataAddress> {
        self.theirs().get(site).cloned().unwrap_or_default()
    }

    /// Handles the end of a pairing.
    pub(crate) fn forget_data_of(&self, site: &Name) {
        self.theirs().remove(site);
    }

    /// Records the addresses at which another site accepts requests and lanes now.
    ///
    /// # Errors
    /// The database cannot be read or written.
    pub(crate) fn learn(&self, site: &Name, theirs: &SiteAddresses) -> Result<(), Problem> {
        let _turn = self.pairings.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut pairing) = self.state().pairing(site)? else { return Ok(()) };
        self.theirs().insert(site.clone(), theirs.data.clone());
        if theirs.addresses.is_empty() || pairing.addresses == theirs.addresses {
            return Ok(());
        }
        tracing::info!(%site, addresses = ?theirs.addresses, "a site is reached elsewhere now");
        pairing.addresses.clone_from(&theirs.addresses);
        Ok(self.state().pair(&pairing)?)
    }

    /// Returns the records of the site.
    pub(crate) fn state(&self) -> Arc<dyn SiteState> {
        Arc::clone(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the format that the site may send and write now.
    pub(crate) fn format(&self) -> Format {
        version::known().format(self.state().format())
    }

    /// Versions of the site API that this site speaks now.
    pub(crate) fn speaks(&self) -> VersionRange {
        version::known().site_api(self.state().format())
    }

    /// Replaces the store of the site's records.
    pub(crate) fn set_state(&self, state: Arc<dyn SiteState>) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Sets the site's other peers.
    pub(crate) fn set_others(&self, others: Vec<(Name, SiteAddresses)>) {
        *self.others.lock().unwrap_or_else(PoisonError::into_inner) = others;
    }

    /// Trusts the sites that are paired with this one, and no others: another peer may have paired
    /// or unpaired them.
    pub(crate) fn follow_pairings(&self, pairings: &[Pairing]) {
        *self.followed.lock().unwrap_or_else(PoisonError::into_inner) = pairings.to_vec();
        for (known, _) in self.trust.sites() {
            if known != self.config.site && pairings.iter().all(|pairing| pairing.site != known) {
                self.trust.unpin(&known);
            }
        }
        for pairing in pairings {
            if let Err(error) = trust_pairing(&self.trust, pairing) {
                tracing::error!(site = %pairing.site, %error, "a pairing cannot be trusted");
            }
        }
        self.trust_news.send_replace(());
    }

    /// Tells the owners of all connections that a right may have ended.
    pub(crate) fn tell_trust_news(&self) {
        self.trust_news.send_replace(());
    }

    /// Does the same once a reply has gone out over the connection that is to be cut.
    pub(crate) async fn tell_trust_news_soon(self: Arc<Self>) {
        tokio::time::sleep(REPLY_GOES).await;
        self.tell_trust_news();
    }

    /// Returns a receiver that signals the holders of connections that their rights may have ended.
    pub(crate) fn trust_news(&self) -> watch::Receiver<()> {
        self.trust_news.subscribe()
    }

    /// Returns whether a peer belongs to a site that is paired with this one now, by the authority
    /// that vouched for the peer when its connection was made.
    pub(crate) fn is_paired_by(&self, vouched: &Vouched) -> bool {
        vouched.peer.site != self.config.site && self.trust.vouches(vouched)
    }

    /// Returns whether a peer belongs to this site, by the authority that vouched for it.
    pub(crate) fn is_own_peer(&self, vouched: &Vouched) -> bool {
        vouched.peer.site == self.config.site && self.trust.vouches(vouched)
    }

    /// Ends a pairing; false if there was none.
    ///
    /// # Errors
    /// The database cannot be written.
    pub(crate) fn unpair(&self, site: &Name) -> Result<bool, Problem> {
        let _turn = self.pairings.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = self.state().unpair(site)?;
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        followed.retain(|pairing| pairing.site != *site);
        drop(followed);
        let trusted = self.trust.unpin(site);
        self.trust_news.send_replace(());
        Ok(stored || trusted)
    }

    /// Returns whether a site is paired with this one now.
    pub(crate) fn is_paired(&self, site: &Name) -> bool {
        *site != self.config.site && self.trust.authority_of(site).is_some()
    }

    /// Returns the own site, as it is shown.
    pub(crate) fn own_view(&self) -> SiteView {
        SiteView {
            name: self.config.site.clone(),
            own: true,
            fingerprint: self.keys().authority.fingerprint().to_string(),
            addresses: self.addresses().addresses,
            paired_at: None,
            keys: self.keys().sequence(),
            unheard: false,
        }
    }

    /// Returns a pairing, as it is shown.
    pub(crate) fn pairing_view(&self, pairing: &Pairing) -> SiteView {
        SiteView {
            name: pairing.site.clone(),
            own: false,
            fingerprint: fingerprint_text(&pairing.ca),
            addresses: pairing.addresses.clone(),
            paired_at: Some(Timestamp::of_seconds(pairing.paired)),
            keys: pairing.keys,
            unheard: pairing.told < self.keys().sequence(),
        }
    }

    /// Keeps an offer until it is used up.
    pub(crate) fn add_offer(&self, offer: PairingOffer, now: u64) {
        Self::add(&self.offers, offer, now);
    }

    /// Keeps an invitation to this site until it is used up.
    pub(crate) fn add_invitation(&self, offer: PairingOffer, now: u64) {
        Self::add(&self.invitations, offer, now);
    }

    fn add(offers: &Mutex<Vec<PairingOffer>>, offer: PairingOffer, now: u64) {
        let mut offers = offers.lock().unwrap_or_else(PoisonError::into_inner);
        offers.retain(|offer| offer.is_open(now));
        if offers.len() >= OFFERS_MAX {
            offers.remove(0);
        }
        offers.push(offer);
    }

    /// Tries a joiner's proof on every outstanding offer: it uses up a try of the one it names.
    ///
    /// # Errors
    /// None fits.
    pub(crate) fn redeem(&self, redeem: impl Fn(&mut PairingOffer) -> bool) -> Result<(), Problem> {
        let mut offers = self.offers.lock().unwrap_or_else(PoisonError::into_inner);
        if offers.iter_mut().any(redeem) { Ok(()) } else { Err(wrong_token()) }
    }

    /// Checks that there is a valid token, to join this site or else to pair with it.
    ///
    /// # Errors
    /// There is no valid token: as [`Site::redeem`] or [`Site::redeem_invitation`].
    pub(crate) fn check_offered(&self, join: bool, now: u64) -> Result<(), Problem> {
        let offers = if join { &self.invitations } else { &self.offers };
        let offers = offers.lock().unwrap_or_else(PoisonError::into_inner);
        match offers.iter().any(|offer| offer.is_open(now)) {
            true => Ok(()),
            false if join => Err(wrong_invitation()),
            false => Err(wrong_token()),
        }
    }

    /// Redeems an invitation of a host that joins this site.
    ///
    /// # Errors
    /// None fits.
    pub(crate) fn redeem_invitation(
        &self,
        redeem: impl Fn(&mut PairingOffer) -> bool,
    ) -> Result<(), Problem> {
        let mut offers = self.invitations.lock().unwrap_or_else(PoisonError::into_inner);
        if offers.iter_mut().any(redeem) { Ok(()) } else { Err(wrong_invitation()) }
    }

    /// Stores a pairing and trusts it. It must have been checked that the name is free.
    ///
    /// # Errors
    /// The name belongs to another authority; the database cannot be written.
    pub(crate) fn pair(&self, pairing: &Pairing) -> Result<(), Problem> {
        self.trust.pin(CertificateDer::from(pairing.ca.clone())).map_err(|error| {
            Problem::new(ProblemCode::SiteTaken, "the sites cannot be paired").because(error)
        })?;
        Ok(self.state().pair(pairing)?)
    }

    /// Returns the key of this peer's certificate, in words; empty if it cannot be read.
    pub(crate) fn own_key(&self) -> String {
        self.identity.key().map(|key| key.to_string()).unwrap_or_default()
    }

    /// Returns the own keys as they are now.
    pub(crate) fn keys(&self) -> Arc<OwnKeys> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Checks a capability of this site, by its key of now or one that was replaced a short time
    /// ago.
    ///
    /// # Errors
    /// As [`verify_capability`], by the key of now.
    pub(crate) fn verify_capability(
        &self,
        bytes: &[u8],
        now: u64,
    ) -> Result<Capability, CapabilityError> {
        let keys = self.keys();
        let mut first = None;
        for key in keys.capability_keys(now) {
            match verify_capability(bytes, &key, now) {
                Err(CapabilityError::Signature) => {}
                checked => return checked,
            }
            first = Some(CapabilityError::Signature);
        }
        Err(first.unwrap_or(CapabilityError::Signature))
    }

    /// Shows a certificate of the next keys from now on, which peers that trust the authority of
    /// now accept as well. The keys that the next ones revoke are refused at once.
    ///
    /// # Errors
    /// The certificate is of another peer.
    pub(crate) fn show_next(&self, next: &OwnKeys, issued: &PeerCertificate) -> anyhow::Result<()> {
        self.identity.become_like(issued)?;
        self.trust.replace(self.keys().authority.certificate().clone(), next.revoked())?;
        self.trust_news.send_replace(());
        Ok(())
    }

    /// Replaces the keys of the site. Connections within the site by the earlier authority are to
    /// be cut: [`Site::tell_trust_news`].
    ///
    /// # Errors
    /// The authority does not belong to this site.
    pub(crate) fn take_keys(&self, keys: OwnKeys) -> anyhow::Result<()> {
        let (certificate, revoked) = (keys.authority.certificate().clone(), keys.revoked());
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
        self.trust.replace(certificate, revoked)?;
        Ok(())
    }

    /// Accepts the new statements of a paired site about its keys; returns the number of the last
    /// one that is accepted. Connections by the earlier authority are to be cut:
    /// [`Site::tell_trust_news`].
    ///
    /// # Errors
    /// The site is not paired; code `keys`: a statement is invalid; the database cannot be written.
    pub(crate) fn accept_keys(&self, site: &Name, offered: &KeysRecord) -> Result<u64, Problem> {
        let _turn = self.pairings.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pairing) = self.state().pairing(site)? else {
            let title = format!("site `{site}` is not paired with this one");
            return Err(Problem::new(ProblemCode::NotPaired, title));
        };
        let Some(followed) = follow(&pairing, offered)? else { return Ok(pairing.keys) };
        self.state().pair(&followed)?;
        trust_pairing(&self.trust, &followed).map_err(|error| {
            Problem::new(ProblemCode::Keys, "the keys of a site cannot be trusted").because(error)
        })?;
        let fingerprint = fingerprint_text(&followed.ca);
        tracing::info!(%site, number = followed.keys, fingerprint, "a site has other keys now");
        Ok(followed.keys)
    }

    /// Notes which keys of this site another one has confirmed.
    ///
    /// # Errors
    /// The database cannot be read or written.
    pub(crate) fn note_told(&self, site: &Name, sequence: u64) -> Result<(), Problem> {
        let _turn = self.pairings.lock().unwrap_or_else(PoisonError::into_inner);
        match self.state().pairing(site)? {
            Some(pairing) if pairing.told < sequence => {
                Ok(self.state().pair(&Pairing { told: sequence, ..pairing })?)
            }
            _ => Ok(()),
        }
    }
}

/// Trusts a paired site by its keys as they are now, whichever were trusted before.
fn trust_pairing(trust: &TrustStore, pairing: &Pairing) -> Result<(), TrustError> {
    let ca = CertificateDer::from(pairing.ca.as_slice()).into_owned();
    let revoked = revoked_of(pairing);
    let site = &pairing.site;
    match trust.authority_of(site) {
        Some(known) if known == ca && trust.revoked_of(site) == revoked => return Ok(()),
        Some(_) => {}
        None => drop(trust.pin(ca.clone())?),
    }
    trust.replace(ca, revoked).map(drop)
}

fn wrong_token() -> Problem {
    let title = "the pairing token is wrong, used up, or too old";
    Problem::new(ProblemCode::TokenRefused, title)
        .hint("make a new one with `penstock site pair` at the other site")
}

fn wrong_invitation() -> Problem {
    let title = "the token to join is wrong, used up, or too old";
    Problem::new(ProblemCode::TokenRefused, title)
        .hint("make a new one with `penstock site join` at a peer of the site")
}

#[cfg(test)]
pub(crate) mod tests;
