//! Two transfers never write to one place, whichever peers of a site they are submitted to. Real
//! daemons, a real etcd; skips, loudly, where etcd is not installed.

use penstock_testkit::{Etcd, Scratch, Site, assert_same_files, make_set, seed, told};

/// Whether a submission was taken; a refusal must be exit 6 and name the transfer `other`, if that
/// is given.
fn is_taken(at: &Site, target: &str, other: Option<&str>) -> bool {
    let output = at.run(&["transfer", "submit", "lab:data/set/", target]);
    if output.status.success() {
        return true;
    }
    let said = told(&output);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(other.is_none_or(|id| said.contains(id)), "{said}");
    false
}

/// B8: at a site of several peers overlapping targets are refused at each of them, by the id of the
/// transfer that is in the way; of two that come at once at two peers one is taken; and the next
/// controller knows what is taken.
#[test]
fn b8_overlapping_targets_are_refused_at_any_peer_and_after_a_failover() {
    let root = Scratch::in_memory();
    let Some(etcd) = Etcd::start(root.path(), 1) else { return };
    let mut h1 = Site::first_peer(root.path(), "hpc", &etcd);
    let h2 = h1.join(root.path(), "h2");
    let mut lab = h2.paired_lab(root.path());
    make_set(&lab.store.join("set"), 1, 20, seed());
    // Nothing can begin, so that all of them wait.
    lab.kill();
    let id = h2.submit(&["lab:data/set/", "hpc:data/a/b"]);
    let overlapping = ["hpc:data/a/b", "hpc:data/a", "hpc:data/a/b/c"];
    for target in overlapping {
        assert!(!is_taken(&h1, target, Some(&id)) && !is_taken(&h2, target, Some(&id)));
    }
    let taken = std::thread::scope(|scope| {
        let both = [&h1, &h2].map(|at| scope.spawn(|| is_taken(at, "hpc:data/c", None)));
        both.map(|thread| thread.join().unwrap())
    });
    assert_eq!(taken.iter().filter(|taken| **taken).count(), 1, "{taken:?}");
    h1.kill();
    h2.status_until(|status| status["cluster"]["is_leader"] == true);
    for target in overlapping {
        assert!(!is_taken(&h2, target, Some(&id)));
    }
    assert!(!is_taken(&h2, "hpc:data/c/d", None) && is_taken(&h2, "hpc:data/d", None));
    lab.start();
    for transfer in h2.list() {
        h2.wait_done(transfer["id"].as_str().unwrap());
    }
    for target in ["a/b", "c", "d"] {
        assert_same_files(&lab.store.join("set"), &h2.store.join(target));
    }
    // What has ended is in nobody's way.
    assert!(is_taken(&h2, "hpc:data/a", None));
}
