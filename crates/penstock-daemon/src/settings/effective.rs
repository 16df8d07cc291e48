//! The settings in force, each with the layer that sets it.

use std::path::PathBuf;

use penstock_api::settings::{SettingView, SettingsView};
use serde_json::Value;

use super::layers::Loaded;
use super::table::{SETTINGS, Setting};
use super::tree::{Origin, Step, steps};

/// Elements of a list that are looked through.
const LIST_MAX: usize = 1024;
/// The value shown instead of a secret.
const SECRET: &str = "set";

impl Loaded {
    /// Returns the settings as the API shows them: all, or only those that a layer sets.
    pub fn view(&self, only_set: bool) -> SettingsView {
        let values = toml::Value::try_from(&self.config);
        let values = values.unwrap_or_else(|_| toml::Value::Table(toml::Table::new()));
        let mut settings = Vec::new();
        let mut listed = Vec::new();
        for setting in SETTINGS {
            match setting.key.split_once("[].") {
                Some((list, _)) if listed.contains(&list) => {}
                Some((list, _)) => {
                    listed.push(list);
                    self.elements(list, &values, &mut settings);
                }
                None => settings.extend(self.one(setting, setting.key, setting.key, &values)),
            }
        }
        if only_set {
            settings.retain(|view| view.source != Origin::Default.source());
        }
        let files = self.files.iter().map(|path| path.display().to_string()).collect();
        SettingsView { files, settings, kept: Vec::new() }
    }

    /// Adds the settings of all tables of a list, or of a table of tables.
    fn elements(&self, list: &str, values: &toml::Value, settings: &mut Vec<SettingView>) {
        let named = values.get(list).and_then(toml::Value::as_table);
        for name in named.into_iter().flat_map(toml::Table::keys) {
            let (at, shown) = (format!("{list}.{name}"), format!("{list}[{name}]"));
            self.element(list, (&at, &shown), values, settings);
        }
        let elements = values.get(list).and_then(toml::Value::as_array);
        for (at, element) in elements.into_iter().flatten().enumerate() {
            let name = element.get("name").and_then(toml::Value::as_str).unwrap_or_default();
            // After a reload that did not take all, the list may differ from that of the files.
            let is_it = |at: usize| {
                let written = self.tree.nearest(&steps(&format!("{list}[{at}].name"))).to_value();
                written.as_str() == Some(name)
            };
            let at = std::iter::once(at).chain(0..LIST_MAX).find(|at| is_it(*at)).unwrap_or(at);
            let (at, shown) = (format!("{list}[{at}]"), format!("{list}[{name}]"));
            self.element(list, (&at, &shown), values, settings);
        }
    }

    /// Adds the settings of one of these tables.
    fn element(
        &self,
        list: &str,
        (at, shown): (&str, &str),
        values: &toml::Value,
        settings: &mut Vec<SettingView>,
    ) {
        for setting in SETTINGS {
            let Some(rest) = setting.key.strip_prefix(&format!("{list}[].")) else { continue };
            let (at, shown) = (format!("{at}.{rest}"), format!("{shown}.{rest}"));
            settings.extend(self.one(setting, &at, &shown, values));
        }
    }

    /// Returns a setting; none where the table that holds it is not there.
    fn one(
        &self,
        setting: &Setting,
        key: &str,
        shown: &str,
        values: &toml::Value,
    ) -> Option<SettingView> {
        let origin = self.tree.origin_of(&steps(key));
        let table = key.rsplit_once('.').map(|(table, _)| table);
        if let Some(table) = table {
            value_at(values, table)?;
        }
        let value = match value_at(values, key) {
            _ if setting.is_secret() && origin != Origin::Default => Value::from(SECRET),
            Some(value) => serde_json::to_value(value).ok()?,
            None => Value::from(setting.default),
        };
        let taken_by = setting.taken_by;
        Some(SettingView { key: shown.to_owned(), value, source: origin.source(), taken_by })
    }

    /// Returns the file that sets the list of stores, if one does: there rights are granted.
    pub fn stores_file(&self) -> Option<PathBuf> {
        match self.tree.origin_of(&steps("store[0]")) {
            Origin::File(place) => Some(place.file.path.clone()),
            _ => None,
        }
    }
}

/// Returns the value of a key, as `store[1].path`.
pub(super) fn value_at<'a>(values: &'a toml::Value, key: &str) -> Option<&'a toml::Value> {
    steps(key).iter().try_fold(values, |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::At(at) => value.get(*at),
    })
}
