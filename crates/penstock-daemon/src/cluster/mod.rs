//! A daemon's part in its site: as the only peer, or as one of several.
//!
//! | module | duty |
//! |---|---|
//! | `member` | this peer's part in its site: it follows the leader, or works as the controller |
//! | `leadership` | the lease by which a peer leads: one in etcd, or one that never ends |
//! | `election` | a lease in etcd: standing for election, the site's state and sides under it |
//! | `readiness` | whether this peer serves its site now |
//! | `card` | the card by which the peers of a site know this one |
//! | `controller` | the parts of a controller, and one at work |
//! | `target_side` | the peers that write, as the controller drives them |
//! | `listing` | listing for another peer of the site |

mod card;
pub(crate) mod controller;
pub(crate) mod election;
pub(crate) mod leadership;
pub(crate) mod listing;
pub(crate) mod member;
mod readiness;
pub(crate) mod target_side;
