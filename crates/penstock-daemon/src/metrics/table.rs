//! The families of metrics: one table, from which the reference is written, and which a scrape is
//! checked against.
//!
//! Names follow <https://prometheus.io/docs/practices/naming/>: base units, `_total` for counters.
//! Values of labels are few: sites, stores, cards, codes. No path and no user is one.

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// The kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rises, and begins at zero when the daemon or a tenure begins.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Counts of values by their size.
    Histogram,
}

impl Kind {
    /// Returns its name in the exposition format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }

    pub(super) fn metric_type(self) -> MetricType {
        match self {
            Self::Counter => MetricType::Counter,
            Self::Gauge => MetricType::Gauge,
            Self::Histogram => MetricType::Histogram,
        }
    }
}

/// The peers that show a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownBy {
    /// Every peer.
    Each,
    /// The controller of a site.
    Controller,
    /// Peers of a site of several.
    SeveralPeers,
}

impl ShownBy {
    /// Returns the words of the reference.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Each => "each peer",
            Self::Controller => "controller",
            Self::SeveralPeers => "each of several peers",
        }
    }
}

/// A family of metrics.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// Its whole name, with unit and `_total`.
    pub name: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The peers that show it.
    pub shown_by: ShownBy,
    /// Names of its labels, in order.
    pub labels: &'static [&'static str],
    /// Meaning, in one sentence.
    pub help: &'static str,
}

/// Units, by the end of a name.
const UNITS: [(&str, Unit); 2] = [("_seconds", Unit::Seconds), ("_bytes", Unit::Bytes)];

impl Family {
    /// Returns the name without `_total` and unit, and the unit: encoders add both.
    pub(super) fn parts(&self) -> (&'static str, Option<&'static Unit>) {
        let name = self.name.strip_suffix("_total").unwrap_or(self.name);
        let unit = UNITS.iter().find_map(|(end, unit)| Some((name.strip_suffix(end)?, unit)));
        unit.map_or((name, None), |(stem, unit)| (stem, Some(unit)))
    }
}

/// Families of one area, in the order of the reference.
#[derive(Debug)]
pub struct FamilyGroup {
    /// The area.
    pub name: &'static str,
    /// Its families.
    pub families: &'static [&'static Family],
}

macro_rules! families {
    ($($area:literal:
        $($name:ident $text:literal $kind:ident $shown:ident $labels:tt $help:literal;)+
    )+) => {
        $($(
            pub(crate) static $name: Family = Family {
                name: $text,
                kind: Kind::$kind,
                shown_by: ShownBy::$shown,
                labels: &$labels,
                help: $help,
            };
        )+)+

        /// All families.
        pub static TABLE: &[FamilyGroup] =
            &[$(FamilyGroup { name: $area, families: &[$(&$name),+] }),+];
    };
}

families! {
    "Transfers":
    TRANSFERS "penstock_transfers" Gauge Controller ["state"]
        "Transfers of this site that have not ended.";
    TRANSFERS_ENDED "penstock_transfers_ended_total" Counter Controller ["state"]
        "Transfers that have ended.";
    TRANSFER_FAILURES "penstock_transfer_failures_total" Counter Controller ["code"]
        "Transfers that have failed, by the code of the problem.";
    FAILED_ITEMS "penstock_failed_items_total" Counter Controller []
        "Items that failed in transfers that have ended.";
    LAST_DONE "penstock_last_transfer_done_timestamp_seconds" Gauge Controller []
        "Time at which a transfer was done last; absent before the first one of this controller.";
    TRANSFER_DURABLE "penstock_transfer_durable_bytes" Gauge Controller ["transfer", "source"]
        "Bytes of a running transfer that are durable.";
    TRANSFER_FOUND "penstock_transfer_found_bytes" Gauge Controller ["transfer", "source"]
        "Bytes that the scan of a running transfer has found so far.";
    TRANSFER_FILES "penstock_transfer_files" Gauge Controller ["transfer", "source"]
        "Files of a running transfer that are verified and written.";
    TRANSFER_ERRORS "penstock_transfer_errors" Gauge Controller ["transfer", "source"]
        "Items of a running transfer that failed.";
    TRANSFER_LANES "penstock_transfer_lanes" Gauge Controller ["transfer", "source"]
        "Open lanes of a running transfer.";
    QUEUE_LENGTH "penstock_queue_length" Gauge Controller ["code"]
        "Transfers that wait, by the code of the reason.";
    QUEUE_WAIT "penstock_queue_wait_seconds" Gauge Controller ["code"]
        "Longest present wait, by the code of the reason.";
    ATTEMPTS_RUNNING "penstock_attempts_running" Gauge Controller []
        "Attempts at transfers that have a thread.";
    ATTEMPTS_ENDED "penstock_attempts_ended_total" Counter Controller []
        "Attempts at transfers that have ended.";
    RETRIES "penstock_retries_total" Counter Controller ["code"]
        "Attempts that failed and are repeated, by the code of the problem.";
    EVENTS "penstock_events_total" Counter Controller []
        "Events of transfers.";
    EVENT_LISTENERS "penstock_event_listeners" Gauge Controller []
        "Readers of events now; the log and the webhooks of the controller are two.";
    EVENT_RESETS "penstock_event_resets_total" Counter Controller []
        "Times that a reader of events was told that it has missed some.";
    WEBHOOK_DELIVERIES "penstock_webhook_deliveries_total" Counter Controller ["result"]
        "Attempts to tell other programs of ended transfers.";
    WEBHOOK_WAITING "penstock_webhook_messages_waiting" Gauge Controller []
        "Messages to other programs that are not delivered yet.";

    "Data":
    BYTES "penstock_bytes_total" Counter Each ["direction", "site"]
        "Bytes of payload that lanes carried, with those that were sent again.";
    RESENT_BYTES "penstock_resent_bytes_total" Counter Each ["site", "cause"]
        "Bytes that had to be fetched once more: their lane was lost, or an entry failed a check.";
    REPAIRS "penstock_repairs_total" Counter Each ["site"]
        "Pieces that were repaired after a digest mismatch.";
    LANES "penstock_lanes" Gauge Each ["direction", "site", "network"]
        "Open lanes; of those to other sites the far end knows the network.";
    LANES_LOST "penstock_lanes_lost_total" Counter Each ["direction", "site"]
        "Lanes that broke.";
    DIALS_FAILED "penstock_lane_dials_failed_total" Counter Each ["site"]
        "Lanes that could not be opened.";
    REQUESTS_REFUSED "penstock_lane_refusals_total" Counter Each ["direction", "site"]
        "Requests over lanes that the source refused.";
    ACTIVITY "penstock_activity_seconds_total" Counter Each ["direction", "site", "activity"]
        "Time of the threads of transfers; `cpu` and `cpu_wait` are parts of all others.";
    TASKS "penstock_tasks" Gauge Each []
        "Tasks that fetch and write at this peer.";
    TASK_REQUESTS "penstock_task_requests" Gauge Each ["state"]
        "Requests of all tasks: queued, asked for over a lane, waiting for another attempt.";
    UNSYNCED "penstock_unsynced_bytes" Gauge Each []
        "Bytes that were written since the last sync of their store began.";
    NAMELESS "penstock_pieces_nameless" Gauge Each []
        "Written pieces that wait for a sync or for their names.";
    REPORTS "penstock_reports_waiting" Gauge Each []
        "Reports of tasks that the controller has not taken.";
    BUFFERS "penstock_buffers" Gauge Each ["state"]
        "Buffers of fetching lanes.";
    BUFFERS_MAX "penstock_buffers_max" Gauge Each []
        "Most buffers of fetching lanes; at this limit lanes wait.";
    STRIDES "penstock_source_strides" Gauge Each ["site", "state"]
        "Buffers of serving lanes, by the site that they serve.";
    STRIDES_MAX "penstock_source_strides_max" Gauge Each ["site"]
        "Most buffers of serving lanes of a site; at this limit lanes wait.";
    SCANS "penstock_scans" Gauge Each []
        "Scans of data sets that have a place at this peer.";
    CONNECTIONS_AHEAD "penstock_connections_ahead" Gauge Each []
        "Connections that were dialled ahead and that no lane has taken.";
    HANDOVERS "penstock_handovers" Gauge Each []
        "Reports of ended tasks that wait for another controller.";
    PATH_UP "penstock_path_up" Gauge Each ["site", "local", "remote", "network"]
        "Whether the path carried lanes, or could have, when a transfer used it last.";
    PATH_ROUND_TRIP "penstock_path_round_trip_seconds" Gauge Each
        ["site", "local", "remote", "network"]
        "Least round trip seen over a path.";
    PATH_RATE "penstock_path_bytes_per_second" Gauge Each ["site", "local", "remote", "network"]
        "Bytes per second over a path at the last observation.";
    NIC_BYTES "penstock_nic_bytes_total" Counter Each ["nic", "direction"]
        "Bytes of a network card, of all programs of the host.";

    "Stores":
    STORE_UP "penstock_store_up" Gauge Each ["store"]
        "Whether the last look at the store found it, and was answered in time.";
    STORE_FREE "penstock_store_free_bytes" Gauge Each ["store"]
        "Free bytes of the file system of a store, as the last look found them.";
    STORE_SIZE "penstock_store_size_bytes" Gauge Each ["store"]
        "Size of the file system of a store.";
    STORE_LOOK "penstock_store_look_seconds" Gauge Each ["store"]
        "Duration of the last look at a store that was answered.";
    STORE_CALLS "penstock_store_calls_total" Counter Each ["store", "result"]
        "Calls to a store before work begins there; those without an answer took too long.";
    STORE_CALL_SECONDS "penstock_store_call_seconds_total" Counter Each ["store"]
        "Time of the calls to a store that were answered.";
    STORE_HANGING "penstock_store_hanging_threads" Gauge Each ["store"]
        "Threads that hang in a store now.";
    STORE_LOOKS "penstock_store_looks" Gauge Each ["store", "state"]
        "Calls to a store that is read from: under way, and waiting for others to end.";

    "Site":
    BUILD "penstock_build_info" Gauge Each ["version", "site", "peer"]
        "The release of the daemon, its site and its peer.";
    CONTROLLER "penstock_controller" Gauge Each []
        "Whether this peer is the controller of its site.";
    PEERS "penstock_peers" Gauge Each []
        "Peers of the site that are present.";
    CERTIFICATE_EXPIRY "penstock_certificate_expiry_timestamp_seconds" Gauge Each ["kind"]
        "Time after which a certificate of this peer is not accepted.";
    CLOCK_ERROR "penstock_clock_error_seconds" Gauge Each []
        "Largest error of the clock, as the kernel knows it; infinite while nothing keeps it.";
    ETCD_WRITES "penstock_etcd_writes_total" Counter SeveralPeers []
        "Transactions of this peer that changed etcd.";
    ETCD_WRITTEN_BYTES "penstock_etcd_written_bytes_total" Counter SeveralPeers []
        "Bytes of keys and values in these transactions.";
    ETCD_UNANSWERED "penstock_etcd_unanswered_total" Counter SeveralPeers []
        "Calls that no endpoint of etcd answered in time.";
    PEER_PLACES "penstock_peer_places" Gauge Each ["kind"]
        "Places that work for other peers of the site has taken: calls of the controller, lists.";
    PEER_PLACES_MAX "penstock_peer_places_max" Gauge Each ["kind"]
        "Places for such work; at this limit it waits or is refused.";

    "Requests":
    HTTP_REQUESTS "penstock_http_requests_total" Counter Each ["operation", "status"]
        "Requests of the API, by operation and HTTP status.";
    HTTP_SECONDS "penstock_http_request_seconds" Histogram Each ["operation"]
        "Time until the head of an answer of the API.";
    HTTP_UNDER_WAY "penstock_http_requests_under_way" Gauge Each []
        "Requests of the API whose answer has not begun.";
    HTTP_CONNECTIONS "penstock_http_connections" Gauge Each []
        "Open connections of the HTTPS API.";
    BLOCKING "penstock_blocking_requests" Gauge Each ["state"]
        "Requests that may block: at work, and waiting for a thread.";
    AUTH_FAILURES "penstock_auth_failures_total" Counter Each ["reason"]
        "Requests of the API whose credentials were not accepted.";
    BUSY_USERS "penstock_user_refusals_total" Counter Each ["place"]
        "Requests of users that were refused, as the user has too many connections or requests.";
    AUDIT_LINES "penstock_audit_lines_total" Counter Each ["result"]
        "Lines of the audit log.";
    REJECTIONS "penstock_admission_rejections_total" Counter Each ["what"]
        "Connections, lanes, tokens and requests to pair that were refused.";
    HANDSHAKE_WAIT "penstock_handshake_wait_seconds_total" Counter Each []
        "Time that TLS handshakes had to wait for their turn.";
    ADMISSION_PLACES "penstock_admission_places" Gauge Each ["stage", "source"]
        "Connections without credentials, by how far they have come.";
    SITE_PLACES "penstock_site_places" Gauge Each ["site", "duty"]
        "Places that a paired site has taken: connections, requests, lanes and others.";
    SITE_PLACES_MAX "penstock_site_places_max" Gauge Each ["site", "duty"]
        "Places that a paired site may take.";
    SITE_BYTES "penstock_site_bytes" Gauge Each ["site", "kind"]
        "Memory that a paired site has taken: requests, answers that are not sent, pages.";
    SITE_MAX_BYTES "penstock_site_max_bytes" Gauge Each ["site", "kind"]
        "Memory that a paired site may take; at this limit its requests wait.";

    "Process":
    CPU "process_cpu_seconds_total" Counter Each []
        "CPU time of the daemon, in user and kernel mode.";
    CPUS "penstock_cpus" Gauge Each []
        "CPUs that the daemon may use.";
    RESIDENT "process_resident_memory_bytes" Gauge Each []
        "Resident memory of the daemon.";
    VIRTUAL "process_virtual_memory_bytes" Gauge Each []
        "Virtual memory of the daemon.";
    OPEN_FDS "process_open_fds" Gauge Each []
        "Open file descriptors.";
    MAX_FDS "process_max_fds" Gauge Each []
        "Most file descriptors that may be open.";
    THREADS "process_threads" Gauge Each []
        "Threads of the daemon.";
    START_TIME "process_start_time_seconds" Gauge Each []
        "Start of the daemon, in seconds since 1970.";
    RUNTIME_WORKERS "penstock_runtime_workers" Gauge Each ["runtime"]
        "Threads that serve requests and control the daemon.";
    RUNTIME_TASKS "penstock_runtime_tasks" Gauge Each ["runtime"]
        "Tasks of these threads that have not ended.";
    RUNTIME_QUEUE "penstock_runtime_queue_length" Gauge Each ["runtime"]
        "Tasks that wait for one of these threads.";
    RUNTIME_BUSY "penstock_runtime_busy_seconds_total" Counter Each ["runtime"]
        "Time in which these threads worked, all together.";
    LOOP_SILENCE "penstock_loop_silence_seconds" Gauge Each ["loop"]
        "Time since a loop of the daemon last moved.";
    LOOP_SILENCE_MAX "penstock_loop_silence_max_seconds" Gauge Each ["loop"]
        "Longest time that a loop may not move: then the watchdog restarts the daemon.";
    SCRAPE_PART_UP "penstock_scrape_part_up" Gauge Each ["part"]
        "Whether the families of this part of the daemon were there in time.";
    SERIES_LEFT_OUT "penstock_series_left_out" Gauge Each []
        "Series beyond the largest number of one family, which are not shown.";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Promise: names are unique and follow the rules of Prometheus, and each family has a
    /// description.
    #[test]
    fn names_follow_the_conventions() {
        let mut names = BTreeSet::new();
        for family in TABLE.iter().flat_map(|group| group.families) {
            let name = family.name;
            assert!(names.insert(name), "{name} is there twice");
            assert!(name.starts_with("penstock_") || name.starts_with("process_"), "{name}");
            assert_eq!(name.ends_with("_total"), family.kind == Kind::Counter, "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            assert!(family.help.ends_with('.'), "{name}");
        }
        assert_eq!(BYTES.parts(), ("penstock", Some(&Unit::Bytes)));
        assert_eq!(LANES.parts(), ("penstock_lanes", None));
    }
}
