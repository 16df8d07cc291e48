//! The site's configuration: the types of its tables. [`crate::settings`] reads them from files and
//! other layers. Unknown keys are errors.

use penstock_net::trust::preferred_suites;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use penstock_api::cluster::StoreRights;
use penstock_api::rest::StoreView;
use penstock_proto::frame::CipherSuite;
use penstock_proto::id::Name;
use penstock_store::IoMode;
use serde::{Deserialize, Serialize};

use crate::networks::NetworkConfig;

mod accounts;
mod audit;
mod auth;
mod destination;
mod error;
mod oidc;
mod own_etcd;
mod secret;
mod unix_accounts;
mod web;
mod webhook;

pub use accounts::{SiteAccounts, StoreAccount};
pub use audit::{AuditConfig, KeepDays};
pub use auth::{ACCOUNT_SOCKET_DEFAULT, AuthConfig};
pub(crate) use destination::Destinations;
pub use destination::EntryError;
pub(crate) use oidc::is_private;
pub use oidc::{DefaultRole, GroupRoles, OidcConfig};
pub use webhook::{NotifyConfig, WebhookConfig};

pub use error::{
    AuthConfigError, ClusterConfigError, ConfigError, MappedUserError, NotifyConfigError,
    OidcConfigError, OwnEtcdError, WebConfigError,
};
pub use own_etcd::{ETCD_PORT_DEFAULT, OwnEtcdConfig};
pub use secret::Secret;
use secret::SecretPlaces;
pub(crate) use unix_accounts::MappedUser;
pub use unix_accounts::UnixAccounts;
pub use web::{WEB_PORT_DEFAULT, WebConfig};

/// Directory of a site's state unless `--dir` or `PENSTOCK_DIR` names another.
pub const DIRECTORY_DEFAULT: &str = "/var/lib/penstock";
/// Port of peers and data unless configured.
pub const PORT_DEFAULT: u16 = 7444;
/// Name of the main file of the configuration.
pub(crate) const FILE_NAME: &str = "penstock.toml";

/// The file, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of the site; as in its certificate.
    pub site: Name,
    /// Name of this peer; as in its certificate.
    pub peer: Name,
    /// The address at which the daemon listens for peers and data. Default: port 7444 of all
    /// addresses.
    #[serde(default = "listen_default")]
    pub listen: SocketAddr,
    /// Addresses that paired sites receive for requests, and also for data if no network is
    /// configured. Default: those of the networks; else `listen`, or where that is all addresses,
    /// the one that the default route uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advertise: Vec<SocketAddr>,
    /// Transfers that run at a time. Default: 4; more wait for their turn.
    #[serde(default = "running_max_default")]
    pub running_max: u32,
    /// CPUs that the daemon keeps busy at most. Default: all that its cgroup (`cpu.max`) and its
    /// affinity mask allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// TLS 1.3 suites that are spoken, the one to be preferred first; no others are. Default: all,
    /// in the order of their speed on this CPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cipher_suites: Vec<String>,
    /// Level of the log: `error`, `warn`, `info`, `debug` or `trace`, or per module as
    /// `info,penstock_peer=debug`. Default: info. The variable `PENSTOCK_LOG` sets it for one run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// The networks that are for data and those that are not. Default: data uses all advertised
    /// addresses.
    #[serde(default, rename = "network", skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkConfig>,
    /// The API over HTTPS, for users on other hosts. Default: none, only the Unix socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<WebConfig>,
    /// The rules for webhooks: HTTPS requests that tell other programs of ended transfers.
    #[serde(default, skip_serializing_if = "WebhookConfig::is_default")]
    pub webhook: WebhookConfig,
    /// A command that is run for each ended transfer. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<NotifyConfig>,
    /// The ways in which people log in to that API.
    #[serde(default, skip_serializing_if = "AuthConfig::is_default")]
    pub auth: AuthConfig,
    /// The audit log. Default: its files are kept for 400 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditConfig>,
    /// The site's other peers, where there are some. Default: this peer is the whole site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterConfig>,
    /// Accounts as which mapped stores are used for paired sites, by site. Default: none. A
    /// running daemon follows changes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub accounts: BTreeMap<Name, SiteAccounts>,
    /// The stores: only listed stores can be read or written.
    #[serde(default, rename = "store")]
    pub stores: Vec<StoreConfig>,
}

/// The services that the peers of a site share. Relative paths are taken from the site directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterConfig {
    /// Client addresses of an etcd of the operator's own, as `https://HOST:2379`. Default: none;
    /// Penstock runs one, see `own_etcd`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub etcd: Vec<String>,
    /// A directory on storage that all peers reach under this path, in none of the stores: pages
    /// and logs of transfers, receipts, scans.
    pub journal: PathBuf,
    /// Seconds after which a silent controller is replaced. Default: 5; etcd takes no less than 2.
    #[serde(default = "lease_seconds_default")]
    pub lease_seconds: u64,
    /// Seconds after which the work of a silent target peer goes to others. Default: 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_seconds: Option<u64>,
    /// Authority that etcd's certificates are of, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Certificate to show to etcd, PEM; with `key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// Its private key, PEM; for its owner alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// User of etcd, where it asks for one; with a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// File with its password; for its owner alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// Program, with its arguments, that prints the password; it runs without a shell, at the
    /// start. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub password_command: Vec<String>,
    /// The password itself. No file may have it: `PENSTOCK_CLUSTER__PASSWORD` sets it.
    #[serde(default, skip_serializing)]
    pub password: Option<Secret>,
    /// This host only witnesses: its member of etcd votes, and it moves no data, reaches no store
    /// and never guides transfers. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub witness: bool,
    /// The etcd that Penstock runs for the site. Default: none; `etcd` names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_etcd: Option<OwnEtcdConfig>,
}

/// Returns the seconds after which a silent controller is replaced, unless configured.
pub fn lease_seconds_default() -> u64 {
    5
}

impl ClusterConfig {
    /// Returns the places of the password of etcd's user.
    fn password_places(&self) -> SecretPlaces<'_> {
        SecretPlaces {
            key: "password",
            itself: self.password.as_ref(),
            file: self.password_file.as_deref(),
            command: &self.password_command,
        }
    }

    /// Returns the number of places that set the password of etcd's user.
    pub(crate) fn passwords(&self) -> usize {
        self.password_places().count()
    }

    /// Returns the password of etcd's user, if one is configured. Blocks on storage, and for up to
    /// 30 s on the command.
    ///
    /// # Errors
    /// The file cannot be read; the command fails, prints nothing, or does not end in time.
    pub(crate) fn read_password(&self, directory: &Path) -> anyhow::Result<Option<Secret>> {
        self.password_places().read(directory)
    }
}

/// A store of this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// Its name in `SITE:STORE/PATH`.
    pub name: Name,
    /// An absolute path of a directory, or `null:`, or `mem:…`.
    pub path: String,
    /// Refuse to write. Default: false.
    #[serde(default)]
    pub read_only: bool,
    /// Sites that may read, or `*` for all that are paired. Default: `["*"]`.
    #[serde(default = "everybody")]
    pub read: Vec<String>,
    /// Sites that may submit transfers from themselves to here, or `*` for all that are paired:
    /// they make new entries, and replace none. Default: `[]`, only this site's own users.
    #[serde(default)]
    pub write: Vec<String>,
    /// Sites that may also replace and delete existing entries by such a transfer, as with
    /// `--delete`. Default: `[]`, only this site's own users. A site that is not listed under
    /// `write` may not.
    #[serde(default)]
    pub delete: Vec<String>,
    /// Sites that may have moved data removed here (`--remove-source`), or `*` for all that are
    /// paired. Default: `[]`, only this site's own users. Never from a store that is read-only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// The encryption of payload that is read from here: `optional` allows lanes without it
    /// (`--encryption off`), `required` refuses such lanes. Default: optional.
    #[serde(default, skip_serializing_if = "Encryption::is_default")]
    pub encryption: Encryption,
    /// Let data sets of other sites bring owners, setuid, setgid and sticky bits, devices, ACLs,
    /// trusted and security attributes with them. A user who may write to the store can then become
    /// any user of this host. Default: false.
    #[serde(default)]
    pub allow_privileged: bool,
    /// The way in which files of 1 MiB or more are read and written: `auto`, `buffered` or
    /// `direct`. For experts; `auto` is right for nearly all. It writes past the page cache on
    /// ext4. It reads past the cache on ext4 and XFS, unless the cache has the file. Both are not
    /// done on arrays with parity and on disks that rotate. Default: auto.
    #[serde(default)]
    pub io: Io,
    /// The account as which files are read and written. `daemon` is the daemon's own user; `mapped`
    /// is the account of the transfer's user or paired site. Default: daemon.
    #[serde(default, skip_serializing_if = "StoreAccount::is_default")]
    pub account: StoreAccount,
}

/// The rule for the encryption of data that is read from a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encryption {
    /// Encrypted unless the transfer says otherwise.
    #[default]
    Optional,
    /// Always.
    Required,
}

impl Encryption {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The way in which large files are written to a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Io {
    /// The way that is best for the store's file system.
    #[default]
    Auto,
    /// Through the page cache.
    Buffered,
    /// Past the page cache wherever the file system takes that.
    Direct,
}

impl From<Io> for IoMode {
    fn from(io: Io) -> Self {
        match io {
            Io::Auto => Self::Auto,
            Io::Buffered => Self::Buffered,
            Io::Direct => Self::Direct,
        }
    }
}

fn listen_default() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT_DEFAULT))
}

fn running_max_default() -> u32 {
    penstock_controller::manager::RUNNING_MAX_DEFAULT
}

fn everybody() -> Vec<String> {
    vec!["*".to_owned()]
}

impl StoreConfig {
    /// Returns a store of that place with the defaults.
    pub fn new(name: Name, path: String) -> Self {
        let (read, write, delete, remove) = (everybody(), Vec::new(), Vec::new(), Vec::new());
        let (io, encryption) = (Io::Auto, Encryption::Optional);
        let (read_only, allow_privileged) = (false, false);
        Self {
            name,
            path,
            read_only,
            read,
            write,
            delete,
            remove,
            encryption,
            allow_privileged,
            io,
            account: StoreAccount::Daemon,
        }
    }

    /// Its directory, if it is one.
    pub fn directory(&self) -> Option<PathBuf> {
        self.path.starts_with('/').then(|| PathBuf::from(&self.path))
    }

    /// Returns the rights as other peers of the site learn them. No site may change a store that is
    /// read-only here.
    pub fn rights(&self) -> StoreRights {
        let changes = |sites: &Vec<String>| if self.read_only { Vec::new() } else { sites.clone() };
        StoreRights {
            read: self.read.clone(),
            write: changes(&self.write),
            delete: changes(&self.delete),
            remove: changes(&self.remove),
        }
    }

    /// Returns the store as the API shows it.
    pub fn view(&self) -> StoreView {
        StoreView {
            name: self.name.clone(),
            place: self.path.clone(),
            read_only: self.read_only,
            read: self.read.clone(),
            write: self.write.clone(),
            delete: self.delete.clone(),
            remove: self.remove.clone(),
        }
    }
}

/// Returns whether `sites` lists a site.
pub fn lists(sites: &[String], site: &Name) -> bool {
    sites.iter().any(|listed| listed == "*" || listed == site.as_str())
}

impl Config {
    /// Returns the path of the configuration of a site directory.
    pub fn path(directory: &Path) -> PathBuf {
        directory.join(FILE_NAME)
    }

    /// Returns the file's text.
    pub fn to_text(&self) -> anyhow::Result<String> {
        toml::to_string(self).context("cannot write the configuration")
    }

    /// Returns the TLS suites to be spoken, in order of preference.
    ///
    /// # Errors
    /// One is not known; the text names those that are.
    pub fn suites(&self) -> Result<Vec<CipherSuite>, ConfigError> {
        if self.cipher_suites.is_empty() {
            return Ok(preferred_suites().to_vec());
        }
        let parse = |text: &String| text.parse().map_err(ConfigError::CipherSuite);
        self.cipher_suites.iter().map(parse).collect()
    }

    /// Returns the addresses that other sites receive, when the daemon listens at `bound`.
    pub fn advertised(&self, bound: SocketAddr) -> Vec<SocketAddr> {
        if !self.advertise.is_empty() {
            return self.advertise.clone();
        }
        if !bound.ip().is_unspecified() {
            return vec![bound];
        }
        vec![SocketAddr::new(default_address(), bound.port())]
    }
}

/// Returns the address from which the default route leaves; nothing is sent to find out (connect(2)
/// of a datagram socket only looks up the route).
fn default_address() -> IpAddr {
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .and_then(|socket| {
            socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
            socket.local_addr()
        })
        .map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use penstock_exit::ExitCode;

    use super::*;
    use crate::site::exports::Exports;

    const TEXT: &str = r#"
        site = "lab"
        peer = "dtn1"
        [[store]]
        name = "raw"
        path = "/data/raw"
        read = ["hpc"]
        [[store]]
        name = "bin"
        path = "null:"
        read_only = true
    "#;

    /// Promise: a missing key has the documented default, and a misspelt one is an error.
    #[test]
    fn defaults_hold_and_unknown_keys_are_errors() {
        let config: Config = toml::from_str(TEXT).unwrap();
        config.check().unwrap();
        assert_eq!((config.listen.port(), config.running_max), (7444, 4));
        assert!(toml::from_str::<Config>(&format!("raed = 1\n{TEXT}")).is_err());
        assert!(toml::from_str::<Config>(&format!("{TEXT}\nreadonly = true")).is_err());
        assert_eq!(toml::from_str::<Config>(&config.to_text().unwrap()).unwrap(), config);
    }

    /// Promise: a store is open to the sites in its lists, and only a listed store is open at all.
    #[test]
    fn stores_are_exported_as_listed() {
        let config: Config = toml::from_str(TEXT).unwrap();
        let exports = Exports::of(&config);
        let name = |text: &str| text.parse::<Name>().unwrap();
        assert!(exports.may_read(&name("hpc"), &name("raw")));
        assert!(!exports.may_read(&name("spy"), &name("raw")));
        assert!(!exports.may_write(&name("spy"), &name("raw")), "nobody writes by default");
        assert!(exports.may_read(&name("spy"), &name("bin")));
        assert!(!exports.may_write(&name("hpc"), &name("bin")), "it is read-only");
        assert!(!exports.may_read(&name("hpc"), &name("other")));
        assert!(!exports.may_remove(&name("hpc"), &name("raw")), "a right of its own");
        let may = |text: &str| {
            let text = TEXT.replace("read = [", &format!("{text}\n        read = ["));
            let exports = Exports::of(&toml::from_str(&text).unwrap());
            let (hpc, raw) = (name("hpc"), name("raw"));
            (exports.may_write(&hpc, &raw), exports.may_delete(&hpc, &raw))
        };
        assert_eq!(may("write = [\"hpc\"]"), (true, false));
        assert_eq!(may("delete = [\"hpc\"]"), (false, false));
        assert_eq!(may("write = [\"*\"]\ndelete = [\"hpc\"]"), (true, true));
        assert_eq!(may("write = [\"*\"]\ndelete = [\"spy\"]"), (true, false));
        let text = TEXT.replace("read = [", "remove = [\"hpc\"]\n        read = [");
        let exports = Exports::of(&toml::from_str(&text).unwrap());
        assert!(exports.may_remove(&name("hpc"), &name("raw")));
        assert!(!exports.may_remove(&name("spy"), &name("raw")));
        let text = TEXT.replace("read_only = true", "read_only = true\nremove = [\"*\"]");
        let exports = Exports::of(&toml::from_str(&text).unwrap());
        assert!(!exports.may_remove(&name("hpc"), &name("bin")), "it is read-only");
    }

    /// Promise: exactly the listed suites are spoken, in that order. Without a list all are,
    /// AES-128-GCM first where the CPU has AES. An unknown suite is an error.
    #[test]
    fn cipher_suites_are_those_that_are_listed() {
        let suites =
            |line: &str| toml::from_str::<Config>(&format!("{line}\n{TEXT}")).unwrap().suites();
        assert_eq!(suites("").unwrap(), preferred_suites());
        let listed = suites(r#"cipher_suites = ["chacha20-poly1305", "aes256-gcm"]"#).unwrap();
        assert_eq!(listed, [CipherSuite::Chacha20Poly1305, CipherSuite::Aes256Gcm]);
        let why = suites(r#"cipher_suites = ["rc4"]"#).unwrap_err().to_string();
        assert!(why.contains("`rc4`") && why.contains("`aes128-gcm`"), "{why}");
    }

    /// Promise: a configuration that cannot work is refused before anything is started.
    #[test]
    fn a_wrong_store_is_refused() {
        for (from, to) in [("/data/raw", "data/raw"), ("bin", "raw"), ("hpc", "Hpc")] {
            let config: Config = toml::from_str(&TEXT.replace(from, to)).unwrap();
            assert!(config.check().is_err(), "{to}");
        }
    }

    /// Promise: no store exposes the site's keys, by any path, whether it exists already or not.
    #[test]
    fn a_store_is_never_where_the_keys_are() {
        let base = tempfile::tempdir().unwrap();
        let (base, site) = (base.path(), base.path().join("site"));
        let check = |path: &Path| {
            let mut config: Config = toml::from_str(TEXT).unwrap();
            path.to_str().unwrap().clone_into(&mut config.stores[0].path);
            config.check_places(&site)
        };
        fs::create_dir(base.join("data")).unwrap();
        std::os::unix::fs::symlink(base, base.join("data/link")).unwrap();
        for made in [false, true] {
            if made {
                fs::create_dir(&site).unwrap();
            }
            for bad in ["", "site", "site/trust", "data/link", "data/link/site/x", "data/../site"] {
                let error = check(&base.join(bad)).unwrap_err();
                assert_eq!(penstock_exit::code_of(&error), ExitCode::Usage, "{bad}: {error}");
            }
            for good in ["data", "site-data", "site/../data/x"] {
                check(&base.join(good)).unwrap();
            }
        }
        assert!(check(Path::new("/")).is_err());
    }
}
