//! The reasons for which a transfer waits.

/// Milliseconds since 1970.
pub type UnixMs = u64;

macro_rules! wait_codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal: $advice:literal,)+) => {
        /// The reason for which a transfer waits. The set is closed: a wait without one of these
        /// codes is a defect.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum WaitCode {
            $($(#[$doc])* $name,)+
        }

        impl WaitCode {
            /// All of them, in the order of the manual.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The code in JSON.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text),+
                }
            }

            /// The next step of a user or operator, as one sentence.
            pub fn advice(self) -> &'static str {
                match self {
                    $(Self::$name => $advice),+
                }
            }
        }
    };
}

wait_codes! {
    /// Other transfers come first, or a limit of running transfers is full.
    Turn = "turn": "Wait, or ask an operator to raise a limit or the priority.",
    /// A rule of an operator stops its kind.
    PauseRule = "pause-rule": "Ask the operator that made the rule.",
    /// The window of its pair is closed.
    Window = "window": "Wait until the window opens.",
    /// Its own start time has not come.
    NotBefore = "not-before": "Wait, or change `not_before`.",
    /// An attempt failed, and the next one begins later.
    Retry = "retry": "Look at the problem of the last attempt; `transfer resume` retries now.",
    /// The target store has too little room.
    Room = "room": "Free space at the target store, or cancel.",
    /// The store is not mounted, or is another one than before.
    StoreOffline = "store-offline": "Mount the store; `penstock doctor` names what is wrong.",
    /// Operations at the store do not return.
    StoreHung = "store-hung": "Look at the file system of the store on the named peer.",
    /// The other site does not answer.
    SiteUnreachable = "site-unreachable": "Try `penstock site doctor` with the name of the site.",
    /// No pair of data addresses carries.
    NoPath = "no-path": "Open the data port; `penstock site paths` shows each path.",
    /// No peer of the site can take part.
    NoPeer = "no-peer": "Start a daemon of the site, or end a drain.",
    /// No peer of the site is the controller now.
    NoController = "no-controller": "Wait for the election, or look at `penstock peer list`.",
    /// A certificate has ended.
    Certificate = "certificate": "Renew it; `penstock doctor` names it.",
    /// Its peers are being drained.
    Drain = "drain": "Wait for the drain, or undo it.",
    /// The user paused it.
    User = "user": "Resume it with `penstock transfer resume`.",
    /// The world is another one than its plan describes.
    PlanStale = "plan-stale": "Make the plan again.",
}

/// A reason outside the queue for which a transfer must not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The reason.
    pub code: WaitCode,
    /// The object: a store, a site, a peer; may be empty.
    pub on: String,
    /// Its end, where that is known; it is over then.
    pub until: Option<UnixMs>,
}

/// The reason for which a transfer waits now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The reason.
    pub code: WaitCode,
    /// Time since which it waits for this reason.
    pub since: UnixMs,
    /// Time at which the wait ends; `None` where an event ends it.
    pub until: Option<UnixMs>,
    /// The object: a store, a site, a rule; may be empty.
    pub on: String,
    /// Number of transfers that would start before it; `None` where that is not known.
    pub position: Option<u64>,
}
