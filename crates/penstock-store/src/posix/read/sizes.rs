//! Files whose file system does not report their length (C7).
//!
//! The kernel generates the files of `/proc`, `/sys` and the like at each read, and reports 0 or
//! 4,096 bytes for them; a server behind FUSE may report any size. The length of such a file is
//! that of one read to its end. File systems of disks and of known servers are believed: an empty
//! file there costs no read.
//!
//! A scan reads at most 64 MiB of a file, for 10 s. A longer file behind FUSE is listed with the
//! size that is reported, and its length is learned when it is sent. A read that waits for data (a
//! log of the kernel, a stuck server) holds up a scan for 10 s at most.

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use penstock_sys::FileSystemKind;
use rustix::fs::OFlags;
use rustix::io::{Errno, read};

use crate::dir::Dir;
use crate::error::StoreError;
use crate::meta::{Kind, Meta};
use crate::posix::sandbox::open_component;
use crate::posix::store::PosixStore;
use crate::read_file::{Handle, ReadFile};

/// Bytes of one read on the way to the end of a file.
const STEP_BYTES: usize = 128 * 1024;
/// Longest file that is read to its end by a scan, or on a file system that the kernel makes up.
const SHORT_BYTES_MAX: u64 = 64 << 20;
/// Longest time for that.
const SHORT_TIME_MAX: Duration = Duration::from_secs(10);
/// Longest file that is read to its end elsewhere, when it is to be sent.
const LONG_BYTES_MAX: u64 = 64 << 30;
/// Longest time for that: this, and a second for each MiB.
const LONG_TIME_MIN: Duration = Duration::from_secs(60);
/// Longest time between two steps of reading, after which the read of a file is abandoned.
const STALL_MAX: Duration = Duration::from_secs(10);
/// Threads that may hang in abandoned reads. With more such threads no such file is read.
const STALLED_MAX: usize = 16;

static STALLED: AtomicUsize = AtomicUsize::new(0);

/// `f_type` of file systems whose files the kernel makes up (linux/magic.h, fs/*/ of Linux 6):
/// proc, sysfs, debugfs, tracefs, cgroup, cgroup2, securityfs, SELinux, Smack, AppArmor, configfs,
/// `binfmt_misc`, fusectl, nsfs, `rpc_pipefs`, nfsd, bpf, resctrl, pstore, xenfs, mqueue, efivarfs,
/// `openprom`, `usbdevfs`, hypfs.
const MADE: [u32; 25] = [
    0x9fa0,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0x0027_e0eb,
    0x6367_7270,
    0x7363_6673,
    0xf97c_ff8c,
    0x4341_5d53,
    0x5a3c_69f0,
    0x6265_6570,
    0x4249_4e4d,
    0x6573_5543,
    0x6e73_6673,
    0x6759_6969,
    0x6e66_7364,
    0xcafe_4a11,
    0x0765_5821,
    0x6165_676c,
    0xabba_1974,
    0x1980_0202,
    0xde5e_81e4,
    0x9fa1,
    0x9fa2,
    0x6870_7a70,
];

/// `f_type` of further file systems that report the size of each file: F2FS, bcachefs, ZFS, ramfs,
/// FAT, exFAT, NTFS, NTFS3, ISO 9660, UDF, SquashFS, EROFS, cramfs, JFS, ReiserFS, HFS, HFS+,
/// NILFS, OCFS2, GFS2, hugetlbfs, JFFS2, UBIFS, zonefs, eCryptfs, AFS, OrangeFS, `VxFS`, `PanFS`.
const SOUND: [u32; 29] = [
    0xf2f5_2010,
    0xca45_1a4e,
    0x2fc1_2fc1,
    0x8584_58f6,
    0x4d44,
    0x2011_bab0,
    0x5346_544e,
    0x7366_746e,
    0x9660,
    0x1501_3346,
    0x7371_7368,
    0xe0f5_e1e2,
    0x28cd_3d45,
    0x3153_464a,
    0x5265_4973,
    0x4244,
    0x482b,
    0x3434,
    0x7461_636f,
    0x0116_1970,
    0x9584_58f6,
    0x72b6,
    0x2405_1905,
    0x5a4f_4653,
    0xf15f,
    0x5346_414f,
    0x2003_0528,
    0xa501_fcf5,
    0xaad7_aaea,
];

/// The reliability of the sizes that a file system reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sizes {
    /// Each size is the length of its file.
    Told,
    /// A size may differ from the number of bytes that can be read.
    Doubtful,
    /// The kernel generates content at each read: sizes and stamps prove nothing about it.
    Made,
}

impl Sizes {
    /// Returns the reliability of the sizes of a file system of this kind.
    fn of(kind: FileSystemKind) -> Self {
        match kind {
            FileSystemKind::Fuse => Self::Doubtful,
            FileSystemKind::Other(f_type) if MADE.contains(&f_type) => Self::Made,
            FileSystemKind::Other(f_type) if !SOUND.contains(&f_type) => Self::Doubtful,
            _ => Self::Told,
        }
    }
}

/// Returns the reliability of the size of a file of `dir`, before it is opened. A file may be a
/// mount point by itself.
fn sizes_in(dir: &Dir, meta: &Meta) -> Sizes {
    match dir.mount() {
        None => Sizes::Told,
        Some(mount) if mount.device() == meta.device => Sizes::of(mount.kind()),
        Some(_) => Sizes::Doubtful,
    }
}

/// Completes `meta` of the file `name` in `dir`: where its file system does not tell how long files
/// are, the size becomes the length that one read to the end returned. Without `certain` a size
/// above 0 is trusted where few are wrong, as on FUSE. So is any size whose check would read more
/// than 64 MiB or take more than 10 s. Blocks; costs no system call on file systems of disks and of
/// known servers.
///
/// # Errors
/// `Io` with `EFBIG`: no read reached an end within 64 MiB and 10 s of a file that the kernel makes
/// up, 64 GiB of another; or a read waited for data. A file that cannot be opened or read keeps its
/// `meta`: its reader fails with the reason.
pub(crate) fn measure(
    store: &PosixStore,
    dir: &Dir,
    name: &[u8],
    meta: Meta,
    certain: bool,
) -> Result<Meta, StoreError> {
    let sizes = sizes_in(dir, &meta);
    let believed = sizes == Sizes::Doubtful && meta.size > 0 && !certain;
    if meta.kind != Kind::File || sizes == Sizes::Told || believed {
        return Ok(meta);
    }
    let measured = store.open_read(dir, name).and_then(|file| match sizes {
        // The kernel reports a read that would wait; a server may not.
        Sizes::Made => file.measured(certain),
        _ => file.measured_in_time(certain),
    });
    match measured {
        Err(error) if !error.is_endless() => Ok(Meta { made: sizes == Sizes::Made, ..meta }),
        measured => measured,
    }
}

/// Returns whether the size in `meta`, of a file of `dir`, is certainly the length of that
/// file.
pub fn tells_size(dir: &Dir, meta: &Meta) -> bool {
    sizes_in(dir, meta) == Sizes::Told
}

impl ReadFile {
    fn sizes(&self, meta: &Meta) -> Sizes {
        let Handle::Posix(fd) = &self.handle else { return Sizes::Told };
        match self.dir.mount() {
            Some(mount) if mount.device() == meta.device => Sizes::of(mount.kind()),
            _ => FileSystemKind::of(fd).map_or(Sizes::Doubtful, Sizes::of),
        }
    }

    /// Returns the attributes of the open file, as [`ReadFile::meta`] does. Where its file system
    /// does not report the length, the size is that of one read to its end
    /// ([`crate::Source::stat_certain`]). Blocks.
    ///
    /// # Errors
    /// `WrongKind`; `Io`, with `EFBIG` of a file without an end.
    pub fn measured(&self, certain: bool) -> Result<Meta, StoreError> {
        self.measured_noting(certain, &AtomicU64::new(0))
    }

    /// Does the work of [`ReadFile::measured`], and stores in `read` the bytes read so far.
    fn measured_noting(&self, certain: bool, read: &AtomicU64) -> Result<Meta, StoreError> {
        let meta = self.meta()?;
        let sizes = self.sizes(&meta);
        let reads = match sizes {
            Sizes::Told => false,
            Sizes::Made => true,
            Sizes::Doubtful => meta.size == 0 || (certain && !self.ends_at(meta.size)?),
        };
        if !reads {
            return Ok(meta);
        }
        match self.read_through(certain && sizes == Sizes::Doubtful, read) {
            // Its length is learned when it is sent.
            Err(error) if error.is_endless() && !certain && sizes == Sizes::Doubtful => Ok(meta),
            length => Ok(with_size(meta, length?, sizes)),
        }
    }

    /// Does the work of [`ReadFile::measured`] on a thread of its own, so that a read which never
    /// returns is abandoned.
    fn measured_in_time(self, certain: bool) -> Result<Meta, StoreError> {
        if STALLED.load(Ordering::Relaxed) >= STALLED_MAX {
            return Err(self.error("read to its end", Errno::FBIG));
        }
        let file = Arc::new(self);
        let (read, (tell, told)) = (Arc::new(AtomicU64::new(0)), mpsc::channel());
        let (reader, noted) = (Arc::clone(&file), Arc::clone(&read));
        let work = move || {
            if tell.send(reader.measured_noting(certain, &noted)).is_err() {
                STALLED.fetch_sub(1, Ordering::Relaxed);
            }
        };
        if std::thread::Builder::new().name("length".to_owned()).spawn(work).is_err() {
            return file.measured(certain);
        }
        let mut before = 0;
        loop {
            match told.recv_timeout(STALL_MAX) {
                Ok(measured) => return measured,
                Err(_) if read.load(Ordering::Relaxed) > before => {
                    before = read.load(Ordering::Relaxed);
                }
                Err(_) => {
                    STALLED.fetch_add(1, Ordering::Relaxed);
                    return Err(file.error("read to its end", Errno::FBIG));
                }
            }
        }
    }

    /// Returns the attributes of the open file, of which `length` bytes were read from its begin.
    /// Where the file system does not report the length, and with `to_end`, a further read must
    /// find the end of the file at `length`. If it does not, the size is another one, and may be
    /// wrong. Blocks.
    ///
    /// # Errors
    /// As [`ReadFile::measured`].
    pub fn meta_read_to(&self, length: u64, to_end: bool) -> Result<Meta, StoreError> {
        let meta = self.meta()?;
        let sizes = self.sizes(&meta);
        if sizes == Sizes::Told {
            return Ok(meta);
        }
        let ends = !to_end || self.ends_at(length)?;
        let size = match sizes {
            _ if ends => length,
            Sizes::Made => self.read_through(false, &AtomicU64::new(0))?,
            // Another size shows another version, without a read.
            _ => length.wrapping_add(1),
        };
        Ok(with_size(meta, size, sizes))
    }

    /// Returns whether the file ends just behind the first `length` bytes.
    fn ends_at(&self, length: u64) -> Result<bool, StoreError> {
        let mut byte = [0];
        let has_last = length == 0 || self.read_at(length - 1, &mut byte)? == 1;
        Ok(has_last && self.read_at(length, &mut byte)? == 0)
    }

    /// Returns the length of the file by a read of all of it; `long` is for a file behind a server
    /// that is to be sent.
    fn read_through(&self, long: bool, noted: &AtomicU64) -> Result<u64, StoreError> {
        let bytes_max = if long { LONG_BYTES_MAX } else { SHORT_BYTES_MAX };
        let begun = Instant::now();
        let mut buffer = vec![0; STEP_BYTES];
        let mut length = 0;
        loop {
            let read = self.read_at(length, &mut buffer)?;
            length += read as u64;
            noted.store(length, Ordering::Relaxed);
            if read < buffer.len() {
                return Ok(length);
            }
            let time_max = if long {
                LONG_TIME_MIN + Duration::from_secs(length >> 20)
            } else {
                SHORT_TIME_MAX
            };
            if length > bytes_max || begun.elapsed() > time_max {
                return Err(self.error("read to its end", Errno::FBIG));
            }
        }
    }

    /// Reads from a file that takes no offset: from a descriptor of its own, which is opened again
    /// for an earlier offset.
    pub(crate) fn read_streamed(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        let mut stream = self.stream.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let known = stream.take().filter(|(_, position)| *position <= offset);
        let (fd, mut position) = match known {
            Some(known) => known,
            None => {
                let parent = self.dir.fd_raw()?;
                (open_component(parent.as_fd(), &self.name, OFlags::RDONLY)?, 0)
            }
        };
        let mut filled = 0;
        let mut passed = vec![0; STEP_BYTES.min((offset - position) as usize)];
        while filled < buffer.len() {
            let skip = (offset.saturating_sub(position)).min(passed.len() as u64) as usize;
            let part = if skip > 0 { &mut passed[..skip] } else { &mut buffer[filled..] };
            match read(&fd, part) {
                Ok(0) => break,
                Ok(count) => {
                    position += count as u64;
                    filled += if skip > 0 { 0 } else { count };
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        *stream = Some((fd, position));
        Ok(filled)
    }
}

/// Returns the attributes with the length that was read; no blocks are known to be missing.
fn with_size(meta: Meta, size: u64, sizes: Sizes) -> Meta {
    Meta { size, blocks: size.div_ceil(512), made: sizes == Sizes::Made, ..meta }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PosixOptions;
    use std::path::Path;

    /// Promise: the length of a file of `/proc` is that of its content, and a file without an end
    /// fails. On the file system of a disk no file is opened to ask.
    #[test]
    fn lengths_of_made_up_files_are_read() {
        let open = |path: &Path| PosixStore::open(path, PosixOptions::default()).unwrap();
        let store = open(Path::new("/proc"));
        let look = |name: &[u8]| {
            let meta = store.stat(store.root(), name).unwrap();
            measure(&store, store.root(), name, meta, false)
        };
        let version = look(b"version").unwrap();
        assert_eq!(version.size, std::fs::read("/proc/version").unwrap().len() as u64);
        assert!(version.made && !version.is_sparse());
        let file = store.open_read(store.root(), b"version").unwrap();
        assert_eq!(file.meta_read_to(version.size, true).unwrap().size, version.size);
        assert_eq!(file.meta_read_to(version.size - 1, true).unwrap().size, version.size);
        let base = tempfile::tempdir().unwrap();
        std::fs::write(base.path().join("empty"), b"").unwrap();
        let store = open(base.path());
        let meta = store.stat(store.root(), b"empty").unwrap();
        assert!(tells_size(store.root(), &meta));
        assert_eq!(measure(&store, store.root(), b"empty", meta, true).unwrap(), meta);
    }

    /// Promise: a file that takes no offset is read at any.
    #[test]
    fn streams_are_read_at_offsets() {
        let base = tempfile::tempdir().unwrap();
        std::fs::write(base.path().join("f"), b"0123456789").unwrap();
        let store = PosixStore::open(base.path(), PosixOptions::default()).unwrap();
        let file = store.open_read(store.root(), b"f").unwrap();
        let read = |offset, length| {
            let mut buffer = vec![0; length];
            let count = file.read_streamed(offset, &mut buffer).unwrap();
            buffer.truncate(count);
            buffer
        };
        assert_eq!(read(4, 3), b"456");
        assert_eq!(read(8, 9), b"89");
        assert_eq!(read(0, 2), b"01");
        assert_eq!(read(20, 2), b"");
    }

    /// Promise: which file systems are believed.
    #[test]
    fn file_systems_are_told_apart() {
        for (f_type, sizes) in [
            (0x9fa0, Sizes::Made),
            (0x6265_6572, Sizes::Made),
            (0x6573_5546, Sizes::Doubtful),
            (0x0102_1997, Sizes::Doubtful),
            (0xef53, Sizes::Told),
            (0x6969, Sizes::Told),
            (0x2fc1_2fc1, Sizes::Told),
        ] {
            assert_eq!(Sizes::of(FileSystemKind::from_f_type(f_type)), sizes, "{f_type:x}");
        }
    }
}
