//! Errors of a store, and their meaning for the item, the store or the transfer.

use std::io;

use penstock_proto::attributes::AttributeClass;
use penstock_proto::name;
use rustix::io::Errno;

use crate::meta::Kind;

/// The reason why an operation on a store failed. Paths are escaped for people ([`name::escape`]).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The system refused or failed an operation.
    #[error("cannot {operation} {}", top_or(.path))]
    Io {
        /// The verb, as a person reads it: `open`, `write`, `rename` …
        operation: &'static str,
        /// Path within the store, escaped; empty for the root.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The path is absolute, climbs, is malformed or is one of our own private names: it can only
    /// come from a hostile or broken manifest (C5).
    #[error("`{path}` is not a path inside a store")]
    BadPath {
        /// The path, escaped.
        path: String,
    },
    /// Something on the way is a link or a file, where only a directory may be (C5).
    #[error("`{path}`: something on the way is not a directory (links are never followed)")]
    NotDirectory {
        /// The path that was to be reached, escaped.
        path: String,
    },
    /// The thing at the path is of another kind than the operation needs.
    #[error("`{path}` is {found}, not {expected}")]
    WrongKind {
        /// The path, escaped.
        path: String,
        /// The kind that was found, with its article.
        found: &'static str,
        /// The kind that was expected, with its article.
        expected: &'static str,
    },
    /// An entry exists at the final name already, and may not be replaced.
    #[error("`{path}` exists already")]
    Exists {
        /// The path, escaped.
        path: String,
    },
    /// A device, pipe or socket has the final name, and may not be replaced.
    #[error("`{path}` is a device, pipe or socket")]
    SpecialFile {
        /// The path, escaped.
        path: String,
    },
    /// The store was opened for reading only.
    #[error("cannot {operation} {}: the store is read-only", top_or(.path))]
    ReadOnly {
        /// The verb.
        operation: &'static str,
        /// The path, escaped.
        path: String,
    },
    /// An attribute that must be kept could not be set. The error proves nothing about the store as
    /// a whole, for any number.
    #[error("cannot set {} of {}", class.words(), top_or(.path))]
    NotSet {
        /// The class of the attribute.
        class: AttributeClass,
        /// The path, escaped.
        path: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The store itself is a different one, or in a different place.
    #[error(transparent)]
    Offline(#[from] StoreOffline),
}

/// Returns a path in an error; the empty one is the root.
fn top_or(path: &str) -> String {
    if path.is_empty() { "the top of the store".to_owned() } else { format!("`{path}`") }
}

/// The store is not the one that was here: nothing of it may be touched, no item has failed (A5,
/// C3). It is quarantined at this peer until a check succeeds again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreOffline {
    /// The identity file is not there: most often the file system is not mounted.
    #[error("`{root}` has no `.penstock-store-7q2mv0kd9j/store`: is the store mounted?")]
    IdentityMissing {
        /// Path of the root on this host, escaped.
        root: String,
    },
    /// The identity file is there and cannot be understood.
    #[error("`.penstock-store-7q2mv0kd9j/store` in `{root}` is damaged")]
    IdentityDamaged {
        /// Path of the root on this host, escaped.
        root: String,
    },
    /// A different store is mounted here.
    #[error("`{root}` is store {found}, not {expected}")]
    OtherStore {
        /// Path of the root on this host, escaped.
        root: String,
        /// Id that is expected.
        expected: String,
        /// Id that is there.
        found: String,
    },
    /// The mount at the root differs from the one that was opened, or from the one that was
    /// recorded.
    #[error("`{root}` leads to another file system or directory now ({found})")]
    OtherMount {
        /// Path of the root on this host, escaped.
        root: String,
        /// The mount that is there.
        found: String,
    },
    /// The gate no longer allows changes ([`super::PosixStore::guarded`]).
    #[error("the store may not be changed: this peer is not the controller of its site now")]
    Fenced,
    /// No descriptor is left for checking the root: this proves nothing about the store.
    #[error("cannot examine store `{root}`: {reason}")]
    Short {
        /// Path of the root on this host, escaped.
        root: String,
        /// The error of the system.
        reason: String,
    },
    /// This user may not read the root, or the identity in it.
    #[error("store `{root}` may not be examined: {reason}")]
    Denied {
        /// Path of the root on this host, escaped.
        root: String,
        /// The error of the system.
        reason: String,
    },
    /// The root cannot be reached.
    #[error("`{root}` cannot be reached: {reason}")]
    Unreachable {
        /// Path of the root on this host, escaped.
        root: String,
        /// The error of the system.
        reason: String,
    },
}

impl StoreError {
    pub(crate) fn io(operation: &'static str, path: &[u8], errno: impl Into<io::Error>) -> Self {
        Self::Io { operation, path: name::escape(path), source: errno.into() }
    }

    pub(crate) fn bad_path(path: &[u8]) -> Self {
        Self::BadPath { path: name::escape(path) }
    }

    /// Returns the error of an attribute of the entry at `path` that could not be set, with
    /// errno(3).
    pub fn not_set(path: &[u8], class: AttributeClass, errno: i32) -> Self {
        let source = io::Error::from_raw_os_error(errno);
        Self::NotSet { class, path: name::escape(path), source }
    }

    /// Returns the system's error number: for the kinds without one, the closest.
    pub fn errno(&self) -> Option<i32> {
        let errno = match self {
            Self::Io { source, .. } | Self::NotSet { source, .. } => return source.raw_os_error(),
            Self::BadPath { .. } => Errno::INVAL,
            Self::NotDirectory { .. } => Errno::NOTDIR,
            Self::WrongKind { found, .. } if *found == Kind::Directory.with_article() => {
                Errno::ISDIR
            }
            Self::WrongKind { .. } => return None,
            Self::Exists { .. } => Errno::EXIST,
            // The error of a seek in such a file; no call that makes names returns it.
            Self::SpecialFile { .. } => Errno::SPIPE,
            Self::ReadOnly { .. } => Errno::ROFS,
            Self::Offline(_) => Errno::NODEV,
        };
        Some(errno.raw_os_error())
    }

    fn is_one_of(&self, errnos: &[Errno]) -> bool {
        let tells = !matches!(self, Self::NotSet { .. });
        tells
            && self.errno().is_some_and(|number| errnos.iter().any(|e| e.raw_os_error() == number))
    }

    /// Returns whether disk or quota is full: the caller starts no more files and finishes those
    /// that fit (E3).
    pub fn is_out_of_space(&self) -> bool {
        self.is_one_of(&[Errno::NOSPC, Errno::DQUOT])
    }

    /// Returns whether a file has no end that a read reaches.
    pub fn is_endless(&self) -> bool {
        self.is_one_of(&[Errno::FBIG])
    }

    /// Returns whether an entry has more extended attributes than the system lists.
    pub fn has_too_many_attributes(&self) -> bool {
        self.is_one_of(&[Errno::TOOBIG])
    }

    /// Returns whether the error means that a listed entry no longer exists, or has another place
    /// now.
    pub fn is_vanished(&self) -> bool {
        self.is_one_of(&[Errno::NOENT, Errno::STALE])
    }

    /// Returns whether no entry has that name, according to the file system.
    pub fn is_absent(&self) -> bool {
        self.is_one_of(&[Errno::NOENT])
    }

    /// Returns whether memory or descriptors ran out, or a call was interrupted. Such an error
    /// passes, and proves nothing about the item or the store.
    pub fn is_passing(&self) -> bool {
        let short = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS];
        self.is_one_of(&short) || self.is_one_of(&[Errno::AGAIN, Errno::INTR])
    }

    /// Returns whether a file system that takes no new names answers so, as `/proc` does: it may
    /// also be the answer of a directory that has gone.
    pub fn refuses_names(&self) -> bool {
        self.is_denied()
            || self.is_one_of(&[Errno::NOENT, Errno::NOSYS, Errno::OPNOTSUPP, Errno::INVAL])
    }

    /// Returns whether permissions forbid the call: a retry as the same user will not help.
    pub fn is_denied(&self) -> bool {
        self.is_one_of(&[Errno::ACCESS, Errno::PERM])
    }

    /// Returns whether the file system or the store is read-only.
    pub fn is_read_only(&self) -> bool {
        self.is_one_of(&[Errno::ROFS])
    }

    /// Returns whether the disk cannot read these bytes, as far as one call shows: the rest may be
    /// sound.
    pub fn is_bad_medium(&self) -> bool {
        self.is_one_of(&[Errno::IO, Errno::REMOTEIO])
    }

    /// Returns whether the device, its server or the way there failed: it may be one bad block, or
    /// the store as a whole. A client in user space that dies returns `ECONNABORTED` for calls in
    /// progress, and `ENOTCONN` for later ones (fuse_abort_conn() of Linux 6).
    pub fn is_io_failure(&self) -> bool {
        let device = [Errno::IO, Errno::NXIO, Errno::NODEV, Errno::STALE, Errno::REMOTEIO];
        let client = [Errno::NOTCONN, Errno::SHUTDOWN, Errno::CONNABORTED, Errno::CONNRESET];
        let server = [Errno::HOSTDOWN, Errno::HOSTUNREACH, Errno::NETDOWN, Errno::NETUNREACH];
        let silent = [Errno::TIMEDOUT];
        [&device[..], &client, &server, &silent].iter().any(|errnos| self.is_one_of(errnos))
    }

    /// Returns whether the caller may no longer make changes (B4): nothing was done, and nothing
    /// failed.
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Offline(StoreOffline::Fenced))
    }

    /// Returns whether the store as a whole is absent: no item fails, the store is quarantined (A5,
    /// C3).
    pub fn is_offline(&self) -> bool {
        matches!(self, Self::Offline(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a full disk or quota is never taken for corruption, nor a denied file for a lost
    /// one; and the message names the failed call and its object.
    #[test]
    fn errors_are_classified_by_what_to_do_next() {
        let full = StoreError::io("write", b"a\nb", Errno::NOSPC);
        assert!(full.is_out_of_space() && !full.is_vanished());
        assert_eq!(full.to_string(), "cannot write `a\\nb`");
        assert!(StoreError::io("write", b"a", Errno::DQUOT).is_out_of_space());
        assert!(StoreError::io("open", b"a", Errno::ACCESS).is_denied());
        assert!(StoreError::io("open", b"a", Errno::STALE).is_vanished());
        let read_only = StoreError::ReadOnly { operation: "rename", path: "a".into() };
        assert!(read_only.is_read_only() && !read_only.is_denied());
        let stale = StoreError::io("stat", b"a", Errno::STALE);
        assert!(!stale.is_absent() && StoreError::io("stat", b"a", Errno::NOENT).is_absent());
        for errno in [Errno::MFILE, Errno::NOMEM, Errno::INTR] {
            let passing = StoreError::io("stat", b"a", errno);
            assert!(passing.is_passing() && !passing.is_io_failure() && !passing.is_absent());
        }
        let bad = StoreError::io("read", b"a", Errno::IO);
        assert!(bad.is_bad_medium() && !bad.is_passing() && !stale.is_bad_medium());
        let gone = StoreError::from(StoreOffline::IdentityMissing { root: "/data".into() });
        assert!(gone.is_offline() && !gone.is_vanished());
        for errno in [Errno::IO, Errno::NOTCONN, Errno::CONNABORTED, Errno::HOSTUNREACH] {
            assert!(StoreError::io("write", b"a", errno).is_io_failure(), "{errno}");
        }
        assert!(!StoreError::io("write", b"a", Errno::NOSPC).is_io_failure());
        let fenced = StoreError::from(StoreOffline::Fenced);
        assert!(fenced.is_fenced() && !gone.is_fenced());
    }
}
