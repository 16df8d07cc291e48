//! Webhooks and `notify.command`: messages to other programs about ended transfers.
//!
//! The controller delivers, at least once. The records of transfers are its outbox: the state has a
//! time for each webhook before which every end was delivered or dropped. A new controller starts
//! with the ends since that time. A message has the same id whichever controller sends it.
//!
//! | module | duty |
//! |---|---|
//! | `registry` | webhooks as operators change them |
//! | `dispatcher` | the ends of transfers, their receivers, the times of delivery |
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
