//! The directory of a soak in the target store: `penstock-soak-ID`, in the place that the user
//! gives.
//!
//! It holds the target of rounds, and a source for transfers that delete. That source has nothing
//! but a directory, as deletion takes an empty source for one that is not mounted.

pub(super) mod cleaning;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{self, Path, PathBuf};

use anyhow::Context as _;
use penstock_api::place::PathText;
use penstock_api::transfer::{Location, TransferOptions, TransferRequest};
use penstock_api::update::UpdateOptions;
use penstock_proto::name;

use super::course::step::Step;
use super::daemon::Daemon;
use super::record::SoakRecord;

/// Its directories, in the order in which they are made.
const MADE: [&str; 4] = ["", "set", "nothing", "nothing/kept"];
/// Its directories, in the order in which they are removed. An emptying makes `set/kept`.
const REMOVED: [&str; 5] = ["set/kept", "set", "nothing/kept", "nothing", ""];

/// The directory of a soak in the target store, which is not `null:`.
pub(super) struct OwnDirectory<'a>(pub(super) &'a SoakRecord);

impl OwnDirectory<'_> {
    fn path(&self) -> Vec<u8> {
        let own = format!("penstock-soak-{}", self.0.id.short());
        name::join(&self.0.target.path.0, own.as_bytes())
    }

    /// Returns its place.
    pub(super) fn place(&self) -> Location {
        Location { path: PathText(self.path()), slash: false, ..self.0.target.clone() }
    }

    fn within(&self, name: &str) -> Location {
        let path = PathText(name::join(&self.path(), name.as_bytes()));
        Location { path, slash: true, ..self.0.target.clone() }
    }

    /// Returns the target of each round.
    pub(super) fn set(&self) -> Location {
        self.within("set")
    }

    /// Makes it with all its directories, or finds them made.
    ///
    /// # Errors
    /// The answer of the daemon.
    pub(super) fn make(&self, daemon: &Daemon) -> anyhow::Result<()> {
        for within in MADE {
            let place = self.within(within);
            daemon.make_directory(&place).context("the directory of the soak cannot be made")?;
        }
        Ok(())
    }

    /// Returns the request for a transfer that removes what rounds have put there, and nothing
    /// else.
    pub(super) fn emptying(&self, step: Step) -> TransferRequest {
        let update = UpdateOptions {
            sync: true,
            delete: true,
            max_delete: Some(u64::MAX),
            ..Default::default()
        };
        let options = TransferOptions { update, ..Default::default() };
        let mut request = step.request(self.0, self.set(), options);
        request.source = self.within("nothing");
        request
    }

    /// Removes it after it was emptied, where this host has the store. Returns what is left, in
    /// words.
    pub(super) fn remove(&self, daemon: &Daemon) -> Option<String> {
        let own = self.path();
        let store_name = &self.0.target.store;
        let shown = name::escape(&own);
        let left = format!("Empty directories are left in store `{store_name}`: `{shown}`.");
        let store = daemon.store(store_name).ok();
        let root = store.filter(|_| daemon.is_here()).map(|store| PathBuf::from(store.store.place));
        let Some(root) = root.filter(|root| root.is_absolute()) else { return Some(left) };
        let own = root.join(OsStr::from_bytes(&own));
        for within in REMOVED {
            match fs::remove_dir(own.join(within)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Some(format!("{left} {error}"));
                }
                _ => {}
            }
        }
        None
    }

    /// Returns in words what it holds until the end of the soak, whose records are in `out`.
    pub(super) fn held(&self, out: &Path) -> String {
        // A page may be read from another working directory.
        let out = path::absolute(out).unwrap_or_else(|_| out.to_owned());
        format!(
            "Until the end, `{}` holds data of the soak. If the soak is not continued, `penstock \
             soak --clean {}` removes it.",
            self.place(),
            out.display()
        )
    }
}
