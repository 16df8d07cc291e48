//! The queue of a site as operators steer it and users see it: rules, actions on many transfers,
//! and the order of those that wait.
//!
//! Users are named as shares count them: by name, or `@SITE` for all that a paired site submits.

mod bulk;
mod rule;
mod view;

pub use bulk::{BULK_MAX, BulkFilter, BulkItem, BulkReply, BulkRequest};
pub use rule::{
    Day, LimitKind, NO_GROUP, PauseRule, PauseRuleRequest, QueueFilter, QueueGroupShare,
    QueueLimit, QueueLimitRequest, QueueRule, QueueShare, QueueShareRequest, QueueWindow,
    QueueWindowRequest, TimeOfDay, TimeOfDayError, WEIGHT_MAX,
};
pub use view::{
    PauseRuleView, QueueEntry, QueueGroupView, QueueLimitView, QueueUserView, QueueView, WindowView,
};
