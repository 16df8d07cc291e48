//! Every system call of Penstock: the only crate with `unsafe`, and the only one that touches
//! files, sockets, clocks and keys.
//!
//! It acts and does not decide: what to read, send, write or retry is said by the machines of
//! `penstock-engine`, at run time by `penstock-peer`. Storage blocks and is called from plain
//! threads. Each function says whether it blocks, and each error what failed on what.
//!
//! | module | what it does |
//! |---|---|
//! | [`buffer`] | hot, aligned buffers that return themselves |
//! | [`checksum`] | checksums of whole files for catalogues, several in one pass |
//! | [`net`] | lanes: frames between two peers, over TLS or in clear under a MAC |
//! | [`store`] | lists and reads sources, writes and publishes at targets, never outside a root |
//! | [`sys`] | what the host says about itself; event flags and lock files |
//! | [`trust`] | certificates, and who is believed |

#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]

pub mod buffer;
pub mod checksum;
pub mod net;
pub mod store;
pub mod sys;
pub mod trust;
