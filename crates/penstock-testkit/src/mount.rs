//! File systems on loop devices and in memory, which tests fill, cut off and unmount. Root only.

mod fuse;
mod moosefs;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

pub use fuse::Fuse;
pub use moosefs::MooseFs;

use crate::program::tool;
use crate::wait::Wait;

/// A file system of its own, unmounted when dropped.
pub struct Mount {
    /// Its mount point.
    pub path: PathBuf,
    image: Option<PathBuf>,
    mounted: bool,
    /// Directory around that of a loop device, from which unmounting spreads: who makes a mount
    /// namespace meanwhile, as `ip netns exec` of a laboratory beside does, has a copy of the
    /// mount, and the device would stay in use by that.
    around: Option<PathBuf>,
}

impl Mount {
    /// Makes a new `kind` (`ext4`, `xfs`, `btrfs`, or `ext3`, here with stamps of whole
    /// seconds) of `megabytes` in an image file below `base`.
    pub fn on_loop(base: &Path, name: &str, kind: &str, megabytes: u64) -> Self {
        let image = base.join(format!("{name}.img"));
        File::create(&image).unwrap().set_len(megabytes << 20).unwrap();
        let mkfs = format!("mkfs.{kind}");
        match kind {
            "xfs" => tool(&mkfs, &[&"-q", &image]),
            "btrfs" => tool(&mkfs, &[&"-q", &image]),
            // Small inodes have no room for more than seconds.
            "ext3" => tool(&mkfs, &[&"-q", &"-F", &"-I", &"128", &image]),
            _ => tool(&mkfs, &[&"-q", &"-F", &"-m", &"0", &image]),
        };
        let around = base.join(format!("{name}.around"));
        fs::create_dir_all(&around).unwrap();
        tool("mount", &[&"--bind", &around, &around]);
        tool("mount", &[&"--make-shared", &around]);
        let path = around.join(name);
        let mut mount = Self { path, image: Some(image), mounted: false, around: Some(around) };
        fs::create_dir_all(&mount.path).unwrap();
        mount.mount();
        mount
    }

    /// Makes a file system in memory.
    pub fn tmpfs(base: &Path, name: &str, megabytes: u64) -> Self {
        let path = base.join(name);
        fs::create_dir_all(&path).unwrap();
        let size = format!("size={megabytes}m");
        tool("mount", &[&"-t", &"tmpfs", &"-o", &size, &"tmpfs", &path]);
        Self { path, image: None, mounted: true, around: None }
    }

    /// Mounts a directory or a file once more, at `path`.
    pub fn bind(original: &Path, path: &Path) -> Self {
        match original.is_dir() {
            true => fs::create_dir_all(path).unwrap(),
            false => fs::write(path, "").unwrap(),
        }
        tool("mount", &[&"--bind", &original, &path]);
        Self { path: path.to_owned(), image: None, mounted: true, around: None }
    }

    /// Mounts its image again.
    pub fn mount(&mut self) {
        let image = self.image.as_ref().expect("a tmpfs does not come back");
        tool("mount", &[&"-o", &"loop", image, &self.path]);
        self.mounted = true;
    }

    /// Unmounts lazily, even while files are open there.
    pub fn unmount_lazily(&mut self) {
        tool("umount", &[&"-l", &self.path]);
        self.mounted = false;
    }

    /// Unmounts, and waits until no loop device has its image; fails if any process has files open
    /// there.
    pub fn unmount(&mut self) {
        tool("umount", &[&self.path]);
        self.mounted = false;
        // A mount namespace that a test beside this one has made may have a copy of the mount. As
        // long as that is there, a mount of the image is of the same file system, power cut or not.
        if let Some(image) = &self.image {
            let devices = || tool("losetup", &[&"-j", image]);
            Wait::new("the end of a loop device").is(|| devices().is_empty());
        }
    }

    /// Mounts it with another option, as `ro`.
    pub fn remount(&self, how: &str) {
        tool("mount", &[&"-o", &format!("remount,{how}"), &self.path]);
    }

    /// Cuts the power of the file system: nothing more reaches the device, not even the log
    /// (`EXT4_IOC_SHUTDOWN`, `XFS_IOC_GOINGDOWN`, both with the flag `NOLOGFLUSH`).
    pub fn cut_power(&self) {
        // Without `-f`, which would flush the log. The call is the same on both file systems.
        tool("xfs_io", &[&"-x", &"-c", &"shutdown", &self.path]);
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let mounted = self.mounted.then_some(&self.path);
        for path in mounted.into_iter().chain(&self.around) {
            let _ = Command::new("umount").arg("-l").arg(path).status();
        }
    }
}
