//! Serves the API on the Unix socket for accounts of the host, while the configuration names a
//! group that may connect.
//!
//! The socket lies in a directory of its own: that of the site has the keys, and stays closed. Its
//! requests run on the threads of the HTTPS API, so that they delay neither sites nor root.

use std::fs;
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use penstock_api::access::AccountName;
use penstock_exit::{ExitCode, Failure};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::config::Config;
use crate::http::socket::accounts::AccountService;
use crate::metrics::heartbeat::Heartbeat;
use crate::site::context::Site;

use super::watched::Watched;

/// Mode of the directory of the socket, if the daemon makes it.
const DIRECTORY_MODE: u32 = 0o755;
/// Mode of the socket: to connect is to write (unix(7)).
const SOCKET_MODE: u32 = 0o660;

/// The socket for accounts.
pub(super) struct AccountSocket {
    service: AccountService,
    runtime: &'static Runtime,
    heartbeat: Heartbeat,
    is_open: Arc<AtomicBool>,
    open: Mutex<Option<Open>>,
}

/// A socket that is served.
struct Open {
    place: Place,
    /// Ends the listener; its connections first answer the requests under way.
    stop: watch::Sender<bool>,
}

/// Path and group of the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    path: PathBuf,
    group: AccountName,
}

impl AccountSocket {
    /// Serves the socket on the threads of `runtime`, if the configuration has it, and follows
    /// reloads.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub(super) fn start(
        site: &Arc<Site>,
        service: AccountService,
        (runtime, watched): (&'static Runtime, &Watched),
    ) -> anyhow::Result<Arc<Self>> {
        let is_open = Arc::new(AtomicBool::default());
        let heartbeat = watched.accepts_while("accounts", Arc::clone(&is_open));
        let socket =
            Arc::new(Self { service, runtime, heartbeat, is_open, open: Mutex::default() });
        socket.apply(&site.settings.now())?;
        let follower = Arc::clone(&socket);
        site.settings.on_reload(Box::new(move |config| follower.apply(config)));
        Ok(socket)
    }

    fn open(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves the socket of a configuration, and no other. Blocks on storage and the name service.
    ///
    /// # Errors
    /// The socket cannot be made, and does not exist then.
    fn apply(&self, config: &Config) -> anyhow::Result<()> {
        let auth = &config.auth;
        let wanted = auth.socket_group.clone();
        let wanted = wanted.map(|group| Place { path: auth.socket.clone(), group });
        let mut open = self.open();
        if open.as_ref().map(|open| &open.place) == wanted.as_ref() {
            return Ok(());
        }
        close(open.take());
        let outcome = match wanted {
            Some(place) => self.serve(place).map(|served| *open = Some(served)),
            None => Ok(()),
        };
        self.is_open.store(open.is_some(), Ordering::Release);
        Ok(outcome?)
    }

    fn serve(&self, place: Place) -> Result<Open, Failure> {
        let _inside = self.runtime.enter();
        let listener = bind(&place)?;
        let (stop, mut stopped) = watch::channel(false);
        self.heartbeat.beat();
        let (service, heartbeat) = (self.service.clone(), self.heartbeat.clone());
        self.runtime.spawn(async move {
            let stopped = async move {
                // Either the stop was ordered, or the daemon is gone.
                let _ = stopped.changed().await;
            };
            if let Err(error) = service.serve(listener, heartbeat, stopped).await {
                tracing::error!(%error, "the socket for accounts failed");
            }
        });
        let (path, group) = (place.path.display(), &place.group);
        tracing::info!(%path, %group, "the API is served to accounts of this host");
        Ok(Open { place, stop })
    }

    /// Ends the service, and removes the socket.
    pub(super) fn close(&self) {
        close(self.open().take());
    }
}

fn close(open: Option<Open>) {
    if let Some(Open { place, stop }) = open {
        let _ = stop.send(true);
        // Another daemon may use the socket by now; that daemon has then made it again.
        let _ = fs::remove_file(&place.path);
    }
}

/// Makes the socket, for its group alone.
///
/// # Errors
/// The group does not exist, the directory is open to others, or another daemon has the socket.
fn bind(place: &Place) -> Result<UnixListener, Failure> {
    let Place { path, group } = place;
    let shown = path.display();
    let refused = |why: String| {
        Failure::new(ExitCode::Fatal, format!("cannot serve the socket `{shown}`")).caused_by(why)
    };
    let failed = |error: io::Error| refused(error.to_string());
    let number = penstock_sys::find_group(group.as_str().as_bytes()).map_err(failed)?;
    let number = number.ok_or_else(|| {
        refused(format!("this host has no group `{group}`")).hint(format!(
            "`groupadd --system {group}` makes it; or name another one by `socket_group` in the \
             table `auth`"
        ))
    })?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    prepare(directory).map_err(|error| {
        refused(error.to_string()).hint(format!(
            "make the directory `{}`, for the user of the daemon, with mode 0755; with systemd \
             `RuntimeDirectory=penstock` does",
            directory.display()
        ))
    })?;
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(refused("there is a file that is no socket".to_owned()));
        }
        Ok(_) if UnixStream::connect(path).is_ok() => {
            return Err(refused("another daemon answers there".to_owned())
                .hint("name another path by `socket` in the table `auth`"));
        }
        Ok(_) => fs::remove_file(path).map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::os::unix::fs::chown(path, None, Some(number)).map_err(|error| {
        let hint = format!("a daemon that is not root has to be in the group `{group}`");
        failed(error).hint(hint)
    })?;
    fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE)).map_err(failed)?;
    Ok(listener)
}

/// Makes the directory of the socket, if it is missing, and checks that no other user can put
/// another socket into it.
fn prepare(directory: &Path) -> io::Result<()> {
    if !directory.exists() {
        fs::DirBuilder::new().mode(DIRECTORY_MODE).create(directory)?;
        // The umask may have taken bits away.
        fs::set_permissions(directory, fs::Permissions::from_mode(DIRECTORY_MODE))?;
    }
    let found = fs::metadata(directory)?;
    let own_user = rustix::process::getuid().as_raw();
    if ![0, own_user].contains(&found.uid()) || found.mode() & 0o022 != 0 {
        return Err(io::Error::other(format!(
            "other users may write to the directory `{}`",
            directory.display()
        )));
    }
    if found.mode() & 0o011 == 0 {
        return Err(io::Error::other(format!(
            "nobody but its owner reaches the directory `{}`",
            directory.display()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> AccountName {
        let name = penstock_sys::group_name(rustix::process::getgid().as_raw()).unwrap();
        String::from_utf8(name).unwrap().parse().unwrap()
    }

    /// Promise: the socket is for its group alone, in a directory that no other user can write; a
    /// dead one is replaced, one that another daemon serves is not.
    #[tokio::test]
    async fn the_socket_is_for_its_group_alone() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| Place { path: base.path().join(name).join("s"), group: group() };
        let why = |place: &Place| format!("{:?}", bind(place).unwrap_err());
        let place = at("new");
        let listener = bind(&place).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&place.path), mode(place.path.parent().unwrap())), (0o660, 0o755));
        assert!(why(&place).contains("another daemon"), "{}", why(&place));
        drop(listener);
        drop(bind(&place).unwrap());
        let open = at("open");
        fs::create_dir(open.path.parent().unwrap()).unwrap();
        let set = |mode| {
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(open.path.parent().unwrap(), mode).unwrap();
        };
        set(0o777);
        assert!(why(&open).contains("other users may write"), "{}", why(&open));
        set(0o700);
        assert!(why(&open).contains("nobody but its owner"), "{}", why(&open));
        set(0o755);
        fs::write(&open.path, "a file").unwrap();
        assert!(why(&open).contains("no socket"), "{}", why(&open));
        let nobody = Place { group: "no-such-group".parse().unwrap(), ..at("new") };
        assert!(why(&nobody).contains("no group"), "{}", why(&nobody));
    }
}
