//! What a paired site may take of a daemon from others: it attacks with its own, good keys, while
//! another site goes on with its work.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use penstock_net::trust::Purpose;
use penstock_net::{ConnectError, LaneStream};
use penstock_proto::frame::{FrameKind, Header};
use penstock_proto::id::TransferId;
use penstock_testkit::{Moment, Scratch, Site, Wait, make_set, seed, status_of, walk};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::doors::Kept;
use crate::hostile::{BadSource, Hostile, Told, ask_for_largest, endless, problem};

/// How long a short transfer, or a command, may take beside an attack. Alone a transfer takes a
/// second on a machine with nothing else to do, and a command some milliseconds.
const UNHINDERED: Duration = Duration::from_secs(10);

/// Site `a`, which is attacked by `b`, and which `c` reads from.
struct Scene {
    a: Site,
    b: Site,
    c: Site,
    address: SocketAddr,
    runtime: Runtime,
    _root: Scratch,
}

impl Scene {
    fn new() -> Self {
        let root = Scratch::in_memory();
        let [mut a, mut b, mut c] = ["a", "b", "c"].map(|name| Site::init(root.path(), name, None));
        let address = a.start();
        b.start();
        c.start();
        a.pair(&b);
        a.pair(&c);
        make_set(&a.store.join("src"), 12, 20, seed());
        Self { a, b, c, address, runtime: runtime(), _root: root }
    }

    fn hostile(&self) -> Hostile<'_> {
        Hostile::new(&self.b, &self.a, self.address)
    }

    /// The other site transfers, and an operator looks.
    fn goes_on(&self, to: &str) {
        let began = Moment::now();
        self.a.ok(&["transfer", "list"]);
        let listed = began.assert_within(UNHINDERED, "a list beside an attack");
        let began = Moment::now();
        self.c.ok(&["transfer", "submit", "a:data/src/small/", &format!("c:data/{to}"), "--wait"]);
        let moved = began.assert_within(UNHINDERED, "a transfer beside an attack");
        println!("beside it: listed after {listed:?}, transferred after {moved:?}");
    }
}

/// Begins bodies on sixteen connections, long and short, that never end.
async fn send_bodies(hostile: &Hostile<'_>) {
    let mut clients = Vec::new();
    for _ in 0..16 {
        clients.push(hostile.connected().await);
    }
    for client in clients {
        for path in ["/scans", "/addresses", "/addresses"] {
            let bytes = if path == "/scans" { 62 << 20 } else { 900 << 10 };
            tokio::spawn(hostile.post(&client, path).body(endless(bytes)).send());
        }
    }
}

/// Waits for a page that does not come, 60 times on each of 10 connections.
async fn wait_for_pages(hostile: &Hostile<'_>) {
    let client = hostile.client();
    assert_eq!(hostile.open_scan(&client, id(1), "src", Some(1)).await.status(), 200);
    let mut clients = Vec::new();
    for _ in 0..10 {
        clients.push(hostile.connected().await);
    }
    for client in clients {
        for _ in 0..60 {
            let path = format!("/scans/{}/pages/900?wait_ms=20000", id(1));
            tokio::spawn(hostile.get(&client, &path).send());
        }
    }
}

/// Lanes that ask for much and read nothing.
fn open_lanes(scene: &Scene, count: u32) -> Vec<LaneStream> {
    let hostile = scene.hostile();
    let page = scene.runtime.block_on(async {
        let client = hostile.client();
        assert_eq!(hostile.open_scan(&client, id(2), "src", None).await.status(), 200);
        hostile.page(&client, id(2), 0).await
    });
    let open = |number| {
        let mut lane = hostile.lane(id(2), number).unwrap();
        (1..8).for_each(|request| ask_for_largest(&mut lane, request, &page));
        lane
    };
    (0..count).map(open).collect()
}

fn id(number: u32) -> TransferId {
    let mut id = [7; 16];
    id[..4].copy_from_slice(&number.to_be_bytes());
    TransferId(id)
}

/// D4: however many bodies a site begins, few bytes of them are in memory, and a body that does not
/// come is given up.
#[test]
fn d4_bodies_of_a_site_take_little_memory() {
    let scene = Scene::new();
    let hostile = scene.hostile();
    let before = status_of(scene.a.process(), "VmRSS");
    scene.runtime.block_on(async {
        send_bodies(&hostile).await;
        let client = hostile.client();
        let (status, told) =
            problem(hostile.post(&client, "/addresses").body(endless(10)).send().await.unwrap())
                .await;
        assert!([408, 503].contains(&status), "{told}");
        tokio::time::sleep(Duration::from_secs(5)).await;
    });
    let grown = status_of(scene.a.process(), "VmRSS").saturating_sub(before);
    println!("{grown} KiB more than {before} KiB");
    assert!(grown < 160 << 10, "{grown} KiB");
    scene.goes_on("dst");
}

/// D4: a site that may read nothing is told so before its list is read.
#[test]
fn d4_rights_are_looked_at_before_a_body() {
    let mut scene = Scene::new();
    let text = scene.a.config();
    let mut lines: Vec<_> = text.lines().filter(|line| !line.starts_with("read =")).collect();
    lines.push("read = [\"c\"]");
    scene.a.set_config(&lines.join("\n"));
    scene.a.stop();
    scene.address = scene.a.start();
    let hostile = scene.hostile();
    let (status, told) = scene.runtime.block_on(async {
        let request = hostile.post(&hostile.client(), "/scans").body(endless(1000));
        let reply = tokio::time::timeout(UNHINDERED, request.send()).await;
        problem(reply.expect("the body is waited for").unwrap()).await
    });
    assert_eq!((status, told["code"].as_str()), (403, Some("not-exported")), "{told}");
}

/// D4: requests that wait for a page hold no thread, and the local API answers beside them.
#[test]
fn d4_waits_for_pages_hold_no_thread() {
    let scene = Scene::new();
    let hostile = scene.hostile();
    let before = status_of(scene.a.process(), "Threads");
    scene.runtime.block_on(async {
        wait_for_pages(&hostile).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
    });
    let threads = status_of(scene.a.process(), "Threads");
    println!("{threads} threads, {before} before");
    scene.goes_on("dst");
    assert!(threads < before + 100, "{threads}");
}

/// D4: lanes that ask and do not read take the buffers of their own site alone.
#[test]
fn d4_lanes_that_do_not_read_stop_no_other_site() {
    let scene = Scene::new();
    let lanes = open_lanes(&scene, 100);
    scene.goes_on("dst");
    drop(lanes);
}

/// D4: a site has so many scans that list, and so many lanes; others have theirs.
#[test]
fn d4_scans_and_lanes_of_a_site_are_counted() {
    let scene = Scene::new();
    let hostile = scene.hostile();
    scene.runtime.block_on(async {
        let client = hostile.client();
        let mut refused = 0;
        for number in 0..80 {
            let reply = hostile.open_scan(&client, id(number), "src", Some(1)).await;
            let retry = reply.headers().contains_key("retry-after");
            let (status, told) = problem(reply).await;
            match status {
                200 => assert!(number < 64, "{number} scans list"),
                _ => {
                    assert_eq!((status, told["code"].as_str()), (503, Some("scans-full")));
                    assert!(retry, "it is not told when to ask again");
                    refused += 1;
                }
            }
        }
        assert_eq!(refused, 16);
    });
    let lanes: Vec<_> = (0..1100).map(|number| hostile.lane(id(1), number)).collect();
    let open = lanes.iter().filter(|lane| lane.is_ok()).count();
    let threads = status_of(scene.a.process(), "Threads");
    println!("{open} lanes are open, {threads} threads");
    assert_eq!(open, 1024);
    scene.goes_on("dst");
}

/// D4: a scan that nobody asks about for a week, and whose owner knows no such transfer, goes, also
/// from disk and after a restart.
#[test]
fn d4_forgotten_scans_are_removed() {
    let mut scene = Scene::new();
    scene.runtime.block_on(async {
        let hostile = scene.hostile();
        let client = hostile.client();
        for number in 0..2 {
            let reply = hostile.open_scan(&client, id(number), "src", None).await;
            assert_eq!(reply.status(), 200);
            hostile.page(&client, id(number), 0).await;
        }
    });
    let of = |site: &Site, number| site.dir.join("source").join(id(number).to_string());
    scene.a.stop();
    let owner = fs::File::options().write(true).open(of(&scene.a, 0).join("request.owner"));
    let week = SystemTime::now() - Duration::from_secs(8 * 24 * 3600);
    owner.unwrap().set_modified(week).unwrap();
    scene.a.start();
    Wait::new("an old scan to go").is(|| !of(&scene.a, 0).exists());
    assert!(of(&scene.a, 1).exists(), "it was asked about lately");
}

/// D4: by asking for a trial of its paths a site learns nothing of other addresses: neither that
/// something listens there, nor that nothing does.
#[test]
fn d4_a_trial_of_paths_scans_no_ports() {
    let scene = Scene::new();
    let hostile = scene.hostile();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = silent.local_addr().unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let told = |address: SocketAddr| {
        let data = json!([{ "peer": "b1", "address": address }]);
        let body = json!({ "addresses": [address], "data": data }).to_string();
        let client = hostile.client();
        scene.runtime.block_on(async {
            let began = Instant::now();
            let reply = hostile.post(&client, "/probe").body(body).send().await.unwrap();
            let (status, probe) = problem(reply).await;
            assert_eq!(status, 200, "{probe}");
            let text = probe["peers"][0]["paths"].to_string();
            (text.replace(&address.to_string(), "ADDRESS"), began.elapsed().as_secs())
        })
    };
    let (of_open, of_closed) = (told(open), told(closed));
    println!("{of_open:?} {of_closed:?}");
    assert_eq!(of_open.0, of_closed.0);
    assert!(of_open.0.contains("certificate of site `b`"), "{}", of_open.0);
    assert!(of_open.1.abs_diff(of_closed.1) <= 2, "one answer is sooner than the other");
    let far = told("169.254.169.254:80".parse().unwrap());
    assert_eq!(far.0, "[]");
    drop(silent);
}

/// Promise (f): a source that breaks the protocol is dialled after growing pauses, and in the end
/// not at all: the transfer fails, and says why.
#[test]
fn a_source_that_breaks_the_protocol_is_given_up() {
    let root = Scratch::in_memory();
    let told = Arc::<OnceLock<Told>>::default();
    let bad = BadSource::start(Arc::clone(&told));
    let mut a = Site::init(root.path(), "a", Some(bad.address));
    let mut b = Site::init(root.path(), "b", None);
    let upstream = a.start();
    let other = b.authority().certificate().to_vec();
    assert!(told.set(Told { upstream, keys: a.dir.join("trust"), other }).is_ok());
    b.start();
    a.pair(&b);
    make_set(&a.store.join("src"), 2, 20, seed());
    let id = b.submit(&["a:data/src/", "b:data/dst"]);
    let summary = b.wait(&id);
    let dialled = bad.lanes.load(Ordering::SeqCst);
    println!("{dialled} lanes: {summary}");
    assert_eq!(summary["state"], "failed", "{summary}");
    let reason = b.show(&id)["reason"].to_string();
    assert!(reason.contains("breaks the lane protocol"), "{reason}");
    assert!(dialled < 60, "{dialled} lanes");
    // Nothing was durable, so that a retry needs nothing: neither markers nor files pile up.
    let private = b.store.join(".penstock-store-7q2mv0kd9j");
    let left = std::fs::read_dir(private).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["store"]);
    walk(&b.store, &mut |path| assert!(!path.to_string_lossy().contains("/.pst-"), "{path:?}"));
    for target in ["b:data/.penstock-store-7q2mv0kd9j/x", "b:data/.penstock-store-7q2mv0kd9j"] {
        let refused = b.run(&["transfer", "submit", "a:data/src/", target]);
        let words = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{words}");
        assert!(words.contains("a place of Penstock's own"), "{words}");
    }
}

/// Promise (f): a list of transfers waits for no other site that is slow to say how its own stand.
#[test]
fn a_list_does_not_wait_for_other_sites() {
    let scene = Scene::new();
    let id = scene.a.submit(&["a:data/src/", "b:data/dst", "--bwlimit=1MiB/s"]);
    scene.a.show_until(&id, |view| view["state"] == "running");
    let process = scene.b.process().to_string();
    let signal = |signal: &str| {
        let sent = std::process::Command::new("kill").args([signal, &process]).status();
        assert!(sent.unwrap().success());
    };
    signal("-STOP");
    let began = Instant::now();
    let listed = scene.a.list();
    let took = began.elapsed();
    signal("-CONT");
    println!("listed after {took:?}: {listed:?}");
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert!(listed[0]["reason"].as_str().unwrap().contains("shown as last seen"), "{listed:?}");
}

/// D4: a request that names nothing, 0, ends its lane (docs/protocol.md, 4.1).
#[test]
fn d4_a_request_has_a_number() {
    let scene = Scene::new();
    let hostile = scene.hostile();
    let page = scene.runtime.block_on(async {
        let client = hostile.client();
        assert_eq!(hostile.open_scan(&client, id(1), "src", None).await.status(), 200);
        hostile.page(&client, id(1), 0).await
    });
    let mut body = Vec::new();
    let mut ask = |number| {
        let mut lane = hostile.lane(id(1), number).unwrap();
        ask_for_largest(&mut lane, number, &page);
        lane.recv_header(&mut body).map(|header| header.request)
    };
    assert_eq!(ask(1).unwrap(), 1);
    assert!(ask(0).is_err());
}

/// Promise (f): a target that breaks the protocol gets no lane for a pause, which grows; another
/// site does not notice.
#[test]
fn a_target_that_breaks_the_protocol_is_held_back() {
    let scene = Scene::new();
    let hostile = scene.hostile();
    scene.runtime.block_on(async {
        let opened = hostile.open_scan(&hostile.client(), id(3), "src", None).await;
        assert_eq!(opened.status(), 200);
    });
    let mut pauses = Vec::new();
    for number in 1..8 {
        if pauses.len() == 3 {
            break;
        }
        let mut lane = hostile.lane(id(3), number).unwrap();
        let garbage = [0xff; 64];
        lane.send(&Header::of(FrameKind::Fetch, 1, &garbage), &garbage, &[]).unwrap();
        assert!(lane.recv_header(&mut Vec::new()).is_err(), "the lane ends");
        let refused = match hostile.lane(id(3), number) {
            Err(ConnectError::Refused(refused)) => refused,
            // On a busy machine the first pause may be over by now; the next one is longer.
            Ok(_) => continue,
            other => panic!("{other:?}"),
        };
        assert!(refused.text.contains("broke the lane protocol"), "{refused}");
        scene.goes_on(&format!("beside{number}"));
        pauses.push(refused.retry_after_ms);
        std::thread::sleep(Duration::from_millis(refused.retry_after_ms.into()));
    }
    println!("pauses of {pauses:?} ms");
    assert!(pauses.len() == 3 && pauses.is_sorted() && pauses[2] > 1000, "{pauses:?}");
    assert!(hostile.lane(id(3), 9).is_ok(), "the pause is over");
}

/// What a site gets that makes handshakes as fast as it can, from one address: run alone.
#[test]
#[ignore = "takes a minute of all processors"]
fn measured_handshakes() {
    let scene = Scene::new();
    let config = scene.b.tls_towards(&scene.a, Purpose::SiteApi);
    let (done, end) = (AtomicUsize::new(0), Instant::now() + Duration::from_secs(60));
    let mut by_second = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                while Instant::now() < end {
                    let opened = Kept::open(&config, scene.address);
                    done.fetch_add(usize::from(opened.is_ok()), Ordering::Relaxed);
                }
            });
        }
        while Instant::now() < end {
            let before = done.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_secs(1));
            by_second.push(done.load(Ordering::Relaxed) - before);
        }
    });
    println!("handshakes by second: {by_second:?}");
    let last: usize = by_second.iter().rev().take(5).sum();
    assert!(last <= 5 * 110, "{last} in five seconds");
}

/// How one attack was borne.
struct Borne {
    what: &'static str,
    /// Longest of ten `transfer list`.
    listed: Duration,
    /// Time of the other site's transfer.
    moved: Duration,
    /// Memory beyond what the daemon had before, in MiB.
    grown: u64,
}

/// Looks ten times what an operator waits, and how long a transfer of 256 MiB takes.
fn bear(scene: &Scene, what: &'static str, idle: u64) -> Borne {
    let mut listed = Duration::ZERO;
    let mut grown = 0;
    let resident = || status_of(scene.a.process(), "VmRSS").saturating_sub(idle) >> 10;
    for _ in 0..10 {
        let began = Instant::now();
        scene.a.ok(&["transfer", "list"]);
        listed = listed.max(began.elapsed());
        grown = grown.max(resident());
    }
    let began = Instant::now();
    let to = format!("c:data/{}", what.replace(' ', "-"));
    scene.c.ok(&["transfer", "submit", "a:data/much/", &to, "--wait"]);
    Borne { what, listed, moved: began.elapsed(), grown: grown.max(resident()) }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Ends an attack, and waits until the hostile site has its budget again.
fn end(scene: &Scene, attack: Runtime) {
    attack.shutdown_background();
    let hostile = scene.hostile();
    let until = Instant::now() + Duration::from_secs(60);
    scene.runtime.block_on(async {
        let client = hostile.client();
        let path = format!("/scans/{}/pages/0?wait_ms=0", id(9999));
        while hostile.get(&client, &path).send().await.is_ok_and(|reply| reply.status() == 503) {
            assert!(Instant::now() < until, "the budget does not come back");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
}

/// Measures what docs/design/0045-budgets.md says: beside each attack at its limit another site
/// keeps 0.8 of its rate, `transfer list` answers within 200 ms, and the daemon stays below 256 MiB
/// more than it had.
#[test]
#[ignore = "a measurement, for a release build on a machine with nothing else to do"]
fn measured_budgets() {
    let scene = Scene::new();
    make_set(&scene.a.store.join("much"), 256, 0, seed());
    scene.goes_on("warm");
    let idle = status_of(scene.a.process(), "VmRSS");
    let alone = bear(&scene, "alone", idle);
    let hostile = scene.hostile();
    let mut all = vec![];
    // Each attack has a runtime of its own, whose end is the end of its connections.
    let attack = runtime();
    attack.block_on(send_bodies(&hostile));
    all.push(bear(&scene, "bodies", idle));
    end(&scene, attack);
    let attack = runtime();
    attack.block_on(wait_for_pages(&hostile));
    all.push(bear(&scene, "waits for pages", idle));
    end(&scene, attack);
    let lanes = open_lanes(&scene, 1000);
    all.push(bear(&scene, "lanes", idle));
    drop(lanes);
    let attack = runtime();
    attack.block_on(async {
        let client = hostile.client();
        for number in 10..200 {
            hostile.open_scan(&client, id(number), "src", Some(1)).await;
        }
    });
    all.push(bear(&scene, "scans", idle));
    end(&scene, attack);
    for borne in all.iter().chain([&alone]) {
        let share = alone.moved.as_secs_f64() / borne.moved.as_secs_f64();
        let (what, listed, grown) = (borne.what, borne.listed, borne.grown);
        println!("{what}: list {listed:.0?}, share {share:.2}, {grown} MiB more");
    }
    for borne in all {
        assert!(borne.grown < 256 && borne.listed < Duration::from_millis(200), "{}", borne.what);
        assert!(borne.moved.as_secs_f64() * 0.8 < alone.moved.as_secs_f64(), "{}", borne.what);
    }
}
