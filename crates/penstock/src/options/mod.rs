//! Groups of options that `copy` and `transfer submit` have in common.

pub(crate) mod address;
pub(crate) mod directory;
pub(crate) mod grants;
pub(crate) mod limits;
pub(crate) mod listing;
pub(crate) mod moving;
pub(crate) mod plan;
pub(crate) mod preserve;
pub(crate) mod proof;
pub(crate) mod select;
pub(crate) mod transfer_id;
pub(crate) mod turn;
pub(crate) mod update;
