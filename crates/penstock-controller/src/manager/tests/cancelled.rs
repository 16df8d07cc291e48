//! Transfers that are cancelled while their target is not there.

use super::*;

/// Waits until the end of a transfer is reported.
fn wait_for_end(events: &mut EventReader, id: u8) {
    let is_it =
        |event: &Event| matches!(event, Event::Summary(it) if it.id == TransferId([id; 16]));
    while !is_it(&next_event(events)) {}
}

/// A5: files that a cancelled transfer left at an offline store are not forgotten. The views of
/// users show them, and the ledger is kept, also from `orphans`. The files are removed when the
/// store is back, even after a restart of the daemon.
#[test]
fn a5_what_a_cancelled_transfer_left_is_known_until_it_is_removed() {
    for restarts in [false, true] {
        let mut world = World::new(4);
        world.submit(1, "lab:raw/a", "hpc:s/1").unwrap();
        let (input, end) = world.call();
        let page = input.journal.join("pages/00000000.page");
        std::fs::create_dir_all(page.parent().unwrap()).unwrap();
        std::fs::write(&page, "").unwrap();
        world.act(1, Action::Pause).unwrap();
        end.send(RunOutcome::Paused).unwrap();
        world.wait(1, TransferState::Paused);
        world.peer.offline.store(true, Ordering::Release);
        let mut events = world.manager.events();
        world.act(1, Action::Cancel).unwrap();
        wait_for_end(&mut events, 1);
        let view = world.wait(1, TransferState::Cancelled);
        assert!(view.reason.contains("store `s` is offline"), "{}", view.reason);
        assert!(page.exists());
        let found = world.manager.orphans(true).unwrap();
        assert_eq!((found.len(), found[0].kind, found[0].removed), (1, OrphanKind::Ledger, false));
        assert!(found[0].place.contains("store `s` is offline"), "{}", found[0].place);
        assert!(page.exists());
        if restarts {
            assert!(world.manager.stop(Duration::from_secs(60)));
            world.restart(Vec::new(), false);
        }
        let mut events = world.manager.events();
        world.peer.offline.store(false, Ordering::Release);
        wait_for_end(&mut events, 1);
        let view = world.manager.show(TransferId([1; 16]), &Caller::local()).unwrap();
        assert_eq!(
            (view.state, view.reason.as_str()),
            (TransferState::Cancelled, "cancelled by a user")
        );
        assert!(!input.journal.exists());
        assert_eq!(*world.peer.cleaned.lock().unwrap(), [TransferId([1; 16])]);
        assert!(world.manager.orphans(false).unwrap().is_empty());
    }
}

/// A5: a transfer that never had a page has left nothing: it is not kept for a store that may never
/// come back.
#[test]
fn a5_without_pages_there_is_nothing_to_wait_for() {
    let world = World::new(4);
    world.peer.offline.store(true, Ordering::Release);
    world.submit(1, "lab:raw/a", "hpc:s/1").unwrap();
    let (_, end) = world.call();
    world.act(1, Action::Cancel).unwrap();
    let mut events = world.manager.events();
    end.send(RunOutcome::Cancelled).unwrap();
    wait_for_end(&mut events, 1);
    assert_eq!(world.wait(1, TransferState::Cancelled).reason, "cancelled by a user");
    assert!(world.manager.orphans(false).unwrap().is_empty());
}

/// Promise: the remains of one transfer are not removed while another works at that place, as
/// directories would get new times.
#[test]
fn b8_what_is_left_waits_for_who_writes_there_now() {
    let world = World::new(4);
    world.submit(1, "lab:raw/a", "hpc:s/1").unwrap();
    let (input, end) = world.call();
    let page = input.journal.join("pages/00000000.page");
    std::fs::create_dir_all(page.parent().unwrap()).unwrap();
    std::fs::write(&page, "").unwrap();
    world.peer.offline.store(true, Ordering::Release);
    world.act(1, Action::Cancel).unwrap();
    let mut events = world.manager.events();
    end.send(RunOutcome::Cancelled).unwrap();
    wait_for_end(&mut events, 1);
    world.submit(2, "lab:raw/a", "hpc:s/1").unwrap();
    let (_, end) = world.call();
    world.peer.offline.store(false, Ordering::Release);
    world.manager.orphans.cancelled.clean_all();
    assert!(page.exists());
    end.send(RunOutcome::Done).unwrap();
    wait_for_end(&mut events, 1);
    assert!(!page.exists());
}
