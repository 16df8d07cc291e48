//! Lanes and site requests of whoever has no right to them, between real sites.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use penstock_net::trust::{CapabilityKey, Purpose};
use penstock_net::{ConnectError, LocalBind, SocketOptions};
use penstock_proto::capability::Capability;
use penstock_proto::digest::DigestKind;
use penstock_proto::frame::{Framing, Hello, Refusal, RefusalCode};
use penstock_proto::id::{LaneId, Name, TransferId};
use penstock_testkit::{ProxiedPair, Site, assert_same_files, make_set, request, seed, talk};
use rustls::ClientConfig;

pub(super) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// Dials lanes to `a` as one site.
struct Spy {
    config: Arc<ClientConfig>,
    address: SocketAddr,
}

impl Spy {
    fn dial(&self, hello: &Hello) -> Result<(), Refusal> {
        let (bind, options) = (LocalBind::default(), SocketOptions::default());
        let limit = Duration::from_secs(20);
        match penstock_net::connect(
            self.address,
            &bind,
            &self.config,
            &name("a"),
            hello,
            limit,
            &options,
        ) {
            Ok(_) => Ok(()),
            Err(ConnectError::Refused(refusal)) => Err(refusal),
            Err(error) => panic!("neither a lane nor a reason: {error}"),
        }
    }

    /// Must be refused with this code and for this reason.
    fn refused(&self, hello: &Hello, code: RefusalCode, why: &str) {
        let refusal = self.dial(hello).expect_err("it must be refused");
        assert_eq!(refusal.code, code, "{refusal}");
        assert!(refusal.text.contains(why), "`{}` does not say `{why}`", refusal.text);
    }
}

pub(super) fn capability(
    key: &CapabilityKey,
    transfer: TransferId,
    target: &str,
    expires: u64,
) -> Vec<u8> {
    key.sign(&Capability {
        transfer,
        source: name("a"),
        target: name(target),
        store: name("data"),
        root: b"src".to_vec(),
        remove: false,
        expires,
    })
}

/// A running transfer from `a` to `b`, slow enough to be looked at, and a third site `c` that is
/// paired with `a` and has nothing to do with it.
struct Scene {
    world: ProxiedPair,
    c: Site,
    id: String,
    transfer: TransferId,
    address: SocketAddr,
}

fn scene() -> Scene {
    let world = ProxiedPair::start();
    make_set(&world.a.store.join("src"), 12, 50, seed());
    let mut c = Site::init(world.root.path(), "c", None);
    c.start();
    world.a.pair(&c);
    world.proxy_a.set_rate(Some(16e6));
    let id = world.b.submit(&["a:data/src/", "b:data/dst"]);
    world.b.show_until(&id, |view| view["progress"]["bytes_verified"].as_u64() > Some(0));
    let address = world.proxy_a.upstream();
    Scene { transfer: id.parse().unwrap(), world, c, id, address }
}

impl Scene {
    /// The transfer must not have been harmed.
    fn end(self) {
        self.world.proxy_a.set_rate(None);
        self.world.b.wait_done(&self.id);
        assert_same_files(&self.world.a.store.join("src"), &self.world.b.store.join("dst"));
    }
}

/// C4: a lane is for the site, the transfer and the time that a capability of the source names, and
/// for none but paired sites. A third site with a sound capability of its own gets nothing of
/// another's transfer; each refusal says why.
#[test]
fn c4_a_lane_needs_a_capability_of_its_own() {
    let scene = scene();
    let keys = scene.world.a.authority();
    let key = keys.capability_key();
    let foreign = scene.c.authority();
    let own = TransferId([7; 16]);
    let later = now() + 3600;
    let hello = |transfer, capability| Hello {
        protocol: penstock_proto::version::VersionRange::FIRST,
        lane: LaneId(900),
        transfer,
        framing: Framing::Tls,
        digest: DigestKind::Blake3,
        capability,
    };
    let spy = |site: &Site| Spy {
        config: site.tls_towards(&scene.world.a, Purpose::Lane),
        address: scene.address,
    };
    let (b, c) = (spy(&scene.world.b), spy(&scene.c));
    let t = scene.transfer;
    // What b itself would say opens a lane, so that the refusals below are for what they say.
    b.dial(&hello(t, capability(key, t, "b", later))).expect("b has the right");
    let void = RefusalCode::Capability;
    c.refused(&hello(t, capability(key, own, "c", later)), void, "for another transfer");
    c.refused(&hello(t, capability(key, t, "b", later)), void, "for another site");
    c.refused(&hello(own, capability(key, own, "c", later)), RefusalCode::UnknownPage, "not known");
    c.refused(&hello(t, capability(foreign.capability_key(), t, "c", later)), void, "");
    c.refused(&hello(t, Vec::new()), void, "");
    b.refused(&hello(t, capability(key, t, "b", now() - 10)), void, "expired");
    let mut forged = capability(key, t, "b", later);
    let last = forged.len() - 1;
    forged[last] ^= 1;
    b.refused(&hello(t, forged), void, "");
    scene.end();
}

/// Promise: a peer of another protocol version is told so, with both versions.
#[test]
fn another_protocol_version_is_named() {
    let scene = scene();
    let key = scene.world.a.authority();
    let capability = capability(key.capability_key(), scene.transfer, "b", now() + 3600);
    let hello = Hello {
        protocol: penstock_proto::version::VersionRange { oldest: 98, newest: 99 },
        lane: LaneId(901),
        transfer: scene.transfer,
        framing: Framing::Clear,
        digest: DigestKind::Blake3,
        capability,
    };
    let b = Spy {
        config: scene.world.b.tls_towards(&scene.world.a, Purpose::Lane),
        address: scene.address,
    };
    b.refused(&hello, RefusalCode::Version, "98-99");
    scene.end();
}

/// D4, C4: a paired site neither sees nor steers nor reads what another site transfers.
#[test]
fn d4_a_third_site_sees_nothing_of_a_transfer() {
    let scene = scene();
    let config = scene.c.tls_towards(&scene.world.a, Purpose::SiteApi);
    let id = &scene.id;
    for (line, status) in [
        (format!("GET /site/v1/scans/{id}/pages/0"), "403"),
        (format!("GET /site/v1/transfers/{id}"), "404"),
        (format!("POST /site/v1/transfers/{id}/cancel"), "404"),
        (format!("GET /site/v1/transfers/{id}/digests"), "404"),
    ] {
        let reply = talk(&config, scene.address, &request(&line, "")).unwrap();
        assert!(reply.starts_with(&format!("HTTP/1.1 {status}")), "{line}: {reply}");
    }
    // It is not told whether there is such a scan, and nothing happens to it.
    let _ = talk(&config, scene.address, &request(&format!("DELETE /site/v1/scans/{id}"), ""));
    scene.end();
}

/// C4: a capability ends long before a very large transfer does, and its key may be changed; the
/// transfer gets another one and goes on by itself.
#[test]
fn c4_a_void_capability_is_replaced() {
    let mut scene = scene();
    let other = Site::init(&scene.c.store, "a", None);
    let a = &mut scene.world.a;
    a.kill();
    let key = "trust/capability.key";
    std::fs::copy(other.dir.join(key), a.dir.join(key)).unwrap();
    scene.world.proxy_a.set_upstream(a.start());
    scene.end();
}
