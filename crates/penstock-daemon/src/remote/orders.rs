//! Orders to other peers that stand: the controller's side of them (B1).
//!
//! A request may lie in the socket of a host that sleeps, long after its controller has given it up
//! and gone on. So a peer asks about an order before it acts by it, and counts from its question
//! for how long it may. Whoever gives an order up tells so from then on, and waits until nobody can
//! act by it any more. An order to delete is for one answer; one to list a data set stands for as
//! long as the transfer needs that, and the peer asks about it again and again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use penstock_api::rpc::lease::OrderLeft;

/// Where a controller is asked about an order, with its number behind.
pub(crate) const ORDER: &str = "/peer/v1/order/";

/// Where it is asked about this one.
pub(crate) fn order_path(order: u64) -> String {
    format!("{ORDER}{order:016x}")
}

/// The orders of this host as a controller.
#[derive(Debug, Default)]
pub(crate) struct Orders(Mutex<HashMap<u64, Given>>);

/// One that stands.
#[derive(Debug)]
struct Given {
    /// How long a peer may act by it that has asked.
    holds: Duration,
    /// Until when one may that has, on `CLOCK_BOOTTIME`; 0 if none has asked.
    until: u64,
}

impl Orders {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Given>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new order, which stands from now on; a peer may act by it for so long after each time that
    /// it asks.
    pub(crate) fn begin(&self, holds: Duration) -> u64 {
        let order = rand::random();
        self.lock().insert(order, Given { holds, until: 0 });
        order
    }

    /// What a peer is told that asks at this path.
    pub(crate) fn left(&self, path: &str) -> OrderLeft {
        let order = path.strip_prefix(ORDER).and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let mut orders = self.lock();
        let Some(given) = order.and_then(|order| orders.get_mut(&order)) else {
            return OrderLeft { left_ms: 0 };
        };
        // Clocks do not run alike: an eighth more, as for grants.
        given.until = penstock_sys::boottime_now().plus(given.holds + given.holds / 8).0;
        OrderLeft { left_ms: given.holds.as_millis() as u64 }
    }

    /// An order is over: the peer has answered it, or it matters no more when it ends.
    pub(crate) fn answered(&self, order: u64) {
        self.lock().remove(&order);
    }

    /// Gives an order up, and blocks until nobody can act by it: for as long as it holds and an
    /// eighth at most.
    pub(crate) fn give_up(&self, order: u64) {
        let until = self.lock().remove(&order).map_or(0, |given| given.until);
        let left = until.saturating_sub(penstock_sys::boottime_now().0);
        std::thread::sleep(Duration::from_nanos(left));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B1: an order that was given up, answered, or never given, allows nothing.
    #[test]
    fn b1_an_order_that_is_over_allows_nothing() {
        let orders = Orders::default();
        let holds = Duration::from_secs(10);
        let (one, other) = (orders.begin(holds), orders.begin(holds));
        let left = |order: u64| orders.left(&order_path(order)).left_ms;
        assert_eq!(u128::from(left(one)), holds.as_millis());
        assert!(orders.lock()[&one].until > penstock_sys::boottime_now().plus(holds).0);
        orders.answered(one);
        orders.give_up(other);
        assert_eq!((left(one), left(other), left(7)), (0, 0, 0));
        assert_eq!(orders.left("/peer/v1/order/").left_ms, 0);
        assert!(orders.lock().is_empty());
    }
}
