//! A client of etcd 3.4 and later: its keys, its members, its health.

mod client;
mod health;
mod members;
mod metrics;

pub use client::{
    Answer, Compare, Etcd, EtcdConfig, EtcdError, KeyValue, OPERATIONS_MAX, Operation,
    VALUE_BYTES_MAX,
};
pub use health::{COMPACTION_HINT, Compaction, Standing};
pub use members::{EtcdMember, EtcdStatus, SOMEBODY};
