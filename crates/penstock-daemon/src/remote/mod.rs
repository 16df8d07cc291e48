//! Target peers on other hosts of this site, as their controller drives them.
//!
//! [`RemotePeer`] is the `TargetPeer` of one of them: a task is a conversation of its own
//! ([`task`]), everything else a question with one answer. What an answer may take has an end, or
//! the peer says that it works on it ([`long`]).

pub(crate) mod client;
mod deletion;
mod long;
pub(crate) mod orders;
mod peer;
pub(crate) mod peers;
pub(crate) mod source;
mod task;

use std::sync::Arc;
use std::time::Duration;

use peer::{RemotePeer, compared_of, encoded, unreadable};
use penstock_api::delete::{DeleteOrder, SurplusQuery};
use penstock_api::plan::PlanItem;
use penstock_api::problem::Problem;
use penstock_api::proof::{PageProof, ProofProgress, ProofRequest};
use penstock_api::rpc::task::{EncodedPage, PeerCall};
use penstock_api::scan::RootKind;
use penstock_api::task::{
    Mended, Room, TargetPeer, Task, TaskControl, TaskPage, TaskSpec, TaskStart,
};
use penstock_api::transfer::PathText;
use penstock_proto::compared::{Comparison, EntrySet};
use penstock_proto::id::Name;
use penstock_proto::manifest::Page;
use penstock_proto::wire::Reader;
use task::RemoteTask;

use crate::http;

/// How long a peer may take to look at a store.
const LOOK: Duration = Duration::from_secs(30);
/// How long it may take for the names of a page.
const PAGE: Duration = Duration::from_secs(300);
/// How long it may take to read large files of a page again that were written to late.
const MEND: Duration = Duration::from_secs(3600);

impl TargetPeer for RemotePeer {
    fn root_kind(&self, store: &Name, path: &PathText) -> Result<Option<RootKind>, Problem> {
        let (store, path) = (store.clone(), path.clone());
        http::decode(&self.ask(PeerCall::RootKind { store, path }, None, LOOK)?)
    }

    fn prepare(&self, spec: &TaskSpec) -> Result<TaskStart, Problem> {
        http::decode(&self.ask(PeerCall::Prepare(Box::new(spec.clone())), None, LOOK)?)
    }

    fn compare(
        &self,
        spec: &TaskSpec,
        page: &Page,
        left: &EntrySet,
    ) -> Result<Comparison, Problem> {
        let question = PeerCall::Compare(Box::new(spec.clone()));
        let answer = self.ask(question, Some(&encoded(page, left)), PAGE)?;
        compared_of(&answer)
    }

    fn store_id(&self, store: &Name) -> Result<Option<u64>, Problem> {
        http::decode(&self.ask(PeerCall::StoreId { store: store.clone() }, None, LOOK)?)
    }

    fn room(&self, store: &Name) -> Result<Room, Problem> {
        http::decode(&self.ask(PeerCall::Room { store: store.clone() }, None, LOOK)?)
    }

    fn look(&self, spec: &TaskSpec, page: &Page) -> Result<Vec<PlanItem>, Problem> {
        let page = encoded(page, &EntrySet::default());
        http::decode(&self.ask(PeerCall::Look(Box::new(spec.clone())), Some(&page), PAGE)?)
    }

    fn same_size(&self, spec: &TaskSpec, page: &Page) -> Result<Vec<u32>, Problem> {
        let page = encoded(page, &EntrySet::default());
        http::decode(&self.ask(PeerCall::SameSize(Box::new(spec.clone())), Some(&page), PAGE)?)
    }

    fn compare_contents(
        &self,
        spec: &TaskSpec,
        page: &Page,
        digests: &[(u32, String)],
        progress: &ProofProgress,
    ) -> Result<Comparison, Problem> {
        self.compare_contents_there(spec, page, digests, progress)
    }

    fn find_surplus(&self, spec: &TaskSpec, query: SurplusQuery<'_>) -> Result<u64, Problem> {
        self.find_surplus_there(spec, query)
    }

    fn delete(&self, spec: &TaskSpec, order: DeleteOrder<'_>) -> Result<(), Problem> {
        self.delete_there(spec, order)
    }

    fn prove(&self, spec: &TaskSpec, request: &ProofRequest<'_>) -> Result<PageProof, Problem> {
        self.prove_there(spec, request)
    }

    fn start(
        &self,
        spec: &TaskSpec,
        control: Arc<dyn TaskControl>,
    ) -> Result<Arc<dyn Task>, Problem> {
        Ok(Arc::new(RemoteTask::start(self, spec, control)?))
    }

    fn confirm(
        &self,
        spec: &TaskSpec,
        page: &Page,
        wanted: &EntrySet,
    ) -> Result<EntrySet, Problem> {
        let question = PeerCall::Confirm(Box::new(spec.clone()));
        let answer = self.ask(question, Some(&encoded(page, wanted)), PAGE)?;
        EntrySet::decode(&mut Reader::new(&answer)).map_err(unreadable)
    }

    fn mend(
        &self,
        spec: &TaskSpec,
        page: &Page,
        files: &[(u32, String)],
    ) -> Result<Mended, Problem> {
        let question = PeerCall::Mend { spec: Box::new(spec.clone()), files: files.to_vec() };
        http::decode(&self.ask(question, Some(&encoded(page, &EntrySet::default())), MEND)?)
    }

    fn clean(
        &self,
        spec: &TaskSpec,
        pages: &mut dyn Iterator<Item = TaskPage>,
        generation_max: u32,
    ) -> Result<(), Problem> {
        let clean = |page: Option<&EncodedPage>| {
            let question = PeerCall::Clean { spec: Box::new(spec.clone()), generation_max };
            self.ask(question, page, PAGE).map(drop)
        };
        clean(None)?;
        for page in pages {
            let TaskPage { page, digest, left } = page;
            let page = EncodedPage { digest, left: (*left).clone(), bytes: page.encode() };
            clean(Some(&page))?;
        }
        Ok(())
    }
}
