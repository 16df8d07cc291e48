//! The leases by which this host lists data sets, checks and hashes files, and removes moved ones.
//!
//! The tenure of the own controller is one such lease. A controller on another host without the
//! store grants this host a lease for one transfer. The controller ensures that one peer at a time
//! has a valid lease for a transfer. Work under an expired lease ends at its next write to disk,
//! and counts as another peer's from then on (B4, A12).

use std::sync::Arc;

use penstock_api::fence::Fence;
use penstock_api::problem::Problem;
use penstock_api::request::{PeerReply, SourceRequest};
use penstock_api::scan::SourcePeer;
use penstock_proto::id::TransferId;
use tokio::sync::watch;

use crate::source::SourceService;

/// A lease to list a data set.
#[derive(Clone, Debug)]
pub(crate) struct ScanLease {
    /// Its number; 0 for the own controller's tenure.
    pub(crate) number: u64,
    /// Right to act by it.
    pub(crate) fence: Fence,
}

impl ScanLease {
    /// Returns whether both are the same lease.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.number == other.number && self.fence.epoch() == other.fence.epoch()
    }
}

impl SourcePeer for SourceService {
    fn call(&self, request: SourceRequest<'_>) -> Result<PeerReply, Problem> {
        if let SourceRequest::Release { transfer } = request {
            self.stop(transfer);
            self.remove_kept(transfer);
            return Ok(PeerReply::Done);
        }
        self.call_by(&self.own_lease(), request)
    }

    fn page_news(&self, transfer: TransferId) -> Option<watch::Receiver<()>> {
        self.scan(transfer).ok().flatten().map(|open| open.scan.news())
    }

    fn is_listing(&self, transfer: TransferId) -> bool {
        self.lists(transfer)
    }
}

/// This host's source side as a controller on another host uses it, by a lease for one transfer.
pub struct LeasedSource {
    service: Arc<SourceService>,
    lease: ScanLease,
}

impl LeasedSource {
    /// Returns the source under the lease of this number, which is never 0, while `fence` holds.
    pub fn new(service: Arc<SourceService>, number: u64, fence: Fence) -> Self {
        Self { service, lease: ScanLease { number, fence } }
    }
}

impl LeasedSource {
    /// Returns the lease, if it is valid: an answer under an expired lease does not count.
    fn lease(&self) -> Result<&ScanLease, Problem> {
        self.lease.fence.check().map(|()| &self.lease)
    }
}

impl SourcePeer for LeasedSource {
    /// Answers a request under the lease. Forgets a released transfer here only: the content of
    /// the shared directory stays, since it is the controller's.
    fn call(&self, request: SourceRequest<'_>) -> Result<PeerReply, Problem> {
        match request {
            SourceRequest::Release { transfer } => {
                self.service.stop(transfer);
                Ok(PeerReply::Done)
            }
            request => self.service.call_by(self.lease()?, request),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    use penstock_api::preserve::Preserve;
    use penstock_api::removal::RemoveOrder;
    use penstock_api::scan::{PageReply, RootKind, ScanRequest};
    use penstock_api::select::Selection;
    use penstock_api::transfer::PathText;
    use penstock_proto::id::PeerId;
    use penstock_proto::manifest::Page;
    use penstock_proto::name;
    use penstock_proto::slicing::Slicing;
    use penstock_store::IoMode;

    use super::*;
    use crate::stores::{StoreKind, StoreSpec, Stores};
    use penstock_api::problem::ProblemCode;

    /// Returns a peer that does not lead, on a store and a directory that it shares with others.
    fn peer(name: &str, work: &Path) -> Arc<SourceService> {
        let store = StoreSpec {
            name: "far".parse().unwrap(),
            kind: StoreKind::Posix(work.join("store")),
            read_only: false,
            ephemeral: false,
            allow_privileged: false,
            io: IoMode::Auto,
            mapped: false,
        };
        let peer = PeerId { site: "a".parse().unwrap(), peer: name.parse().unwrap() };
        let stores = Arc::new(Stores::new([store]));
        let service = SourceService::new(stores, &work.join("scans"), peer, None);
        service.set_fence(Fence::new(1, Arc::new(|| false)));
        Arc::new(service)
    }

    /// Returns a lease that holds until it is revoked.
    fn lease(peer: &Arc<SourceService>, number: u64) -> (LeasedSource, Arc<AtomicBool>) {
        let stands = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&stands);
        let fence = Fence::new(7, Arc::new(move || asked.load(Ordering::Acquire)));
        (LeasedSource::new(Arc::clone(peer), number, fence), stands)
    }

    fn request() -> ScanRequest {
        ScanRequest {
            transfer: TransferId([7; 16]),
            listing: 0,
            store: "far".parse().unwrap(),
            root: PathText::default(),
            slicing: Slicing::default(),
            files_from: Vec::new(),
            select: Selection::default(),
            metadata_ops_per_s: Some(1000),
            preserve: Preserve::default(),
            owner_names: false,
            remove: false,
            account: None,
            user: None,
        }
    }

    /// Returns all pages of a scan, encoded.
    fn pages(source: &LeasedSource, transfer: TransferId) -> Vec<Vec<u8>> {
        let mut pages = Vec::new();
        loop {
            match source.page(transfer, pages.len() as u32, 1000).unwrap() {
                PageReply::Page(page) => pages.push(page),
                PageReply::NotYet => {}
                PageReply::End(summary) => {
                    assert_eq!((summary.pages as usize, summary.errors), (pages.len(), 0));
                    return pages;
                }
            }
        }
    }

    /// A12, B4: a scan whose lease is revoked in the middle continues at another peer from the
    /// sealed pages: each item once, none left out, no page changed. The first peer no longer
    /// answers by its lease, and serves lanes the entries that the second has listed.
    #[test]
    fn a12_a_scan_goes_on_at_another_peer() {
        let work = tempfile::tempdir().unwrap();
        let mut expected = BTreeSet::from([String::new()]);
        for directory in 0..20 {
            let path = format!("{directory:02}");
            fs::create_dir_all(work.path().join("store").join(&path)).unwrap();
            for file in 0..50 {
                let file = format!("{path}/{file}");
                fs::write(work.path().join("store").join(&file), "bytes").unwrap();
                expected.insert(file);
            }
            expected.insert(path);
        }
        let (one, other) = (peer("h2", work.path()), peer("h3", work.path()));
        let (request, transfer) = (request(), request().transfer);
        let (first, stands) = lease(&one, 5);
        assert_eq!(first.open_scan(&request), Ok(RootKind::Directory));
        let PageReply::Page(sealed) = first.page(transfer, 0, 10_000).unwrap() else {
            panic!("the first page is sealed early");
        };
        stands.store(false, Ordering::Release);
        let (second, _) = lease(&other, 6);
        assert_eq!(second.open_scan(&request), Ok(RootKind::Directory));
        let all = pages(&second, transfer);
        assert_eq!(all[0], sealed, "what was sealed stays as it was");
        let decoded = all.iter().map(|page| Page::decode(page).unwrap());
        let listed: Vec<String> = decoded
            .flat_map(|page| {
                let paths = page.entries().iter().map(|entry| name::escape(&page.path(entry)));
                paths.collect::<Vec<_>>()
            })
            .collect();
        assert!(listed.len() > Page::decode(&sealed).unwrap().entries().len());
        assert_eq!(listed.len(), expected.len(), "something is listed twice, or left out");
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), expected);
        assert_eq!(first.page(transfer, 0, 0).unwrap_err().code, ProblemCode::NotController);
        let served = one.scan(transfer).unwrap().unwrap();
        let last = all.len() as u32 - 1;
        assert_eq!(served.scan.sealed_page(last).unwrap().as_ref(), all.last());
    }

    /// B4: the same peer continues under another lease, and no lease removes items that was not
    /// granted for that.
    #[test]
    fn b4_a_lease_follows_another_at_one_peer() {
        let work = tempfile::tempdir().unwrap();
        fs::create_dir(work.path().join("store")).unwrap();
        fs::write(work.path().join("store/file"), "bytes").unwrap();
        let peer = peer("h2", work.path());
        let (request, transfer) = (request(), request().transfer);
        let (first, _) = lease(&peer, 5);
        first.open_scan(&request).unwrap();
        let sealed = pages(&first, transfer);
        let (second, _) = lease(&peer, 6);
        second.open_scan(&request).unwrap();
        assert_eq!(pages(&second, transfer), sealed);
        let order = RemoveOrder { page: 0, digest: String::new(), entries: vec![], below: 9 };
        assert_eq!(
            second.remove(transfer, &order).unwrap_err().code,
            ProblemCode::RemoveNotAllowed
        );
        second.release(transfer);
        assert!(work.path().join("scans").join(transfer.to_string()).exists());
    }
}
