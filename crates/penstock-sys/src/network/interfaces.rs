//! The interfaces of this host and their addresses.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// Name of the interface.
    pub device: String,
    /// The address.
    pub address: IpAddr,
    /// Set if the interface is up and has a carrier.
    pub running: bool,
    /// Set if the interface leads only to this host.
    pub loopback: bool,
}

/// Returns the addresses of this host, in the kernel's order, without those of one link only
/// (fe80::/10).
///
/// # Errors
/// The kernel's: no memory or no descriptor is left.
pub fn interface_addresses() -> io::Result<Vec<InterfaceAddress>> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs(3) stores a list there, which is freed below and not kept beyond that.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: the list is sound until it is freed, and ends with a null pointer.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        let Some(address) = address_of(entry.ifa_addr) else { continue };
        // SAFETY: a name of the list is a C string that lives as long as the list.
        let device = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        let has = |flag: libc::c_int| entry.ifa_flags & flag as u32 != 0;
        let running = has(libc::IFF_UP) && has(libc::IFF_RUNNING);
        let loopback = has(libc::IFF_LOOPBACK);
        found.push(InterfaceAddress { device, address, running, loopback });
    }
    // SAFETY: `list` was returned by getifaddrs, and is freed once.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: every socket address begins with its family, and one of a list of interfaces is as
    // long as its family says (getifaddrs(3)). It may be less aligned than the type it is read as.
    unsafe {
        match libc::c_int::from((*address).sa_family) {
            libc::AF_INET => {
                let address = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let address = address.cast::<libc::sockaddr_in6>().read_unaligned();
                let address = Ipv6Addr::from(address.sin6_addr.s6_addr);
                (!address.is_unicast_link_local()).then_some(address.into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the host's own addresses are found, and the loopback is distinguished from the
    /// others.
    #[test]
    fn the_loopback_is_found() {
        let found = interface_addresses().unwrap();
        let local = found.iter().find(|entry| entry.address == IpAddr::from([127, 0, 0, 1]));
        assert!(local.is_some_and(|entry| entry.loopback && entry.running), "{found:?}");
    }
}
