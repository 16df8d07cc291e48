//! The HTTPS API: users, roles, tokens, and the audit log, at a real daemon.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_api::access::{Principal, Right, Role, Scope, TokenId, Via};
use penstock_api::endpoints::{Endpoint, GET_METRICS, LIST_TRANSFERS, ROTATE_KEYS, SHOW_ME, TABLE};
use penstock_api::timestamp::Timestamp;
use penstock_net::trust::web_client_config;
use penstock_testkit::{Scratch, Site, Wait};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// A site whose daemon serves the API over HTTPS, and a client that trusts its authority.
pub(crate) struct World {
    pub(crate) site: Site,
    pub(crate) url: String,
    pub(crate) client: Client,
    pub(crate) runtime: Runtime,
    pub(crate) base: Scratch,
}

impl World {
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// Starts a site with more lines in its configuration, which begin in the table `web`.
    pub(crate) fn start_with(more: &str) -> Self {
        let base = Scratch::on_disk();
        let mut site = Site::init(base.path(), "hpc", None);
        let web = format!("\n[web]\nlisten = [\"127.0.0.1:0\"]\n{more}");
        site.set_config(&(site.config() + &web));
        site.start();
        site.until_log("the API is served over HTTPS");
        let log = site.log_text();
        let line = log.lines().find(|line| line.contains("served over HTTPS")).unwrap();
        let address = line.rsplit("address=").next().unwrap().trim();
        let url = format!("https://{address}");
        let ca = site.ok(&["site", "ca"]);
        let tls = web_client_config(Some(ca.as_bytes()), None).unwrap();
        let tls = Arc::unwrap_or_clone(tls);
        let client = Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap();
        let runtime = Runtime::new().unwrap();
        Self { site, url, client, runtime, base }
    }

    pub(super) fn token(&self, user: &str, more: &[&str]) -> String {
        let args = [&["token", "create", "--user", user][..], more].concat();
        self.site.ok(&args).trim().to_owned()
    }

    /// Calls an endpoint whose placeholders are filled with names of nothing; returns the status,
    /// and whether it is refused for want of the right.
    fn call(&self, endpoint: &Endpoint, token: Option<&str>) -> (StatusCode, bool) {
        let path = endpoint.path.replace("{id}", "00").replace("{kind}", "sha-256");
        let path = path.replace("{site}", "nope").replace("{peer}", "nope");
        let path =
            path.replace("{host}", "nope").replace("{name}", "nope").replace("{store}", "nope");
        let method = Method::from_bytes(endpoint.method.as_str().as_bytes()).unwrap();
        let call = self.client.request(method, format!("{}{path}", self.url)).json(&json!({}));
        let call = match token {
            Some(token) => call.bearer_auth(token),
            None => call,
        };
        self.runtime.block_on(async {
            let reply = call.send().await.unwrap();
            let status = reply.status();
            let is_forbidden = status == StatusCode::FORBIDDEN
                && reply.text().await.unwrap().contains("lacks the right");
            (status, is_forbidden || status == StatusCode::UNAUTHORIZED)
        })
    }

    fn status(&self, endpoint: &Endpoint, token: &str) -> StatusCode {
        self.call(endpoint, Some(token)).0
    }

    pub(super) fn get(&self, path: &str, token: &str) -> Value {
        let call = self.client.get(format!("{}{path}", self.url)).bearer_auth(token);
        self.runtime.block_on(async { call.send().await.unwrap().json().await.unwrap() })
    }

    /// Sends a request with the id `mine-7` that fails; returns the status and the problem, after a
    /// look at what every answer has.
    fn problem(&self, call: reqwest::RequestBuilder) -> (StatusCode, Value) {
        self.runtime.block_on(async {
            let reply = call.send().await.unwrap();
            let (status, headers) = (reply.status(), reply.headers().clone());
            assert_eq!(headers["content-type"], "application/problem+json", "{status}");
            assert_eq!(headers["request-id"], "mine-7");
            assert_eq!(headers["cache-control"], "no-store");
            assert_eq!(headers["penstock-version"], env!("CARGO_PKG_VERSION"));
            let problem: Value = reply.json().await.unwrap();
            let code = problem["code"].as_str().unwrap();
            assert_eq!(problem["type"], format!("urn:penstock:problem:{code}"));
            assert_eq!(problem["status"], status.as_u16());
            assert_eq!(problem["request_id"], "mine-7");
            assert!(problem["instance"].as_str().unwrap().starts_with("/api/v1/"), "{problem}");
            (status, problem)
        })
    }

    /// Returns the status and the body of a request, of a token and with a header.
    pub(super) fn ask(
        &self,
        path: &str,
        token: &str,
        (name, value): (&str, &str),
    ) -> (StatusCode, String) {
        let call = self.client.get(format!("{}{path}", self.url)).bearer_auth(token);
        self.runtime.block_on(async {
            let reply = call.header(name, value).send().await.unwrap();
            (reply.status(), reply.text().await.unwrap())
        })
    }

    /// Returns the status and the body of a request with a JSON body.
    pub(super) fn ask_post(&self, path: &str, token: &str, body: &Value) -> (StatusCode, String) {
        let call = self.client.post(format!("{}{path}", self.url)).bearer_auth(token).json(body);
        self.runtime.block_on(async {
            let reply = call.send().await.unwrap();
            (reply.status(), reply.text().await.unwrap())
        })
    }

    pub(super) fn post(&self, path: &str, token: &str, body: &Value) -> (StatusCode, Value) {
        let call = self.client.post(format!("{}{path}", self.url)).bearer_auth(token).json(body);
        self.runtime.block_on(async {
            let reply = call.send().await.unwrap();
            (reply.status(), reply.json().await.unwrap())
        })
    }
}

fn in_an_hour() -> Timestamp {
    Timestamp::of_seconds(penstock_sys::now_seconds() + 3600)
}

/// Promise (C2, C3): each operation is done for those whose role and scopes give the right that the
/// table of endpoints names, is refused to all others, and none but the public ones answers without
/// a token. The matrix is called cell by cell.
#[test]
fn c2_each_operation_is_for_those_who_have_its_right() {
    let world = World::start();
    let mut callers = Vec::new();
    for role in Role::ALL {
        world.site.ok(&["user", "set", role.as_str(), "--role", role.as_str()]);
        callers.push((role, None, world.token(role.as_str(), &[])));
    }
    for scope in Scope::ALL {
        let token = world.token("administrator", &["--scope", scope.as_str()]);
        callers.push((Role::Administrator, Some(vec![scope]), token));
    }
    let mut cells = 0;
    // The keys of the site stay as they are: an administrator may rotate them, once is enough.
    let endpoints =
        TABLE.iter().flat_map(|group| group.endpoints).filter(|it| **it != &ROTATE_KEYS);
    for endpoint in endpoints {
        let is_public = endpoint.right == Right::Public;
        let (status, refused) = world.call(endpoint, None);
        assert_eq!(!refused, is_public, "{endpoint:?}: {status}");
        for (role, scopes, token) in &callers {
            let principal = Principal {
                user: "anna".parse().unwrap(),
                role: *role,
                via: Via::Token { id: TokenId([0; 8]) },
                scopes: scopes.clone(),
                grants: [].into(),
                account: None,
            };
            let may = is_public || principal.check(endpoint.right).is_ok();
            let (status, refused) = world.call(endpoint, Some(token));
            assert_eq!(!refused, may, "{} as {role} {scopes:?}: {status}", endpoint.name);
            assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{}", endpoint.name);
            cells += 1;
        }
    }
    assert!(cells > 500, "{cells}");
}

/// Promise: metrics are for tokens with their scope, and without a token for the addresses that
/// `metrics_from` names alone; nothing else is open to these. A connection without a token stays.
#[test]
fn metrics_are_open_to_named_addresses_alone() {
    let closed = World::start_with("metrics_from = [\"10.0.0.0/8\", \"fd00::/8\"]");
    let open = World::start_with("metrics_from = [\"10.0.0.0/8\", \"127.0.0.0/8\"]");
    for world in [&closed, &open] {
        world.site.ok(&["user", "set", "prometheus", "--role", "viewer"]);
        let reads = world.token("prometheus", &["--scope", "metrics:read"]);
        let other = world.token("prometheus", &["--scope", "transfers:read"]);
        assert_eq!(world.status(&GET_METRICS, &reads), StatusCode::OK);
        assert_eq!(world.status(&SHOW_ME, &reads), StatusCode::OK);
        assert_eq!(world.status(&LIST_TRANSFERS, &reads), StatusCode::FORBIDDEN);
        assert_eq!(world.status(&GET_METRICS, &other), StatusCode::FORBIDDEN);
        assert_eq!(world.status(&GET_METRICS, "pstk_wrong"), StatusCode::UNAUTHORIZED);
        assert_eq!(world.call(&LIST_TRANSFERS, None).0, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(closed.call(&GET_METRICS, None).0, StatusCode::UNAUTHORIZED);
    assert_eq!(open.call(&GET_METRICS, None).0, StatusCode::OK);
}

/// Promise (C6): a token works until it is revoked, and within two seconds no longer; what is no
/// token of this site never does; and no secret is in the log or in the audit log.
#[test]
fn c6_a_revoked_token_is_refused() {
    let world = World::start();
    world.site.ok(&["user", "set", "anna", "--role", "operator"]);
    let token = world.token("anna", &["--label", "laptop"]);
    assert_eq!(world.get(SHOW_ME.path, &token)["user"], "anna");
    let other = World::start();
    other.site.ok(&["user", "set", "anna", "--role", "operator"]);
    let foreign = other.token("anna", &[]);
    for wrong in ["", "pstk_", "x", &token[..token.len() - 1], &foreign] {
        assert_eq!(world.status(&SHOW_ME, wrong), StatusCode::UNAUTHORIZED, "{wrong}");
    }
    let listed = world.site.lines(&["token", "list", "--json"]);
    assert_eq!((listed.len(), &listed[0]["label"]), (1, &"laptop".into()));
    assert!(listed[0]["token"].is_null());
    world.site.ok(&["token", "revoke", listed[0]["id"].as_str().unwrap()]);
    let since = Instant::now();
    Wait::new("the token to be refused")
        .is(|| world.status(&SHOW_ME, &token) == StatusCode::UNAUTHORIZED);
    assert!(since.elapsed() < Duration::from_secs(2));
    world.site.ok(&["user", "set", "anna", "--disable"]);
    let locked = world.token("anna", &[]);
    assert_eq!(world.status(&SHOW_ME, &locked), StatusCode::UNAUTHORIZED);
    world.site.ok(&["user", "set", "anna", "--enable"]);
    assert_eq!(world.status(&SHOW_ME, &locked), StatusCode::OK);
    let audit = world.site.dir.join("audit.jsonl");
    let text = fs::read_to_string(&audit).unwrap() + &world.site.log_text();
    for secret in [&token, &locked] {
        assert!(!text.contains(&secret[5..]), "a secret is in a log");
    }
    let checked = world.site.ok(&["audit", "check"]);
    assert!(checked.contains("lines, from its begin"), "{checked}");
    let changed = fs::read_to_string(&audit).unwrap().replacen("\"root\"", "\"ben\"", 1);
    fs::write(&audit, changed).unwrap();
    world.site.fails(8, &["audit", "check"]);
}

/// Promise (C2): over HTTPS a user submits between stores that grants name, as its own transfer,
/// which others do not see; the same command line works from another host.
#[test]
fn c2_a_user_submits_its_own_transfers() {
    let world = World::start();
    fs::create_dir(world.site.store.join("src")).unwrap();
    fs::write(world.site.store.join("src/f"), "data").unwrap();
    world.site.ok(&["user", "set", "anna", "--grant", "data=read"]);
    world.site.ok(&["user", "set", "ben", "--grant", "data=read,write"]);
    let (anna, ben) = (world.token("anna", &[]), world.token("ben", &[]));
    let wanted = |id: u8| {
        json!({ "id": format!("{id:02x}").repeat(16), "source": "hpc:data/src/",
                "target": "hpc:data/dst/", "label": "run 7" })
    };
    let (status, problem) = world.post(LIST_TRANSFERS.path, &anna, &wanted(1));
    assert_eq!((status, &problem["code"]), (StatusCode::FORBIDDEN, &"not-authorised".into()));
    assert!(problem["hint"].as_str().unwrap().contains("--grant data=read,write"), "{problem}");
    let (status, view) = world.post(LIST_TRANSFERS.path, &ben, &wanted(2));
    assert_eq!((status, &view["owner"]), (StatusCode::CREATED, &"ben".into()), "{view}");
    assert_eq!(world.post(LIST_TRANSFERS.path, &ben, &wanted(2)).0, StatusCode::OK);
    let id = view["id"].as_str().unwrap();
    world.site.wait_done(id);
    let count = |token| world.get(LIST_TRANSFERS.path, token)["items"].as_array().unwrap().len();
    assert_eq!((count(&anna), count(&ben)), (0, 1));
    let ca = world.site.dir.join("ca.pem");
    fs::write(&ca, world.site.ok(&["site", "ca"])).unwrap();
    let mut command = world.site.command(&["transfer", "show", id]);
    command.env("PENSTOCK_URL", &world.url).env("PENSTOCK_TOKEN", &ben).env("PENSTOCK_CA", &ca);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("run 7") && text.contains("ben"), "{text}");
}

/// Promise (RFC 9457): every error has problem details of one form, also those of the listener,
/// with the id of the request, and points at the field that is at fault.
#[test]
fn every_error_has_problem_details() {
    let world = World::start();
    world.site.ok(&["user", "set", "op", "--role", "operator"]);
    let token = world.token("op", &[]);
    let transfers = LIST_TRANSFERS.path;
    let (json, long) = ("application/json", "x".repeat(70 << 10));
    let cases: [(Method, &str, &str, &str, u16, &str); 9] = [
        (Method::GET, "/api/v1/nothing", json, "", 404, "not-found"),
        (Method::POST, "/api/v1/queue", json, "", 405, "method-unknown"),
        (Method::POST, transfers, "text/plain", "{}", 415, "media-type"),
        (Method::POST, transfers, json, "{", 400, "body"),
        (Method::POST, transfers, json, r#"{"labl": "x"}"#, 400, "unknown-field"),
        (Method::PATCH, "/api/v1/transfers/00", json, &long, 413, "too-long"),
        (Method::GET, "/api/v1/transfers?stat=done", json, "", 400, "unknown-field"),
        (Method::GET, "/api/v1/transfers?state=frozen", json, "", 400, "query"),
        (Method::GET, "/api/v1/transfers?cursor=x", json, "", 400, "cursor"),
    ];
    let mut errors = Vec::new();
    for (method, path, kind, body, status, code) in cases {
        let call = world.client.request(method, format!("{}{path}", world.url));
        let call = call.bearer_auth(&token).header("content-type", kind).body(body.to_owned());
        let (reply, problem) = world.problem(call.header("request-id", "mine-7"));
        assert_eq!((reply.as_u16(), &problem["code"]), (status, &code.into()), "{problem}");
        errors.push(problem["errors"][0].clone());
    }
    assert_eq!(errors[4]["pointer"], "/labl");
    assert!(errors[4]["detail"].as_str().unwrap().contains("did you mean `label`"), "{errors:?}");
    assert_eq!(
        (&errors[6]["pointer"], &errors[8]["pointer"]),
        (&"?stat".into(), &"?cursor".into())
    );
    let call = world.client.get(format!("{}{transfers}", world.url)).bearer_auth(&token);
    let call = call.header("request-id", "mine-7").header("x-long", "x".repeat(20 << 10));
    assert_eq!(world.problem(call).1["code"], "head-too-long");
    let call = world.client.get(format!("{}{transfers}", world.url));
    assert_eq!(world.problem(call.header("request-id", "mine-7")).1["code"], "unauthenticated");
}

/// Promise: a waiting transfer is found by its filter and changed under its tag; what was changed
/// meanwhile is not overwritten, for transfers and for users.
#[test]
fn changes_are_made_under_a_tag() {
    let world = World::start();
    fs::create_dir(world.site.store.join("src")).unwrap();
    world.site.ok(&["user", "set", "admin", "--role", "administrator"]);
    let token = world.token("admin", &[]);
    let id = "07".repeat(16);
    let wanted = json!({ "id": id, "source": "hpc:data/src/", "target": "hpc:data/dst/",
                         "label": "Run 7", "not_before": in_an_hour().to_string(),
                         "options": { "files_from": ["a", "b"] } });
    let (status, view) = world.post(LIST_TRANSFERS.path, &token, &wanted);
    assert_eq!(status, StatusCode::CREATED, "{view}");
    assert_eq!(
        (&view["files_from_count"], &view["options"]["files_from"]),
        (&2.into(), &json!([]))
    );
    let path = format!("{}/{id}", LIST_TRANSFERS.path);
    let whole = world.get(&format!("{path}?include=options"), &token);
    assert_eq!(whole["options"]["files_from"], json!(["a", "b"]));
    let found = world.get(&format!("{}?state=queued&label=run", LIST_TRANSFERS.path), &token);
    assert_eq!((&found["items"][0]["id"], &found["next"]), (&json!(id), &Value::Null));
    assert_eq!(
        world.get(&format!("{}?state=done", LIST_TRANSFERS.path), &token)["items"],
        json!([])
    );
    let change = |path: &str, method: Method, body: Value, tag: &str| {
        let call = world.client.request(method, format!("{}{path}", world.url)).json(&body);
        let call = call.bearer_auth(&token).header("if-match", tag);
        world.runtime.block_on(async {
            let reply = call.send().await.unwrap();
            let header = |name| reply.headers().get(name).map(|it| it.to_str().unwrap().to_owned());
            let told = (header("etag").unwrap_or_default(), header("deprecation"));
            (reply.status().as_u16(), told, reply.json::<Value>().await.unwrap())
        })
    };
    let (status, (tag, _), view) = change(&path, Method::PATCH, json!({ "priority": 9 }), "*");
    assert_eq!((status, &view["priority"]), (200, &9.into()), "{view}");
    let (status, (newer, _), view) = change(&path, Method::PATCH, json!({ "label": null }), &tag);
    assert_eq!((status, &view["label"]), (200, &Value::Null), "{view}");
    assert_ne!(tag, newer);
    let (status, _, problem) = change(&path, Method::PATCH, json!({ "priority": 1 }), &tag);
    assert_eq!((status, &problem["code"]), (412, &"changed-meanwhile".into()));
    let limit = json!({ "rate_bits_per_s": 9_000_000 });
    let (status, (_, deprecated), view) =
        change(&format!("{path}/limits"), Method::POST, limit, "*");
    assert_eq!((status, &view["limits"]["rate_bits_per_s"]), (200, &9_000_000.into()));
    assert!(deprecated.unwrap().starts_with('@'));
    let user = "/api/v1/users/anna";
    assert_eq!(change(user, Method::PUT, json!({ "role": "user" }), "*").0, 412, "there is none");
    world.site.ok(&["user", "set", "anna"]);
    let (status, (tag, _), _) = change(user, Method::PUT, json!({ "role": "viewer" }), "*");
    assert_eq!(status, 200);
    world.site.ok(&["user", "set", "anna", "--role", "operator"]);
    assert_eq!(change(user, Method::PUT, json!({ "role": "user" }), &tag).0, 412);
    world.site.ok(&["transfer", "set", &id[..8], "--label", "again", "--not-before", "1h"]);
    let listed = world.site.ok(&["transfer", "list", "--state", "queued", "--label", "AGAIN"]);
    assert!(listed.contains("[again]") && listed.contains("07070707"), "{listed}");
    world.site.ok(&["transfer", "cancel", &id]);
}
