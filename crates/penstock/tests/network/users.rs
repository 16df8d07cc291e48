//! The HTTPS API: users, roles, tokens, and the audit log, at a real daemon.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_api::access::{Principal, Right, Role, Scope, TokenId, Via};
use penstock_api::endpoints::{Endpoint, LIST_TRANSFERS, ROTATE_KEYS, SHOW_ME, TABLE};
use penstock_net::trust::web_client_config;
use penstock_testkit::{Scratch, Site, Wait};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// A site whose daemon serves the API over HTTPS, and a client that trusts its authority.
struct World {
    site: Site,
    url: String,
    client: Client,
    runtime: Runtime,
    _base: Scratch,
}

impl World {
    fn start() -> Self {
        let base = Scratch::on_disk();
        let mut site = Site::init(base.path(), "hpc", None);
        site.set_config(&format!("{}\n[web]\nlisten = [\"127.0.0.1:0\"]\n", site.config()));
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
        Self { site, url, client, runtime, _base: base }
    }

    fn token(&self, user: &str, more: &[&str]) -> String {
        let args = [&["token", "create", "--user", user][..], more].concat();
        self.site.ok(&args).trim().to_owned()
    }

    /// Calls an endpoint whose placeholders are filled with names of nothing; returns the status,
    /// and whether it is refused for want of the right.
    fn call(&self, endpoint: &Endpoint, token: Option<&str>) -> (StatusCode, bool) {
        let path = endpoint.path.replace("{id}", "00").replace("{kind}", "sha-256");
        let path = path.replace("{site}", "nope").replace("{peer}", "nope");
        let path = path.replace("{host}", "nope").replace("{name}", "nope");
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

    fn get(&self, path: &str, token: &str) -> Value {
        let call = self.client.get(format!("{}{path}", self.url)).bearer_auth(token);
        self.runtime.block_on(async { call.send().await.unwrap().json().await.unwrap() })
    }

    fn post(&self, path: &str, token: &str, body: &Value) -> (StatusCode, Value) {
        let call = self.client.post(format!("{}{path}", self.url)).bearer_auth(token).json(body);
        self.runtime.block_on(async {
            let reply = call.send().await.unwrap();
            (reply.status(), reply.json().await.unwrap())
        })
    }
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
    assert!(problem["hint"].as_str().unwrap().contains("--grant data=write"), "{problem}");
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
