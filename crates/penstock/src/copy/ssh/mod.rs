//! `penstock copy` from or to another host by the user's own ssh: no daemon, no configuration.
//!
//! ```text
//! local:  ssh host penstock ssh-serve ──── messages (`message`, `link`) ────▶ far: `serve`
//!         one end is the source: scan, pages, lanes   (`ends::SourceEnd`)
//!         the other the target: runner, ledger        (`ends::TargetParts`)
//!         lanes: direct, or through a port that ssh forwards (`lanes`, `client`)
//! ```
//! Whoever may log in is trusted, for this copy alone: the ends exchange authorities made for it
//! over the ssh channel (docs/design/0011). State for a resume stays where it is needed: the
//! ledger at the target, pages at the source, and at the local end the id under which the far end
//! keeps its part. The same command again finds it. After a copy that is done nothing is left but
//! the program in the far user's cache, if it had to be sent.

mod arguments;
mod bootstrap;
mod client;
pub(crate) mod destination;
mod ends;
mod lanes;
mod link;
mod local;
mod message;
mod serve;

pub(crate) use arguments::SshArgs;
pub(crate) use destination::parse;
pub(crate) use local::{Wish, run};
pub(crate) use serve::{ServeArgs, run as serve};
