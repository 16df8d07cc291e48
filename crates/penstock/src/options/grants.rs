//! Rights to stores that a command gives to a paired site.

use std::path::Path;

use penstock_proto::id::Name;

use crate::rights_dialog::Rights;
use penstock_daemon::site::grants;

/// What a site is to be allowed.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct GrantArgs {
    /// A store to which the other site may submit transfers, to create new items but not to replace
    /// any. May be given more than once
    #[arg(long, value_name = "STORE")]
    write: Vec<Name>,
    /// A store in which transfers of the other site may also replace and delete items. May be given
    /// more than once
    #[arg(long, value_name = "STORE")]
    delete: Vec<Name>,
}

impl GrantArgs {
    /// The answers of a user to the questions for stores; see [`Rights`].
    pub(crate) fn of(rights: Rights) -> Self {
        let names =
            |words: Vec<String>| words.iter().filter_map(|word| word.parse().ok()).collect();
        Self { write: names(rights.write), delete: names(rights.delete) }
    }

    /// Whether nothing is granted.
    pub(crate) fn is_empty(&self) -> bool {
        self.write.is_empty() && self.delete.is_empty()
    }

    /// Adds `site` to the lists of the stores in the configuration of a site directory.
    ///
    /// # Errors
    /// As [`grants::give`].
    pub(crate) fn give(&self, directory: &Path, site: &Name) -> anyhow::Result<()> {
        grants::give(directory, site, (&self.write, &self.delete))
    }
}
