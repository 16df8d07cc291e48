//! A running task, and the controller's side as the task calls it.

use std::time::Duration;

use penstock_proto::journal::Incarnation;
use penstock_proto::network::DataAddress;
use penstock_proto::task::{Report, WorkReply};
use serde::{Deserialize, Serialize};

use crate::options::limits::{Share, ShareUsed};
use crate::options::preserve::NotKept;
use crate::problem::Problem;
use crate::run::task::decision::TaskDecision;
use crate::run::task_page::TaskPage;
use crate::time_use::TransferTime;

/// Answer of a controller to a task that reports that it is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseStatus {
    /// Its grant holds for its duration again, counted from the question.
    Granted,
    /// There was no answer.
    Unheard,
    /// The task takes no part any more: its work in hand belongs to another.
    Over,
}

/// The controller's side, as a peer calls it. No method blocks for longer than the reading of a
/// page.
pub trait TaskControl: Send + Sync {
    /// Returns more work, worth about `bytes` if there is that much.
    fn want(&self, bytes: u64) -> WorkReply;

    /// Returns a page that work named.
    ///
    /// # Errors
    /// The page cannot be read from the journal store.
    fn page(&self, number: u32) -> Result<TaskPage, Problem>;

    /// Returns whether the entry with other names at this path in the data set has failed: no
    /// further name may then be given to what is there instead (B6). To be asked when all files are
    /// durable; costs only a look where nothing has failed.
    fn has_failed(&self, path: &[u8]) -> bool;

    /// Returns whether [`TaskControl::has_failed`] may return true for any path. Where asking is a
    /// round trip, a peer then need not ask for each.
    fn may_have_failed(&self) -> bool {
        true
    }

    /// Takes over reports, in order. They count from then on as long as the controller lives; they
    /// are committed within a second.
    fn report(&self, reports: Vec<Report>);

    /// Reports that the task cannot continue. If it was the last one, the transfer stops with this
    /// problem.
    fn broken(&self, problem: Problem);

    /// Reports that the task is alive. To be called several times in the duration of a grant, which
    /// this renews.
    fn alive(&self) -> LeaseStatus {
        LeaseStatus::Granted
    }
}

/// Measurements of a task at its peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskFigures {
    /// Bytes of payload that arrived and were verified.
    pub bytes_verified: u64,
    /// Bytes of payload that arrived and were thrown away, or asked for a second time.
    pub bytes_resent: u64,
    /// Pieces repaired after a digest mismatch.
    pub repairs: u64,
    /// Lanes open now.
    pub lanes: u32,
    /// Limit of the rate now, in words.
    #[serde(deserialize_with = "crate::text::field")]
    pub limit: String,
    /// Time of its threads and of the lanes of its source, since it began; none of a peer of an
    /// earlier release.
    #[serde(default)]
    pub time: TransferTime,
    /// Event that the task waits for, and until when; empty if it moves.
    #[serde(deserialize_with = "crate::text::field")]
    pub waiting: String,
    /// Seconds for which its current call to the store has given no sign of life (E2); 0 if there
    /// is no such call.
    #[serde(default)]
    pub hangs_s: u64,
    /// Attributes that were not kept, in this run.
    pub not_kept: Vec<NotKept>,
    /// CPU seconds of the whole process since the task began.
    pub cpu_seconds: f64,
    /// Addresses over which its lanes went and their protection, in words; some of them, if there
    /// are many. None where source and target are one host.
    pub paths: Vec<String>,
    /// Share in the limits of its transfer, as it was last told.
    pub share: Share,
    /// Use of the rate, while there was a limit.
    pub rate_used: ShareUsed,
    /// Use of the metadata operations, while there was a limit.
    pub names_used: ShareUsed,
    /// Decisions about lanes and paths of the last seconds, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<TaskDecision>,
}

/// Work of an earlier task of the same writer for a controller that did not commit it (A7). That
/// task ran in the same process and under the same circumstances as the task that reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// Epoch of that controller.
    pub epoch: u64,
    /// True if it wrote under a grant that held until the new task began: no other peer was given
    /// the same work. Otherwise that holds for the next controller only.
    pub granted: bool,
    /// The reports, all of them [`Report::Written`].
    pub reports: Vec<Report>,
}

/// A running task.
pub trait Task: Send + Sync {
    /// Returns the present measurements.
    fn figures(&self) -> TaskFigures;

    /// Returns the circumstances under which it began to write, after the previous task there had
    /// ended: a failed sync of that one is counted (A4).
    fn incarnation(&self) -> Incarnation;

    /// Takes the work of an earlier task for the present controller; returned once.
    fn take_adopted(&self) -> Option<Adopted> {
        None
    }

    /// Says that the ledger has committed the first `batches` calls of [`TaskControl::report`].
    fn committed(&self, batches: u64) {
        let _ = batches;
    }

    /// Makes the task ask for work, since there may be some now; for a task at another host, makes
    /// the controller examine its last question again. A task that is not woken asks by itself, a
    /// moment later. Never blocks for long.
    fn wake(&self) {}

    /// Says that its controller is deposed and silent from now on. The task keeps uncommitted work
    /// for the next controller, and continues for as long as it has a grant. Never blocks for long.
    fn leave(&self) {
        self.stop(false);
    }

    /// Returns how long it has been hanging in a call to its store: [`TaskFigures::hangs_s`].
    fn hangs_for(&self) -> Duration {
        Duration::ZERO
    }

    /// Says that everything in the ledger has been checked again: epochs mark the store from now
    /// on.
    fn doubt_is_over(&self);

    /// Sets the share for the time from now on.
    fn set_share(&self, share: &Share);

    /// Sets the addresses at which the source's peers listen for lanes now; new ones are used too.
    /// Does nothing where the data set is read here.
    fn set_source_peers(&self, peers: &[DataAddress]);

    /// Stops fetching, ends what is in progress, hands over its last reports, joins its threads.
    /// With `discard` it removes the temporary files that it knows.
    fn stop(&self, discard: bool);
}
