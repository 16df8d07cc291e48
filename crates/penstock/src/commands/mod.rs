//! The commands, a module each: what a command takes, and what it prints.

pub(crate) mod access;
pub(crate) mod bench;
pub(crate) mod cluster;
pub(crate) mod copy;
pub(crate) mod daemon;
pub(crate) mod events;
pub(crate) mod join;
pub(crate) mod paths;
pub(crate) mod peer;
pub(crate) mod plan;
pub(crate) mod queue;
pub(crate) mod shares;
pub(crate) mod site;
pub(crate) mod statistics;
pub(crate) mod status;
pub(crate) mod store;
pub(crate) mod support;
pub(crate) mod transfer;
pub(crate) mod verify;
pub(crate) mod webhook;
