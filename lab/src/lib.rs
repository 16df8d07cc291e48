//! A laboratory of sites and wide-area networks on one machine.
//!
//! Hosts are network namespaces; each has an interface at every network: a TUN device, whose other
//! end is held by the *emulator*. It gives every packet between two sites the delay of its network,
//! a turn on the wires it passes (of the interface it leaves by, of its site's uplink, of the
//! interface it arrives at), a place in a queue that drops at its tail, and a chance to be lost;
//! links can be cut and restored. Hosts of one site reach each other through the same interface at
//! once. Nothing is needed of the kernel but TUN devices and namespaces: netem is not, as many
//! kernels lack it.
//!
//! On the hosts run real daemons. A site of one peer keeps its state itself; one of several has an
//! etcd of three members, a journal and a store that all its peers share. Each daemon has a mount
//! namespace of its own, in which the store can be unmounted.
//!
//! [`Lab`] is all of that: by hand through [`run`], which is `cargo xtask lab`, where each command
//! finds the lab again by a file below /run; and in tests, where it goes when it is dropped. With
//! `--bare` there are hosts and networks only. `down` ends all processes of the lab and removes its
//! namespaces and files; nothing else is kept on this machine.
#![deny(unsafe_code)]
#![allow(clippy::print_stdout, reason = "talking to the person at the terminal is its job")]

mod cli;
mod control;
mod emulator;
mod etcd;
mod lab;
mod link;
mod network;
mod packet;
mod peers;
mod process;
mod spec;
#[allow(unsafe_code, reason = "requests of ioctl(2) that no crate wraps")]
mod tun;
mod usage;

pub use cli::run;
pub use lab::{Lab, can_run};
