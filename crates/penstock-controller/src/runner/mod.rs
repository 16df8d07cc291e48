//! Runs one transfer at its target: pulls pages, hands out work, keeps the ledger.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use penstock_api::heads::HeadStore;
use penstock_api::problem::Problem;
use penstock_api::scan::PageSource;
use penstock_api::task::{SourceAccess, TargetPeer};
use penstock_api::transfer::{FailedItem, PathText, Progress, TransferOptions};
use penstock_proto::id::{Name, TransferId};
use std::sync::Mutex;

/// What a run needs.
pub struct RunInput {
    /// The transfer.
    pub id: TransferId,
    /// How it is to be done.
    pub options: TransferOptions,
    /// Store at the target.
    pub store: Name,
    /// Root of the data set within it.
    pub root: PathText,
    /// Where the pages come from.
    pub pages: Box<dyn PageSource>,
    /// Where the data come from.
    pub source: SourceAccess,
    /// The target peer.
    pub peer: Arc<dyn TargetPeer>,
    /// Where the heads are committed.
    pub heads: Arc<dyn HeadStore>,
    /// Directory of this transfer in the journal store; made if it is not there.
    pub journal: PathBuf,
    /// How others steer and watch the run.
    pub control: Arc<RunControl>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// Every planned item is verified, and durable under the stated policy.
    Done,
    /// Ended with failed items, or could not go on; the problem says how to exit.
    Failed(Problem),
    /// Stopped by [`RunControl::pause`] with its ledger committed.
    Paused,
    /// Stopped by [`RunControl::cancel`]; nothing temporary is left.
    Cancelled,
}

/// Steers and watches a run from other threads.
#[derive(Debug, Default)]
pub struct RunControl {
    wish: AtomicU8,
    view: Mutex<RunView>,
}

/// What others see of a run.
#[derive(Clone, Debug, Default)]
pub struct RunView {
    /// Figures.
    pub progress: Progress,
    /// What it waits for, and until when; empty if it moves.
    pub reason: String,
    /// How the data is made durable, in words.
    pub durable_by: String,
    /// The first failed items.
    pub failures: Vec<FailedItem>,
}

impl RunControl {
    /// Asks the run to stop and keep its ledger.
    pub fn pause(&self) {
        let _ = self.wish.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Asks the run to stop and remove what it made.
    pub fn cancel(&self) {
        self.wish.store(2, Ordering::Release);
    }

    /// What is to be seen of the run now.
    pub fn view(&self) -> RunView {
        self.view.lock().map(|view| view.clone()).unwrap_or_default()
    }
}
