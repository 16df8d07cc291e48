//! Puts a daemon together: the data plane, the controller, and all that leads to them. No other
//! module of the daemon names both the peer crate and the controller.

mod account_socket;
pub(crate) mod data_plane;
mod service_manager;
mod watched;
mod web_api;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use axum::Router;
use axum::middleware::from_fn_with_state;
use penstock_api::fence::Fence;
use penstock_api::rest::SOCKET_NAME;
use penstock_cluster::state::{SqliteState, StateError};

use account_socket::AccountSocket;
use penstock_net::trust::{PeerCertificate, Purpose, server_config};
use penstock_peer::{SourceService, TargetService};
use penstock_proto::id::PeerId;
use service_manager::{ServiceManager, Sight};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use watched::Watched;

use crate::access::audit_log::AuditLog;
use crate::access::keys::OwnKeys;
use crate::access::login::Logins;
use crate::access::signing::SiteSigner;
use crate::access::users::Users;
use crate::access::{renewal, rights, rotation};
use crate::cluster::controller::ControllerParts;
use crate::cluster::election::Election;
use crate::cluster::leadership::{Leadership, Sole};
use crate::cluster::listing::Lister;
use crate::cluster::member::{Member, STOP_DEADLINE};
use crate::config::{Config, KeepDays};
use crate::events::log::{EventLog, now_ms};
use crate::http::client::record;
use crate::http::local::LocalApi;
use crate::http::port::Port;
use crate::http::router::ClusterRouter;
use crate::http::socket::accounts::AccountService;
use crate::http::socket::{self, LocalUsers};
use crate::operations::audit::AuditTrail;
use crate::operations::benchmarks::Benchmarks;
use crate::operations::stores::StoreBrowser;
use crate::operations::{Operate, OperateParts};
use crate::peer_client::client::PeerClient;
use crate::peer_server::Host;
use crate::settings::{Layers, Loaded};
use crate::site::addresses;
use crate::site::admin::Admin;
use crate::site::client::Sites;
use crate::site::context::Site;
use crate::site::settings::{Settings, Stage};
use crate::site_directory::TRUST_DIRECTORY;
use crate::webhooks::Webhooks;
use penstock_exit::{self as exit, ExitCode, Failure};

/// Threads of the local API, and how many of its requests may block at a time.
pub(super) const LOCAL_THREADS: usize = 1;
const LOCAL_BLOCKING_THREADS: usize = 64;
/// Interval at which old files of the audit log are removed.
const AUDIT_LOOK: Duration = Duration::from_secs(3600);
/// The longest wait, at the end, for the answers under way.
const LINGER: Duration = Duration::from_millis(400);

fn bind(config: &Config) -> anyhow::Result<TcpListener> {
    let listen = config.listen;
    let listener = penstock_net::listen(listen, None).map_err(|error| error.source);
    listener.and_then(TcpListener::from_std).map_err(|error| {
        let message = format!("cannot listen on {listen}");
        let failure = Failure::new(ExitCode::Fatal, message);
        let taken = error.kind() == std::io::ErrorKind::AddrInUse;
        let failure = failure.caused_by(error);
        if taken {
            let hint = "another program has the port (`ss -ltnp`); set another `listen` address";
            failure.hint(hint).into()
        } else {
            failure.into()
        }
    })
}

/// Returns the socket of the local API, and the threads that serve it: their own, which requests of
/// other sites cannot take. The lock is held, so a socket that is there is a dead one.
fn bind_socket(directory: &Path) -> anyhow::Result<(&'static Runtime, UnixListener)> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .on_thread_start(penstock_sys::leave_inherited_account)
        .thread_name("local")
        .worker_threads(LOCAL_THREADS)
        .max_blocking_threads(LOCAL_BLOCKING_THREADS)
        .enable_all()
        .build()
        .context("cannot start the threads of the local API")?;
    // The runtime ends with the process, as the other one does.
    let runtime: &'static Runtime = Box::leak(Box::new(runtime));
    let _inside = runtime.enter();
    let path = directory.join(SOCKET_NAME);
    let failed = |error| Failure::io(format!("make the socket `{}`", path.display()), error);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(failed(error).into());
        }
        _ => {}
    }
    let listener = UnixListener::bind(&path).map_err(failed)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok((runtime, listener))
}

fn load_keys(config: &Config, directory: &Path) -> anyhow::Result<(OwnKeys, PeerCertificate)> {
    let trust = directory.join(TRUST_DIRECTORY);
    let unusable = || Failure::new(ExitCode::Fatal, "the site's keys cannot be used");
    let keys = OwnKeys::load(&trust).map_err(|error| unusable().caused_by(format!("{error:#}")))?;
    let authority = &keys.authority;
    let named = PeerId { site: config.site.clone(), peer: config.peer.clone() };
    let identity = renewal::load(authority, &named, &trust);
    let identity = identity.map_err(|error| unusable().caused_by(error))?;
    let peer = identity.peer();
    if *authority.site() != config.site || peer.site != config.site || peer.peer != config.peer {
        let message = format!(
            "the certificate is of `{peer}`, the configuration of `{}/{}`",
            config.site, config.peer
        );
        return Err(Failure::new(ExitCode::Fatal, message).into());
    }
    match renewal::renew(&identity, authority, &trust, SystemTime::now()) {
        Ok(false) => {}
        Ok(true) => tracing::info!("this peer's certificate was renewed"),
        Err(error) => tracing::error!(%error, "this peer's certificate cannot be renewed"),
    }
    Ok((keys, identity))
}

/// Returns the failure for a state that cannot be opened.
fn unusable(error: StateError) -> Failure {
    let is_later = matches!(error, StateError::Version { .. });
    let failure = Failure::new(ExitCode::Fatal, "the site's state cannot be used").caused_by(error);
    match is_later {
        true => failure.hint(
            "install the release that wrote it, or restore a backup of the site directory from \
             before the upgrade",
        ),
        false => failure,
    }
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// The daemon cannot start, or one of its APIs fails.
pub(super) async fn serve(loaded: Loaded, layers: Layers) -> anyhow::Result<ExitCode> {
    let (config, directory) = (loaded.config.clone(), layers.directory().to_owned());
    let (keys, identity) = load_keys(&config, &directory)?;
    let state = SqliteState::open(&directory.join("state.db")).map_err(unusable)?;
    let state = Arc::new(state);
    let listener = bind(&config)?;
    let bound = listener.local_addr().context("cannot determine the own address")?;
    let known = Arc::clone(&state) as _;
    let settings = Settings::new(loaded, layers);
    let site = Arc::new(Site::new(settings, directory.clone(), keys, identity, known, bound)?);
    rotation::resume(&site)?;
    let shared = site.config.cluster.as_ref().map(|cluster| cluster.journal.clone());
    let journal = shared.unwrap_or_else(|| directory.clone());
    let parts = data_plane::peer(&site, &journal)?;
    let events = EventLog::open(&directory, &site.config.peer);
    events.watch_paths(&parts.lanes_target);
    let runtime = tokio::runtime::Handle::current();
    let sites = Arc::new(Sites::new(Arc::clone(&site), runtime.clone()));
    let controller_parts = ControllerParts {
        site: Arc::clone(&site),
        sites: Arc::clone(&sites),
        source: parts.source,
        target: parts.target,
        events: Arc::clone(&events),
        webhooks: Webhooks::new(Arc::clone(&site), Arc::clone(&events))?,
        signer: Arc::new(SiteSigner::new(&site)?),
        journal: journal.join("journal"),
    };
    let mut signals = Signals::watch()?;
    let (own_users, socket) = bind_socket(&directory)?;
    let web = web_api::runtime()?;
    let watched = Watched::new(&site, &[("local", own_users), ("web", web)])?;
    let tls = |purpose| server_config(purpose, &site.identity, &site.trust, &site.suites);
    let port_tls = (tls(Purpose::SiteApi)?, tls(Purpose::Lane)?);
    let (stop, stopped) = watch::channel(false);
    let told = Arc::clone(&sites);
    events.watch_stores(Arc::clone(&site), stopped.clone());
    let lanes = (Arc::clone(&parts.lanes_source), Arc::clone(&parts.lanes_target));
    watch_doors(&site, lanes, &stopped);
    watch_keys(&site, &sites, &stopped);
    let operate = OperateParts {
        site: Arc::clone(&site),
        sites,
        target: parts.lanes_target,
        source: parts.lanes_source,
        events,
        runtime,
    };
    let faces = Faces::open(controller_parts, state, parts.set_fence, operate, &watched, &stopped)?;
    let port = Port::new(port_tls, (faces.site, parts.lane), &site, watched.accepts("port"));
    let doors = ((own_users, socket), web);
    let (mut local, accounts) = serve_users(&site, (faces.local, &watched), doors, &stopped)?;
    addresses::start(&site, told, &port, &stopped);
    watched.watch_stores(&site, &stopped);
    tokio::spawn(port.serve(listener, stopped.clone()));
    let (name, peer) = (&site.config.site, &site.config.peer);
    let status = format!("site {name} peer {peer} listening on {bound}");
    follow_reloads(&site, &faces.member);
    let service_manager = report_ready(&site, &status, &faces.member, (&watched, stopped));
    let ended = match exit::print(&format!("ready: {status}")) {
        Ok(()) => signals.wait(&site, &mut local).await,
        Err(error) => Err(error.into()),
    };
    service_manager.stopping();
    let left = end(faces.leave, stop, (local, accounts)).await;
    let _ = fs::remove_file(directory.join(SOCKET_NAME));
    ended.and(left).map(|()| ExitCode::Done)
}

/// Serves the API to users: on the Unix socket of the site directory, and, while these are
/// configured, over HTTPS and on the socket for accounts.
fn serve_users(
    site: &Arc<Site>,
    (router, watched): (Router, &Watched),
    ((runtime, socket), web): ((&'static Runtime, UnixListener), &'static Runtime),
    stopped: &watch::Receiver<bool>,
) -> anyhow::Result<(JoinHandle<std::io::Result<()>>, Arc<AccountSocket>)> {
    let keep = site.config.audit.as_ref().map(|audit| audit.keep).unwrap_or_default();
    tokio::spawn(expire_audit(Arc::clone(&watched.audit), keep, stopped.clone()));
    web_api::start(site, (web, watched), &router, stopped)?;
    let users = LocalUsers::of_process();
    let audit = || Arc::clone(&watched.audit);
    let service = AccountService::new(router.clone(), site, users.clone(), audit());
    let accounts = AccountSocket::start(site, service, (web, watched))?;
    let router = router.layer(from_fn_with_state(audit(), record));
    let (mut stopped, heartbeat) = (stopped.clone(), watched.accepts("socket"));
    let local = socket::serve((socket, heartbeat), router, users, async move {
        // Either the stop was ordered, or the daemon is gone.
        let _ = stopped.changed().await;
    });
    Ok((runtime.spawn(local), accounts))
}

/// Removes old files of the audit log, now and every hour, until `stopped` is true.
async fn expire_audit(log: Arc<AuditLog>, keep: KeepDays, mut stopped: watch::Receiver<bool>) {
    let mut look = tokio::time::interval(AUDIT_LOOK);
    loop {
        tokio::select! {
            _ = look.tick() => {}
            _ = stopped.changed() => return,
        }
        let log = Arc::clone(&log);
        let before = now_ms().saturating_sub(keep.ms());
        match tokio::task::spawn_blocking(move || log.remove_before(before)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "old files of the audit log stay"),
            Err(error) => tracing::error!(%error, "old files of the audit log stay"),
        }
    }
}

/// Exports the stores of each new configuration, judges sessions by its limits, and has the
/// controller, while it is this peer, take its own. The other peers of the site learn the stores.
fn follow_reloads(site: &Site, member: &Arc<Member>) {
    let (exports, member) = (site.exports.clone(), Arc::clone(member));
    let authentication = Arc::clone(&site.authentication);
    site.settings.on_reload(Box::new(move |config| {
        exports.take(config);
        member.note_stores_changed();
        authentication.set_session_limits(config.auth.session_limits());
        if let Some(controller) = member.controller() {
            controller.manager.set_running_max(config.running_max);
        }
        Ok(())
    }));
}

/// Reports to the service manager that the daemon serves, and from now on that it lives and
/// how, and reloads.
fn report_ready(
    site: &Site,
    status: &str,
    member: &Arc<Member>,
    (watched, stopped): (&Watched, watch::Receiver<bool>),
) -> ServiceManager {
    let service_manager = ServiceManager::of_environment();
    service_manager.ready(status);
    let (told, name, its) = (service_manager.clone(), status.to_owned(), Arc::clone(member));
    site.settings.observe(Box::new(move |stage| match stage {
        Stage::Begins => told.reloading(),
        Stage::Ended => told.ready(&status_of(&its, &name)),
    }));
    let (member, heartbeats) = (Arc::clone(member), Arc::clone(&watched.heartbeats));
    let status = status.to_owned();
    let look = move || Sight { late: heartbeats.late(), status: status_of(&member, &status) };
    tokio::spawn(service_manager.clone().report(look, stopped));
    service_manager
}

/// Returns the state of this peer in one line, which begins with `name`.
fn status_of(member: &Member, name: &str) -> String {
    let now = member.now();
    let own = &member.parts.site.config.peer;
    let part = match (member.controller(), &now.leader) {
        (Some(controller), _) => {
            let (running, queued) = controller.manager.counts();
            format!("controller; {running} transfers run, {queued} wait")
        }
        (None, Some((leader, _))) => format!("`{}` is the controller", leader.peer),
        (None, None) => "no controller".to_owned(),
    };
    let drains = if now.is_draining(own) { "; draining" } else { "" };
    let trouble = if now.trouble.is_empty() { "" } else { "; " };
    format!("{name}; {part}{drains}{trouble}{}", now.trouble)
}

/// Renews this peer's certificate, and exchanges keys with paired sites, until `stopped` is true.
fn watch_keys(site: &Arc<Site>, sites: &Arc<Sites>, stopped: &watch::Receiver<bool>) {
    tokio::spawn(renewal::watch(Arc::clone(site), stopped.clone()));
    tokio::spawn(rotation::watch(Arc::clone(site), Arc::clone(sites), stopped.clone()));
}

/// Ends lanes with their rights, and counts refusals, until `stopped` is true.
fn watch_doors(
    site: &Arc<Site>,
    lanes: (Arc<SourceService>, Arc<TargetService>),
    stopped: &watch::Receiver<bool>,
) {
    tokio::spawn(rights::watch(Arc::clone(site), lanes, stopped.clone()));
    tokio::spawn(Arc::clone(&site.admission).report(stopped.clone()));
}

/// Ends all running work, for any reason of the daemon's end.
async fn end(
    leave: Box<dyn FnOnce(Duration) -> bool + Send>,
    stop: watch::Sender<bool>,
    (local, accounts): (JoinHandle<std::io::Result<()>>, Arc<AccountSocket>),
) -> anyhow::Result<()> {
    let in_time = tokio::task::spawn_blocking(move || leave(STOP_DEADLINE)).await?;
    if !in_time {
        tracing::warn!(
            "transfers are still running; they resume from their ledgers at the next \
                        start"
        );
    }
    let _ = stop.send(true);
    accounts.close();
    let served = async {
        // Each connection of another site or peer holds a receiver.
        stop.closed().await;
        if !local.is_finished() {
            let _ = local.await;
        }
    };
    // A client that watches a transfer never closes its connection by itself.
    let _ = tokio::time::timeout(LINGER, served).await;
    Ok(())
}

/// The interfaces of the daemon to users, sites and peers.
struct Faces {
    member: Arc<Member>,
    local: Router,
    site: Router,
    /// Ends the work within a time; whether all has ended.
    leave: Box<dyn FnOnce(Duration) -> bool + Send>,
}

impl Faces {
    fn open(
        controller_parts: ControllerParts,
        state: Arc<SqliteState>,
        set_fence: Arc<dyn Fn(Fence) + Send + Sync>,
        operate: OperateParts,
        watched: &Watched,
        stopped: &watch::Receiver<bool>,
    ) -> anyhow::Result<Self> {
        let site = Arc::clone(&controller_parts.site);
        let client = PeerClient::new(&site)?;
        let leadership = match site.config.cluster.clone() {
            None => Leadership::Sole(Sole::new(&site, state)?),
            Some(settings) => {
                let joined = Election::join(&controller_parts, settings, state, client.clone());
                Leadership::Elected(joined?)
            }
        };
        let (target, service) = (Arc::clone(&operate.target), Arc::clone(&operate.source));
        let served = Arc::clone(&service);
        let member = Arc::new(Member::new(controller_parts, leadership, set_fence, served));
        let host = Host::new((target, Arc::clone(&service)), client.clone(), member.watch());
        let admin = Arc::new(Admin {
            site,
            sites: Arc::clone(&operate.sites),
            runtime: operate.runtime.clone(),
            member: Arc::clone(&member),
        });
        let operate = Arc::new(Operate::new(operate, Arc::clone(&member))?);
        let users = Arc::new(Users::new(Arc::clone(&member.parts.site)));
        let lister = Lister::new(Arc::clone(&service));
        let calls = (Arc::clone(&host), lister.clone());
        let metrics = watched.metrics(&member, calls, (&operate.target, &operate.source));
        let api = LocalApi {
            webhooks: Arc::clone(&member.parts.webhooks),
            member: Arc::clone(&member),
            admin,
            operate: Arc::clone(&operate),
            logins: Arc::new(Logins::new(&member.parts.site, &users)?),
            users,
            stores: Arc::new(StoreBrowser::new(Arc::clone(&operate))),
            benchmarks: Arc::new(Benchmarks::new(Arc::clone(&operate))),
            audit: AuditTrail(Arc::clone(&operate)),
            statistics: watched.statistics(&operate),
            metrics,
        };
        let benchmarks = Arc::clone(&api.benchmarks);
        let router = ClusterRouter::new(api, client, Arc::clone(&host), lister);
        let (local, site) = (router.local()?, router.site()?);
        member.begin()?;
        watched.watch_threads(&member);
        watched.record(&operate, stopped)?;
        if let Some(election) = member.election() {
            service.share_with(router.allies());
            tokio::spawn(operate.watch_staged(stopped.clone()));
            tokio::spawn(Arc::clone(&member).follow(stopped.clone()));
            if !election.settings.witness {
                let beats = watched.leads();
                tokio::spawn(Arc::clone(election).beat(beats, stopped.clone()));
            }
            tokio::spawn(Arc::clone(election).watch_etcd(stopped.clone()));
        }
        let (leaving, recorder) = (Arc::clone(&member), Arc::clone(&watched.recorder));
        let leave = Box::new(move |deadline| {
            let has_left = leave((&leaving, &benchmarks), &host, deadline);
            recorder.flush();
            has_left
        });
        Ok(Self { member, local, site, leave })
    }
}

/// Ends this peer's work for its site and for controllers on other hosts, side by side; returns
/// whether all has ended in time. Blocks.
fn leave(
    (member, benchmarks): (&Member, &Arc<Benchmarks>),
    host: &Arc<Host>,
    deadline: Duration,
) -> bool {
    // While the site still keeps its result.
    benchmarks.shut_down(deadline / 3);
    let leaving = Arc::clone(host);
    let ending = std::thread::Builder::new().spawn(move || leaving.leave(deadline));
    let left = member.leave(deadline);
    match ending {
        Ok(ending) => left && ending.join().is_ok(),
        // Without a thread of its own the host leaves last.
        Err(_) => {
            host.leave(deadline);
            left
        }
    }
}

/// The signals that end a daemon, watched from before it reports that it is ready.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn watch() -> anyhow::Result<Self> {
        let terminate = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
        let interrupt = signal(SignalKind::interrupt()).context("cannot watch for SIGINT")?;
        let hang_up = signal(SignalKind::hangup()).context("cannot watch for SIGHUP")?;
        Ok(Self { terminate, interrupt, hang_up })
    }

    /// Waits for one that ends the daemon, or for the local API to fail. At SIGHUP reloads the
    /// configuration.
    async fn wait(
        &mut self,
        site: &Arc<Site>,
        local: &mut JoinHandle<std::io::Result<()>>,
    ) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => tracing::info!("SIGTERM: ending"),
                _ = self.interrupt.recv() => tracing::info!("SIGINT: ending"),
                _ = self.hang_up.recv() => {
                    tracing::info!("SIGHUP: reloading the configuration");
                    let site = Arc::clone(site);
                    // Not awaited: a file system that hangs must not keep the daemon from ending.
                    tokio::task::spawn_blocking(move || site.settings.reload());
                    continue;
                }
                ended = &mut *local => {
                    ended.context("the local API failed")?.context("the local API failed")?;
                }
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests;
