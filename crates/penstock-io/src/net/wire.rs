//! The byte stream beneath the frames: a socket with counters, or memory in tests.

use std::io::{self, IoSlice, Write};
use std::net::TcpStream;

use rustix::net::RecvFlags;

/// Where bytes come from.
pub(super) trait Incoming {
    /// Waits until some bytes are there and takes them; 0 is the end.
    fn some(&mut self, buf: &mut [u8]) -> io::Result<usize>;

    /// Waits until `buf` is full, the stream ends or the time limit passes; 0 is the end. To be
    /// asked only for bytes that the other end is sure to send.
    fn most(&mut self, buf: &mut [u8]) -> io::Result<usize>;
}

/// The socket of a lane.
pub(super) struct Wire {
    pub(super) tcp: TcpStream,
    pub(super) received: u64,
    pub(super) sent: u64,
}

impl Wire {
    pub(super) fn new(tcp: TcpStream) -> Self {
        Self { tcp, received: 0, sent: 0 }
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
        self.receive(buf, RecvFlags::empty())
    }

    fn most(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.receive(buf, RecvFlags::WAITALL)
    }
}

impl Write for Wire {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let count = self.tcp.write(buf)?;
        self.sent += count as u64;
        Ok(count)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let count = self.tcp.write_vectored(bufs)?;
        self.sent += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
impl Incoming for &[u8] {
    fn some(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        io::Read::read(self, buf)
    }

    fn most(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        io::Read::read(self, buf)
    }
}
