//! Calls between a target's controller and one of its peers while a transfer runs.
//!
//! The controller hands out [`Work`]; the peer answers with [`Report`]s. Both are plain data, so
//! that the same types serve a peer in the same process and one across the network. A peer keeps a
//! report until the controller has committed it, and repeats it to the next controller (hard case
//! A7).

pub(crate) mod control;
pub(crate) mod decision;
pub(crate) mod spec;
pub(crate) mod target_peer;

pub use control::{Adopted, LeaseStatus, Task, TaskControl, TaskFigures};
pub use decision::{TaskDecision, TaskDecisionKind};
pub use penstock_proto::task::{Report, Work, WorkReply};
pub use spec::{Mended, MountSeen, Room, SourceAccess, TaskSpec, TaskStart};
pub use target_peer::TargetPeer;

pub use crate::run::task_page::TaskPage;
