//! Rights and limits: keys and certificates, pairings, tokens, and budgets.
//!
//! | module | duty |
//! |---|---|
//! | `keys` | the own keys, statements about them, and keys that are revoked |
//! | `rotation` | replacing the keys of the site, at all peers and at paired sites |
//! | `renewal` | renewing this peer's certificate |
//! | `receipt_keys` | keys of receipts: signing, and checking signatures |
//! | `signing` | signing receipts for the site, by its keys of the moment |
//! | `pairing` | making another site known, by a token |
//! | `join` | taking a host into the site, by a token |
//! | `rights` | ending lanes whose rights have ended |
//! | `authentication` | the principal of a request of the API: users and tokens |
//! | `users` | users and tokens, changed at the controller |
//! | `login` | passwords, sessions, one-time links, programs that a user approves |
//! | `audit_log` | a line for each request that changes the state, or is refused |
//! | `admission` | limits to connections without credentials |
//! | `budget` | limits to the use by each paired site |
//! | `breaches` | peers that break the lane protocol |

pub(crate) mod admission;
pub(crate) mod audit_log;
pub(crate) mod authentication;
pub(crate) mod breaches;
pub(crate) mod budget;
pub mod join;
pub(crate) mod keys;
pub(crate) mod login;
pub(crate) mod pairing;
pub mod receipt_keys;
pub(crate) mod renewal;
pub(crate) mod rights;
pub(crate) mod rotation;
pub(crate) mod signing;
pub(crate) mod users;
