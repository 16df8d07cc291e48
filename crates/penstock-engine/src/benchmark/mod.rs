//! A benchmark of a store: its steps, the barrier of its peers, and the worth of its figures.
//!
//! The edge in `penstock-daemon` asks the peers, the one in `penstock-peer` reads and writes. No
//! module here knows a store.
//!
//! | module | decides |
//! |---|---|
//! | `plan` | the steps, the number of files of each, and the room that they need |
//! | `course` | the step that all peers begin together, and the end after a failure |
//! | `granted_work` | the files whose bytes are written, and the moment when all are durable |
//! | `judgement` | marks of a measurement, and the validity of a stored result |
//! | `passes` | the passes of a step over its files, and the sums of their work |
//! | `summary` | the rates of a step, and the median of its repeats |

mod course;
mod granted_work;
mod judgement;
mod passes;
mod plan;
mod summary;

pub use course::{Course, CourseOrder};
pub use granted_work::{FileCounts, GrantedWork};
pub use judgement::{Measured, RESULT_AGE_MAX, Staleness, cache_state, marks, staleness};
pub use passes::Passes;
pub use plan::{
    AUTOMATIC_SIZES, BenchmarkPlan, FILES_MAX, NAMES_MAX, PlanError, PlanRequest, PlanStep,
    default_budget, has_room,
};
pub use summary::{PeerTimes, StepTimes, Summary, summarize};
