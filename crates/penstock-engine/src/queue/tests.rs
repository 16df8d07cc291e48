use std::collections::{BTreeMap, BTreeSet};

use penstock_proto::id::TransferId;
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::*;

fn id(number: u32) -> TransferId {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    TransferId(bytes)
}

fn request(number: u32, user: &str) -> Request {
    Request {
        id: id(number),
        user: user.to_owned(),
        group: String::new(),
        pair: Some("hpc".parse().unwrap()),
        source_store: None,
        target_store: Some("scratch".parse().unwrap()),
        priority: PRIORITY_DEFAULT,
        urgent: false,
        created: u64::from(number),
        label: String::new(),
        not_before: None,
        start_by: None,
        latest_start: None,
        typical_seconds: None,
        forecast_seconds: Some(3600),
        forecast_bytes: Some(1 << 30),
        nearly_done_items: None,
    }
}

fn queue(running_max: u32) -> Queue {
    Queue::new(Limits { short_extra: 0, ..Limits::of_site(running_max) })
}

/// Promise Q1: a user with one transfer starts before another user's thousand that came first.
#[test]
fn one_transfer_starts_before_another_users_thousand() {
    let mut queue = queue(2);
    (0..1000).for_each(|number| queue.handle_submitted(request(number, "anna"), 0));
    assert_eq!(queue.poll_starts(1), [id(0), id(1)]);
    queue.handle_submitted(request(5000, "bert"), 2);
    assert_eq!(queue.poll_starts(2), []);
    queue.handle_ended(id(0));
    assert_eq!(queue.poll_starts(3), [id(5000)]);
}

/// Promise Q1: over 10,000 runs, users that always have work are served by their weights.
#[test]
// Its seed is printed.
#[allow(clippy::print_stdout)]
fn served_bytes_follow_the_weights() {
    for seed in 0..3 {
        println!("seed {seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let users = [("anna", 1), ("bert", 2), ("cleo", 4)];
        let mut queue = queue(4);
        let mut limits = queue.limits.clone();
        limits.weights.users = users.map(|(user, weight)| (user.to_owned(), weight)).into();
        queue.handle_limits(limits);
        let (mut number, mut served) = (0, BTreeMap::<String, u64>::new());
        let mut running: Vec<(TransferId, String, u64)> = Vec::new();
        for now in (0..10_000).map(|minute| minute * 60_000) {
            for (user, _) in users {
                if queue.waiting.values().filter(|waiting| waiting.request.user == user).count() > 4
                {
                    continue;
                }
                number += 1;
                let bytes = rng.random_range(1 << 28..1 << 32);
                let asked = Request { forecast_bytes: Some(bytes), ..request(number, user) };
                queue.handle_submitted(asked, now);
            }
            for id in queue.poll_starts(now) {
                let request = &queue.running[&id];
                running.push((id, request.user.clone(), request.bytes()));
            }
            let (id, user, bytes) = running.swap_remove(rng.random_range(0..running.len()));
            queue.handle_served(id, bytes, now);
            queue.handle_ended(id);
            *served.entry(user).or_default() += bytes;
        }
        let per_weight = users.map(|(user, weight)| served[user] / u64::from(weight));
        let (least, most) = (per_weight.iter().min().unwrap(), per_weight.iter().max().unwrap());
        assert!((most - least) * 10 < *most, "served per weight: {per_weight:?}");
    }
}

/// Promise: groups take turns before their users do. A user of a group that has moved less starts
/// before one of another group, whatever each of them has moved alone.
#[test]
fn groups_take_turns_before_users() {
    let mut queue = queue(1);
    let of = |number: u32, group: &str, user: &str| Request {
        group: group.to_owned(),
        ..request(number, user)
    };
    queue.handle_past("beam", "anna", 8 << 30, 0);
    queue.handle_past("beam", "bert", 1 << 30, 0);
    queue.handle_past("tape", "cleo", 6 << 30, 0);
    queue.handle_submitted(of(1, "beam", "dora"), 0);
    queue.handle_submitted(of(2, "tape", "cleo"), 0);
    queue.handle_submitted(of(3, "beam", "bert"), 0);
    let mut started = Vec::new();
    for _ in 0..3 {
        let starts = queue.poll_starts(1);
        assert_eq!(starts.len(), 1, "one place");
        queue.handle_served(starts[0], 1 << 30, 1);
        queue.handle_ended(starts[0]);
        started.extend(starts);
    }
    assert_eq!(started, [2, 1, 3].map(id), "tape has moved less, then dora less than bert");
    let (served, expected) = queue.served_group("beam", 1);
    assert!((10 << 30..=11 << 30).contains(&served) && expected == 0, "{served} {expected}");
}

/// Promise: over 10,000 runs groups are served by their weights, and within a group its users by
/// theirs, however many users a group has.
#[test]
// Its seed is printed.
#[allow(clippy::print_stdout)]
fn groups_are_served_by_their_weights() {
    for seed in 0..3 {
        println!("seed {seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let users = [
            ("beam", 3, "anna", 1),
            ("beam", 3, "bert", 2),
            ("tape", 1, "cleo", 1),
            ("tape", 1, "dora", 1),
            ("tape", 1, "emil", 1),
        ];
        let mut queue = queue(4);
        let mut limits = queue.limits.clone();
        limits.weights.groups = users.map(|it| (it.0.to_owned(), it.1)).into();
        limits.weights.users = users.map(|it| (it.2.to_owned(), it.3)).into();
        queue.handle_limits(limits);
        let mut served = BTreeMap::<String, u64>::new();
        let mut running: Vec<(TransferId, String, String)> = Vec::new();
        let mut number = 0;
        for now in (0..10_000).map(|minute| minute * 60_000) {
            for (group, _, user, _) in users {
                let waits = queue.waiting.values().any(|it| it.request.user == user);
                if !waits {
                    number += 1;
                    let bytes = Some(rng.random_range(1 << 28..1 << 32));
                    let group = group.to_owned();
                    let asked = Request { group, forecast_bytes: bytes, ..request(number, user) };
                    queue.handle_submitted(asked, now);
                }
            }
            for id in queue.poll_starts(now) {
                let request = &queue.running[&id];
                running.push((id, request.group.clone(), request.user.clone()));
            }
            let (id, group, user) = running.swap_remove(rng.random_range(0..running.len()));
            let bytes = queue.running[&id].bytes();
            queue.handle_served(id, bytes, now);
            queue.handle_ended(id);
            *served.entry(group).or_default() += bytes;
            *served.entry(user).or_default() += bytes;
        }
        let near = |one: u64, other: u64| one.abs_diff(other) * 8 < one.max(other);
        assert!(near(served["beam"], 3 * served["tape"]), "{served:?}");
        assert!(near(2 * served["anna"], served["bert"]), "{served:?}");
        assert!(near(served["cleo"], served["emil"]), "{served:?}");
    }
}

/// Promise: an operator's urgent transfer and a deadline come before fair shares; priorities count
/// within one user only; a transfer that returns keeps its age.
#[test]
fn urgency_deadlines_priorities_and_age_are_ordered() {
    let mut queue = queue(1);
    queue.handle_submitted(request(1, "anna"), 0);
    queue.handle_submitted(Request { priority: 90, ..request(2, "anna") }, 0);
    let promised = Request { start_by: Some(50), latest_start: Some(90), ..request(3, "bert") };
    queue.handle_submitted(promised, 0);
    queue.handle_submitted(Request { urgent: true, ..request(4, "cleo") }, 0);
    queue.handle_submitted(
        Request { nearly_done_items: Some(3), created: 99, ..request(5, "anna") },
        0,
    );
    let mut started = Vec::new();
    for _ in 0..5 {
        let starts = queue.poll_starts(60);
        assert_eq!(starts.len(), 1, "one place");
        queue.handle_ended(starts[0]);
        started.extend(starts);
    }
    assert_eq!(started, [4, 3, 5, 2, 1].map(id));
}

/// Promise: a deadline that is not promised starts nothing before the transfers of other users.
#[test]
fn best_effort_waits_for_its_share() {
    let mut queue = queue(1);
    let hurried = Request { start_by: Some(0), ..request(1, "bert") };
    queue.handle_past(&hurried.group, "bert", 1 << 40, 0);
    queue.handle_submitted(hurried, 0);
    queue.handle_submitted(request(2, "anna"), 1);
    assert_eq!(queue.poll_starts(10), [id(2)], "anna has moved nothing yet");
}

/// Promise: a short transfer has a place even while long ones take all others.
#[test]
fn short_transfers_have_a_place_of_their_own() {
    let mut queue = Queue::new(Limits::of_site(2));
    (0..4).for_each(|number| queue.handle_submitted(request(number, "anna"), 0));
    assert_eq!(queue.poll_starts(0).len(), 2);
    let short = Request { forecast_seconds: Some(5), ..request(9, "anna") };
    queue.handle_submitted(short, 1);
    assert_eq!(queue.poll_starts(1), [id(9)]);
    let stopped = Limits { running: [(Counter::Site, 0)].into(), ..Limits::of_site(0) };
    queue.handle_limits(stopped);
    queue.handle_ended(id(9));
    queue.handle_submitted(Request { forecast_seconds: Some(5), ..request(10, "anna") }, 2);
    assert_eq!(queue.poll_starts(2), [], "a limit of zero is zero for short ones too");
}

/// Promise: limits of pairs, stores and users hold, and a full one delays no other.
#[test]
fn a_full_limit_delays_only_its_own() {
    let mut queue = queue(10);
    let mut limits = queue.limits.clone();
    limits.running.insert(Counter::Store("scratch".parse().unwrap()), 1);
    queue.handle_limits(limits);
    (0..3).for_each(|number| queue.handle_submitted(request(number, "anna"), 0));
    let other = Request { target_store: Some("tape".parse().unwrap()), ..request(7, "anna") };
    queue.handle_submitted(other, 0);
    assert_eq!(queue.poll_starts(0), [id(0), id(7)]);
    assert_eq!(queue.wait(id(1), 0).unwrap().code, WaitCode::Turn);
}

/// Promise Q5: a window that opens is a time to wake, and its transfers start then.
#[test]
fn windows_and_start_times_end_by_themselves() {
    let mut queue = queue(4);
    let mut limits = queue.limits.clone();
    limits.closed.insert(Counter::Pair("hpc".parse().unwrap()), 1000);
    queue.handle_limits(limits);
    queue.handle_submitted(request(1, "anna"), 0);
    queue.handle_submitted(Request { pair: None, not_before: Some(500), ..request(2, "anna") }, 0);
    assert_eq!(queue.poll_starts(0), []);
    assert_eq!(queue.poll_wake(0), Some(500));
    assert_eq!(queue.wait(id(1), 0).unwrap().code, WaitCode::Window);
    assert_eq!(queue.wait(id(2), 0).unwrap().code, WaitCode::NotBefore);
    assert_eq!(queue.poll_starts(500), [id(2)]);
    assert_eq!(queue.poll_wake(500), Some(1000));
    assert_eq!(queue.poll_starts(1000), [id(1)]);
}

/// Promise: exactly the running transfers that a rule holds, or whose window is closed, are
/// stopped.
#[test]
fn rules_and_closed_windows_stop_what_runs() {
    let mut queue = queue(4);
    queue.handle_submitted(Request { label: "run 7".to_owned(), ..request(1, "anna") }, 0);
    queue.handle_submitted(request(2, "anna"), 0);
    queue.handle_submitted(Request { pair: None, ..request(3, "bert") }, 0);
    assert_eq!(queue.poll_starts(0).len(), 3);
    assert_eq!(queue.poll_stops(0), []);
    let pause = Pause {
        name: "beamtime".to_owned(),
        user: Some("anna".to_owned()),
        label: Some("run".to_owned()),
        until: Some(500),
        ..Pause::default()
    };
    let mut limits = Limits { pauses: vec![pause], ..queue.limits.clone() };
    queue.handle_limits(limits.clone());
    assert_eq!(queue.poll_stops(1), [id(1)]);
    queue.handle_submitted(Request { label: "run 7".to_owned(), ..request(1, "anna") }, 2);
    assert_eq!(queue.poll_starts(2), []);
    let wait = queue.wait(id(1), 2).unwrap();
    assert_eq!((wait.code, &*wait.on, wait.until), (WaitCode::PauseRule, "beamtime", Some(500)));
    assert_eq!(queue.poll_wake(2), Some(500));
    assert_eq!(queue.poll_starts(500), [id(1)]);
    limits.closed.insert(Counter::Pair("hpc".parse().unwrap()), 900);
    queue.handle_limits(limits);
    assert_eq!(queue.poll_stops(600), [id(1), id(2)]);
    assert_eq!(queue.poll_stops(900), [], "the window has opened");
}

/// Promise: a forecast follows the order of the queue, its limits, and the known durations.
#[test]
fn forecasts_play_the_queue_forward() {
    let mut queue = queue(1);
    for (number, seconds) in [(1, Some(100)), (2, Some(200)), (3, None), (4, Some(50))] {
        queue.handle_submitted(Request { forecast_seconds: seconds, ..request(number, "anna") }, 0);
    }
    assert_eq!(queue.poll_starts(0), [id(1)]);
    let of = |queue: &Queue, number, now| queue.forecast(now).get(&id(number)).copied();
    assert_eq!(of(&queue, 2, 0), Some(Forecast { start: Some(100_000), end: Some(300_000) }));
    assert_eq!(of(&queue, 3, 0), Some(Forecast { start: Some(300_000), end: None }));
    assert_eq!(of(&queue, 4, 0), None, "it starts after one of which nothing is known");
    queue.handle_forecast(id(1), Some(500), 50_000);
    assert_eq!(of(&queue, 1, 50_000), Some(Forecast { start: None, end: Some(550_000) }));
    assert_eq!(of(&queue, 2, 50_000).unwrap().start, Some(550_000));
    let typical =
        Request { forecast_seconds: None, typical_seconds: Some(7), ..request(3, "anna") };
    queue.handle_submitted(typical, 60_000);
    assert_eq!(of(&queue, 4, 60_000).unwrap().start, Some(757_000));
}

/// A transfer of the test of promises.
struct Promised {
    by: UnixMs,
    id: TransferId,
}

/// Plays a day of random submissions; returns how many deadlines were promised and refused.
fn play_promises(seed: u64) -> (u32, u32) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut queue = Queue::new(Limits::of_site(rng.random_range(1..5)));
    let mut limits = queue.limits.clone();
    limits.running.insert(Counter::User("anna".to_owned()), rng.random_range(1..4));
    queue.handle_limits(limits);
    let (mut promised, mut running) = (Vec::new(), BTreeMap::<TransferId, UnixMs>::new());
    let (mut now, mut arrives, mut number, mut refused) = (1 << 40, 0, 0, 0);
    let most = 120;
    while number < most || queue.counts() != (0, 0) {
        if now >= arrives && number < most {
            number += 1;
            arrives = now + rng.random_range(1_000..1_800_000);
            let seconds = rng.random_range(5..5_000);
            let user = ["anna", "bert", "cleo"][rng.random_range(0..3)];
            let plain = Request { forecast_seconds: Some(seconds), ..request(number, user) };
            let by = now + seconds * 1000 * rng.random_range(90..600) / 100;
            let latest = by.saturating_sub(seconds * 1000);
            let asked = Request {
                latest_start: Some(latest),
                start_by: Some(by.saturating_sub(seconds * 1250)),
                ..plain.clone()
            };
            if rng.random_bool(0.6) {
                queue.handle_submitted(plain, now);
            } else if let Err(why) = queue.check_promise(&asked, now) {
                refused += 1;
                let mut without = queue.clone();
                for id in &why.would_yield {
                    without.handle_ended(*id);
                }
                let helps = without.check_promise(&asked, now).is_ok();
                assert_eq!(helps, !why.would_yield.is_empty(), "{why:?}");
            } else {
                promised.push(Promised { by, id: asked.id });
                queue.handle_submitted(asked, now);
            }
        }
        for id in queue.poll_starts(now) {
            let seconds = queue.running[&id].forecast_seconds.unwrap();
            running.insert(id, now + seconds * 1000);
        }
        let ends = running.values().copied().chain(queue.poll_wake(now));
        let arrival = (number < most).then_some(arrives);
        now = ends.chain(arrival).min().expect("something happens");
        running.retain(|id, end| {
            let lasts = *end > now;
            if !lasts {
                assert!(queue.handle_ended(*id));
                let late = promised.iter().find(|it| it.id == *id && it.by < *end);
                assert!(late.is_none(), "{} was promised and is late", id.short());
            }
            lasts
        });
    }
    (promised.len() as u32, refused)
}

/// Promise Q3: an accepted deadline is kept as long as durations are as forecast, whatever is
/// submitted later. A refused deadline names the transfers that would have to yield.
#[test]
// Its seed is printed.
#[allow(clippy::print_stdout)]
fn e10_promised_deadlines_are_kept() {
    let (mut promised, mut refused) = (0, 0);
    for seed in 0..100 {
        println!("seed {seed}");
        let (kept, not) = play_promises(seed);
        promised += kept;
        refused += not;
    }
    assert!(promised > 1000 && refused > 300, "{promised} promised, {refused} refused");
}

/// Promise: codes are unique, and in kebab-case.
#[test]
fn wait_codes_are_a_closed_table() {
    let codes: BTreeSet<_> = WaitCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(codes.len(), WaitCode::ALL.len());
    for code in WaitCode::ALL {
        assert!(code.as_str().chars().all(|c| c.is_ascii_lowercase() || c == '-'));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Submit(u32, u8),
    Hold(u32, bool),
    Served(u32, u64),
    End(u32),
    Limit(u32),
    Pause(bool),
    Start,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..12u32, 0..3u8).prop_map(|(number, user)| Step::Submit(number, user)),
        1 => (0..12u32, any::<bool>()).prop_map(|(number, held)| Step::Hold(number, held)),
        2 => (0..12u32, 0..3u64 << 30).prop_map(|(number, bytes)| Step::Served(number, bytes)),
        2 => (0..12u32).prop_map(Step::End),
        1 => (0..4u32).prop_map(Step::Limit),
        1 => any::<bool>().prop_map(Step::Pause),
        4 => Just(Step::Start),
    ]
}

proptest! {
    /// Promise Q4: after any actions of operators and users, a transfer runs or waits for a reason.
    /// No start exceeds a limit, and no transfer that may start is left waiting.
    #[test]
    fn every_wait_has_a_reason(steps in prop::collection::vec(step(), 1..200)) {
        let mut queue = queue(2);
        let mut known = BTreeSet::new();
        for (now, step) in steps.into_iter().enumerate() {
            let now = now as u64 * 1000;
            match step {
                Step::Submit(number, user) => {
                    known.insert(id(number));
                    queue.handle_submitted(request(number, &format!("user{user}")), now);
                }
                Step::Hold(number, held) => {
                    let hold = Hold { code: WaitCode::Room, on: "scratch".into(), until: None };
                    queue.handle_hold(id(number), held.then_some(hold), now);
                }
                Step::Served(number, bytes) => queue.handle_served(id(number), bytes, now),
                Step::End(number) => {
                    prop_assert_eq!(queue.handle_ended(id(number)), known.remove(&id(number)));
                }
                Step::Limit(most) => {
                    let running = [(Counter::Site, most)].into();
                    queue.handle_limits(Limits { running, ..queue.limits.clone() });
                }
                Step::Pause(paused) => {
                    let rule = Pause {
                        name: "maintenance".to_owned(),
                        user: Some("user1".to_owned()),
                        ..Pause::default()
                    };
                    let pauses = paused.then_some(rule).into_iter().collect();
                    queue.handle_limits(Limits { pauses, ..queue.limits.clone() });
                }
                Step::Start => {
                    let before = queue.running.len();
                    let most = queue.limits.running[&Counter::Site] as usize;
                    queue.poll_starts(now);
                    prop_assert!(queue.running.len() <= most.max(before));
                    let waits = queue.order(usize::MAX, now);
                    prop_assert_eq!(waits.len(), queue.waiting.len());
                    let full = queue.running.len() >= most;
                    for (id, wait) in waits {
                        let may_start = wait.code == WaitCode::Turn && !full;
                        prop_assert!(!may_start, "{} could start", id.short());
                        prop_assert!(wait.since <= now);
                    }
                }
            }
            for id in &known {
                prop_assert!(queue.running.contains_key(id) != queue.wait(*id, now).is_some());
            }
            let expected: u64 = queue.running.values().map(Request::bytes).sum();
            let users = (0..3).map(|user| queue.served("", &format!("user{user}"), now).1);
            prop_assert_eq!(users.sum::<u64>(), expected);
        }
    }
}
