//! Files that runs have left below a directory: found by their names, and removed if the caller
//! asks for that.

use std::ops::ControlFlow;
use std::path::Path;

use penstock_api::problem::{Problem, ProblemCode};
use penstock_proto::name::{self, Own, OwnKind};
use penstock_store::{
    Attributes, Dir, Kind, ListBuffer, Meta, PosixOptions, PosixStore, StoreError,
    set_dir_attributes,
};

use crate::scan::path_stack::PathStack;

/// Something with an own name.
#[derive(Clone, Copy, Debug)]
pub struct LeftOver<'a> {
    /// Path below the directory that is looked through.
    pub path: &'a [u8],
    /// Its use, and the run that made it.
    pub own: Own,
    /// Size, owner and times.
    pub meta: Meta,
}

/// Receives the files that are found, and decides about each.
pub trait Cleaner {
    /// Decides whether a file is removed. State of runs and private directories of stores are not
    /// shown.
    fn goes(&mut self, found: &LeftOver<'_>) -> bool;

    /// Learns that a file was removed.
    fn removed(&mut self, found: &LeftOver<'_>);

    /// Learns that a directory could not be listed, or a file not be removed.
    fn failed(&mut self, path: &[u8], error: &StoreError);
}

/// Shows each unfinished file, file put aside and marker below `root` to `cleaner`, and removes
/// those that it chooses. The times of their directories stay. Blocks; memory does not grow with
/// the number of files or directories.
///
/// # Errors
/// `root` cannot be opened, or the directories that wait cannot be kept.
pub fn clean_below(root: &Path, cleaner: &mut dyn Cleaner) -> Result<(), Problem> {
    let failed = |cause: &dyn std::error::Error| {
        let title = format!("cannot look through `{}`", root.display());
        Problem::new(ProblemCode::Clean, title).because(cause)
    };
    let store = PosixStore::open(root, PosixOptions::default()).map_err(|error| failed(&error))?;
    let mut waiting = PathStack::default();
    waiting.push(Vec::new());
    let mut buffer = ListBuffer::new();
    while let Some(path) = waiting.pop().map_err(|error| failed(&error))? {
        let dir = match store.open_dir(&path) {
            Ok(dir) => dir,
            Err(error) if error.is_vanished() => continue,
            Err(error) => {
                cleaner.failed(&path, &error);
                continue;
            }
        };
        clean(&store, &dir, &mut buffer, &mut waiting, cleaner);
    }
    Ok(())
}

fn clean(
    store: &PosixStore,
    dir: &Dir,
    buffer: &mut ListBuffer,
    waiting: &mut PathStack,
    cleaner: &mut dyn Cleaner,
) {
    let mut removed = false;
    let before = store.stat(dir, b"");
    let listed = store.list(dir, buffer, &mut |entry| {
        let path = name::join(dir.path(), entry.name);
        match entry.own {
            Some(own) if matches!(own.kind, OwnKind::Run | OwnKind::Store) => {}
            Some(own) => removed |= deal_with(store, dir, (entry.name, &path), own, cleaner),
            None => {
                let asked = || store.stat(dir, entry.name).ok().map(|meta| meta.kind);
                if entry.kind.or_else(asked) == Some(Kind::Directory) {
                    waiting.push(path);
                }
            }
        }
        ControlFlow::Continue(())
    });
    if let Err(error) = listed {
        cleaner.failed(dir.path(), &error);
    }
    if removed && let Ok(before) = before {
        let time = Attributes { mtime: Some(before.mtime), ..Attributes::default() };
        // The time of another user's directory cannot be set, which costs nothing.
        let _ = set_dir_attributes(store, dir.path(), &time);
    }
}

/// Removes a file, if the caller wants that. Returns whether it is gone.
fn deal_with(
    store: &PosixStore,
    dir: &Dir,
    (leaf, path): (&[u8], &[u8]),
    own: Own,
    cleaner: &mut dyn Cleaner,
) -> bool {
    let meta = match store.stat_if_exists(dir, leaf) {
        Ok(Some(meta)) => meta,
        Ok(None) => return false,
        Err(error) => {
            cleaner.failed(path, &error);
            return false;
        }
    };
    let found = LeftOver { path, own, meta };
    if meta.kind == Kind::Directory || !cleaner.goes(&found) {
        return false;
    }
    match store.remove(dir, leaf) {
        Ok(gone) => {
            cleaner.removed(&found);
            gone
        }
        Err(error) => {
            cleaner.failed(path, &error);
            false
        }
    }
}
