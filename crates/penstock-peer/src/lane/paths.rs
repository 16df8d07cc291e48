//! Path choice of a running task: observes its lanes, and reports the changes of each path.

use std::collections::BTreeMap;
use std::time::Duration;

use penstock_api::task::TaskDecisionKind;
use penstock_engine::lanes::LaneDecision;
use penstock_engine::paths::{PathId, PathSight, PathSpec, PathState};
use penstock_proto::id::TransferId;
use penstock_proto::network::DataAddress;
use penstock_proto::units::Instant;

use crate::lane::dialer::Dialer;
use crate::lane::lane_handle::{Arrived, LaneHandle};
use crate::lane::path_notes::{PathNews, locals};
use crate::task::context::{TaskContext, TaskState};

/// Paths are looked at this often.
const LOOK: Duration = Duration::from_millis(200);
impl TaskState {
    /// Adds further paths.
    fn handle_further_paths(&mut self, dialer: &Dialer, further: &[PathSpec]) {
        self.lanes.handle_further(further);
        self.learn_paths(dialer);
        self.news = true;
    }
}

/// Adds paths to the addresses `peers`, at which the source can be reached now. Paths that no
/// longer lead anywhere are found dead like any path.
pub(crate) fn handle_peers(shared: &TaskContext, dialer: &Dialer, peers: &[DataAddress]) {
    let locals = locals(dialer.local_ends.as_ref());
    let mut state = shared.lock();
    let further = dialer.find_further(&locals, peers);
    if further.is_empty() {
        return;
    }
    tracing::info!(
        transfer = %shared.spec.transfer, site = %dialer.site, paths = further.len(),
        "there are further paths to the source"
    );
    state.handle_further_paths(dialer, &further);
    shared.wake.notify_all();
}

/// Observes the paths of a task: received segments, owed bytes, changes of state.
pub(crate) fn look(shared: &TaskContext, dialer: &Dialer, now: Instant) {
    let mut guard = shared.lock();
    let state = &mut *guard;
    if now.since(state.looked) < LOOK {
        return;
    }
    state.looked = now;
    let TaskState { lanes, fetch, closers, decisions, .. } = &mut *state;
    let mut open: BTreeMap<PathId, Vec<&LaneHandle>> = BTreeMap::new();
    // Lanes that owe something, and those of them that wait for the limit.
    let mut turns = BTreeMap::<PathId, (u32, u32)>::new();
    for (lane, closer) in closers.iter() {
        if let Some(path) = lanes.path_of_lane(*lane) {
            open.entry(path).or_default().push(closer);
            if fetch.owes(*lane) {
                let (owe, held) = turns.entry(path).or_insert((0, 0));
                (*owe, *held) = (*owe + 1, *held + u32::from(closer.is_held()));
            }
        }
    }
    let mut arrived = BTreeMap::new();
    for (path, closers) in &open {
        let sum = closers.iter().map(|lane| lane.arrived()).fold(Arrived::default(), Arrived::and);
        fetch.handle_order(*path, sum.segments, sum.behind);
        arrived.insert(*path, sum.bytes);
    }
    lanes.handle_tick(now, |path| {
        let closers = open.get(&path).map_or(&[][..], Vec::as_slice);
        PathSight {
            silence: closers.iter().map(|lane| lane.closer.unheard()).min().unwrap_or_default(),
            owed_bytes: fetch.asked_bytes_of(path),
            arrived_bytes: arrived.get(&path).copied().unwrap_or(0),
            stuck: closers.iter().any(|lane| lane.is_stuck(now)),
            held: turns.get(&path).map_or(0.0, |(owe, held)| f64::from(*held) / f64::from(*owe)),
        }
    });
    fetch.expect_paths(lanes.links());
    // Lanes that are held back, or have asked for everything, teach nothing about more lanes.
    if fetch.has_queue() && !shared.pace.is_in_debt() {
        lanes.handle_plenty(now);
    }
    while let Some((path, decision)) = lanes.poll_lane_decision() {
        let Some(ends) = dialer.ends(path) else { continue };
        let LaneDecision { before, wanted, reason } = decision;
        let reason = reason.as_str();
        let text = format!("wanted lanes over {ends}: {wanted}, before that {before}: {reason}");
        decisions.add(now, TaskDecisionKind::Lanes, text);
    }
    if !lanes.has_several() {
        return;
    }
    for lane in fetch.poll_late_lanes(now) {
        tracing::info!(lane = lane.0, "others bring sooner what a slow path owes");
        lanes.handle_late(now, lane);
    }
    for path in lanes.ids() {
        if let (PathState::Carrying, Some(ends)) = (lanes.state(path), dialer.ends(path)) {
            let rate = fetch.rate_of(path);
            dialer.book.note(&dialer.site, &ends, |note| note.rate = rate);
        }
    }
    tell_news(state, dialer, shared.spec.transfer, now);
}

/// Reports changes of paths to the log, the book and the listener.
fn tell_news(state: &mut TaskState, dialer: &Dialer, transfer: TransferId, now: Instant) {
    while let Some((path, news)) = state.lanes.poll_news() {
        state.fetch.handle_trial(path, news == PathState::Trial);
        let Some(ends) = dialer.ends(path) else { continue };
        let site = &dialer.site;
        match news {
            PathState::Dead | PathState::Crawling => {
                tracing::warn!(%site, %ends, state = news.as_str(), "path abandoned");
            }
            _ => tracing::info!(%site, %ends, state = news.as_str(), "path"),
        }
        let was = dialer.book.get(site, &ends).map_or(PathState::Untried, |note| note.state);
        dialer.book.note(site, &ends, |note| {
            (note.state, note.since) = (news, penstock_sys::now_seconds());
            match news {
                PathState::Carrying => note.why.clear(),
                PathState::Crawling => "it brought next to nothing".clone_into(&mut note.why),
                PathState::Dead if note.why.is_empty() => {
                    "no message arrived over it".clone_into(&mut note.why);
                }
                _ => {}
            }
        });
        let Some(note) = dialer.book.get(site, &ends) else { continue };
        let why = if note.why.is_empty() { String::new() } else { format!(": {}", note.why) };
        let text = format!("path {ends} is {}, before that {}{why}", news.as_str(), was.as_str());
        state.decisions.add(now, TaskDecisionKind::Path, text);
        if let Some(listener) = dialer.book.listener.get() {
            listener(&PathNews { transfer, site: site.clone(), was, note });
        }
    }
}
