//! The root of a data set at the target, and conflicts between transfers (hard case B8).

use std::path::{Path, PathBuf};

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::scan::RootKind;
use penstock_api::transfer::{Location, PathText};
use penstock_proto::name;

/// Returns the root of the data set at the target, by rsync's rule. A source with a slash at its
/// end puts its contents into the target path itself. Without the slash, it goes into the target
/// path under its own last name. A single file whose target is not a directory becomes exactly the
/// target path.
///
/// # Errors
/// The source is written with a slash and is not a directory; the target is a file and would have
/// to be a directory.
pub(super) fn root(
    source: &Location,
    kind: RootKind,
    target: &Location,
    there: Option<RootKind>,
) -> Result<PathText, Problem> {
    let not_directory = |what: &Location| {
        Problem::new(ProblemCode::NotADirectory, format!("`{what}` is not a directory"))
    };
    let into_directory = match inner_name(source) {
        None if kind == RootKind::Single => return Err(not_directory(source)),
        None => return contents(target, there).ok_or_else(|| not_directory(target)),
        Some(_) if kind == RootKind::Directory => true,
        Some(_) => is_directory(target, there),
    };
    if !into_directory {
        return Ok(target.path.clone());
    }
    if there == Some(RootKind::Single) {
        return Err(not_directory(target));
    }
    Ok(under(target, inner_name(source).unwrap_or_default()))
}

/// Checks that a target has no name of Penstock's own in it. A store keeps its private directory
/// and unfinished files under such names (C8).
///
/// # Errors
/// Code `target-private`: no retry helps.
pub(super) fn check_not_own(target: &Location) -> Result<(), Problem> {
    let mut names = target.path.0.split(|byte| *byte == b'/');
    let first = names.next().unwrap_or_default();
    let own = |part: &[u8]| name::own(part).is_some();
    if first != name::STORE_PRIVATE_NAME && !own(first) && !names.any(own) {
        return Ok(());
    }
    let title = format!("`{target}` is a place of Penstock's own, where nothing is moved to");
    Err(Problem::new(ProblemCode::TargetPrivate, title).hint("choose another target"))
}

/// Returns the smallest path that surely holds the root, before the source has reported its kind.
pub(super) fn claim(source: &Location, target: &Location, there: Option<RootKind>) -> PathText {
    match inner_name(source) {
        Some(last) if is_directory(target, there) => under(target, last),
        _ => target.path.clone(),
    }
}

fn contents(target: &Location, there: Option<RootKind>) -> Option<PathText> {
    (there != Some(RootKind::Single)).then(|| target.path.clone())
}

/// Returns the name that a source keeps at the target; `None` if its contents are meant.
fn inner_name(source: &Location) -> Option<&[u8]> {
    if source.slash { None } else { name::split(&source.path.0).map(|(_, last)| last) }
}

fn is_directory(target: &Location, there: Option<RootKind>) -> bool {
    target.slash || target.path.0.is_empty() || there == Some(RootKind::Directory)
}

fn under(target: &Location, last: &[u8]) -> PathText {
    PathText(name::join(&target.path.0, last))
}

/// Returns whether two places touch: one is the other, or lies within it.
pub(super) fn overlap(a: &[u8], b: &[u8]) -> bool {
    let within = |inner: &[u8], outer: &[u8]| {
        outer.is_empty()
            || inner.strip_prefix(outer).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
    };
    within(a, b) || within(b, a)
}

/// Returns a path in a form in which two stores of one host can be compared: below the directory of
/// its store, or below the name of a store without a directory.
pub(super) fn absolute(directory: Option<&Path>, store: &str, path: &PathText) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt as _;
    let base = directory.map_or_else(|| PathBuf::from(format!("{store}:")), Path::to_path_buf);
    let base = base.as_os_str().as_bytes();
    name::join(base.strip_suffix(b"/").unwrap_or(base), &path.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use RootKind::{Directory, Single};

    fn location(text: &str) -> Location {
        text.parse().unwrap()
    }

    /// Promise: a trailing slash has the meaning that it has for rsync.
    #[test]
    fn roots_follow_the_rule_of_rsync() {
        let cases = [
            ("lab:raw/run7/", Directory, "hpc:s/x", None, "x"),
            ("lab:raw/run7/", Directory, "hpc:s/x", Some(Directory), "x"),
            ("lab:raw/run7", Directory, "hpc:s/x", None, "x/run7"),
            ("lab:raw/run7", Directory, "hpc:s/x/", Some(Directory), "x/run7"),
            ("lab:raw/run7", Directory, "hpc:s", Some(Directory), "run7"),
            ("lab:raw", Directory, "hpc:s/x", None, "x"),
            ("lab:raw/", Directory, "hpc:s/", Some(Directory), ""),
            ("lab:raw/a/f", Single, "hpc:s/x", None, "x"),
            ("lab:raw/a/f", Single, "hpc:s/x", Some(Single), "x"),
            ("lab:raw/a/f", Single, "hpc:s/x", Some(Directory), "x/f"),
            ("lab:raw/a/f", Single, "hpc:s/x/", None, "x/f"),
            ("lab:raw/a/f", Single, "hpc:s", Some(Directory), "f"),
        ];
        for (source, kind, target, there, expected) in cases {
            let (source, target) = (location(source), location(target));
            let found = root(&source, kind, &target, there).unwrap();
            assert_eq!(found.to_string(), expected, "{source} to {target}, {there:?}");
            let claim = claim(&source, &target, there);
            assert!(overlap(&claim.0, &found.0) && claim.0.len() <= found.0.len());
        }
        let slash_on_file = root(&location("lab:raw/f/"), Single, &location("hpc:s/x"), None);
        assert_eq!(slash_on_file.unwrap_err().code, ProblemCode::NotADirectory);
        let (source, target) = (location("lab:raw/d"), location("hpc:s/x"));
        assert!(root(&source, Directory, &target, Some(Single)).is_err());
        assert!(root(&location("lab:raw/d/"), Directory, &target, Some(Single)).is_err());
    }

    /// B8: paths overlap by components, not by letters.
    #[test]
    fn b8_paths_overlap_by_components() {
        for (a, b) in [("", "x"), ("x", "x"), ("x", "x/y"), ("a/b/c", "a/b")] {
            assert!(overlap(a.as_bytes(), b.as_bytes()) && overlap(b.as_bytes(), a.as_bytes()));
        }
        for (a, b) in [("x", "xy"), ("x/y", "x/z"), ("a", "b")] {
            assert!(!overlap(a.as_bytes(), b.as_bytes()));
        }
        let inner = absolute(Some(Path::new("/data/in/")), "b", &PathText(b"x".to_vec()));
        let outer = absolute(Some(Path::new("/data")), "a", &PathText(b"in".to_vec()));
        assert!(overlap(&inner, &outer), "two stores of one disk");
    }
}
