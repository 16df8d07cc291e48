//! Sockets that are bound to an interface of this host.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Once;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::control::begin_unpaced;
use super::socket::{SocketError, bind_to_device};

/// Connections that the kernel holds until they are accepted, as tokio has it.
const BACKLOG: i32 = 1024;

/// Listens at an address. With a `device`, accepted connections send by that interface, whatever
/// the routes are (hard case E5). Without the right to that the socket is bound to the address
/// only, and that is logged. Such a listener may exist beside another one of this process at all
/// addresses, which must have been made by this function, too. The caller passes accepted
/// connections to [`super::settle`].
///
/// # Errors
/// The address is taken, or not of this host.
pub fn listen(address: SocketAddr, device: Option<&str>) -> Result<TcpListener, SocketError> {
    let failed = |what: &str, error: rustix::io::Errno| {
        SocketError::new(format!("{what} at {address}"), error)
    };
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)
        .map_err(|error| failed("make a socket", error))?;
    sockopt::set_socket_reuseaddr(&socket, true)
        .map_err(|error| failed("set SO_REUSEADDR", error))?;
    let share = || {
        sockopt::set_socket_reuseport(&socket, true)
            .map_err(|error| failed("set SO_REUSEPORT", error))
    };
    if let Some(device) = device {
        bind_to_device_or_tell(socket.as_fd(), device, Some(address.ip()))?;
        share()?;
    }
    if address.is_ipv6() && device.is_some() {
        sockopt::set_ipv6_v6only(&socket, true)
            .map_err(|error| failed("set IPV6_V6ONLY", error))?;
    }
    rustix::net::bind(&socket, &address).map_err(|error| failed("listen", error))?;
    if device.is_none() {
        // Only now: a second daemon's first listener must find the port taken.
        share()?;
    }
    begin_unpaced(&socket);
    rustix::net::listen(&socket, BACKLOG).map_err(|error| failed("listen", error))?;
    Ok(socket.into())
}

/// Binds a socket to an interface. A kernel before 5.7 allows that with CAP_NET_RAW only. Otherwise
/// the address must do, if there is one, and this is logged once.
pub(super) fn bind_to_device_or_tell(
    socket: BorrowedFd<'_>,
    device: &str,
    address: Option<IpAddr>,
) -> Result<(), SocketError> {
    static TOLD: Once = Once::new();
    match bind_to_device(socket, device) {
        Err(error)
            if address.is_some() && error.source.kind() == io::ErrorKind::PermissionDenied =>
        {
            TOLD.call_once(|| {
                tracing::warn!(
                    device,
                    "lanes are bound to addresses only, not to interfaces: that needs CAP_NET_RAW \
                     or Linux 5.7; several interfaces in one subnet then all use the first one"
                );
            });
            Ok(())
        }
        result => result,
    }
}

/// Checks whether sockets of this process may be bound to an interface.
///
/// # Errors
/// There is no such interface, or no right to it.
pub fn device_is_bindable(device: &str) -> Result<(), SocketError> {
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|error| SocketError::new("make a socket", error))?;
    bind_to_device(socket.as_fd(), device)
}

/// Checks whether an interface leads from one of its addresses to another address, by the routes of
/// this host. Sends nothing: connect(2) of a datagram socket looks the route up.
///
/// # Errors
/// The interface does not lead there (`ENETUNREACH`), the address is not of this host, or sockets
/// cannot be bound to the interface.
pub fn leads_to(device: &str, from: IpAddr, to: IpAddr) -> Result<(), SocketError> {
    let family = if from.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let (kind, flags) = (SocketType::DGRAM, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(family, kind, flags, None)
        .map_err(|error| SocketError::new("make a socket", error))?;
    bind_to_device(socket.as_fd(), device)?;
    rustix::net::bind(&socket, &SocketAddr::new(from, 0))
        .map_err(|error| SocketError::new(format!("bind to {from}"), error))?;
    rustix::net::connect(&socket, &SocketAddr::new(to, 9))
        .map_err(|error| SocketError::new(format!("look up a route to {to}"), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E5: a route is looked up by interface: the loopback leads to itself and nowhere else.
    #[test]
    fn e5_routes_are_looked_up_by_interface() {
        let own = IpAddr::from([127, 0, 0, 1]);
        leads_to("lo", own, IpAddr::from([127, 0, 0, 2])).unwrap();
        assert!(leads_to("no-such-if", own, own).is_err());
        assert!(device_is_bindable("no-such-if").is_err());
    }

    /// E5: a listener of one interface exists beside that at all addresses, and accepts the
    /// connections to its address. A second daemon still finds the port taken.
    #[test]
    fn e5_listeners_of_interfaces_stand_beside_the_general_one() {
        let general = listen("0.0.0.0:0".parse().unwrap(), None).unwrap();
        let port = general.local_addr().unwrap().port();
        let own = SocketAddr::from(([127, 0, 0, 1], port));
        let special = listen(own, Some("lo")).unwrap();
        assert!(listen(SocketAddr::from(([0, 0, 0, 0], port)), None).is_err());
        let _here = std::net::TcpStream::connect(own).unwrap();
        special.set_nonblocking(false).unwrap();
        assert!(special.accept().is_ok());
        let refused = general.accept().map(drop).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    }
}
