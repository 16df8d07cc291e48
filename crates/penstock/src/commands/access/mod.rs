//! The commands about users, tokens, and the audit log.

pub(crate) mod audit;
pub(crate) mod token;
pub(crate) mod user;
