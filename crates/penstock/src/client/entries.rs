//! Directories of stores, of the site that is asked and of those paired with it.

use penstock_api::endpoints::{
    LIST_ENTRIES, LIST_SITE_ENTRIES, MAKE_DIRECTORY, MAKE_SITE_DIRECTORY,
};
use penstock_api::place::{Location, PathText};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::{DirectoryRequest, EntryList};
use penstock_daemon::http;
use penstock_exit::failure;
use penstock_proto::id::Name;

use super::Client;

impl Client {
    /// Makes a directory whose parent exists, or finds it made. `own` is the site that is asked.
    ///
    /// # Errors
    /// What the daemon answers, or that there is none.
    pub(crate) fn make_directory(&self, own: &Name, place: &Location) -> anyhow::Result<()> {
        let Location { site, store, path, .. } = place;
        let uri = match site == own {
            true => MAKE_DIRECTORY.uri(&[store]),
            false => MAKE_SITE_DIRECTORY.uri(&[site, store]),
        };
        let body = http::encode(&DirectoryRequest { path: path.clone() }).map_err(failure)?;
        match self.exchange(&uri, Some(body), &[])?.problem() {
            Some(problem) if problem.code != ProblemCode::EntryExists => {
                Err(failure(problem).into())
            }
            _ => Ok(()),
        }
    }

    /// Returns an entry or none of a directory whose names begin with `prefix`: whether it can be
    /// listed is what matters. `own` is the site that is asked.
    ///
    /// # Errors
    /// No daemon answers; the inner error is its answer.
    pub(crate) fn look(
        &self,
        own: &Name,
        place: &Location,
        prefix: &PathText,
    ) -> anyhow::Result<Result<EntryList, Problem>> {
        let Location { site, store, path, .. } = place;
        let uri = match site == own {
            true => LIST_ENTRIES.uri(&[store]),
            false => LIST_SITE_ENTRIES.uri(&[site, store]),
        };
        let uri = uri.query("path", path).query("prefix", prefix).query("limit", 1);
        let answer = self.exchange(&uri, None, &[])?;
        match answer.problem() {
            Some(problem) => Ok(Err(problem)),
            None => Ok(Ok(answer.object()?)),
        }
    }
}
