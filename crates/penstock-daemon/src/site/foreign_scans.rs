//! Scans that other sites have open here: their owners, their number for each site, and the removal
//! of scans that are not asked about.
//!
//! The pages on disk outlive the daemon. `request.owner` in the directory of a scan names the site,
//! and the time of that file is that of the site's last question, to the hour. A scan from before a
//! restart counts, and must be opened once more.

use std::collections::HashMap;
use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use penstock_api::fence::Fence;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::scan::SourcePeer;
use penstock_controller::sites::SiteClient;
use penstock_proto::id::{Name, TransferId};

/// Scans of one site that are kept, open or done, until the site releases them.
pub(crate) const KEPT_OF_SITE: usize = 1000;
/// Scans of one site that list at a time.
pub(crate) const LISTING_OF_SITE: usize = 64;
/// The time for which a scan is kept without a question about it.
const UNASKED_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// The interval at which scans without questions are looked for.
const SWEEP: Duration = Duration::from_secs(3600);
/// File in the directory of a scan, with the name of the site that opened it.
const OWNER: &str = "request.owner";

/// A scan that another site has open.
struct Opened {
    site: Name,
    /// The scan was opened since the daemon started.
    open: bool,
    /// The time at which a question of the site was recorded on disk.
    noted: Option<Instant>,
    /// The site has seen its end.
    ended: bool,
}

/// The scans of other sites. Scans that the own controller opened are not among them: no other site
/// may use those.
pub(crate) struct ForeignScans {
    directory: PathBuf,
    table: Mutex<HashMap<TransferId, Opened>>,
}

impl ForeignScans {
    /// Returns the scans whose pages lie below `directory`, as a look there finds them.
    pub(crate) fn new(directory: PathBuf) -> Self {
        let kept = on_disk(&directory).into_iter().map(|(site, id, _)| {
            let opened = Opened { site, open: false, noted: None, ended: true };
            (id, opened)
        });
        Self { table: Mutex::new(kept.collect()), directory }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TransferId, Opened>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a scan before it is opened; `true` if the scan is new.
    /// [`ForeignScans::give_up`] frees the place of a scan that cannot be opened.
    ///
    /// # Errors
    /// Another site has opened it; the site has too many (code `scans-full`).
    pub(crate) fn enter(
        &self,
        site: &Name,
        id: TransferId,
        source: &dyn SourcePeer,
    ) -> Result<bool, Problem> {
        let mut table = self.lock();
        if let Some(opened) = table.get_mut(&id) {
            if opened.site != *site {
                return Err(foreign_scan(id));
            }
            // The scan may have another list, which is to be read to its own end.
            opened.ended = false;
            return Ok(!std::mem::replace(&mut opened.open, true));
        }
        let own = || table.iter().filter(|(_, opened)| opened.site == *site);
        let full = |most: usize, what: &str| {
            let title = format!("site `{site}` has {most} scans {what} here already");
            Problem::new(ProblemCode::ScansFull, title)
                .hint("wait until some of its transfers have ended")
        };
        if own().count() >= KEPT_OF_SITE {
            return Err(full(KEPT_OF_SITE, "open"));
        }
        let listing = own().filter(|(id, opened)| !opened.ended && source.is_listing(**id));
        if listing.count() >= LISTING_OF_SITE {
            return Err(full(LISTING_OF_SITE, "that list"));
        }
        table.insert(id, Opened { site: site.clone(), open: true, noted: None, ended: false });
        Ok(true)
    }

    /// Checks that the scan is one of this site, and records that the site asks about it. May write
    /// a file, once an hour.
    ///
    /// # Errors
    /// Another site has opened the scan, or no site since the daemon started (code `scan-unknown`).
    pub(crate) fn check(&self, site: &Name, id: TransferId) -> Result<(), Problem> {
        let mut table = self.lock();
        let Some(opened) = table.get_mut(&id).filter(|opened| opened.open) else {
            let title = format!("the scan of transfer {id} is not open");
            return Err(Problem::new(ProblemCode::ScanUnknown, title));
        };
        if opened.site != *site {
            return Err(foreign_scan(id));
        }
        if opened.noted.is_none_or(|noted| noted.elapsed() > SWEEP) {
            opened.noted = Some(Instant::now());
            drop(table);
            self.note(site, id);
        }
        Ok(())
    }

    /// Records that the site has seen the end of a scan.
    pub(crate) fn note_end(&self, id: TransferId) {
        if let Some(opened) = self.lock().get_mut(&id) {
            opened.ended = true;
        }
    }

    /// Handles a scan that could not be opened. Its data on disk still counts.
    pub(crate) fn give_up(&self, id: TransferId) {
        let mut table = self.lock();
        match table.get_mut(&id) {
            Some(opened) if self.directory.join(id.to_string()).join(OWNER).exists() => {
                opened.open = false;
            }
            _ => drop(table.remove(&id)),
        }
    }

    /// Handles the end of an open scan.
    pub(crate) fn remove(&self, id: TransferId) {
        self.lock().remove(&id);
    }

    /// Notes on disk whose scan it is, and that its site has asked about it now.
    fn note(&self, site: &Name, id: TransferId) {
        let directory = self.directory.join(id.to_string());
        // Without a directory there is nothing that would be left.
        if directory.is_dir()
            && let Err(error) = fs::write(directory.join(OWNER), site.as_str())
        {
            tracing::warn!(transfer = %id, %error, "cannot note whose scan it is");
        }
    }

    /// Returns the scans on disk that no site has asked about for a week.
    fn unasked(&self, now: SystemTime) -> Vec<(Name, TransferId)> {
        let is_old = |asked| now.duration_since(asked).is_ok_and(|since| since > UNASKED_MAX);
        let all = on_disk(&self.directory).into_iter();
        all.filter(|(_, _, asked)| is_old(*asked)).map(|(site, id, _)| (site, id)).collect()
    }

    /// Looks at a scan later again: its owner still knows the transfer.
    fn put_off(&self, id: TransferId) {
        let owner = self.directory.join(id.to_string()).join(OWNER);
        let times = FileTimes::new().set_modified(SystemTime::now());
        let touched = File::options().write(true).open(&owner);
        if let Err(error) = touched.and_then(|file| file.set_times(times)) {
            tracing::warn!(path = %owner.display(), %error, "cannot record that a scan is kept");
        }
    }
}

/// Returns the scans of other sites below a directory, with when each of them was asked about last.
fn on_disk(directory: &Path) -> Vec<(Name, TransferId, SystemTime)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let scan = |path: &Path| {
        let id: TransferId = path.file_name()?.to_str()?.parse().ok()?;
        let owner = path.join(OWNER);
        let asked = fs::metadata(&owner).and_then(|meta| meta.modified()).ok()?;
        Some((fs::read_to_string(&owner).ok()?.parse().ok()?, id, asked))
    };
    entries.filter_map(|entry| scan(&entry.path())).collect()
}

/// Returns the problem that the scan of a transfer is another site's.
pub(crate) fn foreign_scan(id: TransferId) -> Problem {
    let title = format!("the scan of transfer {id} was opened by another site");
    Problem::new(ProblemCode::NotAuthorised, title)
}

/// Removes scans without a question for a week, if their owner does not know the transfer, or is no
/// longer paired. Does so at once, and then every hour while `fence` holds. A silent owner is asked
/// again an hour later.
pub(crate) async fn sweep(
    scans: Arc<ForeignScans>,
    source: Arc<dyn SourcePeer>,
    sites: Arc<dyn SiteClient>,
    fence: Fence,
) {
    while fence.holds() {
        let (scans, source, sites) = (Arc::clone(&scans), Arc::clone(&source), Arc::clone(&sites));
        let swept = tokio::task::spawn_blocking(move || sweep_once(&scans, &*source, &*sites));
        if let Err(error) = swept.await {
            tracing::error!(%error, "scans are not swept");
        }
        tokio::time::sleep(SWEEP).await;
    }
}

fn sweep_once(scans: &ForeignScans, source: &dyn SourcePeer, sites: &dyn SiteClient) {
    for (site, id) in scans.unasked(SystemTime::now()) {
        if sites.is_paired(&site) {
            match sites.show(&site, id) {
                Ok(view) if !view.state.is_ended() => {
                    scans.put_off(id);
                    continue;
                }
                Ok(_) => {}
                Err(problem) if problem.status == 404 => {}
                Err(problem) => {
                    tracing::info!(%site, transfer = %id, %problem, "its scan is kept");
                    continue;
                }
            }
        }
        tracing::info!(%site, transfer = %id, "removing a scan that is no longer needed");
        scans.remove(id);
        source.release(id);
    }
}

#[cfg(test)]
mod tests {
    use penstock_api::request::{PeerReply, SourceRequest};

    use super::*;

    /// A source whose scans all list, or none.
    struct Listing(bool);

    impl SourcePeer for Listing {
        fn call(&self, request: SourceRequest<'_>) -> Result<PeerReply, Problem> {
            Err(foreign_scan(request.transfer()))
        }

        fn is_listing(&self, _: TransferId) -> bool {
            self.0
        }
    }

    fn id(number: usize) -> TransferId {
        TransferId((number as u128).to_le_bytes())
    }

    /// D4: a site has so many scans, and fewer that list; those of other sites are apart.
    #[test]
    fn d4_scans_are_counted_by_site() {
        let scans = ForeignScans::new(PathBuf::from("/nonexistent"));
        let (lab, hpc): (Name, Name) = ("lab".parse().unwrap(), "hpc".parse().unwrap());
        let enter = |site: &Name, number, lists| scans.enter(site, id(number), &Listing(lists));
        for number in 0..LISTING_OF_SITE {
            assert_eq!(enter(&lab, number, true), Ok(true));
        }
        assert_eq!(enter(&lab, 1, true), Ok(false), "it is open already");
        assert_eq!(enter(&lab, LISTING_OF_SITE, true).unwrap_err().code, ProblemCode::ScansFull);
        assert!(enter(&hpc, 1, true).is_err(), "it is another site's");
        assert_eq!(enter(&hpc, 5000, true), Ok(true));
        scans.note_end(id(7));
        assert_eq!(enter(&lab, LISTING_OF_SITE, true), Ok(true));
        for number in LISTING_OF_SITE + 1..KEPT_OF_SITE {
            assert_eq!(enter(&lab, number, false), Ok(true));
        }
        assert_eq!(enter(&lab, KEPT_OF_SITE, false).unwrap_err().status, 503);
        scans.remove(id(9));
        assert_eq!(enter(&lab, KEPT_OF_SITE, false), Ok(true));
    }
}
