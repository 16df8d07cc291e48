//! The reason for which a transfer waits, as users see it.

use serde::{Deserialize, Serialize};

use crate::problem::{ObjectKind, ObjectRef};
use crate::timestamp::Timestamp;
use crate::transfer::{TransferReport, TransferState, Waiting};

/// The reason for which a transfer waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct WaitingView {
    /// The kind of the reason: `turn`, `retry`, `room`, `user`, …; the manual lists all of them.
    #[serde(deserialize_with = "crate::text::field")]
    pub code: String,
    /// Time since which it waits for this reason.
    pub since: Timestamp,
    /// End of the wait; absent where an event ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The object for which it waits, or the user who paused it; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<ObjectRef>,
    /// Number of transfers that would start before it; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// The reason in words.
    #[serde(deserialize_with = "crate::text::field")]
    pub text: String,
}

/// The words for a code, and the kind of the object that it names.
const WORDS: &[(&str, &str, ObjectKind)] = &[
    ("turn", "its turn", ObjectKind::Other),
    ("share", "its share of the queue", ObjectKind::User),
    ("pause-rule", "the end of a hold", ObjectKind::Rule),
    ("window", "its window to open", ObjectKind::Site),
    ("not-before", "its start time", ObjectKind::Other),
    ("retry", "its next attempt", ObjectKind::Store),
    ("room", "room at the target", ObjectKind::Store),
    ("store-offline", "a store that is offline", ObjectKind::Store),
    ("store-hung", "a store that does not answer", ObjectKind::Store),
    ("site-unreachable", "a site that does not answer", ObjectKind::Site),
    ("no-path", "a path to the other site", ObjectKind::Site),
    ("no-peer", "a peer that can take part", ObjectKind::Store),
    ("no-controller", "a controller", ObjectKind::Site),
    ("certificate", "a certificate that is valid", ObjectKind::Site),
    ("drain", "the end of a drain", ObjectKind::Peer),
    (USER, "a user to resume it", ObjectKind::User),
    ("plan-stale", "another plan", ObjectKind::Other),
];

/// The code of a transfer that a user has paused.
const USER: &str = "user";

/// The words for a pause that ends by itself.
const PAUSE_END: &str = "the end of its pause";

impl WaitingView {
    /// Returns the words for a code, as they follow "waits for"; `None` for a code of another
    /// release.
    pub fn words_of(code: &str) -> Option<&'static str> {
        WORDS.iter().find(|(known, ..)| *known == code).map(|(_, words, _)| *words)
    }

    /// Returns the reason for which a transfer waits; `None` if it moves or has ended.
    pub fn of(report: &TransferReport) -> Option<Self> {
        let pause = report.attempts.pause.as_ref();
        let created_ms = report.created.saturating_mul(1000);
        let known = report.waiting.clone();
        let waiting = match report.state {
            TransferState::Paused => Some(Waiting {
                code: USER.to_owned(),
                since_ms: pause.map_or(created_ms, |pause| pause.since_ms),
                until_ms: pause.and_then(|pause| pause.until_ms),
                on: pause.map(|pause| pause.by.clone()).unwrap_or_default(),
                position: None,
            }),
            // The queue has not looked at it yet.
            TransferState::Queued => Some(known.unwrap_or_else(|| Waiting {
                code: "turn".to_owned(),
                since_ms: created_ms,
                until_ms: None,
                on: String::new(),
                position: None,
            })),
            TransferState::Running => known,
            TransferState::Done | TransferState::Failed | TransferState::Cancelled => None,
        };
        waiting.map(Self::from)
    }
}

impl From<Waiting> for WaitingView {
    fn from(waiting: Waiting) -> Self {
        let Waiting { code, since_ms, until_ms, on, position } = waiting;
        let known = WORDS.iter().find(|(known, ..)| *known == code);
        let (words, kind) =
            known.map_or((code.as_str(), ObjectKind::Other), |(_, words, kind)| (words, *kind));
        let words = if code == USER && until_ms.is_some() { PAUSE_END } else { words };
        let before = match position {
            Some(before @ 1..) => format!(": {before} before it"),
            _ => String::new(),
        };
        let at = if on.is_empty() { String::new() } else { format!(" ({on})") };
        Self {
            text: format!("{words}{before}{at}"),
            since: Timestamp::of_ms(since_ms),
            until: until_ms.map(Timestamp::of_ms),
            on: (!on.is_empty()).then_some(ObjectRef { kind, name: on }),
            position,
            code,
        }
    }
}
