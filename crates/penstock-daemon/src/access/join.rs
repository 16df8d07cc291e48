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
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::site::{JoinFile, JoinHalf, JoinedSite};
use penstock_net::trust::{
    ALPN_HTTP1, PairingToken, pairing_client_config, pairing_exporter, peer_server_name,
    preferred_suites,
};
use penstock_proto::id::Name;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::config::Config;
use crate::http;
use crate::managed_etcd::answers::{address_of, answering};
use crate::managed_etcd::files::{
    AUTHORITY, DIRECTORY as ETCD_DIRECTORY, Files, MEMBERS, PASSWORD,
};
use crate::site::context::Site;
use crate::site_directory::TRUST_DIRECTORY;

/// The time that the other peer has for the whole exchange.
const DEADLINE: Duration = Duration::from_secs(20);
/// The keys of a site, in its trust directory.
const KEYS: [&str; 5] = super::keys::SHARED;

/// Adds a host to the site: checks its proof, returns the site's keys. Blocks, for two seconds if
/// the host is to replace another one.
///
/// # Errors
/// The proof is wrong, the site has one peer only, or the name belongs to a live host.
pub(crate) fn accept(
    site: &Site,
    half: &JoinHalf,
    exporter: &[u8; 32],
    now: u64,
) -> Result<JoinedSite, Problem> {
    let own = site.keys().authority.fingerprint();
    let proof = data_encoding::HEXLOWER.decode(half.proof.as_bytes()).unwrap_or_default();
    site.redeem_invitation(|offer| offer.redeem(now, exporter, &own, &proof).is_ok())?;
    check_free(site, &half.peer)?;
    let unreadable = |path: &Path, error: std::io::Error| {
        let title = format!("`{}` cannot be read", path.display());
        Problem::new(ProblemCode::Keys, title).because(error)
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
        // Links and statements are made by the first rotation.
        if !site.directory.join(&path).exists() {
            continue;
        }
        give(site.directory.join(&path), path)?;
    }
    let mut config = site.config.clone();
    let Some(cluster) = &mut config.cluster else {
        let title = "this site has only one peer, so no host can join it";
        return Err(Problem::new(ProblemCode::NoCluster, title)
            .hint("`penstock site grow` turns it into a site of several peers"));
    };
    if cluster.own_etcd.is_some() {
        for name in [PASSWORD, MEMBERS].into_iter().chain(AUTHORITY) {
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
        Problem::new(ProblemCode::Internal, "cannot send the configuration").because(error)
    })?;
    tracing::info!(peer = %half.peer, "a host has joined this site");
    Ok(JoinedSite { config, files })
}

/// Refuses the name of a host that is present, or is away for a moment only: a host that joins
/// under a name replaces its holder, in etcd too.
fn check_free(site: &Site, peer: &Name) -> Result<(), Problem> {
    let hint = "make another token, and join with another `--peer`";
    if site.has_peer(peer) {
        let title = format!("a peer of this site is called `{peer}` already");
        return Err(Problem::new(ProblemCode::PeerTaken, title).hint(hint));
    }
    let members = Files::of(&site.directory).members();
    let its = members.iter().filter(|member| member.name == peer.as_str());
    let urls = its.flat_map(|member| [member.client_url.as_str(), member.peer_url.as_str()]);
    let mut addresses: Vec<_> = urls.filter_map(address_of).collect();
    addresses.extend(site.last_addresses(peer));
    let Some(address) = answering(&addresses) else { return Ok(()) };
    let title = format!("a host of this site that is called `{peer}` answers at {address}");
    Err(Problem::new(ProblemCode::PeerLives, title)
        .hint(format!("switch it off if this host replaces it, or {hint}")))
}

/// Joins the site that issued `token` as `peer`; returns its configuration and files. Sends data to
/// the other peer only if that is the one of the token.
///
/// # Errors
/// The token is invalid, the peer cannot be reached, or it refuses.
pub async fn join(token: &str, peer: &Name) -> Result<(Config, Vec<JoinFile>), Problem> {
    let token: PairingToken = token.parse().map_err(|error| {
        Problem::new(ProblemCode::Token, "the text is not a token to join with").because(error)
    })?;
    let joined = match tokio::time::timeout(DEADLINE, talk(&token, peer)).await {
        Ok(joined) => joined?,
        Err(_) => return Err(super::pairing::unreachable_site(&token, "no answer in time".into())),
    };
    let config: Config = toml::from_str(&joined.config).map_err(|error| {
        let title = "this release does not understand the configuration of the site";
        Problem::new(ProblemCode::ReplyUnreadable, title).because(error)
    })?;
    Ok((config, joined.files))
}

async fn talk(token: &PairingToken, peer: &Name) -> Result<JoinedSite, Problem> {
    let internal = |error: penstock_net::trust::TrustError| {
        Problem::new(ProblemCode::Trust, "cannot start to join").because(error)
    };
    let suites = preferred_suites();
    let mut config = (*pairing_client_config(token.authority, &suites).map_err(internal)?).clone();
    config.alpn_protocols = vec![ALPN_HTTP1.to_vec()];
    let tcp = TcpStream::connect(&token.address)
        .await
        .map_err(|error| super::pairing::unreachable_site(token, error.to_string()))?;
    let connector = TlsConnector::from(std::sync::Arc::new(config));
    let tls = connector.connect(peer_server_name(), tcp).await;
    let tls = tls.map_err(|error| super::pairing::refused(&error))?;
    let exporter = pairing_exporter(tls.get_ref().1).map_err(internal)?;
    // A joiner has no authority of its own yet: it uses the issuer's.
    let proof = data_encoding::HEXLOWER.encode(&token.proof(&exporter, &token.authority));
    let body = http::encode(&JoinHalf { peer: peer.clone(), proof })?;
    let reply = http::send(tls, Method::POST, "/site/v1/join", Some(body)).await?;
    http::decode(&http::read(reply).await?)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::managed_etcd::files::KnownMember;
    use crate::site::context::tests::site;

    /// Promise: no host joins under the name of a live one, even if that has no card now, for
    /// example while its daemon restarts and its etcd works. The name is free once that host does
    /// not answer.
    #[test]
    fn the_name_of_a_host_that_answers_is_not_free() {
        let directory = tempfile::tempdir().unwrap();
        let site = site(directory.path());
        let code = |peer: &str| check_free(&site, &peer.parse().unwrap()).err().map(|it| it.code);
        assert_eq!(code("h1"), Some(ProblemCode::PeerTaken), "this very peer");
        let etcd = TcpListener::bind("127.0.0.1:0").unwrap();
        let member = KnownMember {
            name: "h3".to_owned(),
            client_url: format!("https://{}", etcd.local_addr().unwrap()),
            peer_url: "https://127.0.0.1:1".to_owned(),
        };
        Files::of(directory.path()).set_members(&[member]).unwrap();
        assert_eq!(code("h3"), Some(ProblemCode::PeerLives));
        assert_eq!(code("h4"), None);
        drop(etcd);
        assert_eq!(code("h3"), None, "it is gone");
    }
}
