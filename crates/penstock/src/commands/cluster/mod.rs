//! What makes a site one of several peers: its own etcd or the operator's, and the shared journal.

pub(crate) mod recover;

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use penstock_sys::LockFile;
use serde::Serialize;

use crate::options::address::address;
use penstock_daemon::config::{
    ClusterConfig, Config, ETCD_PORT_DEFAULT, OwnEtcdConfig, lease_seconds_default,
};
use penstock_daemon::managed_etcd::files::{Files, KnownMember, MemberNote};
use penstock_daemon::managed_etcd::program::Program;
use penstock_daemon::site_directory::{act_as_owner, write_drop_in};
use penstock_exit::{self as exit, ExitCode, Failure};

/// Hosts on which etcd runs unless told otherwise.
const HOSTS_DEFAULT: usize = 3;
/// Seconds after which a silent controller is replaced where etcd is Penstock's own: longer than
/// its members take to elect another leader (2.5 to 5 s), so that its loss does not cost the
/// controller as well.
const OWN_LEASE_SECONDS: u64 = 8;

/// Options of a site of several peers.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct ClusterArgs {
    /// Create a site of several peers, and run etcd for it on the first COUNT hosts: 3, or 1, 2, 5
    #[arg(long, value_name = "COUNT", requires = "journal", conflicts_with = "etcd")]
    peers: Option<usize>,
    /// Address at which the etcd of this host accepts clients; its members use the next port
    /// [default: the advertised address, port 7445]
    #[arg(long, value_name = "ADDRESS", value_parser = address, conflicts_with = "etcd")]
    etcd_address: Option<SocketAddr>,
    /// Client address of your own etcd, for a site of several peers. May be given more than once
    #[arg(long, value_name = "URL", requires = "journal")]
    etcd: Vec<String>,
    /// Authority of the certificates of your etcd, PEM
    #[arg(long, value_name = "FILE", requires = "etcd")]
    etcd_ca: Option<PathBuf>,
    /// Client certificate for your etcd, PEM
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    etcd_cert: Option<PathBuf>,
    /// Private key of the client certificate, PEM
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,
    /// User name at your etcd
    #[arg(long, value_name = "NAME", requires = "etcd_password_file")]
    etcd_user: Option<String>,
    /// File with the password of the user
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    etcd_password_file: Option<PathBuf>,
    /// A directory that all peers of the site share, outside its stores
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
}

/// How a site of one peer becomes one of several.
#[derive(clap::Args)]
#[command(after_help = exit::help_of(&[
    (ExitCode::Done, "done"),
    (ExitCode::Unclassified, ""),
    (ExitCode::Usage, ""),
    (ExitCode::Refused, "refused: the daemon runs, or the site has several peers already"),
    (ExitCode::Fatal, "the site directory cannot be written, or there is no etcd to run"),
]))]
pub(crate) struct GrowArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    Ok(std::path::absolute(path)
        .map_err(|error| Failure::io(format!("find `{}`", path.display()), error))?)
}

impl ClusterArgs {
    /// The configuration that this asks for; none for a site of one peer.
    pub(crate) fn settings(&self, config: &Config) -> anyhow::Result<Option<ClusterConfig>> {
        let Some(journal) = &self.journal else { return Ok(None) };
        if self.etcd.is_empty() && self.peers.is_none() {
            let message = "a journal is shared by the peers of a site: say which etcd it has";
            return Err(Failure::new(ExitCode::Usage, message)
                .hint("`--peers 3` runs one on the site's hosts; `--etcd URL` is one of yours")
                .into());
        }
        let own_etcd = self.peers.map(|hosts| OwnEtcdConfig {
            hosts,
            address: etcd_address(self.etcd_address, config),
            program: None,
        });
        let lease_seconds =
            if own_etcd.is_some() { OWN_LEASE_SECONDS } else { lease_seconds_default() };
        let file = |path: &Option<PathBuf>| path.as_deref().map(absolute).transpose();
        Ok(Some(ClusterConfig {
            etcd: self.etcd.clone(),
            journal: absolute(journal)?,
            lease_seconds,
            ca: file(&self.etcd_ca)?,
            cert: file(&self.etcd_cert)?,
            key: file(&self.etcd_key)?,
            user: self.etcd_user.clone(),
            password_file: file(&self.etcd_password_file)?,
            own_etcd,
            ..ClusterConfig::default()
        }))
    }
}

/// Where this host's etcd is reached, unless it is said: where the host is.
pub(crate) fn etcd_address(said: Option<SocketAddr>, config: &Config) -> SocketAddr {
    said.unwrap_or_else(|| {
        let advertised = config.advertised(config.listen);
        let ip = advertised.first().map_or(config.listen.ip(), SocketAddr::ip);
        SocketAddr::new(ip, ETCD_PORT_DEFAULT)
    })
}

/// Looks for etcd, where the configuration wants this host to begin one.
pub(crate) fn check_program(config: &Config) -> anyhow::Result<()> {
    let own = config.cluster.as_ref().and_then(|cluster| cluster.own_etcd.as_ref());
    own.map_or(Ok(()), |own| Program::find(own.program.as_deref()).map(drop))
}

/// Prepares the site directory for the first member of the site's own etcd.
pub(crate) fn prepare(directory: &Path, config: &Config) -> anyhow::Result<()> {
    let own = config.cluster.as_ref().and_then(|cluster| cluster.own_etcd.as_ref());
    let Some(own) = own else { return Ok(()) };
    let files = Files::of(directory);
    let password = data_encoding::HEXLOWER.encode(&rand::random::<[u8; 16]>());
    let known = KnownMember {
        name: config.peer.to_string(),
        client_url: own.client_url(),
        peer_url: own.peer_url(),
    };
    let note = MemberNote { begins: true, ..MemberNote::default() };
    files
        .set_password(&password)
        .and_then(|()| files.set_members(&[known]))
        .and_then(|()| files.set_note(&note))
        .map_err(|error| Failure::io(format!("write below `{}`", directory.display()), error))?;
    Ok(())
}

/// Says how to go on.
pub(crate) fn tell_next(directory: &Path, config: &Config) {
    let directory = directory.display();
    exit::warn(&format!("start it with: penstock daemon --dir {directory}"));
    let Some(cluster) = &config.cluster else { return };
    let hosts = cluster.own_etcd.as_ref().map_or(0, |own| own.hosts);
    let more = match hosts {
        0 | 1 => "for another host".to_owned(),
        2 => "for the other host".to_owned(),
        hosts => format!("for each of the {} other hosts", hosts - 1),
    };
    exit::warn(&format!("then, {more}: penstock site join --dir {directory}"));
}

#[derive(Serialize)]
struct ClusterTable<'a> {
    cluster: &'a ClusterConfig,
}

/// Makes a site of one peer one of several. Its daemon must not run.
pub(crate) fn grow(directory: &Path, args: &GrowArgs) -> anyhow::Result<()> {
    let mut config = Config::load(directory)?;
    if config.cluster.is_some() {
        let message = format!("site `{}` is one of several peers already", config.site);
        return Err(Failure::new(ExitCode::Refused, message)
            .hint("`penstock site join` adds a host")
            .into());
    }
    let _lock = LockFile::acquire(&directory.join("lock")).map_err(|error| {
        Failure::new(ExitCode::Refused, "the site's daemon runs")
            .caused_by(error)
            .hint("stop it first; its transfers resume later")
    })?;
    let mut cluster = args.cluster.clone();
    if cluster.etcd.is_empty() {
        cluster.peers = cluster.peers.or(Some(HOSTS_DEFAULT));
    }
    if cluster.journal.is_none() {
        return Err(Failure::new(ExitCode::Usage, "the peers need a journal that they share")
            .hint("--journal DIR: on storage that all hosts reach, in none of the stores")
            .into());
    }
    config.cluster = cluster.settings(&config)?;
    config.check().map_err(Failure::from)?;
    config.check_places(directory)?;
    check_program(&config)?;
    let acting = act_as_owner(directory)?;
    prepare(directory, &config)?;
    append(directory, &config)?;
    drop(acting);
    write_drop_in(directory, &config).iter().for_each(|note| exit::warn(note));
    exit::print(&format!("site {} is one of several peers from now on", config.site))?;
    tell_next(directory, &config);
    Ok(())
}

/// Adds the table to the configuration as its operators have written it.
fn append(directory: &Path, config: &Config) -> anyhow::Result<()> {
    let Some(cluster) = &config.cluster else { return Ok(()) };
    let path = Config::found(directory);
    let table =
        toml::to_string(&ClusterTable { cluster }).context("cannot write the configuration")?;
    let failed = |error| Failure::io(format!("write `{}`", path.display()), error);
    let text = fs::read_to_string(&path).map_err(failed)?;
    let new = path.with_extension("toml.new");
    let mut file = fs::File::create(&new).map_err(failed)?;
    let write = file
        .write_all(format!("{}\n\n{table}", text.trim_end()).as_bytes())
        .and_then(|()| file.set_permissions(fs::metadata(&path)?.permissions()))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&new, &path));
    write.map_err(failed)?;
    Ok(())
}
