//! Checks of the requests of users and of other sites.

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::transfer::{LANES_MAX, Location, PathText, TransferRequest};
use penstock_cluster::clock::now_seconds;
use penstock_proto::digest::DigestKind;
use penstock_proto::id::{Name, TransferId};
use penstock_proto::name;

/// Most characters of a label.
const LABEL_MAX: usize = 200;
/// Longest time until a transfer starts.
const START_SECONDS_MAX: u64 = 366 * 24 * 3600;

/// A request that came over the network is not trusted to be one that our own types would make.
pub(super) fn check(request: &TransferRequest) -> Result<(), Problem> {
    let usage = |title: String| Problem::new(ProblemCode::Request, title);
    let relative = |path: &PathText| {
        name::check_relative(&path.0)
            .map_err(|_| usage(format!("`{path}` is not a path within a store")))
    };
    let Location { path: from, .. } = &request.source;
    relative(from)?;
    relative(&request.target.path)?;
    request.options.files_from.iter().try_for_each(relative)?;
    let select = &request.options.select;
    select
        .settled(0)
        .compile()
        .map_err(|cause| usage("a filter cannot be read".to_owned()).because(cause))?;
    if request.options.digest_list && request.options.digest == DigestKind::Xxh3 {
        return Err(usage("XXH3 gives no digests of files: no digest list".to_owned())
            .hint("leave out `--digest xxh3-128`, or the digest list"));
    }
    request.options.limits.check().map_err(|error| usage(error.to_string()))?;
    if request.options.lanes > LANES_MAX {
        return Err(usage(format!("a transfer has at most {LANES_MAX} lanes")));
    }
    let is_plain = !request.label.chars().any(char::is_control);
    if request.label.chars().count() > LABEL_MAX || !is_plain {
        return Err(usage(format!(
            "a label has up to {LABEL_MAX} characters, without control ones"
        )));
    }
    if request.priority.is_some_and(|priority| priority > 100) {
        return Err(usage("a priority is from 0 to 100".to_owned()));
    }
    if request.not_before.is_some_and(|start| start > now_seconds() + START_SECONDS_MAX) {
        return Err(usage("a transfer starts within a year".to_owned()));
    }
    let options = &request.options;
    let partial = !options.files_from.is_empty() || options.select.leaves_unknown();
    request.options.update.check(partial).map_err(|why| usage(why.to_owned()))?;
    request.options.check_removal().map_err(|why| usage(why.to_owned()))?;
    if request.options.slicing().is_err() {
        let title = "the piece size is no power of two from 1 MiB to 1 GiB";
        return Err(usage(title.to_owned()));
    }
    Ok(())
}

/// Returns the problem of a request that concerns a site which is not paired with this one.
pub(super) fn not_paired(site: &Name) -> Problem {
    let title = format!("site `{site}` is not paired with this one");
    Problem::new(ProblemCode::NotPaired, title).hint(
        "`penstock site list` shows the paired sites; to pair: `penstock site pair` there, \
         `penstock site pair -` here",
    )
}

/// Returns the problem of a request whose id another transfer has.
pub(super) fn id_taken(id: TransferId) -> Problem {
    Problem::new(ProblemCode::IdTaken, format!("the id {id} is of another transfer"))
}

/// Returns the problem of a request for a transfer that does not exist, or not for the caller.
pub(super) fn unknown(text: impl std::fmt::Display) -> Problem {
    let title = format!("transfer `{text}` does not exist");
    Problem::new(ProblemCode::TransferUnknown, title)
        .hint("`penstock transfer list` shows the transfers of this site")
}

/// Reads the place in a list from which a caller wants more.
///
/// # Errors
/// The text is not a cursor.
pub(super) fn parse_cursor(text: &str) -> Result<(u64, TransferId), Problem> {
    text.split_once('-')
        .and_then(|(created, id)| Some((created.parse().ok()?, id.parse().ok()?)))
        .ok_or_else(|| Problem::new(ProblemCode::Cursor, format!("`{text}` is not a cursor")))
}
