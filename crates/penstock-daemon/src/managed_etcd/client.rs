//! How the daemon reaches etcd: its own, or one of the operator's.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use penstock_cluster::etcd::EtcdConfig;
use penstock_net::trust::{ServiceFacts, SiteAuthority};
use penstock_proto::id::Name;

use super::files::{AUTHORITY, DIRECTORY, Files, PASSWORD};
use crate::config::ClusterConfig;
use penstock_exit::{ExitCode, Failure};

/// The only user of the own etcd: a holder of the site's keys may do everything anyway.
const USER: &str = "root";
/// File in the directory of the own etcd: the certificate that clients show.
const CERTIFICATE: &str = "client.pem";
const KEY: &str = "client.key";

/// Issues the certificate that is shown to the own etcd, unless a valid one exists; returns whether
/// one was issued. The authority is etcd's own, and is made if it does not exist: it is not
/// replaced with the site's. The peer's certificate cannot be used. Once etcd asks for passwords,
/// it refuses a certificate with a common name (etcd 3.4, its gateway).
///
/// # Errors
/// The certificate cannot be issued or stored.
pub(crate) fn issue(name: &Name, site: &Path) -> anyhow::Result<bool> {
    let directory = site.join(DIRECTORY);
    if !Files::of(site).authority().exists() {
        SiteAuthority::create(name.clone())?.save(&directory)?;
    }
    let (certificate, key) = (directory.join(CERTIFICATE), directory.join(KEY));
    let facts = ServiceFacts::read(&certificate);
    if facts.is_ok_and(|facts| !facts.is_stale(SystemTime::now(), &[])) && key.exists() {
        return Ok(false);
    }
    let issued = SiteAuthority::load(&directory)?.issue_service("client of etcd", &[])?;
    issued.save(&certificate, &key)?;
    Ok(true)
}

/// Returns a client of the etcd that is configured, with its keys and password.
///
/// # Errors
/// Keys or password cannot be read, or not be used.
pub(crate) fn config(settings: &ClusterConfig, directory: &Path) -> anyhow::Result<EtcdConfig> {
    let own = settings.own_etcd.as_ref().map(|own| own_access(settings, own.client_url()));
    let settings = own.as_ref().unwrap_or(settings);
    let user = match (&settings.user, settings.read_password(directory)?) {
        (Some(user), Some(password)) => Some((user.clone(), password.expose().to_owned())),
        _ => None,
    };
    let patience = Duration::from_millis(settings.lease_seconds * 1000 / 6);
    let http = http_as(settings, directory)?;
    Ok(EtcdConfig { endpoints: settings.etcd.clone(), http, user, patience })
}

/// Returns the HTTP client for the etcd that is configured, with its keys as they are on disk now.
///
/// # Errors
/// The keys cannot be read, or not be used.
pub(super) fn http(settings: &ClusterConfig, directory: &Path) -> anyhow::Result<reqwest::Client> {
    let own = settings.own_etcd.as_ref().map(|own| own_access(settings, own.client_url()));
    http_as(own.as_ref().unwrap_or(settings), directory)
}

fn http_as(settings: &ClusterConfig, directory: &Path) -> anyhow::Result<reqwest::Client> {
    let read = |path: &PathBuf| read(&directory.join(path));
    let ca = settings.ca.as_ref().map(read).transpose()?;
    let identity = match (&settings.cert, &settings.key) {
        (Some(cert), Some(key)) => Some((read(cert)?, read(key)?)),
        _ => None,
    };
    let tls = penstock_net::trust::web_client_config(
        ca.as_deref(),
        identity.as_ref().map(|(cert, key)| (cert.as_slice(), key.as_slice())),
    )
    .map_err(|error| unusable(&error))?;
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured((*tls).clone())
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(2))
        .build()
        .map_err(|error| unusable(&error))?;
    Ok(client)
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure::io(format!("read `{}`", path.display()), error))
}

fn unusable(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(ExitCode::Fatal, "the keys for etcd cannot be used").caused_by(error.to_string())
}

/// Returns the settings of the own etcd, as if it were the operator's: by its own keys.
fn own_access(settings: &ClusterConfig, endpoint: String) -> ClusterConfig {
    ClusterConfig {
        etcd: vec![endpoint],
        ca: Some(Path::new(DIRECTORY).join(AUTHORITY[0])),
        cert: Some(Path::new(DIRECTORY).join(CERTIFICATE)),
        key: Some(Path::new(DIRECTORY).join(KEY)),
        user: Some(USER.to_owned()),
        password_file: Some(Path::new(DIRECTORY).join(PASSWORD)),
        password_command: Vec::new(),
        password: None,
        ..settings.clone()
    }
}
