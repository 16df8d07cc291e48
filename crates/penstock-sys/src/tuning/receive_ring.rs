//! The ring of buffers in which a network card puts received packets.

use std::io;
use std::os::fd::AsRawFd as _;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// `ETHTOOL_GRINGPARAM` of `<linux/ethtool.h>`; needs no right.
const GET_RING: u32 = 0x10;

/// Sizes of a receive ring, in buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveRing {
    /// Size in use.
    pub size: u32,
    /// Greatest size that the driver allows.
    pub size_max: u32,
}

/// `struct ethtool_ringparam` of `<linux/ethtool.h>`, which is ABI.
#[repr(C)]
#[derive(Default)]
struct RingParameters {
    command: u32,
    rx_max: u32,
    rx_mini_max: u32,
    rx_jumbo_max: u32,
    tx_max: u32,
    rx: u32,
    rx_mini: u32,
    rx_jumbo: u32,
    tx: u32,
}

/// Returns the receive ring of an interface (`SIOCETHTOOL`, netdevice(7)). Does not block.
///
/// # Errors
/// The kernel's: no such interface, or a driver that has no rings.
pub(super) fn receive_ring(device: &str) -> io::Result<ReceiveRing> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: all bytes zero are a valid `ifreq`, a structure of integers and a union of such.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if device.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from.cast_signed() as libc::c_char;
    }
    let mut ring = RingParameters { command: GET_RING, ..RingParameters::default() };
    request.ifr_ifru.ifru_data = (&raw mut ring).cast();
    // SAFETY: the kernel reads the command and writes one `ethtool_ringparam` where the request
    // points, which is that structure; both live until the call returns.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(ReceiveRing { size: ring.rx, size_max: ring.rx_max })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: an interface without a ring, one that is not there, and a name that is too long are
    /// errors; a card's ring is not larger than its driver allows.
    #[test]
    fn rings_are_those_of_drivers() {
        for device in ["lo", "nosuch0", "a-name-of-sixteen"] {
            assert!(receive_ring(device).is_err(), "{device}");
        }
        for card in super::super::card_tuning::cards(std::path::Path::new("/")) {
            if let Ok(ring) = receive_ring(&card.device) {
                assert!(ring.size <= ring.size_max, "{}: {ring:?}", card.device);
            }
        }
    }
}
