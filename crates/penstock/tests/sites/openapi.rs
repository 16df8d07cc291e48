//! The OpenAPI document against real daemons: what they answer is what it says.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use penstock_api::endpoints::{self as api, EndpointUri, TABLE};
use penstock_api::timestamp::Timestamp;
use penstock_net::trust::web_client_config;
use penstock_testkit::{Etcd, Scratch, Site, Wait, make_set, random_file, rng, seed};
use reqwest::{Body, Client, Method, Response};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// A slow transfer: minutes for 16 MiB.
const RATE_BITS_PER_S: u64 = 500_000;

/// A client of a site, which compares all answers with the document.
struct Api {
    client: Client,
    runtime: Runtime,
    document: Value,
    called: RefCell<BTreeSet<&'static str>>,
}

/// An answer that is as the document says.
struct Answer {
    status: u16,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }
}

impl Api {
    fn of(site: &Site) -> Self {
        // The socket needs no TLS; a client cannot be built without it.
        let tls = Arc::unwrap_or_clone(web_client_config(None, None).unwrap());
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .unix_socket(site.dir.join("penstock.sock"))
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        let runtime = Runtime::new().unwrap();
        let mut api = Self { client, runtime, document: Value::Null, called: RefCell::default() };
        let reply = api.send(&api::GET_OPENAPI.uri(&[]), Body::default(), "");
        let text = api.runtime.block_on(reply.text()).unwrap();
        let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi");
        let committed = fs::read_to_string(committed.join("penstock-v1.json")).unwrap();
        assert!(text == committed, "run `cargo xtask reference`");
        api.document = serde_json::from_str(&text).unwrap();
        api
    }

    fn send(&self, uri: &EndpointUri, body: Body, media: &str) -> Response {
        let method = Method::from_bytes(uri.endpoint.method.as_str().as_bytes()).unwrap();
        let call = self.client.request(method, format!("http://localhost{}", uri.as_str()));
        let call = if media.is_empty() { call } else { call.header("content-type", media) };
        self.runtime.block_on(call.body(body).send()).unwrap()
    }

    /// Calls an endpoint without a body.
    fn get(&self, uri: EndpointUri) -> Answer {
        self.answered(&uri, self.send(&uri, Body::default(), ""))
    }

    /// Calls an endpoint with a JSON body that the document allows.
    fn post(&self, uri: EndpointUri, body: &Value) -> Answer {
        let content = &self.operation(&uri)["requestBody"]["content"]["application/json"];
        self.validate(&content["schema"], body, uri.as_str());
        self.answered(&uri, self.send(&uri, body.to_string().into(), "application/json"))
    }

    fn operation(&self, uri: &EndpointUri) -> &Value {
        let method = uri.endpoint.method.as_str().to_lowercase();
        let operation = &self.document["paths"][uri.endpoint.path][method];
        assert_eq!(operation["operationId"], uri.endpoint.name.to_lowercase());
        operation
    }

    /// Compares an answer with the document: its status, its media type, its values.
    fn answered(&self, uri: &EndpointUri, mut reply: Response) -> Answer {
        let (status, place) = (reply.status().as_u16(), uri.as_str());
        let media = reply.headers().get("content-type").map(|media| media.to_str().unwrap());
        let media = media.unwrap_or_default().split(';').next().unwrap().to_owned();
        let text = self.runtime.block_on(async {
            let mut text = Vec::new();
            // A stream of all transfers has no end: one event of it is enough.
            while let Some(part) = reply.chunk().await.unwrap() {
                text.extend(part);
                if uri.endpoint == &api::FOLLOW_TRANSFERS && text.ends_with(b"\n\n") {
                    break;
                }
            }
            String::from_utf8(text).unwrap()
        });
        self.called.borrow_mut().insert(uri.endpoint.name);
        let responses = &self.operation(uri)["responses"];
        let response = responses.get(status.to_string()).unwrap_or(&responses["default"]);
        let response = match response["$ref"].as_str() {
            Some(place) => self.document.pointer(&place[1..]).unwrap(),
            None => response,
        };
        let Some(content) = response.get("content") else {
            assert!(text.is_empty(), "{place}: {status} {text}");
            return Answer { status, text };
        };
        let content = content.get(&media).unwrap_or_else(|| panic!("{place}: {status} {media}"));
        let values: Vec<&str> = match media.as_str() {
            "text/plain" | "text/csv" => vec![],
            "application/jsonl" => text.lines().collect(),
            "text/event-stream" => {
                text.lines().filter_map(|line| line.strip_prefix("data: ")).collect()
            }
            _ => vec![&text],
        };
        let schema = content.get("x-item-schema").unwrap_or(&content["schema"]);
        for value in values {
            self.validate(schema, &serde_json::from_str(value).unwrap(), place);
        }
        Answer { status, text }
    }

    /// Fails unless a value has the fields and the words that a schema names, and no others.
    fn validate(&self, schema: &Value, value: &Value, place: &str) {
        let mut whole = json!({ "allOf": [schema], "components": self.document["components"] });
        close(&mut whole);
        let validator = jsonschema::draft202012::new(&whole).unwrap();
        let errors: Vec<_> = validator
            .iter_errors(value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{place}: {errors:#?}\n{value:#}");
    }

    /// Submits a transfer from `a` to `b` that must be new; returns its id.
    fn submit(&self, number: u128, source: &str, target: &str, more: &Value) -> String {
        let id = format!("{number:032x}");
        let mut body = json!({ "id": id, "source": source, "target": target });
        let more = more.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(more);
        for status in [201, 200] {
            let answer = self.post(api::SUBMIT_TRANSFER.uri(&[]), &body);
            assert_eq!(answer.status, status, "{}", answer.text);
        }
        id
    }
}

/// Forbids what a schema leaves open for later releases.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.values_mut().for_each(close);
            if let Some(words) = fields.get("x-extensible-enum").cloned() {
                fields.insert("enum".to_owned(), words);
            }
            if fields.get("properties").is_some_and(Value::is_object) {
                fields.entry("additionalProperties").or_insert(Value::Bool(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// Transfers: their whole life, and all their documents.
fn transfers(daemon: &Api, a: &Site, b: &Site) {
    make_set(&a.store.join("set"), 1, 20, seed());
    random_file(&a.store.join("large"), 16 << 20, &mut rng("openapi"));
    fs::write(a.store.join("taken"), "theirs").unwrap();
    fs::write(b.store.join("taken"), "mine").unwrap();
    let proofs = json!({ "receipt": true, "also_digests": ["sha256"] });
    let options = json!({ "digest_list": true, "proof": proofs });
    let id = daemon.submit(1, "a:data/set/", "b:data/set", &json!({ "options": options }));
    let events = daemon.get(api::FOLLOW_TRANSFER.uri(&[&id]));
    assert!(events.text.contains("\"summary\""), "{}", events.text);
    assert_eq!(daemon.get(api::SHOW_TRANSFER.uri(&[&&id[..30]])).json()["state"], "done");
    for endpoint in [&api::GET_DIGESTS, &api::GET_RECEIPT, &api::SHOW_TRANSFER_PATHS] {
        assert_eq!(daemon.get(endpoint.uri(&[&id])).status, 200, "{endpoint:?}");
    }
    assert!(daemon.get(api::GET_FLIGHT.uri(&[&id])).text.contains("attempt-begin"));
    assert_eq!(daemon.get(api::GET_CHECKSUMS.uri(&[&id, &"sha256"])).status, 200);

    let options = json!({ "options": { "update": { "if_exists": "fail" } }, "label": "taken" });
    let id = daemon.submit(2, "a:data/taken", "b:data/taken", &options);
    daemon.get(api::FOLLOW_TRANSFER.uri(&[&id]));
    assert_eq!(daemon.get(api::GET_FAILURES.uri(&[&id])).text.lines().count(), 1);
    assert_eq!(daemon.get(api::RETRY_TRANSFER.uri(&[&id])).status, 200);

    let limits = json!({ "limits": { "rate_bits_per_s": RATE_BITS_PER_S } });
    let id = daemon.submit(3, "a:data/large", "b:data/large", &json!({ "options": limits }));
    assert!(daemon.get(api::FOLLOW_TRANSFERS.uri(&[])).text.contains("data: "));
    assert_eq!(daemon.get(api::GET_PIECES.uri(&[&id])).status, 200);
    let until = Timestamp::of_seconds(u64::from(u32::MAX)).to_string();
    let pause = || api::PAUSE_TRANSFER.uri(&[&id]);
    assert_eq!(daemon.get(pause().query("until", until)).status, 400, "a pause of decades");
    assert_eq!(daemon.get(pause()).status, 200);
    b.show_until(&id, |view| view["state"] == "paused");
    assert!(daemon.get(api::GET_PIECES.uri(&[&id])).json()["buckets"]["left"].is_array());
    assert_eq!(daemon.get(api::RESUME_TRANSFER.uri(&[&id])).status, 200);
    let faster = json!({ "rate_bits_per_s": 2 * RATE_BITS_PER_S });
    assert_eq!(daemon.post(api::LIMIT_TRANSFER.uri(&[&id]), &faster).status, 200);
    daemon.get(api::LIST_PEERS.uri(&[]));
    daemon.get(api::SHOW_TRANSFER_PATHS.uri(&[&id]));
    Wait::new("the transfer has statistics").is(|| {
        let endpoints = [&api::GET_SERIES, &api::GET_STATISTICS];
        let answers = endpoints.map(|endpoint| daemon.get(endpoint.uri(&[&id])).json());
        answers.iter().all(|answer| answer["peers"] != json!([]))
    });
    assert_eq!(daemon.get(api::GET_SERIES.uri(&[&id]).query("format", "csv")).status, 200);
    assert_eq!(daemon.get(api::CANCEL_TRANSFER.uri(&[&id])).status, 200);

    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let start = Timestamp::of_seconds(now + 3600).to_string();
    let later = json!({ "not_before": start, "priority": 70 });
    let id = daemon.submit(4, "a:data/large", "b:data/later", &later);
    assert_eq!(daemon.get(api::SHOW_QUEUE.uri(&[])).json()["transfers"][0]["id"], *id);
    let patch = json!({ "label": "later", "priority": null });
    assert_eq!(daemon.post(api::CHANGE_TRANSFER.uri(&[&id]), &patch).status, 200);
    assert_eq!(daemon.get(api::CANCEL_TRANSFER.uri(&[&id])).status, 200);
    assert_eq!(daemon.get(api::LIST_TRANSFERS.uri(&[]).query("limit", 3)).status, 200);
    assert_eq!(daemon.get(api::LIST_TRANSFERS.uri(&[]).query("cursor", "x")).status, 400);
    daemon.get(api::LIST_ORPHANS.uri(&[]));
    daemon.get(api::REMOVE_ORPHANS.uri(&[]));
}

/// The queue: its rules, deadlines, and one action on many transfers.
fn queue(daemon: &Api) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let [start, end] = [1, 3].map(|hours| Timestamp::of_seconds(now + hours * 3600).to_string());
    let held = json!({ "label": "held", "not_before": start });
    let id = daemon.submit(5, "a:data/large", "b:data/held", &held);
    let rules: [(EndpointUri, EndpointUri, Value); 5] = [
        (
            api::SET_QUEUE_LIMIT.uri(&[&"store", &"data"]),
            api::REMOVE_QUEUE_LIMIT.uri(&[&"store", &"data"]),
            json!({ "running": 1 }),
        ),
        (api::SET_SHARE.uri(&[&"anna"]), api::REMOVE_SHARE.uri(&[&"anna"]), json!({ "weight": 2 })),
        (
            api::SET_GROUP_SHARE.uri(&[&"beam"]),
            api::REMOVE_GROUP_SHARE.uri(&[&"beam"]),
            json!({ "weight": 2 }),
        ),
        (
            api::SET_WINDOW.uri(&[&"day"]),
            api::REMOVE_WINDOW.uri(&[&"day"]),
            json!({ "days": ["mon"], "from": "08:00", "to": "18:00", "zone": "Europe/Zurich",
                    "rate_bits_per_s": 1_000_000_000 }),
        ),
        (
            api::SET_PAUSE_RULE.uri(&[&"repair"]),
            api::REMOVE_PAUSE_RULE.uri(&[&"repair"]),
            json!({ "filter": { "label": "held" }, "reason": "a disk is changed" }),
        ),
    ];
    for (set, _, rule) in &rules {
        for status in [201, 200] {
            assert_eq!(daemon.post(set.clone(), rule).status, status, "{}", set.as_str());
        }
    }
    let far = json!({ "at": end, "policy": "best_effort" });
    assert_eq!(daemon.post(api::SET_DEADLINE.uri(&[&id]), &far).status, 200);
    for endpoint in [&api::REMOVE_DEADLINE, &api::SET_URGENT, &api::REMOVE_URGENT] {
        assert_eq!(daemon.get(endpoint.uri(&[&id])).status, 200, "{endpoint:?}");
    }
    assert_eq!(daemon.get(api::SHOW_QUEUE.uri(&[])).status, 200);
    let nobody = format!("{:032x}", 78);
    let action = json!({ "action": "cancel", "ids": [id, nobody] });
    assert_eq!(daemon.post(api::ACT_ON_TRANSFERS.uri(&[]), &action).status, 200);
    for (_, remove, _) in rules {
        let place = remove.as_str().to_owned();
        assert_eq!(daemon.get(remove).status, 204, "{place}");
    }
}

/// Stores and their entries, and the audit log.
fn entries(daemon: &Api) {
    for endpoint in [&api::SHOW_STORE, &api::LIST_ENTRIES] {
        assert_eq!(daemon.get(endpoint.uri(&[&"data"])).status, 200, "{endpoint:?}");
    }
    let directory = json!({ "path": "made" });
    for status in [201, 409] {
        let answer = daemon.post(api::MAKE_DIRECTORY.uri(&[&"data"]), &directory);
        assert_eq!(answer.status, status, "{}", answer.text);
    }
    assert_eq!(daemon.get(api::LIST_SITE_STORES.uri(&[&"a"])).status, 200);
    assert_eq!(daemon.get(api::LIST_SITE_ENTRIES.uri(&[&"a", &"data"])).status, 200);
    assert_eq!(daemon.get(api::SHOW_SITE_STORE_USAGE.uri(&[&"a", &"data"])).status, 200);
    let made = daemon.post(api::MAKE_SITE_DIRECTORY.uri(&[&"a", &"data"]), &directory);
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(daemon.get(api::LIST_AUDIT.uri(&[])).status, 200);
}

/// Passwords, sessions, one-time links, and programs that are let in.
fn logins(daemon: &Api) {
    assert_eq!(daemon.get(api::LIST_AUTH_METHODS.uri(&[])).status, 200);
    daemon.post(api::PUT_USER.uri(&[&"ben"]), &json!({ "role": "user" }));
    let password = json!({ "password": "correct horse battery" });
    assert_eq!(daemon.post(api::SET_PASSWORD.uri(&[&"ben"]), &password).status, 204);
    let login = json!({ "name": "ben", "password": "correct horse battery" });
    assert_eq!(daemon.post(api::LOG_IN.uri(&[]), &login).status, 201);
    let wrong = json!({ "name": "ben", "password": "wrong horse battery" });
    assert_eq!(daemon.post(api::LOG_IN.uri(&[]), &wrong).status, 401);
    let sessions = daemon.get(api::LIST_SESSIONS.uri(&[]).query("user", "ben")).json();
    let session = sessions["items"][0]["id"].as_str().unwrap();
    assert_eq!(daemon.get(api::END_SESSION.uri(&[&session])).status, 204);
    let invitation = daemon.get(api::INVITE_USER.uri(&[&"ben"]));
    assert_eq!(invitation.status, 201, "{}", invitation.text);
    let accepted = json!({ "code": invitation.json()["code"], "password": "another long word" });
    assert_eq!(daemon.post(api::ACCEPT_INVITATION.uri(&[]), &accepted).status, 201);
    let link = daemon.get(api::MAKE_SETUP_LINK.uri(&[]));
    assert_eq!(link.status, 201, "{}", link.text);
    let set_up = json!({ "code": link.json()["code"], "name": "root2",
                         "password": "yet another long word" });
    assert_eq!(daemon.post(api::SET_UP.uri(&[]), &set_up).status, 201);
    let form = |uri: EndpointUri, fields: String| {
        let reply = daemon.send(&uri, fields.into(), "application/x-www-form-urlencoded");
        daemon.answered(&uri, reply)
    };
    let begun = form(api::BEGIN_DEVICE.uri(&[]), "client_id=penstock-cli".to_owned());
    assert_eq!(begun.status, 200, "{}", begun.text);
    let (begun, grant) = (begun.json(), "urn:ietf:params:oauth:grant-type:device_code");
    let code = begun["user_code"].as_str().unwrap();
    assert_eq!(daemon.get(api::SHOW_DEVICE.uri(&[]).query("user_code", code)).status, 200);
    let ask = format!("grant_type={grant}&device_code={}", begun["device_code"].as_str().unwrap());
    assert_eq!(form(api::GET_DEVICE_TOKEN.uri(&[]), ask).status, 400);
    let decision = json!({ "user_code": code, "user": "ben" });
    assert_eq!(daemon.post(api::APPROVE_DEVICE.uri(&[]), &decision).status, 204);
    for endpoint in [&api::BEGIN_OIDC, &api::FINISH_OIDC] {
        assert_eq!(daemon.get(endpoint.uri(&[])).status, 403, "there is no provider");
    }
    assert_eq!(daemon.get(api::END_OIDC.uri(&[])).status, 303);
}

/// Plans: made, and stored for a transfer to follow.
fn plans(daemon: &Api) {
    let id = format!("{:032x}", 9);
    let options = json!({ "plan": "make" });
    let body = json!({ "id": id, "source": "a:data/set/", "target": "b:data/new",
                       "options": options });
    let plan = daemon.post(api::MAKE_PLAN.uri(&[]), &body);
    assert_eq!(plan.status, 200, "{}", plan.text);
    let uri = api::UPLOAD_PLAN.uri(&[&id]).query("store", "data").query("offset", 0);
    let reply = daemon.send(&uri, plan.text.into(), "application/octet-stream");
    assert_eq!(daemon.answered(&uri, reply).status, 204);
}

/// The site, its peers and those that it is paired with, and orders that do not fit it.
fn site(daemon: &Api) {
    for endpoint in [
        &api::LIST_SITES,
        &api::OFFER_PAIRING,
        &api::LIST_STORES,
        &api::LIST_PEERS,
        &api::SHOW_STATUS,
        &api::SHOW_HEALTH,
        &api::LIST_EVENTS,
        &api::SHOW_STATISTICS,
        &api::EXAMINE_HOST,
        &api::GET_OPENAPI,
        &api::SHOW_SETTINGS,
        &api::RELOAD_SETTINGS,
        &api::SHOW_ME,
        &api::CHECK_LIFE,
        &api::CHECK_READINESS,
        &api::GET_METRICS,
    ] {
        assert_eq!(daemon.get(endpoint.uri(&[])).status, 200, "{endpoint:?}");
    }
    for text in ["sites = 1", "site = \"a\"\npeer = \"x\"\n"] {
        let checked = daemon.post(api::CHECK_SETTINGS.uri(&[]), &json!({ "text": text }));
        assert_eq!(checked.status, 200);
    }
    for endpoint in [&api::SHOW_PATHS, &api::EXAMINE_PAIR] {
        assert_eq!(daemon.get(endpoint.uri(&[&"a"])).status, 200, "{endpoint:?}");
    }
    // A site of one peer cannot do without it.
    let peers = daemon.get(api::LIST_PEERS.uri(&[])).json();
    let peer = peers["peers"][0]["peer"].as_str().unwrap();
    assert_eq!(daemon.post(api::DRAIN_PEER.uri(&[&peer]), &json!({})).status, 409);
    let stolen = json!({ "stolen": false });
    assert!(daemon.post(api::FORGET_PEER.uri(&[&"nobody"]), &stolen).status >= 400);
    assert!(daemon.get(api::INVITE_PEER.uri(&[])).status >= 400);
    assert_eq!(daemon.post(api::PAIR.uri(&[]), &json!({ "token": "x" })).status, 400);
    assert!(daemon.post(api::TAKE_OVER.uri(&[]), &json!({ "fenced": [] })).status >= 400);
    assert!(daemon.post(api::RECOVER.uri(&[]), &json!({ "new_etcd": false })).status >= 400);
    assert!(daemon.get(api::REMOVE_HOST.uri(&[&"nobody"])).status >= 400);
    assert_eq!(daemon.get(api::ROTATE_KEYS.uri(&[])).status, 200);
    assert_eq!(daemon.get(api::UNPAIR.uri(&[&"a"])).status, 204);
}

/// Users and their tokens.
fn users(daemon: &Api) {
    let grants = json!({ "data": { "read": true } });
    let user = json!({ "role": "user", "grants": grants });
    for status in [201, 200] {
        assert_eq!(daemon.post(api::PUT_USER.uri(&[&"anna"]), &user).status, status);
    }
    let wrong = json!({ "role": "user", "grants": { "nosuch": {} } });
    daemon.post(api::PUT_USER.uri(&[&"bert"]), &wrong);
    assert_eq!(daemon.get(api::SHOW_USER.uri(&[&"anna"])).status, 200);
    assert_eq!(daemon.get(api::SHOW_USER.uri(&[&"nobody"])).status, 404);
    assert_eq!(daemon.get(api::LIST_USERS.uri(&[])).status, 200);
    let token = json!({ "user": "anna", "label": "laptop", "scopes": ["site:read"], "days": 3 });
    let token = daemon.post(api::CREATE_TOKEN.uri(&[]), &token);
    assert_eq!(token.status, 201);
    assert_eq!(daemon.get(api::LIST_TOKENS.uri(&[]).query("user", "anna")).status, 200);
    let id = token.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(daemon.get(api::REVOKE_TOKEN.uri(&[&id])).status, 204);
    assert_eq!(daemon.get(api::REMOVE_USER.uri(&[&"anna"])).status, 204);
}

/// Benchmarks of a store.
fn benchmarks(daemon: &Api) {
    let list = || daemon.get(api::LIST_BENCHMARKS.uri(&[&"data"])).json();
    let start = |request: Value| daemon.post(api::START_BENCHMARK.uri(&[&"data"]), &request);
    let sizes = json!([4096]);
    let request = json!({ "sizes": sizes, "seconds": 1, "repeats": 1, "budget_bytes": 1 << 20 });
    let started = start(request);
    assert_eq!(started.status, 201, "{}", started.text);
    Wait::new("the end of a benchmark").is(|| list()["items"][0]["state"] == "done");
    assert!(start(json!({ "budget_bytes": 1_u64 << 60 })).status >= 400);
    let id = started.json()["id"].as_str().unwrap().to_owned();
    let elsewhere = daemon.get(api::END_BENCHMARK.uri(&[&"other", &id]));
    assert_eq!(elsewhere.status, 404, "it is of another store");
    assert_eq!(daemon.get(api::END_BENCHMARK.uri(&[&"data", &id])).status, 204);
    assert!(daemon.get(api::END_BENCHMARK.uri(&[&"data", &id])).status >= 400);
    let cleanup = json!({ "path": "" });
    assert_eq!(daemon.post(api::CLEAN_BENCHMARKS.uri(&[&"data"]), &cleanup).status, 200);
}

/// Webhooks, whose deliveries fail: nothing listens.
fn webhooks(daemon: &Api) {
    let hook = json!({ "url": "https://127.0.0.1:1/hooks/", "kinds": ["transfer.done"] });
    for status in [201, 200] {
        let answer = daemon.post(api::PUT_WEBHOOK.uri(&[&"chat"]), &hook);
        assert_eq!(answer.status, status, "{}", answer.text);
    }
    let wrong = json!({ "url": "https://elsewhere.example/" });
    assert!(daemon.post(api::PUT_WEBHOOK.uri(&[&"other"]), &wrong).status >= 400);
    for endpoint in [&api::SHOW_WEBHOOK, &api::TEST_WEBHOOK, &api::ROTATE_WEBHOOK] {
        assert_eq!(daemon.get(endpoint.uri(&[&"chat"])).status, 200, "{endpoint:?}");
    }
    assert_eq!(daemon.get(api::LIST_WEBHOOKS.uri(&[])).status, 200);
    let deliveries = daemon.get(api::LIST_DELIVERIES.uri(&[&"chat"])).json();
    assert_eq!(deliveries["items"][0]["kind"], "webhook.test", "{deliveries}");
    let unknown = format!("{:032x}", 77);
    assert!(daemon.get(api::REDELIVER.uri(&[&"chat", &unknown])).status >= 400);
    assert_eq!(daemon.get(api::REMOVE_WEBHOOK.uri(&[&"chat"])).status, 204);
}

/// Promise: a program that is generated from the document understands every answer of a daemon.
/// The document has the status, the media type, all fields and all words of each endpoint's
/// answers, and allows the requests that users make.
#[test]
fn answers_are_as_the_document_says() {
    let base = Scratch::on_disk();
    let stores = ["store-a", "store-b"].map(|name| base.path().join(name));
    let mut a = Site::at_port(base.path(), "a", &stores[0]);
    let mut b = Site::at_port(base.path(), "b", &stores[1]);
    b.set_config(&format!("{}\n[webhook]\nallow = [\"https://127.0.0.1:1/hooks/\"]\n", b.config()));
    a.start();
    b.start();
    a.pair(&b);
    let daemon = Api::of(&b);
    transfers(&daemon, &a, &b);
    queue(&daemon);
    plans(&daemon);
    entries(&daemon);
    benchmarks(&daemon);
    users(&daemon);
    logins(&daemon);
    webhooks(&daemon);
    site(&daemon);
    let all = TABLE.iter().flat_map(|group| group.endpoints).map(|endpoint| endpoint.name);
    let called = daemon.called.borrow();
    let missing: Vec<_> = all.filter(|name| !called.contains(name)).collect();
    assert!(missing.is_empty(), "no answer of {missing:?} was looked at");
}

/// Promise: the answers of a site of several peers are as the document says too, those that one
/// peer hands on from the controller among them.
#[test]
fn answers_of_several_peers_are_as_the_document_says() {
    let base = Scratch::in_memory();
    let Some(etcd) = Etcd::start(base.path(), 1) else { return };
    let first = Site::first_peer(base.path(), "hpc", &etcd);
    let second = first.join(base.path(), "h2");
    let lab = second.paired_lab(base.path());
    let daemon = Api::of(&second);
    random_file(&lab.store.join("large"), 16 << 20, &mut rng("openapi"));
    let limits = json!({ "limits": { "rate_bits_per_s": RATE_BITS_PER_S } });
    let id = daemon.submit(1, "lab:data/large", "hpc:data/large", &json!({ "options": limits }));
    second.show_until(&id, |view| view["progress"]["bytes_verified"].as_u64() > Some(0));
    assert!(daemon.get(api::FOLLOW_TRANSFERS.uri(&[])).text.contains("data: "));
    for endpoint in [&api::SHOW_TRANSFER, &api::SHOW_TRANSFER_PATHS] {
        assert_eq!(daemon.get(endpoint.uri(&[&id])).status, 200, "{endpoint:?}");
    }
    let force = json!({ "force": true });
    assert_eq!(daemon.post(api::DRAIN_PEER.uri(&[&"h2"]), &force).status, 200);
    for endpoint in [
        &api::SHOW_STATUS,
        &api::SHOW_HEALTH,
        &api::LIST_PEERS,
        &api::LIST_EVENTS,
        &api::SHOW_STATISTICS,
        &api::EXAMINE_HOST,
        &api::INVITE_PEER,
    ] {
        assert_eq!(daemon.get(endpoint.uri(&[])).status, 200, "{endpoint:?}");
    }
    let undo = json!({ "undo": true });
    assert_eq!(daemon.post(api::DRAIN_PEER.uri(&[&"h2"]), &undo).status, 200);
    assert_eq!(daemon.get(api::EXAMINE_PAIR.uri(&[&"lab"])).status, 200);
    assert_eq!(daemon.get(api::CANCEL_TRANSFER.uri(&[&id])).status, 200);
}

/// Promise: the examples of the document are of its own schemas.
#[test]
fn examples_are_as_their_schemas_say() {
    let base = Scratch::in_memory();
    let mut site = Site::init(base.path(), "lab", None);
    site.start();
    let daemon = Api::of(&site);
    let mut seen = 0;
    for (path, methods) in daemon.document["paths"].as_object().unwrap() {
        for operation in methods.as_object().unwrap().values() {
            let bodies = operation["responses"].as_object().unwrap().values();
            for body in bodies.chain(operation.get("requestBody")) {
                let content = &body["content"]["application/json"];
                if let Some(example) = content.get("example") {
                    daemon.validate(&content["schema"], example, path);
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 40, "{seen}");
}
