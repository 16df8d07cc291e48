//! A real OpenID provider, and a browser that follows it by hand.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use reqwest::redirect::Policy;
use reqwest::{Client, Method, StatusCode, Url};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// The program, which is run where its packages are.
const PROGRAM: &str = include_str!("../../oidc/provider.mjs");
/// The secret of its client.
pub(super) const SECRET: &str = "a secret of the client: +/%&";

/// A running provider; `oidc-provider` of npm with the ways to misbehave of `provider.mjs`.
pub(super) struct Provider {
    child: Child,
    _output: BufReader<ChildStdout>,
    pub(super) issuer: String,
    client: Client,
    runtime: Runtime,
}

impl Provider {
    /// Starts a provider; `None`, which it prints, where its packages are not installed.
    pub(super) fn start() -> Option<Self> {
        let place = place();
        if !place.join("node_modules/oidc-provider").exists() {
            println!(
                "SKIPPED: there is no oidc-provider; scripts/setup.sh installs it where Node.js 20 \
                 is"
            );
            return None;
        }
        let node = Command::new("node")
            .args(["--input-type=module", "--no-warnings", "--eval", PROGRAM])
            .current_dir(&place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = node.unwrap();
        let mut line = String::new();
        // Its end is held: a program that cannot print ends.
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("ready ").unwrap_or_else(|| panic!("`{line}`"));
        let issuer = format!("http://127.0.0.1:{port}");
        let tls = penstock_net::trust::web_client_config(None, None).unwrap();
        let client = Client::builder().tls_backend_preconfigured((*tls).clone()).no_proxy();
        let (client, runtime) = (client.build().unwrap(), Runtime::new().unwrap());
        Some(Self { child, _output: output, issuer, client, runtime })
    }

    /// Registers the addresses of sites, and signs with new keys from now on.
    pub(super) fn register(&self, sites: &[&str]) {
        self.control(&json!({ "sites": sites }));
    }

    /// Has this person at the browser from now on.
    pub(super) fn seat(&self, subject: &str, name: &str, groups: &[&str]) {
        self.control(&json!({ "person": { "sub": subject, "name": name, "groups": groups } }));
    }

    /// Changes how the provider behaves; returns how often each path was asked.
    pub(super) fn control(&self, changes: &Value) -> BTreeMap<String, u64> {
        self.runtime.block_on(async {
            let call = self.client.post(format!("{}/control", self.issuer)).json(changes);
            call.send().await.unwrap().json().await.unwrap()
        })
    }

    /// Kills it.
    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the place where `scripts/setup.sh` installs the packages of the provider.
fn place() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/oidc")
}

/// An answer that a browser has got.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) location: String,
    /// Cookies that it sets, whole.
    pub(super) cookies: Vec<String>,
    pub(super) kind: String,
    pub(super) text: String,
}

impl Answer {
    pub(super) fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    pub(super) fn code(&self) -> (u16, String) {
        let code = self.body()["code"].as_str().unwrap_or_default().to_owned();
        (self.status.as_u16(), code)
    }
}

/// A browser: it keeps cookies for each host and port, and goes where it is told, step by step.
pub(super) struct Browser {
    client: Client,
    runtime: Runtime,
    cookies: BTreeMap<String, BTreeMap<String, String>>,
    pub(super) accept: &'static str,
}

impl Browser {
    /// Returns one that trusts the authority of a site.
    pub(super) fn new(ca: &str) -> Self {
        let tls = penstock_net::trust::web_client_config(Some(ca.as_bytes()), None).unwrap();
        let client = Client::builder().tls_backend_preconfigured((*tls).clone());
        let client = client.no_proxy().redirect(Policy::none()).build().unwrap();
        let (runtime, cookies) = (Runtime::new().unwrap(), BTreeMap::new());
        Self { client, runtime, cookies, accept: "application/json" }
    }

    /// Opens an address.
    pub(super) fn open(&mut self, url: &str) -> Answer {
        self.ask(Method::GET, url)
    }

    /// Sends a request of the page of a site, or of a person who types its address.
    pub(super) fn ask(&mut self, method: Method, url: &str) -> Answer {
        self.send(method, url, None)
    }

    /// Sends a request of the page of a site, with a body.
    pub(super) fn send(&mut self, method: Method, url: &str, body: Option<&Value>) -> Answer {
        let body = body.map(|body| ("application/json", body.to_string()));
        self.exchange(method, url, body)
    }

    /// Sends the form of a page, as its button does.
    pub(super) fn fill_in(&mut self, action: &str, fields: &[(&str, &str)]) -> Answer {
        let pairs = Url::parse_with_params("form:", fields).unwrap();
        let body = pairs.query().unwrap_or_default().to_owned();
        self.exchange(Method::POST, action, Some(("application/x-www-form-urlencoded", body)))
    }

    fn exchange(&mut self, method: Method, url: &str, body: Option<(&str, String)>) -> Answer {
        let host = Url::parse(url).unwrap().origin().ascii_serialization();
        let kept = self.cookies.entry(host).or_default();
        let pairs: Vec<_> = kept.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let call = self.client.request(method, url).header("accept", self.accept);
        let call = call.header("cookie", pairs.join("; ")).header("sec-fetch-site", "same-origin");
        let call = match body {
            Some((kind, body)) => call.header("content-type", kind).body(body),
            None => call,
        };
        let answer = self.runtime.block_on(async {
            let reply = call.send().await.unwrap();
            let texts = |name: &str| {
                let values = reply.headers().get_all(name).iter();
                values.map(|value| value.to_str().unwrap().to_owned()).collect::<Vec<_>>()
            };
            let (cookies, status) = (texts("set-cookie"), reply.status());
            let (location, kind) = (texts("location").join(""), texts("content-type").join(""));
            let text = reply.text().await.unwrap();
            Answer { status, location, cookies, kind, text }
        });
        for cookie in &answer.cookies {
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            match cookie.contains("Max-Age=0") || value.is_empty() {
                true => kept.remove(name),
                false => kept.insert(name.to_owned(), value.to_owned()),
            };
        }
        answer
    }

    /// Begins a log-in at a site, and goes on at the provider until that leads back; returns the
    /// address, which is not opened.
    pub(super) fn until_callback(&mut self, site: &str, return_to: &str) -> String {
        let start =
            Url::parse_with_params(&format!("{site}/auth/oidc/start"), [("return", return_to)]);
        let mut answer = self.open(start.unwrap().as_str());
        let mut at = start_of(&answer);
        for _ in 0..10 {
            if at.as_str().starts_with(&format!("{site}/auth/oidc/callback")) {
                return at.into();
            }
            answer = self.open(at.as_str());
            assert!(answer.status.is_redirection(), "{at}: {answer:?}");
            at = at.join(&answer.location).unwrap();
        }
        panic!("the provider does not lead back: {answer:?}");
    }

    /// Logs in at a site; returns the answer that ends it.
    pub(super) fn log_in(&mut self, site: &str) -> Answer {
        let callback = self.until_callback(site, "/");
        self.open(&callback)
    }

    /// Returns the status of a request with a token.
    pub(super) fn status_by(&self, site: &str, token: &str) -> u16 {
        let call = self.client.get(format!("{site}/api/v1/me")).bearer_auth(token);
        self.runtime.block_on(async { call.send().await.unwrap().status().as_u16() })
    }

    /// Takes the cookies of one host to another, as no browser does.
    pub(super) fn take_cookies(&mut self, from: &str, to: &str) {
        let taken = self.cookies.get(from).cloned().unwrap_or_default();
        self.cookies.insert(to.to_owned(), taken);
    }

    /// Returns the caller as a site sees it.
    pub(super) fn me(&mut self, site: &str) -> (u16, Value) {
        let answer = self.open(&format!("{site}/api/v1/me"));
        (answer.status.as_u16(), answer.body())
    }
}

fn start_of(answer: &Answer) -> Url {
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{answer:?}");
    Url::parse(&answer.location).unwrap()
}
