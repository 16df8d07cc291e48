//! A host joins a site of several peers, with a token of one of them (D5): the issuer's half, and
//! the joiner's.
//!
//! Each peer may become the controller, so that each holds the site's keys: they go to the joiner
//! over the TLS connection that the token pins, after it has proved the token's secret. Its own
//! certificate the joiner issues itself; no key of a peer ever travels.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::Method;
use penstock_api::problem::{Exit, Problem};
use penstock_api::site::{JoinFile, JoinHalf, JoinedSite};
use penstock_io::trust::{
    ALPN_HTTP1, CipherSuite, PairingToken, pairing_client_config, pairing_exporter,
    peer_server_name,
};
use penstock_proto::id::Name;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::TRUST_DIRECTORY;
use super::etcd::files::{DIRECTORY as ETCD_DIRECTORY, MEMBERS, PASSWORD};
use super::site::Site;
use crate::config::Config;
use crate::http;

/// How long the other peer may take for all of it.
const DEADLINE: Duration = Duration::from_secs(20);
/// The keys of a site, in its trust directory.
const KEYS: [&str; 3] = ["authority.pem", "authority.key", "capability.key"];

/// Takes a host into the site: checks its proof, gives it the site's keys.
///
/// # Errors
/// The proof is wrong, the site has one peer only, or the name is taken.
pub(crate) fn accept(
    site: &Site,
    half: &JoinHalf,
    taken: &[Name],
    exporter: &[u8; 32],
    now: u64,
) -> Result<JoinedSite, Problem> {
    let own = site.authority.fingerprint();
    let proof = data_encoding::HEXLOWER.decode(half.proof.as_bytes()).unwrap_or_default();
    site.redeem_invitation(|offer| offer.redeem(now, exporter, &own, &proof).is_ok())?;
    if taken.contains(&half.peer) || half.peer == site.config.peer {
        let title = format!("a peer of this site is called `{}` already", half.peer);
        return Err(Problem::new(Exit::Refused, "peer-taken", title)
            .hint("make another token, and join with another `--peer`"));
    }
    let unreadable = |path: &Path, error: std::io::Error| {
        let title = format!("`{}` cannot be read", path.display());
        Problem::new(Exit::Fatal, "keys", title).because(error)
    };
    let mut files = Vec::new();
    let mut give = |from: PathBuf, to: PathBuf| -> Result<PathBuf, Problem> {
        let content = fs::read(&from).map_err(|error| unreadable(&from, error))?;
        files.push(JoinFile {
            path: to.to_string_lossy().into_owned(),
            content: data_encoding::BASE64.encode(&content),
        });
        Ok(to)
    };
    for key in KEYS {
        let path = Path::new(TRUST_DIRECTORY).join(key);
        give(site.directory.join(&path), path)?;
    }
    let mut config = site.config.clone();
    let Some(cluster) = &mut config.cluster else {
        let title = "this site has one peer only: there is nothing to join";
        return Err(Problem::new(Exit::Refused, "no-cluster", title)
            .hint("`penstock site grow` makes it one of several"));
    };
    if cluster.own_etcd.is_some() {
        for name in [PASSWORD, MEMBERS] {
            let path = Path::new(ETCD_DIRECTORY).join(name);
            give(site.directory.join(&path), path)?;
        }
    }
    let secrets = [
        (&mut cluster.ca, "ca.pem"),
        (&mut cluster.cert, "client.pem"),
        (&mut cluster.key, "client.key"),
        (&mut cluster.password_file, "password"),
    ];
    for (path, name) in secrets {
        if let Some(path) = path {
            *path = give(site.directory.join(&*path), Path::new(ETCD_DIRECTORY).join(name))?;
        }
    }
    let config = toml::to_string(&config).map_err(|error| {
        Problem::new(Exit::Unclassified, "internal", "the configuration cannot be told")
            .because(error)
    })?;
    tracing::info!(peer = %half.peer, "a host has joined this site");
    Ok(JoinedSite { config, files })
}

/// Joins the site that issued `token` as `peer`; gives its configuration and files. The other peer
/// is who the token says, or nothing is told it.
///
/// # Errors
/// The token is no good, the peer cannot be reached, or it refuses.
pub(crate) async fn join(token: &str, peer: &Name) -> Result<(Config, Vec<JoinFile>), Problem> {
    let token: PairingToken = token.parse().map_err(|error| {
        Problem::new(Exit::Usage, "token", "this is no token to join with").because(error)
    })?;
    let joined = match tokio::time::timeout(DEADLINE, talk(&token, peer)).await {
        Ok(joined) => joined?,
        Err(_) => return Err(super::pairing::unreachable_site(&token, "no answer in time".into())),
    };
    let config: Config = toml::from_str(&joined.config).map_err(|error| {
        let title = "the site's configuration is not what this release understands";
        Problem::new(Exit::Fatal, "version", title).because(error)
    })?;
    Ok((config, joined.files))
}

async fn talk(token: &PairingToken, peer: &Name) -> Result<JoinedSite, Problem> {
    let internal = |error: penstock_io::trust::TrustError| {
        Problem::new(Exit::Fatal, "trust", "joining cannot begin").because(error)
    };
    let suites = CipherSuite::preferred();
    let mut config = (*pairing_client_config(token.authority, &suites).map_err(internal)?).clone();
    config.alpn_protocols = vec![ALPN_HTTP1.to_vec()];
    let tcp = TcpStream::connect(&token.address)
        .await
        .map_err(|error| super::pairing::unreachable_site(token, error.to_string()))?;
    let connector = TlsConnector::from(std::sync::Arc::new(config));
    let tls = connector.connect(peer_server_name(), tcp).await;
    let tls = tls.map_err(|error| super::pairing::refused(&error))?;
    let exporter = pairing_exporter(tls.get_ref().1).map_err(internal)?;
    // A joiner has no authority of its own yet: it stands under the issuer's.
    let proof = data_encoding::HEXLOWER.encode(&token.proof(&exporter, &token.authority));
    let body = http::encode(&JoinHalf { peer: peer.clone(), proof })?;
    let reply = http::send(tls, Method::POST, "/site/v1/join", Some(body)).await?;
    http::decode(&http::read(reply).await?)
}
