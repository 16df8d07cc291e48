//! Lanes: one TCP connection each, that carries frames of `penstock_proto::frame` from a source
//! peer to a target peer and its requests back.
//!
//! The target dials ([`connect`]) and the source answers ([`accept`], [`accept_blocking`]). Either
//! end could dial, but the order of messages is fixed. After the mutual TLS 1.3 handshake the
//! target sends a hello with its capability, the source a welcome or a refusal. From then on both
//! ends hold a [`LaneStream`], and rustls has done its work:
//!
//! - `Framing::Tls`: our own record layer over rustls' secrets (`record`). It is ordinary TLS 1.3
//!   on the wire, but seals from the stride and opens into it, where rustls would copy and allocate
//!   each 16 KiB. That saves 0.17 to 0.19 CPU s/GiB of 1.2 (docs/design/0001, X4).
//! - `Framing::Clear`: frames in clear (`clear`), each with a MAC over its counter, header and
//!   body, keyed by the same handshake (hard case D3, docs/design/0002). The body holds the digest
//!   of the payload, which the target checks; with BLAKE3 no byte can be altered unseen.
//!
//! A lane has one owner, a thread that sends, receives and waits ([`LaneStream::wait`]). No call
//! blocks for ever: each has the socket's time limit, the handshakes have one deadline. Another
//! thread ends a lane by its [`LaneCloser`]. After any error the only use of a lane is to drop it.
//! Its requests are sent again over another one, so nothing here survives a crash or has to.
//!
//! Bytes go straight into the caller's buffers where the record borders allow. Bytes from a peer
//! are hostile until proven otherwise: lengths are bounded before memory is taken, and every
//! damaged, repeated, reordered or cut byte ends in a [`LaneError`].
//!
//! [`trust`] holds the certificates, and the rules by which they are trusted.

#![forbid(unsafe_code)]

pub mod aead;
mod bind;
mod clear;
mod control;
mod error;
#[cfg(fuzzing)]
pub mod fuzz;
mod handshake;
mod lane;
mod record;
mod socket;
mod tcp_info;
pub mod trust;
mod wire;

#[cfg(test)]
mod tests;

pub use bind::{device_is_bindable, leads_to, listen};
pub use control::{begin_unpaced, settle};
pub use error::{ConnectError, LaneError};
pub use handshake::{
    Dialled, LocalBind, PendingLane, Welcome, accept, accept_blocking, connect, dial,
};
pub use lane::{LANE_STACK_BYTES, LaneCloser, LaneStream, LaneWork, Wake};
pub use penstock_sys::{InterfaceAddress, interface_addresses};
pub use socket::{SocketError, SocketOptions};
pub use tcp_info::{LaneRtt, Segments, rtt_of};
