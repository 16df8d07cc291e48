//! The objects that this peer watches while it runs: loops that must move, stores, and all sources
//! of figures.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context as _;
use penstock_peer::{SourceService, TargetService};
use penstock_sys::POWERCAP_ROOT;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Semaphore, watch};

use crate::access::audit_log::AuditLog;
use crate::cluster::listing::Lister;
use crate::cluster::member::Member;
use crate::config::StoreConfig;
use crate::http::web::CONNECTIONS_MAX;
use crate::metrics::heartbeat::{Heartbeat, Heartbeats};
use crate::metrics::host::NamedRuntime;
use crate::metrics::site::WebFigures;
use crate::metrics::stores::StoreLooks;
use crate::metrics::{Metrics, data_plane, host, site as site_figures, stores, transfers};
use crate::operations::Operate;
use crate::operations::statistics::SiteSeries;
use crate::peer_server::Host;
use crate::site::context::Site;
use crate::statistics::{Recorder, Work};

/// Longest time that a loop which accepts connections may be silent: it waits for nothing else.
const ACCEPT_SILENCE: Duration = Duration::from_secs(30);
/// Longest time that the thread which starts transfers may take for one look at them. It waits for
/// the state while a record is stored.
const TRANSFERS_SILENCE: Duration = Duration::from_secs(30);
/// Longest time of one round of a loop that asks the journal: a hung one has 10 s.
const JOURNAL_SILENCE: Duration = Duration::from_secs(60);
/// Longest time of one round of the thread that keeps the lease, and at least so many leases: each
/// of its calls to etcd may take a third of one.
const LEASE_SILENCE: Duration = Duration::from_secs(60);
const LEASE_SILENCE_LEASES: u32 = 4;

/// The objects that are watched.
pub(super) struct Watched {
    pub(super) heartbeats: Arc<Heartbeats>,
    pub(super) audit: Arc<AuditLog>,
    pub(super) web: WebFigures,
    pub(super) recorder: Arc<Recorder>,
    looks: Arc<StoreLooks>,
    runtimes: Vec<NamedRuntime>,
}

impl Watched {
    /// Watches a peer of this site, with these runtimes beside the present one.
    ///
    /// # Errors
    /// There is no memory for statistics.
    pub(super) fn new(
        site: &Site,
        others: &[(&'static str, &'static Runtime)],
    ) -> anyhow::Result<Self> {
        let others = others.iter().map(|(name, it)| (*name, it.handle().clone()));
        let runtimes = [("control", Handle::current())].into_iter().chain(others).collect();
        let web = WebFigures {
            certificate: Arc::default(),
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            places_max: CONNECTIONS_MAX,
        };
        let audit = Arc::new(AuditLog::new(&site.directory));
        let recorder = Recorder::open(&site.directory, Path::new(POWERCAP_ROOT))?;
        let (heartbeats, looks) = Default::default();
        Ok(Self { heartbeats, audit, web, recorder, looks, runtimes })
    }

    /// Looks at the stores of the site until `stopped` changes, and follows reloads.
    pub(super) fn watch_stores(&self, site: &Site, stopped: &watch::Receiver<bool>) {
        let (looks, runtime, stopped) =
            (Arc::clone(&self.looks), Handle::current(), stopped.clone());
        looks.watch(&site.stores(), &runtime, &stopped);
        site.settings.on_reload(Box::new(move |config| {
            looks.watch(&config.stores, &runtime, &stopped);
            Ok(())
        }));
    }

    /// Returns the statistics of the site, as this peer answers them.
    pub(super) fn statistics(&self, operate: &Arc<Operate>) -> SiteSeries {
        SiteSeries { operate: Arc::clone(operate), recorder: Arc::clone(&self.recorder) }
    }

    /// Records the figures of this peer and its transfers until `stopped` changes.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn record(
        &self,
        operate: &Operate,
        stopped: &watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        let work = Work {
            source: Arc::clone(&operate.source),
            target: Arc::clone(&operate.target),
            member: Arc::clone(&operate.member),
        };
        let site = Arc::clone(&operate.site);
        let stores =
            move || site.stores().iter().filter_map(StoreConfig::directory).collect::<Vec<_>>();
        let started = self.recorder.start(work, stores, stopped.clone());
        started.context("cannot start the thread of statistics")
    }

    /// Watches a loop that accepts connections.
    pub(super) fn accepts(&self, name: &'static str) -> Heartbeat {
        self.heartbeats.watch(name, ACCEPT_SILENCE)
    }

    /// Watches a loop that accepts connections while `is_there` returns true.
    pub(super) fn accepts_while(&self, name: &'static str, is_there: Arc<AtomicBool>) -> Heartbeat {
        self.heartbeats.watch_while(name, ACCEPT_SILENCE, is_there)
    }

    /// Watches the loop in which a controller records in the journal that it works.
    pub(super) fn leads(&self) -> Heartbeat {
        self.heartbeats.watch("journal", JOURNAL_SILENCE)
    }

    /// Watches the threads that start transfers and that keep the lease, where there are any.
    pub(super) fn watch_threads(&self, member: &Arc<Member>) {
        let leads = Arc::clone(member);
        self.heartbeats.watch_by("transfers", TRANSFERS_SILENCE, move || {
            leads.controller().map(|controller| controller.manager.silence())
        });
        let Some(election) = member.election() else { return };
        let lease = Duration::from_secs(election.settings.lease_seconds);
        let patience = LEASE_SILENCE.max(lease * LEASE_SILENCE_LEASES);
        let election = Arc::clone(election);
        self.heartbeats.watch_by("lease", patience, move || Some(election.cluster.silence()));
    }

    /// Returns the figures of the peer.
    pub(super) fn metrics(
        &self,
        member: &Arc<Member>,
        (host, lister): (Arc<Host>, Lister),
        (target, source): (&Arc<TargetService>, &Arc<SourceService>),
    ) -> Arc<Metrics> {
        let site = &member.parts.site;
        let own = site.identity.peer().clone();
        let places = move || [("call", host.calls()), ("list", lister.places())];
        let mut parts = vec![
            transfers::part(Arc::clone(member)),
            data_plane::part(own, Arc::clone(target), Arc::clone(source)),
            stores::part(Arc::clone(&self.looks)),
            site_figures::site_part(Arc::clone(member), self.web.clone(), places),
            site_figures::access_part(Arc::clone(site), Arc::clone(&self.audit), self.web.clone()),
        ];
        parts.extend(host::parts(self.runtimes.clone(), Arc::clone(&self.heartbeats)));
        Metrics::new(parts)
    }
}
