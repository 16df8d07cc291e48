//! The configuration read from its layers: files, environment and command line.
//!
//! | module | duty |
//! |---|---|
//! | `layers` | the files and other layers, and their order |
//! | `tree` | the merged text, in which each value knows its place |
//! | `reading` | the types made from the tree, and every fault on the way |
//! | `statements` | checks beyond those of the types |
//! | `table` | the table of all settings |
//! | `effective` | the settings in force, each with its layer |
//! | `reload` | the parts of a changed configuration that a running daemon adopts |

mod effective;
mod layers;
mod reading;
mod reload;
mod statements;
mod table;
mod tree;

pub(crate) use layers::Stamp;
pub use layers::{Layers, LoadError, Loaded, listed};
pub use reading::read_document;
pub use reload::{Merged, merge};
pub use table::{Kind, SETTINGS, Setting, find};
