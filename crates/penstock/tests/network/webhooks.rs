//! Webhooks and `notify.command`: other programs learn of each end of a transfer.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use data_encoding::BASE64;
use penstock_testkit::{PATIENCE, Scratch, Site, Wait};
use serde_json::Value;

/// A request that a receiver has got.
struct Request {
    line: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Request {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn id(&self) -> &str {
        &self.headers["webhook-id"]
    }

    /// Checks the signature as Standard Webhooks 1.0 has it.
    fn is_signed_with(&self, secret: &str) -> bool {
        let key = BASE64.decode(secret.strip_prefix("whsec_").unwrap().as_bytes()).unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let time = &self.headers["webhook-timestamp"];
        let signed = [format!("{}.{time}.", self.id()).as_bytes(), &self.body].concat();
        self.headers["webhook-signature"].split(' ').any(|signature| {
            let tag = BASE64.decode(signature.strip_prefix("v1,").unwrap().as_bytes()).unwrap();
            hmac::verify(&key, &signed, &tag).is_ok()
        })
    }
}

/// A program that answers each request with `answer`, and hands the request on.
fn receiver(listener: TcpListener, answer: &'static str) -> Receiver<Request> {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let Some(request) = read(&stream) else { continue };
            if tell.send(request).is_err() {
                return;
            }
            let _ = (&stream).write_all(answer.as_bytes());
        }
    });
    told
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Request { line: line.trim().to_owned(), headers, body })
}

const DONE: &str = "HTTP/1.1 204 No Content\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// The site `hpc`, as [`site_of`] starts one.
fn site(base: &Scratch, tables: &str) -> Site {
    site_of("hpc", base, tables)
}

/// A started site with a small data set, and these tables in its configuration.
fn site_of(name: &'static str, base: &Scratch, tables: &str) -> Site {
    let mut site = Site::init(base.path(), name, None);
    fs::create_dir(site.store.join("run7")).unwrap();
    fs::write(site.store.join("run7/a"), b"some data").unwrap();
    site.set_config(&format!("{}\n{tables}\n", site.config()));
    site.start();
    site
}

fn transfer(site: &Site, to: &str) -> String {
    let id = site.submit(&["hpc:data/run7/", &format!("hpc:data/{to}/"), "--label", to]);
    site.wait_done(&id);
    id
}

/// Promise (Q6): a receiver learns of each end, signed and without paths; one that was away while
/// the daemon died learns of what ended meanwhile, under the same id.
#[test]
fn q6_each_end_is_told() {
    let base = Scratch::on_disk();
    let (listener, address) = listener();
    let mut site = site(&base, &format!("[webhook]\nallow = [\"http://{address}/hooks\"]"));
    let told = receiver(listener, DONE);
    let url = format!("http://{address}/hooks/ops?key=canary");
    // An end before its creation is none of a webhook: the first message is another one. Creation
    // counts in whole seconds.
    transfer(&site, "before");
    let second = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let ended = second();
    Wait::new("the next second").is(|| second() > ended);
    let secret = site.ok(&["webhook", "set", "ops", &url, "--on", "done"]).trim().to_owned();

    site.ok(&["webhook", "test", "ops"]);
    let request = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!(request.line, "POST /hooks/ops?key=canary HTTP/1.1");
    assert_eq!(request.json()["type"], "webhook.test");
    assert!(request.is_signed_with(&secret));

    let first = transfer(&site, "one");
    let request = told.recv_timeout(PATIENCE).unwrap();
    assert!(request.is_signed_with(&secret));
    let (id, json) = (request.id().to_owned(), request.json());
    assert_eq!((&json["type"], &json["site"]), (&"transfer.done".into(), &"hpc".into()));
    let data = &json["data"];
    assert_eq!(data["id"], first.as_str());
    assert_eq!((&data["source"], &data["label"]), (&"hpc:data".into(), &"one".into()));
    assert_eq!((&data["files"], &data["errors"]), (&1.into(), &0.into()));
    assert!(!json.to_string().contains("run7"), "{json}");

    // The former secret signs for a while, so that a receiver may change over.
    let fresh = site.ok(&["webhook", "rotate", "ops"]).trim().to_owned();
    site.ok(&["webhook", "redeliver", "ops", &id]);
    let again = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!((again.id(), again.json()), (id.as_str(), json));
    assert!(again.is_signed_with(&secret) && again.is_signed_with(&fresh));

    // The receiver goes away, and the daemon with what it knew.
    drop(told);
    let _ = TcpStream::connect(address).map(|mut stream| {
        stream.write_all(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n").unwrap();
    });
    let listener = Wait::new("the port").some(|| TcpListener::bind(address).ok());
    drop(listener);
    let second = transfer(&site, "two");
    let attempts = || site.lines(&["webhook", "deliveries", "ops", "--json"]);
    let failed = Wait::new("a failed attempt")
        .some(|| attempts().into_iter().find(|it| it["transfer"] == second.as_str()));
    assert_eq!(failed["result"], "failed");
    let listed = &site.lines(&["webhook", "list", "--json"])[0];
    assert!(listed["pending"] == 1 && listed["error"].is_string(), "{listed}");
    site.kill();
    site.start();
    let told = receiver(TcpListener::bind(address).unwrap(), DONE);
    loop {
        let request = told.recv_timeout(PATIENCE).unwrap();
        if request.json()["data"]["id"] == second.as_str() {
            assert_eq!(request.id(), failed["id"]);
            break;
        }
        // An end shortly before may be told again, under its id.
        assert_eq!(request.id(), id);
    }
    assert!(!site.log_text().contains("canary"), "{}", site.log_text());
    assert!(!site.log_text().contains("whsec_"));
}

/// Promise: the site that has the data learns of the end of a transfer to another site too, once,
/// also while somebody watches it there.
#[test]
fn the_source_learns_of_the_end() {
    let base = Scratch::on_disk();
    let (listener, address) = listener();
    let lab = site_of("lab", &base, &format!("[webhook]\nallow = [\"http://{address}/\"]"));
    let hpc = site_of("hpc", &base, "");
    lab.pair(&hpc);
    let told = receiver(listener, DONE);
    lab.ok(&["webhook", "set", "ops", &format!("http://{address}/")]);
    for to in ["one", "two"] {
        let id = lab.submit(&["lab:data/run7/", &format!("hpc:data/{to}")]);
        lab.wait_done(&id);
        let request = told.recv_timeout(PATIENCE).unwrap();
        assert_eq!(request.json()["data"]["id"], id.as_str());
    }
    assert!(told.try_recv().is_err(), "an end is told twice");
}

/// Promise (Q6): requests go below what the configuration allows, and nowhere else: a redirect is
/// not followed, and an operator of the API cannot reach into the network of the host.
#[test]
fn q6_requests_go_nowhere_else() {
    let base = Scratch::on_disk();
    let ((listener, address), (inside, inside_address)) = (listener(), listener());
    let site = site(&base, &format!("[webhook]\nallow = [\"http://{address}/\"]"));
    let elsewhere = receiver(inside, DONE);
    let answer = format!(
        "HTTP/1.1 302 Found\r\nlocation: http://{inside_address}/\r\ncontent-length: 0\r\n\
         connection: close\r\n\r\n"
    );
    let _told = receiver(listener, answer.leak());
    site.ok(&["webhook", "set", "ops", &format!("http://{address}/")]);
    let error = site.fails(5, &["webhook", "test", "ops"]);
    assert!(error.contains("redirects are not followed"), "{error}");
    let outside = ["webhook", "set", "in", &format!("http://{inside_address}/")];
    let error = site.fails(6, &outside);
    assert!(error.contains("does not allow webhooks to") && error.contains("webhook.allow"));
    assert!(elsewhere.try_recv().is_err());
    let error = site.fails(2, &["webhook", "test", "none"]);
    assert!(error.contains("webhook `none` does not exist"), "{error}");
}

/// Promise: `notify.command` is run for each end that it names, without the rights of root, with
/// the message on its standard input.
#[test]
fn a_command_is_told_of_each_end() {
    let base = Scratch::on_disk();
    let mailbox = base.path().join("mailbox");
    fs::create_dir(&mailbox).unwrap();
    fs::set_permissions(&mailbox, fs::Permissions::from_mode(0o777)).unwrap();
    let script = base.path().join("notify");
    let text = format!(
        "#!/bin/sh\ncat > {0}/$$.part && mv {0}/$$.part {0}/mail\nid -u > {0}/user",
        mailbox.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let site =
        site(&base, &format!("[notify]\ncommand = [\"{}\"]\non = [\"done\"]", script.display()));
    let id = transfer(&site, "one");
    let mail = Wait::new("mail").some(|| fs::read(mailbox.join("mail")).ok());
    let json: Value = serde_json::from_slice(&mail).unwrap();
    assert_eq!(
        (&json["type"], &json["data"]["id"]),
        (&"transfer.done".into(), &id.as_str().into())
    );
    assert_eq!(json["data"]["source"], "hpc:data/run7/");
    let user = Wait::new("the user")
        .some(|| fs::read_to_string(mailbox.join("user")).ok().filter(|text| text.ends_with('\n')));
    assert_ne!(user.trim(), "0");
}
