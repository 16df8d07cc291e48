//! Pauses that end by themselves.

use penstock_api::access::{Principal, Role, StoreGrant, TokenId, User, Via};
use penstock_api::queue::{BulkFilter, BulkRequest};
use penstock_api::timestamp::Timestamp;
use penstock_cluster::clock::now_ms;

use super::*;

/// Returns a user that may write store `s`, or not.
fn anna(may_write: bool) -> User {
    let grant = StoreGrant { list: false, read: false, write: may_write };
    User {
        name: "anna".parse().unwrap(),
        role: Role::User,
        created: 1,
        disabled: false,
        grants: [("s".parse().unwrap(), grant)].into(),
        account: None,
        group: None,
        password: None,
        identity: None,
    }
}

fn until(ms: u64) -> Steering {
    Steering { action: Action::Pause, until: Some(Timestamp::of_ms(ms)) }
}

/// Promise: a paused transfer resumes at the end of its pause, also after a restart. An end in the
/// past, or a year ahead, or one for another action, is refused.
#[test]
fn a_pause_ends_by_itself_after_a_restart() {
    let mut world = World::new(4);
    world.submit(1, "lab:raw/a", "hpc:s/1").unwrap();
    let (_, end) = world.call();
    let id = TransferId([1; 16]);
    let caller = Caller::local();
    let soon = now_ms() + 3_000;
    let refused = [
        until(now_ms() - 2_000),
        until(now_ms() + 400 * 24 * 3_600_000),
        Steering { action: Action::Cancel, ..until(soon) },
    ];
    for wrong in refused {
        let problem = world.manager.act(id, wrong, &caller).unwrap_err();
        assert_eq!((problem.code, problem.status), (ProblemCode::Request, 400));
    }
    world.manager.act(id, until(soon), &caller).unwrap();
    end.send(RunOutcome::Paused).unwrap();
    let paused = world.wait(1, TransferState::Paused);
    assert_eq!(paused.attempts.pause.and_then(|pause| pause.until_ms), Some(soon));
    // A transfer that was not changed would end the pause as well.
    world.restart(Vec::new(), true);
    let (input, end) = world.call();
    assert!((input.id, now_ms() >= soon) == (id, true), "it resumed before its time");
    assert_eq!(world.manager.show(id, &caller).unwrap().attempts.pause, None);
    end.send(RunOutcome::Done).unwrap();
    world.wait(1, TransferState::Done);
}

/// Promise: a grant that ends during a pause counts at its end: the transfer stays paused, and
/// shows the reason. A user that has it again resumes the transfer.
#[test]
fn a_pause_does_not_end_without_the_grant() {
    let world = World::new(4);
    let user = anna(true);
    let caller = Caller::User(Principal {
        user: user.name.clone(),
        role: user.role,
        via: Via::Token { id: TokenId([1; 8]) },
        scopes: None,
        grants: user.grants.clone(),
        account: None,
    });
    let wanted = request(1, "lab:raw/a", "hpc:s/x");
    world.manager.submit(&wanted, &caller).unwrap();
    let (_, end) = world.call();
    world.manager.act(wanted.id, until(now_ms() + 2_000), &caller).unwrap();
    world.manager.state.put_user(&anna(false)).unwrap();
    let mut events = world.manager.events();
    end.send(RunOutcome::Paused).unwrap();
    world.wait(1, TransferState::Paused);
    let told = loop {
        if let Event::Error(told) = next_event(&mut events) {
            break told;
        }
    };
    assert!(told.problem.hint.contains("--grant s="), "{told:?}");
    let held = world.manager.show(wanted.id, &caller).unwrap();
    assert_eq!(held.state, TransferState::Paused);
    assert_eq!(held.attempts.pause.as_ref().map(|pause| pause.until_ms), Some(None));
    assert!(held.reason.contains("`anna` may not write store `s`"), "{}", held.reason);
    world.manager.act(wanted.id, Action::Resume, &caller).unwrap();
    world.call().1.send(RunOutcome::Done).unwrap();
    world.wait(1, TransferState::Done);
}

/// Promise: a pause of all moves the ends of pauses, and sets none for a transfer that a user has
/// paused without one. An end in the past is refused at its place in the request.
#[test]
fn the_end_of_a_pause_of_all_can_be_moved() {
    let world = World::new(4);
    let caller = Caller::local();
    let [first, second] = [1, 2].map(|number| {
        let text = format!("hpc:s/{number}");
        world.submit(number, "lab:raw/a", &text).unwrap();
        world.call().1
    });
    let many = |until: Option<u64>| BulkRequest {
        action: Action::Pause,
        until: until.map(Timestamp::of_ms),
        ids: Vec::new(),
        filter: Some(BulkFilter::default()),
        after: None,
    };
    world.act(2, Action::Pause).unwrap();
    second.send(RunOutcome::Paused).unwrap();
    world.wait(2, TransferState::Paused);
    let hour = 3_600_000;
    let end_of = |number: u8| {
        let report = world.manager.show(TransferId([number; 16]), &caller).unwrap();
        report.attempts.pause.unwrap().until_ms
    };
    for (end, changed) in [(now_ms() + hour, 1), (now_ms() + 2 * hour, 1)] {
        let items = world.manager.act_on_many(&many(Some(end)), &caller).unwrap().items;
        assert_eq!((items.len(), end_of(1), end_of(2)), (changed, Some(end), None));
        // The run ends at the first pause; the second one finds no run.
        let _ = first.send(RunOutcome::Paused);
        world.wait(1, TransferState::Paused);
        let again = world.manager.act_on_many(&many(Some(end)), &caller).unwrap();
        assert!(again.items.is_empty(), "nothing changes");
    }
    let items = world.manager.act_on_many(&many(None), &caller).unwrap().items;
    assert_eq!((items.len(), end_of(1)), (1, None));
    let problem = world.manager.act_on_many(&many(Some(1)), &caller).unwrap_err();
    let fault = &problem.context.as_ref().unwrap().errors[0];
    assert_eq!((problem.code, fault.pointer.as_str()), (ProblemCode::Request, "/until"));
}
