//! The memory of paths that transfers share: each transfer begins with the measurements of the last
//! one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use penstock_engine::paths::{PATHS_MAX, Pairs, PathEnds, PathState};
use penstock_proto::id::Name;

use crate::lane::open_lanes::{OpenLanes, PairingEndings};
use crate::lane::path_notes::{Key, PathListener, PathNote, key_of};
use crate::lane::waiting_connections::WaitingConnections;

/// Remembers paths from one transfer to the next, so that a transfer over a known long path opens
/// all its lanes at once.
#[derive(Default)]
pub(crate) struct PathBook {
    notes: Mutex<BTreeMap<Key, PathNote>>,
    pub(super) listener: OnceLock<PathListener>,
    /// Largest number of links left out of each site, as reported to the log.
    left_out: Mutex<BTreeMap<Name, usize>>,
    /// Connections that wait for a lane.
    pub(crate) ahead: WaitingConnections,
    /// Open lanes, each with the right on which it depends.
    pub(crate) open_lanes: OpenLanes,
    pub(crate) endings: Arc<PairingEndings>,
}

impl PathBook {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, PathNote>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the listener for changes of paths. Only the first call has an effect.
    pub(crate) fn listen(&self, listener: PathListener) {
        let _ = self.listener.set(listener);
    }

    /// Returns the record of one path.
    pub(crate) fn get(&self, site: &Name, ends: &PathEnds) -> Option<PathNote> {
        self.lock().get(&key_of(site, ends)).cloned()
    }

    /// Changes the record of one path, which is created if it does not exist.
    pub(crate) fn note(&self, site: &Name, ends: &PathEnds, change: impl FnOnce(&mut PathNote)) {
        let mut notes = self.lock();
        if notes.len() >= REMEMBERED_MAX {
            notes.clear();
        }
        let fresh = || PathNote {
            ends: ends.clone(),
            rtt: None,
            rate: 0.0,
            state: PathState::Untried,
            since: penstock_sys::now_seconds(),
            why: String::new(),
        };
        let note = notes.entry(key_of(site, ends)).or_insert_with(fresh);
        // Parts of the ends outside of the key may have changed since.
        note.ends = ends.clone();
        change(note);
    }

    pub(super) fn rtt(&self, site: &Name, ends: &PathEnds) -> Option<Duration> {
        self.lock().get(&key_of(site, ends))?.rtt
    }

    /// Returns whether `links` links left out of a site are more than the log has reported.
    /// Remembers the larger number.
    pub(super) fn is_news(&self, site: &Name, links: usize) -> bool {
        let mut left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        let told = left_out.entry(site.clone()).or_default();
        let more = links > *told;
        *told = links.max(*told);
        more
    }

    /// Returns the paths to a site. Logs once if links are left out.
    pub(crate) fn take_up(&self, site: &Name, pairs: Pairs) -> Vec<PathEnds> {
        let left_out = pairs.links_left_out;
        if left_out > 0 && self.is_news(site, left_out) {
            tracing::warn!(
                %site, left_out,
                "more pairs of network cards lead there than the {PATHS_MAX} that are tried; give \
                 networks that reach each other one name at both sites, and `role = \"control\"` \
                 to those that are not for data"
            );
        }
        pairs.paths
    }

    /// Returns all records of paths, each with its site.
    pub(crate) fn all(&self) -> Vec<(Name, PathNote)> {
        self.lock().iter().map(|((site, ..), note)| (site.clone(), note.clone())).collect()
    }

    /// Returns all records of paths to a site.
    pub(crate) fn of_site(&self, site: &Name) -> Vec<PathNote> {
        let notes = self.lock();
        notes.iter().filter(|((of, ..), _)| of == site).map(|(_, note)| note.clone()).collect()
    }
}

/// Number of remembered paths; beyond it all are forgotten and learnt again.
const REMEMBERED_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: links to a site that are left out are reported once, and again when there are more.
    #[test]
    fn what_is_left_out_is_told_once() {
        let book = PathBook::default();
        let [hpc, lab]: [Name; 2] = ["hpc", "lab"].map(|site| site.parse().unwrap());
        let told: Vec<bool> = [7, 7, 3, 7, 8].map(|links| book.is_news(&hpc, links)).into();
        assert_eq!(told, [true, false, false, false, true]);
        assert!(book.is_news(&lab, 1));
    }
}
