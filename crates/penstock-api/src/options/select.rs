//! Selection of the items of a source, as users write it; [`Selection::compile`] turns it into a
//! [`Selector`], which decides.

use penstock_proto::select::{Glob, ParseGlobError, RULES_MAX, Rule, Selector};
use penstock_proto::units::FileTime;
use serde::{Deserialize, Serialize};

use crate::place::PathText;

/// A rule on paths: the first that matches a path decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SelectRule {
    /// True if the items that it matches are wanted.
    pub include: bool,
    /// The pattern, bytes as in `.gitignore`; see [`penstock_proto::select`].
    pub glob: PathText,
}

/// Least modification time of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Newer {
    /// Seconds before the transfer was submitted, or the copy was first begun. It remains the same
    /// moment however often the run is interrupted.
    AgeSeconds(u64),
    /// A moment.
    Time(FileTime),
}

/// Selection among the items of a source. The default is everything.
///
/// Rules decide on files, directories and links; sizes and times on files only. A directory that is
/// not excluded is kept, even if nothing in it is wanted. An item that is not chosen costs the
/// source one look, and is counted as `excluded`, never as skipped. It is not deleted at a target
/// either: deletion asks [`Selector::verdict`] and [`Selection::leaves_unknown`].
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Selection {
    /// Rules on paths, in the order in which they are tried.
    pub rules: Vec<SelectRule>,
    /// Least size of a file in bytes.
    pub size_min_bytes: Option<u64>,
    /// Greatest size of a file in bytes.
    pub size_max_bytes: Option<u64>,
    /// Only files modified after this.
    pub newer_than: Option<Newer>,
    /// Do not descend into file systems that are mounted within the source.
    pub one_file_system: bool,
}

/// Error: a selection cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// A pattern is malformed.
    #[error(transparent)]
    Glob(#[from] ParseGlobError),
    /// There are more rules than are tried for each path.
    #[error("there are {0} rules; at most {RULES_MAX} are allowed")]
    TooMany(usize),
    /// The request has an age, and does not say any more when it was submitted.
    #[error("an age needs the time that it is counted from")]
    Unsettled,
    /// A time has more than 999,999,999 nanoseconds.
    #[error("the time `newer_than` is not a time")]
    Time,
}

impl Selection {
    /// Returns the selection with its age turned into a moment, counted back from `created`, in
    /// seconds since 1970.
    pub fn settled(&self, created: u64) -> Self {
        let mut settled = self.clone();
        if let Some(Newer::AgeSeconds(age)) = self.newer_than {
            let seconds = i64::try_from(created).unwrap_or(i64::MAX);
            let seconds = seconds.saturating_sub_unsigned(age);
            settled.newer_than = Some(Newer::Time(FileTime { seconds, nanoseconds: 0 }));
        }
        settled
    }

    /// Returns whether files are left out by their size or time at the source. A target that holds
    /// an older version of such a file cannot know that it is not gone. Items left out by name are
    /// protected there by the same name, and mounts are marked in the manifest.
    pub fn leaves_unknown(&self) -> bool {
        self.size_min_bytes.is_some() || self.size_max_bytes.is_some() || self.newer_than.is_some()
    }

    /// Returns the form that decides. The age must be settled.
    ///
    /// # Errors
    /// A pattern that cannot be read, or too many; exit 2.
    pub fn compile(&self) -> Result<Selector, SelectError> {
        if self.rules.len() > RULES_MAX {
            return Err(SelectError::TooMany(self.rules.len()));
        }
        let rules = self
            .rules
            .iter()
            .map(|rule| Ok(Rule { include: rule.include, glob: Glob::parse(&rule.glob.0)? }));
        let newer_than = match self.newer_than {
            None => None,
            Some(Newer::Time(time)) if time.nanoseconds < 1_000_000_000 => Some(time),
            Some(Newer::Time(_)) => return Err(SelectError::Time),
            Some(Newer::AgeSeconds(_)) => return Err(SelectError::Unsettled),
        };
        Ok(Selector {
            rules: rules.collect::<Result<_, ParseGlobError>>()?,
            size_min: self.size_min_bytes,
            size_max: self.size_max_bytes,
            newer_than,
            one_file_system: self.one_file_system,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a request means the same after its way through JSON, non-UTF-8 patterns too, and
    /// an age is counted from the submission, not from the moment of the scan.
    #[test]
    fn a_selection_survives_json_and_settles_its_age() {
        let rule = SelectRule { include: false, glob: PathText(b"\xff*.tmp\n".to_vec()) };
        let selection = Selection {
            rules: vec![rule],
            newer_than: Some(Newer::AgeSeconds(100)),
            ..Selection::default()
        };
        let text = serde_json::to_string(&selection).unwrap();
        assert_eq!(serde_json::from_str::<Selection>(&text).unwrap(), selection);
        assert_eq!(selection.compile(), Err(SelectError::Unsettled));
        let selector = selection.settled(1000).compile().unwrap();
        assert_eq!(selector.newer_than, Some(FileTime { seconds: 900, nanoseconds: 0 }));
        assert!(!selector.takes_file(0, FileTime { seconds: 900, nanoseconds: 0 }));
        assert!(selector.takes_file(0, FileTime { seconds: 900, nanoseconds: 1 }));
        let empty: Selection = serde_json::from_str("{}").unwrap();
        assert_eq!(empty.compile().unwrap(), Selector::default());
    }
}
