//! Peers on other hosts of this site, as their controller drives them.
//!
//! [`peer::RemotePeer`] is the way to one of them, and its target side ([`target`]): a task is a
//! conversation of its own ([`task`]), everything else a request with one reply ([`call`]). A
//! request ends, or the peer reports that it works on it.

mod call;
pub(crate) mod client;
mod deletion;
mod peer;
pub(crate) mod peers;
pub(crate) mod source;
mod target;
mod task;
