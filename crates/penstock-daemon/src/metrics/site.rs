//! The parts of the site: certificates, peers and etcd; and the limits of requests and connections.

use std::sync::{Arc, OnceLock};

use penstock_net::trust::WebCertificate;
use tokio::sync::Semaphore;

use super::table::{
    ADMISSION_PLACES, AUDIT_LINES, AUTH_FAILURES, BUILD, BUSY_USERS, CERTIFICATE_EXPIRY,
    CLOCK_ERROR, CONTROLLER, ETCD_UNANSWERED, ETCD_WRITES, ETCD_WRITTEN_BYTES, HANDSHAKE_WAIT,
    HTTP_CONNECTIONS, PEER_PLACES, PEER_PLACES_MAX, PEERS, REJECTIONS, SITE_BYTES, SITE_MAX_BYTES,
    SITE_PLACES, SITE_PLACES_MAX, STRIDES, STRIDES_MAX,
};
use super::{Part, Samples};
use crate::access::audit_log::AuditLog;
use crate::cluster::member::Member;
use crate::site::context::Site;

/// The HTTPS API, as figures show it.
#[derive(Clone)]
pub(crate) struct WebFigures {
    /// Its certificate, once it is served.
    pub(crate) certificate: Arc<OnceLock<WebCertificate>>,
    /// Places for connections.
    pub(crate) places: Arc<Semaphore>,
    /// The number of these places.
    pub(crate) places_max: usize,
}

/// The places for one kind of work for other peers of the site: those that are taken, and all.
pub(crate) type PeerPlaces = (&'static str, (usize, usize));

/// Returns the part of the site and its peers. `places` are those for work for its other peers.
pub(crate) fn site_part(
    member: Arc<Member>,
    web: WebFigures,
    places: impl Fn() -> [PeerPlaces; 2] + Send + Sync + 'static,
) -> Part {
    Part::new("site", move |samples| {
        let site = &member.parts.site;
        let (name, peer) = (site.config.site.as_str(), site.config.peer.as_str());
        samples.count(&BUILD, &[env!("CARGO_PKG_VERSION"), name, peer], 1);
        samples.flag(&CONTROLLER, &[], member.controller().is_some());
        samples.count(&PEERS, &[], member.now().peers.len() as u64);
        samples.count(&CERTIFICATE_EXPIRY, &["peer"], site.identity.expires());
        if let Some(certificate) = web.certificate.get() {
            samples.count(&CERTIFICATE_EXPIRY, &["web"], certificate.expires());
        }
        let error = penstock_sys::clock_error().ok().flatten();
        samples.add(&CLOCK_ERROR, &[], error.map_or(f64::INFINITY, |error| error.as_secs_f64()));
        if let Some(election) = member.election() {
            let (writes, bytes) = election.etcd.written();
            samples.count(&ETCD_WRITES, &[], writes);
            samples.count(&ETCD_WRITTEN_BYTES, &[], bytes);
            samples.count(&ETCD_UNANSWERED, &[], election.etcd.unanswered());
        }
        for (kind, (taken, most)) in places() {
            samples.count(&PEER_PLACES, &[kind], taken as u64);
            samples.count(&PEER_PLACES_MAX, &[kind], most as u64);
        }
    })
}

/// Returns the part of admissions and refusals.
pub(crate) fn access_part(site: Arc<Site>, audit: Arc<AuditLog>, web: WebFigures) -> Part {
    Part::new("access", move |samples| {
        add_refusals(samples, &site);
        let (written, lost) = audit.counts();
        samples.count(&AUDIT_LINES, &["written"], written);
        samples.count(&AUDIT_LINES, &["lost"], lost);
        let open = web.places_max.saturating_sub(web.places.available_permits());
        samples.count(&HTTP_CONNECTIONS, &[], open as u64);
        add_budgets(samples, &site);
    })
}

fn add_refusals(samples: &mut Samples, site: &Site) {
    for (reason, count) in site.authentication.failures() {
        samples.count(&AUTH_FAILURES, &[reason], count);
    }
    for (place, count) in site.authentication.crowded() {
        samples.count(&BUSY_USERS, &[place], count);
    }
    for (what, count) in site.admission.refusals() {
        samples.count(&REJECTIONS, &[what], count);
    }
    samples.add(&HANDSHAKE_WAIT, &[], site.admission.waited().as_secs_f64());
    for (stage, source, count) in site.admission.places() {
        samples.count(&ADMISSION_PLACES, &[stage, source], count as u64);
    }
}

fn add_budgets(samples: &mut Samples, site: &Site) {
    for budget in site.budgets.all() {
        let name = budget.site.as_str();
        for (duty, taken, most) in budget.usage() {
            samples.count(&SITE_PLACES, &[name, duty], taken as u64);
            samples.count(&SITE_PLACES_MAX, &[name, duty], most as u64);
        }
        for (kind, taken, most) in budget.bytes() {
            samples.count(&SITE_BYTES, &[name, kind], taken as u64);
            if most < usize::MAX {
                samples.count(&SITE_MAX_BYTES, &[name, kind], most as u64);
            }
        }
        let strides = budget.strides();
        samples.count(&STRIDES, &[name, "in-use"], strides.in_use as u64);
        samples.count(&STRIDES, &[name, "idle"], strides.idle as u64);
        samples.count(&STRIDES_MAX, &[name], strides.buffers_max as u64);
    }
}
