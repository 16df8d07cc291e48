//! Statistics of this peer: figures of the host, and of each transfer for which it works, every
//! second, kept and thinned with age.
//!
//! A thread, the [`Recorder`], looks once a second at counters of the kernel and of the data plane,
//! and turns what they grew by into a sample. Every ten seconds the samples go into the archive on
//! disk. A peer keeps what it has seen itself: nothing of it costs the state of the site a byte,
//! and the peer that is asked puts the parts of all together ([`crate::operations`]).
//!
//! | module | what it owns |
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
