//! The list of transfers, in parts and by filters.

use penstock_cluster::state::ListOrder;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;

fn ids(world: &World, filter: &TransferFilter) -> Vec<u8> {
    let page = world.manager.list(filter, None, 500, &Caller::local()).unwrap();
    page.items.iter().map(|item| item.id.0[0]).collect()
}

/// Promise (A2): the pages of a list have each transfer that existed at its begin exactly once, in
/// both orders, whatever is submitted meanwhile.
#[test]
#[expect(clippy::print_stdout, reason = "a test that fails prints its seed")]
fn a2_pages_are_stable_while_transfers_are_added() {
    for seed in 0..20 {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let world = World::new(1);
        let mut fresh: Vec<u8> = (1..=60).collect();
        let mut submit = || {
            let id = fresh.swap_remove(random.random_range(0..fresh.len()));
            world.submit(id, "lab:raw/a", &format!("hpc:s/{id}")).unwrap();
            (id, random.random_range(1..7))
        };
        let old: BTreeSet<u8> = (0..25).map(|_| submit().0).collect();
        let orders = [ListOrder::NewestFirst, ListOrder::OldestFirst];
        let filter = TransferFilter { order: orders[seed as usize % 2], ..Default::default() };
        let (mut cursor, mut seen) = (None, Vec::new());
        loop {
            let (_, limit) = submit();
            let list = world.manager.list(&filter, cursor.as_deref(), limit, &Caller::local());
            let page = list.unwrap();
            seen.extend(page.items.iter().map(|item| item.id.0[0]));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        let mut seen_old: Vec<_> = seen.into_iter().filter(|id| old.contains(id)).collect();
        seen_old.sort_unstable();
        assert_eq!(seen_old, old.into_iter().collect::<Vec<_>>());
    }
}

/// Promise: a list has the transfers that its filter selects, with their present and not their
/// stored states, and without paths.
#[test]
fn a_filter_chooses_by_the_state_of_now() {
    let world = World::new(1);
    let mut long = request(1, "lab:raw/a", "hpc:s/1");
    long.options.files_from = vec![PathText(b"f".to_vec()); 100];
    long.label = "Run 7".to_owned();
    world.manager.submit(&long, &Caller::local()).unwrap();
    let (_, end) = world.call();
    world.submit(2, "lab:raw/a", "hpc:t/2").unwrap();
    world.act(2, Action::Pause).unwrap();
    let all = TransferFilter::default;
    let of = |states: &[TransferState]| TransferFilter { states: states.to_vec(), ..all() };
    assert_eq!(ids(&world, &of(&[TransferState::Running])), [1]);
    assert_eq!(ids(&world, &of(&[TransferState::Paused, TransferState::Done])), [2]);
    let name = |name: &str| Some(name.parse::<Name>().unwrap());
    assert_eq!(ids(&world, &TransferFilter { store: name("t"), ..all() }), [2]);
    assert_eq!(ids(&world, &TransferFilter { site: name("lab"), ..all() }).len(), 2);
    assert_eq!(ids(&world, &TransferFilter { owner: name("anna"), ..all() }).len(), 0);
    assert_eq!(ids(&world, &TransferFilter { label: "run".to_owned(), ..all() }), [1]);
    assert_eq!(ids(&world, &TransferFilter { until_ms: Some(1000), ..all() }).len(), 0);
    assert_eq!(ids(&world, &TransferFilter { since_ms: Some(1000), ..all() }).len(), 2);
    assert_eq!(ids(&world, &TransferFilter { needs_attention: true, ..all() }).len(), 0);
    let list = world.manager.list(&all(), None, 10, &Caller::local()).unwrap();
    let first = list.items.iter().find(|item| item.id == long.id).unwrap();
    assert_eq!((first.files_from_count, first.attempt), (100, 1));
    assert!(first.started_at.is_some() && first.ended_at.is_none());
    let paused = list.items.iter().find(|item| item.id != long.id).unwrap();
    let waiting = paused.waiting.as_ref().unwrap();
    assert_eq!(
        (waiting.code.as_str(), waiting.on.as_ref().unwrap().name.as_str()),
        ("user", "root")
    );
    let problem = Problem::new(ProblemCode::Manifest, "the list is broken");
    end.send(RunOutcome::Failed(problem)).unwrap();
    world.wait(1, TransferState::Failed);
    assert_eq!(ids(&world, &TransferFilter { needs_attention: true, ..all() }), [1]);
    let list = world.manager.list(&of(&[TransferState::Failed]), None, 10, &Caller::local());
    assert!(list.unwrap().items[0].ended_at.is_some());
}

/// Promise (A2): the parts of a list by state hold each transfer of these states once, in the order
/// of the whole list, whether it has ended or not.
#[test]
fn a2_a_list_by_state_in_parts_is_complete() {
    let world = World::new(1);
    world.submit(1, "lab:raw/a", "hpc:s/1").unwrap();
    let (_, end) = world.call();
    let problem = Problem::new(ProblemCode::Manifest, "the list is broken");
    end.send(RunOutcome::Failed(problem)).unwrap();
    world.wait(1, TransferState::Failed);
    world.submit(2, "lab:raw/a", "hpc:s/2").unwrap();
    let (_, _runs) = world.call();
    (3..=9).for_each(|id| drop(world.submit(id, "lab:raw/a", &format!("hpc:s/{id}")).unwrap()));
    world.act(4, Action::Pause).unwrap();
    let states = vec![TransferState::Queued, TransferState::Failed];
    for order in [ListOrder::NewestFirst, ListOrder::OldestFirst] {
        let all = TransferFilter { order, ..Default::default() };
        let wanted: Vec<_> =
            ids(&world, &all).into_iter().filter(|id| ![2, 4].contains(id)).collect();
        let filter = TransferFilter { states: states.clone(), ..all };
        let (mut cursor, mut seen) = (None, Vec::new());
        loop {
            let list = world.manager.list(&filter, cursor.as_deref(), 3, &Caller::local());
            let page = list.unwrap();
            seen.extend(page.items.iter().map(|item| item.id.0[0]));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, wanted, "{order:?}");
    }
    let anna =
        TransferFilter { states, owner: Some("anna".parse().unwrap()), ..Default::default() };
    assert!(ids(&world, &anna).is_empty());
}

/// Promise: a user changes the fields that decide the start of a transfer. A change by another user
/// meanwhile is not overwritten, and a repeated submission is still the same transfer.
#[test]
fn a_transfer_is_changed_while_it_waits() {
    let world = World::new(1);
    world.submit(1, "lab:raw/a", "hpc:s/1").unwrap();
    let (_, _end) = world.call();
    world.submit(2, "lab:raw/a", "hpc:s/2").unwrap();
    world.submit(3, "lab:raw/a", "hpc:s/3").unwrap();
    let patch = |json: &str| serde_json::from_str::<TransferPatch>(json).unwrap();
    let change = |id: u8, json: &str, is_current: bool| {
        let id = TransferId([id; 16]);
        world.manager.change(id, &patch(json), &|_| is_current, &Caller::local())
    };
    let first = || world.manager.queue().transfers.first().map(|entry| entry.id.0[0]);
    let changed = change(3, r#"{"priority": 90, "label": "soon"}"#, true).unwrap();
    assert_eq!((changed.priority, changed.label.as_str()), (Some(90), "soon"));
    let looks = (0..6000).take_while(|_| {
        // The scheduler decides on a thread of its own, and sends no event.
        std::thread::sleep(Duration::from_millis(10));
        first() != Some(3)
    });
    assert!(looks.count() < 6000, "the queue follows the priority");
    let stale = change(3, r#"{"priority": 1}"#, false).unwrap_err();
    assert_eq!((stale.code, stale.status), (ProblemCode::ChangedMeanwhile, 412));
    let wrong = change(3, r#"{"priority": 101}"#, true).unwrap_err();
    assert_eq!(wrong.context.unwrap().errors[0].pointer, "/priority");
    let same = world.submit(3, "lab:raw/a", "hpc:s/3").unwrap();
    assert_eq!(same.priority, Some(90));
    let slow = change(1, r#"{"limits": {"rate_bits_per_s": 9000000}}"#, true).unwrap();
    assert_eq!(slow.options.limits.rate_bits_per_s, Some(9_000_000));
    assert_eq!(slow.state, TransferState::Running);
}
