//! The target side of a peer on another host.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use penstock_api::delete::{DeleteOrder, SurplusQuery};
use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::proof::{PageProof, ProofProgress};
use penstock_api::request::{PeerReply, PeerRequest, TargetRequest};
use penstock_api::task::{TargetPeer, Task, TaskControl, TaskSpec};

use super::call::Waiting;
use super::deletion;
use super::peer::RemotePeer;
use super::task::RemoteTask;

impl TargetPeer for RemotePeer {
    fn call(
        &self,
        request: TargetRequest<'_>,
        progress: &ProofProgress,
    ) -> Result<PeerReply, Problem> {
        let proves = matches!(request, TargetRequest::Prove { .. });
        let mut told = 0;
        let mut alive = |now: u64| {
            progress.bytes.fetch_add(now.saturating_sub(told), Ordering::Relaxed);
            told = told.max(now);
        };
        let (stop, found) = (&progress.stop, &mut |_| Ok(()));
        let waiting = Waiting { stop, alive: &mut alive, found };
        match self.send(PeerRequest::Target(request), None, waiting) {
            Err(problem) if problem.code == ProblemCode::Stopped && proves => {
                Ok(PageProof { stopped: true, ..PageProof::default() }.into())
            }
            Err(problem) if problem.code == ProblemCode::Stopped => {
                Err(problem.exit(Exit::Temporary))
            }
            reply => reply,
        }
    }

    fn find_surplus(&self, spec: &TaskSpec, query: SurplusQuery<'_>) -> Result<u64, Problem> {
        deletion::find_surplus(self, spec, query)
    }

    fn delete(&self, spec: &TaskSpec, order: DeleteOrder<'_>) -> Result<(), Problem> {
        deletion::delete(self, spec, order)
    }

    fn start(
        &self,
        spec: &TaskSpec,
        control: Arc<dyn TaskControl>,
    ) -> Result<Arc<dyn Task>, Problem> {
        Ok(Arc::new(RemoteTask::start(self, spec, control)?))
    }
}
