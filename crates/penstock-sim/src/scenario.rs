//! What goes wrong in a world.

/// Something that goes wrong once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `kill -9` of the daemon, which is started again.
    Kill,
    /// The host loses power and comes back.
    PowerCut,
    /// The controller loses its peer and starts another; late writes of the old one still land.
    PeerLost,
    /// A lane breaks.
    LaneDies,
    /// A lane says nothing any more.
    LaneSilent,
    /// The next sync fails (A4).
    SyncFails,
    /// Writes fail with ENOSPC for a while.
    DiskFull,
    /// The host was suspended: clocks leap.
    ClockLeap,
    /// The source refuses to serve for a while.
    SourceOffline,
    /// A temporary file is removed by somebody.
    Sabotage,
    /// A source file is written to.
    FileChanges,
    /// Another controller takes over while the old one is only paused; the old one wakes up later.
    TakeOver,
    /// The store is put back to a snapshot (A5).
    Rollback,
    /// One of several peers is stopped for a while, past its grant or not, in the middle of a write
    /// (B1, test 1b).
    Sleep,
    /// One of several peers cannot reach the controller for a while.
    Cut,
    /// One of several hosts loses power.
    HostDies,
    /// One of several peers is drained, and joins again later.
    Drain,
    /// The controller of several peers dies, and another takes over.
    ControllerDies,
}

/// Which faults a world has, and how long they go on.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// For messages.
    pub name: &'static str,
    /// Drawn from at random.
    pub faults: &'static [Fault],
    /// Whether files may be unreadable or not nameable, and reads fail now and then.
    pub trouble: bool,
    /// Whether frames are corrupted or sent twice.
    pub network: bool,
    /// Faults stop after this many milliseconds.
    pub horizon_ms: u64,
    /// Most milliseconds from one fault to the next.
    pub pause_ms: u64,
    /// Whether several target peers share the transfer.
    pub several: bool,
}

const fn scenario(name: &'static str, faults: &'static [Fault]) -> Scenario {
    Scenario {
        name,
        faults,
        trouble: false,
        network: false,
        horizon_ms: 20_000,
        pause_ms: 3000,
        several: false,
    }
}

const fn noisy(name: &'static str, faults: &'static [Fault]) -> Scenario {
    Scenario { trouble: true, network: true, ..scenario(name, faults) }
}

const fn several(name: &'static str, faults: &'static [Fault]) -> Scenario {
    Scenario { several: true, ..scenario(name, faults) }
}

/// Scenarios of several target peers, in the order in which seeds pass through them.
pub const SEVERAL: &[Scenario] = &[
    several("shared calm", &[]),
    several("shared kills", &[Fault::Kill, Fault::LaneDies]),
    several("shared sleep", &[Fault::Sleep]),
    several("shared cuts", &[Fault::Cut, Fault::Sleep]),
    several("shared power", &[Fault::HostDies, Fault::Kill]),
    several("shared syncs", &[Fault::SyncFails, Fault::Kill]),
    several("shared drain", &[Fault::Drain]),
    several("shared controller", &[Fault::ControllerDies]),
    several("shared crashes", &[Fault::ControllerDies, Fault::Kill, Fault::SyncFails, Fault::Cut]),
    Scenario {
        trouble: true,
        network: true,
        ..several(
            "shared all",
            &[
                Fault::Kill,
                Fault::Sleep,
                Fault::Cut,
                Fault::HostDies,
                Fault::Drain,
                Fault::ControllerDies,
                Fault::LaneDies,
                Fault::LaneSilent,
                Fault::SyncFails,
                Fault::DiskFull,
                Fault::SourceOffline,
                Fault::FileChanges,
            ],
        )
    },
];

/// All scenarios of one target peer, in the order in which seeds pass through them.
pub const SCENARIOS: &[Scenario] = &[
    scenario("calm", &[]),
    noisy("source", &[Fault::FileChanges, Fault::SourceOffline]),
    noisy("lanes", &[Fault::LaneDies, Fault::LaneSilent, Fault::ClockLeap]),
    scenario("kills", &[Fault::Kill, Fault::LaneDies]),
    scenario("power", &[Fault::PowerCut]),
    scenario("syncs", &[Fault::SyncFails]),
    noisy("full", &[Fault::DiskFull, Fault::Kill]),
    noisy("peers", &[Fault::PeerLost, Fault::LaneDies, Fault::SyncFails]),
    noisy("takeover", &[Fault::TakeOver, Fault::Kill]),
    scenario("rollback", &[Fault::Rollback, Fault::Kill]),
    noisy("sabotage", &[Fault::Sabotage, Fault::Kill, Fault::PowerCut, Fault::FileChanges]),
    noisy("crashes", &[Fault::Kill, Fault::PowerCut, Fault::SyncFails, Fault::FileChanges]),
    noisy(
        "all",
        &[
            Fault::Kill,
            Fault::PowerCut,
            Fault::PeerLost,
            Fault::LaneDies,
            Fault::LaneSilent,
            Fault::SyncFails,
            Fault::DiskFull,
            Fault::ClockLeap,
            Fault::SourceOffline,
            Fault::Sabotage,
            Fault::FileChanges,
            Fault::TakeOver,
            Fault::Rollback,
        ],
    ),
];
