//! The socket options of a lane, and the socket's knowledge of the path.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::net::sockopt;

use super::control::{is_bbr, settle};
use super::tcp_info::{NEAR, rtt_of};

/// Paths with a shorter round trip than this are within one room. [`ROOM_BUFFER_BYTES`] carry at
/// least 2 GB/s per lane there.
const ROOM: Duration = Duration::from_micros(250);
/// Socket buffers on such a path: one stride, which the kernel doubles.
const ROOM_BUFFER_BYTES: usize = 512 * 1024;
/// A socket option that could not be set.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct SocketError {
    /// The step, with the value if a user chose it.
    pub what: String,
    /// The error of the system.
    pub source: io::Error,
}

impl SocketError {
    pub(super) fn new(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self { what: what.into(), source: source.into() }
    }
}

/// Bytes that a lane over a longer path may have received and not read, from its beginning. The
/// kernel would reach that size by itself, but grows its buffer only by the bytes read in a round
/// trip. While the rate of a path rises, the sender waits for that (docs/design/0007).
const FAR_WINDOW_BYTES: usize = 4 * 1024 * 1024;

/// The options of a lane's socket. The default suits a local network; the engine chooses buffers
/// and congestion control by path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// SO_SNDBUF in bytes (the kernel doubles the value for its own needs), beyond
    /// `net.core.wmem_max` with CAP_NET_ADMIN; `None` leaves it to autotuning.
    pub send_buffer_bytes: Option<usize>,
    /// SO_RCVBUF, likewise.
    pub receive_buffer_bytes: Option<usize>,
    /// Makes a receive of a large payload wake once, when all of it has arrived (SO_RCVLOWAT), and
    /// not for each packet. That saves a fifth of the CPU where both ends are on different cores
    /// (docs/design/0001, X2). It is on only while such a receive waits, so headers arrive at once.
    pub receive_low_water: bool,
    /// TCP congestion control by its kernel name; `None` is the host's default.
    pub congestion: Option<String>,
    /// Data that stays unacknowledged for this long, or probes of an idle lane, end it.
    pub dead_after: Duration,
    /// Interval of TCP's probes of a silent other end, where another lane could take over.
    /// [`super::LaneCloser::unheard`] then distinguishes a dead path from a quiet one.
    pub probe_after: Option<Duration>,
    /// No single send or receive takes longer without moving a byte.
    pub io_timeout: Duration,
    /// TLS records that are sealed or opened per system call, 1 to 32. A lane holds that many times
    /// 16 KiB of memory while it sends a frame or receives a large payload.
    pub record_batch: usize,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            receive_low_water: true,
            congestion: None,
            dead_after: Duration::from_secs(30),
            probe_after: None,
            io_timeout: Duration::from_secs(30),
            record_batch: 16,
        }
    }
}

impl SocketOptions {
    /// Applies the options of the socket itself: buffers, congestion control, probes. Before
    /// `connect` or on a listener, buffers count for the window scale that TCP negotiates; accepted
    /// sockets inherit them.
    ///
    /// # Errors
    /// [`SocketError`] names the option, such as a congestion control this kernel does not have.
    pub fn apply(&self, socket: impl AsFd) -> Result<(), SocketError> {
        let socket = socket.as_fd();
        if let Some(bytes) = self.send_buffer_bytes {
            sockopt::set_socket_send_buffer_size_force(socket, bytes)
                .or_else(|_| sockopt::set_socket_send_buffer_size(socket, bytes))
                .map_err(|source| SocketError::new("set SO_SNDBUF", source))?;
        }
        if let Some(bytes) = self.receive_buffer_bytes {
            sockopt::set_socket_recv_buffer_size_force(socket, bytes)
                .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, bytes))
                .map_err(|source| SocketError::new("set SO_RCVBUF", source))?;
        }
        if let Some(name) = &self.congestion {
            sockopt::set_tcp_congestion(socket, name).map_err(|source| {
                SocketError::new(format!("set congestion control `{name}`"), source)
            })?;
        }
        self.apply_dead_after(socket)
            .map_err(|source| SocketError::new("set keep-alive and time limits of TCP", source))
    }

    /// Fits an open connection to its path, where the configuration leaves the choice. Within a
    /// room small buffers stay in the caches. Below [`NEAR`], where the host's default is a kind of
    /// BBR, CUBIC is used if the host allows it, usually from the beginning (`net::control`). A
    /// model of the path finds nothing there; together with the buffers CUBIC saves a tenth of the
    /// CPU (docs/design/0003). There is a second reason where several sources share a link whose
    /// queue is deeper than its round trip is long. A flow of BBR that first saw the path idle is
    /// starved there by one that first saw it full (0020).
    ///
    /// Over distance the kernel's autotuning of the send buffer and the host's congestion control
    /// are left alone. The autotuning of the receive buffer begins at the size that it would reach.
    /// An option that cannot be set is left as it is: the lane works all the same.
    pub(super) fn fit(&self, socket: impl AsFd) {
        let socket = socket.as_fd();
        let Ok(rtt) = rtt_of(socket) else { return };
        if rtt.min < NEAR {
            let default = sockopt::tcp_congestion(socket);
            if self.congestion.is_none() && default.is_ok_and(|name| is_bbr(&name)) {
                let _ = sockopt::set_tcp_congestion(socket, "cubic");
            }
        } else {
            // Where that of the handshake was not known: it is mostly done by now.
            if self.congestion.is_none() {
                settle(socket);
            }
            if self.receive_buffer_bytes.is_none() {
                let _ = open_window(socket, FAR_WINDOW_BYTES);
            }
        }
        if rtt.min >= ROOM {
            return;
        }
        if self.send_buffer_bytes.is_none() {
            let _ = sockopt::set_socket_send_buffer_size_force(socket, ROOM_BUFFER_BYTES)
                .or_else(|_| sockopt::set_socket_send_buffer_size(socket, ROOM_BUFFER_BYTES));
        }
        if self.receive_buffer_bytes.is_none() {
            let _ = sockopt::set_socket_recv_buffer_size_force(socket, ROOM_BUFFER_BYTES)
                .or_else(|_| sockopt::set_socket_recv_buffer_size(socket, ROOM_BUFFER_BYTES));
        }
    }

    /// Sets four probes over half of `dead_after` when idle, or as often as `probe_after` says;
    /// TCP_USER_TIMEOUT ends both (tcp(7)).
    fn apply_dead_after(&self, socket: BorrowedFd<'_>) -> rustix::io::Result<()> {
        const PROBES: u32 = 4;
        let dead_ms = u32::try_from(self.dead_after.as_millis()).unwrap_or(u32::MAX);
        let interval = self.probe_after.unwrap_or(self.dead_after / (2 * PROBES));
        let idle = self.probe_after.unwrap_or(self.dead_after / 2);
        let second = Duration::from_secs(1);
        sockopt::set_tcp_nodelay(socket, true)?;
        sockopt::set_tcp_user_timeout(socket, dead_ms)?;
        sockopt::set_socket_keepalive(socket, true)?;
        sockopt::set_tcp_keepidle(socket, idle.max(second))?;
        sockopt::set_tcp_keepintvl(socket, interval.max(second))?;
        sockopt::set_tcp_keepcnt(socket, PROBES)
    }
}

/// Binds to a network interface, so that packets leave by it, whatever the routes are (hard case
/// E5). Without CAP_NET_RAW it works since Linux 5.7 if the socket is not bound yet.
pub(super) fn bind_to_device(socket: BorrowedFd<'_>, device: &str) -> Result<(), SocketError> {
    penstock_sys::bind_to_device(socket, device)
        .map_err(|source| SocketError::new(format!("bind to network interface `{device}`"), source))
}

/// Makes the kernel provide room for `bytes`, half of `net.ipv4.tcp_rmem`'s last value at most.
/// Unlike SO_RCVBUF this does not end its autotuning. A low-water mark makes the buffer as large as
/// it needs, and leaves it so (`tcp_set_rcvlowat` in Linux, from 4.18 on).
fn open_window(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    penstock_sys::set_receive_low_water(socket, bytes)?;
    penstock_sys::set_receive_low_water(socket, 1)
}

#[cfg(test)]
mod tests {
    use super::super::tcp_info::segments_of;
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    /// Returns a connection over loopback whose round trip TCP knows to be short.
    fn near_pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut there, _) = listener.accept().unwrap();
        here.set_nodelay(true).unwrap();
        for _ in 0..100_000 {
            if rtt_of(&here).unwrap().min < ROOM {
                break;
            }
            here.write_all(b"?").unwrap();
            there.read_exact(&mut [0]).unwrap();
        }
        (here, there)
    }

    /// Promise: within a room a lane uses small buffers and no BBR by itself, and options that a
    /// user has chosen stay.
    #[test]
    fn a_lane_is_fitted_to_a_near_path_unless_told_otherwise() {
        let (here, _there) = near_pair();
        let told = SocketOptions {
            send_buffer_bytes: Some(64 * 1024),
            receive_buffer_bytes: Some(64 * 1024),
            congestion: Some("reno".to_owned()),
            ..SocketOptions::default()
        };
        told.apply(&here).unwrap();
        told.fit(&here);
        assert_eq!(sockopt::socket_send_buffer_size(&here).unwrap(), 128 * 1024);
        assert_eq!(sockopt::socket_recv_buffer_size(&here).unwrap(), 128 * 1024);
        assert_eq!(sockopt::tcp_congestion(&here).unwrap(), "reno");

        let has_bbr = sockopt::set_tcp_congestion(&here, "bbr").is_ok();
        SocketOptions::default().fit(&here);
        // Without CAP_NET_ADMIN the host's limit may be below the wanted size.
        let send = sockopt::socket_send_buffer_size(&here).unwrap();
        assert!((128 * 1024 + 1..=2 * ROOM_BUFFER_BYTES).contains(&send), "{send}");
        let now = if has_bbr { "cubic" } else { "reno" };
        assert_eq!(sockopt::tcp_congestion(&here).unwrap(), now);
    }

    /// Promise: received segments are counted before a read, as about so many bytes.
    #[test]
    fn segments_are_counted_as_they_come() {
        let (mut here, there) = near_pair();
        let before = segments_of(&there).unwrap();
        here.write_all(&[7; 32 * 1024]).unwrap();
        let now = loop {
            let now = segments_of(&there).unwrap();
            if now.all != before.all {
                break now;
            }
            std::thread::yield_now();
        };
        let count = now.all.wrapping_sub(before.all);
        let sum = u64::from(count) * u64::from(now.bytes);
        assert!((1024..1 << 20).contains(&sum), "{count} segments of {} bytes", now.bytes);
        assert_eq!(now.behind, before.behind, "none was lost");
    }
}
