//! The figures of this peer, for Prometheus and other readers of its text format.
//!
//! Owners of facts count by plain atomics and return their figures. A `Part` turns figures of one
//! area into samples of the families in the `table`. A scrape asks all parts at once, each on a
//! thread of its own and with a deadline. A part that is late is left out, and not asked again
//! before it has returned. So a scrape waits for no store, no hung lock and no other host, and
//! takes few threads.
//!
//! | module | duty |
//! |---|---|
//! | `table` | names, kinds, labels and help of all families |
//! | `samples` | the values of one scrape |
//! | `requests` | the counts of requests of the API |
//! | `transfers` | the part of the controller: transfers and the queue |
//! | `data_plane` | the part of lanes, tasks and scans |
//! | `stores` | looks at stores, and their part |
//! | `site` | the part of the site: certificates, peers, admission, budgets |
//! | `host` | the part of the process, its threads and the network cards |
//! | `heartbeat` | proof that the loops of the daemon move |

pub(crate) mod data_plane;
pub(crate) mod heartbeat;
pub(crate) mod host;
pub(crate) mod requests;
mod samples;
pub(crate) mod site;
pub(crate) mod stores;
mod table;
pub(crate) mod transfers;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::registry::Registry;
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, timeout_at};

pub(crate) use requests::Requests;
pub(crate) use samples::Samples;
use table::SCRAPE_PART_UP;
pub use table::{Family, FamilyGroup, Kind, ShownBy, TABLE};

/// Time that the parts of a scrape have, all together: Prometheus waits for 10 s.
const PARTS_DEADLINE: Duration = Duration::from_secs(2);

/// The text format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Prometheus text, version 0.0.4.
    Prometheus,
    /// OpenMetrics text, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// Returns the format for a client that accepts this (RFC 9110, 12.5.1).
    pub(crate) fn of(accept: &str) -> Self {
        match accept.contains("application/openmetrics-text") {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    /// Returns the media type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

type Gather = Arc<dyn Fn(&mut Samples) + Send + Sync>;

/// An area of the daemon that returns samples.
pub(crate) struct Part {
    name: &'static str,
    gather: Gather,
    /// Set while it is asked.
    busy: Arc<AtomicBool>,
}

/// Marks a part as asked until it is dropped.
struct Busy(Arc<AtomicBool>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Part {
    /// Creates a part. `gather` may block, on short locks mostly.
    pub(crate) fn new(
        name: &'static str,
        gather: impl Fn(&mut Samples) + Send + Sync + 'static,
    ) -> Self {
        Self { name, gather: Arc::new(gather), busy: Arc::default() }
    }

    /// Asks the part on a thread of its own. Returns `None` if an earlier scrape still waits for
    /// it, or if no thread can be started.
    fn ask(&self) -> Option<oneshot::Receiver<Samples>> {
        if self.busy.swap(true, Ordering::AcqRel) {
            return None;
        }
        let (busy, gather) = (Busy(Arc::clone(&self.busy)), Arc::clone(&self.gather));
        let (answer, answered) = oneshot::channel();
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        let started = thread.spawn(move || {
            let mut samples = Samples::default();
            gather(&mut samples);
            drop(busy);
            // A late answer has no receiver.
            let _ = answer.send(samples);
        });
        started.is_ok().then_some(answered)
    }
}

/// All figures of this peer.
pub(crate) struct Metrics {
    parts: Vec<Part>,
    pub(crate) requests: Arc<Requests>,
    /// Held during a scrape: others wait for their turn.
    turn: Mutex<()>,
    deadline: Duration,
}

impl Metrics {
    /// Creates the figures of these parts, and of the requests that are counted from now on.
    pub(crate) fn new(parts: Vec<Part>) -> Arc<Self> {
        let (requests, turn) = Default::default();
        Arc::new(Self { parts, requests, turn, deadline: PARTS_DEADLINE })
    }

    /// Returns all figures as text. Waits for at most two seconds, and as long for each scrape
    /// before it.
    ///
    /// # Errors
    /// The text cannot be made, which is a fault of this program.
    pub(crate) async fn scrape(&self, format: Format) -> Result<String, fmt::Error> {
        let _turn = self.turn.lock().await;
        let deadline = Instant::now() + self.deadline;
        let asked: Vec<_> = self.parts.iter().map(|part| (part.name, part.ask())).collect();
        let mut samples = Samples::default();
        for (name, answer) in asked {
            let found = match answer {
                Some(answer) => timeout_at(deadline, answer).await.ok().and_then(Result::ok),
                None => None,
            };
            samples.flag(&SCRAPE_PART_UP, &[name], found.is_some());
            found.into_iter().for_each(|found| samples.merge(found));
        }
        samples.finish();
        let mut registry = Registry::default();
        registry.register_collector(Box::new(samples));
        registry.register_collector(Box::new(Arc::clone(&self.requests)));
        let mut encoded = String::new();
        match format {
            Format::Prometheus => prometheus_text::encode(&mut encoded, &registry)?,
            Format::OpenMetrics => text::encode(&mut encoded, &registry)?,
        }
        Ok(encoded)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::table::{TASKS, THREADS};
    use super::*;

    /// Promise: a hung part delays a scrape for a limited time, and is left out until it has
    /// returned. The others are present all the time.
    #[tokio::test]
    async fn a_part_that_hangs_is_left_out() {
        let (wake, woken) = channel::<()>();
        let woken = std::sync::Mutex::new(woken);
        let hangs = Part::new("hangs", move |samples| {
            let _ = woken.lock().unwrap().recv();
            samples.count(&TASKS, &[], 1);
        });
        let sound = Part::new("sound", |samples| samples.count(&THREADS, &[], 7));
        let deadline = Duration::from_millis(50);
        let metrics =
            Metrics { deadline, ..Arc::into_inner(Metrics::new(vec![hangs, sound])).unwrap() };
        for _ in 0..2 {
            let text = metrics.scrape(Format::Prometheus).await.unwrap();
            assert!(text.contains("penstock_scrape_part_up{part=\"hangs\"} 0"), "{text}");
            assert!(!text.contains("penstock_tasks"), "{text}");
        }
        drop(wake);
        while metrics.parts[0].busy.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let text = metrics.scrape(Format::OpenMetrics).await.unwrap();
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    /// Promise: a client gets the format that it asks for, and Prometheus text otherwise.
    #[test]
    fn the_format_is_the_one_asked_for() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;q=0.5";
        assert_eq!(Format::of(prometheus), Format::OpenMetrics);
        assert_eq!(Format::of("*/*"), Format::Prometheus);
    }
}
