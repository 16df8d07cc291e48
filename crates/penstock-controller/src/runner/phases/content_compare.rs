//! Comparison of pages with the target, by file contents where the user asks for that.
//!
//! Each side reads the files that have the same size at both, and only digests travel. The thread
//! that pulls pages ahead does this, one page after the other, while earlier pages are moved. As
//! with any comparison, its decisions are committed before any piece of a page is handed out.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::scan::{DigestWish, PageSource as _};
use penstock_api::task::TaskSpec;
use penstock_api::transfer::TransferOptions;
use penstock_api::update::CompareBy;
use penstock_proto::compared::EntrySet;
use penstock_proto::manifest::Page;

use crate::runner::input::RunInput;
use crate::runner::pages::puller::Compare;
use crate::runner::pages::shared_source::SharedSource;
use crate::runner::plan::Followed;
use crate::runner::shared::RunShared;

/// The longest time that the source may take for one answer.
const WAIT_MS: u32 = 1_000;

/// Returns the function that compares pages with the target, where pages are compared.
pub(crate) fn compare_of(
    input: &RunInput,
    spec: &TaskSpec,
    shared: &Arc<RunShared>,
    source: SharedSource,
    followed: Option<&Arc<Followed>>,
) -> Compare {
    let (peer, spec) = (input.peer(), spec.clone());
    let (control, shared) = (Arc::clone(&input.control), Arc::clone(shared));
    if let Some(followed) = followed.cloned() {
        return Arc::new(move |page: &Page| followed.compare(&*peer, &spec, page));
    }
    let by_digest = spec.update.sync && spec.update.compare == CompareBy::Digest;
    Arc::new(move |page: &Page| {
        if !by_digest || page.round > 0 {
            return peer.compare(&spec, page, &EntrySet::default());
        }
        let comparing = &shared.comparing;
        let entries = peer.same_size(&spec, page)?;
        let wish = DigestWish { page: page.number, entries };
        let _uncounted = control.begin_uncounted();
        comparing.busy.store(true, Ordering::Release);
        let mut source = source.clone();
        let mut ask = || {
            if wish.entries.is_empty() {
                return Ok(Vec::new());
            }
            loop {
                if comparing.progress.is_stopped() || control.is_asked_to_stop() {
                    let title = "comparing contents was stopped";
                    // The transfer compares again in its next attempt.
                    return Err(Problem::new(ProblemCode::Stopped, title).exit(Exit::Temporary));
                }
                if let Some(digests) = source.digests(&wish, WAIT_MS)? {
                    return Ok(digests);
                }
            }
        };
        let compared = ask().and_then(|digests| {
            let known = wish.entries.iter().zip(digests);
            let known: Vec<(u32, String)> =
                known.filter_map(|(entry, digest)| Some((*entry, digest?))).collect();
            peer.compare_contents(&spec, page, &known, &comparing.progress)
        });
        comparing.busy.store(false, Ordering::Release);
        compared
    })
}

/// Refuses options that exclude each other: a plan looks at existing entries and reads none of
/// them.
pub(crate) fn refuses(options: &TransferOptions) -> Option<Problem> {
    let refused = options.plan.is_some() && options.update.compare == CompareBy::Digest;
    refused.then(|| {
        let title = "a plan does not read files: it does not go with --compare digest";
        Problem::new(ProblemCode::PlanCompare, title)
            .hint("leave out `--compare digest`, or transfer without a plan")
    })
}
