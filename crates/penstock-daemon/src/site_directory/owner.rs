//! The account that has a site directory, for commands of root that write there.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use penstock_exit::{ExitCode, Failure};
use penstock_sys::{Account, Acting, host_user};

/// Has this thread use files as the owner of a site directory, if root works in the directory of
/// another account, as a package makes it. Otherwise the daemon of that account could not read the
/// new files. Returns `None` if no change is needed.
///
/// # Errors
/// This host has no account of the owner's number, or does not let root act as it.
pub fn act_as_owner(directory: &Path) -> Result<Option<Acting>, Failure> {
    let Ok(meta) = fs::metadata(directory) else { return Ok(None) };
    let owner = meta.uid();
    if owner == 0 || !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let failed = |why: String| {
        let shown = directory.display();
        let message = format!("cannot write to `{shown}` as its owner, user {owner}");
        Failure::new(ExitCode::Fatal, message)
            .caused_by(why)
            .hint(format!("give it to the account of the daemon: chown -R ACCOUNT: {shown}"))
    };
    let user = host_user(owner).map_err(|error| failed(error.to_string()))?;
    let user = user.ok_or_else(|| failed("this host has no such account".to_owned()))?;
    let account = Account::of_name(&String::from_utf8_lossy(&user.name))
        .map_err(|error| failed(error.to_string()))?;
    account.act().map(Some).map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use super::*;

    /// Promise: files that root makes in the site directory of another account belong to that
    /// account, so that its daemon can read them; elsewhere they stay root's.
    #[test]
    #[allow(clippy::print_stdout, reason = "says what is skipped")]
    fn files_belong_to_the_owner_of_the_directory() {
        let own = tempfile::tempdir().unwrap();
        assert!(act_as_owner(own.path()).unwrap().is_none());
        assert!(act_as_owner(&own.path().join("absent")).unwrap().is_none());
        let Ok(Some((uid, gid))) = penstock_sys::find_user(b"nobody") else {
            println!("SKIPPED: this host has no account `nobody`");
            return;
        };
        let other = tempfile::tempdir().unwrap();
        if chown(other.path(), Some(uid), Some(gid)).is_err() {
            println!("SKIPPED: giving a directory away needs root");
            return;
        }
        let file = other.path().join("authority.key");
        let acting = act_as_owner(other.path()).unwrap();
        fs::write(&file, "").unwrap();
        drop(acting);
        assert_eq!(fs::metadata(&file).unwrap().uid(), uid);
        fs::write(own.path().join("file"), "").unwrap();
        assert_eq!(fs::metadata(own.path().join("file")).unwrap().uid(), 0);
        chown(other.path(), Some(4_000_123_456), None).unwrap();
        assert!(act_as_owner(other.path()).unwrap_err().to_string().contains("4000123456"));
    }
}
