//! Checks of the requests of users and of other sites.

use std::collections::BTreeSet;

use penstock_api::problem::{ObjectKind, Problem, ProblemCode};
use penstock_api::rest::{Action, Steering};
use penstock_api::transfer::{LANES_MAX, Location, NETWORKS_MAX, PathText, TransferRequest};
use penstock_cluster::clock::now_seconds;
use penstock_proto::digest::DigestKind;
use penstock_proto::id::{Name, TransferId};
use penstock_proto::name;

/// Most characters of a label.
const LABEL_MAX: usize = 200;
/// Longest time until a transfer starts.
const START_SECONDS_MAX: u64 = 366 * 24 * 3600;

/// Bounds of the time without progress after which an attempt ends.
const PROGRESS_TIMEOUT_S_LEAST: u32 = 10;
const PROGRESS_TIMEOUT_S_MOST: u32 = 24 * 3600;

/// Checks a request. One from the network is not trusted to be one that our own types would make.
pub(super) fn check(request: &TransferRequest) -> Result<(), Problem> {
    let usage = |title: String| Problem::new(ProblemCode::Request, title);
    let relative = |path: &PathText, at: &str| {
        name::check_relative(&path.0)
            .map_err(|_| usage(format!("`{path}` is not a path within a store")).at(at))
    };
    let Location { path: from, .. } = &request.source;
    relative(from, "/source")?;
    relative(&request.target.path, "/target")?;
    let listed = &request.options.files_from;
    listed.iter().try_for_each(|path| relative(path, "/options/files_from"))?;
    let select = &request.options.select;
    select
        .settled(0)
        .compile()
        .map_err(|cause| usage("a filter cannot be read".to_owned()).because(cause))
        .map_err(|problem| problem.at("/options/select"))?;
    if request.options.digest_list && request.options.digest == DigestKind::Xxh3 {
        return Err(usage("XXH3 gives no digests of files: no digest list".to_owned())
            .at("/options/digest_list")
            .hint("leave out `--digest xxh3-128`, or the digest list"));
    }
    let limits = request.options.limits.check();
    limits.map_err(|error| usage(error.to_string()).at("/options/limits"))?;
    if request.options.lanes > LANES_MAX {
        return Err(usage(format!("a transfer has at most {LANES_MAX} lanes")).at("/options/lanes"));
    }
    if request.options.networks.len() > NETWORKS_MAX {
        let title = format!("a transfer names at most {NETWORKS_MAX} networks");
        return Err(usage(title).at("/options/networks"));
    }
    if request.options.peers_max == Some(0) {
        let title = "a transfer needs at least one peer".to_owned();
        return Err(usage(title).at("/options/peers_max"));
    }
    check_turn(request)?;
    if request
        .deadline
        .is_some_and(|deadline| deadline.at.seconds() > now_seconds() + START_SECONDS_MAX)
    {
        return Err(usage("a deadline is within a year".to_owned()).at("/deadline/at"));
    }
    let timeouts = PROGRESS_TIMEOUT_S_LEAST..=PROGRESS_TIMEOUT_S_MOST;
    if request.progress_timeout_s.is_some_and(|seconds| !timeouts.contains(&seconds)) {
        return Err(usage(format!(
            "the time without progress is from {} to {} seconds",
            timeouts.start(),
            timeouts.end()
        )));
    }
    if request.attempts_max == Some(0) {
        return Err(usage("a transfer needs at least one attempt".to_owned()));
    }
    let options = &request.options;
    let partial = !options.files_from.is_empty() || options.select.leaves_unknown();
    let update = request.options.update.check(partial);
    update.map_err(|why| usage(why.to_owned()).at("/options/update"))?;
    let removal = request.options.check_removal();
    removal.map_err(|why| usage(why.to_owned()).at("/options/remove_source"))?;
    let suite = request.options.check_cipher_suite();
    suite.map_err(|why| usage(why.to_owned()).at("/options/cipher_suite"))?;
    if request.options.slicing().is_err() {
        let title = "the piece size is no power of two from 1 MiB to 1 GiB";
        return Err(usage(title.to_owned()).at("/options/piece_bytes"));
    }
    Ok(())
}

/// Checks the fields that decide the start of a transfer, and its label.
///
/// # Errors
/// Code `request`: a value is out of its bounds.
pub(super) fn check_turn(request: &TransferRequest) -> Result<(), Problem> {
    let usage = |title: String, at: &str| Problem::new(ProblemCode::Request, title).at(at);
    let is_plain = !request.label.chars().any(char::is_control);
    if request.label.chars().count() > LABEL_MAX || !is_plain {
        let title = format!("a label has up to {LABEL_MAX} characters, without control ones");
        return Err(usage(title, "/label"));
    }
    if request.priority.is_some_and(|priority| priority > 100) {
        return Err(usage("a priority is from 0 to 100".to_owned(), "/priority"));
    }
    if request.not_before.is_some_and(|start| start > now_seconds() + START_SECONDS_MAX) {
        return Err(usage("a transfer starts within a year".to_owned(), "/not_before"));
    }
    Ok(())
}

/// Checks the end of a pause, which is `at` in the request.
///
/// # Errors
/// Code `request`: another action has an end; the end is over, or more than a year ahead.
pub(super) fn check_steering(steering: Steering, at: &str) -> Result<(), Problem> {
    let Some(until) = steering.until else { return Ok(()) };
    let now = now_seconds();
    let why = match () {
        () if steering.action != Action::Pause => "a pause alone has an end",
        () if until.seconds() <= now => "a pause ends in the future",
        () if until.seconds() > now + START_SECONDS_MAX => "a pause ends within a year",
        () => return Ok(()),
    };
    Err(Problem::new(ProblemCode::Request, why).at(at))
}

/// Checks that both sites together have the networks that a transfer names. Without these names
/// of the source's site, which is asked later, nothing is checked.
///
/// # Errors
/// Code `request`: no network for data has one of the names.
pub(super) fn check_networks(
    wanted: &[Name],
    own: BTreeSet<Name>,
    source: Option<BTreeSet<Name>>,
) -> Result<(), Problem> {
    let Some(source) = source else { return Ok(()) };
    let known: BTreeSet<Name> = own.into_iter().chain(source).collect();
    let Some(unknown) = wanted.iter().find(|name| !known.contains(name)) else { return Ok(()) };
    let names: Vec<&str> = known.iter().map(Name::as_str).collect();
    let hint = match names.is_empty() {
        true => "neither site has named its networks for data: add `[[network]]` to penstock.toml"
            .to_owned(),
        false => format!("networks for data: {}", names.join(", ")),
    };
    let title = format!("no network for data is called `{unknown}`");
    Err(Problem::new(ProblemCode::Request, title).at("/options/networks").hint(hint))
}

/// Returns the problem of a request that concerns a site which is not paired with this one.
pub(super) fn not_paired(site: &Name) -> Problem {
    let title = format!("site `{site}` is not paired with this one");
    Problem::new(ProblemCode::NotPaired, title).about(ObjectKind::Site, site).hint(
        "`penstock site list` shows the paired sites; to pair: `penstock site pair` there, \
         `penstock site pair -` here",
    )
}

/// Returns the problem of a request whose id another transfer has.
pub(super) fn id_taken(id: TransferId) -> Problem {
    Problem::new(ProblemCode::IdTaken, format!("the id {id} is of another transfer"))
        .about(ObjectKind::Transfer, id)
        .at("/id")
}

/// Returns the problem of a change of a transfer that the caller has read in another state.
pub(super) fn changed_meanwhile(id: TransferId) -> Problem {
    let title = format!("transfer {} was changed meanwhile", id.short());
    Problem::new(ProblemCode::ChangedMeanwhile, title)
        .about(ObjectKind::Transfer, id)
        .hint("read it again, and send its `ETag` as `If-Match`")
}

/// Returns the problem of a request for a transfer that does not exist, or not for the caller.
pub(super) fn unknown(text: impl std::fmt::Display) -> Problem {
    let title = format!("transfer `{text}` does not exist");
    Problem::new(ProblemCode::TransferUnknown, title)
        .about(ObjectKind::Transfer, text)
        .hint("`penstock transfer list` shows the transfers of this site")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<Name> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    /// Promise: a network that neither site has is refused with the names that exist. Until the
    /// source's site has sent its names, nothing is refused.
    #[test]
    fn unknown_networks_are_refused() {
        let wanted = |wanted: &[&str], source| {
            let wanted: Vec<Name> = names(wanted).into_iter().collect();
            check_networks(&wanted, names(&["fast0"]), source)
        };
        assert!(wanted(&["fast0", "lan"], Some(names(&["lan"]))).is_ok());
        assert!(wanted(&["fast9"], None).is_ok());
        let refused = wanted(&["fast0", "fast9"], Some(names(&["lan"]))).unwrap_err();
        assert_eq!(refused.title, "no network for data is called `fast9`");
        assert_eq!(refused.hint, "networks for data: fast0, lan");
    }
}
