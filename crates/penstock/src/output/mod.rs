//! Output for users: progress, plans, lists of failed items, and the files of output options.

pub(crate) mod duration;
pub(crate) mod failed_list;
pub(crate) mod output_file;
pub(crate) mod pace;
pub(crate) mod plan;
pub(crate) mod progress;
pub(crate) mod table;
pub(crate) mod time;
pub(crate) mod time_use;
