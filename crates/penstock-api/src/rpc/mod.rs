//! Requests between the peers of one site under `/peer/v1` (docs/protocol.md, 15).
//!
//! | module | messages |
//! |---|---|
//! | [`mod@benchmark`] | orders to a peer that takes part in a benchmark of a store |
//! | [`call`] | a request of a controller to a peer, and the stream that answers it |
//! | [`lease`] | a question of a peer whether it may still act for a controller |
//! | [`task`] | the conversation of a controller with a task, and the version of all of this |

pub mod benchmark;
pub mod call;
pub mod lease;
pub mod task;
