//! Puts the peer crate and the controller together: the only place that names both.

use std::net::TcpStream;
use std::sync::Arc;

use penstock_api::problem::{Exit, Problem};
use penstock_api::scan::{PageReply, RootKind, ScanRequest, SourcePeer};
use penstock_api::task::{TargetPeer, Task, TaskControl, TaskPage, TaskSpec, TaskStart};
use penstock_api::transfer::PathText;
use penstock_proto::id::{Name, TransferId};
use rustls::ServerConnection;

use crate::daemon::site::Site;

/// Takes a lane whose TLS handshake is done; called on a thread of its own, which it may keep.
pub(crate) type LaneHandler = Arc<dyn Fn(TcpStream, ServerConnection) + Send + Sync>;

/// The data plane of this host.
pub(crate) struct PeerParts {
    pub(crate) source: Arc<dyn SourcePeer>,
    pub(crate) target: Arc<dyn TargetPeer>,
    pub(crate) lane: LaneHandler,
}

/// Makes the data plane for a site's stores and keys.
///
/// # Errors
/// A store cannot be used.
pub(crate) fn peer(site: &Arc<Site>) -> anyhow::Result<PeerParts> {
    let _ = (&site.directory, &site.config.stores);
    Ok(PeerParts {
        source: Arc::new(NotWired),
        target: Arc::new(NotWired),
        lane: Arc::new(|_, _| tracing::warn!("lane refused: the data plane is not wired")),
    })
}

/// Stands in for the peer crate until it is wired.
struct NotWired;

fn not_wired() -> Problem {
    Problem::new(Exit::Temporary, "not-wired", "the data plane is not wired")
}

impl SourcePeer for NotWired {
    fn open_scan(&self, _: &ScanRequest) -> Result<RootKind, Problem> {
        Err(not_wired())
    }

    fn page(&self, _: TransferId, _: u32, _: u32) -> Result<PageReply, Problem> {
        Err(not_wired())
    }

    fn release(&self, _: TransferId) {}
}

impl TargetPeer for NotWired {
    fn root_kind(&self, _: &Name, _: &PathText) -> Result<Option<RootKind>, Problem> {
        Ok(None)
    }

    fn prepare(&self, _: &TaskSpec) -> Result<TaskStart, Problem> {
        Err(not_wired())
    }

    fn start(&self, _: &TaskSpec, _: Arc<dyn TaskControl>) -> Result<Arc<dyn Task>, Problem> {
        Err(not_wired())
    }

    fn clean(&self, _: &TaskSpec, _: &mut dyn Iterator<Item = TaskPage>, _: u32) {}
}
