//! A log-in at Keycloak, as sites run it: form, group mapper, PKCE, end of the session there.
//!
//! `cargo xtask verify long keycloak` fetches it and runs this. It takes 600 MiB of memory and a
//! Java of version 21 or later.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use penstock_testkit::{Scratch, Site, Wait, free_port};
use serde_json::json;

use super::provider::{Browser, SECRET};
use super::{tables, url_of};

const PASSWORD: &str = "a long password";

/// A running Keycloak with one realm.
struct Keycloak {
    child: Child,
    issuer: String,
}

impl Keycloak {
    /// Starts the Keycloak that lies in `PENSTOCK_KEYCLOAK`, and waits until it has its realm.
    fn start() -> Self {
        let home = std::env::var_os("PENSTOCK_KEYCLOAK").map(PathBuf::from);
        let home = home.expect("PENSTOCK_KEYCLOAK is the directory of a Keycloak");
        let person = json!({
            "username": "anna", "enabled": true, "email": "anna@example.org",
            "firstName": "Anna", "lastName": "Lee", "emailVerified": true, "groups": ["staff"],
            "credentials": [{ "type": "password", "value": PASSWORD }],
        });
        let mapper = json!({
            "name": "groups", "protocol": "openid-connect",
            "protocolMapper": "oidc-group-membership-mapper",
            "config": { "claim.name": "groups", "full.path": "false", "id.token.claim": "true" },
        });
        let client = json!({
            "clientId": "penstock", "secret": SECRET, "redirectUris": ["https://127.0.0.1:*"],
            "protocolMappers": [mapper],
            "attributes": {
                "post.logout.redirect.uris": "+", "pkce.code.challenge.method": "S256",
            },
        });
        let realm = json!({
            "realm": "lab", "enabled": true, "sslRequired": "none",
            "groups": [{ "name": "staff" }], "users": [person], "clients": [client],
        });
        fs::create_dir_all(home.join("data/import")).unwrap();
        fs::write(home.join("data/import/lab.json"), realm.to_string()).unwrap();
        let port = free_port();
        let child = Command::new(home.join("bin/kc.sh"))
            .args(["start-dev", "--db=dev-mem", "--import-realm", "--http-host=127.0.0.1"])
            .arg(format!("--http-port={port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        Self { child, issuer: format!("http://127.0.0.1:{port}/realms/lab") }
    }
}

impl Drop for Keycloak {
    fn drop(&mut self) {
        // The script has started a Java of its own.
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.child.wait();
    }
}

/// Promise (C8): a site whose provider is Keycloak needs five lines; its groups give the role, and
/// a log-out leads to the one of Keycloak.
#[test]
#[ignore = "needs Keycloak: cargo xtask verify long keycloak"]
fn c8_keycloak_logs_users_in() {
    let keycloak = Keycloak::start();
    let base = Scratch::on_disk();
    fs::write(base.path().join("secret"), format!("{SECRET}\n")).unwrap();
    let mut site = Site::init(base.path(), "hpc", None);
    site.set_config(&(site.config() + &tables(&keycloak.issuer, base.path())));
    site.start();
    let url = url_of(&site);
    let mut browser = Browser::new(&site.ok(&["site", "ca"]));
    browser.accept = "text/html";
    let form = Wait::new("Keycloak answers")
        .at_most(Duration::from_secs(300))
        .every(Duration::from_secs(1))
        .some(|| {
            let start = browser.open(&format!("{url}/auth/oidc/start?return=%2F"));
            let at_provider = start.location.starts_with(&keycloak.issuer);
            at_provider.then(|| browser.open(&start.location)).filter(|page| page.status == 200)
        });
    let action = form.text.split("action=\"").nth(1).and_then(|rest| rest.split('"').next());
    let action = action.expect("the page has a form").replace("&amp;", "&");
    let fields = [("username", "anna"), ("password", PASSWORD), ("credentialId", "")];
    let back = browser.fill_in(&action, &fields);
    assert!(back.location.starts_with(&format!("{url}/auth/oidc/callback?")), "{back:?}");
    let done = browser.open(&back.location);
    assert_eq!((done.status.as_u16(), &*done.location), (303, "/"), "{done:?}");
    browser.accept = "application/json";
    let (_, me) = browser.me(&url);
    assert_eq!((&me["user"], &me["role"]), (&"anna".into(), &"user".into()));

    let end = browser.open(&format!("{url}/auth/oidc/end"));
    assert!(end.location.starts_with(&keycloak.issuer), "{end:?}");
    assert_eq!(
        browser.open(&end.location).status,
        200,
        "Keycloak asks whether to log out there too"
    );
}
