//! Ports that a daemon of a test listens at again after a restart.

use std::net::TcpListener;
use std::ops::Range;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use rand::RngExt;

/// Below the range that Linux takes the ports of outgoing connections from
/// (`ip_local_port_range`, from 32768): there, the connection of another test may have the port
/// between two starts of a daemon.
const PORTS: Range<u16> = 12_000..32_000;

/// Returns a TCP port that no program listens at, and that no other test gets until this process
/// ends.
pub fn free_port() -> u16 {
    let mut rng = rand::rng();
    loop {
        let port = rng.random_range(PORTS);
        // An abstract name ends with its process, and belongs to one network, as ports do.
        let name = SocketAddr::from_abstract_name(format!("penstock-test-port-{port}")).unwrap();
        let Ok(claim) = UnixListener::bind_addr(&name) else { continue };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            std::mem::forget(claim);
            return port;
        }
    }
}
