//! The connection that a request came over.

use std::net::SocketAddr;

use penstock_net::trust::Vouched;

/// The facts about the connection over which a request arrived.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// The peer at the other end and the authority that vouched for it, which counts at each use;
    /// `None` if it showed no certificate.
    pub(crate) peer: Option<Vouched>,
    /// Value that only the two ends of this connection know (D5).
    pub(crate) exporter: [u8; 32],
    /// The address of the other end.
    pub(crate) from: SocketAddr,
}
