//! Tests against endpoints that answer as a test demands: a real etcd cannot be made to lose an
//! answer.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use super::super::EtcdConfig;
use super::*;

const PATIENCE: Duration = Duration::from_secs(30);
const ADD: &str = "/v3/cluster/member/add";

/// The reply of an endpoint to a request for a path. `None` closes the connection without an
/// answer.
type Reply = fn(&str) -> Option<&'static str>;

/// Returns an endpoint's address, and the paths that it is asked for.
fn endpoint(reply: Reply) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = channel();
    // The thread ends with the process of the tests.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let path = path_of(&stream);
            let answer = reply(&path);
            let _ = tell.send(path);
            let Some(body) = answer else { continue };
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length";
            let _ = write!(&stream, "{head}: {}\r\n\r\n{body}", body.len());
        }
    });
    (url, told)
}

/// Reads a whole request; returns its path.
fn path_of(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    first.split(' ').nth(1).unwrap().to_owned()
}

fn client(endpoints: Vec<String>) -> Etcd {
    client_as(endpoints, None)
}

fn client_as(endpoints: Vec<String>, user: Option<(String, String)>) -> Etcd {
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let http = reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy();
    let http = http.build().unwrap();
    Etcd::new(EtcdConfig { endpoints, http, user, patience: PATIENCE }).unwrap()
}

fn with_it(_: &str) -> Option<&'static str> {
    Some(r#"{"members":[{"ID":"7","peerURLs":["https://h2:7446"],"isLearner":true}]}"#)
}

fn without_it(_: &str) -> Option<&'static str> {
    Some(r#"{"members":[{"ID":"3","name":"h1","peerURLs":["https://h1:7446"]}]}"#)
}

/// Promise: a change of the members whose answer is lost is not sent again before it was read
/// whether it was made; and it is sent again where it was not.
#[test]
fn a_change_is_looked_for_before_it_is_sent_again() {
    let ((first, _first_told), (second, told)) = (endpoint(|_| None), endpoint(with_it));
    client(vec![first, second]).add_learner("https://h2:7446", PATIENCE).unwrap();
    let asked: Vec<_> = told.try_iter().collect();
    assert_eq!(asked, ["/v3/kv/range", "/v3/cluster/member/list"], "it was made");

    let ((first, _first_told), (second, told)) = (endpoint(|_| None), endpoint(without_it));
    client(vec![first, second]).add_learner("https://h2:7446", PATIENCE).unwrap();
    let asked: Vec<_> = told.try_iter().collect();
    assert_eq!(asked, ["/v3/kv/range", "/v3/cluster/member/list", ADD], "it was not made");
}

/// Promise: the list of members comes from an endpoint that has just shown that it is up to date,
/// and from no other (a list may be old in etcd 3.4).
#[test]
fn members_now_are_those_of_an_endpoint_that_is_up_to_date() {
    let behind: Reply = |path| (path != "/v3/kv/range").then_some(r#"{"members":[{"ID":"9"}]}"#);
    let ((first, first_told), (second, _told)) = (endpoint(behind), endpoint(without_it));
    let members = client(vec![first, second]).members_now(PATIENCE).unwrap();
    assert_eq!(members.iter().map(|member| member.id).collect::<Vec<_>>(), [3]);
    assert_eq!(first_told.try_iter().collect::<Vec<_>>(), ["/v3/kv/range"]);
}

/// Returns an etcd since release 3.5 without a leader: it reports its state only for a token, and
/// issues none.
fn leaderless(path: &str) -> Option<&'static str> {
    const METRICS: &str = "# TYPE etcd_server_has_leader gauge\netcd_server_has_leader 0\n\
        etcd_server_id{server_id=\"8e9e05c52164694d\"} 1\netcd_server_is_learner 0\n\
        etcd_server_version{server_version=\"3.6.16\"} 1\n\
        etcd_mvcc_db_total_size_in_bytes 2.048e+06\n";
    match path {
        "/v3/maintenance/status" => Some(r#"{"error":"user name is empty","code":3}"#),
        "/metrics" => Some(METRICS),
        _ => None,
    }
}

/// Promise: a running member without a leader does not count as silent, although it answers only
/// requests with a token, and issues none. Otherwise its own host would wait for it in vain.
#[test]
fn a_member_without_a_leader_says_so_without_a_token() {
    let (url, told) = endpoint(leaderless);
    let user = Some(("root".to_owned(), "secret".to_owned()));
    let etcd = client_as(vec![url.clone()], user);
    let status = etcd.status_at(&url, PATIENCE).unwrap();
    let found = (status.id, status.leader, status.version.as_str(), status.bytes, status.learner);
    assert_eq!(found, (0x8e9e_05c5_2164_694d, 0, "3.6.16", 2_048_000, false));
    let asked: Vec<_> = told.try_iter().collect();
    assert_eq!(asked, ["/v3/maintenance/status", "/metrics"]);
    assert_eq!(etcd.standing(PATIENCE)[0].trouble, "has no leader");
}

/// Replies as an endpoint that serves, and reports its state to `root` alone.
fn secretive(path: &str) -> Option<&'static str> {
    const METRICS: &str = "etcd_server_has_leader 1\netcd_server_is_leader 0\n\
        etcd_server_id{server_id=\"1a\"} 1\n";
    match path {
        "/v3/auth/authenticate" => Some(r#"{"token":"a.1"}"#),
        "/v3/maintenance/status" => Some(r#"{"error":"etcdserver: permission denied","code":7}"#),
        "/metrics" => Some(METRICS),
        _ => None,
    }
}

/// Promise: a member that serves is not taken for one that does not because the user that may touch
/// the site's keys may not ask for its state: with three of them nothing would be called durable.
#[test]
fn a_member_that_tells_its_state_to_root_alone_serves() {
    let (url, told) = endpoint(secretive);
    let user = Some(("penstock".to_owned(), "secret".to_owned()));
    let etcd = client_as(vec![url.clone()], user);
    assert_eq!(etcd.standing(PATIENCE)[0].trouble, "");
    let status = etcd.status_at(&url, PATIENCE).unwrap();
    assert_eq!((status.id, status.leader), (0x1a, SOMEBODY));
    assert!(told.try_iter().any(|path| path == "/v3/auth/authenticate"), "it was asked first");
}
