//! Checks whether a host that counts as lost still answers.

use std::net::{SocketAddr, TcpStream};
use std::thread::Builder;
use std::time::Duration;

/// The time that a host has for a connection before it counts as one that does not answer.
const CONNECT: Duration = Duration::from_secs(2);

/// Returns one of `addresses` that accepts connections; all are tried at once. Blocks for two
/// seconds.
pub(crate) fn answering(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    let answers = |address: &SocketAddr| {
        TcpStream::connect_timeout(address, CONNECT).is_ok().then_some(*address)
    };
    std::thread::scope(|scope| {
        let start = |address| {
            Builder::new().spawn_scoped(scope, move || answers(address)).map_err(|_| address)
        };
        let tried: Vec<_> = addresses.iter().map(start).collect();
        // Without a thread of its own an address is tried after the others.
        tried.into_iter().find_map(|one| match one {
            Ok(thread) => thread.join().ok().flatten(),
            Err(address) => answers(address),
        })
    })
}

/// Returns the address in a URL of a member of etcd.
pub(crate) fn address_of(url: &str) -> Option<SocketAddr> {
    url.strip_prefix("https://")?.parse().ok()
}
