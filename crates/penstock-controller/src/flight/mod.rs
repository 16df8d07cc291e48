//! The flight recorder: the last decisions about each transfer, to explain why it is slow, waits or
//! failed.
//!
//! A recorder belongs to the attempt at work and continues the records of earlier attempts. It
//! keeps [`FLIGHT_RECORDS_MAX`](penstock_api::rest::FLIGHT_RECORDS_MAX) records in memory while the
//! attempt runs, and writes them to a file beside the receipts: some seconds after a new kind of
//! decision, once a minute otherwise, and at the end of the attempt.
//!
//! The file survives a restart and the loss of the controller. If the daemon is killed or its host
//! is lost, the decisions since the last write are lost. The records are for people: no decision
//! depends on them, and a file that cannot be written is only logged.
//!
//! | module | duty |
//! |---|---|
//! | `ring` | `FlightRing`: the records, and the repetitions among them |
//! | `recorder` | `FlightRecorder`: the records of the attempt at work |
//! | `file` | `FlightFile`: the file of a transfer, and the limit of the number of files |

mod file;
mod recorder;
mod ring;

pub(crate) use file::FlightFile;
pub(crate) use recorder::{FlightRecorder, Grants};
