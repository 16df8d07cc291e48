//! Checks of deadlines that are to be promised.

use penstock_proto::id::TransferId;

use super::machine::Queue;
use super::request::{Counter, Request};
use super::wait::UnixMs;

/// The reason why a deadline cannot be promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unkeepable {
    /// Forecast end; `None` if the durations of earlier transfers are unknown.
    pub forecast: Option<UnixMs>,
    /// Transfers that would have to stop or to start later. Empty if that does not help.
    pub would_yield: Vec<TransferId>,
}

impl Queue {
    /// Checks whether the deadline of a transfer, which is in `request.latest_start`, can be
    /// promised beside all earlier promises and the running transfers.
    ///
    /// # Errors
    /// The deadline cannot be promised; the error names the transfers in its way.
    pub fn check_promise(&self, request: &Request, now: UnixMs) -> Result<(), Unkeepable> {
        let id = request.id;
        let mut trial = self.clone();
        trial.handle_submitted(request.clone(), now);
        let reservations = trial.reservations(now);
        let is_reserved = reservations.has(id);
        let in_time = request.latest_start.is_some_and(|latest| latest >= now);
        if is_reserved && in_time && reservations.hold() {
            return Ok(());
        }
        let forecast = trial.forecast(now).get(&id).and_then(|forecast| forecast.end);
        if !is_reserved || !in_time {
            return Err(Unkeepable { forecast, would_yield: Vec::new() });
        }
        // Transfers that end last are the first to yield; promises are the last.
        let counters: Vec<Counter> = request.counters().collect();
        let others = reservations.others(id, &counters);
        let helps = |some: &[TransferId]| reservations.without(some).hold();
        let (mut few, mut many) = (0, others.len());
        if !helps(&others) {
            return Err(Unkeepable { forecast, would_yield: Vec::new() });
        }
        while few + 1 < many {
            let middle = usize::midpoint(few, many);
            if helps(&others[..middle]) { many = middle } else { few = middle }
        }
        Err(Unkeepable { forecast, would_yield: others[..many].to_vec() })
    }
}
