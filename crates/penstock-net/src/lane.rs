//! An open lane: frames out, frames in, and waiting.

use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use penstock_proto::frame::{Framing, Header};
use penstock_proto::id::{LaneId, PeerId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ExtractedSecrets;

use super::clear::{ClearReceiver, ClearSender, MacKey};
use super::error::LaneError;
use super::record::{Opener, Sealer};
use super::socket::SocketOptions;
use super::tcp_info::{LaneRtt, Segments, rtt_of, segments_of, silence_of, unheard_of};
use super::wire::{Wire, nanoseconds_since};

/// Stack of a thread that owns a lane: handshake, records, file system calls, nothing recursive.
/// Beside it the default of 2 MiB is only address space, but a host that does not overcommit
/// memory counts it for each of a thousand lanes.
pub const LANE_STACK_BYTES: usize = 512 * 1024;

/// The event that ended a [`LaneStream::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// [`LaneStream::recv_header`] has something to read: data, the end, or an error.
    Readable,
    /// The interrupt descriptor is readable. It is for its owner to read it; while it stays
    /// readable it goes before data.
    Interrupted,
    /// Neither happened before the timeout.
    Timeout,
}

/// The protection of the two directions.
enum Protection {
    Tls(Box<(Sealer, Opener)>),
    Clear(Box<(ClearSender, ClearReceiver)>),
}

/// An open lane, for the thread that owns it.
///
/// All calls block, none longer than `SocketOptions::io_timeout` without a byte moving. After an
/// error the only use of the lane is to drop it.
pub struct LaneStream {
    wire: Wire,
    protection: Protection,
    peer: PeerId,
    lane: LaneId,
    /// Payload of the last header that was not received yet.
    payload_left: usize,
    /// Nanoseconds in [`LaneStream::send`], and in receiving, with the calls of the kernel.
    sends: u64,
    receives: u64,
}

/// Nanoseconds that a lane's thread has spent in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneWork {
    /// Sealing: encryption, or authentication.
    pub seal: u64,
    /// Handing sealed bytes to the kernel, with the time in which it takes none.
    pub send: u64,
    /// Taking bytes from the kernel, with the wait for the rest of a frame that has begun.
    pub receive: u64,
    /// Opening: decryption and checks.
    pub open: u64,
}

impl LaneStream {
    pub(super) fn tls(
        tcp: TcpStream,
        secrets: ExtractedSecrets,
        peer: PeerId,
        lane: LaneId,
        options: &SocketOptions,
    ) -> Result<Self, LaneError> {
        let sealer = Sealer::new(secrets.tx, options.record_batch)?;
        let opener = Opener::new(secrets.rx, options.record_batch)?;
        Self::new(tcp, Protection::Tls(Box::new((sealer, opener))), peer, lane, options)
    }

    pub(super) fn clear(
        tcp: TcpStream,
        (send, receive): (MacKey, MacKey),
        peer: PeerId,
        lane: LaneId,
        options: &SocketOptions,
    ) -> Result<Self, LaneError> {
        let ends = (ClearSender::new(send), ClearReceiver::new(receive));
        Self::new(tcp, Protection::Clear(Box::new(ends)), peer, lane, options)
    }

    fn new(
        tcp: TcpStream,
        protection: Protection,
        peer: PeerId,
        lane: LaneId,
        options: &SocketOptions,
    ) -> Result<Self, LaneError> {
        let wire = Wire::new(tcp, options.receive_low_water);
        let stream = Self { wire, protection, peer, lane, payload_left: 0, sends: 0, receives: 0 };
        stream.set_io_timeout(options.io_timeout)?;
        Ok(stream)
    }

    /// Sends one frame: `payload` is gathered from slices, so that a pack of small files need not
    /// be copied together. Blocks until the kernel has taken all of it.
    ///
    /// # Errors
    /// `TimedOut` if the other end takes nothing for the lane's time limit, `Io` or `Closed` if it
    /// is gone, `KeyUsedUp` after 2^24 records.
    /// # Panics
    /// If the lengths of `body` and `payload` differ from those in `header`: a mistake of the
    /// caller, after which the two ends would disagree.
    pub fn send(
        &mut self,
        header: &Header,
        body: &[u8],
        payload: &[&[u8]],
    ) -> Result<(), LaneError> {
        assert_eq!(header.body_bytes as usize, body.len(), "the header speaks of another body");
        let payload_bytes: usize = payload.iter().map(|part| part.len()).sum();
        assert_eq!(header.payload_bytes as usize, payload_bytes, "nor of another payload");
        let began = Instant::now();
        let sent = match &mut self.protection {
            Protection::Tls(ends) => ends.0.send(&mut self.wire, header, body, payload),
            Protection::Clear(ends) => ends.0.send(&mut self.wire, header, body, payload),
        };
        self.sends += nanoseconds_since(began);
        sent
    }

    /// Receives header and body of the next frame; `body` is replaced, its memory is used again.
    /// The returned data was protected by the lane: a TLS record that opened, or a MAC that fits.
    ///
    /// # Errors
    /// `Closed` if the other end is done; all other errors of [`LaneError`] but `KeyUsedUp`.
    /// # Panics
    /// If the payload of the frame before was not received to its end.
    pub fn recv_header(&mut self, body: &mut Vec<u8>) -> Result<Header, LaneError> {
        assert_eq!(self.payload_left, 0, "the payload comes before the next header");
        let began = Instant::now();
        let header = match &mut self.protection {
            Protection::Tls(ends) => ends.1.recv_header(&mut self.wire, body),
            Protection::Clear(ends) => ends.1.recv_header(&mut self.wire, body),
        };
        self.receives += nanoseconds_since(began);
        let header = header?;
        self.payload_left = header.payload_bytes as usize;
        Ok(header)
    }

    /// Fills `buf` with the next bytes of the frame's payload, which may be taken in several calls.
    /// On a TLS lane they are the bytes that the source sent. On a clear one only the digest in the
    /// body shows that, so compare before use.
    ///
    /// # Errors
    /// The errors of [`LaneStream::recv_header`]; the content of `buf` is then unreliable.
    /// # Panics
    /// If `buf` is longer than the rest of the payload.
    pub fn recv_payload(&mut self, buf: &mut [u8]) -> Result<(), LaneError> {
        assert!(buf.len() <= self.payload_left, "the frame has no payload left");
        self.payload_left -= buf.len();
        let began = Instant::now();
        let received = match &mut self.protection {
            Protection::Tls(ends) => ends.1.recv_payload(&mut self.wire, buf),
            Protection::Clear(ends) => ends.1.recv_payload(&mut self.wire, buf),
        };
        self.receives += nanoseconds_since(began);
        received
    }

    /// Waits until something can be received, `interrupt` (an eventfd) is readable, or `timeout`
    /// has passed. Bytes that came earlier and lie in the lane's own buffers count.
    ///
    /// `Readable` promises the start of a frame, not all of it: receiving may still block.
    ///
    /// # Errors
    /// That of poll(2), which means that the process is out of resources.
    pub fn wait(&mut self, interrupt: BorrowedFd<'_>, timeout: Duration) -> io::Result<Wake> {
        let buffered = match &self.protection {
            Protection::Tls(ends) => ends.1.has_data(),
            Protection::Clear(ends) => ends.1.has_data(),
        };
        if !buffered {
            self.wire.wake_after(1)?;
        }
        let timeout = if buffered { Duration::ZERO } else { timeout };
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).ok();
            let mut fds = [
                PollFd::from_borrowed_fd(interrupt, PollFlags::IN),
                PollFd::new(&self.wire.tcp, PollFlags::IN),
            ];
            match poll(&mut fds, left.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
                Ok(_) if !fds[0].revents().is_empty() => return Ok(Wake::Interrupted),
                Ok(_) if buffered || !fds[1].revents().is_empty() => return Ok(Wake::Readable),
                Ok(_) => return Ok(Wake::Timeout),
            }
        }
    }

    /// Tells the other end that this end sends nothing more: `close_notify` on TLS lanes, then the
    /// end of the TCP stream. Bytes from the other end can still be received.
    ///
    /// # Errors
    /// The errors of [`LaneStream::send`]; the lane may be dropped all the same.
    pub fn close(&mut self) -> Result<(), LaneError> {
        if let Protection::Tls(ends) = &mut self.protection {
            ends.0.close(&mut self.wire)?;
        }
        Ok(self.wire.tcp.shutdown(Shutdown::Write)?)
    }

    /// Returns a handle by which another thread ends the lane at once.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn closer(&self) -> io::Result<LaneCloser> {
        Ok(LaneCloser { tcp: self.wire.tcp.try_clone()? })
    }

    /// Changes how long a call may block without a byte moving; `SocketOptions::io_timeout` until
    /// then.
    ///
    /// # Errors
    /// If `limit` is zero.
    pub fn set_io_timeout(&self, limit: Duration) -> io::Result<()> {
        self.wire.tcp.set_read_timeout(Some(limit))?;
        self.wire.tcp.set_write_timeout(Some(limit))
    }

    /// Returns the peer at the other end, by its certificate.
    pub fn peer(&self) -> &PeerId {
        &self.peer
    }

    /// Returns the name of the cipher that seals payload, as `AES-256-GCM`; `clear` where frames
    /// are authenticated and not sealed.
    pub fn cipher(&self) -> &'static str {
        match &self.protection {
            Protection::Tls(ends) => ends.0.cipher(),
            Protection::Clear(_) => "clear",
        }
    }

    /// Returns the lane's number.
    pub fn lane(&self) -> LaneId {
        self.lane
    }

    /// Returns the protection of the frames.
    pub fn framing(&self) -> Framing {
        match self.protection {
            Protection::Tls(_) => Framing::Tls,
            Protection::Clear(_) => Framing::Clear,
        }
    }

    /// Returns the protection of the frames, in words: `TLS 1.3 with AES-256-GCM`, or authenticated
    /// clear.
    pub fn protection(&self) -> String {
        match &self.protection {
            Protection::Tls(both) => format!("TLS 1.3 with {}", both.0.cipher()),
            Protection::Clear(_) => "not encrypted, authenticated".to_owned(),
        }
    }

    /// Returns the bytes received since the hello, with frames and TLS records. Plain numbers of
    /// the owning thread: no cache line is shared per stride.
    pub fn bytes_received(&self) -> u64 {
        self.wire.received
    }

    /// Returns the bytes sent since the hello, likewise.
    pub fn bytes_sent(&self) -> u64 {
        self.wire.sent
    }

    /// Returns the time that was spent in the lane since the last call, but for
    /// [`LaneStream::wait`]. Plain numbers of the owning thread, likewise.
    pub fn take_work(&mut self) -> LaneWork {
        let (send, receive) =
            (std::mem::take(&mut self.wire.sending), std::mem::take(&mut self.wire.receiving));
        LaneWork {
            seal: std::mem::take(&mut self.sends).saturating_sub(send),
            send,
            receive,
            open: std::mem::take(&mut self.receives).saturating_sub(receive),
        }
    }

    /// Returns the round-trip times that TCP measured.
    ///
    /// # Errors
    /// None in practice; the kernel's if it has no TCP_INFO.
    pub fn rtt(&self) -> io::Result<LaneRtt> {
        rtt_of(&self.wire.tcp)
    }

    /// Returns the addresses of both ends: the local one, the remote one.
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.wire.tcp.local_addr()?, self.wire.tcp.peer_addr()?))
    }
}

impl AsFd for LaneStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.tcp.as_fd()
    }
}

impl fmt::Debug for LaneStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneStream")
            .field("peer", &self.peer)
            .field("lane", &self.lane)
            .field("framing", &self.framing())
            .finish_non_exhaustive()
    }
}

/// Ends a lane from another thread: a thread that blocks on the lane gets an error at once.
#[derive(Debug)]
pub struct LaneCloser {
    tcp: TcpStream,
}

impl LaneCloser {
    /// Ends both directions. A lane that is gone already is no error.
    pub fn shutdown(&self) {
        // The only failure is `NotConnected`, which is the wanted state.
        let _ = self.tcp.shutdown(Shutdown::Both);
    }

    /// Returns the time since data last arrived. A lane on a slow path may take minutes for one
    /// stride and is alive all the while. A lane whose socket cannot be asked returns the longest
    /// time.
    pub fn silence(&self) -> Duration {
        silence_of(&self.tcp).unwrap_or(Duration::MAX)
    }

    /// Returns the time since TCP last received anything, acknowledgements of probes included. With
    /// `SocketOptions::probe_after` a live path answers that often, whatever the other end does.
    pub fn unheard(&self) -> Duration {
        unheard_of(&self.tcp).unwrap_or(Duration::MAX)
    }

    /// Segments with data that TCP has received, in order or not, long before a whole stride of
    /// them can be read from a slow path. None if TCP cannot be asked.
    pub fn segments(&self) -> Option<Segments> {
        segments_of(&self.tcp).ok()
    }
}
