//! Calls daemons as whoever holds a trust directory does, with nothing of the program under test.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use penstock_net::trust::{
    CipherSuite, PeerCertificate, Purpose, SiteAuthority, TrustStore, client_config,
    peer_server_name,
};
use penstock_proto::id::PeerId;
use rustls::{ClientConnection, StreamOwned};

use super::Site;

/// Where a site of one peer takes requests.
pub fn address_of(site: &Site) -> SocketAddr {
    let text = site.ok(&["site", "list", "--json"]);
    let own: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    own["addresses"][0].as_str().unwrap().parse().unwrap()
}

/// Makes a trust directory with the authority of another one, for a peer that it names.
pub fn issue_anew(stolen: &Path, to: &Path, site: &str, peer: &str) {
    let authority = SiteAuthority::load(stolen).unwrap();
    let peer = PeerId { site: site.parse().unwrap(), peer: peer.parse().unwrap() };
    authority.save(to).unwrap();
    authority.issue_peer(&peer).unwrap().save(to).unwrap();
}

/// Returns whether a daemon of `site` answers with status 200 to the holder of a trust directory.
pub fn answered(trust: &Path, site: &Site, address: SocketAddr, path: &str) -> bool {
    let identity = PeerCertificate::load(trust).unwrap();
    // Whom it calls is no question here: the authority of the site as it is now.
    let theirs = SiteAuthority::load(&site.dir.join("trust")).unwrap();
    let known = Arc::new(TrustStore::new(theirs.certificate().clone()).unwrap());
    let suites = CipherSuite::preferred();
    let name = Some(theirs.site().clone());
    let config = client_config(Purpose::SiteApi, &identity, &known, name, &suites).unwrap();
    let mut config = (*config).clone();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let Ok(tcp) = TcpStream::connect(address) else { return false };
    tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let connection = ClientConnection::new(Arc::new(config), peer_server_name()).unwrap();
    let mut stream = StreamOwned::new(connection, tcp);
    let text = format!(
        "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\npenstock-site-version: 1\r\n\r\n"
    );
    let mut status = [0; 12];
    let asked = stream.write_all(text.as_bytes()).and_then(|()| stream.read_exact(&mut status));
    asked.is_ok() && status.ends_with(b" 200")
}
