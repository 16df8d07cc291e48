//! Groups of options that `copy` and `transfer submit` have in common.

pub(crate) mod update;
pub(crate) mod select;
