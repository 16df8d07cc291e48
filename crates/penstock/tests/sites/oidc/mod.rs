//! Log-ins at an OpenID provider that is not ours, really started, with a browser that is played.

mod keycloak;
mod provider;

use std::fs;

use penstock_testkit::{Etcd, Scratch, Site, Wait};
use reqwest::{Method, Url};
use serde_json::{Value, json};

use provider::{Browser, Provider, SECRET};

/// A site whose users log in at a provider.
struct World {
    provider: Provider,
    site: Site,
    url: String,
    ca: String,
    _base: Scratch,
}

impl World {
    /// Starts a site and its provider; `None` where there is no provider to be had.
    fn start() -> Option<Self> {
        let provider = Provider::start()?;
        let base = Scratch::on_disk();
        fs::write(base.path().join("secret"), format!("{SECRET}\n")).unwrap();
        let mut site = Site::init(base.path(), "hpc", None);
        site.set_config(&(site.config() + &tables(&provider.issuer, base.path())));
        site.start();
        let url = url_of(&site);
        let ca = site.ok(&["site", "ca"]);
        provider.register(&[&url]);
        provider.seat("sub-anna", "Anna", &["staff"]);
        Some(Self { provider, site, url, ca, _base: base })
    }

    fn browser(&self) -> Browser {
        Browser::new(&self.ca)
    }

    /// Logs in; returns the status and the code of a problem.
    fn try_log_in(&self) -> (u16, String) {
        self.browser().log_in(&self.url).code()
    }

    fn user(&self, name: &str) -> Value {
        let users = self.site.lines(&["user", "list", "--json"]);
        users.into_iter().find(|user| user["name"] == name).unwrap_or_default()
    }
}

fn tables(issuer: &str, base: &std::path::Path) -> String {
    let secret = base.join("secret");
    format!(
        "\n[web]\nlisten = [\"127.0.0.1:0\"]\n[auth.oidc]\nissuer = \"{issuer}\"\n\
         client_id = \"penstock\"\nclient_secret_command = [\"cat\", \"{}\"]\nname = \"Lab\"\n\
         [auth.oidc.roles]\nstaff = \"user\"\nops = \"operator\"\n",
        secret.display()
    )
}

/// Returns the address at which a started site serves its API.
fn url_of(site: &Site) -> String {
    site.until_log("the API is served over HTTPS");
    let log = site.log_text();
    let line = log.lines().rfind(|line| line.contains("served over HTTPS")).unwrap();
    format!("https://{}", line.rsplit("address=").next().unwrap().trim())
}

fn refused(code: &str) -> (u16, String) {
    let status = if code == "oidc-provider-down" { 503 } else { 403 };
    (status, code.to_owned())
}

/// Promise (C8): who logs in at the provider has a session with the role of its groups, at each
/// log-in anew; without a group it has none, and nothing of it is accepted until it has one again.
/// No token of the provider reaches the browser or a log.
#[test]
fn c8_groups_of_the_provider_give_roles() {
    let Some(world) = World::start() else { return };
    let mut browser = world.browser();
    let methods = browser.open(&format!("{}/api/v1/auth/methods", world.url)).body();
    assert_eq!(methods["oidc"], json!({ "name": "Lab", "start": "/auth/oidc/start" }));
    let callback = browser.until_callback(&world.url, "/device?user_code=A");
    let done = browser.open(&callback);
    assert_eq!((done.status.as_u16(), &*done.location), (303, "/device?user_code=A"), "{done:?}");
    let cookie = done.cookies.first().unwrap();
    assert!(cookie.starts_with("__Host-penstock=") && cookie.contains("SameSite=Strict"));
    assert_eq!((done.cookies.len(), &*done.text), (1, ""), "nothing else reaches the browser");
    let (_, me) = browser.me(&world.url);
    let facts = (&me["user"], &me["role"], &me["via"]);
    assert_eq!(facts, (&"anna".into(), &"user".into(), &"session".into()));
    let sessions = browser.open(&format!("{}/api/v1/sessions", world.url)).body();
    assert_eq!(sessions["items"][0]["at_provider"], true);
    let token = world.site.ok(&["token", "create", "--user", "anna"]).trim().to_owned();

    world.provider.seat("sub-anna", "Renamed", &["staff", "ops", "x"]);
    assert_eq!(browser.log_in(&world.url).location, "/");
    assert_eq!(browser.me(&world.url).1["role"], "operator", "and the user keeps its name");
    let identity =
        json!({ "issuer": world.provider.issuer, "subject": "sub-anna", "has_role": true });
    assert_eq!(world.user("anna")["identity"], identity);

    world.provider.seat("sub-anna", "Anna", &["x"]);
    let mut other = world.browser();
    assert_eq!(other.log_in(&world.url).code(), refused("oidc-role"));
    assert_eq!(browser.me(&world.url).0, 401, "its sessions have ended");
    assert_eq!(other.status_by(&world.url, &token), 401, "nor is its token accepted");
    assert_eq!(world.user("anna")["identity"]["has_role"], false);
    world.provider.seat("sub-anna", "Anna", &["staff"]);
    assert_eq!(other.log_in(&world.url).location, "/");
    assert_eq!(other.me(&world.url).1["role"], "user");
    assert_eq!(other.status_by(&world.url, &token), 200);

    let end = other.open(&format!("{}/auth/oidc/end", world.url));
    assert!(
        end.location.starts_with(&format!("{}/session/end?", world.provider.issuer)),
        "{end:?}"
    );
    assert!(end.location.contains("client_id=penstock") && !end.location.contains("hint"));
    assert_eq!(other.open(&end.location).status.as_u16(), 200, "the provider knows the address");

    let audit = fs::read_to_string(world.site.dir.join("audit.jsonl")).unwrap();
    let lines = audit.lines().filter(|line| line.contains("GET /auth/oidc/callback"));
    assert_eq!(lines.filter(|line| line.contains("\"anna\"")).count(), 3, "{audit}");
    let code = Url::parse(&callback).unwrap();
    let code = code.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
    let told = audit + &world.site.log_text();
    for secret in [&code, SECRET, "eyJ", &token] {
        assert!(!told.contains(secret), "a secret is in a log: {secret}");
    }
}

/// Promise (C8): a log-in belongs to the browser that began it, and is finished once; a code is
/// good once, and for its own log-in; what the provider refuses is told.
#[test]
fn c8_a_log_in_is_finished_once_by_its_browser() {
    let Some(world) = World::start() else { return };
    let mut browser = world.browser();
    let callback = browser.until_callback(&world.url, "/");
    let mut foreign = world.browser();
    assert_eq!(foreign.open(&callback).code(), refused("oidc-browser"), "without a cookie");
    foreign.until_callback(&world.url, "/");
    assert_eq!(foreign.open(&callback).code(), refused("oidc-browser"), "with its own");
    assert_eq!(browser.open(&callback).location, "/");
    assert_eq!(browser.open(&callback).code(), refused("oidc-state"), "a second time");
    // Pages elsewhere can send a browser here with any state: that makes no try fail.
    let guessed = format!("{}/auth/oidc/callback?code=x&state=guessed", world.url);
    for _ in 0..8 {
        assert_eq!(foreign.open(&guessed).code(), refused("oidc-state"));
    }
    assert_eq!(browser.log_in(&world.url).location, "/");

    // The code of one log-in with the state of another.
    let with = |url: &str, name: &str, value: &str| {
        let mut url = Url::parse(url).unwrap();
        let kept: Vec<_> = url.query_pairs().filter(|(it, _)| it != name).collect();
        let kept: Vec<_> =
            kept.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        url.query_pairs_mut().clear().extend_pairs(kept).append_pair(name, value);
        String::from(url)
    };
    let part = |url: &str, name: &str| {
        let url = Url::parse(url).unwrap();
        url.query_pairs().find(|(it, _)| it == name).unwrap().1.into_owned()
    };
    let (one, two) =
        (browser.until_callback(&world.url, "/"), browser.until_callback(&world.url, "/"));
    let mixed = with(&one, "code", &part(&two, "code"));
    assert_eq!(browser.open(&mixed).code(), refused("oidc-code"), "PKCE binds the code");
    assert_eq!(browser.log_in(&world.url).location, "/");
    let used = part(&callback, "code");
    let again = with(&browser.until_callback(&world.url, "/"), "code", &used);
    assert_eq!(browser.open(&again).code(), refused("oidc-code"));
    let other = with(&browser.until_callback(&world.url, "/"), "iss", "https://evil.example.org");
    assert_eq!(browser.open(&other).code(), (502, "oidc-issuer".to_owned()));
    assert_eq!(browser.log_in(&world.url).location, "/");

    world.provider.control(&json!({ "person": null }));
    // The provider still knows whoever was at the other browser.
    let mut browser = world.browser();
    let denied = browser.until_callback(&world.url, "/");
    browser.accept = "text/html,*/*;q=0.8";
    let page = browser.open(&denied);
    assert_eq!((page.status.as_u16(), &*page.kind), (403, "text/html; charset=utf-8"));
    assert!(page.text.contains("oidc-denied") && page.text.contains("access_denied"), "{page:?}");
    browser.accept = "application/json";
    for bad in ["https://evil.org", "//evil.org", "/api/v1/me"] {
        let start = format!("{}/auth/oidc/start?return={bad}", world.url);
        assert_eq!(browser.open(&start).code(), (400, "query".to_owned()), "{bad}");
    }
    let unknown = format!("{}/auth/oidc/callback?code=x&state=y&session_state=z", world.url);
    assert_eq!(browser.open(&unknown).code(), refused("oidc-state"));
}

/// Promise (C8): a token of the provider that is wrong in any way begins no session, and each way
/// has a code of its own; five failures later who fails has to wait.
#[test]
fn c8_wrong_tokens_are_refused() {
    let Some(world) = World::start() else { return };
    assert_eq!(world.browser().log_in(&world.url).location, "/");
    let wrong = [
        ("issuer", "oidc-issuer"),
        ("audience", "oidc-audience"),
        ("nonce", "oidc-nonce"),
        ("expired", "oidc-expired"),
        ("none", "oidc-algorithm"),
        ("hmac", "oidc-algorithm"),
        ("signature", "oidc-signature"),
    ];
    for (how, code) in wrong {
        world.provider.control(&json!({ "token": how }));
        assert_eq!(world.try_log_in(), (502, code.to_owned()), "{how}");
        world.provider.control(&json!({ "token": null }));
        assert_eq!(world.browser().log_in(&world.url).location, "/", "after {how}");
    }
    world.provider.control(&json!({ "subject": "sub-ben" }));
    assert_eq!(world.try_log_in(), (502, "oidc-subject".to_owned()));
    let sessions = world.user("anna")["sessions"].as_u64();
    for _ in 0..4 {
        assert_eq!(world.try_log_in().1, "oidc-subject");
    }
    assert_eq!(world.try_log_in(), (429, "login-later".to_owned()));
    assert_eq!(world.user("anna")["sessions"].as_u64(), sessions, "none has begun");
}

/// Promise (C8): new keys of the provider are found at once, by one search; a search for a key that
/// nobody has is not repeated at each log-in. Without the provider sessions continue, and a log-in
/// says that it cannot be reached.
#[test]
fn c8_keys_change_and_the_provider_goes_down() {
    let Some(mut world) = World::start() else { return };
    let asked = |world: &World| {
        let counts = world.provider.control(&json!({}));
        [counts["/jwks"], counts["/.well-known/openid-configuration"]]
    };
    let mut browser = world.browser();
    assert_eq!(browser.log_in(&world.url).location, "/");
    assert_eq!(browser.log_in(&world.url).location, "/");
    assert_eq!(asked(&world), [1, 1], "facts and keys are kept");
    world.provider.register(&[&world.url]);
    assert_eq!(browser.log_in(&world.url).location, "/", "with new keys");
    assert_eq!(asked(&world), [2, 1]);
    world.provider.register(&[&world.url]);
    assert_eq!(browser.log_in(&world.url).code(), (502, "oidc-key".to_owned()));
    assert_eq!(asked(&world), [2, 1], "the keys were searched just now");

    let callback = browser.until_callback(&world.url, "/");
    world.provider.kill();
    assert_eq!(browser.open(&callback).code(), refused("oidc-provider-down"));
    assert_eq!(browser.me(&world.url).0, 200, "its session continues");
    world.site.stop();
    world.site.start();
    let url = url_of(&world.site);
    let mut browser = world.browser();
    let start = browser.open(&format!("{url}/auth/oidc/start"));
    assert_eq!(start.code(), refused("oidc-provider-down"));
    assert!(start.body()["retry_after_s"].as_u64().is_some(), "{}", start.text);
    assert_eq!(browser.open(&format!("{url}/auth/oidc/end")).location, "../../");
}

/// Promise (C8): no name at the provider takes a user of the site over: an administrator binds
/// them, by the subject. Who is locked out stays out, and a person without a name gets none.
#[test]
fn c8_a_user_of_the_site_is_not_taken_over() {
    let Some(world) = World::start() else { return };
    world.site.ok(&["user", "set", "anna", "--role", "administrator"]);
    assert_eq!(world.try_log_in(), refused("oidc-name-taken"));
    world.provider.seat("sub-root", "root", &["staff"]);
    assert_eq!(world.try_log_in(), refused("oidc-name-taken"), "nor is root");
    world.provider.seat("sub-nameless", "@", &["staff"]);
    assert_eq!(world.try_log_in(), refused("oidc-name"));
    world.provider.seat("sub-anna", "Anna", &["staff"]);
    world.site.ok(&["user", "set", "anna", "--subject", "sub-anna"]);
    assert_eq!(world.user("anna")["role"], "administrator", "until the next log-in");
    let mut browser = world.browser();
    assert_eq!(browser.log_in(&world.url).location, "/");
    let (_, me) = browser.me(&world.url);
    assert_eq!((&me["user"], &me["role"]), (&"anna".into(), &"user".into()));

    world.provider.seat("sub-other", "anna", &["ops"]);
    assert_eq!(world.try_log_in(), refused("oidc-name-taken"), "another person of that name");
    world.site.fails(2, &["user", "set", "ben", "--subject", "sub-anna"]);
    world.site.ok(&["user", "set", "anna", "--disable"]);
    world.provider.seat("sub-anna", "Anna", &["ops"]);
    assert_eq!(world.try_log_in(), refused("oidc-locked"));
    assert_eq!(browser.ask(Method::GET, &format!("{}/api/v1/me", world.url)).status, 401);
    world.site.ok(&["user", "set", "anna", "--enable", "--subject", "none"]);
    assert_eq!(world.try_log_in(), refused("oidc-name-taken"));
    assert!(world.user("anna")["identity"].is_null());
}

/// Promise (C8): a role ends with the groups that gave it. No first password of one's own outlives
/// it, and the loss of the identity lets nobody in whom the provider has locked out.
#[test]
fn c8_a_role_ends_with_its_groups() {
    let Some(world) = World::start() else { return };
    let mut browser = world.browser();
    assert_eq!(browser.log_in(&world.url).location, "/");
    let token = world.site.ok(&["token", "create", "--user", "anna"]).trim().to_owned();
    let url = format!("{}/api/v1/users/anna/password", world.url);
    let password = json!({ "password": "four words or more" });
    assert_eq!(browser.send(Method::PUT, &url, Some(&password)).code(), refused("not-authorised"));
    world.provider.seat("sub-anna", "Anna", &["x"]);
    assert_eq!(world.try_log_in(), refused("oidc-role"));
    world.site.ok(&["user", "set", "anna", "--subject", "none"]);
    assert_eq!(browser.status_by(&world.url, &token), 401, "an administrator has not enabled it");
    world.site.ok(&["user", "set", "anna", "--enable"]);
    assert_eq!(browser.status_by(&world.url, &token), 200);
}

/// Promise (C8): a browser logs in by any peer of a site, whichever leads, and has the session at
/// once there and soon at the others.
#[test]
fn c8_a_browser_logs_in_by_any_peer() {
    let root = Scratch::in_memory();
    let Some(provider) = Provider::start() else { return };
    let Some(etcd) = Etcd::start(root.path(), 1) else { return };
    fs::write(root.path().join("secret"), SECRET).unwrap();
    let mut peers = vec![Site::first_peer(root.path(), "hpc", &etcd)];
    peers.push(peers[0].join(root.path(), "h2"));
    let serve = |peer: &mut Site| {
        peer.stop();
        peer.set_config(&(peer.config() + &tables(&provider.issuer, root.path())));
        peer.start();
        url_of(peer)
    };
    let urls: Vec<_> = peers.iter_mut().rev().map(serve).collect();
    peers[0].until_peers(2);
    provider.register(&[&urls[0], &urls[1]]);
    provider.seat("sub-anna", "Anna", &["staff"]);
    let ca = peers[0].ok(&["site", "ca"]);
    for (at, url) in urls.iter().enumerate() {
        let mut browser = Browser::new(&ca);
        let done = browser.log_in(url);
        assert_eq!((&*done.location, done.cookies.len()), ("/", 1), "{done:?}");
        assert_eq!(browser.me(url).0, 200, "at once");
        browser.take_cookies(url, &urls[1 - at]);
        Wait::new("the other peer to know it").is(|| browser.me(&urls[1 - at]).0 == 200);
    }
}
