//! The questions that are asked of the daemon again and again, and when each one is due.

use std::collections::BTreeMap;

/// Least time between two questions about one subject, in milliseconds.
const INTERVAL_MIN_MS: u64 = 1000;

/// The subject of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// Transfers that run.
    Running,
    /// Transfers that are queued or paused.
    Waiting,
    /// Transfers that need attention.
    Attention,
    /// Transfers that have ended.
    Ended,
    /// The order of the queue, with forecasts.
    Queue,
    /// The health of the site, with its peers.
    Health,
    /// Bytes that the peer has sent to other sites.
    Sent,
    /// The transfer that is open.
    Detail,
}

impl Subject {
    /// All subjects.
    pub(super) const ALL: [Self; 8] = [
        Self::Running,
        Self::Waiting,
        Self::Attention,
        Self::Ended,
        Self::Queue,
        Self::Health,
        Self::Sent,
        Self::Detail,
    ];

    /// Returns the time between two questions, in milliseconds, where no event asks for one before.
    fn interval_ms(self) -> u64 {
        match self {
            Self::Sent | Self::Detail => 2000,
            Self::Queue => 5000,
            Self::Running | Self::Waiting | Self::Attention | Self::Ended | Self::Health => 10_000,
        }
    }

    /// Returns the subject in words, behind "cannot".
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Running | Self::Waiting | Self::Attention | Self::Ended => "list transfers",
            Self::Queue => "show the queue",
            Self::Health => "show the health of the site",
            Self::Sent => "read the figures of the peer",
            Self::Detail => "show the transfer",
        }
    }
}

/// The turn of a subject: the time at which it is due, and the state of its question.
#[derive(Clone, Copy, Debug)]
struct Turn {
    due_ms: u64,
    asked_ms: Option<u64>,
    is_under_way: bool,
    /// False once the caller has no right to it.
    is_wanted: bool,
}

/// The turns of all subjects.
#[derive(Debug)]
pub(super) struct Looks {
    turns: BTreeMap<Subject, Turn>,
}

impl Looks {
    /// Returns turns that are all due.
    pub(super) fn new() -> Self {
        let turn = Turn { due_ms: 0, asked_ms: None, is_under_way: false, is_wanted: true };
        Self { turns: Subject::ALL.into_iter().map(|subject| (subject, turn)).collect() }
    }

    /// Makes a subject due as soon as its last question is old enough.
    pub(super) fn hasten(&mut self, subject: Subject) {
        self.at(subject, |turn| {
            let earliest = turn.asked_ms.map_or(0, |asked| asked + INTERVAL_MIN_MS);
            turn.due_ms = turn.due_ms.min(earliest);
        });
    }

    /// Makes a subject due this long from now at the latest, in milliseconds.
    pub(super) fn at_latest(&mut self, subject: Subject, within_ms: u64, now_ms: u64) {
        self.at(subject, |turn| turn.due_ms = turn.due_ms.min(now_ms + within_ms));
    }

    /// Never asks about a subject again.
    pub(super) fn give_up(&mut self, subject: Subject) {
        self.at(subject, |turn| turn.is_wanted = false);
    }

    /// Makes all subjects due, those too to which there was no right.
    pub(super) fn hasten_all(&mut self) {
        for subject in Subject::ALL {
            self.at(subject, |turn| turn.is_wanted = true);
            self.hasten(subject);
        }
    }

    /// Takes note of an answer, or of a failure to get one.
    pub(super) fn answered(&mut self, subject: Subject) {
        self.at(subject, |turn| turn.is_under_way = false);
    }

    /// Returns the subjects that are due, each of which is under way from now on.
    pub(super) fn poll(&mut self, now_ms: u64) -> Vec<Subject> {
        let mut due = Vec::new();
        for (subject, turn) in &mut self.turns {
            if turn.is_wanted && !turn.is_under_way && turn.due_ms <= now_ms {
                turn.is_under_way = true;
                turn.asked_ms = Some(now_ms);
                turn.due_ms = now_ms + subject.interval_ms();
                due.push(*subject);
            }
        }
        due
    }

    fn at(&mut self, subject: Subject, change: impl FnOnce(&mut Turn)) {
        if let Some(turn) = self.turns.get_mut(&subject) {
            change(turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: no subject is asked about twice at a time, more than once a second, or without the
    /// right to it.
    #[test]
    fn questions_are_rare() {
        let mut looks = Looks::new();
        assert_eq!(looks.poll(0).len(), Subject::ALL.len());
        looks.hasten(Subject::Running);
        assert!(looks.poll(5000).is_empty(), "no answer yet");
        looks.answered(Subject::Running);
        assert_eq!(looks.poll(5000), [Subject::Running]);
        looks.answered(Subject::Running);
        looks.hasten(Subject::Running);
        assert!(looks.poll(5999).is_empty());
        assert_eq!(looks.poll(6000), [Subject::Running]);
        looks.answered(Subject::Queue);
        looks.give_up(Subject::Queue);
        looks.at_latest(Subject::Queue, 0, 6000);
        assert!(looks.poll(60_000).is_empty());
        looks.hasten_all();
        assert_eq!(looks.poll(60_000), [Subject::Queue]);
    }
}
