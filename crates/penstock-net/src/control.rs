//! The congestion control with which a connection begins.
//!
//! Within a site lanes use CUBIC where the host's default is a kind of BBR (`socket::fit` has the
//! reason). A change is too late for a connection that has begun with BBR. BBR has TCP pace its
//! data, and nothing in Linux makes a socket unpaced again (`sk_pacing_status`, net/ipv4/tcp_bbr.c
//! and tcp_output.c). CUBIC then continues with a timer for each burst, unless the queue of the
//! card is `fq`, which paces all flows by itself. Over loopback that timer cost a sixth of the CPU
//! of a transfer (docs/design/0040). So connections that a daemon accepts, and lanes that it dials,
//! begin with CUBIC. Those whose handshake took long change to the host's default before any data
//! is sent.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::{SocketFlags, SocketType, sockopt};

use super::tcp_info::{NEAR, rtt_of};

/// Makes connections that a listener accepts, or a socket that is not connected yet, begin with
/// CUBIC. This applies where the host's default is a kind of BBR and can be restored. Where the
/// host does not allow that, nothing changes. The caller passes each such connection to [`settle`].
/// Does not block.
pub fn begin_unpaced(socket: impl AsFd) {
    if paced_default(&socket).is_some() {
        let _ = sockopt::set_tcp_congestion(socket, "cubic");
    }
}

/// Restores the host's default for a new connection that began as [`begin_unpaced`] set it, if its
/// path is long or TCP cannot tell yet. Does not block.
pub fn settle(socket: impl AsFd) {
    if let Ok(rtt) = rtt_of(&socket) {
        settle_for(&socket, rtt.min, paced_default(&socket).as_deref());
    }
}

/// Does the work of [`settle`] for a known round trip and default.
fn settle_for(socket: impl AsFd, rtt: Duration, default: Option<&str>) {
    if rtt >= NEAR
        && let Some(default) = default
        && sockopt::tcp_congestion(&socket).is_ok_and(|name| name == "cubic")
    {
        let _ = sockopt::set_tcp_congestion(socket, default);
    }
}

/// Returns whether a congestion control models the path, and so paces: `bbr`, `bbr2`, `bbr3`.
pub(super) fn is_bbr(name: &str) -> bool {
    name.starts_with("bbr")
}

/// Returns the default of new sockets on this host, if it is a kind of BBR. This process must also
/// be able to change to CUBIC and back. `net.ipv4.tcp_allowed_congestion_control` may lack the
/// default, and then only CAP_NET_ADMIN brings it back.
fn paced_default(like: impl AsFd) -> Option<String> {
    let family = sockopt::socket_domain(like).ok()?;
    let scratch =
        rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None).ok()?;
    let default = sockopt::tcp_congestion(&scratch).ok().filter(|name| is_bbr(name))?;
    sockopt::set_tcp_congestion(&scratch, "cubic").ok()?;
    sockopt::set_tcp_congestion(&scratch, &default).ok()?;
    Some(default)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;
    use crate::listen;

    /// Promise: a connection of ours stays with CUBIC on a near path and changes to the host's
    /// default on a long one. A control that a user has chosen, or that we did not set, stays.
    #[test]
    fn a_connection_settles_by_its_path() {
        let listener = listen("127.0.0.1:0".parse().unwrap(), None).unwrap();
        let control = |socket: &TcpStream| sockopt::tcp_congestion(socket).unwrap();
        if paced_default(&listener).is_some() {
            assert_eq!(sockopt::tcp_congestion(&listener).unwrap(), "cubic");
        }
        let _dialled = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        listener.set_nonblocking(false).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        // Another control takes the place of BBR, which a host need not have.
        sockopt::set_tcp_congestion(&accepted, "cubic").unwrap();
        settle_for(&accepted, NEAR / 2, Some("reno"));
        assert_eq!(control(&accepted), "cubic", "a near path");
        settle_for(&accepted, NEAR, None);
        assert_eq!(control(&accepted), "cubic", "a host without BBR");
        settle_for(&accepted, NEAR, Some("reno"));
        assert_eq!(control(&accepted), "reno", "a long path");
        settle_for(&accepted, NEAR, Some("cubic"));
        assert_eq!(control(&accepted), "reno", "chosen");
    }
}
