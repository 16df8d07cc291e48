//! Files, mounts and file systems.

mod descriptor;
mod file_system;
mod mounts;
mod page_cache;
mod xattr;

pub use descriptor::close_file;
pub use file_system::FileSystemKind;
pub use mounts::{MountWithin, mount_options, mounts_within};
pub use page_cache::{cached_pages, cached_pages_in};
pub use xattr::list_xattrs_at;
