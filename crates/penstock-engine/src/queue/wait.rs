//! The reasons for which a transfer waits.

/// Milliseconds since 1970.
pub type UnixMs = u64;

macro_rules! wait_codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)+) => {
        /// The reason for which a transfer waits. The set is closed: a wait without one of these
        /// codes is a defect.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum WaitCode {
            $($(#[$doc])* $name,)+
        }

        impl WaitCode {
            /// All of them, in the order of the manual.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the code in JSON.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text),+
                }
            }
        }
    };
}

wait_codes! {
    /// Other transfers come first, or a limit of running transfers is full.
    Turn = "turn",
    /// A rule of an operator stops its kind.
    PauseRule = "pause-rule",
    /// The window of its pair is closed.
    Window = "window",
    /// Its own start time has not come.
    NotBefore = "not-before",
    /// An attempt failed, and the next one begins later.
    Retry = "retry",
    /// The target store has too little room.
    Room = "room",
    /// The store is not mounted, or is another one than before.
    StoreOffline = "store-offline",
    /// Operations at the store do not return.
    StoreHung = "store-hung",
    /// The other site does not answer.
    SiteUnreachable = "site-unreachable",
    /// No pair of data addresses carries.
    NoPath = "no-path",
    /// No peer of the site can take part.
    NoPeer = "no-peer",
    /// No peer of the site is the controller now.
    NoController = "no-controller",
    /// A certificate has ended.
    Certificate = "certificate",
    /// Its peers are being drained.
    Drain = "drain",
    /// The user paused it.
    User = "user",
    /// The world is another one than its plan describes.
    PlanStale = "plan-stale",
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
