//! Every system call of Penstock: the only crate with `unsafe`, and the only one that touches
//! files, sockets, clocks and keys.
//!
//! This crate acts and does not decide. The machines of `penstock-engine` decide what to read,
//! send, write or retry; at run time `penstock-peer` calls them. Storage blocks and is called from
//! plain threads. Each function says whether it blocks, and each error which action failed on which
//! object.
//!
//! | module | duty |
//! |---|---|
//! | [`buffer`] | hot, aligned buffers that return themselves |
//! | [`checksum`] | checksums of whole files for catalogues, several in one pass |
//! | [`net`] | lanes: frames between two peers, over TLS or in clear under a MAC |
//! | [`store`] | lists and reads sources, writes and publishes at targets, never outside a root |
//! | [`sys`] | facts about the host; event flags and lock files |
//! | [`trust`] | certificates, and the rules by which they are trusted |

#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]

pub mod buffer;
pub mod checksum;
pub mod net;
pub mod store;
pub mod sys;
pub mod trust;
