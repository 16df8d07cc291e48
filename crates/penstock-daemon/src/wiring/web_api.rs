//! Starts the HTTPS API, and keeps its certificate current.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use penstock_exit::{ExitCode, Failure};
use penstock_net::trust::{TrustError, WebCertificate, WebName};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::config::WebConfig;
use crate::http::client::{authenticate, identify, record};
use crate::http::origin::{Door, admit};
use crate::http::web::WebListener;
use crate::site::context::Site;

use super::watched::Watched;

/// Interval at which the operator's certificate is looked at, and the site's own is issued anew.
const LOOK: Duration = Duration::from_secs(60);
const ISSUE: Duration = Duration::from_secs(30 * 24 * 3600);

/// Requests that may block at a time.
const WEB_BLOCKING_THREADS: usize = 64;

/// Starts the threads of the HTTPS API, if the site's configuration has the table `web`. They are
/// its own, so that users on other hosts hold up neither sites nor this host's users.
///
/// # Errors
/// The threads cannot be started.
pub(super) fn runtime(site: &Site) -> anyhow::Result<Option<&'static Runtime>> {
    if site.config.web.is_none() {
        return Ok(None);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .on_thread_start(penstock_sys::leave_inherited_account)
        .thread_name("web")
        .worker_threads(1)
        .max_blocking_threads(WEB_BLOCKING_THREADS)
        .enable_all()
        .build()
        .context("cannot start the threads of the HTTPS API")?;
    // It ends with the process, as the others do.
    Ok(Some(Box::leak(Box::new(runtime))))
}

/// Serves the API over HTTPS on the threads of `runtime`, if the site's configuration has the table
/// `web`. Returns the addresses that it listens on.
///
/// # Errors
/// An address is taken, or the certificate cannot be read.
pub(super) fn start(
    site: &Arc<Site>,
    (runtime, watched): (Option<&'static Runtime>, &Watched),
    router: &Router,
    stopped: &watch::Receiver<bool>,
) -> anyhow::Result<Vec<std::net::SocketAddr>> {
    let Some((config, runtime)) = site.config.web.as_ref().zip(runtime) else {
        return Ok(Vec::new());
    };
    let certificate = certificate_of(site, config).map_err(unusable)?;
    let tls = certificate.server_config().map_err(unusable)?;
    let door = Door::new(hosts_of(&certificate, config), &config.trusted_proxies);
    // Nobody else has set it.
    let _ = watched.web.certificate.set(certificate.clone());
    let router = router
        .clone()
        .layer(from_fn_with_state(Arc::clone(site), authenticate))
        .layer(from_fn_with_state(Arc::clone(&watched.audit), record))
        .layer(from_fn_with_state(door, admit))
        .layer(from_fn(identify));
    let (admission, places) = (Arc::clone(&site.admission), Arc::clone(&watched.web.places));
    let listener = WebListener::new(tls, router, admission, places);
    let heartbeat = watched.accepts("web");
    let _inside = runtime.enter();
    let mut bound = Vec::new();
    for address in &config.listen {
        let failed = |error: std::io::Error| {
            let message = format!("cannot serve the HTTPS API on {address}");
            Failure::new(ExitCode::Fatal, message)
                .caused_by(error)
                .hint("set another address at `listen` in the table `web`")
        };
        let socket = std::net::TcpListener::bind(address).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        bound.push(socket.local_addr().map_err(failed)?);
        let socket = TcpListener::from_std(socket).map_err(failed)?;
        runtime.spawn(listener.clone().serve(socket, heartbeat.clone(), stopped.clone()));
    }
    if let Some(first) = bound.first() {
        let url = config.url(first.port(), &site.config.advertise);
        // It is served once.
        let _ = site.web_url.set(url);
    }
    tokio::spawn(keep_current(Arc::clone(site), config.clone(), certificate, stopped.clone()));
    Ok(bound)
}

fn unusable(error: TrustError) -> Failure {
    Failure::new(ExitCode::Fatal, "the certificate of the HTTPS API cannot be used")
        .caused_by(error)
        .hint("check `certificate`, `key` and `names` in the table `web`")
}

/// Returns the operator's own certificate, or one of the site's authority.
fn certificate_of(site: &Site, config: &WebConfig) -> Result<WebCertificate, TrustError> {
    match config.own_files(&site.directory) {
        Some((certificate, key)) => WebCertificate::read(&certificate, &key),
        None => WebCertificate::issue(&site.keys().authority, &names_of(site, config)),
    }
}

/// Returns the DNS names by which users may reach the API: those of the configuration, and those of
/// the certificate.
fn hosts_of(certificate: &WebCertificate, config: &WebConfig) -> Vec<String> {
    let mut hosts = certificate.host_names();
    hosts.extend(config.names.iter().cloned());
    hosts
}

/// Returns the names that the certificate of the site's authority is for.
fn names_of(site: &Site, config: &WebConfig) -> Vec<WebName> {
    let mut names: Vec<_> = config.names.iter().map(|name| WebName::of(name)).collect();
    if names.is_empty() {
        names.push(WebName::Host("localhost".to_owned()));
        let addresses = config.listen.iter().chain(&site.config.advertise).map(|at| at.ip());
        names.extend(addresses.filter(|ip| !ip.is_unspecified()).map(WebName::Address));
        names.push(WebName::of("127.0.0.1"));
    }
    names.sort();
    names.dedup();
    names
}

/// Shows another certificate when the operator's files have changed, or the own one is a month old.
async fn keep_current(
    site: Arc<Site>,
    config: WebConfig,
    certificate: WebCertificate,
    mut stopped: watch::Receiver<bool>,
) {
    let files = config.own_files(&site.directory);
    let mut seen = files.as_ref().map(changed_at);
    let mut issued = tokio::time::Instant::now();
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            _ = stopped.changed() => return,
            _ = look.tick() => {}
        }
        let now = files.as_ref().map(changed_at);
        if now == seen && (files.is_some() || issued.elapsed() < ISSUE) {
            continue;
        }
        let (own, settings) = (Arc::clone(&site), config.clone());
        match tokio::task::spawn_blocking(move || certificate_of(&own, &settings)).await {
            Ok(Ok(next)) => {
                certificate.become_like(&next);
                (seen, issued) = (now, tokio::time::Instant::now());
                tracing::info!("the HTTPS API shows another certificate");
            }
            // The old one goes on while it lasts; key and certificate may be replaced one by one.
            Ok(Err(error)) => tracing::error!(%error, "the new certificate cannot be used"),
            Err(error) => tracing::error!(%error, "the certificate cannot be checked"),
        }
    }
}

fn changed_at((certificate, key): &(PathBuf, PathBuf)) -> [Option<SystemTime>; 2] {
    let time = |path: &Path| std::fs::metadata(path).and_then(|file| file.modified()).ok();
    [time(certificate), time(key)]
}
