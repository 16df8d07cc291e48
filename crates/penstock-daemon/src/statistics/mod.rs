//! Statistics of this peer: figures of the host, and of each transfer for which it works, every
//! second, kept and thinned with age.
//!
//! A thread, the [`Recorder`], reads counters of the kernel and of the data plane once a second,
//! and turns their growth into a sample. Every ten seconds the samples go into the archive on disk.
//! A peer keeps its own samples: they cost the state of the site no byte. The peer that gets a
//! request merges the parts of all peers ([`crate::operations`]).
//!
//! | module | duty |
//! |---|---|
//! | `sample` | figures of a second, and their names |
//! | `points` | points of 1 s to 10 min: thinning, pure |
//! | `spread` | quantiles, pure |
//! | `core_times` | busy seconds of each processor, pure |
//! | `host` | looks at the counters of the kernel |
//! | `store_devices` | the disks that stores are on |
//! | `work` | looks at transfers for which this peer works |
//! | `recorder` | the thread, and samples that are not written yet |
//! | `archive` | the database |
//! | `views` | answers of this peer |
//! | `csv` | series as tables |

mod archive;
mod core_times;
pub(crate) mod csv;
mod host;
mod points;
mod recorder;
mod sample;
mod spread;
mod store_devices;
pub(crate) mod views;
mod work;

pub(crate) use recorder::Recorder;
pub(crate) use work::Work;
