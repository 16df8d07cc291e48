//! The byte stream beneath the frames: a socket with counters, or memory in tests.

use std::io::{self, IoSlice, Write};
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::time::Instant;

use penstock_sys::set_receive_low_water;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::RecvFlags;

/// Longest wait for a low-water mark; then all received bytes are taken. A path that brings a
/// payload more slowly than this gains nothing by waking less often.
const LOW_WATER_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Receives of at least this much wait with a low-water mark.
const LOW_WATER_BYTES: usize = 64 * 1024;

/// Returns the nanoseconds since a moment.
pub(super) fn nanoseconds_since(moment: Instant) -> u64 {
    u64::try_from(moment.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// A stream of received bytes.
pub(super) trait Incoming {
    /// Waits until some bytes have arrived and takes them; 0 is the end.
    fn some(&mut self, buf: &mut [u8]) -> io::Result<usize>;

    /// Waits until `least` bytes have arrived, but not for long, and then takes as many as fit
    /// `buf`: fewer bytes wherever the path is slow; 0 is the end. Call it only for bytes that the
    /// other end is sure to send; `buf` may have room for more.
    fn most(&mut self, buf: &mut [u8], least: usize) -> io::Result<usize>;
}

/// The socket of a lane.
pub(super) struct Wire {
    pub(super) tcp: TcpStream,
    pub(super) received: u64,
    pub(super) sent: u64,
    /// Nanoseconds in calls that take bytes from the kernel, and that hand it bytes.
    pub(super) receiving: u64,
    pub(super) sending: u64,
    /// Set if low-water marks are used.
    use_low_water: bool,
    /// The one that is set; 1 is the kernel's default.
    low_water: usize,
}

impl Wire {
    pub(super) fn new(tcp: TcpStream, use_low_water: bool) -> Self {
        Self { tcp, received: 0, sent: 0, receiving: 0, sending: 0, use_low_water, low_water: 1 }
    }

    /// Sets after how many bytes a receive or a poll wakes.
    pub(super) fn wake_after(&mut self, bytes: usize) -> io::Result<()> {
        if self.use_low_water && self.low_water != bytes {
            set_receive_low_water(self.tcp.as_fd(), bytes)?;
            self.low_water = bytes;
        }
        Ok(())
    }

    /// Counts the bytes that the kernel has accepted, and the time of the call.
    fn handle_taken(&mut self, began: Instant, taken: io::Result<usize>) -> io::Result<usize> {
        self.sending += nanoseconds_since(began);
        self.sent += taken.as_ref().map_or(0, |count| *count as u64);
        taken
    }

    /// Returns whether the low-water mark is reached, or the stream has ended, before `patience` is
    /// over.
    fn poll_readable(&self, patience: Timespec) -> io::Result<bool> {
        let mut polled = [PollFd::new(&self.tcp, PollFlags::IN)];
        match rustix::event::poll(&mut polled, Some(&patience)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn receive(&mut self, buf: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        loop {
            match rustix::net::recv(&self.tcp, &mut *buf, flags) {
                Ok((_, count)) => {
                    self.received += count as u64;
                    return Ok(count);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Incoming for Wire {
    fn some(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let began = Instant::now();
        self.wake_after(1)?;
        let received = self.receive(buf, RecvFlags::empty());
        self.receiving += nanoseconds_since(began);
        received
    }

    fn most(&mut self, buf: &mut [u8], least: usize) -> io::Result<usize> {
        let began = Instant::now();
        let received = self.receive_most(buf, least);
        self.receiving += nanoseconds_since(began);
        received
    }
}

impl Wire {
    fn receive_most(&mut self, buf: &mut [u8], least: usize) -> io::Result<usize> {
        if self.use_low_water && least >= LOW_WATER_BYTES {
            // The mark counts bytes that are queued. A receive that took some of them and then
            // waited for the rest would sleep although all is there, but less than the mark. So the
            // wait comes first, with nothing taken, and is not for ever. A poll also returns with
            // less than the mark when the socket's memory or window is nearly used up
            // (`tcp_epollin_ready`). The receive after it therefore takes the bytes that are there
            // and does not wait.
            self.wake_after(least)?;
            if self.poll_readable(LOW_WATER_WAIT)? {
                match self.receive(buf, RecvFlags::DONTWAIT) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    received => return received,
                }
            }
        }
        self.wake_after(1)?;
        self.receive(buf, RecvFlags::empty())
    }
}

impl Write for Wire {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let began = Instant::now();
        let taken = self.tcp.write(buf);
        self.handle_taken(began, taken)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let began = Instant::now();
        let taken = self.tcp.write_vectored(bufs);
        self.handle_taken(began, taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(any(test, fuzzing))]
impl Incoming for &[u8] {
    fn some(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        io::Read::read(self, buf)
    }

    fn most(&mut self, buf: &mut [u8], _least: usize) -> io::Result<usize> {
        io::Read::read(self, buf)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::{Incoming as _, LOW_WATER_BYTES, Wire};

    /// Promise (f): a lane whose socket is short of memory, as small packets make it, wakes for the
    /// rest of a payload. A receive that had taken what there was and waited with the mark still
    /// set slept until the lane was cut for its silence, 20 s later.
    #[test]
    fn f_a_receive_short_of_memory_does_not_sleep_on_what_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&receiver, 128 * 1024).unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        sender.set_nodelay(true).unwrap();
        let total = LOW_WATER_BYTES + 16 * 1024 + 77;
        let (begun, mut wire) = (Instant::now(), Wire::new(receiver, true));
        let sending = std::thread::spawn(move || {
            let mut sender = sender;
            // Each of them takes the receiver more memory for itself than for its bytes.
            (0..total).step_by(48).for_each(|at| {
                sender.write_all(&[7; 48][..48.min(total - at)]).unwrap();
            });
            sender
        });
        let mut buf = vec![0; total];
        let mut filled = 0;
        while filled < total {
            filled += wire.most(&mut buf[filled..], total - filled).unwrap();
        }
        assert!(buf.iter().all(|&byte| byte == 7));
        assert!(begun.elapsed() < Duration::from_secs(30), "it slept for {:?}", begun.elapsed());
        drop(sending.join().unwrap());
    }
}
