//! Errors of a lane.

use std::io;
use std::net::SocketAddr;

use penstock_proto::frame::{FrameKind, Refusal};
use penstock_proto::wire::DecodeError;

use super::socket::SocketError;
use crate::trust::{TrustError, explain};

/// The reason why a lane ended. In every case its requests are sent again over another lane.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaneError {
    /// The kernel reports that the connection failed.
    #[error("the lane's connection failed")]
    Io(#[source] io::Error),
    /// No byte moved for the lane's time limit.
    #[error("the other end was silent for too long")]
    TimedOut,
    /// The other end closed the lane, between two frames.
    #[error("the other end closed the lane")]
    Closed,
    /// The other end closed the lane, or the network cut it, within a frame.
    #[error("the lane was cut within a frame")]
    Truncated,
    /// A frame in clear was altered, repeated, left out or reordered on the way.
    #[error("a frame's MAC is wrong: it was altered, repeated or reordered on the way")]
    Mac,
    /// A TLS record was altered, repeated, left out or reordered on the way.
    #[error("a TLS record cannot be opened: it was altered, repeated or reordered on the way")]
    Record,
    /// The other end ended the lane with a TLS alert (RFC 8446, section 6).
    #[error("the other end ended the lane with TLS alert {0}")]
    Alert(u8),
    /// The other end does not speak TLS 1.3 as lanes do.
    #[error("TLS: {0}")]
    Tls13(&'static str),
    /// The key has protected as many records as it safely may.
    #[error("the lane has carried all that its key may protect")]
    KeyUsedUp,
    /// The TLS handshake failed, or the hello under its protection.
    #[error("TLS handshake: {}", explain(.0))]
    Handshake(#[source] rustls::Error),
    /// The certificate names no peer.
    #[error("the other end's certificate is refused")]
    Trust(#[from] TrustError),
    /// A message cannot be read.
    #[error("a message breaks the protocol")]
    Decode(#[from] DecodeError),
    /// A frame came where it has no place.
    #[error("a {0:?} frame came out of turn")]
    OutOfTurn(FrameKind),
    /// The socket could not be prepared.
    #[error("the lane's socket failed")]
    Socket(#[from] SocketError),
}

impl From<io::Error> for LaneError {
    fn from(error: io::Error) -> Self {
        if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            return Self::Handshake(tls.clone());
        }
        match error.kind() {
            // A socket with a time limit returns `WouldBlock` when it has passed.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::UnexpectedEof => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

/// The reason why a lane did not open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The socket could not be made, bound to its network or set up.
    #[error("cannot prepare a socket to {address}")]
    Socket {
        /// The peer.
        address: SocketAddr,
        /// The option or step that failed.
        source: SocketError,
    },
    /// No TCP connection came about.
    #[error("cannot connect to {address}")]
    Unreachable {
        /// The peer.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The deadline passed.
    #[error("no lane to {address} within the time given")]
    TimedOut {
        /// The peer.
        address: SocketAddr,
    },
    /// A peer of another site answered than the one expected.
    #[error("{address} is another site's peer")]
    WrongPeer {
        /// The peer.
        address: SocketAddr,
        /// The peer that was expected and the peer that answered.
        source: TrustError,
    },
    /// The source rejected the lane, with a reason.
    #[error(transparent)]
    Refused(Refusal),
    /// The handshake or the hello failed.
    #[error("cannot open a lane to {address}")]
    Lane {
        /// The peer.
        address: SocketAddr,
        /// The error of the lane.
        source: LaneError,
    },
}
