//! Calls between a controller and the peers of a run, and the state that a run commits.

pub mod delete;
pub mod fence;
pub mod heads;
pub mod peers;
pub mod removal;
pub mod request;
pub mod scan;
pub mod task;
pub(crate) mod task_page;
