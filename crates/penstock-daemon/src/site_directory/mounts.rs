//! The drop-in of the service by which systemd mounts stores and journal before the daemon starts.
//!
//! A store is *wanted*: one that cannot be mounted delays only its own transfers, and the daemon
//! names it. The journal is *required*, as it has the ledgers.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::config::{Config, DIRECTORY_DEFAULT, StoreConfig};

/// Directories in which packages and administrators put units (systemd.unit(5)).
const UNITS: [&str; 4] = [
    "/etc/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
const SERVICE: &str = "penstock.service";
const DROP_IN: &str = "/etc/systemd/system/penstock.service.d/10-mounts.conf";
/// First line of a drop-in that may be replaced.
const HEADER: &str = "# By penstock, which replaces this file while it begins with this line.";

/// Writes the drop-in for the places of a configuration, where the service is installed and the
/// site directory is the service's. Returns a note for the user, if there is one. Only root may
/// write the drop-in: others see its text. A drop-in that another program or person wrote stays.
pub fn write_drop_in(directory: &Path, config: &Config) -> Option<String> {
    let is_installed = UNITS.iter().any(|place| Path::new(place).join(SERVICE).exists());
    if directory != Path::new(DIRECTORY_DEFAULT) || !is_installed {
        return None;
    }
    let stores: Vec<_> = config.stores.iter().filter_map(StoreConfig::directory).collect();
    let journal = config.cluster.as_ref().map(|cluster| cluster.journal.as_path());
    let text = text_of(&stores, journal, &mount_points());
    let old = fs::read_to_string(DROP_IN);
    let old = old.ok();
    if text == old {
        return None;
    }
    let shown = text.as_deref().unwrap_or("nothing").trim_end();
    if old.is_some_and(|old| !old.starts_with(HEADER)) {
        return Some(format!("`{DROP_IN}` is not Penstock's, and stays. It would be:\n{shown}"));
    }
    Some(match replace(text.as_deref()) {
        Ok(()) => format!(
            "`{DROP_IN}` has the mounts of stores and journal; put it in force with: systemctl \
             daemon-reload"
        ),
        Err(error) => format!(
            "cannot write `{DROP_IN}`: {error}. It mounts stores and journal before the daemon \
             starts; as root write:\n{shown}"
        ),
    })
}

fn replace(text: Option<&str>) -> io::Result<()> {
    let path = Path::new(DROP_IN);
    let Some(text) = text else { return fs::remove_file(path) };
    fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
    fs::write(path, text)
}

/// Returns the drop-in, or `None` if nothing lies on a mount of its own.
fn text_of(stores: &[PathBuf], journal: Option<&Path>, mounts: &[PathBuf]) -> Option<String> {
    let mount_of = |place: &Path| {
        let within = mounts.iter().filter(|mount| place.starts_with(mount));
        within.max_by_key(|mount| mount.as_os_str().len()).filter(|it| *it != Path::new("/"))
    };
    let journal = journal.filter(|journal| mount_of(journal).is_some());
    let mut units: Vec<_> =
        stores.iter().filter_map(|store| mount_of(store)).map(|it| unit_of(it)).collect();
    units.sort();
    units.dedup();
    if units.is_empty() && journal.is_none() {
        return None;
    }
    let mut text = format!("{HEADER}\n[Unit]\n");
    for unit in units {
        let _ = write!(text, "Wants={unit}\nAfter={unit}\n");
    }
    if let Some(journal) = journal {
        let quoted = journal.display().to_string().replace('\\', "\\\\").replace('"', "\\\"");
        let _ = writeln!(text, "RequiresMountsFor=\"{}\"", quoted.replace('%', "%%"));
    }
    Some(text)
}

/// Returns the name of the unit of a mount, as `systemd-escape --path --suffix=mount` does.
fn unit_of(mount: &Path) -> String {
    let bytes = mount.as_os_str().as_bytes();
    let parts: Vec<_> = bytes.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
    let mut name = String::new();
    for (index, byte) in parts.join(&b'/').into_iter().enumerate() {
        match byte {
            b'/' => name.push('-'),
            b'.' if index == 0 => name.push_str("\\x2e"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b':' | b'_' | b'.' => name.push(byte.into()),
            other => {
                let _ = write!(name, "\\x{other:02x}");
            }
        }
    }
    format!("{name}.mount")
}

/// Returns where something is mounted now, or at the next start of the host.
fn mount_points() -> Vec<PathBuf> {
    let mounted = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let planned = fs::read_to_string("/etc/fstab").unwrap_or_default();
    fields(&mounted, 4).chain(fields(&planned, 1)).collect()
}

/// Returns a column of a table of paths.
fn fields(table: &str, column: usize) -> impl Iterator<Item = PathBuf> {
    let lines = table.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.filter_map(move |line| line.split_whitespace().nth(column).map(unescaped))
}

/// Returns a path of a table of mounts, whose spaces and such are written as octal numbers
/// (proc_pid_mountinfo(5), fstab(5)).
pub fn unescaped(text: &str) -> PathBuf {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    let text = escapes.iter().fold(text.to_owned(), |text, (code, c)| text.replace(code, c));
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: systemd mounts stores before the daemon starts, and starts it without one that
    /// fails; without the journal it does not start. A directory without a mount of its own needs
    /// no unit.
    #[test]
    fn stores_are_wanted_and_the_journal_is_required() {
        let table = "# UUID=1 / ext4\nUUID=2 /data/Run\\0407 xfs rw 0 0\nh:/e /shared nfs _netdev";
        let mounts: Vec<_> = fields(table, 1).chain([PathBuf::from("/")]).collect();
        let stores = ["/data/Run 7/a", "/data/Run 7", "/srv/x"].map(PathBuf::from);
        let text = text_of(&stores, Some(Path::new("/shared/50%")), &mounts).unwrap();
        let unit = "data-Run\\x207.mount";
        let wanted = format!(
            "{HEADER}\n[Unit]\nWants={unit}\nAfter={unit}\nRequiresMountsFor=\"/shared/50%%\"\n"
        );
        assert_eq!(text, wanted);
        assert_eq!(text_of(&stores[2..], Some(Path::new("/var/lib/penstock")), &mounts), None);
        assert_eq!(unit_of(Path::new("/.snap/a-b")), "\\x2esnap-a\\x2db.mount");
    }
}
