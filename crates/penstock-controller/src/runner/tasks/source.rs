//! Peers of the source that come while a run goes on.
//!
//! A source tells with its scan where its peers listen for lanes. One that comes later, or was out
//! of reach just then, would bring nothing to a transfer of days: so the source is asked again now
//! and then. Peers that go are nobody's business here, their paths are found to be dead.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use penstock_api::problem::Problem;
use penstock_api::task::SourceAccess;
use penstock_proto::network::DataAddress;

use super::Tasks;

/// How often the source is asked: one small request to a site, whatever moves.
const ASK_INTERVAL: Duration = Duration::from_secs(5);

/// Gives where the source's peers listen for lanes at the moment. Blocks for as long as a request
/// to its site may.
pub type FindSource = Arc<dyn Fn() -> Result<Vec<DataAddress>, Problem> + Send + Sync>;

/// Asks the source now and then; never more than one question at a time.
pub(super) struct SourceWatch {
    find: Option<FindSource>,
    asked_at: Instant,
    asking: Option<JoinHandle<Result<Vec<DataAddress>, Problem>>>,
}

impl SourceWatch {
    /// Without `find` the source stays as it was.
    pub(super) fn new(find: Option<FindSource>) -> Self {
        Self { find, asked_at: Instant::now(), asking: None }
    }

    /// Where the source's peers listen, if an answer has come.
    fn poll(&mut self) -> Option<Vec<DataAddress>> {
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

impl Tasks {
    /// Tells tasks where the source's peers are, and those that begin later with the rest. Each
    /// time that is heard, news or not: one may have begun meanwhile, or have got another
    /// interface. Never blocks.
    pub(super) fn tell_source(&mut self) {
        let Some(found) = self.source.poll() else { return };
        let SourceAccess::Remote { peers, .. } = &mut self.parts.spec.source else { return };
        *peers = found;
        for working in &self.working {
            working.task.set_source_peers(peers);
        }
    }
}
