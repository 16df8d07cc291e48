//! Division of rate limits among the transfers that run under them.
//!
//! A transfer may count against several limits: of the site, a pair, stores, its user. Rates rise
//! together, in proportion to the weights, until a limit or the need of a transfer is reached; the
//! others rise on (max-min fairness: D. Bertsekas and R. Gallager, Data Networks, 6.5.2). The rest
//! after all needs are met is divided in the same manner, so that a transfer which could take more
//! finds room. The sum under each limit never exceeds it.

use std::collections::BTreeMap;

use penstock_proto::id::TransferId;

use super::request::Counter;

/// A running transfer, and the rate that it can use.
#[derive(Clone, Debug, PartialEq)]
pub struct RateNeed {
    /// The transfer.
    pub id: TransferId,
    /// The limits that it counts against.
    pub counters: Vec<Counter>,
    /// Weight beside others, above 0.
    pub weight: f64,
    /// Its own limit in bits per second.
    pub most: Option<u64>,
    /// Bits per second that it is known to be able to use; `None` if that is not known.
    pub need: Option<u64>,
}

/// Returns the rate of each transfer that a limit concerns, in bits per second. Transfers that
/// count against no limit are left out.
pub fn divide(needs: &[RateNeed], limits: &BTreeMap<Counter, u64>) -> BTreeMap<TransferId, u64> {
    let limited = |need: &&RateNeed| need.counters.iter().any(|it| limits.contains_key(it));
    let needs: Vec<_> = needs.iter().filter(limited).collect();
    let mut rates = vec![0.0; needs.len()];
    let own = |need: &RateNeed| need.most.map_or(f64::INFINITY, |most| most as f64);
    let wanted = |need: &RateNeed| need.need.map_or(f64::INFINITY, |bits| bits as f64);
    rise(&needs, limits, &mut rates, |need| own(need).min(wanted(need)));
    rise(&needs, limits, &mut rates, own);
    needs.iter().zip(rates).map(|(need, rate)| (need.id, rate as u64)).collect()
}

/// Raises rates together until each has reached its `cap` or a limit.
fn rise(
    needs: &[&RateNeed],
    limits: &BTreeMap<Counter, u64>,
    rates: &mut [f64],
    cap: impl Fn(&RateNeed) -> f64,
) {
    let mut rising: Vec<_> = (0..needs.len()).collect();
    // Each round ends one rise, but for rates so large that a step is lost in rounding.
    for _ in 0..=needs.len() {
        if rising.is_empty() {
            return;
        }
        let (mut room, mut weights) = (limits_left(needs, limits, rates), BTreeMap::new());
        for place in &rising {
            for counter in &needs[*place].counters {
                *weights.entry(counter).or_insert(0.0) += needs[*place].weight;
            }
        }
        room.retain(|counter, _| weights.contains_key(counter));
        let by_limit = room.iter().map(|(counter, left)| left.max(0.0) / weights[counter]);
        let by_cap =
            rising.iter().map(|place| (cap(needs[*place]) - rates[*place]) / needs[*place].weight);
        let step = by_limit.chain(by_cap).fold(f64::INFINITY, f64::min).max(0.0);
        if step.is_infinite() {
            return;
        }
        for place in &rising {
            rates[*place] += step * needs[*place].weight;
        }
        let left = limits_left(needs, limits, rates);
        // A bit more or less is no difference.
        rising.retain(|place| {
            let has_room =
                needs[*place].counters.iter().all(|it| left.get(it).is_none_or(|l| *l > 1.0));
            has_room && cap(needs[*place]) - rates[*place] > 1.0
        });
    }
}

/// Returns the rest of each limit.
fn limits_left<'a>(
    needs: &[&RateNeed],
    limits: &'a BTreeMap<Counter, u64>,
    rates: &[f64],
) -> BTreeMap<&'a Counter, f64> {
    let mut left: BTreeMap<_, _> =
        limits.iter().map(|(counter, limit)| (counter, *limit as f64)).collect();
    for (need, rate) in needs.iter().zip(rates) {
        for counter in &need.counters {
            if let Some(left) = left.get_mut(counter) {
                *left -= rate;
            }
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn need(number: u8, counters: &[Counter], most: Option<u64>, need: Option<u64>) -> RateNeed {
        let counters = counters.to_vec();
        RateNeed { id: TransferId([number; 16]), counters, weight: 1.0, most, need }
    }

    fn counter(number: u8) -> Counter {
        match number {
            0 => Counter::Site,
            1 => Counter::Pair("hpc".parse().unwrap()),
            2 => Counter::Store("scratch".parse().unwrap()),
            _ => Counter::User(format!("user{number}")),
        }
    }

    /// Promise: a transfer that cannot use its part leaves it to the others, and one that no limit
    /// concerns has no rate.
    #[test]
    fn what_one_cannot_use_others_get() {
        let limits = BTreeMap::from([(counter(1), 100_000_000)]);
        let pair = [counter(0), counter(1)];
        let needs = [
            need(1, &pair, None, Some(10_000_000)),
            need(2, &pair, Some(30_000_000), None),
            need(3, &pair, None, None),
            need(4, &[counter(0)], None, None),
        ];
        let rates = divide(&needs, &limits);
        let of = |number| rates.get(&TransferId([number; 16])).copied();
        assert_eq!((of(1), of(2), of(4)), (Some(10_000_000), Some(30_000_000), None));
        assert_eq!(of(3), Some(60_000_000));
        // If the needs of all are met, the rest is divided among them.
        let rates = divide(&needs[..1], &limits);
        assert_eq!(rates[&TransferId([1; 16])], 100_000_000);
    }

    proptest! {
        /// Promise Q5: for any limits, their sums hold, no own limit is exceeded, and no transfer
        /// could get more without a loss for another.
        #[test]
        fn rates_keep_all_limits_and_waste_none(
            limits in prop::collection::btree_map(0..6u8, 1_000_000..1_000_000_000u64, 1..5),
            needs in prop::collection::vec(
                (prop::collection::btree_set(0..6u8, 1..4),
                    prop::option::of(500_000..2_000_000_000u64),
                    prop::option::of(1_000_000..2_000_000_000u64), 1..5u8), 1..12),
        ) {
            let limits: BTreeMap<_, _> =
                limits.into_iter().map(|(number, limit)| (counter(number), limit)).collect();
            let made = |(place, (of, most, wants, weight)): (usize, (BTreeSet<u8>, _, _, u8))| {
                let counters: Vec<_> = of.into_iter().map(counter).collect();
                let weight = f64::from(weight);
                RateNeed { weight, ..need(place as u8, &counters, most, wants) }
            };
            let needs: Vec<_> = needs.into_iter().enumerate().map(made).collect();
            let rates = divide(&needs, &limits);
            let used = |counter: &Counter| -> u64 {
                let under = needs.iter().filter(|need| need.counters.contains(counter));
                under.filter_map(|need| rates.get(&need.id)).sum()
            };
            for (counter, limit) in &limits {
                prop_assert!(used(counter) <= *limit, "{counter:?}");
            }
            for need in needs.iter().filter(|need| rates.contains_key(&need.id)) {
                let rate = rates[&need.id];
                prop_assert!(need.most.is_none_or(|most| rate <= most));
                let own = need.most.is_some_and(|most| most - rate <= 2);
                let full = need.counters.iter().any(|counter| {
                    limits.get(counter).is_some_and(|limit| limit - used(counter) <= 16)
                });
                prop_assert!(own || full, "{need:?} gets {rate}");
            }
        }
    }
}
