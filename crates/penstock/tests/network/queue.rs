//! The queue as operators steer it from the command line, at a real daemon.

use penstock_testkit::{Scratch, Site, Wait};
use serde_json::{Value, json};

fn queue(site: &Site) -> Value {
    serde_json::from_str(&site.ok(&["queue", "show", "--json"])).unwrap()
}

/// Promise: rules of the queue and deadlines outlive `kill -9`; a hold keeps transfers queued with
/// its name and reason; one command acts on all that fit; a released transfer arrives.
#[test]
fn rules_outlive_a_kill() {
    let base = Scratch::on_disk();
    let mut site = Site::init(base.path(), "hpc", None);
    site.start();
    std::fs::create_dir(site.store.join("src")).unwrap();
    std::fs::write(site.store.join("src/a"), "a").unwrap();
    site.ok(&["queue", "hold", "upgrade", "--store", "data", "--reason", "new disks"]);
    site.ok(&["queue", "limit", "store", "data", "--running", "2", "--bwlimit", "80Mbit/s"]);
    site.ok(&["queue", "share", "anna", "3"]);
    let night = ["--from", "22:00", "--to", "06:00", "--zone", "Europe/Zurich"];
    site.ok(
        &[&["queue", "window", "night", "--user", "anna", "--running", "1"], &night[..]].concat()
    );
    let best = ["--deadline", "2h", "--deadline-policy", "best_effort"];
    let first = site.submit(&[&["hpc:data/src/", "hpc:data/one"], &best[..]].concat());
    let second = site.submit(&["hpc:data/src/", "hpc:data/two", "--label", "second"]);
    site.kill();
    site.start();
    for id in [&first, &second] {
        let view = site.show_until(id, |view| view["waiting"]["code"] == "pause-rule");
        let rule = json!({ "kind": "rule", "name": "upgrade" });
        assert_eq!((&view["state"], &view["waiting"]["on"]), (&json!("queued"), &rule));
        assert!(view["reason"].as_str().unwrap().contains("new disks"), "{view}");
    }
    assert_eq!(site.show(&first)["deadline"]["policy"], "best_effort");
    let seen = queue(&site);
    assert_eq!((&seen["waiting"], &seen["pause_rules"][0]["holds"]), (&json!(2), &json!(2)));
    assert_eq!(seen["windows"][0]["zone"], "Europe/Zurich");
    let user = seen["users"].as_array().unwrap().iter().find(|user| user["user"] == "anna");
    assert_eq!(user.unwrap()["weight"], 3);
    let is_store = |limit: &&Value| limit["kind"] == "store";
    let limit = seen["limits"].as_array().unwrap().iter().find(is_store).unwrap();
    assert_eq!((&limit["running"], &limit["rate_bits_per_s"]), (&json!(2), &json!(80_000_000)));
    site.ok(&["transfer", "cancel", "--all", "--label", "second"]);
    site.show_until(&second, |view| view["state"] == "cancelled");
    let refused = site
        .fails(6, &["transfer", "submit", "hpc:data/src/", "hpc:data/three", "--deadline", "1h"]);
    assert!(refused.contains("cannot be promised"), "{refused}");
    site.ok(&["queue", "release", "upgrade"]);
    site.wait_done(&first);
    site.fails(2, &["queue", "release", "upgrade"]);
    Wait::new("the queue is empty").is(|| queue(&site)["waiting"] == 0);
}

/// Promise: the end of a pause outlives `kill -9`: the transfer resumes by itself, and not before.
#[test]
fn the_end_of_a_pause_outlives_a_kill() {
    let base = Scratch::on_disk();
    let mut site = Site::init(base.path(), "hpc", None);
    site.start();
    std::fs::create_dir(site.store.join("src")).unwrap();
    std::fs::write(site.store.join("src/a"), "a").unwrap();
    // A hold keeps it from running before it is paused.
    site.ok(&["queue", "hold", "upgrade", "--store", "data", "--reason", "new disks"]);
    let id = site.submit(&["hpc:data/src/", "hpc:data/one"]);
    site.ok(&["transfer", "pause", &id, "--until", "8s"]);
    let paused = site.show(&id);
    assert_eq!(paused["state"], "paused", "{paused}");
    let until = paused["waiting"]["until"].as_str().expect("the end is shown").to_owned();
    site.kill();
    site.start();
    site.ok(&["queue", "release", "upgrade"]);
    site.wait_done(&id);
    // Times of RFC 3339 in UTC have the order of their texts.
    let ended = site.show(&id)["ended_at"].as_str().unwrap().to_owned();
    assert!(ended > until, "it ended at {ended}, before {until}");
}
