//! The inputs and the result of a run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use penstock_api::access::AccountName;
use penstock_api::fence::Fence;
use penstock_api::heads::{HeadStore, LedgerHead};
use penstock_api::peers::Peers;
use penstock_api::problem::Problem;
use penstock_api::scan::PageSource;
use penstock_api::task::{SourceAccess, TargetPeer, TaskSpec};
use penstock_api::transfer::{Encryption, PathText, TransferOptions};
use penstock_proto::frame::Framing;
use penstock_proto::id::{Name, TransferId, WriterId};
use penstock_proto::network::DataAddress;
use penstock_proto::units::FileTime;

use super::any_peer::AnyPeer;
use super::control::RunControl;

/// Interval at which the figures are updated.
pub(crate) const VIEW_INTERVAL: Duration = Duration::from_millis(200);
/// Failed items that are kept for `show`; the list has all.
pub(crate) const FAILURES_SHOWN: usize = 20;

/// Returns the addresses on which the source's peers accept lanes at the moment. Blocks for as long
/// as a request to its site may.
pub type FindSource = Arc<dyn Fn() -> Result<Vec<DataAddress>, Problem> + Send + Sync>;

/// The inputs of a run.
pub struct RunInput {
    /// The transfer.
    pub id: TransferId,
    /// The source list that `pages` belong to. A ledger of an earlier list is replaced, and pieces
    /// that it proves are not moved again.
    pub listing: u32,
    /// Set if the target differs from the target of the earlier list's ledger. The ledger's facts
    /// about its store are discarded then.
    pub is_new_target: bool,
    /// Options of the transfer.
    pub options: TransferOptions,
    /// Store at the target.
    pub store: Name,
    /// Root of the data set within it.
    pub root: PathText,
    /// The source of the pages.
    pub pages: Box<dyn PageSource>,
    /// The access to the data.
    pub source: SourceAccess,
    /// Finds peers of the source that come later; none where it is this host, or one process.
    pub find_source: Option<FindSource>,
    /// The target peers.
    pub peers: Arc<dyn Peers>,
    /// The store in which the heads are committed.
    pub heads: Arc<dyn HeadStore>,
    /// Directory of this transfer in the journal store; made if it is not there.
    pub journal: PathBuf,
    /// The control through which others steer and watch the run.
    pub control: Arc<RunControl>,
    /// Source and target as the user wrote them, for the head of a plan.
    pub places: (PathText, PathText),
    /// Bits per second that were measured between these stores, if they were: for a forecast.
    pub known_rate: Option<f64>,
    /// Checks whether this site's controller may still act (B4).
    pub fence: Fence,
    /// Account as which mapped stores of this site are used.
    pub account: Option<AccountName>,
}

impl RunInput {
    /// Returns one peer that represents all, for work that one does for all.
    pub(crate) fn peer(&self) -> Arc<dyn TargetPeer> {
        Arc::new(AnyPeer::new(Arc::clone(&self.peers)))
    }

    /// Returns the specification of the run's task for a peer.
    pub(crate) fn task_spec(&self, head: &LedgerHead) -> TaskSpec {
        TaskSpec {
            transfer: self.id,
            store: self.store.clone(),
            root: self.root.clone(),
            store_id: head.store,
            mounts: head.mounts.clone(),
            writer: WriterId::SOLE,
            epoch: 0,
            doubt: false,
            source: self.source.clone(),
            digest: self.options.digest,
            framing: match self.options.encryption {
                Encryption::Tls => Framing::Tls,
                Encryption::Off => Framing::Clear,
            },
            cipher_suite: self.options.cipher_suite,
            durability: self.options.durability,
            digest_list: self.options.digest_list,
            proves: self.options.proof.reads_again(),
            preserve: self.options.preserve.clone(),
            lanes_max: self.options.lanes_max,
            lanes: self.options.lanes,
            networks: self.options.networks.clone(),
            limits: self.options.limits,
            update: self.options.update.clone(),
            select: self.options.select.clone(),
            remove_source: self.options.remove_source,
            began: FileTime::default(),
            fence: self.fence.clone(),
            grant: None,
            account: self.account.clone(),
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// Every planned item is verified, and durable under the stated policy.
    Done,
    /// Ended with failed items, or could not continue; the problem has the exit code.
    Failed(Problem),
    /// Stopped by [`RunControl::pause`] with its ledger committed.
    Paused,
    /// Stopped by [`RunControl::cancel`]. No temporary files are left, or its heads are left, and
    /// all of them are still known.
    Cancelled,
}
