//! A file system whose client in user space has died, for tests: every access within it fails with
//! `ENOTCONN`, while the store around it answers. Root only.

#![expect(clippy::print_stdout, reason = "a skipped test must say so")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Error number of every access below the mount.
pub(crate) const ENOTCONN: i32 = 107;

/// A mount without a client, gone when dropped.
pub(crate) struct DeadMount(PathBuf);

impl DeadMount {
    /// Mounts it; `None`, with a message, where that is not allowed.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let Ok(device) = device else {
            println!("SKIPPED: /dev/fuse cannot be opened; this test needs root and FUSE");
            return None;
        };
        fs::create_dir_all(path).unwrap();
        let options = "fd=0,rootmode=40755,user_id=0,group_id=0";
        let mut command = Command::new("mount");
        command.args(["-i", "-t", "fuse", "-o", options, "penstock-test"]).arg(path);
        let mounted = command.stdin(Stdio::from(device)).output().unwrap();
        // No process has the device open now, which is how a client dies.
        if !mounted.status.success() {
            println!("SKIPPED: mounting needs root: {}", String::from_utf8_lossy(&mounted.stderr));
            return None;
        }
        Some(Self(path.to_owned()))
    }
}

impl Drop for DeadMount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
