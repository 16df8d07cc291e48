//! Log-ins at a real daemon: links, passwords, browser sessions, and programs that are let in.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Output, Stdio};

use penstock_testkit::{Wait, penstock, told};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::users::World;

const PASSWORD: &str = "correct horse battery staple";

/// An answer: its status, `Set-Cookie`, `Retry-After`, and its body.
struct Answer {
    status: StatusCode,
    cookie: String,
    retry_after: Option<u64>,
    body: Value,
}

impl Answer {
    fn code(&self) -> (u16, &str) {
        (self.status.as_u16(), self.body["code"].as_str().unwrap_or_default())
    }
}

impl World {
    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}/api/v1{path}", self.url))
    }

    fn answer(&self, request: RequestBuilder) -> Answer {
        self.runtime.block_on(async {
            let reply = request.send().await.unwrap();
            let header = |name: &str| {
                let value = reply.headers().get(name).map(|value| value.to_str().unwrap());
                value.unwrap_or_default().to_owned()
            };
            let (cookie, wait) = (header("set-cookie"), header("retry-after"));
            let status = reply.status();
            let body = serde_json::from_slice(&reply.bytes().await.unwrap()).unwrap_or_default();
            Answer { status, cookie, retry_after: wait.parse().ok(), body }
        })
    }

    fn tell(&self, path: &str, body: &Value) -> Answer {
        self.answer(self.request(Method::POST, path).json(body))
    }

    /// Asks with a cookie, as a page of the site does.
    fn by_cookie(&self, method: Method, path: &str, cookie: &str) -> RequestBuilder {
        let value = cookie.split(';').next().unwrap();
        self.request(method, path).header("cookie", value).header("sec-fetch-site", "same-origin")
    }

    fn me(&self, cookie: &str) -> Answer {
        self.answer(self.by_cookie(Method::GET, "/me", cookie))
    }

    fn log_in(&self, name: &str, password: &str) -> Answer {
        self.tell("/sessions", &json!({ "name": name, "password": password }))
    }

    fn set_password(&self, name: &str) {
        let output = self.typed(&["user", "passwd", name, "--stdin"], PASSWORD);
        assert!(output.status.success(), "{}", told(&output));
    }

    /// Runs a command for the site that reads a line.
    fn typed(&self, args: &[&str], line: &str) -> Output {
        type_to(self.site.command(args), line)
    }

    /// A command of a user of another host, with a home directory of its own.
    fn far(&self, args: &[&str]) -> Command {
        let mut command = penstock();
        let config = self.base.path().join("config");
        command.args(args).env("XDG_CONFIG_HOME", config).env_remove("PENSTOCK_DIR");
        command.stdin(Stdio::null());
        command
    }

    fn fingerprint(&self) -> String {
        self.site.lines(&["site", "list", "--json"])[0]["fingerprint"].as_str().unwrap().to_owned()
    }
}

fn type_to(mut command: Command, line: &str) -> Output {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{line}").unwrap();
    child.wait_with_output().unwrap()
}

/// Returns the code at the end of a link.
fn code_of(link: &str) -> String {
    link.trim().split_once('#').unwrap().1.to_owned()
}

/// Promise (C4): a link makes one administrator, whoever races for it; a used, replaced or damaged
/// one says so; its code is in no log and no audit line.
#[test]
fn c4_a_link_makes_one_administrator() {
    let world = World::start();
    let replaced = code_of(&world.site.ok(&["web", "setup"]));
    let link = world.site.ok(&["web", "setup"]);
    assert!(link.starts_with(&format!("{}/setup#", world.url)), "{link}");
    let code = code_of(&link);
    let wanted = |code: &str, name: &str| json!({"code": code, "name": name, "password": PASSWORD});
    let void = world.tell("/auth/setup", &wanted(&replaced, "anna"));
    assert_eq!(void.code(), (410, "link-void"));
    let short = json!({ "code": code, "name": "anna", "password": "short" });
    assert_eq!(world.tell("/auth/setup", &short).code(), (400, "password-unfit"));
    assert_eq!(world.tell("/auth/setup", &wanted(&code, "root")).code(), (400, "name"));
    let racer = |name| world.request(Method::POST, "/auth/setup").json(&wanted(&code, name)).send();
    let (one, other) =
        world.runtime.block_on(async { tokio_join(racer("anna"), racer("ben")).await });
    let mut statuses = [one, other].map(|reply| reply.unwrap().status().as_u16());
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 410]);
    let used = world.tell("/auth/setup", &wanted(&code, "cleo"));
    assert_eq!(used.code(), (410, "link-void"));
    assert!(used.body["cause"].as_str().unwrap().contains("used"), "{}", used.body);
    let users = world.site.lines(&["user", "list", "--json"]);
    assert_eq!((users.len(), &users[0]["role"]), (1, &"administrator".into()));
    let audit = fs::read_to_string(world.site.dir.join("audit.jsonl")).unwrap();
    assert!(audit.contains("POST /api/v1/auth/setup"), "{audit}");
    let told = audit + &world.site.log_text();
    for secret in [&code, &replaced, PASSWORD] {
        assert!(!told.contains(secret), "a secret is in a log");
    }
}

async fn tokio_join<A: Future, B: Future>(one: A, other: B) -> (A::Output, B::Output) {
    futures_util::future::join(one, other).await
}

/// Promise (C7): a session proves its user to pages of this site only, until it is ended, its user
/// is locked out, or the password is set anew; the cookie is what browsers guard best.
#[test]
fn c7_a_session_is_for_pages_of_this_site() {
    let world = World::start();
    world.site.ok(&["user", "set", "anna", "--role", "administrator"]);
    world.set_password("anna");
    let begun = world.log_in("anna", PASSWORD);
    assert_eq!(begun.status, StatusCode::CREATED, "{}", begun.body);
    let cookie = begun.cookie.clone();
    assert!(cookie.starts_with("__Host-penstock="), "{cookie}");
    for attribute in ["Path=/", "Secure", "HttpOnly", "SameSite=Strict"] {
        assert!(cookie.contains(&format!("; {attribute}")), "{cookie}");
    }
    let me = world.me(&cookie).body;
    assert_eq!(
        (&me["user"], &me["via"], &me["via_id"]),
        (&"anna".into(), &"session".into(), &begun.body["id"])
    );
    let value = cookie.split(';').next().unwrap();
    let make = |name, header| {
        let request =
            world.request(Method::POST, "/tokens").header("cookie", value).json(&json!({}));
        world.answer(request.header(name, header)).status.as_u16()
    };
    assert_eq!(make("sec-fetch-site", "cross-site"), 403);
    assert_eq!(make("sec-fetch-site", "same-site"), 403);
    assert_eq!(make("origin", "https://evil.org"), 403);
    assert_eq!(make("accept", "*/*"), 403);
    assert_eq!(make("sec-fetch-site", "same-origin"), 201);
    assert_eq!(make("origin", &world.url), 201);
    let rebound =
        world.request(Method::GET, "/me").header("cookie", value).header("host", "evil.org");
    assert_eq!(world.answer(rebound).code(), (421, "host-unknown"));
    let forged = format!("{}x", &value[..value.len() - 1]);
    assert_eq!(world.me(&forged).status, StatusCode::UNAUTHORIZED);
    let other = World::start();
    assert_eq!(other.me(&cookie).status, StatusCode::UNAUTHORIZED, "a cookie of another site");

    let second = world.log_in("anna", PASSWORD).cookie;
    let listed = world.answer(world.by_cookie(Method::GET, "/sessions", &second)).body;
    let listed = listed["items"].as_array().unwrap();
    let current: Vec<_> = listed.iter().filter(|session| session["is_current"] == true).collect();
    assert_eq!((listed.len(), current.len()), (2, 1), "{listed:?}");
    assert_eq!(current[0]["id"], world.me(&second).body["via_id"]);
    let out = world.answer(world.by_cookie(Method::DELETE, "/sessions/current", &cookie));
    assert!(out.status == StatusCode::NO_CONTENT && out.cookie.contains("Max-Age=0"));
    assert_eq!(world.me(&cookie).status, StatusCode::UNAUTHORIZED);
    world.site.ok(&["user", "set", "anna", "--disable"]);
    assert_eq!(world.me(&second).status, StatusCode::UNAUTHORIZED);
    assert_eq!(world.log_in("anna", PASSWORD).code(), (401, "login-refused"));
    world.site.ok(&["user", "set", "anna", "--enable"]);
    assert_eq!(world.me(&second).status, StatusCode::OK);
    world.set_password("anna");
    assert_eq!(world.me(&second).status, StatusCode::UNAUTHORIZED, "a new password");
    let gone = world.log_in("anna", PASSWORD).cookie;
    world.site.ok(&["user", "remove", "anna"]);
    assert_eq!(world.me(&gone).status, StatusCode::UNAUTHORIZED, "a removed user");
    let audit = fs::read_to_string(world.site.dir.join("audit.jsonl")).unwrap();
    assert!(audit.contains("POST /api/v1/sessions") && audit.contains("\"via\":\"session "));
    assert!(!(audit + &world.site.log_text()).contains(&value[16..60]), "a cookie is in a log");
}

/// Promise (C7): a session ends when nobody uses it.
#[test]
fn c7_an_idle_session_ends() {
    let world = World::start_with("\n[auth]\nsession_idle_seconds = 1\n");
    world.site.ok(&["user", "set", "anna"]);
    world.set_password("anna");
    let cookie = world.log_in("anna", PASSWORD).cookie;
    // Its first use may come too late on a slow machine; a later one surely does.
    Wait::new("the session to end").is(|| world.me(&cookie).status == StatusCode::UNAUTHORIZED);
}

/// Promise (C5): wrong passwords and unknown users are refused alike, and after some with a time to
/// wait; who is logged in works on meanwhile.
#[test]
fn c5_wrong_passwords_are_slowed() {
    let world = World::start();
    world.site.ok(&["user", "set", "anna"]);
    world.set_password("anna");
    world.site.ok(&["user", "set", "ben"]);
    let cookie = world.log_in("anna", PASSWORD).cookie;
    let mut refused = Vec::new();
    for name in ["nobody", "ben", "nobody", "ben", "nobody", "ben"] {
        refused.push(world.log_in(name, "not the right one"));
    }
    let later = refused.pop().unwrap();
    for answer in &refused {
        assert_eq!(answer.code(), (401, "login-refused"));
        for part in ["detail", "cause", "hint"] {
            assert_eq!(answer.body[part], refused[0].body[part], "nothing tells who exists");
        }
    }
    assert_eq!(later.code(), (429, "login-later"));
    assert!((1..=60).contains(&later.retry_after.unwrap()), "{:?}", later.retry_after);
    assert_eq!(world.me(&cookie).status, StatusCode::OK);
    // The user has logged in from here before, and is not held up by strangers.
    assert_eq!(world.log_in("anna", PASSWORD).status, StatusCode::CREATED);
}

/// Promise: password log-ins can be turned off; links still set passwords for later.
#[test]
fn password_log_ins_can_be_off() {
    let world = World::start_with("\n[auth]\npassword = false\n");
    let methods = world.answer(world.request(Method::GET, "/auth/methods")).body;
    assert_eq!(
        (&methods["password"], &methods["url"]),
        (&false.into(), &world.url.as_str().into())
    );
    assert_eq!(world.log_in("anna", PASSWORD).code(), (403, "login-off"));
}

/// Promise: an invitation lets its user set a password once; a user changes it only with the
/// present one, and an administrator without.
#[test]
fn an_invitation_sets_a_password_once() {
    let world = World::start();
    world.site.ok(&["user", "set", "anna"]);
    let link = world.site.ok(&["user", "invite", "anna"]);
    assert!(link.starts_with(&format!("{}/invitation#", world.url)), "{link}");
    let wanted = json!({ "code": code_of(&link), "password": PASSWORD });
    let setup = json!({ "code": code_of(&link), "name": "ben", "password": PASSWORD });
    assert_eq!(world.tell("/auth/setup", &setup).code(), (410, "link-void"));
    let begun = world.tell("/auth/invitation", &wanted);
    assert_eq!((begun.status, &begun.body["user"]), (StatusCode::CREATED, &"anna".into()));
    assert_eq!(world.tell("/auth/invitation", &wanted).code(), (410, "link-void"));
    let change = |current: Option<&str>, name: &str| {
        let body = json!({ "password": "another good password", "current": current });
        let path = format!("/users/{name}/password");
        world.answer(world.by_cookie(Method::PUT, &path, &begun.cookie).json(&body))
    };
    assert_eq!(change(None, "anna").code(), (400, "request"));
    assert_eq!(change(Some("wrong"), "anna").code(), (403, "login-refused"));
    assert_eq!(change(Some(PASSWORD), "ben").code(), (403, "not-authorised"));
    assert_eq!(change(Some(PASSWORD), "anna").status, StatusCode::NO_CONTENT);
    assert_eq!(world.me(&begun.cookie).status, StatusCode::OK, "the own session goes on");
    assert_eq!(world.log_in("anna", PASSWORD).code(), (401, "login-refused"));
    world.set_password("anna");
    assert_eq!(world.log_in("anna", PASSWORD).status, StatusCode::CREATED);
}

/// Promise (RFC 8628): a program gets its token once a user has let it in, is told to wait until
/// then, and gets none if it is refused, asks wrongly, or asks twice.
#[test]
fn c1_a_program_is_let_in_by_its_code() {
    let world = World::start();
    world.site.ok(&["user", "set", "anna", "--role", "operator"]);
    let form = |path: &str, pairs: &[(&str, &str)]| {
        let body: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = world.request(Method::POST, path).body(body.join("&"));
        let kind = "application/x-www-form-urlencoded";
        world.answer(request.header("content-type", kind))
    };
    let begin = |scope: &str| form("/auth/device", &[("client_id", "test"), ("scope", scope)]);
    let grant = "urn:ietf:params:oauth:grant-type:device_code";
    let ask = |codes: &Answer| {
        let code = codes.body["device_code"].as_str().unwrap();
        let answer = form("/auth/device/token", &[("grant_type", grant), ("device_code", code)]);
        let error = answer.body["error"].as_str().unwrap_or_default().to_owned();
        (answer.status.as_u16(), error, answer.body)
    };
    let error = |answer: (u16, String, Value)| (answer.0, answer.1);
    let named = |status: u16, error: &str| (status, error.to_owned());
    assert_eq!(form("/auth/device", &[]).body["error"], "invalid_request");
    assert_eq!(begin("all").body["error"], "invalid_scope");
    let codes = begin("transfers:read+site:read");
    let verification = format!("{}/device", world.url);
    assert_eq!(codes.body["verification_uri"], verification.as_str(), "{}", codes.body);
    assert_eq!(error(ask(&codes)), named(400, "authorization_pending"));
    assert_eq!(error(ask(&codes)), named(400, "slow_down"));
    let user_code = codes.body["user_code"].as_str().unwrap();
    world.site.fails(2, &["auth", "approve", "BCDF-GHJK", "--user", "anna", "--yes"]);
    world.site.fails(2, &["auth", "approve", user_code, "--yes"]);
    world.site.fails(2, &["auth", "approve", user_code, "--user", "ben", "--yes"]);
    world.site.ok(&["auth", "approve", &user_code.to_lowercase(), "--user", "anna", "--yes"]);
    let (status, _, token) = ask(&codes);
    assert_eq!((status, &token["token_type"]), (200, &"Bearer".into()), "{token}");
    assert_eq!(token["scope"], "site:read transfers:read");
    let text = token["access_token"].as_str().unwrap();
    let me = world.answer(world.request(Method::GET, "/me").bearer_auth(text)).body;
    assert_eq!((&me["user"], &me["via"]), (&"anna".into(), &"token".into()));
    assert_eq!(error(ask(&codes)), named(400, "invalid_grant"), "a token is given once");

    let codes = begin("");
    let user_code = codes.body["user_code"].as_str().unwrap();
    let approval = json!({ "user_code": user_code });
    let scoped = world.request(Method::POST, "/auth/device/approve").bearer_auth(text);
    let scoped = world.answer(scoped.json(&approval));
    assert_eq!(scoped.code(), (403, "not-authorised"), "a token with scopes lets nobody in");
    world.site.ok(&["auth", "approve", user_code, "--deny"]);
    assert_eq!(error(ask(&codes)), named(400, "access_denied"));
    for _ in 0..25 {
        begin("");
    }
    let full = begin("");
    assert_eq!(full.code(), (429, "login-later"));
    assert!(full.retry_after.is_some());
    let audit = fs::read_to_string(world.site.dir.join("audit.jsonl")).unwrap();
    assert!(audit.contains("POST /api/v1/auth/device/token") && !audit.contains(&text[5..]));
}

/// Promise: `penstock login` keeps a token for its user alone, later commands use it without more,
/// and `penstock logout` revokes it; an authority that nobody has accepted is not trusted.
#[test]
fn c1_the_command_line_logs_in_and_out() {
    let world = World::start();
    world.site.ok(&["user", "set", "anna"]);
    world.set_password("anna");
    let arguments = ["login", &world.url, "--password", "--user", "anna", "--stdin"];
    let unknown = type_to(world.far(&arguments), PASSWORD);
    assert_eq!(unknown.status.code(), Some(12), "{}", told(&unknown));
    let wrong = "00000000".repeat(8);
    let wrong =
        type_to(world.far(&[&arguments[..], &["--fingerprint", &wrong]].concat()), PASSWORD);
    assert_eq!(wrong.status.code(), Some(12), "{}", told(&wrong));
    let fingerprint = world.fingerprint();
    let trusting = [&arguments[..], &["--fingerprint", &fingerprint]].concat();
    let done = type_to(world.far(&trusting), PASSWORD);
    assert!(done.status.success(), "{}", told(&done));
    let file = world.base.path().join("config/penstock/credentials");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    let text = |args: &[&str]| {
        let output = world.far(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let who = text(&["whoami"]);
    assert!(who.contains(&world.url) && who.contains("user anna, role user, by token"), "{who}");
    text(&["transfer", "list"]);
    let again = type_to(world.far(&arguments), PASSWORD);
    assert!(again.status.success(), "a known authority needs no consent: {}", told(&again));
    assert_eq!(world.site.lines(&["token", "list", "--json"]).len(), 2);
    text(&["logout"]);
    assert_eq!(world.site.lines(&["token", "list", "--json"]).len(), 1);
    assert!(!fs::read_to_string(&file).unwrap().contains("pstk_"));
}
