//! How a transfer treats what is at the target already.

use penstock_proto::name;
use serde::{Deserialize, Serialize};

use crate::place::PathText;

/// What happens to an item whose name is taken at the target by something that is not the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IfExists {
    /// It is replaced, in one step, when the new one is complete and durable.
    #[default]
    Replace,
    /// It stays, and the item counts as skipped.
    Skip,
    /// It is replaced if the source's is modified later, else it stays.
    Newer,
    /// It stays, and the item counts as failed.
    Fail,
}

/// By what files that have one size are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CompareBy {
    /// By the time of last modification.
    #[default]
    Time,
    /// By the BLAKE3 of what is in them: both sides read all of them.
    Digest,
}

/// How a transfer treats what is at the target already. The default replaces everything.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UpdateOptions {
    /// Leave what is the same as at the source: files of the same size and the same time of last
    /// modification, to the nanosecond, and links with the same text.
    pub sync: bool,
    /// By what `sync` tells files of one size apart.
    pub compare: CompareBy,
    /// What happens where it is not.
    pub if_exists: IfExists,
    /// Delete at the target what is not at the source, once everything else is done (C3).
    pub delete: bool,
    /// Delete this many items at most, or none if there are more; `None` refuses to delete more
    /// than half of what is at the target.
    pub max_delete: Option<u64>,
    /// What is replaced or deleted goes into this directory, relative to the root of the data set
    /// at the target.
    pub backup_dir: Option<PathText>,
    /// A path below the root of the data set at the target that is not deleted, whatever it holds:
    /// where the user who copies keeps long-lived state, such as the key for receipts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_state: Option<PathText>,
}

impl UpdateOptions {
    /// Whether the options fit each other, and a data set of which `partial` says that more was
    /// left out than can be told by the names at the target: see [`Selection::leaves_unknown`] and
    /// lists of paths.
    ///
    /// [`Selection::leaves_unknown`]: crate::select::Selection::leaves_unknown
    ///
    /// # Errors
    /// Why they do not, for people.
    pub fn check(&self, partial: bool) -> Result<(), &'static str> {
        if self.delete && partial {
            return Err("--delete does not go with --files-from, --min-size, --max-size and \
                        --newer-than: the target cannot tell what these leave out from what is \
                        gone");
        }
        if self.max_delete.is_some() && !self.delete {
            return Err("--max-delete says how much --delete may delete");
        }
        if self.compare != CompareBy::Time && !self.sync {
            return Err("--compare says how --sync compares");
        }
        let sound = |path: &PathText| name::check_relative(&path.0).is_ok() && !path.0.is_empty();
        if !self.backup_dir.as_ref().is_none_or(sound) {
            return Err("--backup-dir is a path relative to the target, without `.` or `..`");
        }
        Ok(())
    }

    /// Whether the target looks at what it has before it takes anything.
    pub fn compares(&self) -> bool {
        self.sync || self.delete || self.if_exists != IfExists::Replace
    }
}
