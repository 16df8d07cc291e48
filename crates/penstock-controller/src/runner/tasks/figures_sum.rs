//! The activity of the tasks of a run, in figures and words: their sum, and a line for each peer.

use std::time::Duration;

use penstock_api::bottleneck::BottleneckCode;
use penstock_api::preserve::add_not_kept;
use penstock_api::task::TaskFigures;
use penstock_api::transfer::PeerShare;

/// Peers that are named in one line.
const NAMED_MAX: usize = 3;

/// The figures of all tasks, while they are added up. Peers are added in the order of their lines.
#[derive(Debug)]
pub(super) struct FiguresSum {
    sum: TaskFigures,
    lines: Vec<PeerShare>,
    /// Limit of each working task, by the name of its peer.
    limits: Vec<(String, String)>,
    /// Event that each working task waits for; empty if it moves data.
    waits: Vec<(String, String)>,
}

impl FiguresSum {
    /// Begins with the counters of tasks that are over.
    pub(super) fn new(ended: &TaskFigures) -> Self {
        let (lines, limits, waits) = (Vec::new(), Vec::new(), Vec::new());
        Self { sum: ended.clone(), lines, limits, waits }
    }

    /// Adds a task that works.
    pub(super) fn add_working(&mut self, peer: &str, is_draining: bool, figures: TaskFigures) {
        let state = if is_draining { "draining" } else { "working" };
        self.lines.push(line(peer, state.to_owned(), &figures));
        self.limits.push((peer.to_owned(), figures.limit.clone()));
        self.waits.push((peer.to_owned(), figures.waiting.clone()));
        self.sum.lanes += figures.lanes;
        add_counters(&mut self.sum, peer, figures);
    }

    /// Adds a task that is stopping.
    pub(super) fn add_leaving(&mut self, peer: &str, why: &str, figures: TaskFigures) {
        self.lines.push(line(peer, format!("leaving: {why}"), &figures));
        add_counters(&mut self.sum, peer, figures);
    }

    /// Adds a peer that was asked to start a task.
    pub(super) fn add_joining(&mut self, peer: &str) {
        self.add_idle(peer, "joining".to_owned());
    }

    /// Adds a peer that has failed and is left alone for this time; `None` until its process is
    /// another one.
    pub(super) fn add_out(&mut self, peer: &str, why: &str, again: Option<Duration>) {
        let next = again.map_or_else(
            || "not tried again before it is restarted".to_owned(),
            |wait| format!("next try in {:.0} s", wait.as_secs_f64()),
        );
        self.add_idle(peer, format!("out: {why}; {next}"));
    }

    /// Adds a peer for which the limits have no room.
    pub(super) fn add_resting(&mut self, peer: &str) {
        self.add_idle(peer, "resting: the limits of the transfer leave no room for it".to_owned());
    }

    /// Adds a peer of the site that cannot take part.
    pub(super) fn add_excluded(&mut self, peer: &str, why: &str) {
        self.add_idle(peer, format!("left out: {why}"));
    }

    fn add_idle(&mut self, peer: &str, state: String) {
        self.lines.push(line(peer, state, &TaskFigures::default()));
    }

    /// Returns the sums, and the lines of the peers. `former` returns the time for which work is
    /// held back for writers of an earlier run, if any is: it explains a wait for the scan.
    pub(super) fn finish(
        mut self,
        former: impl FnOnce() -> Option<Duration>,
    ) -> (TaskFigures, Vec<PeerShare>) {
        let moves = self.waits.iter().any(|(_, waiting)| waiting.is_empty());
        self.sum.limit = match &self.limits[..] {
            [] => String::new(),
            [(_, first), rest @ ..] if rest.iter().all(|(_, limit)| limit == first) => {
                first.clone()
            }
            limits => join(limits),
        };
        self.sum.waiting = if moves { String::new() } else { join(&self.waits) };
        // A peer that lacks work knows nothing of the reason.
        let lacks = [BottleneckCode::Grant, BottleneckCode::Scan].map(|code| code.text(None));
        if moves
            && lacks.contains(&self.sum.limit)
            && let Some(held) = former()
        {
            self.sum.limit = BottleneckCode::FormerPeer.text(None);
            self.sum.waiting = format!(
                "a peer that took part before has not been heard of and may still write to large \
                 files: they go on in {} s, or when it has joined",
                held.as_secs()
            );
        }
        (self.sum, self.lines)
    }
}

fn line(peer: &str, state: String, figures: &TaskFigures) -> PeerShare {
    PeerShare {
        peer: peer.to_owned(),
        state,
        lanes: figures.lanes,
        bytes_verified: figures.bytes_verified,
        waiting: figures.waiting.clone(),
    }
}

fn join(texts: &[(String, String)]) -> String {
    let more = texts.len().saturating_sub(NAMED_MAX);
    let named = texts.iter().take(NAMED_MAX).map(|(peer, text)| format!("{peer}: {text}"));
    let mut text = named.collect::<Vec<_>>().join("; ");
    if more > 0 {
        text.push_str(&format!("; and {more} more"));
    }
    text
}

/// Adds the counters of a task of the peer `peer` to a sum.
pub(super) fn add_counters(sum: &mut TaskFigures, peer: &str, mut of: TaskFigures) {
    of.time.name_target(peer);
    sum.time.add(&of.time);
    sum.bytes_verified += of.bytes_verified;
    sum.bytes_resent += of.bytes_resent;
    sum.repairs += of.repairs;
    sum.cpu_seconds += of.cpu_seconds;
    add_not_kept(&mut sum.not_kept, &of.not_kept);
    for path in of.paths {
        if !sum.paths.contains(&path) {
            sum.paths.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(bytes: u64, limit: &str, waiting: &str) -> TaskFigures {
        TaskFigures {
            bytes_verified: bytes,
            lanes: 2,
            limit: limit.to_owned(),
            waiting: waiting.to_owned(),
            paths: vec!["10.0.0.1 to 10.0.0.2".to_owned()],
            ..TaskFigures::default()
        }
    }

    fn none() -> Option<Duration> {
        None
    }

    /// Promise: bytes of tasks that have ended or are leaving stay in the sum; lanes are those of
    /// working tasks.
    #[test]
    fn no_byte_is_lost_from_the_sum_when_a_peer_leaves() {
        let mut ended = TaskFigures::default();
        add_counters(&mut ended, "a", figures(1, "", ""));
        let mut sum = FiguresSum::new(&ended);
        sum.add_working("a", false, figures(10, "the disk", ""));
        sum.add_working("b", true, figures(100, "the disk", ""));
        sum.add_leaving("c", "drained", figures(1000, "", "its end"));
        sum.add_joining("d");
        sum.add_out("e", "it hangs", Some(Duration::from_secs(5)));
        sum.add_out("f", "another store", None);
        sum.add_resting("g");
        sum.add_excluded("h", "an old release");
        let (sum, lines) = sum.finish(none);
        assert_eq!((sum.bytes_verified, sum.lanes, sum.paths.len()), (1111, 4, 1));
        assert_eq!((sum.limit.as_str(), sum.waiting.as_str()), ("the disk", ""));
        let states: Vec<_> = lines.iter().map(|line| line.state.as_str()).collect();
        let [working, draining, leaving, joining, out, never, resting, excluded] = states[..]
        else {
            panic!("{states:?}");
        };
        assert_eq!([working, draining, leaving], ["working", "draining", "leaving: drained"]);
        assert_eq!((joining, out), ("joining", "out: it hangs; next try in 5 s"));
        assert_eq!(never, "out: another store; not tried again before it is restarted");
        assert!(resting.starts_with("resting: ") && excluded == "left out: an old release");
    }

    /// Promise: a run waits only if all of its peers do; limits that differ are named by
    /// peer, a few of them.
    #[test]
    fn a_run_waits_when_all_of_its_peers_wait() {
        let mut sum = FiguresSum::new(&TaskFigures::default());
        for peer in ["a", "b", "c", "d"] {
            sum.add_working(peer, false, figures(0, peer, "its disk"));
        }
        let (shown, _) = sum.finish(none);
        assert_eq!(shown.waiting, "a: its disk; b: its disk; c: its disk; and 1 more");
        assert_eq!(shown.limit, "a: a; b: b; c: c; and 1 more");
        let (idle, _) = FiguresSum::new(&TaskFigures::default()).finish(none);
        assert_eq!((idle.limit.as_str(), idle.waiting.as_str()), ("", ""));
    }

    /// Promise: if only the grant of an earlier peer holds work back, the run reports that, with
    /// the time (B3).
    #[test]
    fn b3_a_wait_for_an_earlier_writer_is_shown() {
        let held = || Some(Duration::from_secs(40));
        let mut sum = FiguresSum::new(&TaskFigures::default());
        sum.add_working("a", false, figures(0, &BottleneckCode::Grant.text(None), ""));
        let (shown, _) = sum.finish(held);
        assert_eq!(shown.limit, BottleneckCode::FormerPeer.text(None));
        assert!(shown.waiting.contains("they go on in 40 s"), "{shown:?}");
        let mut sum = FiguresSum::new(&TaskFigures::default());
        sum.add_working("a", false, figures(0, "the disk", ""));
        assert_eq!(sum.finish(held).0.limit, "the disk", "there is other work");
    }
}
