//! Turns the tree of all layers into the typed configuration, and finds every fault on the way.
//!
//! serde stops at the first fault. So the value with the fault is removed from the tree, and the
//! rest is read again, until there is no fault. Only the types define which keys there are.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use penstock_api::rest::request_body::nearest;
use penstock_api::settings::{FaultLevel, SettingFault};
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;

use super::table::{Setting, name_of};
use super::tree::{Node, Origin, Place, SourceFile, Step, steps};

/// Faults that are listed at most; a file with more is no configuration.
pub(super) const FAULTS_MAX: usize = 100;

/// Returns a fault at a place.
pub(super) fn fault(level: FaultLevel, at: &Origin, message: impl Into<String>) -> SettingFault {
    let (place, position) = match at {
        Origin::Default => (None, None),
        Origin::Environment(name) => (Some(format!("the environment, {name}")), None),
        Origin::Flag(name) => (Some(format!("the command line, {name}")), None),
        Origin::File(place) => (Some(place.file.path.display().to_string()), Some(place)),
    };
    SettingFault {
        level,
        place,
        line: position.map(|place| place.line),
        column: position.map(|place| place.column),
        text: position.map(|place: &Place| place.text().to_owned()),
        message: message.into(),
        nearest: None,
        hint: String::new(),
    }
}

/// Reads another file in the form of the configuration. `path` is only named in faults; `check`
/// returns the faults that the types do not show, each with its key, as `datasets[2]`.
///
/// # Errors
/// All its faults, each with its place.
pub fn read_document<T: DeserializeOwned>(
    path: &Path,
    text: &str,
    check: impl FnOnce(&T) -> Vec<(String, String)>,
) -> Result<T, Vec<SettingFault>> {
    let file = Arc::new(SourceFile { path: path.to_owned(), text: text.to_owned() });
    let mut faults = Vec::new();
    let mut tree = Node::parse(&file).map_err(|found| {
        let fault = |(span, message): (Range<usize>, String)| {
            let at = Origin::File(Place::of(&file, span.start));
            fault(FaultLevel::Error, &at, message.trim_end())
        };
        found.into_iter().map(fault).collect::<Vec<_>>()
    })?;
    let document = read(&mut tree, &[], &mut faults);
    let wrong = document.as_ref().filter(|_| faults.is_empty()).map(check).unwrap_or_default();
    faults.extend(wrong.into_iter().map(|(key, message)| {
        fault(FaultLevel::Error, &tree.nearest(&steps(&key)).origin, message)
    }));
    document.filter(|_| faults.is_empty()).ok_or(faults)
}

/// Reads a tree, and removes the unreadable values from it. Returns nothing if too much is wrong.
/// `settings` are the keys to which a misplaced one may belong.
pub(super) fn read<T: DeserializeOwned>(
    tree: &mut Node,
    settings: &[Setting],
    faults: &mut Vec<SettingFault>,
) -> Option<T> {
    let mut removed: Vec<Vec<Step>> = Vec::new();
    while faults.len() < FAULTS_MAX {
        let error = match serde_path_to_error::deserialize(tree.to_value()) {
            Ok(read) => return Some(read),
            Err(error) => error,
        };
        let step = |segment: &Segment| match segment {
            Segment::Seq { index } => Some(Step::At(*index)),
            Segment::Map { key } => Some(Step::Key(key.clone())),
            Segment::Enum { .. } | Segment::Unknown => None,
        };
        let path: Vec<Step> = error.path().iter().filter_map(step).collect();
        let written = tree.as_written(&path);
        let inner: toml::de::Error = error.into_inner();
        let missing = quoted(inner.message(), "missing field ");
        let field = missing.map(|key| [written.clone(), vec![Step::Key(key.to_owned())]].concat());
        // Its fault is listed already, and is not that it is missing.
        if field.is_none_or(|field| !removed.contains(&field)) {
            let node = tree.nearest(&path);
            let message = inner.message().trim_end();
            faults.push(unreadable(node, &name_of(&written), message, settings));
        }
        match (path.is_empty(), missing) {
            // The two names that a configuration must have; any text is one until it is there.
            (true, Some(key)) => tree.set(key, "missing".into(), &Origin::Default),
            (true, None) => return None,
            (false, _) => {
                if !tree.remove(&path) {
                    return None;
                }
                removed.push(written);
            }
        }
    }
    None
}

/// Returns the fault of a value that serde has rejected, of that name.
fn unreadable(node: &Node, name: &str, message: &str, settings: &[Setting]) -> SettingFault {
    let error = |at: &Origin, message: String| fault(FaultLevel::Error, at, message);
    if let Some(key) = quoted(message, "unknown field ") {
        let known: Vec<&str> = message.split('`').skip(3).step_by(2).collect();
        let mut fault = error(&node.key, format!("unknown key `{key}`"));
        fault.nearest = nearest(key, known.iter().copied()).map(str::to_owned);
        if fault.nearest.is_none() {
            fault.hint = elsewhere(key, &known, settings);
        }
        return fault;
    }
    if let Some(key) = quoted(message, "missing field ") {
        let within = if name.is_empty() { String::new() } else { format!(" in `{name}`") };
        return error(&node.key, format!("the key `{key}` is missing{within}"));
    }
    error(&node.origin, format!("`{name}`: {message}"))
}

/// Returns the first word in back-quotes of a message that begins with a text.
fn quoted<'a>(message: &'a str, begin: &str) -> Option<&'a str> {
    message.strip_prefix(begin)?.strip_prefix('`')?.split('`').next()
}

/// Says where a key belongs that another table has, or else which keys there are.
fn elsewhere(key: &str, known: &[&str], settings: &[Setting]) -> String {
    let last = |setting: &&Setting| setting.key.rsplit('.').next() == Some(key);
    match settings.iter().find(last) {
        Some(setting) => match setting.key.rsplit_once('.') {
            Some(("accounts[]", _)) => {
                format!("`{key}` belongs in the table `[accounts.SITE]` of a paired site")
            }
            Some((table, _)) if table.ends_with("[]") => {
                format!("`{key}` belongs in the table `[[{}]]`", table.trim_end_matches("[]"))
            }
            Some((table, _)) => format!("`{key}` belongs in the table `[{table}]`"),
            None => format!("`{key}` belongs above the first table"),
        },
        None => format!("known keys: {}", known.join(", ")),
    }
}
