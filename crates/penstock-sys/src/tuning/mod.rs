//! Settings of the kernel, the processors and the network cards that decide how fast a host moves
//! data.
//!
//! `host_tuning` and `card_tuning` read a tree of `/proc` and `/sys`, `queue_discipline` and
//! `receive_ring` ask the kernel. The caller judges the settings; no setting is changed.

mod card_tuning;
mod cpu_list;
mod host_tuning;
mod queue_discipline;
mod receive_ring;

pub use card_tuning::CardTuning;
pub use cpu_list::{cpu_list, parse_cpu_list};
pub use host_tuning::{HostTuning, TUNED_SETTINGS};
pub use queue_discipline::QueueDiscipline;
pub use receive_ring::ReceiveRing;
