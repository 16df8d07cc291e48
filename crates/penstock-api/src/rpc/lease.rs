//! Answers of a controller about its tenure and its orders.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Time for which a peer may act by an order to delete before it asks whether the order still
/// holds.
pub const ORDER_HOLDS: Duration = Duration::from_secs(10);
/// Time for which a peer may act by an order on a source before it asks whether the order still
/// holds.
pub const SOURCE_ORDER_HOLDS: Duration = Duration::from_secs(6);

/// Time for which an order holds from the moment of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderLeft {
    /// Milliseconds; 0 if the order is over, or was never given.
    pub left_ms: u64,
}
