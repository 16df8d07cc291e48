//! The root of a data set: finding it, and the problems that it may have.

use std::io;

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::scan::RootKind;
use penstock_proto::name::{self, Own};
use penstock_store::{Dir, Kind, Meta, Source, StoreError};

use crate::stores::chain;
use crate::stores::guard::is_missing;

/// Finds a path. Returns its directory, its name there, and its attributes.
pub(crate) fn look(source: &Source, path: &[u8]) -> Result<(Dir, Vec<u8>, Meta), StoreError> {
    let (parent, leaf) = name::split(path).unwrap_or((b"", b""));
    let dir = source.open_dir(parent)?;
    let meta = source.stat(&dir, leaf)?;
    Ok((dir, leaf.to_vec(), meta))
}

/// Returns the kind of the root of a data set.
pub(crate) fn root_kind(source: &Source, root: &[u8]) -> Result<RootKind, Problem> {
    if let Some(own) = own_within(root) {
        let (title, hint) = if own.kind.holds_data() {
            ("is a file that a copy has not finished", "copy what it is made from")
        } else {
            ("is state of penstock", "give a path outside of it")
        };
        let title = format!("`{}` {title}", name::escape(root));
        return Err(Problem::new(ProblemCode::SourceKind, title).hint(hint));
    }
    let (_, _, meta) = look(source, root).map_err(|error| root_problem(root, &error))?;
    match meta.kind {
        Kind::Directory => Ok(RootKind::Directory),
        Kind::File | Kind::Symlink | Kind::Fifo | Kind::CharDevice | Kind::BlockDevice => {
            Ok(RootKind::Single)
        }
        Kind::Other => {
            let title = format!("`{}` is a socket", name::escape(root));
            Err(Problem::new(ProblemCode::SourceKind, title))
        }
    }
}

pub(super) fn root_problem(root: &[u8], error: &StoreError) -> Problem {
    let title = format!("cannot examine the source `{}`", name::escape(root));
    let code = if is_missing(error) {
        ProblemCode::SourceMissing
    } else if error.is_denied() {
        ProblemCode::SourceDenied
    } else if error.is_passing() || error.is_io_failure() || error.is_offline() {
        // A dead server or client, a disk that fails, a limit of this host: it may be put right.
        return Problem::new(ProblemCode::Source, title).because(chain(error));
    } else if error.is_endless() {
        let why = "its file system does not report its length, and reading it found no end within \
                   64 MiB (64 GiB on FUSE), or waited for 10 s";
        return Problem::new(ProblemCode::SourceUnreadable, title).because(why);
    } else if error.has_too_many_attributes() {
        let why = "the names of its extended attributes take more than 64 KiB, which the kernel \
                   does not list";
        let problem = Problem::new(ProblemCode::SourceUnreadable, title).because(why);
        return problem.hint("`--no-preserve xattrs` copies it without them");
    } else {
        ProblemCode::SourceUnreadable
    };
    Problem::new(code, title).because(chain(error))
}

/// Returns the problem of a root that this user may enter and not list.
pub(super) fn unlisted_root(root: &[u8], error: &StoreError) -> Problem {
    let title = match root {
        b"" => "cannot list the source".to_owned(),
        root => format!("cannot list the source `{}`", name::escape(root)),
    };
    let why = error.errno().map(io::Error::from_raw_os_error);
    Problem::new(ProblemCode::SourceUnlisted, title)
        .because(why.map_or_else(|| chain(error), |why| why.to_string()))
        .hint("ask its owner for the right to read it, or name what is in it by `--files-from`")
}

/// Returns the first component of `path` that is an own name.
pub(super) fn own_within(path: &[u8]) -> Option<Own> {
    path.split(|&byte| byte == b'/').find_map(name::own)
}
