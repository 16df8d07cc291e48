//! Messages of the daemon to its service manager: ready, alive, stopping, and its state.
//!
//! The protocol is that of sd_notify(3): one datagram of `KEY=VALUE` lines to the socket that
//! `NOTIFY_SOCKET` names. Without that variable no message is sent. With `WatchdogSec=` in the unit
//! the service manager restarts a daemon that has not reported in time. The report comes from the
//! control threads, and only while all loops that must move do so ([`crate::metrics::heartbeat`]).

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Interval at which the state is looked at, or half the time of the watchdog if that is less.
const LOOK: Duration = Duration::from_secs(5);

/// The service manager that started this daemon.
#[derive(Clone, Debug)]
pub(super) struct ServiceManager {
    to: Option<Arc<(UnixDatagram, SocketAddr)>>,
    /// Interval within which it expects a report.
    watchdog: Option<Duration>,
    /// Set when the daemon ends: its state is that from then on.
    ends: Arc<AtomicBool>,
}

/// The state of the daemon, as one look finds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sight {
    /// Loops that do not move.
    pub(super) late: Vec<&'static str>,
    /// The state in one line, for `systemctl status`.
    pub(super) status: String,
}

impl ServiceManager {
    /// Returns the service manager that the environment names, or one that receives nothing.
    pub(super) fn of_environment() -> Self {
        let watchdog = std::env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok());
        let for_us = std::env::var("WATCHDOG_PID")
            .map_or(true, |text| text.parse() == Ok(std::process::id()));
        let watchdog = watchdog.filter(|usec| *usec > 0 && for_us).map(Duration::from_micros);
        Self::at(std::env::var_os("NOTIFY_SOCKET"), watchdog)
    }

    fn at(name: Option<OsString>, watchdog: Option<Duration>) -> Self {
        let address = name.and_then(|name| match name.as_bytes() {
            // A name that begins with @ is in the abstract name space (unix(7)).
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest).ok(),
            _ => SocketAddr::from_pathname(&name).ok(),
        });
        let to =
            address.and_then(|address| Some(Arc::new((UnixDatagram::unbound().ok()?, address))));
        Self { to, watchdog, ends: Arc::default() }
    }

    /// Reports that the daemon serves, with a line that describes it.
    pub(super) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// Reports that the daemon reads its configuration again. The time is that of the clock which
    /// `Type=notify-reload` compares (systemd.service(5)).
    pub(super) fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let usec = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={usec}\nSTATUS=reloading"));
    }

    /// Reports that the daemon ends.
    pub(super) fn stopping(&self) {
        self.ends.store(true, Ordering::Release);
        self.send("STOPPING=1\nSTATUS=ending what is in progress");
    }

    fn send(&self, text: &str) {
        let Some(to) = &self.to else { return };
        if let Err(error) = to.0.send_to_addr(text.as_bytes(), &to.1) {
            tracing::warn!(%error, "the service manager does not hear this daemon");
        }
    }

    /// Reports that the daemon lives, twice in each interval of the watchdog, while no loop is
    /// late; and its state when that has changed. Ends when `stop` changes.
    ///
    /// `look` runs on a thread that may block. A look that does not return means a daemon that does
    /// not move.
    pub(super) async fn report(
        self,
        look: impl Fn() -> Sight + Send + Sync + 'static,
        mut stop: watch::Receiver<bool>,
    ) {
        if self.to.is_none() {
            return;
        }
        let interval = self.watchdog.map_or(LOOK, |watchdog| LOOK.min(watchdog / 2));
        let mut beat = tokio::time::interval(interval);
        let (look, mut seen) = (Arc::new(look), Sight::default());
        let mut looking: Option<JoinHandle<Sight>> = None;
        loop {
            tokio::select! {
                _ = stop.changed() => return,
                _ = beat.tick() => {}
            }
            let is_again = looking.is_some();
            let mut task = looking.take().unwrap_or_else(|| {
                let look = Arc::clone(&look);
                tokio::task::spawn_blocking(move || look())
            });
            match tokio::time::timeout(interval, &mut task).await {
                Ok(Ok(now)) => self.tell(&mut seen, now),
                Ok(Err(error)) => tracing::error!(%error, "the state of the daemon is not known"),
                Err(_) => {
                    if !is_again {
                        tracing::warn!("a look at the state of the daemon does not come back");
                    }
                    looking = Some(task);
                }
            }
        }
    }

    fn tell(&self, seen: &mut Sight, now: Sight) {
        if self.ends.load(Ordering::Acquire) {
            return;
        }
        if self.watchdog.is_some() && now.late.is_empty() {
            self.send("WATCHDOG=1");
        }
        if now.late != seen.late && !now.late.is_empty() {
            let loops = now.late.join(", ");
            tracing::error!(%loops, "loops do not move; a watchdog restarts this daemon");
        }
        if now != *seen {
            let status = match now.late.is_empty() {
                true => now.status.clone(),
                false => format!("{}; does not move: {}", now.status, now.late.join(", ")),
            };
            self.send(&format!("STATUS={status}"));
            *seen = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::metrics::heartbeat::Heartbeats;

    /// Passes reports on as they come.
    fn hear(socket: UnixDatagram) -> Receiver<String> {
        let (heard, hears) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 256];
            while let Ok(length) = socket.recv(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
                if heard.send(text).is_err() {
                    return;
                }
            }
        });
        hears
    }

    /// Waits for a report that is another one than the sign of life.
    fn next_state(hears: &Receiver<String>) -> String {
        hears.iter().find(|text| text != "WATCHDOG=1").unwrap()
    }

    /// Runs a loop that moves until the test has it hang, and that hangs until the test ends that.
    fn stallable(heartbeats: &Heartbeats) -> (Sender<()>, Sender<()>) {
        let heartbeat = heartbeats.watch("accept", Duration::from_millis(200));
        let (stall, stalls) = channel::<()>();
        let (wake, woken) = channel::<()>();
        std::thread::spawn(move || {
            loop {
                heartbeat.beat();
                match stalls.recv_timeout(Duration::from_millis(1)) {
                    Ok(()) => drop(woken.recv()),
                    Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
                    Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return,
                }
            }
        });
        (stall, wake)
    }

    /// Promise: the service manager receives that the daemon is ready, lives and ends. While a loop
    /// does not move, it receives the loop's name and no sign of life. Signs of life follow when
    /// the loop moves again.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_loop_that_stalls_is_no_life() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let hears = hear(UnixDatagram::bind(&path).unwrap());
        let manager = ServiceManager::at(Some(path.into()), Some(Duration::from_millis(4)));
        manager.ready("site hpc");
        assert_eq!(hears.recv().unwrap(), "READY=1\nSTATUS=site hpc");
        let heartbeats = Arc::new(Heartbeats::default());
        let (stall, wake) = stallable(&heartbeats);
        let (stop, stopped) = watch::channel(false);
        let look = move || Sight { late: heartbeats.late(), status: "leads".to_owned() };
        let report = tokio::spawn(manager.clone().report(look, stopped));
        assert_eq!(next_state(&hears), "STATUS=leads");
        assert_eq!(hears.recv().unwrap(), "WATCHDOG=1");
        stall.send(()).unwrap();
        assert_eq!(next_state(&hears), "STATUS=leads; does not move: accept");
        // None comes while it is stuck, and the next report is that it moves.
        wake.send(()).unwrap();
        assert_eq!(hears.recv().unwrap(), "WATCHDOG=1");
        assert_eq!(next_state(&hears), "STATUS=leads");
        manager.reloading();
        let text = next_state(&hears);
        let usec = text.split("MONOTONIC_USEC=").nth(1).and_then(|rest| rest.lines().next());
        assert!(text.starts_with("RELOADING=1\n"), "{text}");
        assert!(usec.unwrap().parse::<u64>().unwrap() > 0, "{text}");
        manager.stopping();
        assert_eq!(next_state(&hears), "STOPPING=1\nSTATUS=ending what is in progress");
        stop.send(true).unwrap();
        report.await.unwrap();
        // Without a service manager nothing happens.
        ServiceManager::at(None, None).ready("");
    }

    /// Promise: a look that does not return is no sign of life, and is not repeated meanwhile.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_look_that_hangs_is_no_life() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let hears = hear(UnixDatagram::bind(&path).unwrap());
        let manager = ServiceManager::at(Some(path.into()), Some(Duration::from_millis(4)));
        let (_stop, stopped) = watch::channel(false);
        let (wake, woken) = channel::<()>();
        let (looked, looks) = channel();
        let woken = std::sync::Mutex::new(woken);
        let look = move || {
            looked.send(()).unwrap();
            let _ = woken.lock().unwrap().recv();
            Sight { late: Vec::new(), status: "leads".to_owned() }
        };
        tokio::spawn(manager.report(look, stopped));
        looks.recv().unwrap();
        // Many intervals pass without a report or another look.
        assert!(hears.recv_timeout(Duration::from_millis(100)).is_err());
        assert!(looks.try_recv().is_err());
        wake.send(()).unwrap();
        assert_eq!(hears.recv().unwrap(), "WATCHDOG=1");
    }

    /// Promise: the example unit is one that systemd takes, its exposure stays low, and its
    /// watchdog leaves time for two reports.
    #[test]
    #[allow(clippy::print_stdout, reason = "says what is skipped")]
    fn the_example_unit_is_sound() {
        let unit =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/system/penstock.service");
        let unit = std::fs::read_to_string(unit).unwrap();
        let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        assert_eq!(value("Type="), "notify");
        let watchdog = Duration::from_secs(value("WatchdogSec=").parse().unwrap());
        assert!(watchdog >= 4 * LOOK);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("penstock.service");
        // The program is installed later; systemd wants to see one.
        let begin = value("ExecStart=").split(' ').next().unwrap();
        std::fs::write(&path, unit.replace(begin, "/bin/true")).unwrap();
        let verify = ["verify", "--man=no"];
        let security = ["security", "--offline=yes", "--threshold=30", "--no-pager"];
        for arguments in [&verify[..], &security[..]] {
            let judged = Command::new("systemd-analyze").args(arguments).arg(&path).output();
            let Ok(judged) = judged else {
                println!("SKIPPED: systemd-analyze is not installed (Debian: systemd)");
                return;
            };
            let told = [judged.stdout, judged.stderr].concat();
            let told = String::from_utf8_lossy(&told);
            assert!(judged.status.success(), "{told}");
        }
    }
}
