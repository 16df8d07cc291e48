//! Making entries: files under temporary names, their bytes and attributes, final names.

pub(crate) mod attributes;
pub(crate) mod create;
pub(crate) mod direct;
pub(crate) mod file;
pub(crate) mod nodes;
mod publish;
pub(crate) mod rules;
pub(crate) mod writeback;

pub use attributes::{Attributes, NotSet, set_dir_attributes};
pub use create::LeftOver;
pub use file::WriteFile;
pub use writeback::Writeback;
