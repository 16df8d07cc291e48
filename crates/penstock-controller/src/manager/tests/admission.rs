//! Promise: a store or another site that does not answer delays only the requests that ask it.

use std::thread;

use penstock_api::limits::LimitRequest;

use super::*;

/// Longest wait for an event that must occur.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a call while another call hangs; fails if the first waits for the second.
fn meanwhile<T: Send>(what: impl FnOnce() -> T + Send, let_go: &mut Option<Sender<()>>) -> T {
    thread::scope(|scope| {
        let (done, is_done) = mpsc::channel();
        scope.spawn(move || done.send(what()).unwrap());
        let came = is_done.recv_timeout(PATIENCE);
        if came.is_err() {
            // The threads of this test end before it fails.
            *let_go = None;
        }
        came.expect("it waits for a call that hangs")
    })
}

/// Promise: while a paired site does not answer, transfers are submitted and steered, even during a
/// search for remains. Such a site is asked once, not for each of its transfers.
#[test]
fn a_silent_site_holds_up_nobody_else() {
    let world = World::new(4);
    for (id, target) in [(1, "lab:raw/x"), (2, "lab:raw/y"), (3, "lab:raw/z")] {
        world.submit(id, "hpc:s/a", target).unwrap();
    }
    let (held, was_reached, let_go) = Held::new();
    *world.sites.held.lock().unwrap() = Some(held);
    let (manager, mut let_go) = (&world.manager, Some(let_go));
    let orphans = thread::scope(|scope| {
        let orphans = scope.spawn(|| manager.orphans(true).unwrap());
        was_reached.recv_timeout(PATIENCE).unwrap();
        let steer = || {
            let request = request(4, "lab:raw/a", "hpc:s/1");
            manager.submit(&request, &Caller::local()).unwrap();
            let limit = LimitRequest { rate_bits_per_s: Some(1_000_000) };
            manager.change(request.id, &limit.into(), &|_| true, &Caller::local()).unwrap();
            manager.act(request.id, Action::Cancel, &Caller::local()).unwrap()
        };
        meanwhile(steer, &mut let_go);
        drop(let_go.take());
        orphans.join().unwrap()
    });
    assert_eq!(orphans, Vec::new(), "who does not answer may know them all");
    assert_eq!(world.sites.shows.load(Ordering::Acquire), 1);
}

/// B8: a store that does not answer delays no submit to another one. A delayed submit is refused if
/// another transfer has the place by then.
#[test]
fn b8_a_hung_store_holds_up_no_other_submit() {
    let world = World::new(4);
    let (held, was_reached, let_go) = Held::new();
    *world.peer.held.lock().unwrap() = Some(held);
    let (manager, mut let_go) = (&world.manager, Some(let_go));
    let submit = |id, target| {
        let request = request(id, "lab:raw/a/", target);
        manager.submit(&request, &Caller::local()).map(|(view, new)| (view.id, new))
    };
    let late = thread::scope(|scope| {
        let late = scope.spawn(|| submit(1, "hpc:s/x/y"));
        was_reached.recv_timeout(PATIENCE).unwrap();
        let first = meanwhile(|| submit(2, "hpc:s/x").unwrap(), &mut let_go);
        assert_eq!(first, (TransferId([2; 16]), true));
        drop(let_go.take());
        late.join().unwrap()
    });
    assert_eq!(late.unwrap_err().code, ProblemCode::Overlap);
    assert_eq!(submit(2, "hpc:s/x"), Ok((TransferId([2; 16]), false)));
}

/// B8: a move that is retried after failed items begins without a ledger, and informs the source
/// first. Until the source answers, other transfers run, the target place stays taken, and no other
/// command changes that transfer.
#[test]
fn b8_a_retry_keeps_its_place_while_its_source_is_silent() {
    let world = World::new(4);
    let mut moves = request(1, "lab:raw/a/", "hpc:s/1");
    moves.options.remove_source = true;
    world.manager.submit(&moves, &Caller::local()).unwrap();
    let (input, end) = world.call();
    std::fs::create_dir_all(&input.journal).unwrap();
    let failed = r#"{"path":"x/y","code":"denied","message":"could not be read"}"#;
    std::fs::write(input.journal.join("failures.jsonl"), failed).unwrap();
    end.send(fatal()).unwrap();
    world.wait(1, TransferState::Failed);
    let (held, was_reached, let_go) = Held::new();
    *world.sites.held.lock().unwrap() = Some(held);
    let (manager, mut let_go) = (&world.manager, Some(let_go));
    let act = |action| manager.act(TransferId([1; 16]), action, &Caller::local());
    let submit = |id, target| {
        manager
            .submit(&request(id, "lab:raw/b/", target), &Caller::local())
            .map(|(view, _)| view.id)
    };
    thread::scope(|scope| {
        let retry = scope.spawn(|| act(Action::Retry).unwrap());
        was_reached.recv_timeout(PATIENCE).unwrap();
        let others = || {
            assert_eq!(submit(2, "hpc:s/1/z").unwrap_err().code, ProblemCode::Overlap);
            assert_eq!(act(Action::Cancel).unwrap_err().code, ProblemCode::TransferBusy);
            assert_eq!(manager.orphans(true).unwrap(), Vec::new());
            submit(3, "hpc:s/2").unwrap()
        };
        meanwhile(others, &mut let_go);
        drop(let_go.take());
        assert_eq!(retry.join().unwrap().state, TransferState::Queued);
    });
    let mut runs = [world.call(), world.call()];
    runs.sort_by_key(|(input, _)| input.id);
    assert!(!runs[0].0.journal.join("failures.jsonl").exists());
    assert_eq!(submit(4, "hpc:s/1").unwrap_err().code, ProblemCode::Overlap);
    assert_eq!(act(Action::Cancel).unwrap().state, TransferState::Running);
}
