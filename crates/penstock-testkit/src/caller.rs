//! Calls daemons as the holder of a site's keys does, with nothing of the program under test.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use penstock_net::trust::{
    PeerCertificate, Purpose, SiteAuthority, TrustStore, client_config, peer_server_name,
    preferred_suites,
};
use penstock_proto::id::PeerId;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::site::Site;

impl Site {
    /// Returns the directory of its keys.
    pub fn trust(&self) -> std::path::PathBuf {
        self.dir.join("trust")
    }

    /// Returns its authority.
    pub fn authority(&self) -> SiteAuthority {
        SiteAuthority::load(&self.trust()).unwrap()
    }

    /// Copies its keys, as a thief does.
    pub fn copy_trust(&self, to: &Path) {
        let copied = Command::new("cp").arg("-r").args([&self.trust(), to]).status();
        assert!(copied.unwrap().success());
    }

    /// Returns the TLS configuration of its own peer towards another site.
    pub fn tls_towards(&self, other: &Self, purpose: Purpose) -> Arc<ClientConfig> {
        tls(&PeerCertificate::load(&self.trust()).unwrap(), other, purpose)
    }
}

/// Returns the TLS configuration of the holder of a certificate towards another site, which it
/// knows as that is now.
pub fn tls(identity: &PeerCertificate, other: &Site, purpose: Purpose) -> Arc<ClientConfig> {
    let known = TrustStore::new(other.authority().certificate().clone()).unwrap();
    let name = Some(other.name.parse().unwrap());
    client_config(purpose, identity, &Arc::new(known), name, &preferred_suites()).unwrap()
}

/// Formats a request of the site API: its first line without the protocol, then a body.
pub fn request(line: &str, body: &str) -> String {
    format!(
        "{line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\npenstock-site-version: 1\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends a request and returns the reply as it comes; an error if nothing comes.
pub fn talk(tls: &ClientConfig, address: SocketAddr, request: &str) -> io::Result<String> {
    let mut config = tls.clone();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let connection = ClientConnection::new(Arc::new(config), peer_server_name()).unwrap();
    let tcp = TcpStream::connect(address)?;
    tcp.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut stream = StreamOwned::new(connection, tcp);
    stream.write_all(request.as_bytes())?;
    let mut reply = Vec::new();
    match stream.read_to_end(&mut reply) {
        // A server that closes without a TLS alert has still sent its whole answer.
        Err(error) if reply.is_empty() => Err(error),
        _ => Ok(String::from_utf8_lossy(&reply).into_owned()),
    }
}

/// Returns whether a daemon of `site` answers with status 200 to the holder of a trust directory.
pub fn answered(trust: &Path, site: &Site, address: SocketAddr, path: &str) -> bool {
    let tls = tls(&PeerCertificate::load(trust).unwrap(), site, Purpose::SiteApi);
    let reply = talk(&tls, address, &request(&format!("GET {path}"), ""));
    reply.is_ok_and(|reply| reply.starts_with("HTTP/1.1 200"))
}

/// Makes a trust directory with the authority of another one, for a peer that it names.
pub fn issue_anew(stolen: &Path, to: &Path, site: &str, peer: &str) {
    let authority = SiteAuthority::load(stolen).unwrap();
    let peer = PeerId { site: site.parse().unwrap(), peer: peer.parse().unwrap() };
    authority.save(to).unwrap();
    authority.issue_peer(&peer).unwrap().save(to).unwrap();
}
