//! The site's source side, as its controller drives it: this host's where it has the store, else
//! another peer's that has it (docs/design/0033). This host counts as one without the store if it
//! has lost the store, or sees nothing of it while another peer does.
//!
//! That peer acts by a lease for one transfer, which holds until it is revoked ([`Leases`]). A peer
//! that cannot continue is replaced by another one that has the store. The lease of the first is
//! revoked, and only when no peer can act by it, the next peer gets a lease. The next peer
//! continues from the pages that the first has sealed in the shared journal (A12). If no other peer
//! has the store, each request that needs an answer asks the same peer again.
//!
//! [`Leases`]: crate::leases::Leases

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use penstock_api::cluster::PeerCard;
use penstock_api::problem::{Exit, ObjectKind, Problem, ProblemCode};
use penstock_api::request::{PeerReply, PeerRequest, SourceRequest};
use penstock_api::rpc::lease::{LeaseId, LeaseKind};
use penstock_api::scan::{RootKind, ScanRequest, SourcePeer};
use penstock_cluster::membership::ClusterNow;
use penstock_peer::SourceService;
use penstock_proto::id::{Name, TransferId};
use tokio::sync::watch;

use super::call::Waiting;
use super::peer::RemotePeer;
use super::peers::{Others, cannot_read, seen_of, told_of, too_old};
use crate::site::exports::Exports;

/// The number of times that a peer is asked for a scan which it is resuming. Each time it answers
/// within ten seconds or so, and does not read pages again that it has read.
const OPENINGS_MAX: usize = 100;
/// The source side of the site.
pub(crate) struct SiteSource {
    own: Arc<SourceService>,
    /// Stores of this host, as they are configured now.
    stores: Exports,
    others: Others,
    /// Directory of scans, for all peers of the site.
    scans: PathBuf,
    /// Transfers whose store this host does not have.
    far: Mutex<HashMap<TransferId, Arc<Far>>>,
}

/// A data set that another peer lists.
struct Far(Mutex<FarState>);

struct FarState {
    request: ScanRequest,
    assignment: Option<Arc<ScanAssignment>>,
}

/// A peer that lists a data set, by a lease that is held for as long as this is.
struct ScanAssignment {
    peer: RemotePeer,
    instance: u64,
    lease: LeaseId,
}

impl Drop for ScanAssignment {
    fn drop(&mut self) {
        self.peer.leases.end(self.lease);
    }
}

impl ScanAssignment {
    /// Has the data set listed, from its beginning or where another peer has come to.
    fn open(&self, request: &ScanRequest) -> Result<RootKind, Problem> {
        let is_opening = |asked: &Result<_, Problem>| {
            asked.as_ref().is_err_and(|problem| problem.code == ProblemCode::ScanOpening)
        };
        let mut asked = self.open_scan(request);
        for _ in 1..OPENINGS_MAX {
            if !is_opening(&asked) {
                break;
            }
            asked = self.open_scan(request);
        }
        asked
    }
}

impl SourcePeer for ScanAssignment {
    fn call(&self, request: SourceRequest<'_>) -> Result<PeerReply, Problem> {
        let (stop, found) = (&AtomicBool::new(false), &mut |_| Ok(()));
        let waiting = Waiting { stop, alive: &mut |_| {}, found };
        self.peer.send(PeerRequest::Source(request), Some(self.lease), waiting)
    }
}

impl Far {
    fn lock(&self) -> MutexGuard<'_, FarState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether another peer need not have this problem.
fn is_of_one_peer(problem: &Problem) -> bool {
    matches!(
        problem.code,
        ProblemCode::PeerUnreachable
            | ProblemCode::PeerVersion
            | ProblemCode::NotAPeer
            | ProblemCode::StoreOffline
            | ProblemCode::StoreHung
            | ProblemCode::StoreUnknown
            | ProblemCode::LeaseOver
            | ProblemCode::Threads
    )
}

/// Returns whether no other peer can list.
fn is_gone(problem: &Problem) -> bool {
    is_of_one_peer(problem) || problem.code == ProblemCode::StoreElsewhere
}

impl SiteSource {
    /// Returns the source side of a host with these stores; its scans lie below `scans`.
    pub(crate) fn new(
        own: Arc<SourceService>,
        stores: Exports,
        others: Others,
        scans: PathBuf,
    ) -> Self {
        Self { own, stores, others, scans, far: Mutex::default() }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<TransferId, Arc<Far>>> {
        self.far.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn far(&self, transfer: TransferId) -> Option<Arc<Far>> {
        self.table().get(&transfer).cloned()
    }

    fn choice(&self, store: &Name, transfer: TransferId) -> (Vec<PeerCard>, Vec<String>) {
        choice(&self.others.now.borrow(), &self.others.own.peer, store, transfer)
    }

    /// Returns the problem that no present peer can read from the store.
    fn nobody(&self, store: &Name, transfer: TransferId, unfit: &[String]) -> Problem {
        let now = Arc::clone(&self.others.now.borrow());
        let away: Vec<_> = away(&now).map(|peer| format!("`{peer}` is not there now")).collect();
        let has = |card: &PeerCard| told_of(card, store).is_some();
        let begun = self.scans.join(transfer.to_string()).exists();
        let looked = [unfit, away.as_slice()].concat().join("; ");
        if away.is_empty() && !begun && !now.peers.iter().any(has) {
            let title = format!("no peer of this site has store `{store}`");
            return Problem::new(ProblemCode::StoreUnknown, title)
                .about(ObjectKind::Store, store)
                .because(looked)
                .hint("`penstock peer list` shows the peers and the stores that each reaches");
        }
        let title = format!("no peer of this site can read from store `{store}` now");
        Problem::new(ProblemCode::StoreElsewhere, title).because(looked).hint(
            "start a peer with the store; `penstock peer list` \
             shows which stores each peer reaches",
        )
    }

    /// Returns whether a peer still fits its assignment.
    fn is_fit(&self, assignment: &ScanAssignment) -> bool {
        let now = Arc::clone(&self.others.now.borrow());
        let card = now.peers.iter().find(|card| card.peer == assignment.peer.name);
        // A peer that etcd misses may still answer.
        card.is_none_or(|card| card.instance == assignment.instance && !now.is_draining(&card.peer))
    }

    /// Returns the peer that lists a data set: one that is chosen now, if there is none or it gets
    /// no more work.
    fn assignment(&self, far: &Far) -> Result<Arc<ScanAssignment>, Problem> {
        let mut state = far.lock();
        match state.assignment.clone() {
            Some(assignment) if self.is_fit(&assignment) => Ok(assignment),
            Some(assignment) => self.replace(&mut state, &assignment, None),
            None => self.choose(&mut state, None).map(|(assignment, _)| assignment),
        }
    }

    /// Assigns another peer in place of one that cannot list, or gets no more work. Keeps the same
    /// peer if there is no other. Blocks until no peer acts by the old peer's lease.
    ///
    /// # Errors
    /// `why`, if it cannot and there is no other; or as [`SiteSource::choose`].
    fn replace(
        &self,
        state: &mut FarState,
        assignment: &Arc<ScanAssignment>,
        why: Option<Problem>,
    ) -> Result<Arc<ScanAssignment>, Problem> {
        let current = state.assignment.clone();
        if let Some(current) = current.filter(|current| !Arc::ptr_eq(current, assignment)) {
            return Ok(current);
        }
        let transfer = state.request.transfer;
        let (fit, _) = self.choice(&state.request.store, transfer);
        let card = fit.iter().find(|card| card.peer == assignment.peer.name);
        let restarted = card.is_some_and(|card| card.instance != assignment.instance);
        // A change is useless if the others get no more work either.
        let now = Arc::clone(&self.others.now.borrow());
        let better = |card: &PeerCard| why.is_some() || !now.is_draining(&card.peer);
        let others = fit.iter().any(|card| card.peer != assignment.peer.name && better(card));
        if !restarted && !others {
            return why.map_or_else(
                || Ok(Arc::clone(assignment)),
                |why| Err(alone(&state.request.store, why)),
            );
        }
        let peer = &assignment.peer.name;
        let reason = match &why {
            _ if restarted => "it was restarted".to_owned(),
            Some(why) => why.to_string(),
            None => "the peer is being drained".to_owned(),
        };
        let text = format!("peer `{peer}` no longer lists the data set: {reason}");
        self.others.events.add("scan-out", peer.as_str(), Some(transfer), &text);
        state.assignment = None;
        // A restarted daemon has no thread left that could act.
        if !restarted {
            assignment.peer.leases.revoke(assignment.lease);
        }
        let (next, _) = self.choose(state, (!restarted).then_some(peer))?;
        let peer = &next.peer.name;
        let text = format!("peer `{peer}` now lists the data set, from the current position");
        self.others.events.add("scan-in", peer.as_str(), Some(transfer), &text);
        Ok(next)
    }

    /// Assigns the data set to the first peer that can list it; `but` is last.
    ///
    /// # Errors
    /// No peer can list it; or the data set has a fault.
    fn choose(
        &self,
        state: &mut FarState,
        but: Option<&Name>,
    ) -> Result<(Arc<ScanAssignment>, RootKind), Problem> {
        let (transfer, store) = (state.request.transfer, state.request.store.clone());
        let (mut fit, unfit) = self.choice(&store, transfer);
        fit.sort_by_key(|card| but == Some(&card.peer));
        let mut last = None;
        for card in &fit {
            let peer = self.others.remote(card);
            let lease = peer.give_lease(LeaseKind::Scan);
            let assignment = Arc::new(ScanAssignment { peer, instance: card.instance, lease });
            match assignment.open(&state.request) {
                Ok(kind) => {
                    tracing::info!(%transfer, peer = %card.peer, %store, "a peer lists a data set");
                    state.assignment = Some(Arc::clone(&assignment));
                    return Ok((assignment, kind));
                }
                Err(problem) if is_of_one_peer(&problem) => {
                    tracing::info!(%transfer, peer = %card.peer, %problem, "it cannot list");
                    assignment.peer.leases.revoke(lease);
                    last.get_or_insert(problem);
                }
                Err(problem) => return Err(problem),
            }
        }
        Err(match last {
            Some(problem) => alone(&state.request.store, problem),
            None => self.nobody(&store, transfer, &unfit),
        })
    }

    /// Asks the peer that lists a data set; if it cannot answer, asks the next one once more.
    fn ask(&self, far: &Far, request: SourceRequest<'_>) -> Result<PeerReply, Problem> {
        let assignment = self.assignment(far)?;
        match assignment.call(request.clone()) {
            Err(problem) if is_of_one_peer(&problem) => {
                let next = self.replace(&mut far.lock(), &assignment, Some(problem))?;
                next.call(request)
            }
            answer => answer,
        }
    }

    /// Drops a data set that cannot be opened, unless another request has opened it meanwhile.
    fn forget_unopened(&self, transfer: TransferId, far: &Arc<Far>) {
        let mut table = self.table();
        let is_it = table.get(&transfer).is_some_and(|one| Arc::ptr_eq(one, far));
        if is_it && far.0.try_lock().is_ok_and(|state| state.assignment.is_none()) {
            table.remove(&transfer);
        }
    }

    /// Returns whether this host can list a store itself: it has the store, and sees it if any peer
    /// does.
    fn has(&self, store: &Name) -> bool {
        self.stores.has(store) && !self.others.lacks(store)
    }

    /// Opens a data set here that another peer has listed, and that no other can list now. Blocks
    /// until no peer acts by that lease.
    fn open_again(&self, request: &ScanRequest) -> Result<RootKind, Problem> {
        let far = self.table().remove(&request.transfer);
        if let Some(assignment) = far.and_then(|far| far.lock().assignment.take()) {
            assignment.peer.leases.revoke(assignment.lease);
        }
        self.own.open_scan(request)
    }

    /// Opens a data set in a store that this host does not have.
    fn open_far(&self, request: &ScanRequest) -> Result<RootKind, Problem> {
        let transfer = request.transfer;
        let new = || {
            let state = FarState { request: request.clone(), assignment: None };
            Arc::new(Far(Mutex::new(state)))
        };
        let far = Arc::clone(self.table().entry(transfer).or_insert_with(new));
        {
            let mut state = far.lock();
            if state.assignment.is_none() {
                // An earlier request, if any, was refused, or lost its peer.
                state.request = request.clone();
                let chosen = self.choose(&mut state, None).map(|(_, kind)| kind);
                drop(state);
                if chosen.as_ref().is_err_and(|problem| problem.exit != Exit::Temporary) {
                    self.forget_unopened(transfer, &far);
                }
                return chosen;
            }
        }
        // The peer compares the request with its own scan: an id alone grants no right to pages
        // (C4).
        match self.ask(&far, SourceRequest::OpenScan(Cow::Borrowed(request)))? {
            PeerReply::Opened(kind) => Ok(kind),
            other => Err(other.misplaced()),
        }
    }

    /// Opens a data set, here or at a peer that has its store.
    fn open_here_or_far(&self, request: &ScanRequest) -> Result<RootKind, Problem> {
        let has = self.has(&request.store);
        if !has || self.far(request.transfer).is_some() {
            return match self.open_far(request) {
                Err(problem) if has && is_gone(&problem) => self.open_again(request),
                opened => opened,
            };
        }
        let opened = self.own.open_scan(request);
        let lost = opened.as_ref().is_err_and(|problem| problem.code == ProblemCode::StoreOffline);
        if !lost || self.choice(&request.store, request.transfer).0.is_empty() {
            return opened;
        }
        self.own.stop(request.transfer);
        self.open_far(request)
    }

    /// Releases a data set, here and at the peer that lists it.
    fn release_everywhere(&self, transfer: TransferId) {
        let far = self.table().remove(&transfer);
        let assignment = far.and_then(|far| far.lock().assignment.take());
        if let Some(assignment) = assignment
            && let Err(problem) = assignment.call(SourceRequest::Release { transfer })
        {
            // The peer's work ends at its next write to disk, as its lease is over. Until then it
            // may write beside the next peer that lists the same data set.
            assignment.peer.leases.revoke(assignment.lease);
            tracing::info!(%transfer, %problem, "cannot inform a peer that a data set is released");
        }
        self.own.release(transfer);
    }
}

/// Returns the other peers that can read from a store, in the order of choice for a transfer, which
/// is the same at each host. Also returns the reasons why the others cannot.
fn choice(
    now: &ClusterNow,
    own: &Name,
    store: &Name,
    transfer: TransferId,
) -> (Vec<PeerCard>, Vec<String>) {
    let others = now.peers.iter().filter(|card| card.peer != *own);
    let seen = seen_of(others.clone(), store);
    let has = now.peers.iter().any(|card| card.peer == *own && told_of(card, store).is_some());
    let lost = format!("`{own}`: its store `{store}` was not mounted there");
    let mut unfit = vec![if has { lost } else { format!("`{own}`: it has no store `{store}`") }];
    let mut fit = Vec::new();
    for card in others {
        let why = cannot_read(card, store, seen).or_else(|| too_old(card, now.format));
        match why {
            Some(why) => unfit.push(format!("`{}`: {why}", card.peer)),
            None => fit.push(card.clone()),
        }
    }
    fit.sort_by_cached_key(|card: &PeerCard| {
        let told = told_of(card, store).is_some_and(|told| !told.identity.is_empty());
        let place = blake3::hash(format!("{transfer} {}", card.peer).as_bytes());
        (now.is_draining(&card.peer), !told, *place.as_bytes())
    });
    (fit, unfit)
}

/// Returns the peers that belong to the site and are not there.
pub(crate) fn away(now: &ClusterNow) -> impl Iterator<Item = &Name> {
    let known = now.known.iter().map(|known| &known.peer);
    known.filter(|known| now.peers.iter().all(|card| card.peer != **known))
}

/// Returns the problem that keeps the only peer with the store from an answer.
fn alone(store: &Name, problem: Problem) -> Problem {
    let title = format!("store `{store}` cannot be read from: {}", problem.title);
    let hint = match problem.hint.is_empty() {
        true => "no other peer that is up has the store; the \
                 transfer resumes when one has"
            .to_owned(),
        false => format!("{}; no other peer that is up has the store", problem.hint),
    };
    // A peer without knowledge of the store shows that in its next card.
    Problem { title, hint, ..problem }.exit(Exit::Temporary)
}

/// Returns the answer of this host for a transfer that it has not opened, as it does not have the
/// store or has lost it. The next opening of the scan reports the reason, or has another peer list.
fn unopened(problem: Problem) -> Problem {
    if !matches!(problem.code, ProblemCode::StoreUnknown | ProblemCode::StoreOffline) {
        return problem;
    }
    let title = "the scan is not open at this controller";
    Problem::new(ProblemCode::ScanUnknown, title).because(problem)
}

impl SourcePeer for SiteSource {
    fn call(&self, request: SourceRequest<'_>) -> Result<PeerReply, Problem> {
        match request {
            SourceRequest::OpenScan(request) => {
                self.open_here_or_far(&request).map(PeerReply::Opened)
            }
            SourceRequest::Release { transfer } => {
                self.release_everywhere(transfer);
                Ok(PeerReply::Done)
            }
            request => match self.far(request.transfer()) {
                Some(far) => self.ask(&far, request),
                None => self.own.call(request).map_err(unopened),
            },
        }
    }

    fn page_news(&self, transfer: TransferId) -> Option<watch::Receiver<()>> {
        // A remote peer sends news only to requests that wait there.
        self.far(transfer).map_or_else(|| self.own.page_news(transfer), |_| None)
    }

    fn is_listing(&self, transfer: TransferId) -> bool {
        self.far(transfer).is_some() || self.own.is_listing(transfer)
    }
}

#[cfg(test)]
mod tests {
    use penstock_api::cluster::{DrainMark, KnownPeer, StoreCard};
    use penstock_api::rpc::task::PEER_API_VERSION;

    use super::*;

    fn card(peer: &str, identity: &str) -> PeerCard {
        PeerCard {
            peer: peer.parse().unwrap(),
            instance: 1,
            addresses: vec!["127.0.0.1:1".parse().unwrap()],
            data: Vec::new(),
            version: "1.2.3".to_owned(),
            protocol: PEER_API_VERSION,
            formats: penstock_proto::version::known().formats(),
            boot: String::new(),
            stores: vec![StoreCard {
                store: "far".parse().unwrap(),
                identity: identity.to_owned(),
                mounts: String::new(),
                rights: Default::default(),
                trouble: String::new(),
                mapped: false,
            }],
            running: 0,
            since: 0,
            key: String::new(),
            keys_at: Vec::new(),
        }
    }

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    /// Promise: a store that no peer can read from now makes the transfer wait, and programs read
    /// the same from the HTTP status as from the exit status.
    #[test]
    fn a_store_that_no_peer_reads_from_is_waited_for() {
        let unknown = Problem::new(ProblemCode::StoreUnknown, "store `far` does not exist here");
        let problem = alone(&name("far"), unknown);
        assert_eq!((problem.exit, problem.status), (Exit::Temporary, 503));
    }

    /// A12, C3: every controller chooses the same peer to list. A peer that gets no more work, or
    /// does not know the store, is last, and one with another store is never chosen.
    #[test]
    fn a12_who_lists_is_chosen_alike_by_whoever_leads() {
        let own = PeerCard { stores: Vec::new(), ..card("h1", "") };
        let peers = vec![card("h2", "aa"), card("h3", "aa"), card("h4", ""), card("h5", "bb"), own];
        let mut now = ClusterNow { peers, ..ClusterNow::default() };
        let chosen = |now: &ClusterNow, own: &str, transfer: u8| {
            let (fit, unfit) = choice(now, &name(own), &name("far"), TransferId([transfer; 16]));
            (fit.iter().map(|card| card.peer.to_string()).collect::<Vec<_>>(), unfit.join("; "))
        };
        let (fit, unfit) = chosen(&now, "h1", 1);
        assert_eq!((fit.len(), fit[2].as_str()), (3, "h4"));
        assert!(unfit.contains("`h1`: it has no store `far`"), "{unfit}");
        assert!(unfit.contains("`h5`: its store `far` is another one"), "{unfit}");
        now.peers.reverse();
        now.peers.retain(|card| card.peer != name("h5"));
        assert_eq!(chosen(&now, "h1", 1).0, fit, "in whatever order they are known");
        let firsts: std::collections::BTreeSet<_> =
            (0..50).map(|transfer| chosen(&now, "h1", transfer).0[0].clone()).collect();
        assert_eq!(firsts.len(), 2, "scans are spread");
        now.draining = vec![DrainMark { peer: name(&fit[0]), since: 1, forced: false }];
        assert_eq!(chosen(&now, "h1", 1).0[2], fit[0]);
        let away = KnownPeer {
            peer: name("h9"),
            instance: 1,
            joined: 1,
            left: 0,
            lost: 0,
            key: String::new(),
        };
        now.known = vec![away];
        assert_eq!(super::away(&now).collect::<Vec<_>>(), [&name("h9")]);
    }
}
