//! The steps of a benchmark, from the request and the free space.

use penstock_proto::benchmark::BenchmarkOperation;
use penstock_proto::units::{GIB, KIB, MIB};

/// File sizes that are measured unless others are asked for, in bytes.
pub const AUTOMATIC_SIZES: [u64; 6] = [4 * KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB, GIB];
/// Most files that a peer writes in one pass: their names and identities are held in memory.
pub const FILES_MAX: u64 = 262_144;
/// Most empty files that a peer makes, which are only counted.
pub const NAMES_MAX: u64 = 4 << 20;
/// Least bytes that a file counts for, since it takes a block of its file system.
const FILE_BYTES_MIN: u64 = 4 * KIB;
/// Room that must be free, as a multiple of the budget: numerator and denominator.
const ROOM: (u64, u64) = (6, 5);
/// Share of the free bytes, and of the files that can still be made, that is used unless a request
/// sets another: one part of so many.
const SHARE: u64 = 20;

/// The measurements that a benchmark is asked for.
#[derive(Clone, Debug)]
pub struct PlanRequest<'a> {
    /// Measure writing.
    pub write: bool,
    /// Measure reading. Files are written for it in any case.
    pub read: bool,
    /// Measure operations on names and attributes.
    pub metadata: bool,
    /// Sizes of files in bytes; [`AUTOMATIC_SIZES`] if there are none.
    pub sizes: &'a [u64],
    /// Numbers of threads of each peer, each of which is measured; the peers decide if there are
    /// none.
    pub threads: &'a [u32],
    /// Bytes that the files of all peers may take at a time.
    pub budget_bytes: u64,
    /// Files that the file system can still hold; `None` without a limit.
    pub free_files: Option<u64>,
    /// Peers that measure together, at least 1.
    pub peers: u32,
    /// Number of times that each step is done, at least 1.
    pub repeats: u32,
}

/// A step: all peers begin it together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanStep {
    /// The operation.
    pub operation: BenchmarkOperation,
    /// Size of each file in bytes; 0 for operations on names.
    pub size_bytes: u64,
    /// Most files of each peer, in one pass.
    pub files: u64,
    /// Threads of each peer; 0 lets it decide.
    pub threads: u32,
}

/// The steps of a benchmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchmarkPlan {
    /// The steps, in order. Each repeat has all of them, so that a drift of the store touches all
    /// sizes and numbers of threads alike.
    pub steps: Vec<PlanStep>,
    /// Sizes of which a peer's share of the budget holds no file.
    pub left_out: Vec<u64>,
}

/// The reason why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No operation is to be measured.
    #[error("there is nothing to measure")]
    Nothing,
    /// The share of a peer is smaller than each of the sizes.
    #[error("a peer may use {share} bytes, and the smallest file has {smallest}")]
    NoRoom {
        /// The share in bytes.
        share: u64,
        /// The smallest size in bytes.
        smallest: u64,
    },
}

impl BenchmarkPlan {
    /// Makes the plan.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn new(request: &PlanRequest<'_>) -> Result<Self, PlanError> {
        let peers = u64::from(request.peers.max(1));
        let share = request.budget_bytes / peers;
        let names = request.free_files.map_or(u64::MAX, |free| (free / SHARE / peers).max(1));
        let files = |size: u64| {
            let most = share / size.max(FILE_BYTES_MIN);
            most.min(if size == 0 { NAMES_MAX } else { FILES_MAX }).min(names).max(1)
        };
        let mut sizes = match request.sizes {
            [] => AUTOMATIC_SIZES.to_vec(),
            sizes => sizes.to_vec(),
        };
        sizes.sort_unstable();
        sizes.dedup();
        let mut threads = match request.threads {
            [] => vec![0],
            threads => threads.to_vec(),
        };
        threads.sort_unstable();
        threads.dedup();
        let (fitting, left_out): (Vec<u64>, Vec<u64>) =
            sizes.iter().partition(|size| (**size).max(FILE_BYTES_MIN) <= share);
        let moves = request.write || request.read;
        let smallest = sizes.first().copied().unwrap_or(0).max(FILE_BYTES_MIN);
        if (moves && fitting.is_empty()) || share < FILE_BYTES_MIN {
            return Err(PlanError::NoRoom { share, smallest });
        }
        let mut once = Vec::new();
        for &size_bytes in fitting.iter().filter(|_| moves) {
            let files = files(size_bytes);
            for &threads in &threads {
                let step = |operation| PlanStep { operation, size_bytes, files, threads };
                once.push(step(BenchmarkOperation::Write));
                once.extend(request.read.then(|| step(BenchmarkOperation::Read)));
            }
        }
        let named = files(0);
        for &threads in threads.iter().filter(|_| request.metadata) {
            let step = |operation| PlanStep { operation, size_bytes: 0, files: named, threads };
            once.extend(BenchmarkOperation::METADATA.map(step));
        }
        if once.is_empty() {
            return Err(PlanError::Nothing);
        }
        let steps = once.repeat(request.repeats.max(1) as usize);
        Ok(Self { steps, left_out })
    }
}

/// Returns the budget that is used unless a request sets another: a twentieth of the free bytes.
pub fn default_budget(free_bytes: u64) -> u64 {
    free_bytes / SHARE
}

/// Returns whether the free bytes are at least 1.2 times the budget.
pub fn has_room(free_bytes: u64, budget_bytes: u64) -> bool {
    u128::from(free_bytes) * u128::from(ROOM.1) >= u128::from(budget_bytes) * u128::from(ROOM.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(sizes: &[u64], budget_bytes: u64) -> PlanRequest<'_> {
        PlanRequest {
            write: true,
            read: true,
            metadata: false,
            sizes,
            threads: &[],
            budget_bytes,
            free_files: None,
            peers: 2,
            repeats: 3,
        }
    }

    /// Promise: the files of all peers at any time fit the budget, and each repeat has the same
    /// steps in the same order.
    #[test]
    fn steps_fit_the_budget() {
        let plan = BenchmarkPlan::new(&request(&[MIB, 4 * KIB, GIB], 64 * MIB)).unwrap();
        assert_eq!(plan.left_out, [GIB]);
        assert_eq!(plan.steps.len(), 3 * 4);
        for step in &plan.steps {
            assert!(step.size_bytes * step.files * 2 <= 64 * MIB, "{step:?}");
        }
        assert_eq!(plan.steps[..4], plan.steps[4..8]);
        assert_eq!(plan.steps[0].size_bytes, 4 * KIB);
        assert_eq!(plan.steps[2].files, 32);
    }

    /// Promise: a store that may hold few more files is not filled with them, nor is memory.
    #[test]
    fn the_number_of_files_is_bounded() {
        let metadata = PlanRequest { metadata: true, ..request(&[KIB], u64::MAX / 2) };
        let plan = BenchmarkPlan::new(&metadata).unwrap();
        let most = |step: &PlanStep| if step.size_bytes == 0 { NAMES_MAX } else { FILES_MAX };
        assert!(plan.steps.iter().all(|step| step.files <= most(step)));
        let few = PlanRequest { free_files: Some(4000), ..metadata };
        let plan = BenchmarkPlan::new(&few).unwrap();
        assert!(plan.steps.iter().all(|step| step.files <= 100));
        assert_eq!(plan.steps.len(), 3 * 7);
    }

    /// Promise: each number of threads has steps of its own with the same files, and reads what was
    /// written with as many; the peers decide where none is given.
    #[test]
    fn each_number_of_threads_has_its_steps() {
        let sizes = [MIB, 4 * KIB];
        let of = PlanRequest { metadata: true, repeats: 2, ..request(&sizes, 64 * MIB) };
        let chosen = BenchmarkPlan::new(&of).unwrap();
        assert!(chosen.steps.iter().all(|step| step.threads == 0));
        let plan = BenchmarkPlan::new(&PlanRequest { threads: &[4, 1, 4], ..of }).unwrap();
        assert_eq!(plan.steps.len(), 2 * chosen.steps.len());
        let written: Vec<_> =
            plan.steps[..8].iter().step_by(2).map(|step| (step.size_bytes, step.threads)).collect();
        assert_eq!(written, [(4 * KIB, 1), (4 * KIB, 4), (MIB, 1), (MIB, 4)]);
        for pair in plan.steps[..8].chunks(2) {
            let read = PlanStep { operation: BenchmarkOperation::Read, ..pair[0] };
            assert_eq!(pair[1], read);
        }
        let named: Vec<u32> = plan.steps[8..18].iter().map(|step| step.threads).collect();
        assert_eq!(named, [1, 1, 1, 1, 1, 4, 4, 4, 4, 4]);
        assert_eq!(plan.steps[..18], plan.steps[18..]);
    }

    /// Promise: a plan without a step is refused, with the reason.
    #[test]
    fn a_plan_has_steps() {
        let none = PlanRequest { write: false, read: false, ..request(&[KIB], GIB) };
        assert_eq!(BenchmarkPlan::new(&none), Err(PlanError::Nothing));
        let (share, smallest) = (MIB / 2, MIB);
        let small = BenchmarkPlan::new(&request(&[MIB], MIB));
        assert_eq!(small, Err(PlanError::NoRoom { share, smallest }));
    }

    /// Promise: a benchmark leaves a fifth of its budget free beside it.
    #[test]
    fn room_is_more_than_the_budget() {
        assert!(has_room(120, 100) && !has_room(119, 100));
        assert!(has_room(GIB, default_budget(GIB)) && !has_room(u64::MAX - 1, u64::MAX));
    }
}
