//! Log-ins at a site of several peers: whichever of them a browser asks. Real daemons, a real etcd.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_net::trust::web_client_config;
use penstock_testkit::{Etcd, Scratch, Site, Wait};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const PASSWORD: &str = "correct horse battery staple";

/// A peer's HTTPS API.
struct Web<'a> {
    url: String,
    client: &'a Client,
    runtime: &'a Runtime,
}

impl Web<'_> {
    /// Asks as a page of the site does; returns the status, `Set-Cookie` and the body.
    fn ask(
        &self,
        method: Method,
        path: &str,
        cookie: &str,
        body: &Value,
    ) -> (StatusCode, String, Value) {
        let call = self.client.request(method, format!("{}/api/v1{path}", self.url)).json(body);
        let call = call.header("cookie", cookie).header("sec-fetch-site", "same-origin");
        self.runtime.block_on(async {
            let reply = call.send().await.unwrap();
            let header = reply.headers().get("set-cookie").map(|value| value.to_str().unwrap());
            let header = header.unwrap_or_default().to_owned();
            let status = reply.status();
            let body = serde_json::from_slice(&reply.bytes().await.unwrap()).unwrap_or_default();
            (status, header, body)
        })
    }

    fn me(&self, cookie: &str) -> StatusCode {
        self.ask(Method::GET, "/me", cookie, &json!({})).0
    }
}

/// Starts a peer again with the HTTPS API, and returns its address.
fn serve_web(peer: &mut Site) -> String {
    peer.stop();
    peer.set_config(&(peer.config() + "\n[web]\nlisten = [\"127.0.0.1:0\"]\n"));
    peer.start();
    peer.until_log("the API is served over HTTPS");
    let log = peer.log_text();
    let line = log.lines().rfind(|line| line.contains("served over HTTPS")).unwrap();
    format!("https://{}", line.rsplit("address=").next().unwrap().trim())
}

/// Promise (C4, C7): a link and a password work at any peer, a session at all of them at once, and
/// within two seconds of its end at none; the peer that was asked writes the audit line, with the
/// address of the client.
#[test]
fn c7_a_session_is_one_of_all_peers() {
    let root = Scratch::in_memory();
    let Some(etcd) = Etcd::start(root.path(), 1) else { return };
    let mut h1 = Site::first_peer(root.path(), "hpc", &etcd);
    let mut h2 = h1.join(root.path(), "h2");
    let two = serve_web(&mut h2);
    // Either may lead now: each is asked for all that the controller does.
    let one = serve_web(&mut h1);
    h1.until_peers(2);
    let tls = web_client_config(Some(h1.ok(&["site", "ca"]).as_bytes()), None).unwrap();
    let client = Client::builder().tls_backend_preconfigured(Arc::unwrap_or_clone(tls));
    let client = client.no_proxy().build().unwrap();
    let runtime = Runtime::new().unwrap();
    let web = |url| Web { url, client: &client, runtime: &runtime };
    let peers = [web(one), web(two)];
    for (at, name) in ["anna", "ben"].into_iter().enumerate() {
        let (web, other) = (&peers[at], &peers[1 - at]);
        let maker = [&h1, &h2][1 - at];
        let link = maker.ok(&["web", "setup"]);
        let code = link.trim().split_once('#').unwrap().1;
        let wanted = json!({ "code": code, "name": name, "password": PASSWORD });
        let (status, _, body) = web.ask(Method::POST, "/auth/setup", "", &wanted);
        assert_eq!(status, StatusCode::CREATED, "{body}");
        assert_eq!(body["from"], "127.0.0.1");
        let login = json!({ "name": name, "password": PASSWORD });
        let (status, cookie, body) = web.ask(Method::POST, "/sessions", "", &login);
        assert_eq!(status, StatusCode::CREATED, "{body}");
        let cookie = cookie.split(';').next().unwrap();
        assert_eq!(web.me(cookie), StatusCode::OK, "at the peer that was asked, at once");
        Wait::new("the other peer to know the session").is(|| other.me(cookie) == StatusCode::OK);
        let (status, _, body) = other.ask(Method::POST, "/tokens", cookie, &json!({}));
        assert_eq!((status, &body["user"]), (StatusCode::CREATED, &name.into()), "{body}");
        let (status, removed, _) =
            other.ask(Method::DELETE, "/sessions/current", cookie, &json!({}));
        assert!(status == StatusCode::NO_CONTENT && removed.contains("Max-Age=0"), "{removed}");
        let since = Instant::now();
        Wait::new("all peers to refuse the session")
            .is(|| peers.iter().all(|web| web.me(cookie) == StatusCode::UNAUTHORIZED));
        assert!(since.elapsed() < Duration::from_secs(2));
        let wrong = json!({ "name": name, "password": "not the right one" });
        assert_eq!(web.ask(Method::POST, "/sessions", "", &wrong).0, StatusCode::UNAUTHORIZED);
        let asked = [&h1, &h2][at];
        let audit = fs::read_to_string(asked.dir.join("audit.jsonl")).unwrap();
        let line = audit.lines().find(|line| line.contains("POST /api/v1/sessions")).unwrap();
        assert!(line.contains(name) && line.contains("\"from\":\"127.0.0.1\""), "{line}");
        assert!(!audit.contains(code), "a code is in the audit log");
    }
}
