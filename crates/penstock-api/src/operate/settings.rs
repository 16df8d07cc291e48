//! The configuration of a daemon, as the API shows, checks and reloads it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The layer that a value of the configuration comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SettingSource {
    /// No layer sets it.
    Default,
    /// A file.
    File {
        /// Its path.
        path: String,
        /// Line of the value, from 1 on.
        line: usize,
    },
    /// A variable of the environment.
    Environment {
        /// Its name.
        name: String,
    },
    /// An option of the command line.
    Flag {
        /// Its name.
        name: String,
    },
}

impl std::fmt::Display for SettingSource {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => out.write_str("default"),
            Self::File { path, line } => write!(out, "{path}:{line}"),
            Self::Environment { name } | Self::Flag { name } => out.write_str(name),
        }
    }
}

/// When a changed value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TakenBy {
    /// At a reload.
    Reload,
    /// At the next start of the daemon.
    Restart,
}

impl TakenBy {
    /// Returns the word of the reference.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reload => "reload",
            Self::Restart => "restart",
        }
    }
}

/// A value of the configuration that is in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SettingView {
    /// Its key, as `web.listen` or `store[raw].path`.
    pub key: String,
    /// The value. A secret is shown as `"set"`.
    pub value: Value,
    /// The layer that sets it.
    pub source: SettingSource,
    /// When a changed value counts.
    pub taken_by: TakenBy,
}

/// The configuration of a daemon, or of a site directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SettingsView {
    /// The files that were read, the one that counts most last.
    pub files: Vec<String>,
    /// The settings in force, in the order of the reference.
    pub settings: Vec<SettingView>,
    /// Keys whose values in the files count at the next start only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
}

/// How bad a fault of a configuration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FaultLevel {
    /// The daemon starts, and something does not work as it may be meant.
    Warning,
    /// The daemon does not start with it, and a reload keeps the old configuration.
    Error,
}

impl FaultLevel {
    /// Returns the word of messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A fault of a configuration, with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SettingFault {
    /// How bad it is.
    pub level: FaultLevel,
    /// The file, the variable or the option that holds it. Absent for what no layer sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Line in the file, from 1 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Column in the line, in characters, from 1 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// The line itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The fault.
    pub message: String,
    /// The nearest known key, for one that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
    /// The next step. Empty if the message says it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

impl std::fmt::Display for SettingFault {
    /// Writes the level and the fault, its place and line with a mark, and the next step.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.level.as_str(), self.message)?;
        if let Some(place) = &self.place {
            write!(out, "\n  at {place}")?;
        }
        if let (Some(line), Some(column), Some(text)) = (self.line, self.column, &self.text) {
            let number = line.to_string();
            // A tab is shown as one space, so that the mark is below its character.
            let text = text.replace('\t', " ");
            write!(out, ":{line}:{column}\n  {number} | {text}\n  ")?;
            let space = " ".repeat(column.saturating_sub(1));
            write!(out, "{} | {space}^", " ".repeat(number.len()))?;
        }
        if let Some(nearest) = &self.nearest {
            write!(out, "\n  did you mean `{nearest}`?")?;
        }
        if !self.hint.is_empty() {
            write!(out, "\n  hint: {}", self.hint)?;
        }
        Ok(())
    }
}

/// A text to be checked as the main file of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SettingsCheck {
    /// The TOML.
    pub text: String,
}

/// The faults of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SettingsFaults {
    /// The faults in order of their places, errors and warnings. Empty if there is none.
    pub faults: Vec<SettingFault>,
}

/// The outcome of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SettingsReload {
    /// Whether the configuration was taken. With an error in it the old one stays whole.
    pub reloaded: bool,
    /// Keys whose new values are in force.
    pub taken: Vec<String>,
    /// Keys whose new values count at the next start only.
    pub kept: Vec<String>,
    /// The faults of the configuration, and what could not be put in force.
    pub faults: Vec<SettingFault>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a fault shows its line, and the mark is below the character that it is about.
    #[test]
    fn a_fault_marks_its_character() {
        let fault = SettingFault {
            level: FaultLevel::Error,
            place: Some("/etc/p.toml".into()),
            line: Some(12),
            column: Some(4),
            text: Some("\tä raed = 1".into()),
            message: "unknown key `raed`".into(),
            nearest: Some("read".into()),
            hint: String::new(),
        };
        assert_eq!(
            fault.to_string(),
            "error: unknown key `raed`\n  at /etc/p.toml:12:4\n  12 |  ä raed = 1\n     \
             |    ^\n  did you mean `read`?"
        );
    }
}
