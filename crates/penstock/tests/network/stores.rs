//! Users who look into stores, and read the audit log, at real daemons.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use penstock_testkit::{Fuse, Scratch, Site, two_sites};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::users::World;

const ENTRIES: &str = "/api/v1/stores/data/entries";

/// Returns the names in a list of entries.
fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("{list}"));
    items.iter().map(|item| item["name"].as_str().unwrap()).collect()
}

/// Makes `run7` in a store, with entries of several kinds.
fn fill(root: &Path) {
    fs::create_dir(root.join("run7")).unwrap();
    for name in ["a", "b", "new\nline"] {
        fs::write(root.join("run7").join(name), "data").unwrap();
    }
    symlink("/etc", root.join("run7/link")).unwrap();
    assert!(Command::new("mkfifo").arg(root.join("run7/pipe")).status().unwrap().success());
}

/// Promise (C2): a store is listed by those with a grant for it, byte by byte, and a directory is
/// made by those who may write.
#[test]
fn c2_stores_are_listed_by_grant() {
    let world = World::start();
    let root = &world.site.store;
    fill(root);
    for (user, role, grant) in [
        ("lists", "viewer", "data=list"),
        ("reads", "user", "data=read"),
        ("writes", "user", "data=list,write"),
        ("other", "user", "other=read"),
    ] {
        world.site.ok(&["user", "set", user, "--role", role, "--grant", grant]);
    }
    world.site.ok(&["user", "set", "ops", "--role", "operator"]);
    let [lists, reads, writes, other, ops] =
        ["lists", "reads", "writes", "other", "ops"].map(|user| world.token(user, &[]));
    let run7 = format!("{ENTRIES}?path=run7");
    for token in [&lists, &reads, &writes, &ops] {
        let list = world.get(&run7, token);
        assert_eq!(names(&list), ["a", "b", "link", "new\\nline", "pipe"]);
        assert_eq!((&list["sorted"], &list["next"]), (&json!(true), &Value::Null));
    }
    let denied = world.get(&run7, &other);
    assert_eq!((&denied["code"], &denied["status"]), (&json!("not-authorised"), &json!(403)));
    assert!(denied["hint"].as_str().unwrap().contains("--grant data=list"), "{denied}");
    assert_eq!(world.get("/api/v1/stores/data", &other)["code"], "store-unknown");
    let details = world.get("/api/v1/stores/data", &reads);
    assert_eq!((&details["state"], &details["rights"]["write"]), (&"online".into(), &json!(false)));
    assert_eq!(details["rights"]["list"], json!(true));
    let scoped = world.token("ops", &["--scope", "stores:list"]);
    assert_eq!(names(&world.get(&run7, &scoped)).len(), 5);
    let scoped = world.token("ops", &["--scope", "transfers:write"]);
    assert_eq!(world.get(&run7, &scoped)["code"], "not-authorised");
    let make = |token: &str, path: &str| {
        let call = "/api/v1/stores/data/directories";
        let (status, reply) = world.ask_post(call, token, &json!({ "path": path }));
        (status, reply.contains("entry-exists"))
    };
    assert_eq!(make(&reads, "new"), (StatusCode::FORBIDDEN, false));
    assert_eq!(make(&writes, "new"), (StatusCode::CREATED, false));
    assert_eq!(make(&writes, "new"), (StatusCode::CONFLICT, true));
    assert!(root.join("new").is_dir());
    let ca = world.site.dir.join("ca.pem");
    fs::write(&ca, world.site.ok(&["site", "ca"])).unwrap();
    let mut command = world.site.command(&["store", "ls", "data/run7", "--sort", "mtime"]);
    command.env("PENSTOCK_URL", &world.url).env("PENSTOCK_TOKEN", &reads).env("PENSTOCK_CA", &ca);
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(text.contains("new\\nline\n") && text.lines().count() == 5, "{text}");
}

/// Promise (i, j): a list comes page by page, a cursor serves its own list alone, no path leads out
/// of the store, and what is wrong with a request is said.
#[test]
fn i_no_path_leads_out_of_a_store() {
    let world = World::start();
    fill(&world.site.store);
    world.site.ok(&["user", "set", "ops", "--role", "operator"]);
    let ops = world.token("ops", &[]);
    let run7 = format!("{ENTRIES}?path=run7");
    let mut query = format!("{run7}&limit=2&sort=-size");
    let mut found = Vec::new();
    loop {
        let list = world.get(&query, &ops);
        found.extend(names(&list).into_iter().map(str::to_owned));
        let Some(next) = list["next"].as_str() else { break };
        let foreign = world.get(&format!("{ENTRIES}?cursor={next}"), &ops);
        assert_eq!(foreign["code"], "cursor");
        query = format!("{run7}&limit=2&sort=-size&cursor={next}");
    }
    assert_eq!(found.len(), 5);
    for (path, code) in [
        ("..", "query"),
        ("%2Fetc", "query"),
        ("run7%2F..%2F..", "query"),
        ("run7%2Flink", "entry-kind"),
        ("run7%2Flink%2Fpasswd", "entry-kind"),
        ("run7%2Fpipe", "entry-kind"),
        ("run7%2Fnone", "entry-unknown"),
    ] {
        assert_eq!(world.get(&format!("{ENTRIES}?path={path}"), &ops)["code"], code, "{path}");
    }
    for wrong in ["limit=0", "limit=1001", "sort=color", "kind=door", "path=%5Cx"] {
        assert_eq!(world.get(&format!("{ENTRIES}?{wrong}"), &ops)["code"], "query", "{wrong}");
    }
    assert_eq!(world.get(&format!("{ENTRIES}?more=1"), &ops)["code"], "unknown-field");
}

/// Promise (A4, E2, f): a store that hangs is told as such within two seconds, to each of many
/// callers, and nothing else waits for it; it is listed again when it answers.
#[test]
fn e2_a_store_that_hangs_holds_up_no_request() {
    let base = Scratch::on_disk();
    let tree = base.path().join("tree");
    fs::create_dir_all(tree.join("run7")).unwrap();
    let Some(fuse) = Fuse::mount(&tree, &base.path().join("mount"), 0) else { return };
    let mut site = Site::at_port(base.path(), "hpc", &fuse.path);
    fs::create_dir(base.path().join("sound")).unwrap();
    let sound = base.path().join("sound");
    let second = format!("[[store]]\nname = \"sound\"\npath = \"{}\"\n", sound.display());
    site.set_config(&format!("{}\n{second}", site.config()));
    site.start();
    assert_eq!(site.ok(&["store", "ls", "data"]).trim(), "run7");
    fuse.latency.hang(true);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| (site.fails(5, &["store", "ls", "data"]), began.elapsed())))
            .collect();
        let other = Instant::now();
        site.ok(&["store", "ls", "sound"]);
        site.ok(&["store", "list"]);
        site.ok(&["transfer", "list"]);
        println!("others after {:?}", other.elapsed());
        for asked in asked {
            let (told, after) = asked.join().unwrap();
            println!("{after:?}: {told}");
            assert!(told.contains("hangs") || told.contains("too many requests"), "{told}");
        }
    });
    let details = site.lines(&["store", "show", "data", "--json"]);
    assert_eq!(details[0]["state"], "hung");
    fuse.latency.hang(false);
    penstock_testkit::Wait::new("the store to answer")
        .is(|| site.run(&["store", "ls", "data"]).status.success());
}

/// Promise (C2): a paired site's stores are looked into as that site lets this one, and no further.
#[test]
fn c2_stores_of_a_paired_site_are_listed_by_its_leave() {
    let base = Scratch::on_disk();
    let stores = ["a", "b"].map(|name| base.path().join(format!("store-{name}")));
    stores.iter().for_each(|store| fs::create_dir_all(store.join("run7")).unwrap());
    fs::write(stores[0].join("run7/frame"), "data").unwrap();
    let (mut a, b) = two_sites(base.path(), &stores[0], &stores[1]);
    a.reconfigure("write = [\"*\"]", "write = []");
    a.reconfigure("delete = [\"*\"]", "delete = []");
    let listed = b.lines(&["store", "list", "a", "--json"]);
    let expected = json!({
        "name": "data", "read": true, "write": false, "delete": false, "remove": false,
    });
    assert_eq!(listed, [expected]);
    assert_eq!(b.ok(&["store", "ls", "a:data/run7"]), "frame\n");
    assert_eq!(b.ok(&["store", "ls", "b:data"]), "run7\n");
    let usage = b.lines(&["store", "show", "a:data", "--json"]).remove(0);
    let own = a.lines(&["store", "show", "data", "--json"]).remove(0);
    let total = usage["space"]["total_bytes"].as_u64().unwrap();
    assert_eq!(Some(total), own["space"]["total_bytes"].as_u64());
    assert!(total > 0 && usage["space"]["free_bytes"].as_u64().unwrap() <= total, "{usage}");
    let text = b.ok(&["store", "show", "a:data"]);
    assert!(text.contains("a:data") && text.contains(" free ("), "{text}");
    assert!(b.fails(2, &["store", "show", "a:data/run7"]).contains("without a path"));
    let refused = b.fails(12, &["store", "mkdir", "a:data/new"]);
    assert!(refused.contains("may not write"), "{refused}");
    a.ok(&["site", "grant", "b", "--write", "data"]);
    b.ok(&["store", "mkdir", "a:data/new"]);
    assert!(stores[0].join("new").is_dir());
    a.reconfigure("read = [\"*\"]", "read = []");
    assert_eq!(b.ok(&["store", "ls", "a:data"]).lines().count(), 2, "who may write may list");
    a.reconfigure("write = [\"b\"]", "write = []");
    let refused = b.fails(12, &["store", "ls", "a:data"]);
    assert!(refused.contains("may not list"), "{refused}");
    assert!(b.fails(12, &["store", "show", "a:data"]).contains("may not list"));
    assert_eq!(b.lines(&["store", "list", "a", "--json"]), Vec::<Value>::new());
    assert!(b.fails(12, &["store", "ls", "a:none"]).contains("may not list"));
    assert!(b.fails(12, &["store", "ls", "c:data"]).contains("not paired"));
    a.stop();
    let began = Instant::now();
    let unreachable = b.fails(5, &["store", "ls", "a:data"]);
    assert!(unreachable.contains("cannot be reached"), "{unreachable}");
    assert!(began.elapsed() < Duration::from_secs(20));
}

/// Promise (C9): an administrator reads all lines of the audit log, selected and in parts, as a
/// list or a stream; a user its own alone.
#[test]
fn c9_the_audit_log_is_read_by_those_who_may() {
    let world = World::start();
    for name in ["anna", "ben", "carl"] {
        world.site.ok(&["user", "set", name]);
    }
    world.site.ok(&["user", "set", "root2", "--role", "administrator"]);
    let admin = world.token("root2", &["--scope", "audit:read"]);
    let anna = world.token("anna", &[]);
    let (status, _) = world.post("/api/v1/tokens", &anna, &json!({ "label": "second" }));
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(world.get("/api/v1/users", &anna)["code"], "not-authorised");
    let actions = |list: &Value| {
        let items = list["items"].as_array().unwrap_or_else(|| panic!("{list}"));
        items.iter().map(|item| item["action"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let own = world.get("/api/v1/audit", &anna);
    assert_eq!(actions(&own), ["list_users", "create_token"]);
    let first = &own["items"][0];
    assert_eq!((&first["result"], &first["actor"]), (&"refused".into(), &"anna".into()));
    assert_eq!(world.get("/api/v1/audit?actor=root", &anna)["code"], "not-authorised");
    let all = world.get("/api/v1/audit", &admin);
    assert_eq!(actions(&all).len(), 9, "{all}");
    let of_ben = world.get("/api/v1/audit?action=put_user&object=ben", &admin);
    assert_eq!(actions(&of_ben), ["put_user"]);
    let refused = world.get("/api/v1/audit?result=refused&actor=anna", &admin);
    assert_eq!(actions(&refused), ["list_audit", "list_users"]);
    assert_eq!(actions(&world.get("/api/v1/audit?until=2001-01-01T00:00:00Z", &admin)).len(), 0);
    assert_eq!(world.get("/api/v1/audit?since=now", &admin)["code"], "query");
    let (mut query, mut parts) = ("/api/v1/audit?limit=3".to_owned(), Vec::new());
    loop {
        let list = world.get(&query, &admin);
        parts.push(actions(&list));
        let Some(next) = list["next"].as_str() else { break };
        query = format!("/api/v1/audit?limit=3&cursor={next}");
    }
    assert_eq!(parts.concat(), actions(&all));
    let lines = ("accept", "application/jsonl");
    let (status, text) = world.ask("/api/v1/audit", &admin, lines);
    assert_eq!((status, text.lines().count()), (StatusCode::OK, 9));
    let (_, text) = world.ask("/api/v1/audit?limit=2", &admin, lines);
    assert_eq!(text.lines().count(), 2);
    let listed = world.site.lines(&["audit", "list", "--json", "--action", "create_token"]);
    assert_eq!(listed.len(), 3);
    assert!(world.site.ok(&["audit", "list", "--since", "1h"]).contains("put_user carl"));
}
