//! What helps when something is wrong: the examination of a host or a pair of sites, and the
//! bundle of facts for those who are asked for help.

pub(crate) mod bundle;
pub(crate) mod doctor;
mod sysctl_file;
