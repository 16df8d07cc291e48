//! The events of this site, as this peer has seen them.
//!
//! | module | duty |
//! |---|---|
//! | `log` | the events, in memory and in two files of the site directory |
//! | `membership`, `etcd`, `stores`, `paths`, `transfers`, `part` | events of these |

mod etcd;
pub(crate) mod log;
mod membership;
mod part;
mod paths;
mod stores;
mod transfers;
