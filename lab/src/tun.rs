//! TUN devices inside network namespaces, with super-packets and partial checksums.
//!
//! The only `unsafe` of the lab is here: three requests of ioctl(2) that no crate wraps.
//! Source: `Documentation/networking/tuntap.rst`, `include/uapi/linux/if_tun.h`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
const TUNSETCARRIER: libc::c_ulong = 0x4004_54e2;
const IFF_TUN: i16 = 0x0001;
const IFF_NO_PI: i16 = 0x1000;
const IFF_VNET_HDR: i16 = 0x4000;
/// Partial checksums; TCP super-packets over IPv4 and IPv6, with ECN.
const OFFLOAD_TCP: libc::c_ulong = 1 | 2 | 4 | 8;
/// UDP super-packets over IPv4 and IPv6, since Linux 6.2.
const OFFLOAD_UDP: libc::c_ulong = 0x20 | 0x40;

/// Runs `work` with this thread inside the namespace that `ip netns` calls `namespace`, then
/// comes back.
///
/// # Errors
/// There is no such namespace, this is not root, or `work` failed.
pub(crate) fn in_namespace<T>(
    namespace: &str,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let home = File::open("/proc/thread-self/ns/net")?;
    let there = File::open(format!("/run/netns/{namespace}"))?;
    let network = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(there.as_fd(), network)?;
    let result = work();
    move_into_link_name_space(home.as_fd(), network)?;
    result
}

/// Makes the TUN device `name` in a namespace; it lives as long as what is given back. Reading
/// and writing it never blocks. Without `offload` the host's kernel hands over single segments.
///
/// # Errors
/// As [`in_namespace`]; the name is taken; /dev/net/tun is missing.
pub(crate) fn open(namespace: &str, name: &str, offload: bool) -> io::Result<OwnedFd> {
    in_namespace(namespace, || {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let device = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
        attach(device.as_fd(), name)?;
        if offload {
            set_offload(device.as_fd(), OFFLOAD_TCP | OFFLOAD_UDP)
                .or_else(|_| set_offload(device.as_fd(), OFFLOAD_TCP))?;
        }
        Ok(device)
    })
}

fn attach(device: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: IFF_TUN | IFF_NO_PI | IFF_VNET_HDR },
    };
    // The last byte stays 0, as the kernel wants the name to end.
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, and `request` is one, alive and ours alone
    // until the call returns. The test `a_lab_delays_cuts_and_restores` makes such devices.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), TUNSETIFF, &raw mut request) };
    check(result)
}

fn set_offload(device: BorrowedFd<'_>, flags: libc::c_ulong) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its argument as a number and touches no memory of ours.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), TUNSETOFFLOAD, flags) };
    check(result)
}

/// Gives a device its carrier or takes it away, as its host sees it: without, `ip link` shows
/// NO-CARRIER.
///
/// # Errors
/// The kernel is older than 5.0.
pub(crate) fn set_carrier(device: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    let value = libc::c_int::from(on);
    // SAFETY: TUNSETCARRIER reads one `int`, and `value` is one that outlives the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), TUNSETCARRIER, &raw const value) };
    check(result)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
