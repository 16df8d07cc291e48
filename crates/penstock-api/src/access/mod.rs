//! Users, their rights, and the tokens by which programs act for them.
//!
//! A request is made by a [`Principal`]: a person or a program, with a role and the way by which it
//! proved its identity. Each operation of the API needs one [`Right`]. The role decides whether a
//! principal has that right at all; the scopes of a token may only take rights away; grants decide
//! about single stores.
//!
//! | right | viewer | user | operator | administrator | scope of a token |
//! |---|---|---|---|---|---|
//! | see the site | yes | yes | yes | yes | `site:read` |
//! | see transfers | all | own | all | all | `transfers:read` |
//! | list a store | by grant to list or read | the same | yes | yes | `stores:list` |
//! | submit and steer transfers | no | own, by grants | all | all | `transfers:write` |
//! | operate: queue, drain, diagnosis | no | no | yes | yes | `site:operate` |
//! | administer: pairings, peers, users, keys | no | no | no | yes | `site:admin` |
//! | read the audit log | own lines | own lines | own lines | yes | `audit:read` |
//! | read metrics | yes | yes | yes | yes | `metrics:read` |
//! | recover the cluster | no | no | no | no | root on the socket |

mod account;
mod audit;
mod directory;
mod id;
mod login;
mod me;
mod principal;
mod role;
mod scope;
mod token;
mod user;

pub use account::{AccountName, AccountNameError};
pub use audit::{AuditChecked, AuditFault, AuditLine, CHAIN_BEGIN, check_audit};
pub use directory::{Directory, TokenRefused};
pub use id::{ParseAccessIdError, SessionId, TokenId};
pub use login::*;
pub use me::MeView;
pub use principal::{Access, Denied, Principal, Via};
pub use role::{Right, Role};
pub use scope::{Scope, UnknownScope};
pub use token::{
    TOKEN_DAYS_DEFAULT, TOKEN_DAYS_MAX, Token, TokenRequest, TokenSecret, TokenText, TokenView,
};
pub use user::{StoreGrant, User, UserRequest, UserView};
