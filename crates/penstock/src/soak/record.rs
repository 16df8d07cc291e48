//! The records of a soak: what its directory holds, a JSON object each.

use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::Location;
use penstock_proto::id::{Name, TransferId};
use serde::{Deserialize, Serialize};

use super::resent::{Resent, SentAgain};
use super::until::Until;

/// Version of the records.
pub(super) const RECORD_VERSION: u32 = 1;

/// Seconds without progress after which a round fails, unless a user gives others.
pub(super) const STALL_SECONDS: u64 = 15 * 60;

fn usual_stall() -> u64 {
    STALL_SECONDS
}

/// `soak.json`: what is repeated, and where it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SoakRecord {
    /// [`RECORD_VERSION`].
    pub(super) v: u32,
    /// Names the soak and its directory in the target store.
    pub(super) id: TransferId,
    /// Seed of the faults.
    pub(super) seed: u64,
    /// Source of each round.
    pub(super) source: Location,
    /// Place in which the soak makes its directory.
    pub(super) target: Location,
    /// End, as the last start of the command had it.
    pub(super) until: Until,
    /// Mean seconds between the begins of two faults; absent without faults.
    pub(super) every_seconds: Option<u64>,
    /// Seconds without progress after which a round fails.
    #[serde(default = "usual_stall")]
    pub(super) stall_seconds: u64,
    /// True if source and target are compared after each round, not only where data at rest was
    /// damaged.
    #[serde(default)]
    pub(super) compares: bool,
    /// First begin.
    pub(super) began: Timestamp,
    /// Seconds of work, over all starts.
    pub(super) seconds: f64,
    /// Number of starts of the command.
    pub(super) starts: u64,
    /// Number of faults that were begun.
    pub(super) faults: u64,
    /// True if the target store takes everything and keeps nothing.
    pub(super) is_null: bool,
    /// The round that is under way.
    pub(super) round: Option<RoundBegun>,
    /// Failures outside of rounds: a fault that could not be undone, an error that ended a start.
    pub(super) failures: Vec<String>,
    /// Things of the soak in the target store, in words: until its end, the data of rounds; after
    /// that, or after a cleaning, those that could not be removed.
    #[serde(default)]
    pub(super) left: Option<String>,
    /// True if a cleaning has cancelled a round, which is not done anew yet.
    #[serde(default)]
    pub(super) is_given_up: bool,
    /// Number of cleanings of the target store before the end.
    #[serde(default)]
    pub(super) cleanings: u64,
    /// Daemons that were asked, with their releases.
    pub(super) versions: Vec<String>,
    /// Bytes per second that the stores did when they were measured.
    #[serde(default)]
    pub(super) measured: Vec<Measured>,
}

/// A kept measurement of a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Measured {
    /// The store.
    pub(super) store: Name,
    /// `read` or `write`.
    pub(super) operation: String,
    /// Bytes per second, for files of the nearest size.
    pub(super) bytes_per_s: f64,
    /// Time of the measurement.
    pub(super) at: Timestamp,
}

/// A round that is under way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RoundBegun {
    /// Its number, from 1 on.
    pub(super) number: u64,
    /// Its transfer.
    pub(super) transfer: TransferId,
    /// Its begin.
    pub(super) began: Timestamp,
    /// Number of times that the transfer has failed and was retried by the soak.
    pub(super) retries: u32,
    /// Number of the last fault before the round.
    pub(super) faults_before: u64,
    /// True if the soak was started again meanwhile.
    #[serde(default)]
    pub(super) is_continued: bool,
    /// True from before the command of a fault that damages its data at rest; absent until that
    /// is settled.
    #[serde(default)]
    pub(super) is_damaged: Option<bool>,
    /// True once that command has succeeded; else it may have damaged nothing.
    #[serde(default)]
    pub(super) is_damage_certain: bool,
    /// Failures so far.
    pub(super) failures: Vec<String>,
    /// Bytes that were sent again so far.
    pub(super) resent: Resent,
}

/// A line of `rounds.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RoundRecord {
    /// Its number, from 1 on.
    pub(super) round: u64,
    /// Its transfer.
    pub(super) transfer: TransferId,
    /// Its begin.
    pub(super) began: Timestamp,
    /// Seconds of work of the soak at its end.
    pub(super) at_seconds: f64,
    /// Seconds from the begin of its first attempt to its end, with all stalls; where the soak was
    /// started again meanwhile, those of its attempts, as the receipt has them.
    pub(super) seconds: f64,
    /// True if the transfer is done and all was verified.
    pub(super) is_good: bool,
    /// Files verified and written.
    pub(super) files: u64,
    /// Bytes verified and written.
    pub(super) bytes: u64,
    /// Attempts of the daemon.
    pub(super) attempts: u32,
    /// Times that the transfer had failed and was retried by the soak.
    pub(super) retries: u32,
    /// Pieces repaired after a digest mismatch.
    pub(super) repairs: u64,
    /// Faults that were open during the round.
    pub(super) faults: u64,
    /// Bytes that were sent again, by fault.
    pub(super) sent_again: Vec<SentAgain>,
    /// Root digest of the data set; absent if the receipt has none.
    pub(super) root_digest: Option<String>,
    /// True if the source has signed the receipt too.
    pub(super) is_countersigned: bool,
    /// Comparison of source and target after the transfer, where one was made.
    pub(super) compared: Option<Compared>,
    /// Ends that were no success, and checks that failed.
    pub(super) failures: Vec<String>,
}

/// Result of a comparison of source and target by digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Compared {
    /// Files that differed and were sent again.
    pub(super) files: u64,
    /// True if a fault that damages data at rest was begun before.
    pub(super) is_damage_expected: bool,
}

/// Problem of a fault during which the soak was killed.
pub(super) const KILLED: &str = "the soak was killed meanwhile; the next start has undone it";

/// A line of `faults.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FaultRecord {
    /// Its number, from 1 on.
    pub(super) fault: u64,
    /// Its name.
    pub(super) name: Name,
    /// The round in which it began.
    pub(super) round: u64,
    /// True if it has damaged data at rest.
    #[serde(default)]
    pub(super) at_rest: bool,
    /// Its begin.
    pub(super) began: Timestamp,
    /// Seconds from the begin of `run` to the end of `heal`.
    pub(super) open_seconds: f64,
    /// Seconds from the begin of `run` until further bytes were seen to be verified, or the
    /// transfer to be done; absent if that was not seen.
    pub(super) progress_seconds: Option<f64>,
    /// Failure of one of its commands.
    pub(super) problem: Option<String>,
}

/// `open-faults.json`: the fault that is not undone yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct OpenFault {
    /// Its number.
    pub(super) fault: u64,
    /// Its name.
    pub(super) name: Name,
    /// The round in which it began.
    pub(super) round: u64,
    /// Its begin.
    pub(super) began: Timestamp,
    /// The command that undoes it.
    pub(super) heal: String,
    /// Seconds after which that command is killed.
    pub(super) timeout: u64,
    /// Variables of its commands.
    pub(super) environment: Vec<(String, String)>,
}

/// A line of `samples.jsonl`: figures of one daemon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct SampleRecord {
    /// Seconds of work of the soak.
    pub(super) at_seconds: f64,
    /// The daemon: its site and peer.
    pub(super) daemon: String,
    /// Process number of the daemon; a drift is that of one process.
    pub(super) process: u32,
    /// Resident memory.
    pub(super) memory_bytes: Option<f64>,
    /// Open file descriptors.
    pub(super) open_files: Option<f64>,
    /// Threads.
    pub(super) threads: Option<f64>,
    /// Bytes of its state, journal and statistics; absent where its directory cannot be read here.
    pub(super) state_bytes: Option<f64>,
    /// Bytes of its logs of events, audits, deliveries and decisions; absent as before.
    pub(super) log_bytes: Option<f64>,
}
