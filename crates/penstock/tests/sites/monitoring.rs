//! The dashboard, the rules and the example of a configuration in `monitoring/`, on a real
//! Prometheus that has scraped sites at work.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use penstock_net::trust::web_client_config;
use penstock_testkit::{Site, Wait, free_port, make_set, print_tail, seed, tool};
use reqwest::{Client, Url};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::metrics::World;

/// Width of a dashboard, in columns.
const COLUMNS: u64 = 24;
/// Range of a rate, some scrapes long; Grafana chooses it by the interval of scrapes.
const RATE_INTERVAL: &str = "15s";

/// Returns the path of a file of this repository.
fn repository(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name).canonicalize().unwrap()
}

fn read(name: &str) -> String {
    fs::read_to_string(repository(name)).unwrap()
}

fn dashboard() -> Value {
    serde_json::from_str(&read("monitoring/grafana/penstock.json")).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A Prometheus with its data below a directory.
struct Prometheus {
    child: Child,
    log: PathBuf,
    url: String,
    client: Client,
    runtime: Runtime,
}

impl Prometheus {
    /// Starts one with this configuration; `None`, which it prints, where it is not installed.
    fn start(directory: &Path, config: &str) -> Option<Self> {
        let file = directory.join("prometheus.yml");
        fs::write(&file, config).unwrap();
        let log = directory.join("prometheus.log");
        let port = format!("127.0.0.1:{}", free_port());
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", directory.join("tsdb").display()))
            .arg(format!("--web.listen-address={port}"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn();
        let Ok(child) = child else {
            println!("SKIPPED: there is no prometheus; scripts/setup.sh installs it");
            return None;
        };
        // It needs no TLS; a client cannot be built without it.
        let tls = Arc::unwrap_or_clone(web_client_config(None, None).unwrap());
        let client = Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap();
        let runtime = Runtime::new().unwrap();
        Some(Self { child, log, url: format!("http://{port}/api/v1"), client, runtime })
    }

    /// Returns the data of an answer, or the error that it is.
    fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, String> {
        let url = Url::parse_with_params(&format!("{}/{path}", self.url), query).unwrap();
        let call = self.client.get(url);
        let answer = self.runtime.block_on(async { call.send().await?.json::<Value>().await });
        let mut answer = answer.map_err(|error| error.to_string())?;
        match text(&answer["status"]) {
            "success" => Ok(answer["data"].take()),
            _ => Err(answer.to_string()),
        }
    }

    /// Returns the series that a query has now.
    fn ask(&self, query: &str) -> Result<Vec<Value>, String> {
        let data = self.get("query", &[("query", query)])?;
        Ok(data["result"].as_array().cloned().unwrap_or_default())
    }

    /// Waits until a query has an answer; an error is none.
    fn answers(&self, query: &str) -> Vec<Value> {
        Wait::new(format!("an answer to {query}")).until(|| {
            let found = self.ask(query)?;
            if found.is_empty() { Err("it is empty".to_owned()) } else { Ok(found) }
        })
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            print_tail(&self.log, 20);
        }
    }
}

/// Has a running peer serve the API over HTTPS too; returns its address.
fn serve(site: &Site) -> String {
    site.set_config(&format!("{}\n[web]\nlisten = [\"127.0.0.1:0\"]\n", site.config()));
    site.ok(&["config", "reload"]);
    site.until_log("the API is served over HTTPS");
    let log = site.log_text();
    let line = log.lines().find(|line| line.contains("served over HTTPS")).unwrap();
    line.rsplit("address=").next().unwrap().trim().to_owned()
}

/// Returns the job of the example for a site: its peers at these addresses, its authority, and a
/// token that may read metrics and nothing else.
fn job(example: &str, site: &Site, root: &Path, addresses: &[String]) -> String {
    let name = site.name;
    let (token, ca) = (root.join(format!("{name}.token")), root.join(format!("{name}.pem")));
    site.ok(&["user", "set", "prometheus", "--role", "viewer"]);
    let create = ["token", "create", "--user", "prometheus", "--scope", "metrics:read"];
    fs::write(&token, site.ok(&create)).unwrap();
    fs::write(&ca, site.ok(&["site", "ca"])).unwrap();
    let changes = [
        ("job_name: penstock", format!("job_name: penstock-{name}")),
        ("/etc/prometheus/penstock.token", token.display().to_string()),
        ("/etc/prometheus/penstock-ca.pem", ca.display().to_string()),
        (r#"["dtn1.example.org:7443", "dtn2.example.org:7443"]"#, format!("{addresses:?}")),
    ];
    changes.into_iter().fold(example.to_owned(), |job, (from, to)| {
        assert!(job.contains(from), "no `{from}` in {job}");
        job.replace(from, &to)
    })
}

/// Starts a Prometheus as the example has it, for both sites, which scrapes each second.
fn watch(world: &World) -> Option<Prometheus> {
    let example = read("monitoring/prometheus/scrape.yml");
    let rules = repository("monitoring/prometheus/rules.yml");
    let example = example.replace("15s", "1s");
    let example =
        example.replace("/etc/prometheus/penstock-rules.yml", &rules.display().to_string());
    let (head, one) = example.split_once("  - job_name").unwrap();
    let one = format!("  - job_name{one}");
    let root = world.root.path();
    let hpc = job(&one, &world.h1, root, &[serve(&world.h1), serve(&world.h2)]);
    let lab = job(&one, &world.lab, root, &[serve(&world.lab)]);
    Prometheus::start(root, &format!("{head}{hpc}{lab}"))
}

/// Gives the sites work of all kinds: a transfer that is done, one with a failed item, one that
/// waits for its time, one whose source is offline, and one that runs for minutes.
fn work(world: &World) {
    let lab = &world.lab;
    make_set(&lab.store.join("set"), 4, 100, seed());
    make_set(&lab.store.join("slow"), 24, 0, seed());
    let gone = world.root.path().join("gone");
    let store = format!("\n[[store]]\nname = \"gone\"\npath = \"{}\"\n", gone.display());
    lab.set_config(&(lab.config() + &store));
    lab.ok(&["config", "reload"]);
    let at = &world.h2;
    at.wait_done(&at.submit(&["lab:data/set/", "hpc:data/done"]));
    let taken = at.submit(&["lab:data/set/", "hpc:data/done", "--if-exists", "fail"]);
    assert_eq!(at.wait(&taken)["state"], "failed");
    at.submit(&["lab:data/set/", "hpc:data/later", "--not-before", "1h"]);
    at.submit(&["lab:gone/set/", "hpc:data/offline"]);
    at.submit(&["lab:data/slow/", "hpc:data/slow", "--bwlimit", "64KiB/s"]);
}

/// Returns a query of the dashboard with all of its variables replaced.
fn replaced(query: &str) -> String {
    let query = query.replace("$__rate_interval", RATE_INTERVAL);
    let query = query.replace("$instance", ".+").replace("$site", ".+");
    assert!(!query.contains('$'), "a variable that is not known: {query}");
    query
}

/// Promise (E13): each query of the dashboard and of its variables has an answer at sites at work,
/// and so has each rule, but for its comparisons; Prometheus evaluates all rules without an error.
/// The example of a configuration is what it takes, with a token that may read metrics alone.
#[test]
fn the_dashboard_and_the_rules_have_answers() {
    let Some(world) = World::new() else { return };
    let Some(prometheus) = watch(&world) else { return };
    work(&world);
    prometheus.answers("sum(penstock_retries_total) > 0");
    prometheus.answers(r#"penstock_transfers{state="running"} > 0"#);
    let has_card = !prometheus.ask("penstock_nic_bytes_total > 0").unwrap().is_empty();
    let dashboard = dashboard();
    let mut queries = 0;
    for target in list(&dashboard["panels"]).iter().flat_map(|panel| list(&panel["targets"])) {
        let query = replaced(text(&target["expr"]));
        // The only one that a host need not have: a network card.
        if has_card || !query.contains("penstock_nic_bytes_total") {
            prometheus.answers(&query);
        }
        queries += 1;
    }
    for variable in list(&dashboard["templating"]["list"]) {
        let query = text(&variable["query"]);
        let Some(values) = query.strip_prefix("label_values(") else { continue };
        let (metric, label) = values.trim_end_matches(')').rsplit_once(", ").unwrap();
        let found = prometheus.answers(&replaced(metric));
        assert!(found.iter().all(|series| series["metric"][label].is_string()), "{values}");
    }
    let alerts = Wait::new("all rules are evaluated").until(|| {
        let groups = prometheus.get("rules", &[])?["groups"].take();
        let rules: Vec<_> =
            list(&groups).iter().flat_map(|it| list(&it["rules"])).cloned().collect();
        let sick = rules.iter().find(|rule| rule["health"] != "ok");
        sick.map_or(Ok(rules.clone()), |rule| Err(rule.to_string()))
    });
    for rule in &alerts {
        // `absent` is empty while what it misses is there; and no attempt stalls here, so that code
        // has no series.
        if ["PenstockNotScraped", "PenstockTransferStalled"].iter().any(|it| rule["name"] == *it) {
            continue;
        }
        // With `bool` a comparison tells 0 from 1 instead of leaving series out.
        let query =
            [" == ", " < ", " > "].iter().fold(text(&rule["query"]).to_owned(), |it, is| {
                it.replace(is, &format!(" {} bool ", is.trim()))
            });
        prometheus.answers(&query);
    }
    println!("{queries} queries of the dashboard, {} rules", alerts.len());
    assert!(queries > 50 && alerts.len() > 30);
    are_documented(&alerts);
}

/// Checks that each alert says how grave it is, what it means and where to read what to do, and
/// that the unit tests have it.
fn are_documented(rules: &[Value]) {
    let (guide, tests) = (read("docs/monitoring.md"), read("monitoring/prometheus/rules.test.yml"));
    for rule in rules.iter().filter(|rule| rule["type"] == "alerting") {
        let (name, notes) = (text(&rule["name"]), &rule["annotations"]);
        let severity = text(&rule["labels"]["severity"]);
        assert!(["critical", "warning", "info"].contains(&severity), "{rule}");
        assert!(!text(&notes["summary"]).is_empty() && !text(&notes["description"]).is_empty());
        let anchor = format!("/docs/monitoring.md#{}", name.to_lowercase());
        assert!(text(&notes["runbook_url"]).ends_with(&anchor), "{rule}");
        assert!(guide.contains(&format!("\n### {name}\n")), "{name} is not in the guide");
        assert!(tests.contains(&format!("\"{name}\"")), "{name} has no unit test");
    }
}

/// Promise: each alert fires for what is ill, after its time, and for nothing beside it.
#[test]
fn alerts_fire_for_what_is_ill() {
    if Command::new("promtool").arg("--version").output().is_err() {
        println!("SKIPPED: promtool is not installed (Debian: prometheus)");
        return;
    }
    tool("promtool", &[&"check", &"rules", &repository("monitoring/prometheus/rules.yml")]);
    tool("promtool", &[&"test", &"rules", &repository("monitoring/prometheus/rules.test.yml")]);
}

/// Promise: the dashboard is as Grafana 10 to 12 take it: a faulty one is shown without a word, or
/// not at all. Each panel says what it shows and what to do, and no two lie over each other.
#[test]
fn the_dashboard_is_well_formed() {
    let dashboard = dashboard();
    assert_eq!(dashboard["uid"], "penstock");
    assert_eq!(dashboard["schemaVersion"], 38);
    let panels = list(&dashboard["panels"]);
    let mut ids = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for panel in panels {
        let (title, kind, at) = (text(&panel["title"]), text(&panel["type"]), &panel["gridPos"]);
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id is taken");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| at[key].as_u64().unwrap());
        assert!(x + w <= COLUMNS && w > 0 && h > 0, "{title}: {at}");
        for place in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(taken.insert(place), "{title} lies over another panel at {place:?}");
        }
        if kind == "row" {
            continue;
        }
        let kinds = ["stat", "timeseries", "table", "bargauge", "state-timeline"];
        assert!(kinds.contains(&kind), "{title}: {kind}");
        assert!(text(&panel["description"]).ends_with('.'), "{title} does not say what it shows");
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title} has no unit");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        let targets = list(&panel["targets"]);
        let names: BTreeSet<_> = targets.iter().map(|target| text(&target["refId"])).collect();
        assert!(!names.is_empty() && names.len() == targets.len(), "{title}: {names:?}");
        for target in targets {
            assert_eq!(target["datasource"], panel["datasource"], "{title}");
            replaced(text(&target["expr"]));
        }
    }
    let variables = list(&dashboard["templating"]["list"]);
    let names: Vec<_> = variables.iter().map(|variable| text(&variable["name"])).collect();
    assert_eq!(names, ["datasource", "site", "instance"]);
}
