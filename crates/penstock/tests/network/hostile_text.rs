//! A hostile site's words, on their way to the terminal and the log of another.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use penstock_net::trust::{PeerCertificate, Purpose, TrustStore, preferred_suites, server_config};
use penstock_proto::text;
use penstock_testkit::{ProxiedPair, Site, Wait, make_set, seed, told};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

const HOSTILE: &str = "\x1b]0;PWN\x07\x1b[2J\u{9b}31m\x7f\r\nok: all verified\u{202e}gnp\
                       \u{2028}\u{200b}\u{feff}\n2026-01-01T00:00:00.000000Z  INFO forged";

/// Answers every request with one problem, in the name of a site.
struct Impostor {
    address: SocketAddr,
    over: Arc<AtomicBool>,
}

impl Impostor {
    fn start(site: &Site, other: &Site, body: String) -> Self {
        let identity = PeerCertificate::load(&site.dir.join("trust")).unwrap();
        let trust = Arc::new(TrustStore::new(identity.authority().clone()).unwrap());
        trust.pin(other.authority().certificate().clone()).unwrap();
        let suites = preferred_suites();
        let config = server_config(Purpose::SiteApi, &identity, &trust, &suites).unwrap();
        let mut config = (*config).clone();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, over) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let ended = Arc::clone(&over);
        std::thread::spawn(move || {
            for tcp in listener.incoming().map_while(Result::ok) {
                if ended.load(Ordering::Acquire) {
                    return;
                }
                let (config, body) = (Arc::clone(&config), body.clone());
                std::thread::spawn(move || answer(config, tcp, &body));
            }
        });
        Self { address, over }
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        let _ = TcpStream::connect(self.address);
    }
}

/// Answers one request; whatever fails, the other end hangs up or sees it.
fn answer(config: Arc<ServerConfig>, tcp: TcpStream, body: &str) -> Option<()> {
    tcp.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    let mut stream = StreamOwned::new(ServerConnection::new(config).ok()?, tcp);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    stream.read_exact(&mut vec![0; length.and_then(|text| text.parse().ok()).unwrap_or(0)]).ok()?;
    let reply = format!(
        "HTTP/1.1 500 No\r\nconnection: close\r\npenstock-site-version: 1\r\n\
         content-type: application/problem+json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(reply.as_bytes()).ok()?;
    stream.conn.send_close_notify();
    stream.flush().ok()
}

fn assert_shown(what: &str, text: &str) {
    let bad = text.chars().find(|one| *one != '\n' && !text::is_shown(*one));
    assert_eq!(bad, None, "{what}: {text:?}");
    assert!(!text.lines().any(|line| line.starts_with("ok: all")), "{what}: {text}");
    assert!(text.len() < 64 << 10, "{what}: {} bytes", text.len());
}

/// Promise: a hostile source's problem, and a reply of it that is none, steer no terminal, forge no
/// line of the log, and are not kept at their length: at each place where they are told.
#[test]
fn a_hostile_sites_words_are_escaped_everywhere() {
    let mut world = ProxiedPair::start();
    make_set(&world.a.store.join("src"), 1, 3, seed());
    let problem = json!({
        "code": HOSTILE, "title": HOSTILE, "detail": HOSTILE.repeat(5_000), "hint": HOSTILE,
        "exit": "fatal", "status": 500,
    });
    world.a.stop();
    for (at, body) in [problem.to_string(), HOSTILE.to_owned()].into_iter().enumerate() {
        let impostor = Impostor::start(&world.a, &world.b, body);
        world.proxy_a.set_upstream(impostor.address);
        let id = world.b.submit(&["a:data/src/", &format!("b:data/dst{at}")]);
        Wait::new("the impostor's words")
            .is(|| world.b.ok(&["transfer", "show", &id]).contains("PWN"));
        for command in [
            &["transfer", "show", &id][..],
            &["transfer", "show", &id, "--json"],
            &["transfer", "list"],
            &["transfer", "list", "--json"],
            &["site", "events"],
            &["site", "events", "--json"],
            &["site", "paths"],
            &["doctor", "a"],
        ] {
            let output = world.b.run(command);
            let text = told(&output) + &String::from_utf8_lossy(&output.stdout);
            assert_shown(&format!("{command:?}"), &text);
        }
    }
    let log = world.b.log_text();
    assert!(log.contains("\\u001b"), "nothing of it is in the log: {log}");
    assert_shown("the log", &log);
    let forged = |line: &&str| line.starts_with("2026-01-01") || line.starts_with("ok:");
    assert_eq!(log.lines().find(forged), None);
}
