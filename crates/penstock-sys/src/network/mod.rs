//! Interfaces and sockets.

mod interfaces;
mod socket;

pub use interfaces::{InterfaceAddress, interface_addresses};
pub use socket::{TCP_INFO_BYTES, bind_to_device, set_receive_low_water, tcp_info};
