//! The state of a running site, of its stores, and of the sites that are paired with it.
//!
//! | module | duty |
//! |---|---|
//! | `context` | configuration, keys, trust, pairings, addresses |
//! | `exports` | the rights of other sites to the stores of this peer |
//! | `settings` | the configuration in force, and its reload |
//! | `admin` | the answers of the local API about the site |
//! | `client` | requests to other sites |
//! | `addresses`, `reported_addresses` | addresses of this host, and those that others report |
//! | `store_cards`, `store_look`, `store_reach` | identities of stores, and their peers |
//! | `grants` | rights of paired sites, as lines of the configuration |
//! | `foreign_scans` | scans that other sites have opened here |
//! | `submission` | transfers that other sites submit |

pub(crate) mod addresses;
pub(crate) mod admin;
pub(crate) mod client;
pub(crate) mod context;
pub(crate) mod exports;
pub(crate) mod foreign_scans;
pub mod grants;
pub(crate) mod reported_addresses;
pub(crate) mod settings;
pub(crate) mod store_cards;
pub(crate) mod store_look;
pub(crate) mod store_reach;
pub(crate) mod submission;
