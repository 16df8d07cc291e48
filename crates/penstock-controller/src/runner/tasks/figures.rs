//! The activity of the tasks of a run, in figures and words.

use std::time::Instant;

use penstock_api::peers::Member;
use penstock_api::preserve::add_not_kept;
use penstock_api::task::{LIMIT_SCAN, TaskFigures};
use penstock_api::transfer::PeerShare;
use penstock_proto::id::WriterId;

use super::Tasks;

impl Tasks {
    /// Returns the sums over all tasks, ended ones included. Returns also the activity of each
    /// peer, where there was ever more than one.
    pub(crate) fn figures(&mut self) -> (TaskFigures, Vec<PeerShare>) {
        if self.grant().is_none()
            && let [only] = &self.working[..]
        {
            return (only.task.figures(), Vec::new());
        }
        let mut sum = self.over.clone();
        let (mut limits, mut waits, mut moves) = (Vec::new(), Vec::new(), false);
        let mut shares = Vec::new();
        for working in &self.working {
            let name = &working.member.name;
            let figures = working.task.figures();
            let now = self.parts.peers.now();
            self.shares.handle_figures(working.part.number, &figures, now);
            let state = if working.is_draining { "draining" } else { "working" };
            shares.push(share(&working.member, state.to_owned(), &figures));
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
        for ending in &self.ending {
            let figures = ending.task.figures();
            // Until its end the task uses its share.
            self.shares.handle_figures(ending.part.number, &figures, self.parts.peers.now());
            shares.push(share(&ending.member, format!("leaving: {}", ending.why), &figures));
            add_figures(&mut sum, figures);
        }
        let coming = self.coming.iter();
        let none = TaskFigures::default();
        shares.extend(coming.map(|coming| share(&coming.member, "joining".to_owned(), &none)));
        shares.extend(self.shares_away());
        shares.extend(self.shares_left_out());
        self.tell_shares();
        (sum, shares)
    }

    fn shares_away(&self) -> impl Iterator<Item = PeerShare> + '_ {
        let there = |writer: WriterId| {
            let working = self.working.iter().map(|working| &working.member);
            let coming = self.coming.iter().map(|coming| &coming.member);
            let ending = self.ending.iter().map(|ending| &ending.member);
            working.chain(coming).chain(ending).any(|member| member.writer == writer)
        };
        let present = self.parts.peers.present();
        let full = self.taking() >= self.shares.peers_max();
        present.into_iter().filter(move |member| !there(member.writer)).filter_map(move |member| {
            let Some(away) = self.away.get(&member.writer) else {
                let state = "resting: the limits of the transfer leave no room for it".to_owned();
                let share = PeerShare { peer: member.name, state, ..PeerShare::default() };
                return (full && !member.is_draining).then_some(share);
            };
            let next = away.until.map_or_else(
                || "not tried again before it is restarted".to_owned(),
                |until| {
                    let wait = until.saturating_duration_since(Instant::now());
                    format!("next try in {:.0} s", wait.as_secs_f64())
                },
            );
            let state = format!("out: {}; {next}", away.why);
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
