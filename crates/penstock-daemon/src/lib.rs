//! `penstock daemon`: one host of one site, in the foreground.
//!
//! The daemon owns the site directory, whose lock excludes a second daemon. It listens on the data
//! port for other sites and their lanes, and on a Unix socket for its own users. Its lasting state
//! is in the state database and the journal store. `kill -9` at any moment costs the data in flight
//! and the last second's reports.

//! | module | duty |
//! |---|---|
//! | `config`, `settings` | the tables of the configuration; the layers that they are read from |
//! | `wiring` | the parts of a daemon, put together |
//! | `http` | requests: the port, routes, the local and the site API, forwarding to the controller |
//! | `site` | the state of a running site, and its knowledge of other sites |
//! | `cluster` | a daemon that is one of several peers of its site |
//! | `access` | rights and limits: keys, pairings, tokens, budgets, admission |
//! | `operations` | operators' requests to any peer |
//! | `checks` | findings about this host, its site and its paths |
//! | `events` | the events of this site |
//! | `metrics` | figures of this peer, and proof that its loops move |
//! | `statistics` | figures of this peer and of its transfers over time |
//! | `webhooks` | messages to other programs about ended transfers |
//! | `managed_etcd` | a member of etcd that this host runs |
//! | `peer_server` | answers to requests of a controller on another host |
//! | `peer_client` | requests of a controller to peers on other hosts |
//! | `leases` | the leases that this host grants to them as the controller |

#![forbid(unsafe_code)]

pub mod access;
pub mod checks;
mod cluster;
pub mod config;
mod events;
pub mod http;
mod leases;
pub mod managed_etcd;
pub mod metrics;
pub mod networks;
mod operations;
mod peer_client;
mod peer_server;
pub mod settings;
pub mod site;
pub mod site_directory;
mod statistics;
mod webhooks;
mod wiring;

use std::path::Path;
use std::thread::Builder;

use anyhow::Context as _;
use penstock_sys::{LockError, LockFile};
use wiring::LOCAL_THREADS;

use crate::settings::{Layers, Loaded};
use penstock_exit::{ExitCode, Failure};

/// Runs the daemon of a site directory with a configuration that was read from `layers`, until
/// SIGTERM or SIGINT.
///
/// # Errors
/// The daemon cannot start: a second daemon, a port that is taken, keys that do not fit. Exit 7 or
/// 2.
pub fn run(loaded: Loaded, layers: Layers) -> anyhow::Result<ExitCode> {
    if let Err(error) = penstock_sys::keep_memory_private() {
        tracing::warn!(%error, "a crash may write this daemon's keys to a core file");
    }
    let lock = lock(layers.directory())?;
    check_threads()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .on_thread_start(penstock_sys::leave_inherited_account)
        .thread_name("control")
        .enable_all()
        .build()
        .context("cannot start the control threads")?;
    let result = runtime.block_on(wiring::serve(loaded, layers));
    // Threads that ask other sites at this moment would panic if the runtime were shut down under
    // them. It ends with the process, and only then may another daemon begin.
    std::mem::forget((runtime, lock));
    result
}

/// Returns the OpenAPI document of the API `/api/v1`, as JSON text.
pub fn openapi_document() -> &'static str {
    http::local::openapi::document()
}

/// Checks that the threads of the runtimes and one of each that blocks can be started: a runtime
/// panics over one that cannot.
fn check_threads() -> anyhow::Result<()> {
    let control = std::thread::available_parallelism().map_or(1, usize::from);
    // One of each runtime blocks.
    let count = control + LOCAL_THREADS + 2;
    let all_are_there = std::sync::RwLock::new(());
    let started = std::thread::scope(|scope| {
        // None of them ends before.
        let _here = all_are_there.write();
        let wait = || drop(all_are_there.read());
        (0..count).try_for_each(|_| Builder::new().spawn_scoped(scope, wait).map(drop))
    });
    Ok(started.map_err(Failure::no_thread)?)
}

fn lock(directory: &Path) -> anyhow::Result<LockFile> {
    LockFile::acquire(&directory.join("lock")).map_err(|error| {
        let message = match &error {
            LockError::Held { process_id: Some(id), .. } => {
                format!("`{}` has a daemon already: process {id}", directory.display())
            }
            LockError::Held { .. } => format!("`{}` has a daemon already", directory.display()),
            _ => format!("`{}` cannot be locked", directory.display()),
        };
        Failure::new(ExitCode::Fatal, message).caused_by(error).into()
    })
}
