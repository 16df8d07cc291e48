//! Options of a transfer, as users write them.

pub mod deadline;
pub mod limits;
pub(crate) mod plan_use;
pub mod preserve;
pub mod select;
pub mod update;
