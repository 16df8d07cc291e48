//! The file as it would be: its text, its difference to the one that is there, its faults.

use std::path::Path;

use penstock_api::settings::{FaultLevel, SettingFault};
use penstock_daemon::config::Config;
use penstock_daemon::settings::Layers;
use penstock_exit::Failure;
use similar::TextDiff;

use super::document;
use super::questions::Answers;

/// The file as it would be for some answers.
pub(super) struct Draft {
    pub(super) text: String,
    /// The text compared with the file that is there, as `diff -u` shows it; empty if they are one.
    pub(super) difference: String,
    pub(super) config: Config,
    /// Faults of the configuration with this text.
    pub(super) faults: Vec<SettingFault>,
}

impl Draft {
    /// Returns the draft for some answers; `old` is the text of the file, if there is one.
    ///
    /// # Errors
    /// The file is no TOML, says something in a way that the wizard does not change, or the text
    /// cannot be read as a configuration.
    pub(super) fn of(
        layers: &Layers,
        path: &Path,
        old: Option<&str>,
        answers: &Answers,
    ) -> Result<Self, Failure> {
        let text = document::text_of(old, answers)?;
        let loaded = layers.load_with(path, &text).map_err(Failure::from)?;
        let faults = layers.examine(Ok(loaded.clone()));
        let difference = match old == Some(&*text) {
            true => String::new(),
            false => difference(path, old.unwrap_or_default(), &text),
        };
        Ok(Self { text, difference, config: loaded.config, faults })
    }

    /// Returns whether the file would change.
    pub(super) fn is_change(&self) -> bool {
        !self.difference.is_empty()
    }

    /// Returns whether a daemon would start with it.
    pub(super) fn is_sound(&self) -> bool {
        self.faults.iter().all(|fault| fault.level != FaultLevel::Error)
    }
}

/// Returns the difference of two texts of a file, as `diff -u` shows it.
fn difference(path: &Path, old: &str, new: &str) -> String {
    let (name, diff) = (path.display().to_string(), TextDiff::from_lines(old, new));
    diff.unified_diff().header(&name, &name).to_string()
}
