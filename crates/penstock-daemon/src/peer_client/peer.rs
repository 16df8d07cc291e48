//! A peer on another host: how it is reached.

use std::net::SocketAddr;
use std::sync::Arc;

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rpc::lease::{LeaseId, LeaseKind};
use penstock_api::rpc::task::{Caller, EncodedPage};
use penstock_api::task::TaskPage;
use penstock_proto::id::Name;
use penstock_proto::wire::DecodeError;
use tokio::runtime::Handle;

use super::client::PeerClient;
use crate::leases::Leases;

/// A peer on another host.
#[derive(Clone)]
pub(crate) struct RemotePeer {
    pub(crate) name: Name,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) client: PeerClient,
    pub(crate) runtime: Handle,
    /// The controller on whose behalf this host asks.
    pub(crate) caller: Caller,
    /// The leases of this host as a controller.
    pub(crate) leases: Arc<Leases>,
}

impl RemotePeer {
    /// Grants the peer a lease. The caller ends or revokes it.
    pub(super) fn give_lease(&self, kind: LeaseKind) -> LeaseId {
        self.leases.give(kind, self.caller.epoch, &self.name)
    }

    /// Returns the problem, with the name of the peer in its title.
    pub(super) fn named(&self, problem: Problem) -> Problem {
        Problem { title: format!("peer `{}`: {}", self.name, problem.title), ..problem }
    }
}

/// Returns the problem of an answer of another release.
pub(super) fn unreadable(error: DecodeError) -> Problem {
    let title = "this release does not understand the answer of a peer";
    Problem::new(ProblemCode::PeerReply, title).because(error)
}

/// Returns a page as it is sent to a task, kept while several peers ask for it.
pub(super) fn travelling(page: &TaskPage) -> EncodedPage {
    EncodedPage { digest: page.digest, left: (*page.left).clone(), bytes: page.page.encode() }
}
