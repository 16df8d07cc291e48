//! `penstock site join`: another host for a site of several peers.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path};

use anyhow::Context as _;
use penstock_api::endpoints::INVITE_PEER;
use penstock_api::rest::TokenReply;
use penstock_api::site::JoinFile;
use penstock_net::interface_addresses;
use penstock_net::trust::SiteAuthority;
use penstock_proto::id::{Name, PeerId};

use crate::client::Client;
use crate::commands::cluster::etcd_address;
use crate::options::address::address;
use crate::token::TokenArgs;
use penstock_daemon::access::join as daemon_join;
use penstock_daemon::config::{Config, PORT_DEFAULT};
use penstock_daemon::managed_etcd::program::Program;
use penstock_daemon::site_directory::{
    TRUST_DIRECTORY, act_as_owner, check_free, make_directory, write_drop_in,
};
use penstock_exit::failure;
use penstock_exit::{self as exit, ExitCode, Failure};

#[derive(clap::Args)]
pub(crate) struct JoinArgs {
    #[command(flatten)]
    pub(crate) token: TokenArgs,
    /// Name of this host within the site
    #[arg(long, requires = "given")]
    peer: Option<Name>,
    /// Address to listen at for other sites and data [default: 0.0.0.0:7444]
    #[arg(long, value_name = "ADDRESS", value_parser = address, requires = "given")]
    listen: Option<SocketAddr>,
    /// Address that other peers and sites use, if it is not the one to listen at
    #[arg(long, value_name = "ADDRESS", value_parser = address, requires = "given")]
    advertise: Vec<SocketAddr>,
    /// Address at which the etcd of this host accepts clients, if Penstock runs one here; its
    /// members use the next port [default: the advertised address, port 7445]
    #[arg(long, value_name = "ADDRESS", value_parser = address, requires = "given")]
    etcd_address: Option<SocketAddr>,
    /// Join as a witness: run etcd for the majority, but move no data; needs neither stores nor the
    /// journal
    #[arg(long, requires = "given")]
    witness: bool,
}

/// Prints a token for another host.
pub(crate) fn invite(client: &Client) -> anyhow::Result<()> {
    let reply: TokenReply = client.post(&INVITE_PEER.uri(&[]), &())?;
    exit::print(&reply.token)?;
    let minutes =
        reply.expires_at.seconds().saturating_sub(penstock_sys::now_seconds()).div_ceil(60);
    exit::warn(&format!(
        "valid once, for {minutes} minutes; at the other host: penstock site join - --peer \
         NAME\nthe token gives access to the keys of this site: keep it secret",
    ));
    Ok(())
}

/// Makes this host a peer of the site whose token it is.
pub(crate) fn join(directory: &Path, args: &JoinArgs, token: &str) -> anyhow::Result<()> {
    let peer = args.peer.clone().ok_or_else(|| {
        Failure::new(ExitCode::Usage, "the host needs a name within the site")
            .hint("`--peer NAME`, another one than the other peers have")
    })?;
    check_free(directory)?;
    let installed = match Program::find(None) {
        // It would be good for nothing else.
        Err(error) if args.witness => return Err(error),
        installed => installed,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let joined = runtime.block_on(daemon_join::join(token, &peer)).map_err(failure)?;
    let (mut config, files) = joined;
    config.peer = peer.clone();
    config.listen = args.listen.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], PORT_DEFAULT)));
    config.advertise.clone_from(&args.advertise);
    settle_etcd(&mut config, args, directory)?;
    let interfaces = interface_addresses().context("cannot list this host's interfaces")?;
    let names: Vec<_> = interfaces.into_iter().map(|interface| interface.device).collect();
    let settled = settle_host(&mut config, &names);
    config.check().map_err(Failure::from)?;
    config.check_places(directory)?;
    let acting = act_as_owner(directory)?;
    make_directory(directory)?;
    for file in &files {
        write(directory, file)?;
    }
    let trust = directory.join(TRUST_DIRECTORY);
    let authority = SiteAuthority::load(&trust).context("cannot read the site's keys")?;
    let identity = authority
        .issue_peer(&PeerId { site: config.site.clone(), peer })
        .context("cannot make the peer's certificate")?;
    identity.save(&trust).context("cannot store the peer's certificate")?;
    let path = Config::path(directory);
    fs::write(&path, config.to_text()?)
        .map_err(|error| Failure::io(format!("write `{}`", path.display()), error))?;
    drop(acting);
    exit::print(&format!(
        "peer {} of site {} in {}\nfingerprint {}",
        config.peer,
        config.site,
        directory.display(),
        authority.fingerprint()
    ))?;
    for what in settled {
        exit::warn(&format!("look into `{}` before you start it: {what}", path.display()));
    }
    write_drop_in(directory, &config).iter().for_each(|note| exit::warn(note));
    exit::warn(&format!("start it with: penstock daemon --dir {}", directory.display()));
    if config.cluster.as_ref().is_some_and(|cluster| cluster.own_etcd.is_some())
        && let Err(error) = installed
    {
        exit::warn(&format!("this host cannot run the site's etcd so far: {error:#}"));
    }
    Ok(())
}

/// What of the site's configuration is of the peer that answered, is this host's here.
fn settle_etcd(config: &mut Config, args: &JoinArgs, directory: &Path) -> anyhow::Result<()> {
    let address = etcd_address(args.etcd_address, config);
    let Some(cluster) = &mut config.cluster else { return Ok(()) };
    if let Some(own) = &mut cluster.own_etcd {
        own.address = address;
        own.program = None;
    }
    cluster.witness = args.witness;
    if args.witness {
        config.stores.clear();
        cluster.journal = std::path::absolute(directory)
            .map_err(|error| Failure::io(format!("find `{}`", directory.display()), error))?
            .join("witness");
    }
    Ok(())
}

/// The same of its hardware: what is of no use here is left out, and what may be is kept; says what
/// of both there is. A network that this host lacks is kept: without it, addresses for which it
/// says that they are not for data might become such.
fn settle_host(config: &mut Config, interfaces: &[String]) -> Vec<String> {
    let mut settled = Vec::new();
    if let Some(cpus) = config.cpus.take() {
        settled.push(format!("`cpus = {cpus}`, as the other host has it, was left out"));
    }
    for network in &mut config.networks {
        let name = &network.name;
        if !network.advertise.is_empty() {
            network.advertise.clear();
            settled
                .push(format!("`advertise` of network `{name}`, the other host's, was left out"));
        }
        if let Some(interface) = &network.interface
            && !interfaces.contains(interface)
        {
            settled.push(format!(
                "network `{name}` is at `{interface}`, and this host has no address there"
            ));
        }
    }
    settled
}

/// Writes a file of the site's, for its owner alone.
fn write(directory: &Path, file: &JoinFile) -> anyhow::Result<()> {
    let relative = Path::new(&file.path);
    let inside = relative.components().all(|part| matches!(part, Component::Normal(_)));
    let content = data_encoding::BASE64.decode(file.content.as_bytes());
    let (true, Ok(content)) = (inside, content) else {
        let message = format!("the site sent a file that cannot be taken: `{}`", file.path);
        return Err(Failure::new(ExitCode::Fatal, message).into());
    };
    let path = directory.join(relative);
    let write = || -> std::io::Result<()> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut file = fs::OpenOptions::new();
        let mut file = file.write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(&content)?;
        file.sync_all()
    };
    write().map_err(|error| Failure::io(format!("write `{}`", path.display()), error).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: what a host gets of another one's configuration and cannot be right there is left
    /// out, or its operator is told; no network loses its role.
    #[test]
    fn what_is_of_another_hosts_hardware_is_told() {
        let text = r#"
            site = "hpc"
            peer = "h1"
            cpus = 8
            [[network]]
            name = "fast"
            interface = "ens1"
            advertise = ["10.1.1.1:7444"]
            [[network]]
            name = "office"
            role = "never"
            interface = "eno1"
        "#;
        let mut config: Config = toml::from_str(text).unwrap();
        let told = settle_host(&mut config, &["lo".to_owned(), "ens1".to_owned()]);
        assert_eq!((config.cpus, config.networks.len()), (None, 2));
        assert!(config.networks[0].advertise.is_empty());
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[2].contains("`office`") && told[2].contains("`eno1`"), "{told:?}");
        let mut config: Config = toml::from_str("site = \"hpc\"\npeer = \"h1\"").unwrap();
        assert!(settle_host(&mut config, &[]).is_empty());
    }
}
