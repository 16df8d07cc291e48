//! What a site remembers: transfers, heads of ledgers, pairings, stubs.
//!
//! One SQLite database in the site directory, in WAL mode. Two kinds of commit (hard case A8):
//!
//! - *plain*: `synchronous=NORMAL`. The frames are in the page cache when it returns: it survives
//!   `kill -9` of the process, and a power cut may take the last of them.
//! - *durable*: `synchronous=FULL`. The WAL is fsynced before it returns, and with it every plain
//!   commit before: it survives a power cut.
//!
//! The 1 Hz heads are plain; what a user was told, and heads that call something durable, are
//! durable. The caller holds the lock of the site directory: one daemon per database.

mod heads;
mod sites;
mod sqlite;
mod transfers;

pub use sites::Pairing;
pub use sqlite::{SCHEMA_VERSION, SqliteState, StateError};
pub(crate) use transfers::Listed;
pub use transfers::{Stub, TransferRecord, Wish};
