//! Checks rules that the types alone do not express: finds every statement that cannot be followed,
//! with its key.

use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use anyhow::Context as _;
use penstock_exit::{ExitCode, Failure};
use penstock_proto::id::Name;

use crate::config::{
    ClusterConfig, ClusterConfigError, Config, ConfigError, NotifyConfig, NotifyConfigError,
    OidcConfig, StoreConfig, WebConfigError,
};
use crate::networks;

/// A key, as `store[1].path`, and why its value cannot be followed.
pub(super) type Statement = (String, ConfigError);

impl Config {
    /// Checks rules that the types alone do not express.
    ///
    /// # Errors
    /// The first statement that cannot be followed.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.wrong_statements().into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Returns every statement that cannot be followed.
    pub(super) fn wrong_statements(&self) -> Vec<Statement> {
        let mut wrong = Vec::new();
        for (at, store) in self.stores.iter().enumerate() {
            self.wrong_of_store(at, store, &mut wrong);
        }
        for (key, value) in [("running_max", Some(self.running_max)), ("cpus", self.cpus)] {
            if value == Some(0) {
                wrong.push((key.to_owned(), ConfigError::Zero(key)));
            }
        }
        if let Some(cluster) = &self.cluster {
            wrong_of_cluster(cluster, &mut wrong);
        }
        if let Some(web) = &self.web {
            let of_web = |key: &str, error: WebConfigError| (format!("web.{key}"), error.into());
            wrong.extend(web.wrong_statements().into_iter().map(|(key, error)| of_web(key, error)));
        }
        if let Err(error) = self.webhook.destinations() {
            wrong.push(("webhook.allow".to_owned(), error.into()));
        }
        if let Some(Err(error)) = self.notify.as_ref().map(NotifyConfig::check) {
            let key = if matches!(error, NotifyConfigError::Event(_)) { "on" } else { "command" };
            wrong.push((format!("notify.{key}"), error.into()));
        }
        let of_auth = self.auth.wrong_statements().into_iter();
        wrong.extend(of_auth.map(|(key, error)| (format!("auth.{key}"), error.into())));
        for (key, error) in self.auth.oidc.iter().flat_map(OidcConfig::wrong_statements) {
            wrong.push((format!("auth.oidc.{key}"), error.into()));
        }
        let of_network = |(at, error): (usize, _)| (format!("network[{at}]"), error);
        let networks = networks::wrong_statements(&self.networks).into_iter();
        wrong.extend(networks.map(|(at, error)| of_network((at, ConfigError::Network(error)))));
        if let Err(error) = self.suites() {
            wrong.push(("cipher_suites".to_owned(), error));
        }
        if let Some(Err(why)) = self.log.as_deref().map(penstock_exit::check_log) {
            wrong.push(("log".to_owned(), ConfigError::Log(why)));
        }
        wrong
    }

    fn wrong_of_store(&self, at: usize, store: &StoreConfig, wrong: &mut Vec<Statement>) {
        let key = |key: &str| format!("store[{at}].{key}");
        if self.stores[..at].iter().any(|other| other.name == store.name) {
            wrong.push((key("name"), ConfigError::StoreTwice(store.name.clone())));
        }
        let virtual_store = store.path.starts_with("null:") || store.path.starts_with("mem:");
        if !virtual_store && store.directory().is_none() {
            let (store, path) = (store.name.clone(), store.path.clone());
            wrong.push((key("path"), ConfigError::StorePath { store, path }));
        }
        let rights = [("read", &store.read), ("write", &store.write), ("remove", &store.remove)];
        for (right, sites) in rights {
            for site in sites.iter().filter(|site| *site != "*" && site.parse::<Name>().is_err()) {
                let (store, site) = (store.name.clone(), site.clone());
                wrong.push((key(right), ConfigError::StoreSite { store, site }));
            }
        }
    }

    /// Refuses stores that would expose the site's keys and state: those that hold the site
    /// directory, or lie within it. Links are followed.
    ///
    /// # Errors
    /// There is such a store, or the current directory is not known.
    pub fn check_places(&self, directory: &Path) -> anyhow::Result<()> {
        let mut wrong = self.wrong_places(directory)?.into_iter();
        wrong.next().map_or(Ok(()), |(_, failure)| Err(failure.into()))
    }

    /// Returns every store in a wrong place, by its number.
    ///
    /// # Errors
    /// The current directory is not known.
    pub(super) fn wrong_places(&self, directory: &Path) -> anyhow::Result<Vec<(usize, Failure)>> {
        let own = real(&std::path::absolute(directory).context("cannot find the site directory")?);
        let shared = self.cluster.as_ref().filter(|cluster| !cluster.witness);
        let journal = shared.map(|cluster| real(&cluster.journal));
        let wrong = self.stores.iter().enumerate().filter_map(|(at, store)| {
            let place = real(&store.directory()?);
            if let Some(journal) = &journal
                && (journal.starts_with(&place) || place.starts_with(journal))
            {
                return Some((at, overlaps_journal(store, journal)));
            }
            let how = match () {
                () if own.starts_with(&place) => "holds",
                () if place.starts_with(&own) => "lies within",
                () => return None,
            };
            let message = format!(
                "store `{}` (`{}`) {how} the site directory `{}`, where the keys are",
                store.name,
                store.path,
                directory.display()
            );
            let hint = "choose another directory for the store, or for the site";
            Some((at, Failure::new(ExitCode::Usage, message).hint(hint)))
        });
        Ok(wrong.collect())
    }
}

fn overlaps_journal(store: &StoreConfig, journal: &Path) -> Failure {
    let message = format!(
        "store `{}` (`{}`) and the journal of the cluster `{}` overlap",
        store.name,
        store.path,
        journal.display()
    );
    Failure::new(ExitCode::Usage, message).hint(
        "choose another directory: a user who can write to the store could change the ledgers",
    )
}

fn wrong_of_cluster(cluster: &ClusterConfig, wrong: &mut Vec<Statement>) {
    let mut add = |key: &str, error: ClusterConfigError| {
        let key = if key.is_empty() { "cluster".to_owned() } else { format!("cluster.{key}") };
        wrong.push((key, error.into()));
    };
    match &cluster.own_etcd {
        None if cluster.etcd.is_empty() => add("etcd", ClusterConfigError::NoEndpoint),
        None if cluster.witness => add("witness", ClusterConfigError::Witness),
        Some(_) if !cluster.etcd.is_empty() => add("etcd", ClusterConfigError::TwoEtcds),
        _ => {}
    }
    let secret = cluster.user.is_some() || cluster.key.is_some();
    for endpoint in &cluster.etcd {
        let plain = endpoint.starts_with("http://");
        if !plain && !endpoint.starts_with("https://") {
            add("etcd", ClusterConfigError::Endpoint(endpoint.clone()));
        } else if plain && secret {
            add("etcd", ClusterConfigError::PlainEndpoint(endpoint.clone()));
        }
    }
    if !cluster.journal.is_absolute() {
        add("journal", ClusterConfigError::RelativeJournal);
    }
    let lease = ("lease_seconds", Some(cluster.lease_seconds), 300);
    for (key, seconds, most) in [lease, ("grant_seconds", cluster.grant_seconds, 600)] {
        if seconds.is_some_and(|seconds| !(2..=most).contains(&seconds)) {
            add(key, ClusterConfigError::Seconds { key, least: 2, most });
        }
    }
    if cluster.cert.is_some() != cluster.key.is_some() {
        add("key", ClusterConfigError::Together("cert", "key"));
    }
    let passwords = cluster.passwords();
    if passwords > 1 {
        add("password_file", ClusterConfigError::Passwords);
    } else if cluster.user.is_some() != (passwords == 1) {
        add("user", ClusterConfigError::Together("user", "password_file"));
    }
    if let Some(own) = &cluster.own_etcd {
        for (key, error) in own.wrong_statements() {
            wrong.push((format!("cluster.own_etcd.{key}"), error.into()));
        }
    }
}

/// A remark on a statement of the configuration about this host: its key, the remark, and whether
/// the daemon cannot start with it.
pub(super) struct Remark {
    pub(super) key: String,
    pub(super) text: String,
    pub(super) is_error: bool,
}

fn warning(key: String, text: String) -> Remark {
    Remark { key, text, is_error: false }
}

/// Returns remarks that follow from the text and from files with secrets.
pub(super) fn remarks(config: &Config, directory: &Path) -> Vec<Remark> {
    let mut remarks = Vec::new();
    for (at, store) in config.stores.iter().enumerate() {
        let key = |key: &str| format!("store[{at}].{key}");
        let name = &store.name;
        let changes = [&store.write, &store.delete, &store.remove];
        if store.read_only && changes.iter().any(|sites| !sites.is_empty()) {
            let text = format!("store `{name}` is read-only: its rights to change it are void");
            remarks.push(warning(key("read_only"), text));
        }
        let may_write = |site: &&String| store.write.iter().any(|it| it == "*" || it == *site);
        if let Some(site) = store.delete.iter().find(|site| *site != "*" && !may_write(site)) {
            let text = format!("store `{name}`: `{site}` may not delete, as `write` lacks it");
            remarks.push(warning(key("delete"), text));
        }
        let Some(own) = store.directory() else { continue };
        for other in &config.stores[..at] {
            let Some(its) = other.directory() else { continue };
            if own.starts_with(&its) || its.starts_with(&own) {
                let text = format!(
                    "stores `{}` (`{}`) and `{name}` (`{}`) overlap: the rights of both hold for \
                     what they share",
                    other.name, other.path, store.path
                );
                remarks.push(warning(key("path"), text));
            }
        }
    }
    if config.auth.socket_group.is_some() && config.auth.unix.is_empty() {
        let text = "`socket_group` without the table `auth.unix` lets nobody in".to_owned();
        remarks.push(warning("auth.socket_group".to_owned(), text));
    }
    let (web, oidc) = (config.web.as_ref(), config.auth.oidc.as_ref());
    if oidc.is_some_and(OidcConfig::admits_nobody) {
        let text = "no group has a role in `roles`, and `default` is `none`: nobody can log in";
        remarks.push(warning("auth.oidc".to_owned(), text.to_owned()));
    }
    if oidc.is_some() && web.is_none() {
        let text = "without the table `web` no browser reaches the log-in at the provider";
        remarks.push(warning("auth.oidc".to_owned(), text.to_owned()));
    }
    let cluster = config.cluster.as_ref();
    // The daemon itself refuses a web key that its group may read.
    let secrets = [
        ("web.key", web.and_then(|web| web.key.as_ref()), 0o077),
        ("cluster.key", cluster.and_then(|cluster| cluster.key.as_ref()), 0o007),
        ("cluster.password_file", cluster.and_then(|it| it.password_file.as_ref()), 0o007),
        ("auth.oidc.client_secret_file", oidc.and_then(|it| it.client_secret_file.as_ref()), 0o007),
    ];
    for (key, path, bits) in secrets {
        let Some(path) = path.map(|path| directory.join(path)) else { continue };
        remarks.extend(exposed(&path, bits).map(|text| Remark {
            key: key.to_owned(),
            text,
            is_error: true,
        }));
    }
    remarks
}

/// Returns the fault of a file that holds a secret.
fn exposed(path: &Path, bits: u32) -> Option<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let path_shown = path.display();
    match fs::metadata(path) {
        Ok(meta) if meta.permissions().mode() & bits != 0 => Some(format!(
            "others may read the secret in `{path_shown}` (mode {:04o}): `chmod 600` it, and \
             replace the secret",
            meta.permissions().mode() & 0o7777
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Some(format!("`{path_shown}` does not exist"))
        }
        // The checking user may not be the daemon's.
        _ => None,
    }
}

/// Returns remarks that need a look at this host: directories, addresses and interfaces. Blocks for
/// as long as a file system hangs.
pub(super) fn host_remarks(config: &Config, directory: &Path) -> Vec<Remark> {
    let mut remarks = Vec::new();
    for (at, store) in config.stores.iter().enumerate() {
        let Some(path) = store.directory() else { continue };
        remarks.extend(lack_of_directory(&path).map(|what| {
            let text = format!(
                "store `{}`: `{}` {what}; until it is mounted or made, transfers that use it wait",
                store.name, store.path
            );
            warning(format!("store[{at}].path"), text)
        }));
    }
    if let Some(cluster) = config.cluster.as_ref().filter(|cluster| !cluster.witness) {
        remarks.extend(lack_of_directory(&cluster.journal).map(|what| {
            let text = format!("the journal `{}` {what}", cluster.journal.display());
            warning("cluster.journal".to_owned(), text)
        }));
    }
    if let Some(certificate) = config.web.as_ref().and_then(|web| web.certificate.as_ref()) {
        let path = directory.join(certificate);
        if !path.exists() {
            let text = format!("`{}` does not exist", path.display());
            remarks.push(Remark { key: "web.certificate".to_owned(), text, is_error: true });
        }
    }
    remarks.extend(address_remarks(config));
    remarks.extend(account_remarks(config));
    remarks
}

/// Returns remarks on accounts and groups of the socket that this host does not know. Blocks on the
/// name service.
fn account_remarks(config: &Config) -> Vec<Remark> {
    let auth = &config.auth;
    let has_group = |name: &str| !matches!(penstock_sys::find_group(name.as_bytes()), Ok(None));
    let has_account = |name: &str| !matches!(penstock_sys::find_user(name.as_bytes()), Ok(None));
    let mut remarks = Vec::new();
    if let Some(group) = auth.socket_group.as_ref().filter(|group| !has_group(group.as_str())) {
        let text = format!("this host has no group `{group}`: `groupadd --system {group}`");
        remarks.push(Remark { key: "auth.socket_group".to_owned(), text, is_error: true });
    }
    for (group, _) in auth.unix.groups().filter(|(group, _)| !has_group(group)) {
        let text = format!("this host has no group `{group}`");
        remarks.push(warning(format!("auth.unix.@{group}"), text));
    }
    let accounts = auth.unix.accounts();
    for account in accounts.filter(|account| !has_account(account)) {
        let text = format!("this host has no account `{account}`");
        remarks.push(warning(format!("auth.unix.{account}"), text));
    }
    remarks
}

fn address_remarks(config: &Config) -> Vec<Remark> {
    let Ok(interfaces) = penstock_net::interface_addresses() else { return Vec::new() };
    let mut remarks = Vec::new();
    let is_here = |address: &SocketAddr| {
        let ip = address.ip();
        ip.is_unspecified() || interfaces.iter().any(|entry| entry.address == ip)
    };
    let web = config.web.iter().flat_map(|web| &web.listen).enumerate();
    let web = web.map(|(at, address)| (format!("web.listen[{at}]"), address));
    for (key, address) in std::iter::once(("listen".to_owned(), &config.listen)).chain(web) {
        if !is_here(address) {
            let text = format!("no interface of this host has the address {}", address.ip());
            remarks.push(warning(key, text));
        }
    }
    for (at, network) in config.networks.iter().enumerate() {
        if !interfaces.iter().any(|entry| network.has(&entry.device, entry.address)) {
            let text = format!("network `{}` has no address of this host now", network.name);
            remarks.push(warning(format!("network[{at}]"), text));
        }
    }
    remarks
}

fn lack_of_directory(path: &Path) -> Option<String> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => None,
        Ok(_) => Some("is not a directory".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some("does not exist".to_owned()),
        Err(error) => Some(format!("cannot be examined: {error}")),
    }
}

/// Returns an absolute path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let mut real = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            real.pop();
            continue;
        }
        real.push(part);
        if let Ok(found) = fs::canonicalize(&real) {
            real = found;
        }
    }
    real
}
