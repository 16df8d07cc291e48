//! `penstock doctor --write-sysctl`: writes settings of the kernel for this host into a file.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use penstock_daemon::checks::{self, SysctlFile};
use penstock_daemon::config::Config;
use penstock_exit::{self as exit, ExitCode, Failure};

/// The file that is written if no other is named. Others in that directory whose names come later
/// count more (sysctl.d(5)).
pub(crate) const DEFAULT: &str = "/etc/sysctl.d/90-penstock.conf";

/// Writes the settings that suit this host, and prints the command that loads them. Nothing is
/// loaded. `directory` is that of the site; without one all cards count.
///
/// # Errors
/// The file is not one that this program wrote, was changed since, or cannot be written.
pub(crate) fn write(path: &Path, directory: &Path) -> anyhow::Result<ExitCode> {
    let config = Config::load(directory).ok();
    let file = checks::sysctl_file(config.as_ref());
    let text = file.text();
    let said = if replaceable(path)?.is_some_and(|there| there == text) {
        "is as it would be written"
    } else {
        put(path, &text)?;
        "written"
    };
    let count = file.in_force();
    exit::print(&format!("{}: {said}, {count} settings in force", path.display()))?;
    exit::print(&format!("load it: sysctl --load={}", path.display()))?;
    Ok(ExitCode::Done)
}

/// Returns the text of the file that is there, if it may be written over.
fn replaceable(path: &Path) -> Result<Option<String>, Failure> {
    let is_file = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::io(format!("look at `{}`", path.display()), error)),
        Ok(found) => found.is_file(),
    };
    let text = match is_file {
        true => fs::read(path)
            .map_err(|error| Failure::io(format!("read `{}`", path.display()), error))?,
        false => Vec::new(),
    };
    let text = String::from_utf8(text).unwrap_or_default();
    if SysctlFile::is_unchanged(&text) {
        return Ok(Some(text));
    }
    let why = match is_file {
        true => "it was written by another program, or changed since",
        false => "it is no regular file",
    };
    let message = format!("refused to write over `{}`: {why}", path.display());
    Err(Failure::new(ExitCode::Refused, message)
        .hint("name another file, as in `--write-sysctl /etc/sysctl.d/91-penstock.conf`"))
}

/// Writes a file of mode 0644 in one step: a crash leaves the old one or the new one.
fn put(path: &Path, text: &str) -> Result<(), Failure> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let beside: PathBuf = path.with_file_name(name);
    let written = (|| {
        let options = File::options().write(true).create_new(true).mode(0o644).clone();
        let mut file = options.open(&beside)?;
        // Whatever the umask is, all may read it, as other settings of the kernel.
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    })();
    written.map_err(|error| {
        // What was begun is of no use; the error of the write is what matters.
        let _ = fs::remove_file(&beside);
        Failure::io(format!("write `{}`", path.display()), error).hint(
            "it needs root; or name a file of yours and copy it: penstock doctor --write-sysctl \
             90-penstock.conf",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(result: anyhow::Result<ExitCode>) -> ExitCode {
        result.unwrap_or_else(|error| exit::code_of(&error))
    }

    /// Promise (E41): the file is written, and again as long as nobody has changed it; a file of
    /// another, a changed one and a link stay, with exit code 6. Nothing is left beside.
    #[test]
    fn e41_a_file_of_another_is_not_written_over() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("90-penstock.conf");
        assert_eq!(code(write(&path, root.path())), ExitCode::Done);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("net.ipv4.tcp_rmem = "), "{text}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(code(write(&path, root.path())), ExitCode::Done);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);

        let changed = text + "net.core.rmem_max = 1\n";
        for other in ["", "net.core.rmem_max = 1\n", &changed] {
            fs::write(&path, other).unwrap();
            assert_eq!(code(write(&path, root.path())), ExitCode::Refused, "{other}");
            assert_eq!(fs::read_to_string(&path).unwrap(), other);
        }
        let link = root.path().join("link");
        std::os::unix::fs::symlink(root.path().join("nothing"), &link).unwrap();
        assert_eq!(code(write(&link, root.path())), ExitCode::Refused);
        let missing = root.path().join("no/90-penstock.conf");
        assert_eq!(code(write(&missing, root.path())), ExitCode::Fatal);
    }
}
