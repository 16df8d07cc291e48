//! Treatment of what exists at the target.

use penstock_proto::name;
use serde::{Deserialize, Serialize};

use crate::place::PathText;

/// Treatment of an item whose name is taken at the target by something that is not the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum IfExists {
    /// Replace it, in one step, when the new item is complete and durable.
    #[default]
    Replace,
    /// Keep it, and count the item as skipped.
    Skip,
    /// Replace it if the source's is modified later, else keep it.
    Newer,
    /// Keep it, and count the item as failed.
    Fail,
}

/// Criterion that tells apart files of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CompareBy {
    /// The time of last modification.
    #[default]
    Time,
    /// The BLAKE3 of their content: both sides read all of them.
    Digest,
}

/// Treatment of what exists at the target. The default replaces everything.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct UpdateOptions {
    /// Leave what is the same as at the source: files of the same size and the same time of last
    /// modification, to the nanosecond, and links with the same text.
    pub sync: bool,
    /// Criterion by which `sync` tells apart files of one size.
    pub compare: CompareBy,
    /// Treatment of an item that is not the same.
    pub if_exists: IfExists,
    /// Delete at the target what is not at the source, once everything else is done (C3).
    pub delete: bool,
    /// Delete at most this many items, or none if there are more; `None` refuses to delete more
    /// than half of what is at the target.
    pub max_delete: Option<u64>,
    /// Directory, relative to the root of the data set at the target, that receives what is
    /// replaced or deleted.
    pub backup_dir: Option<PathText>,
    /// Leave the attributes of directories that are at the target already: a site without the right
    /// to replace has submitted the transfer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_new: bool,
    /// A path below the root of the data set at the target that is not deleted, whatever it holds.
    /// The user who copies keeps long-lived state there, such as the key for receipts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_state: Option<PathText>,
}

impl UpdateOptions {
    /// Checks that the options fit each other and the data set. `partial` says that more was left
    /// out than the names at the target can tell: see [`Selection::leaves_unknown`] and lists of
    /// paths.
    ///
    /// [`Selection::leaves_unknown`]: crate::select::Selection::leaves_unknown
    ///
    /// # Errors
    /// The reason why they do not, for people.
    pub fn check(&self, partial: bool) -> Result<(), &'static str> {
        if self.delete && partial {
            return Err("--delete cannot be used with --files-from, --min-size, --max-size and \
                        --newer-than: the target cannot tell excluded items from deleted ones");
        }
        if self.max_delete.is_some() && !self.delete {
            return Err("--max-delete needs --delete");
        }
        if self.compare != CompareBy::Time && !self.sync {
            return Err("--compare needs --sync");
        }
        let sound = |path: &PathText| name::check_relative(&path.0).is_ok() && !path.0.is_empty();
        if !self.backup_dir.as_ref().is_none_or(sound) {
            return Err("--backup-dir is a path relative to the target, without `.` or `..`");
        }
        Ok(())
    }

    /// Returns whether the target examines what it has before it takes anything.
    pub fn compares(&self) -> bool {
        self.sync || self.delete || self.if_exists != IfExists::Replace
    }
}
