//! The two ends of a soak, looked at before anything is made: a source that is missing or may not
//! be read would fail in each round.

use penstock_api::place::{Location, PathText};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::{StoreDetails, StoreState};
use penstock_exit::{self as exit, ExitCode, Failure, failure};
use penstock_proto::id::Name;

use super::daemon::Daemon;

/// What a look at the target tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// True if it takes everything and keeps nothing.
    pub(super) is_null: bool,
}

/// Looks at both ends once. Nothing is changed.
///
/// # Errors
/// A site, a store or a directory is not there; the caller may not read or write there; the source
/// has nothing; one end is within the other.
pub(super) fn look(
    daemon: &Daemon,
    source: &Location,
    target: &Location,
) -> anyhow::Result<Target> {
    check_site(daemon, target)?;
    let is_null = look_at_target(daemon, target)?;
    if source.site == *daemon.site() {
        look_at_own_store(daemon, &source.store)?;
    } else {
        look_at_other_site(daemon, source)?;
    }
    look_at_source(daemon, source)?;
    if !is_null && holds(source, target) {
        let title = format!("the target `{target}` is within the source");
        let hint = "each round would move what the soak has made: take a target beside the source";
        return Err(Failure::new(ExitCode::Usage, title).hint(hint).into());
    }
    Ok(Target { is_null })
}

/// Checks that a daemon is one of the target's site.
///
/// # Errors
/// It is of another site.
pub(super) fn check_site(daemon: &Daemon, target: &Location) -> Result<(), Failure> {
    let own = daemon.site();
    if *own == target.site {
        return Ok(());
    }
    let title = format!("the daemon is of site `{own}`, not of the target's");
    let hint = format!("ask a daemon of site `{}`, by `--dir` or `PENSTOCK_URL`", target.site);
    Err(Failure::new(ExitCode::Usage, title).hint(hint))
}

/// Looks at the target's store and directory; returns whether the store keeps nothing.
fn look_at_target(daemon: &Daemon, target: &Location) -> anyhow::Result<bool> {
    let Location { store, .. } = target;
    let details = daemon.store(store)?;
    if !details.rights.write {
        return Err(not_allowed("write to", store, daemon.site()).into());
    }
    if details.store.place.starts_with("mem:") {
        let title = format!("store `{store}` is generated: nothing can be written to it");
        return Err(Failure::new(ExitCode::Usage, title).hint("name another target").into());
    }
    if details.store.read_only {
        let title = format!("store `{store}` is read-only");
        return Err(Failure::new(ExitCode::Refused, title).hint("name another target").into());
    }
    check_online(&details)?;
    if details.store.place == "null:" {
        return Ok(true);
    }
    match daemon.look(target, &PathText::default())? {
        Ok(_) => Ok(false),
        Err(problem) if is_beyond_rights(&problem) => Ok(false),
        Err(problem) if problem.code == ProblemCode::EntryUnknown => {
            let place = Location { slash: false, ..target.clone() };
            let title = format!("the directory of the target, `{place}`, does not exist");
            let hint = format!("`penstock store mkdir {place}` makes it");
            Err(Failure::new(ExitCode::Usage, title).hint(hint).into())
        }
        Err(problem) => Err(unusable("target", target, problem)),
    }
}

fn look_at_own_store(daemon: &Daemon, store: &Name) -> anyhow::Result<()> {
    let details = daemon.store(store)?;
    if !details.rights.read {
        return Err(not_allowed("read from", store, daemon.site()).into());
    }
    if details.store.place == "null:" {
        let title = format!("store `{store}` is `null:`, which has nothing to read");
        return Err(Failure::new(ExitCode::Usage, title).hint("name another source").into());
    }
    check_online(&details)
}

fn look_at_other_site(daemon: &Daemon, source: &Location) -> anyhow::Result<()> {
    let (own, Location { site, store, .. }) = (daemon.site(), source);
    if !daemon.sites()?.iter().any(|known| known.name == *site) {
        let title = format!("site `{own}` is not paired with site `{site}`");
        let hint = "`penstock site list` shows paired sites, `penstock site pair` pairs two";
        return Err(Failure::new(ExitCode::NotAuthorised, title).hint(hint).into());
    }
    let stores = daemon.stores_of(site)?;
    let Some(found) = stores.iter().find(|known| known.name == *store) else {
        let title = format!("site `{site}` lets site `{own}` use no store `{store}`");
        let hint = format!("`penstock store list {site}` shows those that it does");
        return Err(Failure::new(ExitCode::NotAuthorised, title).hint(hint).into());
    };
    if !found.read {
        let title = format!("site `{own}` may not read from store `{store}` of site `{site}`");
        let hint = format!(
            "an operator there can put `{own}` into `read` of the store in `penstock.toml`"
        );
        return Err(Failure::new(ExitCode::NotAuthorised, title).hint(hint).into());
    }
    Ok(())
}

/// Looks whether the source is a directory with something in it, or a file.
fn look_at_source(daemon: &Daemon, source: &Location) -> anyhow::Result<()> {
    let missing = || {
        let (parent, _) = split(source);
        let title = format!("the source `{source}` does not exist");
        let hint = format!("`penstock store ls {parent}` shows what there is");
        Failure::new(ExitCode::SourceChanged, title).hint(hint)
    };
    match daemon.look(source, &PathText::default())? {
        Ok(list) if list.items.is_empty() && list.next.is_none() => {
            let title = format!("the source `{source}` is empty");
            let hint = "a soak moves files: name a directory with some";
            Err(Failure::new(ExitCode::Usage, title).hint(hint).into())
        }
        Ok(_) => Ok(()),
        Err(problem) if is_beyond_rights(&problem) => Ok(()),
        Err(problem) if problem.code == ProblemCode::EntryUnknown => Err(missing().into()),
        Err(problem) if problem.code == ProblemCode::EntryKind && !source.slash => {
            // A file is a source too, where it is reached without a link.
            let (parent, name) = split(source);
            match daemon.look(&parent, &name)? {
                Ok(_) => Ok(()),
                Err(_) => Err(unusable("source", source, problem)),
            }
        }
        Err(problem) => Err(unusable("source", source, problem)),
    }
}

/// Returns the directory that holds a place, and the name in it.
fn split(place: &Location) -> (Location, PathText) {
    let path = &place.path.0;
    let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&path[..0], &path[..]),
    };
    let parent = Location { path: PathText(parent.to_vec()), slash: false, ..place.clone() };
    (parent, PathText(name.to_vec()))
}

/// Returns whether a place is another one, or within it.
fn holds(outer: &Location, inner: &Location) -> bool {
    let rest = inner.path.0.strip_prefix(&outer.path.0[..]);
    (&outer.site, &outer.store) == (&inner.site, &inner.store)
        && rest.is_some_and(|rest| {
            outer.path.0.is_empty() || rest.is_empty() || rest.starts_with(b"/")
        })
}

/// Returns whether a problem says only that the caller may not look, as into a store that is used
/// as accounts of users. Transfers may be allowed there.
pub(super) fn is_beyond_rights(problem: &Problem) -> bool {
    problem.code == ProblemCode::AccountMissing
        || exit::exit_code(problem.exit) == ExitCode::NotAuthorised
}

fn check_online(details: &StoreDetails) -> anyhow::Result<()> {
    if details.state == StoreState::Online {
        return Ok(());
    }
    let title = format!("store `{}` cannot be used now", details.store.name);
    Err(Failure::new(ExitCode::Temporary, title).caused_by(details.why.clone()).into())
}

fn not_allowed(right: &str, store: &Name, site: &Name) -> Failure {
    Failure::new(
        ExitCode::NotAuthorised,
        format!("you may not {right} store `{store}` of site `{site}`"),
    )
    .hint("an administrator gives rights by `penstock user set`")
}

fn unusable(end: &str, place: &Location, problem: Problem) -> anyhow::Error {
    anyhow::Error::from(failure(problem)).context(format!("the {end} `{place}` cannot be used"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Location {
        text.parse().unwrap()
    }

    /// Promise: a target within the source is known by whole names, and only within one store.
    #[test]
    fn a_target_within_the_source_is_known() {
        for (outer, inner, is) in [
            ("a:s/x", "a:s/x", true),
            ("a:s/x/", "a:s/x/y", true),
            ("a:s", "a:s/x", true),
            ("a:s/x", "a:s/xy", false),
            ("a:s/x/y", "a:s/x", false),
            ("a:s/x", "a:t/x/y", false),
            ("b:s/x", "a:s/x/y", false),
        ] {
            assert_eq!(holds(&place(outer), &place(inner)), is, "{outer} {inner}");
        }
    }

    /// Promise: the place that is named where a source is missing is the directory around it.
    #[test]
    fn a_place_has_a_parent() {
        let parts = |text: &str| {
            let (parent, name) = split(&place(text));
            (parent.to_string(), name.to_string())
        };
        assert_eq!(parts("a:s/x/y/"), ("a:s/x".to_owned(), "y".to_owned()));
        assert_eq!(parts("a:s/x").1, "x");
        assert_eq!(parts("a:s").1, "");
    }
}
