//! The connection that a request came over.

use std::net::SocketAddr;

use penstock_net::trust::Vouched;

/// What is known of the connection that a request came over.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// The peer at the other end and the authority that vouched for it, which counts at each use;
    /// none if it showed no certificate.
    pub(crate) peer: Option<Vouched>,
    /// Value that only the two ends of this connection know (D5).
    pub(crate) exporter: [u8; 32],
    /// From where.
    pub(crate) from: SocketAddr,
}
