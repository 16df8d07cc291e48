//! Serves the HTTPS API at the addresses of the configuration in force, and keeps its certificate
//! current.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use penstock_exit::{ExitCode, Failure};
use penstock_net::trust::{TrustError, WebCertificate, WebName};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::config::{Config, WebConfig};
use crate::http::client::{authenticate, identify, record};
use crate::http::origin::{Door, SharedDoor, admit};
use crate::http::web::{WebListener, WebPage, serve_page};
use crate::metrics::heartbeat::Heartbeat;
use crate::metrics::site::WebFigures;
use crate::site::context::Site;

use super::watched::Watched;

/// Interval at which the operator's certificate is looked at, and the site's own is issued again.
const LOOK: Duration = Duration::from_secs(60);
const ISSUE: Duration = Duration::from_secs(30 * 24 * 3600);

/// Longest wait until an address is free that is no longer listened at.
const CLOSE_MAX: Duration = Duration::from_secs(5);
/// Requests that may block at a time.
const WEB_BLOCKING_THREADS: usize = 64;

/// The HTTPS API.
struct WebApi {
    site: Arc<Site>,
    router: Router,
    /// The names that are served, and the proxies before them.
    door: SharedDoor,
    /// Threads of its own, so that users on other hosts delay neither sites nor this host's users.
    runtime: &'static Runtime,
    /// Its certificate and its places for connections.
    figures: WebFigures,
    /// The heartbeat of all listeners: each waits for nothing but connections.
    heartbeat: Heartbeat,
    is_open: Arc<AtomicBool>,
    served: Mutex<Served>,
}

#[derive(Default)]
struct Served {
    certificate: Option<Certificate>,
    /// The parts that all addresses share: the certificate, the router, the places for connections.
    listener: Option<WebListener>,
    /// The listeners, by their addresses in the configuration.
    open: BTreeMap<SocketAddr, Open>,
}

/// A listener that is open.
struct Open {
    /// The address that is bound.
    bound: SocketAddr,
    /// Ends the listener and its connections, which first answer the requests under way.
    stop: watch::Sender<bool>,
    /// Gets a message when the address is free again.
    ended: Receiver<()>,
}

/// The certificate that is shown, and its basis.
struct Certificate {
    shown: WebCertificate,
    made_of: Basis,
    issued: Instant,
}

/// The basis of a certificate: another basis needs another certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Basis {
    /// Files of the operator, and their times of modification.
    Files([(PathBuf, Option<SystemTime>); 2]),
    /// The site's authority, by its fingerprint, and the names.
    Authority(String, Vec<WebName>),
}

/// Starts the threads of the HTTPS API: a reload may begin to serve it. The threads are its own, so
/// that users on other hosts delay neither sites nor this host's users.
///
/// # Errors
/// The threads cannot be started.
pub(super) fn runtime() -> anyhow::Result<&'static Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .on_thread_start(penstock_sys::leave_inherited_account)
        .thread_name("web")
        .worker_threads(1)
        .max_blocking_threads(WEB_BLOCKING_THREADS)
        .enable_all()
        .build()
        .context("cannot start the threads of the HTTPS API")?;
    // The runtime ends with the process, as the others do.
    Ok(Box::leak(Box::new(runtime)))
}

/// Serves the API and the web page over HTTPS on the threads of `runtime`, if the configuration has
/// the table `web`, and follows reloads.
///
/// # Errors
/// An address is taken, or the certificate cannot be read.
pub(super) fn start(
    site: &Arc<Site>,
    (runtime, watched): (&'static Runtime, &Watched),
    router: &Router,
    stopped: &watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let door = SharedDoor::default();
    let page = Arc::new(WebPage::new()?);
    let router = router
        .clone()
        .layer(from_fn_with_state(Arc::clone(site), authenticate))
        .layer(from_fn_with_state(Arc::clone(&watched.audit), record))
        .layer(from_fn_with_state(page, serve_page))
        .layer(from_fn_with_state(Arc::clone(&door), admit))
        .layer(from_fn(identify));
    let is_open = Arc::new(AtomicBool::default());
    let api = Arc::new(WebApi {
        site: Arc::clone(site),
        router,
        door,
        runtime,
        figures: watched.web.clone(),
        heartbeat: watched.accepts_while("web", Arc::clone(&is_open)),
        is_open,
        served: Mutex::default(),
    });
    api.apply(&site.settings.now())?;
    let follower = Arc::clone(&api);
    site.settings.on_reload(Box::new(move |config| follower.apply(config)));
    tokio::spawn(api.keep_current(stopped.clone()));
    Ok(())
}

impl WebApi {
    fn served(&self) -> MutexGuard<'_, Served> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens at the addresses of a configuration, and at no others, with its certificate. Blocks
    /// on storage, and until addresses that are no longer listed are free.
    ///
    /// # Errors
    /// An address is taken, or the certificate cannot be made; other addresses are served.
    fn apply(&self, config: &Config) -> anyhow::Result<()> {
        let mut served = self.served();
        let wanted = config.web.as_ref().map_or(&[][..], |web| &web.listen);
        served.close_others(wanted);
        let outcome = match &config.web {
            Some(web) => self.open(&mut served, config, web),
            None => Ok(()),
        };
        self.is_open.store(!served.open.is_empty(), Ordering::Release);
        let bound = wanted.iter().find_map(|address| served.open.get(address));
        let url = config.web.as_ref().zip(bound);
        let url = url.map(|(web, open)| web.url(open.bound.port(), &config.advertise));
        self.site.set_web_url(url);
        outcome
    }

    /// Listens at those addresses at which it does not yet.
    fn open(&self, served: &mut Served, config: &Config, web: &WebConfig) -> anyhow::Result<()> {
        let certificate = self.refresh(served, config, web).map_err(unusable)?;
        let mut failed = None;
        for address in &web.listen {
            if served.open.contains_key(address) {
                continue;
            }
            let listener = match &served.listener {
                Some(listener) => listener.clone(),
                None => {
                    let tls = certificate.server_config().map_err(unusable)?;
                    let admission = Arc::clone(&self.site.admission);
                    let places = Arc::clone(&self.figures.places);
                    let listener = WebListener::new(tls, self.router.clone(), admission, places);
                    served.listener.insert(listener).clone()
                }
            };
            match self.listen(listener, *address) {
                Ok(open) => {
                    tracing::info!(address = %open.bound, "the API is served over HTTPS");
                    served.open.insert(*address, open);
                }
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Returns the certificate that is shown, renewed if it is due, and serves its names from now
    /// on.
    ///
    /// # Errors
    /// As [`WebApi::certificate`].
    fn refresh(
        &self,
        served: &mut Served,
        config: &Config,
        web: &WebConfig,
    ) -> Result<WebCertificate, TrustError> {
        let shown = self.certificate(served, config, web)?;
        // The first one becomes like each later one.
        let _ = self.figures.certificate.set(shown.clone());
        let door = Door::new(hosts_of(&shown, web), &web.trusted_proxies);
        *self.door.write().unwrap_or_else(PoisonError::into_inner) = door;
        Ok(shown)
    }

    /// Returns the certificate that is shown. Another one is made first, if its basis has changed
    /// or the site's own is a month old.
    ///
    /// # Errors
    /// The certificate cannot be made. The old one stays while it is valid: an operator may replace
    /// key and certificate one by one.
    fn certificate(
        &self,
        served: &mut Served,
        config: &Config,
        web: &WebConfig,
    ) -> Result<WebCertificate, TrustError> {
        let made_of = self.basis(config, web);
        let is_own = matches!(made_of, Basis::Authority(..));
        if let Some(now) = &served.certificate
            && now.made_of == made_of
            && !(is_own && now.issued.elapsed() > ISSUE)
        {
            return Ok(now.shown.clone());
        }
        let next = match &made_of {
            Basis::Files([(certificate, _), (key, _)]) => WebCertificate::read(certificate, key)?,
            Basis::Authority(_, names) => {
                WebCertificate::issue(&self.site.keys().authority, names)?
            }
        };
        let shown = match served.certificate.take() {
            Some(now) => {
                now.shown.become_like(&next);
                tracing::info!("the HTTPS API shows another certificate");
                now.shown
            }
            None => next,
        };
        let issued = Instant::now();
        served.certificate = Some(Certificate { shown: shown.clone(), made_of, issued });
        Ok(shown)
    }

    fn basis(&self, config: &Config, web: &WebConfig) -> Basis {
        match web.own_files(&self.site.directory) {
            Some((certificate, key)) => {
                let dated = |path: PathBuf| {
                    let time = std::fs::metadata(&path).and_then(|file| file.modified()).ok();
                    (path, time)
                };
                Basis::Files([dated(certificate), dated(key)])
            }
            None => {
                let authority = self.site.keys().authority.fingerprint().to_string();
                Basis::Authority(authority, names_of(config, web))
            }
        }
    }

    /// Listens at an address.
    fn listen(&self, web: WebListener, address: SocketAddr) -> anyhow::Result<Open> {
        let failed = |error: std::io::Error| {
            let message = format!("cannot serve the HTTPS API on {address}");
            Failure::new(ExitCode::Fatal, message)
                .caused_by(error)
                .hint("set another address at `listen` in the table `web`")
        };
        let _inside = self.runtime.enter();
        let socket = std::net::TcpListener::bind(address).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let bound = socket.local_addr().map_err(failed)?;
        let socket = TcpListener::from_std(socket).map_err(failed)?;
        let (stop, stopped) = watch::channel(false);
        let (ends, ended) = std::sync::mpsc::channel();
        let heartbeat = self.heartbeat.clone();
        heartbeat.beat();
        self.runtime.spawn(async move {
            web.serve(socket, heartbeat, stopped).await;
            // Without a receiver the daemon ends.
            let _ = ends.send(());
        });
        Ok(Open { bound, stop, ended })
    }

    /// Shows another certificate when the operator's files or the site's keys have changed, or the
    /// own one is a month old, until `stopped` changes. Then ends all listeners.
    async fn keep_current(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        let mut look = tokio::time::interval(LOOK);
        let mut keys = self.site.trust_news();
        loop {
            tokio::select! {
                _ = stopped.changed() => break,
                _ = look.tick() => {}
                _ = keys.changed() => {}
            }
            let api = Arc::clone(&self);
            let refreshed = tokio::task::spawn_blocking(move || {
                let config = api.site.settings.now();
                let web = config.web.as_ref();
                web.map(|web| api.refresh(&mut api.served(), &config, web).map(drop)).transpose()
            });
            match refreshed.await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::error!(%error, "the new certificate cannot be used"),
                Err(error) => tracing::error!(%error, "the certificate cannot be checked"),
            }
        }
        let open = std::mem::take(&mut self.served().open);
        for listener in open.values() {
            let _ = listener.stop.send(true);
        }
        // Its receiver is held for as long, so that the daemon waits for their connections.
        for listener in open.into_values() {
            listener.stop.closed().await;
        }
    }
}

impl Served {
    /// Ends the listeners at all other addresses, and waits until these are free.
    fn close_others(&mut self, wanted: &[SocketAddr]) {
        let (stay, go): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.open).into_iter().partition(|(at, _)| wanted.contains(at));
        self.open = stay;
        for (address, listener) in go {
            let _ = listener.stop.send(true);
            if listener.ended.recv_timeout(CLOSE_MAX).is_err() {
                tracing::warn!(%address, "the address of the HTTPS API is not free yet");
            }
            tracing::info!(%address, "the API is no longer served over HTTPS there");
        }
    }
}

fn unusable(error: TrustError) -> Failure {
    Failure::new(ExitCode::Fatal, "the certificate of the HTTPS API cannot be used")
        .caused_by(error)
        .hint("check `certificate`, `key` and `names` in the table `web`")
}

/// Returns the DNS names by which users may reach the API: those of the configuration, and those of
/// the certificate.
fn hosts_of(certificate: &WebCertificate, config: &WebConfig) -> Vec<String> {
    let mut hosts = certificate.host_names();
    hosts.extend(config.names.iter().cloned());
    hosts
}

/// Returns the names that the certificate of the site's authority is for.
fn names_of(config: &Config, web: &WebConfig) -> Vec<WebName> {
    let mut names: Vec<_> = web.names.iter().map(|name| WebName::of(name)).collect();
    if names.is_empty() {
        names.push(WebName::Host("localhost".to_owned()));
        let addresses = web.listen.iter().chain(&config.advertise).map(|at| at.ip());
        names.extend(addresses.filter(|ip| !ip.is_unspecified()).map(WebName::Address));
        names.push(WebName::of("127.0.0.1"));
    }
    names.sort();
    names.dedup();
    names
}
