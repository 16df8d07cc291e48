//! Work that one peer does for all: searches, deletions, read-back, cleaning.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use penstock_api::delete::{DeleteOrder, SurplusQuery};
use penstock_api::peers::{Member, Peers};
use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::proof::ProofProgress;
use penstock_api::request::{PeerReply, TargetRequest};
use penstock_api::task::{TargetPeer, Task, TaskControl, TaskPage, TaskSpec};
use penstock_proto::id::WriterId;

/// The peers of a run as if they were one: the controller's own comes first, and where one cannot
/// now, the next is asked.
pub(crate) struct AnyPeer {
    peers: Arc<dyn Peers>,
    /// The writer that found the entries to delete: inode numbers in its list are those that it
    /// sees.
    finder: Mutex<Option<WriterId>>,
}

/// Returns the peers that are present, in the order in which one of them is chosen.
pub(crate) fn in_order(peers: &dyn Peers) -> Vec<Member> {
    let mut present = peers.present();
    present.sort_by_key(|member| (member.is_draining, !member.is_own));
    present
}

/// Returns the error for a run in which no peer takes part.
pub(crate) fn nobody() -> Problem {
    Problem::new(ProblemCode::NoPeer, "no peer of this site reaches the target store")
        .hint("`penstock peer list` shows the peers and the stores that each reaches")
}

impl AnyPeer {
    pub(crate) fn new(peers: Arc<dyn Peers>) -> Self {
        Self { peers, finder: Mutex::default() }
    }

    fn first(&self) -> Result<Member, Problem> {
        in_order(&*self.peers).into_iter().next().ok_or_else(nobody)
    }

    /// Returns a peer that sees the store of a transfer. A peer whose store hangs, or is absent,
    /// finds and cleans nothing.
    fn fit(&self, spec: &TaskSpec) -> Result<Member, Problem> {
        let sees = |member: &Member| {
            let found = member.peer.store_id(&spec.store);
            found.is_ok_and(|found| found.unwrap_or(0) == spec.store_id)
        };
        in_order(&*self.peers).into_iter().find(sees).map_or_else(|| self.first(), Ok)
    }

    fn finder(&self) -> MutexGuard<'_, Option<WriterId>> {
        self.finder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(
        &self,
        ask: impl Fn(&dyn TargetPeer) -> Result<PeerReply, Problem>,
    ) -> Result<PeerReply, Problem> {
        let mut said = None;
        for member in in_order(&*self.peers) {
            match ask(&*member.peer) {
                Err(problem)
                    if problem.exit == Exit::Temporary && problem.code != ProblemCode::Stopped =>
                {
                    tracing::info!(peer = member.name, %problem, "another peer is asked");
                    said.get_or_insert(problem);
                }
                outcome => return outcome,
            }
        }
        Err(said.unwrap_or_else(nobody))
    }
}

impl TargetPeer for AnyPeer {
    fn call(
        &self,
        request: TargetRequest<'_>,
        progress: &ProofProgress,
    ) -> Result<PeerReply, Problem> {
        self.ask(|peer| peer.call(request.clone(), progress))
    }

    fn find_surplus(&self, spec: &TaskSpec, query: SurplusQuery<'_>) -> Result<u64, Problem> {
        let member = self.fit(spec)?;
        *self.finder() = Some(member.writer);
        member.peer.find_surplus(spec, query)
    }

    fn delete(&self, spec: &TaskSpec, order: DeleteOrder<'_>) -> Result<(), Problem> {
        let finder = *self.finder();
        let is_it = |member: &Member| finder.is_none_or(|finder| member.writer == finder);
        let member = in_order(&*self.peers).into_iter().find(is_it).ok_or_else(|| {
            let title = "the peer that found the items to delete is gone";
            Problem::new(ProblemCode::FinderLost, title)
                .hint("the next attempt looks for the items again")
        })?;
        member.peer.delete(spec, order)
    }

    fn start(
        &self,
        spec: &TaskSpec,
        control: Arc<dyn TaskControl>,
    ) -> Result<Arc<dyn Task>, Problem> {
        self.first()?.peer.start(spec, control)
    }

    fn clean(
        &self,
        spec: &TaskSpec,
        pages: &mut dyn Iterator<Item = TaskPage>,
        generation_max: u32,
    ) -> Result<(), Problem> {
        self.fit(spec)?.peer.clean(spec, pages, generation_max)
    }
}
