//! The state of a copy that is not complete, and of copies that nobody goes on with.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use penstock_api::heads::HeadStore as _;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::task::{TargetPeer, TaskSpec};
use penstock_api::transfer::{PathText, TransferOptions};
use penstock_cluster::state::SqliteState;
use penstock_controller::runner::{
    clean_abandoned, drop_damaged_proofs, plan_path, removal_has_begun,
};
use penstock_proto::id::{Name, TransferId};
use penstock_proto::name::{OWN_HASH_BYTES, OwnKind, RunTag, own_name};
use penstock_sys::now_seconds;
use penstock_sys::{LockError, LockFile};

use super::places::absolute;
use super::source_lists::{source_has_begun_to_remove, source_in};
use penstock_exit::failure;
use penstock_exit::{self as exit, ExitCode, Failure};

/// Where a state says to which place its copy writes.
const TARGET: &str = "target";

/// Most attempts to make a state that vanishes before it is locked.
const ATTEMPTS: u32 = 100;

/// The state of a copy, held by this process alone.
pub(crate) struct State {
    pub(crate) directory: PathBuf,
    pub(crate) id: TransferId,
    /// Seconds since 1970 of the attempt that listed the source; an age is counted from there.
    pub(crate) created: u64,
    /// Which list of the source this attempt works on: each attempt makes another one.
    pub(crate) listing: u32,
    pub(crate) resumed: bool,
    /// Digest of the options that the list was made for, in hex; empty if another end knows.
    asked: String,
    /// Whether this attempt works on another list than the one before.
    lists_anew: bool,
    /// Set where this attempt ends a move that has begun to remove at its source.
    ends_move: bool,
    _lock: LockFile,
}

impl State {
    /// The state of copying `from` to `to`: what an earlier run has left, whatever its options are,
    /// or a new one.
    ///
    /// # Errors
    /// The same copy is running, or the state cannot be kept.
    pub(crate) fn open(from: &Path, to: &Path, options: &TransferOptions) -> anyhow::Result<Self> {
        // Whatever the other options are, what is at the target is the same.
        let wish = serde_json::to_vec(&(options.digest, &options.plan));
        let wish = wish.context("cannot write the options")?;
        let parts = [from.as_os_str().as_bytes(), to.as_os_str().as_bytes(), &wish];
        let key = penstock_proto::manifest::page_digest(&parts.join(&0)).0;
        let asked = digest_of(options)?;
        let directory = state_home()?.join("copy").join(own_name_of(&key));
        let mut state = Self::open_at(directory, None, &asked)?;
        // A plan is a list of its own. What is being removed at the source is on the list there
        // is, and the same move ends it; any other copy begins with a list of its own.
        let is_same_move = state.asked == asked && state.has_begun_to_remove();
        state.ends_move = state.resumed && options.plan.is_none() && is_same_move;
        if state.resumed && options.plan.is_none() && !is_same_move {
            state.take_another_list();
        }
        if state.asked != asked || state.lists_anew {
            state.asked = asked;
            state.write_id()?;
        }
        Ok(state)
    }

    fn take_another_list(&mut self) {
        (self.lists_anew, self.ends_move) = (true, false);
        self.listing = self.listing.saturating_add(1);
        self.created = now_seconds();
    }

    /// Lists the source anew where this attempt would end a move, but the target is another than
    /// the one that has what was moved: what the source still holds is moved there.
    ///
    /// # Errors
    /// The state cannot be kept.
    pub(crate) fn leave_other_target(
        &mut self,
        target: &dyn TargetPeer,
        store: &Name,
    ) -> anyhow::Result<()> {
        if !self.ends_move {
            return Ok(());
        }
        let before = self.open_heads()?.load(self.id).map_or(0, |head| head.store);
        if before != 0 && target.store_id(store).is_ok_and(|now| now != Some(before)) {
            self.take_another_list();
            self.write_id()?;
        }
        Ok(())
    }

    /// Has the next attempt list the source anew, for the far end has found another target than the
    /// one that has what was moved.
    pub(super) fn leave_far_target(&self) {
        let Self { id, asked, .. } = self;
        let (created, listing) = (now_seconds(), self.listing.saturating_add(1));
        if let Err(error) = self.write(&format!("{id} {created} {listing} {asked}\n")) {
            tracing::warn!(%error, "the next attempt meets the same target");
        }
    }

    /// Returns whether a move has begun to remove at its source. Either end may know.
    fn has_begun_to_remove(&self) -> bool {
        has_begun_to_remove(&self.directory, self.id)
    }

    /// Returns the directory in which a source in this process keeps its lists.
    pub(crate) fn source(&self) -> PathBuf {
        source_in(&self.directory)
    }

    /// Returns whether this process may change the source. A move does, and a file that an earlier
    /// move has put aside there gets its name back.
    pub(crate) fn writes_source(&self, removes: bool) -> bool {
        removes || source_has_begun_to_remove(&self.directory, self.id)
    }

    /// The state of a copy whose other end, at another host, has its id and counts its lists.
    ///
    /// # Errors
    /// As [`State::open`].
    pub(crate) fn of_id(id: TransferId, listing: u32) -> anyhow::Result<Self> {
        let directory = state_home()?.join("copy").join(own_name_of(&id.0));
        let mut state = Self::open_at(directory, Some(id), "")?;
        (state.listing, state.lists_anew) = (listing, state.resumed);
        Ok(state)
    }

    fn open_at(directory: PathBuf, id: Option<TransferId>, asked: &str) -> anyhow::Result<Self> {
        let lock = lock(&directory)?;
        let path = directory.join("id");
        let text = fs::read_to_string(&path).ok();
        let known = text.as_deref().and_then(|text| {
            let mut words = text.split_whitespace();
            let (id, created) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            let listing = words.next()?.parse().ok()?;
            Some((id, created, listing, words.next().unwrap_or_default().to_owned()))
        });
        let mut known = known;
        if known.is_none() && path.exists() {
            warn_of_damage(&path);
            // Its number is greater than any that was counted from 0.
            let listing = u32::try_from(now_seconds()).unwrap_or(u32::MAX / 2);
            known = ledger_in(&directory).map(|id| (id, now_seconds(), listing, String::new()));
        }
        let resumed = known.is_some();
        let (id, created, listing, asked) = known.unwrap_or_else(|| {
            let id = id.unwrap_or_else(|| TransferId(rand::random()));
            (id, now_seconds(), 0, asked.to_owned())
        });
        let (lists_anew, ends_move, _lock) = (false, false, lock);
        let state =
            Self { directory, id, created, listing, resumed, asked, lists_anew, ends_move, _lock };
        if !resumed {
            state.write_id()?;
        }
        Ok(state)
    }

    /// Keeps what tells this copy from others, durably.
    fn write_id(&self) -> anyhow::Result<()> {
        let Self { id, created, listing, asked, .. } = self;
        self.write(&format!("{id} {created} {listing} {asked}\n"))
    }

    fn write(&self, text: &str) -> anyhow::Result<()> {
        let path = self.directory.join("id");
        let temporary = path.with_extension("new");
        let written = fs::write(&temporary, text)
            .and_then(|()| fs::File::open(&temporary)?.sync_all())
            .and_then(|()| fs::rename(&temporary, &path));
        Ok(written.map_err(|error| state_failed(&self.directory, error))?)
    }

    /// Whether this attempt goes on with the list of an earlier one.
    pub(super) fn keeps_its_list(&self) -> bool {
        self.resumed && !self.lists_anew
    }

    /// Where the journal is.
    pub(crate) fn journal(&self) -> PathBuf {
        self.directory.join("journal")
    }

    /// Keeps the plan that the copy is to follow; it may have been resumed with it.
    pub(super) fn put_plan(&self, file: &Path) -> anyhow::Result<()> {
        let to = plan_path(&self.journal());
        let put = || {
            fs::create_dir_all(self.journal())?;
            let temporary = to.with_extension("new");
            fs::copy(file, &temporary)?;
            fs::rename(&temporary, &to)
        };
        Ok(put()
            .map_err(|error| Failure::io(format!("keep the plan in `{}`", to.display()), error))?)
    }

    /// Opens the heads of the ledger. Where these are damaged the ledger is given up, and that is
    /// said: what it tells of is looked at, or moved, again.
    ///
    /// # Errors
    /// They cannot be kept.
    pub(crate) fn open_heads(&self) -> anyhow::Result<SqliteState> {
        if self.resumed {
            for path in drop_damaged_proofs(&self.journal()) {
                warn_of_damage(&path);
            }
        }
        let path = self.directory.join("state.sqlite");
        let open = || SqliteState::open(&path).map_err(Problem::from);
        let sound = |heads: SqliteState| heads.load(self.id).map(|_| heads);
        match open().and_then(sound) {
            Ok(heads) => Ok(heads),
            Err(problem)
                if self.resumed && self.lists_anew && problem.code != ProblemCode::StateVersion =>
            {
                tracing::warn!(%problem, "dropping the heads of a ledger");
                warn_of_damage(&path);
                for name in ["state.sqlite", "state.sqlite-wal", "state.sqlite-shm"] {
                    let _ = fs::remove_file(self.directory.join(name));
                }
                Ok(open().map_err(failure)?)
            }
            Err(problem) => Err(failure(problem).into()),
        }
    }

    /// Prepares the target, whose store and root there `at` names, for an attempt to write to `to`:
    /// removes what other copies to the same place have left that nobody goes on with, and returns
    /// whether the target is another than the one that an earlier attempt has written to. That is
    /// said; the copy begins anew there.
    pub(crate) fn settle_target(
        &self,
        heads: &SqliteState,
        target: &dyn TargetPeer,
        at: (&Name, &[u8]),
        to: &Path,
    ) -> bool {
        self.note_target(to);
        for other in self.abandoned(to) {
            other.clean(target, at);
        }
        let before = heads.load(self.id).map_or(0, |head| head.store);
        if before == 0 || !self.lists_anew {
            return false;
        }
        let is_new = target.store_id(at.0).is_ok_and(|now| now != Some(before));
        if is_new {
            exit::warn(&format!(
                "`{}` was removed or replaced after the copy was interrupted; the copy starts \
                 again there",
                to.display()
            ));
        }
        is_new
    }

    /// Notes where this copy writes to, for commands that copy something else there.
    fn note_target(&self, to: &Path) {
        let path = self.directory.join(TARGET);
        if let Err(error) = fs::write(&path, to.as_os_str().as_bytes()) {
            tracing::warn!(path = %path.display(), %error, "cannot record the target");
        }
    }

    /// The states of other copies to the same place whose processes have ended.
    fn abandoned(&self, to: &Path) -> Vec<Self> {
        let Some(home) = self.directory.parent() else { return Vec::new() };
        let found = fs::read_dir(home).into_iter().flatten().filter_map(Result::ok);
        let directories = found.map(|entry| entry.path()).filter(|path| *path != self.directory);
        let same = |path: &PathBuf| {
            fs::read(path.join(TARGET)).is_ok_and(|target| target == to.as_os_str().as_bytes())
        };
        let states = directories.filter(same).filter_map(|path| Self::open_at(path, None, "").ok());
        // Only the same move finds again what it has put aside at its source.
        states.filter(|state| !state.has_begun_to_remove()).collect()
    }

    /// Removes what an abandoned copy has left at its target, and its state. What cannot be removed
    /// is logged, and tried again by the next command.
    fn clean(&self, target: &dyn TargetPeer, (store, root): (&Name, &[u8])) {
        let spec = TaskSpec::of_cleaning(self.id, store.clone(), PathText(root.to_vec()));
        let cleaned = SqliteState::open(&self.directory.join("state.sqlite"))
            .map_err(Problem::from)
            .and_then(|heads| heads.load(self.id))
            .and_then(|head| clean_abandoned(target, &spec, &head, &self.journal()));
        match cleaned {
            Ok(()) => self.remove(),
            Err(problem) => {
                tracing::warn!(id = %self.id, %problem, "an abandoned copy is left");
            }
        }
    }

    /// Removes the state: at once as far as the next command can see, for half of it would be a
    /// ledger that is wrong.
    pub(crate) fn remove(&self) {
        remove_state(&self.directory);
    }
}

/// Returns whether the state in `directory` is of a move, with this id, that has begun to remove at
/// its source.
pub(crate) fn has_begun_to_remove(directory: &Path, id: TransferId) -> bool {
    removal_has_begun(&directory.join("journal")) || source_has_begun_to_remove(directory, id)
}

/// Digest, in hex, of all options but those that say how fast a copy is.
fn digest_of(options: &TransferOptions) -> anyhow::Result<String> {
    let options = TransferOptions { limits: Default::default(), ..options.clone() };
    let text = serde_json::to_vec(&options).context("cannot write the options")?;
    Ok(penstock_proto::manifest::page_digest(&text).to_hex())
}

/// Makes the directory of a state, if it is not there, and locks it.
fn lock(directory: &Path) -> anyhow::Result<LockFile> {
    let failed = |error| state_failed(directory, error);
    // What is copied, by name, is nobody else's to read.
    let mut private = fs::DirBuilder::new();
    let mut attempts = 0;
    loop {
        private.recursive(true).mode(0o700).create(directory).map_err(failed)?;
        // What a copy that was killed at its very end has left.
        let _ = fs::remove_dir_all(gone(directory));
        match LockFile::acquire(&directory.join("lock")) {
            Ok(lock) => return Ok(lock),
            // A copy that is done has removed its state between the two steps.
            Err(LockError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound && attempts < ATTEMPTS =>
            {
                attempts += 1;
            }
            Err(error) => return Err(not_locked(directory, error).into()),
        }
    }
}

fn not_locked(directory: &Path, error: LockError) -> Failure {
    match error {
        LockError::Held { .. } | LockError::Claimed { .. } => {
            let message = "the same copy is running already";
            Failure::new(ExitCode::Temporary, message).caused_by(error)
        }
        error => {
            let message = format!("cannot lock the state in `{}`", directory.display());
            Failure::new(ExitCode::Fatal, message)
                .caused_by(error)
                .hint("set PENSTOCK_STATE_HOME to a directory on a local disk")
        }
    }
}

fn state_failed(directory: &Path, error: std::io::Error) -> Failure {
    Failure::io(format!("keep state in `{}`", directory.display()), error)
        .hint("set PENSTOCK_STATE_HOME to a directory that can be written")
}

fn warn_of_damage(path: &Path) {
    exit::warn(&format!(
        "the state of the interrupted copy is damaged (`{}`); the copy starts again",
        path.display()
    ));
}

/// Whose ledger a state has, if it has one.
fn ledger_in(directory: &Path) -> Option<TransferId> {
    let heads = SqliteState::open(&directory.join("state.sqlite")).ok()?;
    heads.ledgers().ok()?.first().copied()
}

/// Name of the directory that keeps the state of the run with this key of 16 bytes or more: an own
/// name, so that no copy takes it for a part of a data set, whatever it is that is copied.
fn own_name_of(key: &[u8]) -> OsString {
    let (mut tag, mut hash) = ([0; 4], [0; OWN_HASH_BYTES]);
    tag.copy_from_slice(&key[..4]);
    hash.copy_from_slice(&key[4..4 + OWN_HASH_BYTES]);
    OsString::from_vec(own_name(OwnKind::Run, RunTag(tag), hash).to_vec())
}

/// Removes the state of a run, which the caller has locked.
pub(crate) fn remove_state(directory: &Path) {
    let gone = gone(directory);
    let removed = fs::rename(directory, &gone).and_then(|()| fs::remove_dir_all(&gone));
    if let Err(error) = removed {
        tracing::warn!(path = %directory.display(), %error, "state is left");
    }
}

/// Name of the state directory of a run while it is removed.
fn gone(directory: &Path) -> PathBuf {
    let name = directory.file_name().unwrap_or_default();
    let key = penstock_proto::manifest::page_digest(name.as_bytes()).0;
    directory.with_file_name(own_name_of(&key))
}

/// The same options, with which nothing deletes this user's long-lived state, should that lie below
/// the `target`: a user's home is a target like any other.
pub(crate) fn keeping_state(options: &TransferOptions, target: &Path) -> TransferOptions {
    let mut options = options.clone();
    if options.update.delete {
        let home = state_home().and_then(|home| absolute(&home)).ok();
        let below = home.as_deref().and_then(|home| home.strip_prefix(target).ok());
        let below = below.filter(|path| !path.as_os_str().is_empty());
        options.update.kept_state = below.map(|path| PathText(path.as_os_str().as_bytes().into()));
    }
    options
}

/// Where the state of copies is kept.
///
/// # Errors
/// Nothing says where.
pub(crate) fn state_home() -> anyhow::Result<PathBuf> {
    if let Some(home) = std::env::var_os("PENSTOCK_STATE_HOME") {
        return Ok(home.into());
    }
    if let Some(home) = std::env::var_os("XDG_STATE_HOME") {
        return Ok(PathBuf::from(home).join("penstock"));
    }
    let home = std::env::var_os("HOME").ok_or_else(|| {
        Failure::new(ExitCode::Usage, "neither HOME nor PENSTOCK_STATE_HOME is set")
            .hint("set PENSTOCK_STATE_HOME to a directory for the state of copies")
    })?;
    Ok(PathBuf::from(home).join(".local/state/penstock"))
}
