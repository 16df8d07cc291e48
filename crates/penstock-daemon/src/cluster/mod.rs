//! A daemon that is one of several peers of its site.
//!
//! | module | what it owns |
//! |---|---|
//! | `member` | this peer's part in its site: it follows the membership, and leads when elected |
//! | `controller` | the parts of a controller, and one at work |
//! | `target_side` | the peers that write, as the controller drives them |
//! | `listing` | listing for another peer of the site |

pub(crate) mod controller;
pub(crate) mod listing;
pub(crate) mod member;
pub(crate) mod target_side;
