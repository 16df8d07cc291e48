//! Webhooks and `notify.command`: other programs are told of transfers that have ended.
//!
//! The controller delivers, at least once. The records of transfers are its outbox: the state keeps
//! for each webhook a time before which every end is delivered or given up, and a controller begins
//! with what has ended since. A message has the same id whichever controller sends it.
//!
//! | module | duty |
//! |---|---|
//! | `registry` | webhooks as operators change them |
//! | `dispatcher` | what ends, to whom it is to be told, when |
//! | `outbox` | messages that wait for one receiver, and when each is due |
//! | `message` | bodies and ids |
//! | `receiver` | an attempt to deliver a message over HTTP |
//! | `command` | an attempt to deliver a message to `notify.command` |
//! | `signature` | signatures of requests |
//! | `delivery_log` | attempts, for operators |

mod command;
mod delivery_log;
mod dispatcher;
mod message;
mod outbox;
mod receiver;
mod registry;
mod signature;

pub(crate) use dispatcher::Dispatcher;
pub(crate) use registry::Webhooks;
