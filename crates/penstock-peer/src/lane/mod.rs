//! Lanes at the target: how they are opened, over which paths, and the loop of each.
//!
//! A lane is one thread that asks for pieces, receives, checks and writes them.

pub(crate) mod breach;
pub(crate) mod byte_tally;
pub(crate) mod dialer;
pub(crate) mod lane_handle;
pub(crate) mod local;
pub(crate) mod open_lanes;
pub(crate) mod path_book;
pub(crate) mod path_notes;
pub(crate) mod paths;
pub(crate) mod preconnect;
pub(crate) mod slow_start;
pub(crate) mod target_lane;
pub(crate) mod thread_time;
pub(crate) mod waiting_connections;
