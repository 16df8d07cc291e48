//! Facts of the site: its state, peers, stores, queue, settings, events and figures.

use std::path::Path;

use penstock_api::endpoints::{
    EXAMINE_HOST, EndpointUri, GET_METRICS, LIST_EVENTS, LIST_PEERS, LIST_SITES, LIST_STORES,
    LIST_WEBHOOKS, SHOW_HEALTH, SHOW_QUEUE, SHOW_SETTINGS, SHOW_STATUS,
};
use penstock_api::settings::{SettingFault, SettingsView};
use penstock_daemon::settings::Layers;
use penstock_exit::{self as exit, ExitCode};
use serde_json::Value;

use super::collected::Collected;
use crate::client::Client;
use crate::commands::support::doctor;

/// Events that are taken, the last ones.
const EVENTS_TAKEN: usize = 1000;
/// Files of events in a site directory, oldest first.
const EVENT_FILES: [&str; 2] = ["events.1.jsonl", "events.jsonl"];

/// The answers of a daemon; one that does not answer once is not asked again.
pub(super) struct Answers<'a> {
    client: Option<&'a Client>,
    /// The reason why no daemon answers.
    why: String,
}

impl<'a> Answers<'a> {
    /// Returns the answers of the daemon of a client, if there is one.
    pub(super) fn of(client: Result<&'a Client, &anyhow::Error>) -> Self {
        match client {
            Ok(client) => Self { client: Some(client), why: String::new() },
            Err(error) => Self { client: None, why: format!("{error:#}") },
        }
    }

    /// Returns the client, if the daemon has answered so far.
    pub(super) fn client(&self) -> Option<&'a Client> {
        self.client
    }

    /// GETs a text.
    ///
    /// # Errors
    /// The reason why it cannot be had, in words.
    pub(super) fn text(&mut self, uri: &EndpointUri) -> Result<String, String> {
        let Some(client) = self.client else { return Err(self.why.clone()) };
        let mut bytes = Vec::new();
        match client.get_into(uri, &mut bytes) {
            Ok(()) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => {
                let why = format!("{error:#}");
                if exit::code_of(&error) == ExitCode::Temporary {
                    (self.client, self.why) = (None, why.clone());
                }
                Err(why)
            }
        }
    }

    /// GETs a JSON object, printed for people.
    ///
    /// # Errors
    /// As [`Answers::text`].
    pub(super) fn json(&mut self, uri: &EndpointUri) -> Result<Value, String> {
        let text = self.text(uri)?;
        serde_json::from_str(&text).map_err(|error| format!("the answer is no JSON: {error}"))
    }
}

/// Returns JSON as a file has it.
pub(super) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// Adds the facts of the site.
pub(super) fn add(collected: &mut Collected, answers: &mut Answers<'_>, directory: &Path) {
    let release = env!("CARGO_PKG_VERSION");
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    let place = answers.client().map(Client::place).unwrap_or_default();
    let text = format!("penstock {release}, {build}, {os} {arch}\ndaemon asked: {place}\n");
    collected.add("version.txt", "release of this command, and the daemon that was asked", text);
    let objects: [(&str, &'static str, EndpointUri); 5] = [
        ("status.json", "the daemon and its site in short", SHOW_STATUS.uri(&[])),
        ("health.json", "what is not well at the site", SHOW_HEALTH.uri(&[])),
        ("peers.json", "peers, their work, stores and clocks", LIST_PEERS.uri(&[])),
        ("stores.json", "stores of this peer", LIST_STORES.uri(&[])),
        ("sites.json", "paired sites", LIST_SITES.uri(&[])),
    ];
    for (name, about, uri) in objects {
        match answers.json(&uri) {
            Ok(value) => collected.add(name, about, pretty(&value)),
            Err(why) => collected.lack(name, why),
        }
    }
    match answers.json(&SHOW_QUEUE.uri(&[])) {
        Ok(value) => {
            collected.add_items("queue.json", "transfers that wait, limits, rules", pretty(&value));
        }
        Err(why) => collected.lack("queue.json", why),
    }
    match answers.json(&LIST_WEBHOOKS.uri(&[])) {
        Ok(value) => {
            collected.add("webhooks.json", "webhooks without their addresses", pretty(&value))
        }
        Err(why) => collected.lack("webhooks.json", why),
    }
    match answers.text(&GET_METRICS.uri(&[])) {
        Ok(text) => collected.add("metrics.txt", "figures of this peer, for Prometheus", text),
        Err(why) => collected.lack("metrics.txt", why),
    }
    add_settings(collected, answers, directory);
    add_findings(collected, answers, directory);
    add_events(collected, answers, directory);
}

fn add_settings(collected: &mut Collected, answers: &mut Answers<'_>, directory: &Path) {
    let (name, layers) = ("settings.json", Layers::of(directory));
    let told = answers.text(&SHOW_SETTINGS.uri(&[]));
    let told = told.ok().and_then(|text| serde_json::from_str::<SettingsView>(&text).ok());
    let view = told.map_or_else(|| layers.load().map(|loaded| loaded.view(false)), Ok);
    match view {
        Ok(mut view) => {
            view.settings.iter_mut().for_each(|setting| {
                // Arguments of programs may be secrets.
                if setting.key.ends_with("command")
                    && let Value::Array(words) = &mut setting.value
                {
                    words.truncate(1);
                }
            });
            let about = "settings in force, each with the layer that sets it";
            let value = serde_json::to_value(&view).unwrap_or_default();
            collected.add(name, about, pretty(&value));
        }
        Err(error) => collected.lack(name, penstock_exit::Failure::from(error)),
    }
    let faults = layers.examine(layers.load());
    let count = faults.len();
    let lines: String = faults.into_iter().map(|it| format!("{}\n", without_values(it))).collect();
    let text = format!("{lines}{count} faults\n");
    collected.add("config-check.txt", "faults of the files, as `penstock config check`", text);
}

/// Returns a fault without the line of the file and the value in its message: either may be a
/// secret.
fn without_values(mut fault: SettingFault) -> SettingFault {
    fault.text = None;
    if let (Some(place), Some(line)) = (&mut fault.place, fault.line) {
        *place += &format!(":{line}");
    }
    let named = fault.message.strip_prefix('`').and_then(|message| message.split_once("`: "));
    let Some((name, told)) = named else { return fault };
    // serde ends its messages with what it expects.
    let told_end = told.rfind(", expected ").unwrap_or(told.len());
    let (value, expected) = told.split_at(told_end);
    if let (Some(begin), Some(end)) = (value.find(['"', '`']), value.rfind(['"', '`'])) {
        let (before, after) = (&value[..begin], &value[end + 1..]);
        fault.message = format!("`{name}`: {before}[removed]{after}{expected}");
    }
    fault
}

fn add_findings(collected: &mut Collected, answers: &mut Answers<'_>, directory: &Path) {
    let told = answers.json(&EXAMINE_HOST.uri(&[]));
    let findings = match told {
        Ok(value) => value.get("items").cloned().unwrap_or_default(),
        Err(why) => {
            let findings = doctor::without_daemon(directory, &anyhow::anyhow!(why));
            serde_json::to_value(findings).unwrap_or_default()
        }
    };
    collected.add("doctor.json", "what `penstock doctor` finds of this host", pretty(&findings));
}

fn add_events(collected: &mut Collected, answers: &mut Answers<'_>, directory: &Path) {
    let (name, about) = ("events.jsonl", "last events of the site");
    let uri = LIST_EVENTS.uri(&[]).query("limit", EVENTS_TAKEN);
    if let Ok(value) = answers.json(&uri) {
        let items = value.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        let text = items.iter().map(|item| format!("{item}\n")).collect();
        return collected.add_items(name, about, text);
    }
    let texts = EVENT_FILES.map(|name| std::fs::read_to_string(directory.join(name)));
    let text = texts.into_iter().flatten().collect::<String>();
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(EVENTS_TAKEN)..];
    match last.is_empty() {
        true => collected.lack(name, "no daemon answers, and the site directory has none"),
        false => collected.add_items(name, about, last.join("\n") + "\n"),
    }
}
