//! Options of sockets for which the system-call library has no safe function.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Bytes of `struct tcp_info` that are read: up to `tcpi_rcv_ooopack` (Linux 5.4). Older kernels
/// return fewer, and the rest stays 0.
pub const TCP_INFO_BYTES: usize = 228;

/// Binds a socket to a network interface, so that packets leave by it, whatever the routes are.
/// Without CAP_NET_RAW it works since Linux 5.7 if the socket is not bound yet (SO_BINDTODEVICE).
///
/// # Errors
/// The kernel's: there is no such interface, or no right to it.
pub fn bind_to_device(socket: BorrowedFd<'_>, device: &str) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, device.as_bytes())
}

/// Sets SO_RCVLOWAT: how many bytes must have come before a waiting receive is woken.
///
/// # Errors
/// The kernel's, if this is not a socket.
pub fn set_receive_low_water(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set_option(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, &value.to_ne_bytes())
}

fn set_option(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &[u8],
) -> io::Result<()> {
    // SAFETY: pointer and length are those of `value`, which outlives the call, and the descriptor
    // is open as long as it is borrowed. the tests of lanes would see a wrong length.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the begin of `struct tcp_info` of a connection (TCP_INFO, tcp(7); its layout is ABI).
///
/// # Errors
/// The kernel's, if this is not a TCP socket.
pub fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<[u8; TCP_INFO_BYTES]> {
    let mut info = [0u8; TCP_INFO_BYTES];
    let mut length = std::mem::size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `info`, which is that long, and the
    // descriptor is open as long as it is borrowed. The tests of lanes read the result.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(info) } else { Err(io::Error::last_os_error()) }
}
