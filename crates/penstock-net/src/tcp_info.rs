//! Figures that TCP keeps of a connection (`TCP_INFO`, tcp(7)).

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use penstock_sys::{TCP_INFO_BYTES, tcp_info};

/// Paths with a shorter round trip than this are of one site: a queue on the way may be many round
/// trips deep.
pub(super) const NEAR: Duration = Duration::from_millis(2);

/// Round trips of a lane, as TCP measured them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneRtt {
    /// Smoothed.
    pub smoothed: Duration,
    /// The least of the last minutes: the path without its queues.
    pub min: Duration,
}

/// Segments with data that a connection has received. The counts wrap around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// All segments, in order or not.
    pub all: u32,
    /// Segments that arrived while an earlier one was missing; 0 before Linux 5.4.
    pub behind: u32,
    /// About how many bytes each has.
    pub bytes: u32,
}

/// Offset of `tcpi_rcv_mss`, bytes of payload of a segment as they come.
const TCP_INFO_SEGMENT: usize = 20;
/// Offset of `tcpi_last_data_recv`, milliseconds since then.
const TCP_INFO_LAST_RECEIVED: usize = 52;
/// Offset of `tcpi_last_ack_recv`, likewise of the last acknowledgement.
const TCP_INFO_LAST_ACKNOWLEDGED: usize = 56;
/// Offset of `tcpi_rtt`, microseconds (linux/tcp.h; the layout is ABI).
const TCP_INFO_RTT: usize = 68;
/// Offset of `tcpi_min_rtt`, microseconds.
const TCP_INFO_MIN_RTT: usize = 148;
/// Offset of `tcpi_data_segs_in`, a count that wraps around.
const TCP_INFO_SEGMENTS: usize = 152;
/// Offset of `tcpi_rcv_ooopack`, likewise.
const TCP_INFO_BEHIND: usize = 224;

/// Returns TCP's round-trip times of a connection.
///
/// # Errors
/// The kernel's, if this is not a TCP socket.
///
/// # For tests
/// In builds with debug assertions, and in no others, `PENSTOCK_TEST_RTT_MS` replaces TCP's value,
/// so that a test on one host can have a long path.
pub fn rtt_of(socket: impl AsFd) -> io::Result<LaneRtt> {
    let given =
        if cfg!(debug_assertions) { std::env::var("PENSTOCK_TEST_RTT_MS").ok() } else { None };
    if let Some(rtt) = given.and_then(|text| text.parse().ok()).map(Duration::from_millis) {
        return Ok(LaneRtt { smoothed: rtt, min: rtt });
    }
    let info = tcp_info(socket.as_fd())?;
    let microseconds = |at| Duration::from_micros(u64::from(word_of(&info, at)));
    Ok(LaneRtt { smoothed: microseconds(TCP_INFO_RTT), min: microseconds(TCP_INFO_MIN_RTT) })
}

/// Returns the time since TCP received the last data of a connection.
///
/// # Errors
/// The kernel's, if this is not a TCP socket.
pub(super) fn silence_of(socket: impl AsFd) -> io::Result<Duration> {
    let info = tcp_info(socket.as_fd())?;
    Ok(Duration::from_millis(u64::from(word_of(&info, TCP_INFO_LAST_RECEIVED))))
}

/// Returns the time since TCP received anything of a connection, acknowledgements of its probes
/// included.
///
/// # Errors
/// The kernel's, if this is not a TCP socket.
pub(super) fn unheard_of(socket: impl AsFd) -> io::Result<Duration> {
    let info = tcp_info(socket.as_fd())?;
    let milliseconds =
        word_of(&info, TCP_INFO_LAST_RECEIVED).min(word_of(&info, TCP_INFO_LAST_ACKNOWLEDGED));
    Ok(Duration::from_millis(u64::from(milliseconds)))
}

/// Returns the segments that TCP has received of a connection, read or not.
///
/// # Errors
/// The kernel's, if this is not a TCP socket.
pub(super) fn segments_of(socket: impl AsFd) -> io::Result<Segments> {
    let info = tcp_info(socket.as_fd())?;
    let word = |at| word_of(&info, at);
    Ok(Segments {
        all: word(TCP_INFO_SEGMENTS),
        behind: word(TCP_INFO_BEHIND),
        bytes: word(TCP_INFO_SEGMENT),
    })
}

fn word_of(info: &[u8; TCP_INFO_BYTES], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&info[at..at + 4]);
    u32::from_ne_bytes(bytes)
}
