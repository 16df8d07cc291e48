//! Transfers of several users: the rights of each to see and steer them, and their turns.

use penstock_api::access::{Principal, Role, StoreGrant, TokenId, User, Via};

use super::*;

fn user(name: &str, role: Role, grants: &[(&str, StoreGrant)]) -> Caller {
    Caller::User(Principal {
        user: name.parse().unwrap(),
        role,
        via: Via::Token { id: TokenId([1; 8]) },
        scopes: None,
        grants: grants.iter().map(|(store, grant)| (store.parse().unwrap(), *grant)).collect(),
        account: format!("{name}-account").parse().ok(),
    })
}

const WRITE: StoreGrant = StoreGrant { list: false, read: false, write: true };

/// C2: a user submits to stores that a grant names, and sees and steers its own transfers; those of
/// others do not exist for it, also where it guesses an id. An operator sees and steers all.
#[test]
fn c2_a_user_sees_and_steers_its_own_transfers() {
    let world = World::new(4);
    let anna = user("anna", Role::User, &[("s", WRITE)]);
    let ben = user("ben", Role::User, &[("s", WRITE)]);
    let (operator, viewer) = (user("op", Role::Operator, &[]), user("vi", Role::Viewer, &[]));
    let nobody = user("cy", Role::User, &[]);
    let wanted = request(1, "lab:raw/a", "hpc:s/x");
    let refused = world.manager.submit(&wanted, &nobody).unwrap_err();
    assert_eq!(refused.code, ProblemCode::NotAuthorised);
    assert!(refused.hint.contains("--grant s=write"), "{}", refused.hint);
    let (view, _) = world.manager.submit(&wanted, &anna).unwrap();
    assert_eq!(view.owner, Some("anna".parse().unwrap()));
    let (_, end) = world.call();
    let id = wanted.id;
    assert_eq!(world.manager.show(id, &ben).unwrap_err().status, 404);
    assert_eq!(world.manager.submit(&wanted, &ben).unwrap_err().code, ProblemCode::IdTaken);
    assert_eq!(world.manager.act(id, Action::Cancel, &ben).unwrap_err().status, 404);
    let listed = |caller| {
        world.manager.list(&TransferFilter::default(), None, 10, caller).unwrap().items.len()
    };
    assert_eq!([&anna, &ben, &operator, &viewer].map(listed), [1, 0, 1, 1]);
    let steered = world.manager.act(id, Action::Pause, &viewer).unwrap_err();
    assert_eq!(steered.code, ProblemCode::NotAuthorised);
    world.manager.act(id, Action::Pause, &operator).unwrap();
    end.send(RunOutcome::Paused).unwrap();
    world.wait(1, TransferState::Paused);
}

/// Promise: for any place that a client names for a part of a plan, the answer names the fault. A
/// part that does not follow the ones before is not kept.
#[test]
fn a_part_of_a_plan_follows_the_ones_before() {
    let world = World::new(1);
    let anna = user("anna", Role::User, &[("s", WRITE)]);
    let (site, store): (Name, Name) = ("hpc".parse().unwrap(), "s".parse().unwrap());
    let (id, part) = (TransferId([1; 16]), b"part".as_slice());
    let put = |offset, caller: &Caller| {
        world.manager.put_plan((&site, &store), id, offset, part, caller).map_err(|why| why.code)
    };
    assert_eq!(put(u64::MAX, &anna), Err(ProblemCode::PlanTooLong));
    assert_eq!(put(u64::MAX, &Caller::local()), Err(ProblemCode::PlanTooLong));
    assert_eq!(put(4, &anna), Err(ProblemCode::PlanPart));
    assert!(!world.directory.path().join("journal").join(id.to_string()).exists());
    assert_eq!((put(0, &anna), put(4, &anna)), (Ok(()), Ok(())));
    assert_eq!(put(9, &anna), Err(ProblemCode::PlanPart));
}

/// C2: the first digits of an id name a transfer among those that the caller sees, however many
/// others begin with them.
#[test]
fn c2_a_short_id_is_looked_up_among_own_transfers() {
    let world = World::new(8);
    let anna = user("anna", Role::User, &[("s", WRITE)]);
    let ben = user("ben", Role::User, &[("s", WRITE)]);
    let submit = |id: u8, caller| {
        let wanted = request(id, "lab:raw/a", &format!("hpc:s/{id}"));
        world.manager.submit(&wanted, caller).unwrap().0.id
    };
    let others = [submit(0x70, &ben), submit(0x71, &ben)];
    let own = submit(0x72, &anna);
    assert_eq!(world.manager.resolve("7", &anna).unwrap(), own);
    let code = |caller| world.manager.resolve("7", caller).unwrap_err().code;
    assert_eq!(code(&ben), ProblemCode::TransferAmbiguous, "{others:?}");
    submit(0x73, &anna);
    assert_eq!(code(&anna), ProblemCode::TransferAmbiguous);
}

/// C2: a user who has lost the grant to read a store neither retries nor resumes a transfer of
/// another site that reads from it. The hint keeps the rights that the user has.
#[test]
fn c2_a_grant_that_ended_ends_retries_at_other_sites() {
    let world = World::new(4);
    const READ: StoreGrant = StoreGrant { list: false, read: true, write: false };
    let anna = |grant| user("anna", Role::User, &[("s", grant)]);
    let wanted = request(1, "hpc:s/a", "lab:raw/x");
    world.manager.submit(&wanted, &anna(READ)).unwrap();
    for action in [Action::Retry, Action::Resume] {
        let refused = world.manager.act(wanted.id, action, &anna(WRITE)).unwrap_err();
        assert_eq!(refused.code, ProblemCode::NotAuthorised);
        assert!(refused.hint.contains("--grant s=read,write"), "{}", refused.hint);
    }
}

/// Q1: a user with many transfers does not hold back another one with a single transfer; and each
/// one that waits has a code, and its place.
#[test]
fn q1_users_take_turns() {
    let world = World::new(1);
    let anna = user("anna", Role::User, &[("s", WRITE)]);
    let ben = user("ben", Role::User, &[("s", WRITE)]);
    let submit = |id: u8, caller| {
        let wanted = request(id, "lab:raw/a", &format!("hpc:s/{id}"));
        world.manager.submit(&wanted, caller).unwrap();
    };
    submit(1, &anna);
    let (first, end) = world.call();
    assert_eq!(first.id, TransferId([1; 16]));
    show_durable(&first, 100);
    (2..5).for_each(|id| submit(id, &anna));
    submit(9, &ben);
    end.send(RunOutcome::Done).unwrap();
    let (second, end) = world.call();
    assert_eq!(second.id, TransferId([9; 16]), "the one of the other user comes next");
    let queue = world.manager.queue();
    assert_eq!((queue.running, queue.waiting), (1, 3));
    for (place, entry) in queue.transfers.iter().enumerate() {
        assert_eq!(entry.owner, Some("anna".parse().unwrap()));
        assert_eq!(
            (entry.waiting.code.as_str(), entry.waiting.position),
            ("turn", Some(place as u64))
        );
    }
    drop(end);
}

/// Promise: a transfer does not start before its time, and shows the end of its wait.
#[test]
fn a_start_time_is_kept() {
    let world = World::new(1);
    let later = penstock_cluster::clock::now_seconds() + 3600;
    let wanted = TransferRequest { not_before: Some(later), ..request(1, "lab:raw/a", "hpc:s/1") };
    world.manager.submit(&wanted, &Caller::local()).unwrap();
    world.submit(2, "lab:raw/a", "hpc:s/2").unwrap();
    let (input, end) = world.call();
    assert_eq!(input.id, TransferId([2; 16]));
    let waiting = world.manager.show(wanted.id, &Caller::local()).unwrap().waiting.unwrap();
    assert_eq!((waiting.code.as_str(), waiting.until_ms), ("not-before", Some(later * 1000)));
    end.send(RunOutcome::Done).unwrap();
}

/// Promise (D10): a transfer has the account of its user, also after a restart of the daemon, and
/// its scan and run get it. A transfer of a paired site has the account that the site is mapped to.
#[test]
fn d10_a_transfer_keeps_its_account() {
    let mut world = World::new(4);
    let anna = user("anna", Role::User, &[("s", WRITE)]);
    world.manager.submit(&request(1, "lab:raw/a", "hpc:s/x"), &anna).unwrap();
    let site = "lab".parse().unwrap();
    let lab = Caller::Site { site, account: "labxfer".parse().ok() };
    world.manager.submit(&request(2, "lab:raw/a", "hpc:s/y"), &lab).unwrap();
    let account = |(input, end): Call| ((input.id, input.account.map(String::from)), end);
    let both = |world: &World| {
        let (found, ends): (Vec<_>, Vec<_>) = (0..2).map(|_| account(world.call())).unzip();
        let mut found = found;
        found.sort();
        let wanted = ["anna-account", "labxfer"].map(|account| Some(account.to_owned()));
        let wanted: Vec<_> =
            [1, 2].map(|id| TransferId([id; 16])).into_iter().zip(wanted).collect();
        assert_eq!(found, wanted);
        ends
    };
    let ends = both(&world);
    world.restart(ends, false);
    drop(both(&world));
}

/// Promise (D10): another site that owns a transfer reads here as the user who submitted it, and
/// only from the source that the user named. Otherwise it has the account that the site is mapped
/// to.
#[test]
fn d10_an_id_opens_no_other_source_of_its_user() {
    let world = World::new(4);
    const READ: StoreGrant = StoreGrant { list: false, read: true, write: false };
    let anna = user("anna", Role::User, &[("s", READ)]);
    world.manager.submit(&request(1, "hpc:s/a", "lab:raw/x"), &anna).unwrap();
    let source = |owner: &str, id: u8, store: &str, path: &str| {
        let (owner, store) = (owner.parse().unwrap(), store.parse().unwrap());
        let path = PathText(path.into());
        world.manager.source_account(&owner, TransferId([id; 16]), (&store, &path)).unwrap()
    };
    let own = SourceAccount::Submitter("anna-account".parse().ok());
    assert_eq!(source("lab", 1, "s", "a"), own);
    for (owner, id, store, path) in
        [("lab", 1, "s", "b"), ("lab", 1, "t", "a"), ("lab", 2, "s", "a"), ("spy", 1, "s", "a")]
    {
        assert_eq!(source(owner, id, store, path), SourceAccount::Mapped, "{owner} {id} {path}");
    }
}

/// Q1: groups take turns before their users do, as soon as an administrator has named them.
#[test]
fn q1_groups_take_turns_once_they_are_named() {
    let world = World::new(1);
    for name in ["anna", "ben"] {
        let user = User {
            name: name.parse().unwrap(),
            role: Role::User,
            created: 1,
            disabled: false,
            grants: BTreeMap::new(),
            account: None,
            group: "beam".parse().ok(),
            password: None,
            identity: None,
        };
        world.manager.state.put_user(&user).unwrap();
    }
    world.manager.follow_groups().unwrap();
    let submit = |id: u8, name| {
        let wanted = request(id, "lab:raw/a", &format!("hpc:s/{id}"));
        let caller = user(name, Role::User, &[("s", WRITE)]);
        world.manager.submit(&wanted, &caller).unwrap();
    };
    submit(1, "anna");
    let (first, end) = world.call();
    show_durable(&first, 100);
    submit(2, "ben");
    submit(9, "cleo");
    end.send(RunOutcome::Done).unwrap();
    let (second, _end) = world.call();
    assert_eq!(second.id, TransferId([9; 16]), "ben's group was served");
}
