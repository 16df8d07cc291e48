//! Addresses on the command line.

use std::net::SocketAddr;

/// Reads an address with its port.
///
/// # Errors
/// Says what an address looks like.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "give an IP address and a port, as in 192.0.2.1:7444 or [2001:db8::1]:7444".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: who gives half an address learns how a whole one looks.
    #[test]
    fn an_address_has_a_port() {
        for text in ["192.0.2.1:7444", "[2001:db8::1]:7444"] {
            assert!(address(text).is_ok() && address("7444").unwrap_err().contains(text));
        }
    }
}
