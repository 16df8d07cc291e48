//! Counts of the requests of the API, and of those that may block.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family as Families;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;

use super::table::{Family, HTTP_REQUESTS, HTTP_SECONDS, HTTP_UNDER_WAY};

/// Bounds of the durations, in seconds: a look in memory, one in the state, a journal that is busy,
/// a controller that is waited for.
const SECONDS: [f64; 9] = [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0];

type Labels<const N: usize> = [(&'static str, String); N];

/// Counts of requests. Operations are those of the table of endpoints, so that series are few.
#[derive(Debug)]
pub(crate) struct Requests {
    answered: Families<Labels<2>, Counter>,
    seconds: Families<Labels<1>, Histogram, fn() -> Histogram>,
    under_way: AtomicU64,
}

impl Default for Requests {
    fn default() -> Self {
        let seconds = Families::new_with_constructor((|| Histogram::new(SECONDS)) as fn() -> _);
        Self { answered: Families::default(), seconds, under_way: AtomicU64::new(0) }
    }
}

impl Requests {
    /// Counts a request as under way until the value that is returned is dropped.
    pub(crate) fn begin(&self) -> Counted<'_> {
        Counted::count(&self.under_way)
    }

    /// Counts a request whose answer had this status, after so long a time. `operation` is the name
    /// of its endpoint.
    pub(crate) fn count(&self, operation: &str, status: u16, took: Duration) {
        let operation = ("operation", operation.to_ascii_lowercase());
        let status = ("status", status.to_string());
        self.answered.get_or_create(&[operation.clone(), status]).inc();
        self.seconds.get_or_create(&[operation]).observe(took.as_secs_f64());
    }
}

impl Collector for Requests {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut add = |family: &Family, metric: &dyn EncodeMetric| {
            let (name, unit) = family.parts();
            let kind = family.kind.metric_type();
            metric.encode(encoder.encode_descriptor(name, family.help, unit, kind)?)
        };
        let under_way = ConstGauge::new(self.under_way.load(Ordering::Relaxed));
        add(&HTTP_UNDER_WAY, &under_way)?;
        add(&HTTP_REQUESTS, &self.answered)?;
        add(&HTTP_SECONDS, &self.seconds)
    }
}

/// Requests of this process that may block, as all its runtimes run them.
pub(crate) static BLOCKING: BlockingRequests = BlockingRequests::new();

/// Counts of requests that may block.
#[derive(Debug)]
pub(crate) struct BlockingRequests {
    waiting: AtomicU64,
    working: AtomicU64,
}

/// A request that counts until this is dropped.
pub(crate) struct Counted<'a>(&'a AtomicU64);

impl<'a> Counted<'a> {
    fn count(counter: &'a AtomicU64) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl BlockingRequests {
    const fn new() -> Self {
        Self { waiting: AtomicU64::new(0), working: AtomicU64::new(0) }
    }

    /// Counts a request that waits for a thread.
    pub(crate) fn wait(&self) -> Counted<'_> {
        Counted::count(&self.waiting)
    }

    /// Counts a request that has got one.
    pub(crate) fn work(&self) -> Counted<'_> {
        Counted::count(&self.working)
    }

    /// Returns how many requests wait for a thread, and how many are at work.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.waiting.load(Ordering::Relaxed), self.working.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prometheus_client::encoding::text;
    use prometheus_client::registry::Registry;

    use super::*;

    /// Promise: requests are counted by operation and status, and their times by operation.
    #[test]
    fn requests_are_counted() {
        let requests = Arc::new(Requests::default());
        for status in [200, 200, 403] {
            requests.count("SHOW_ME", status, Duration::from_millis(3));
        }
        let mut registry = Registry::default();
        registry.register_collector(Box::new(requests));
        let mut shown = String::new();
        text::encode(&mut shown, &registry).unwrap();
        for line in [
            r#"penstock_http_requests_total{operation="show_me",status="200"} 2"#,
            r#"penstock_http_requests_total{operation="show_me",status="403"} 1"#,
            r#"penstock_http_request_seconds_bucket{le="0.001",operation="show_me"} 0"#,
            r#"penstock_http_request_seconds_bucket{le="0.005",operation="show_me"} 3"#,
            r#"penstock_http_request_seconds_count{operation="show_me"} 3"#,
        ] {
            assert!(shown.contains(line), "{line} is not in {shown}");
        }
    }

    /// Promise: a request that may block is counted where it is, and nowhere once it has ended.
    #[test]
    fn blocking_requests_are_counted_where_they_are() {
        let requests = BlockingRequests::new();
        let waits = requests.wait();
        assert_eq!(requests.counts(), (1, 0));
        drop(waits);
        let works = requests.work();
        assert_eq!(requests.counts(), (0, 1));
        drop(works);
        assert_eq!(requests.counts(), (0, 0));
    }
}
