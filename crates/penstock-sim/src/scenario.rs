//! Faults of a world.

/// A fault that happens once.
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
    /// A lane falls silent.
    LaneSilent,
    /// The next sync fails (A4).
    SyncFails,
    /// Writes fail with ENOSPC for some time.
    DiskFull,
    /// The host was suspended: clocks leap.
    ClockLeap,
    /// The source refuses to serve for some time.
    SourceOffline,
    /// A temporary file is removed by another program.
    Sabotage,
    /// A program writes to a source file.
    FileChanges,
    /// The daemon is paused while another controller takes over; the old one wakes up later.
    TakeOver,
    /// The store is put back to a snapshot (A5).
    Rollback,
    /// A peer of several is stopped for some time, past its grant or not, in the middle of a write
    /// (B1, test 1b).
    Sleep,
    /// A peer of several cannot reach the controller for some time.
    Cut,
    /// A host of several loses power.
    HostDies,
    /// A peer of several is drained, and joins again later.
    Drain,
    /// The controller of several peers dies, and another takes over.
    ControllerDies,
}

/// Faults of a world, and their duration.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name for messages.
    pub name: &'static str,
    /// Faults to draw from at random.
    pub faults: &'static [Fault],
    /// True if files may be unreadable or impossible to name, and reads fail now and then.
    pub trouble: bool,
    /// True if frames are corrupted or sent twice.
    pub network: bool,
    /// Milliseconds after which faults stop.
    pub horizon_ms: u64,
    /// Most milliseconds from one fault to the next.
    pub pause_ms: u64,
    /// True if several target peers share the transfer.
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
    several("shared kills", &[Fault::Kill, Fault::LaneDies, Fault::LaneSilent]),
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
