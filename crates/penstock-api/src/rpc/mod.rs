//! Requests between the peers of one site under `/peer/v1` (docs/protocol.md, 15).
//!
//! | module | requests |
//! |---|---|
//! | [`task`] | of a controller to a target peer: a task, and calls with one answer |
//! | [`streaming`] | of a controller to a target peer: calls that take long |
//! | [`source`] | of a controller to the peer that reads a source store |

pub mod source;
pub mod streaming;
pub mod task;
