//! Peers of the source that appear during a run.
//!
//! With its scan a source reports the addresses on which its peers accept lanes. A peer that
//! appears later, or was unreachable at that moment, would add nothing to a transfer of days. The
//! source is therefore asked again at intervals. Peers that disappear need no handling here: their
//! paths are found to be dead.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use penstock_api::problem::Problem;
use penstock_proto::network::DataAddress;

use crate::runner::input::FindSource;

/// Interval at which the source is asked: one small request to a site, for any transfer.
const ASK_INTERVAL: Duration = Duration::from_secs(5);

/// Asks the source at intervals; never more than one question at a time.
pub(super) struct SourceWatch {
    find: Option<FindSource>,
    asked_at: Instant,
    asking: Option<JoinHandle<Result<Vec<DataAddress>, Problem>>>,
}

impl SourceWatch {
    /// Returns a watch of the source's addresses. Without `find` the source stays as it was.
    pub(super) fn new(find: Option<FindSource>) -> Self {
        Self { find, asked_at: Instant::now(), asking: None }
    }

    /// Returns the addresses of the source's peers, if an answer has come.
    pub(super) fn poll(&mut self) -> Option<Vec<DataAddress>> {
        let find = self.find.as_ref()?;
        if let Some(asking) = self.asking.take_if(|asking| asking.is_finished()) {
            return match asking.join() {
                Ok(Ok(peers)) => Some(peers).filter(|peers| !peers.is_empty()),
                Ok(Err(problem)) => {
                    tracing::debug!(%problem, "the source does not say where its peers are");
                    None
                }
                Err(_) => None,
            };
        }
        if self.asking.is_none() && self.asked_at.elapsed() >= ASK_INTERVAL {
            self.asked_at = Instant::now();
            let find = Arc::clone(find);
            let thread = std::thread::Builder::new().name("find-source".to_owned());
            self.asking = thread.spawn(move || find()).ok();
        }
        None
    }
}
