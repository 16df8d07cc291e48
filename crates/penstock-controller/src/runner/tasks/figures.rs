//! The activity of the tasks of a run, in figures and words.

use penstock_api::peers::Member;
use penstock_api::preserve::add_not_kept;
use penstock_api::task::{LIMIT_SCAN, TaskFigures};
use penstock_api::transfer::PeerShare;
use penstock_proto::id::WriterId;

use super::task_set::{Stage, TaskSet};

impl TaskSet {
    /// Returns the sums over all tasks, ended ones included. Returns also the activity of each
    /// peer, where there was ever more than one.
    pub(crate) fn figures(&mut self) -> (TaskFigures, Vec<PeerShare>) {
        if self.grant().is_none()
            && let Some((_, _, only)) = self.running().next()
        {
            return (only.figures(), Vec::new());
        }
        let mut sum = self.over.clone();
        let (mut limits, mut waits, mut moves) = (Vec::new(), Vec::new(), false);
        let mut shares = Vec::new();
        let now = self.parts.peers.now();
        for (number, it) in &self.tasks {
            let Stage::Running(task) = &it.stage else { continue };
            let (name, figures) = (&it.member.name, task.figures());
            self.shares.handle_figures(*number, &figures, now);
            let state = if self.registry.is_draining(*number) { "draining" } else { "working" };
            shares.push(share(&it.member, state.to_owned(), &figures));
            limits.push((figures.limit.clone(), format!("{name}: {}", figures.limit)));
            moves |= figures.waiting.is_empty();
            waits.push(format!("{name}: {}", figures.waiting));
            sum.lanes += figures.lanes;
            add_figures(&mut sum, figures);
        }
        let alike = limits.iter().all(|(limit, _)| *limit == limits[0].0);
        sum.limit = match &limits[..] {
            [] => String::new(),
            [(limit, _), ..] if alike => limit.clone(),
            _ => join(limits.iter().map(|(_, text)| text.as_str())),
        };
        sum.waiting = if moves { String::new() } else { join(waits.iter().map(String::as_str)) };
        if moves
            && sum.limit == LIMIT_SCAN
            && let Some((limit, waiting)) = self.waits_for_former()
        {
            (sum.limit, sum.waiting) = (limit, waiting);
        }
        for (number, it) in &self.tasks {
            let Stage::Stopping { task, why, .. } = &it.stage else { continue };
            let figures = task.figures();
            // Until its end the task uses its share.
            self.shares.handle_figures(*number, &figures, now);
            shares.push(share(&it.member, format!("leaving: {why}"), &figures));
            add_figures(&mut sum, figures);
        }
        let starting = self.tasks.values().filter(|it| matches!(it.stage, Stage::Starting(_)));
        let none = TaskFigures::default();
        shares.extend(starting.map(|it| share(&it.member, "joining".to_owned(), &none)));
        shares.extend(self.shares_away());
        shares.extend(self.shares_excluded());
        self.tell_shares();
        (sum, shares)
    }

    fn shares_away(&self) -> impl Iterator<Item = PeerShare> + '_ {
        let there = |writer: WriterId| self.tasks.values().any(|it| it.member.writer == writer);
        let present = self.parts.peers.present();
        let full = self.registry.taking() >= self.shares.peers_max();
        present.into_iter().filter(move |member| !there(member.writer)).filter_map(move |member| {
            let Some((met, again)) = self.registry.last_failure(member.writer, self.now()) else {
                let state = "resting: the limits of the transfer leave no room for it".to_owned();
                let share = PeerShare { peer: member.name, state, ..PeerShare::default() };
                return (full && !member.is_draining).then_some(share);
            };
            let next = again.map_or_else(
                || "not tried again before it is restarted".to_owned(),
                |wait| format!("next try in {:.0} s", wait.as_secs_f64()),
            );
            let state = format!("out: {}; {next}", met.why);
            Some(PeerShare { peer: member.name, state, ..PeerShare::default() })
        })
    }
}

fn share(member: &Member, state: String, figures: &TaskFigures) -> PeerShare {
    PeerShare {
        peer: member.name.clone(),
        state,
        lanes: figures.lanes,
        bytes_verified: figures.bytes_verified,
        waiting: figures.waiting.clone(),
    }
}

/// Peers that are named in one line.
const NAMED_MAX: usize = 3;

fn join<'a>(texts: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = texts.len().saturating_sub(NAMED_MAX);
    let mut text = texts.take(NAMED_MAX).collect::<Vec<_>>().join("; ");
    if more > 0 {
        text.push_str(&format!("; and {more} more"));
    }
    text
}

/// Adds the counters of a task to a sum.
pub(super) fn add_figures(sum: &mut TaskFigures, of: TaskFigures) {
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
