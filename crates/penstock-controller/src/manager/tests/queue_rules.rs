//! Rules of the queue, deadlines, and actions on many transfers.

use penstock_api::access::{Principal, Role, StoreGrant, TokenId, Via};
use penstock_api::deadline::{Deadline, DeadlinePolicy, Promise};
use penstock_api::queue::{
    BulkFilter, BulkRequest, Day, LimitKind, PauseRule, QueueFilter, QueueLimit, QueueRule,
    QueueShare, QueueWindow, QueueWindowRequest,
};
use penstock_api::timestamp::Timestamp;
use penstock_cluster::clock::now_seconds;

use super::*;

fn user(name: &str, role: Role) -> Caller {
    let grant = StoreGrant { list: false, read: true, write: true };
    Caller::User(Principal {
        user: name.parse().unwrap(),
        role,
        via: Via::Token { id: TokenId([1; 8]) },
        scopes: None,
        account: None,
        grants: [("s".parse().unwrap(), grant)].into(),
    })
}

fn soon(seconds: u64) -> Timestamp {
    Timestamp::of_seconds(now_seconds() + seconds)
}

fn id(number: u8) -> TransferId {
    TransferId([number; 16])
}

fn hold(name: &str, filter: QueueFilter) -> QueueRule {
    QueueRule::PauseRule(PauseRule {
        name: name.parse().unwrap(),
        filter,
        reason: "maintenance".to_owned(),
        until: None,
        by: "root".parse().unwrap(),
        since: Timestamp::of_seconds(1),
    })
}

fn of_pair(rate_bits_per_s: Option<u64>, running: Option<u32>) -> QueueLimit {
    QueueLimit { kind: LimitKind::Pair, name: "lab".to_owned(), running, rate_bits_per_s }
}

fn whole_week(running: Option<u32>) -> QueueWindowRequest {
    QueueWindowRequest {
        days: Day::ALL.to_vec(),
        from: "00:00".parse().unwrap(),
        to: "00:00".parse().unwrap(),
        zone: "Europe/Zurich".to_owned(),
        pair: Some("lab".parse().unwrap()),
        store: None,
        user: None,
        running,
        rate_bits_per_s: None,
    }
}

/// Waits for a reason of a transfer that waits.
fn wait_for(world: &World, number: u8, code: &str) -> TransferReport {
    for _ in 0..6000 {
        let view = world.manager.show(id(number), &Caller::local()).unwrap();
        if view.waiting.as_ref().is_some_and(|waiting| waiting.code == code) {
            return view;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("transfer {number} never waited for {code}");
}

/// Promise: a pause rule stops running transfers, and keeps these and others from starting. The
/// waits name the rule and its reason. The rule survives a restart, and its removal releases the
/// transfers.
#[test]
fn a_pause_rule_holds_until_it_is_removed() {
    let mut world = World::new(4);
    world.submit(1, "lab:raw/a", "hpc:s/1").unwrap();
    let (run, end) = world.call();
    let filter = QueueFilter { store: Some("s".parse().unwrap()), ..QueueFilter::default() };
    assert!(world.manager.put_rule(hold("upgrade", filter.clone())).unwrap());
    while !run.control.is_asked_to_stop() {
        std::thread::sleep(Duration::from_millis(5));
    }
    end.send(RunOutcome::Paused).unwrap();
    world.submit(2, "lab:raw/b", "hpc:s/2").unwrap();
    for number in [1, 2] {
        let view = wait_for(&world, number, "pause-rule");
        assert_eq!(view.state, TransferState::Queued);
        assert_eq!(view.waiting.unwrap().on, "upgrade");
        assert!(view.reason.contains("maintenance"), "{}", view.reason);
    }
    world.restart(Vec::new(), false);
    wait_for(&world, 1, "pause-rule");
    let rules = world.manager.queue().pause_rules;
    assert_eq!((rules.len(), rules[0].holds, rules[0].in_force), (1, 2, true));
    assert!(!world.manager.put_rule(hold("upgrade", filter)).unwrap(), "it is known");
    world.manager.remove_rule("pause-rules/upgrade").unwrap();
    let (first, end_of_first) = world.call();
    let (second, end_of_second) = world.call();
    assert_eq!([first.id, second.id].iter().max(), Some(&id(2)));
    let unknown = world.manager.remove_rule("pause-rules/upgrade").unwrap_err();
    assert_eq!((unknown.code, unknown.status), (ProblemCode::QueueRule, 404));
    [end_of_first, end_of_second].iter().for_each(|end| end.send(RunOutcome::Done).unwrap());
}

/// Promise Q5: running transfers share a rate limit of a pair, and follow its changes. After its
/// end each transfer has its own limit again. A closed window stops all of them.
#[test]
fn q5_limits_and_windows_steer_what_runs() {
    let world = World::new(4);
    let limited = |number: u8, most| {
        let mut wanted = request(number, "lab:raw/a", &format!("hpc:s/{number}"));
        wanted.options.limits.rate_bits_per_s = most;
        world.manager.submit(&wanted, &Caller::local()).unwrap();
        world.call()
    };
    let (first, end_of_first) = limited(1, None);
    let (second, end_of_second) = limited(2, Some(4_000_000));
    let rate = |run: &RunInput| {
        for _ in 0..1000 {
            if let Some(rate) = run.control.take_rate() {
                return rate;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("no rate is set");
    };
    world.manager.put_rule(QueueRule::Limit(of_pair(Some(10_000_000), Some(3)))).unwrap();
    assert_eq!(rate(&first), Some(6_000_000), "the other one has a limit of its own");
    world.manager.put_rule(QueueRule::Limit(of_pair(Some(4_000_000), None))).unwrap();
    assert_eq!((rate(&first), rate(&second)), (Some(2_000_000), Some(2_000_000)));
    let limits = world.manager.queue().limits;
    let pair = limits.iter().find(|it| it.limit.kind == LimitKind::Pair).unwrap();
    assert_eq!((pair.running_now, pair.limit.rate_bits_per_s), (2, Some(4_000_000)));
    world.manager.remove_rule("limits/pair/lab").unwrap();
    assert_eq!((rate(&first), rate(&second)), (None, Some(4_000_000)));
    let closed = QueueWindow { name: "night".parse().unwrap(), rule: whole_week(Some(0)) };
    world.manager.put_rule(QueueRule::Window(closed)).unwrap();
    for (run, end) in [(first, end_of_first), (second, end_of_second)] {
        while !run.control.is_asked_to_stop() {
            std::thread::sleep(Duration::from_millis(5));
        }
        end.send(RunOutcome::Paused).unwrap();
    }
    let view = wait_for(&world, 2, "window");
    assert!(view.waiting.unwrap().until_ms.is_some());
    let windows = world.manager.queue().windows;
    assert!(windows[0].in_force && windows[0].turns_at.is_some());
}

/// Promise: a rule that makes no sense is refused with its reason, and changes nothing.
#[test]
fn rules_without_sense_are_refused() {
    let world = World::new(1);
    let refused = |rule: QueueRule| {
        let problem = world.manager.put_rule(rule).unwrap_err();
        assert_eq!(problem.code, ProblemCode::Request);
        problem.title
    };
    let limit = |kind, name: &str, running| {
        let name = name.to_owned();
        QueueRule::Limit(QueueLimit { kind, name, running, rate_bits_per_s: None })
    };
    assert!(refused(limit(LimitKind::Site, "lab", Some(2))).contains("`hpc`"));
    assert!(refused(limit(LimitKind::Pair, "lab", Some(0))).contains("pause rule"));
    assert!(refused(limit(LimitKind::Pair, "lab", None)).contains("running"));
    refused(limit(LimitKind::Store, "No Name", Some(1)));
    refused(QueueRule::Limit(of_pair(Some(1000), None)));
    for (user, weight) in [("anna", 0), ("anna", 5000), ("@", 1), ("Anna B", 1)] {
        refused(QueueRule::Share(QueueShare { user: user.to_owned(), weight }));
    }
    let window = |rule| QueueRule::Window(QueueWindow { name: "night".parse().unwrap(), rule });
    refused(window(whole_week(None)));
    refused(window(QueueWindowRequest { days: Vec::new(), ..whole_week(Some(1)) }));
    refused(window(QueueWindowRequest {
        store: Some("s".parse().unwrap()),
        ..whole_week(Some(1))
    }));
    let zone = "Mars/Base".to_owned();
    assert!(refused(window(QueueWindowRequest { zone, ..whole_week(Some(1)) })).contains("Mars"));
    let QueueRule::PauseRule(rule) = hold("x", QueueFilter::default()) else { unreachable!() };
    refused(QueueRule::PauseRule(PauseRule { until: Some(Timestamp::of_seconds(5)), ..rule }));
    let queue = world.manager.queue();
    assert_eq!((queue.windows.len(), queue.pause_rules.len(), queue.limits.len()), (0, 0, 1));
}

/// Makes a first transfer between `lab:raw` and `hpc:s` that shows their rate: 100 MB/s.
fn show_rate(world: &World) {
    world.submit(0xee, "lab:raw/x", "hpc:s/x").unwrap();
    let (run, end) = world.call();
    let progress = Progress {
        scan_complete: true,
        bytes: 1_000_000_000,
        bytes_found: 1_000_000_000,
        bytes_durable: 1_000_000_000,
        bytes_verified: 1_000_000_000,
        seconds: 10.0,
        ..Progress::default()
    };
    run.control.show(RunView { progress, ..RunView::default() });
    end.send(RunOutcome::Done).unwrap();
    world.wait(0xee, TransferState::Done);
}

/// Promise Q3: a deadline that the forecast keeps is promised. One that the forecast does not keep
/// is refused with the forecast and the transfers that would have to yield. Without a forecast
/// nothing is promised.
#[test]
fn q3_a_deadline_is_promised_or_refused_with_figures() {
    let world = World::new(1);
    let at = |seconds: u64, bytes: Option<u64>| {
        Some(Deadline { at: soon(seconds), policy: DeadlinePolicy::Promise, bytes })
    };
    let submit = |number: u8, deadline| {
        let target = format!("hpc:s/{number}");
        let wanted = TransferRequest { deadline, ..request(number, "lab:raw/a", &target) };
        world.manager.submit(&wanted, &Caller::local()).map(|(view, _)| view)
    };
    let unknown = submit(1, at(3600, Some(1 << 30))).unwrap_err();
    assert_eq!((unknown.code.clone(), unknown.status), (ProblemCode::DeadlineUnkeepable, 422));
    assert!(unknown.deadline().is_none() && unknown.hint.contains("best_effort"));
    show_rate(&world);
    // 36 GB take 360 s.
    let long = submit(2, at(600, Some(36_000_000_000))).unwrap();
    assert_eq!(long.deadline.unwrap().promise, Promise::Kept);
    let (_, end) = world.call();
    let refused = submit(3, at(400, Some(36_000_000_000))).unwrap_err();
    let outlook = refused.deadline().cloned().unwrap();
    assert_eq!(outlook.would_yield, [id(2)]);
    let factor = outlook.missing_factor.unwrap().0;
    assert!((1700..1900).contains(&factor), "{factor}");
    assert!(
        submit(4, at(300, Some(36_000_000_000)))
            .unwrap_err()
            .deadline()
            .unwrap()
            .would_yield
            .is_empty()
    );
    submit(5, at(900, Some(36_000_000_000))).unwrap();
    assert!(submit(6, at(900, Some(36_000_000_000))).is_err(), "its place is promised");
    let entry = world.manager.queue().transfers.remove(0);
    assert_eq!(entry.id, id(5));
    assert!(entry.forecast_start.is_some() && entry.forecast_end.is_some());
    let past = Some(Deadline {
        at: Timestamp::of_seconds(5),
        policy: DeadlinePolicy::BestEffort,
        bytes: None,
    });
    assert_eq!(submit(7, past).unwrap_err().code, ProblemCode::DeadlineUnkeepable);
    let later = world.manager.set_deadline(id(5), at(9000, None), &Caller::local());
    assert_eq!(later.unwrap_err().code, ProblemCode::DeadlineUnkeepable, "no size is known now");
    let none = world.manager.set_deadline(id(5), None, &Caller::local()).unwrap();
    assert_eq!(none.deadline, None);
    submit(6, at(900, Some(36_000_000_000))).unwrap();
    end.send(RunOutcome::Done).unwrap();
}

/// Promise Q3: a deadline that comes to be at risk is an event, and so is one that is over; a
/// transfer is cancelled then if its user wants that.
#[test]
fn q3_a_deadline_at_risk_is_an_event() {
    let world = World::new(1);
    let mut events = world.manager.events();
    let deadline = Deadline { at: soon(2), policy: DeadlinePolicy::Cancel, bytes: None };
    let wanted = TransferRequest { deadline: Some(deadline), ..request(1, "lab:raw/a", "hpc:s/1") };
    world.manager.submit(&wanted, &Caller::local()).unwrap();
    let (run, end) = world.call();
    let mut codes = Vec::new();
    while !run.control.is_asked_to_stop() {
        match try_event(&mut events) {
            Some(Event::Error(event)) => codes.push(event.problem.code),
            Some(_) => {}
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    assert_eq!(codes, [ProblemCode::DeadlineAtRisk, ProblemCode::DeadlineMissed][..codes.len()]);
    end.send(RunOutcome::Cancelled).unwrap();
    let view = world.wait(1, TransferState::Cancelled);
    assert_eq!(view.deadline.unwrap().promise, Promise::Missed);
}

/// Promise: an operator's urgent transfer starts before all others; a user makes none urgent.
#[test]
fn urgency_is_for_operators() {
    let world = World::new(1);
    world.submit(1, "lab:raw/a", "hpc:s/1").unwrap();
    let (_, end) = world.call();
    let (anna, olga) = (user("anna", Role::User), user("olga", Role::Operator));
    for number in [2, 3] {
        let wanted = request(number, "lab:raw/a", &format!("hpc:s/{number}"));
        world.manager.submit(&wanted, &anna).unwrap();
    }
    let wanted = TransferRequest { urgent: true, ..request(4, "lab:raw/a", "hpc:s/4") };
    let refused = world.manager.submit(&wanted, &anna).unwrap_err();
    assert_eq!(refused.code, ProblemCode::NotAuthorised);
    assert!(world.manager.set_urgent(id(3), true, &anna).is_err());
    assert!(world.manager.set_urgent(id(3), true, &olga).unwrap().urgent);
    end.send(RunOutcome::Done).unwrap();
    let (next, end) = world.call();
    assert_eq!(next.id, id(3));
    drop(end);
}

/// Promise: one request acts on many transfers, by ids or by a filter, and returns the result of
/// each. A user acts on its own ones only.
#[test]
fn one_request_acts_on_many() {
    let world = World::new(1);
    let (anna, ben, olga) =
        (user("anna", Role::User), user("ben", Role::User), user("olga", Role::Operator));
    let submit = |number: u8, caller: &Caller, label: &str| {
        let wanted = request(number, "lab:raw/a", &format!("hpc:s/{number}"));
        let wanted = TransferRequest { label: label.to_owned(), ..wanted };
        world.manager.submit(&wanted, caller).unwrap();
    };
    submit(1, &olga, "");
    let (_, end) = world.call();
    for number in 2..5 {
        submit(number, &anna, "beam");
    }
    submit(5, &ben, "beam");
    let act = |action, ids: Vec<TransferId>, filter: Option<BulkFilter>, caller: &Caller| {
        let request = BulkRequest { action, until: None, ids, filter, after: None };
        world.manager.act_on_many(&request, caller)
    };
    let beam = BulkFilter { label: Some("beam".to_owned()), ..BulkFilter::default() };
    let paused = act(Action::Pause, Vec::new(), Some(beam.clone()), &anna).unwrap();
    let ids = |reply: &penstock_api::queue::BulkReply| {
        reply.items.iter().map(|item| item.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&paused), [id(2), id(3), id(4)]);
    assert!(paused.items.iter().all(|item| item.state == Some(TransferState::Paused)));
    let named = act(Action::Cancel, vec![id(5), id(2), id(9)], None, &anna).unwrap();
    let codes: Vec<_> =
        named.items.iter().map(|it| it.problem.as_ref().map(|it| it.code.clone())).collect();
    let unknown = || Some(ProblemCode::TransferUnknown);
    assert_eq!(codes, [unknown(), None, unknown()], "what is not seen does not exist");
    let by_user = BulkFilter { user: Some("anna".to_owned()), ..BulkFilter::default() };
    let resumed = act(Action::Resume, Vec::new(), Some(by_user), &olga).unwrap();
    assert_eq!(ids(&resumed), [id(3), id(4)]);
    let behind = |place: &str| {
        let (ids, filter, after) = (Vec::new(), Some(beam.clone()), Some(place.to_owned()));
        let request = BulkRequest { action: Action::Pause, until: None, ids, filter, after };
        world.manager.act_on_many(&request, &olga)
    };
    assert!(ids(&behind(&cursor::bulk_text((u64::MAX, id(0)))).unwrap()).is_empty());
    let paused = behind(&cursor::bulk_text((0, id(0)))).unwrap();
    assert_eq!((ids(&paused), paused.more), (vec![id(3), id(4), id(5)], false));
    assert_eq!(behind("AAAA").unwrap_err().code, ProblemCode::Cursor);
    for (ids, filter) in [(Vec::new(), None), (vec![id(1)], Some(beam)), (vec![id(1); 501], None)] {
        assert_eq!(act(Action::Pause, ids, filter, &olga).unwrap_err().code, ProblemCode::Request);
    }
    end.send(RunOutcome::Done).unwrap();
}

/// Promise Q4: after any actions of operators and users, in any order, a queued transfer has a code
/// for its wait.
#[test]
// Its seed is printed.
#[allow(clippy::print_stdout)]
fn q4_no_order_of_actions_leaves_a_wait_without_a_code() {
    use rand::{RngExt as _, SeedableRng as _};
    let known: BTreeSet<_> =
        penstock_engine::queue::WaitCode::ALL.iter().map(|code| code.as_str()).collect();
    for seed in 0..12 {
        println!("seed {seed}");
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let world = World::new(2);
        let mut runs: Vec<Call> = Vec::new();
        for number in 1..9 {
            world.submit(number, "lab:raw/a", &format!("hpc:s/{number}")).unwrap();
        }
        for _ in 0..120 {
            runs.extend(world.calls.try_iter());
            let one = rng.random_range(1..9);
            // An action that does not fit the state is refused, which is a valid answer.
            let _ = match rng.random_range(0..12) {
                0..3 => world
                    .act(
                        one,
                        [Action::Pause, Action::Resume, Action::Retry][rng.random_range(0..3)],
                    )
                    .map(drop),
                3 => world.manager.put_rule(hold("x", QueueFilter::default())).map(drop),
                4 => world.manager.remove_rule("pause-rules/x"),
                5 => world.manager.put_rule(QueueRule::Limit(of_pair(None, Some(1)))).map(drop),
                6 => world.manager.remove_rule("limits/pair/lab"),
                7 => world.manager.set_urgent(id(one), rng.random(), &Caller::local()).map(drop),
                8 => {
                    let rule = whole_week(Some(rng.random_range(0..2)));
                    let window = QueueWindow { name: "w".parse().unwrap(), rule };
                    world.manager.put_rule(QueueRule::Window(window)).map(drop)
                }
                9 => world.manager.remove_rule("windows/w"),
                _ => {
                    if let Some((_, end)) = runs.pop() {
                        let lost = Problem::new(ProblemCode::PeerLost, "a peer is lost");
                        let full = Problem::new(ProblemCode::TargetFull, "the target is full");
                        let outcome = match rng.random_range(0..4) {
                            0 => RunOutcome::Paused,
                            1 => RunOutcome::Failed(lost.exit(Exit::Temporary)),
                            2 => RunOutcome::Failed(full.exit(Exit::Temporary)),
                            _ => RunOutcome::Failed(Problem::new(ProblemCode::SomeFailed, "x")),
                        };
                        let _ = end.send(outcome);
                    }
                    Ok(())
                }
            };
            for number in 1..9 {
                let view = world.manager.show(id(number), &Caller::local()).unwrap();
                if view.state == TransferState::Queued {
                    let waiting = view.waiting.expect("it waits for a reason");
                    assert!(known.contains(waiting.code.as_str()), "{waiting:?}");
                    assert!(waiting.since_ms > 0);
                }
            }
        }
    }
}
