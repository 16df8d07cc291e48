//! The part of the configuration about the audit log.

use serde::{Deserialize, Serialize};

/// Days for which files of the audit log are kept, unless configured.
const KEEP_DAYS_DEFAULT: u32 = 400;

/// The audit log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditConfig {
    /// Days after which a file of the audit log is removed, as `400d`: counted from its last line.
    /// Default: 400d.
    #[serde(default)]
    pub keep: KeepDays,
}

/// A number of days, written as `400d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeepDays(pub u32);

impl Default for KeepDays {
    fn default() -> Self {
        Self(KEEP_DAYS_DEFAULT)
    }
}

impl KeepDays {
    /// Returns the days in milliseconds.
    pub(crate) fn ms(self) -> u64 {
        u64::from(self.0) * 24 * 3600 * 1000
    }
}

impl TryFrom<String> for KeepDays {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let days = text.strip_suffix('d').and_then(|days| days.parse().ok());
        let days = days.filter(|days| *days > 0);
        days.map(Self).ok_or_else(|| format!("`{text}` is not a number of days, such as `400d`"))
    }
}

impl From<KeepDays> for String {
    fn from(days: KeepDays) -> Self {
        format!("{}d", days.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: days are read as they are written, and nothing else is.
    #[test]
    fn days_are_read() {
        let read = |text: &str| toml::from_str::<AuditConfig>(&format!("keep = \"{text}\""));
        assert_eq!(read("30d").unwrap().keep, KeepDays(30));
        assert_eq!(toml::from_str::<AuditConfig>("").unwrap().keep, KeepDays(400));
        assert_eq!(String::from(KeepDays(7)), "7d");
        for wrong in ["", "0d", "-1d", "30", "30h", "d"] {
            let why = read(wrong).unwrap_err().to_string();
            assert!(why.contains("number of days"), "{why}");
        }
    }
}
