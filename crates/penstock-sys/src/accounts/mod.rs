//! Accounts of this host, and threads that use files as one of them.

mod account;
mod acting;
mod credentials;

pub use account::{Account, AccountError};
pub use acting::{Acting, act_as_daemon, own_numbers};
pub use credentials::{leave_inherited_account, may_act_as_others};
