//! What can be read on the way.

use std::fs;
use std::sync::atomic::Ordering;

use penstock_testkit::{Counts, ProxiedPair};

/// A line of the data, and part of a name: neither may be seen where it is said to be encrypted.
const SECRET: &[u8] = b"fluoride-marzipan-7719";

/// How often the secret is seen on lanes, and elsewhere, as content and in a name.
fn seen(options: &[&str]) -> (u64, u64) {
    let world = ProxiedPair::start();
    world.proxies().iter().for_each(|proxy| proxy.search(SECRET));
    let name = String::from_utf8(SECRET.to_vec()).unwrap();
    fs::create_dir(world.a.store.join("src")).unwrap();
    fs::write(world.a.store.join("src").join(&name), SECRET.repeat(100_000)).unwrap();
    fs::write(world.a.store.join("src/small"), SECRET).unwrap();
    // The control connections that there are were made before the search began.
    world.proxies().iter().for_each(|proxy| proxy.reset());
    let args: Vec<_> = ["a:data/src/", "b:data/dst"].iter().chain(options).copied().collect();
    let id = world.a.submit(&args);
    world.b.wait_done(&id);
    assert_eq!(fs::read(world.b.store.join("dst/small")).unwrap(), SECRET);
    let sum = |at: fn(&Counts) -> u64| world.proxies().iter().map(|proxy| at(proxy.counts())).sum();
    (
        sum(|counts| counts.found_on_lanes.load(Ordering::SeqCst)),
        sum(|counts| counts.found_elsewhere.load(Ordering::SeqCst)),
    )
}

/// Decision 6: with TLS, which is the default, nobody on the way reads content or names.
#[test]
fn nothing_is_readable_with_tls() {
    assert_eq!(seen(&[]), (0, 0));
}

/// D3: with `--encryption off` content is readable, and that alone: the site API, with all names,
/// stays encrypted. Shows as well that the test above could fail.
#[test]
fn d3_content_alone_is_readable_without_encryption() {
    let (on_lanes, elsewhere) = seen(&["--encryption", "off"]);
    // Between two strides there is a header.
    assert!((99_900..=100_001).contains(&on_lanes), "{on_lanes}");
    assert_eq!(elsewhere, 0);
}
