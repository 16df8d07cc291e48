//! A copy whose source and target are in this process: lanes are function calls.

use std::path::Path;
use std::sync::Arc;

use penstock_api::plan::PlanUse;
use penstock_api::scan::{OwnPages, SourcePeer as _};
use penstock_api::task::SourceAccess;
use penstock_api::transfer::{PathText, TransferOptions};
use penstock_net::SocketOptions;
use penstock_peer::{SourceService, StoreKind, StoreSpec, Stores, TargetService};
use penstock_proto::id::{Name, PeerId};
use penstock_store::IoMode;

use super::job::{Copy, Job, Papers, RunParts, check_kind, run_at, scan_request, target_name};
use super::places::{SourcePlace, TargetPlace, check_apart};
use super::state::State;
use crate::output::progress::Mode;
use penstock_exit::{ExitCode, failure};

/// What is copied where on this host, and how it is shown.
pub(crate) struct LocalCopy<'a> {
    pub(crate) source: &'a Path,
    pub(crate) target: &'a Path,
    /// From where and to where, as a plan names it.
    pub(crate) asked: (PathText, PathText),
    pub(crate) options: TransferOptions,
    /// The plan that the copy follows.
    pub(crate) plan: Option<&'a Path>,
    pub(crate) mode: Mode,
    pub(crate) papers: Papers,
}

/// Copies; blocks until the copy has ended or is interrupted.
///
/// # Errors
/// How it ended, if not well.
pub(crate) fn run(wish: LocalCopy<'_>) -> anyhow::Result<ExitCode> {
    let LocalCopy { source, target, asked, options, plan, mode, papers } = wish;
    let make = options.plan != Some(PlanUse::Make);
    let places = Places::find(source, target, make, options.update.delete)?;
    let (from, to) = (places.source.path.clone(), places.target.path.clone());
    let state = State::open(&from, &to, &options)?;
    if let Some(file) = plan {
        state.put_plan(file)?;
    }
    let mut copy = Copy { from, to, options, state, control: Arc::default() };
    let job = job(&mut copy, &places, asked)?;
    copy.run(job, mode, &papers)
}

/// Source and target.
struct Places {
    source: SourcePlace,
    target: TargetPlace,
}

impl Places {
    fn find(source: &Path, target: &Path, make: bool, delete: bool) -> anyhow::Result<Self> {
        let source = SourcePlace::find(source)?;
        let from = source.path.clone();
        let apart = move |to: &Path| check_apart(&from, to);
        let target = TargetPlace::find(target, &source.facts(), &apart, make, delete)?;
        Ok(Self { source, target })
    }
}

/// Both ends in this process.
fn job(copy: &mut Copy, places: &Places, asked: (PathText, PathText)) -> anyhow::Result<Job> {
    let (source_store, store): (Name, Name) = ("source".parse()?, target_name()?);
    let spec = |name: &Name, kind: &StoreKind, read_only| StoreSpec {
        name: name.clone(),
        kind: kind.clone(),
        read_only,
        ephemeral: true,
        allow_privileged: true,
        io: IoMode::Auto,
        mapped: false,
    };
    let writes_source = copy.state.writes_source(copy.options.remove_source);
    let stores = Arc::new(Stores::new([
        spec(&source_store, &places.source.kind, !writes_source),
        spec(&store, &places.target.kind, false),
    ]));
    let peer = PeerId { site: "local".parse()?, peer: "copy".parse()? };
    let kept = copy.state.source();
    let source = Arc::new(SourceService::new(Arc::clone(&stores), &kept, peer, None));
    let root = PathText(places.source.root.clone());
    let target = Arc::new(TargetService::new(stores, None, SocketOptions::default()));
    copy.state.leave_other_target(&*target, &store)?;
    let request =
        scan_request(&copy.state, source_store.clone(), root.clone(), &copy.options, false);
    let kind = source.open_scan(&request).map_err(failure)?;
    check_kind(kind, &copy.options)?;
    let parts = RunParts {
        state: &copy.state,
        options: &copy.options,
        place: &places.target,
        store,
        target,
        pages: Box::new(OwnPages::new(source, copy.state.id)),
        source: SourceAccess::Local { store: source_store, root },
        places: asked,
    };
    let input = parts.input(Arc::clone(&copy.control))?;
    let journal = input.journal.clone();
    let target = places.target.path.clone();
    let run = Box::new(move || run_at(input, &target));
    Ok(Job { run, journal, leave: Box::new(|| {}) })
}
