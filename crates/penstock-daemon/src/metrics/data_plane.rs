//! The part of the data plane: lanes, tasks, buffers, scans, paths, calls to stores.

use std::sync::Arc;

use penstock_peer::{
    PathState, SourceFigures, SourceService, TargetFigures, TargetService, TrafficFigures,
};
use penstock_proto::id::PeerId;

use super::table::{
    ACTIVITY, BUFFERS, BUFFERS_MAX, BYTES, CONNECTIONS_AHEAD, DIALS_FAILED, HANDOVERS, LANES,
    LANES_LOST, NAMELESS, PATH_RATE, PATH_ROUND_TRIP, PATH_UP, REPAIRS, REPORTS, REQUESTS_REFUSED,
    RESENT_BYTES, SCANS, STORE_CALL_SECONDS, STORE_CALLS, STORE_HANGING, STORE_LOOKS,
    TASK_REQUESTS, TASKS, UNSYNCED,
};
use super::{Part, Samples};

/// The direction of lanes that fetch, of lanes that serve, and of copies within this host.
const IN: &str = "in";
const OUT: &str = "out";
const WITHIN: &str = "within";

/// Returns the part.
pub(crate) fn part(own: PeerId, target: Arc<TargetService>, source: Arc<SourceService>) -> Part {
    Part::new("data-plane", move |samples| {
        add_lanes(samples, &own, &target);
        add_target(samples, &own, &target.figures());
        add_source(samples, &own, &source.figures());
    })
}

fn add_lanes(samples: &mut Samples, own: &PeerId, target: &TargetService) {
    for load in &target.loads(&own.peer) {
        let Some(site) = &load.source else { continue };
        for path in &load.paths {
            samples.count(&LANES, &[IN, site.as_str(), &path.network], path.lanes.into());
        }
    }
}

fn add_target(samples: &mut Samples, own: &PeerId, figures: &TargetFigures) {
    for traffic in &figures.traffic {
        let site = traffic.site.as_ref().unwrap_or(&own.site).as_str();
        let direction = if traffic.site.is_some() { IN } else { WITHIN };
        add_traffic(samples, direction, site, traffic);
        samples.count(&RESENT_BYTES, &[site, "lane-lost"], traffic.resent.lane_lost);
        samples.count(&RESENT_BYTES, &[site, "entry-failed"], traffic.resent.entry_failed);
        samples.count(&REPAIRS, &[site], traffic.repairs);
        samples.count(&DIALS_FAILED, &[site], traffic.dials_failed);
    }
    let queues = figures.queues;
    samples.count(&TASKS, &[], queues.tasks as u64);
    samples.count(&TASK_REQUESTS, &["queued"], queues.queued as u64);
    samples.count(&TASK_REQUESTS, &["asked"], queues.asked as u64);
    samples.count(&TASK_REQUESTS, &["retrying"], queues.retrying as u64);
    samples.count(&UNSYNCED, &[], queues.unsynced_bytes);
    samples.count(&NAMELESS, &[], queues.nameless as u64);
    samples.count(&REPORTS, &[], queues.reports as u64);
    add_paths(samples, figures);
    add_stores(samples, figures);
    let buffers = figures.buffers;
    samples.count(&BUFFERS, &["in-use"], buffers.in_use as u64);
    samples.count(&BUFFERS, &["idle"], buffers.idle as u64);
    samples.count(&BUFFERS_MAX, &[], buffers.buffers_max as u64);
    samples.count(&CONNECTIONS_AHEAD, &[], figures.connections_ahead as u64);
    samples.count(&HANDOVERS, &[], figures.handovers as u64);
}

fn add_stores(samples: &mut Samples, figures: &TargetFigures) {
    for calls in &figures.stores {
        let store = calls.store.as_str();
        samples.count(&STORE_CALLS, &[store, "answered"], calls.answered);
        samples.count(&STORE_CALLS, &[store, "unanswered"], calls.unanswered);
        samples.add(&STORE_CALL_SECONDS, &[store], calls.took.as_secs_f64());
        samples.count(&STORE_HANGING, &[store], calls.hanging as u64);
        samples.count(&STORE_LOOKS, &[store, "working"], calls.looks as u64);
        samples.count(&STORE_LOOKS, &[store, "waiting"], calls.waiting as u64);
    }
}

fn add_traffic(samples: &mut Samples, direction: &str, site: &str, traffic: &TrafficFigures) {
    samples.count(&BYTES, &[direction, site], traffic.bytes);
    samples.count(&LANES_LOST, &[direction, site], traffic.lanes_lost);
    samples.count(&REQUESTS_REFUSED, &[direction, site], traffic.refusals);
    for (activity, nanoseconds) in traffic.time.parts() {
        let labels = [direction, site, activity.name()];
        samples.add(&ACTIVITY, &labels, nanoseconds as f64 / 1e9);
    }
}

/// Adds the paths. A path that two interfaces share has one series, as only their local ends
/// differ.
fn add_paths(samples: &mut Samples, figures: &TargetFigures) {
    for (site, note) in &figures.paths {
        let (local, remote) = (note.ends.local.to_string(), note.ends.remote.address.to_string());
        let network = note.ends.network();
        let labels = [site.as_str(), &local, &remote, &network];
        let is_up = !matches!(note.state, PathState::Dead | PathState::Crawling);
        samples.flag(&PATH_UP, &labels, is_up);
        samples.add(&PATH_RATE, &labels, note.rate);
        if let Some(rtt) = note.rtt {
            samples.add(&PATH_ROUND_TRIP, &labels, rtt.as_secs_f64());
        }
    }
}

fn add_source(samples: &mut Samples, own: &PeerId, figures: &SourceFigures) {
    for traffic in &figures.traffic {
        let site = traffic.site.as_ref().unwrap_or(&own.site).as_str();
        add_traffic(samples, OUT, site, traffic);
        // The far end knows over which network its lanes come.
        samples.count(&LANES, &[OUT, site, ""], traffic.lanes_open);
    }
    samples.count(&SCANS, &[], figures.scans as u64);
}
