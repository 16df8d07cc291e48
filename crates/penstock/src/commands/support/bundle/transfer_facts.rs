//! Facts of transfers: reports, the last decisions about each, and what they mean.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use penstock_api::endpoints::{
    GET_FLIGHT, LIST_EVENTS, LIST_TRANSFERS, SHOW_TRANSFER, SHOW_TRANSFER_PATHS,
};
use penstock_daemon::settings::Layers;
use serde_json::Value;

use super::collected::Collected;
use super::site_facts::{Answers, pretty};
use crate::commands::transfer::explain;

/// Transfers that are listed, the last ones.
const LISTED: usize = 100;
/// Transfers that are taken whole if none is named.
const TAKEN: usize = 20;
/// States of transfers that are taken whole if none is named.
const NEED_HELP: &str = "queued,running,paused,failed";
/// Events of one transfer that are taken.
const EVENTS_TAKEN: usize = 200;

/// Adds the facts of transfers: of those that are named, else of the last ones that run, wait or
/// have failed.
pub(super) fn add(
    collected: &mut Collected,
    answers: &mut Answers<'_>,
    (directory, named): (&Path, &[String]),
) {
    let listed = match answers.json(&LIST_TRANSFERS.uri(&[]).query("limit", LISTED)) {
        Ok(value) => value.get("items").and_then(Value::as_array).cloned().unwrap_or_default(),
        Err(why) => {
            collected.lack("transfers.jsonl", why);
            return add_recorded(collected, directory, named);
        }
    };
    let text = listed.iter().map(|item| format!("{item}\n")).collect();
    collected.add_items("transfers.jsonl", "the last transfers, newest first", text);
    let chosen = match named {
        [] => need_help(answers),
        named => Ok(named.to_vec()),
    };
    match chosen {
        Ok(chosen) => chosen.iter().for_each(|id| add_one(collected, answers, id)),
        Err(why) => collected.lack("transfers/", why),
    }
}

/// Returns the last transfers that run, wait or have failed, however many others there are.
fn need_help(answers: &mut Answers<'_>) -> Result<Vec<String>, String> {
    let uri = LIST_TRANSFERS.uri(&[]).query("limit", TAKEN).query("state", NEED_HELP);
    let value = answers.json(&uri)?;
    let items = value.get("items").and_then(Value::as_array).into_iter().flatten();
    Ok(items.filter_map(|item| Some(item.get("id")?.as_str()?.to_owned())).collect())
}

fn add_one(collected: &mut Collected, answers: &mut Answers<'_>, id: &str) {
    let view = match answers.json(&SHOW_TRANSFER.uri(&[&id])) {
        Ok(view) => view,
        Err(why) => return collected.lack(format!("transfers/{id}.json"), why),
    };
    let id = view.get("id").and_then(Value::as_str).unwrap_or(id).to_owned();
    let name = |what: &str| format!("transfers/{id}.{what}");
    if collected.files.iter().any(|file| file.name == name("json")) {
        // It was named twice.
        return;
    }
    collected.add_items(name("json"), "the transfer", pretty(&view));
    match answers.text(&GET_FLIGHT.uri(&[&id])) {
        Ok(text) => collected.add_items(name("flight.jsonl"), "last decisions about it", text),
        Err(why) => collected.lack(name("flight.jsonl"), why),
    }
    let uri = LIST_EVENTS.uri(&[]).query("limit", EVENTS_TAKEN).query("transfer", &id);
    match answers.json(&uri) {
        Ok(value) => collected.add_items(name("events.json"), "its events", pretty(&value)),
        Err(why) => collected.lack(name("events.json"), why),
    }
    let owner = view.pointer("/target/site").and_then(Value::as_str).unwrap_or_default();
    let runs = view.get("state").and_then(Value::as_str) == Some("running");
    let uri = SHOW_TRANSFER_PATHS.uri(&[&id]).query("owner", owner);
    if let Some(paths) = runs.then(|| answers.json(&uri).ok()).flatten() {
        collected.add_items(name("paths.json"), "its peers and their paths", pretty(&paths));
    }
    if let Some(explained) = answers.client().map(|client| explain::text_of(client, &id)) {
        match explained {
            Ok(text) => {
                collected.add_items(name("explain.txt"), "what is held to explain it", text)
            }
            Err(error) => collected.lack(name("explain.txt"), format!("{error:#}")),
        }
    }
}

/// Adds the last decisions from the journal, where no daemon answers.
fn add_recorded(collected: &mut Collected, directory: &Path, named: &[String]) {
    let flights = flights_of(directory);
    let entries = std::fs::read_dir(&flights).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .filter(|path| {
            let id = path.file_stem().unwrap_or_default().to_string_lossy();
            named.is_empty() || named.iter().any(|named| id.starts_with(named.as_str()))
        })
        .collect();
    let changed = |path: &PathBuf| {
        let modified = std::fs::metadata(path).and_then(|found| found.modified());
        modified.unwrap_or(SystemTime::UNIX_EPOCH)
    };
    files.sort_by_key(|path| std::cmp::Reverse(changed(path)));
    for path in files.iter().take(TAKEN) {
        let id = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("transfers/{id}.flight.jsonl");
        match std::fs::read_to_string(path) {
            Ok(text) => collected.add_items(name, "last decisions about it", text),
            Err(error) => collected.lack(name, error),
        }
    }
    if files.is_empty() {
        collected.lack("transfers/", format!("`{}` has no decisions", flights.display()));
    }
}

/// Returns the directory of the last decisions of a site, as its configuration has it.
fn flights_of(directory: &Path) -> PathBuf {
    let loaded = Layers::of(directory).load().ok();
    let cluster = loaded.and_then(|loaded| loaded.config.cluster);
    match cluster {
        Some(cluster) => directory.join(cluster.journal).join("flights"),
        None => directory.join("flights"),
    }
}
