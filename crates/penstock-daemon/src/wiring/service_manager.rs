//! What the daemon tells its service manager: that it is ready, alive, reloading, or stopping.
//!
//! The protocol is that of sd_notify(3): one datagram of `KEY=VALUE` lines to the socket that
//! `NOTIFY_SOCKET` names. Without that variable nothing is sent. With `WatchdogSec=` in the unit
//! the service manager restarts a daemon that has not reported in time: the report comes from the
//! control threads, and only while the thread that starts transfers moves as well.

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// The service manager that started this daemon.
#[derive(Clone, Debug)]
pub(super) struct ServiceManager {
    to: Option<Arc<(UnixDatagram, SocketAddr)>>,
    /// Interval within which it expects a report.
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// Returns the service manager that the environment names, or one that hears nothing.
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
        Self { to, watchdog }
    }

    /// Reports that the daemon serves, and in one line what it is.
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
        self.send("STOPPING=1\nSTATUS=ending what is in progress");
    }

    fn send(&self, text: &str) {
        let Some(to) = &self.to else { return };
        if let Err(error) = to.0.send_to_addr(text.as_bytes(), &to.1) {
            tracing::warn!(%error, "the service manager does not hear this daemon");
        }
    }

    /// Reports that the daemon lives, twice in each interval of the watchdog, while `moves` says
    /// so; until `stop` changes.
    pub(super) async fn feed_watchdog(
        self,
        moves: impl Fn() -> bool + Send,
        mut stop: watch::Receiver<bool>,
    ) {
        let Some(interval) = self.watchdog else { return };
        let mut beat = tokio::time::interval(interval / 2);
        loop {
            tokio::select! {
                _ = stop.changed() => return,
                _ = beat.tick() => {}
            }
            if moves() {
                self.send("WATCHDOG=1");
            } else {
                tracing::error!("a thread does not move; the service manager restarts this daemon");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    /// Waits for the next report; without a wait on a socket that does not block.
    fn hear(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    /// Promise: the service manager hears that the daemon is ready, lives and ends, and no sign of
    /// life while a thread does not move.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn the_service_manager_hears_the_daemon() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let manager = ServiceManager::at(Some(path.into()), Some(Duration::from_millis(2)));
        manager.ready("site hpc");
        assert_eq!(hear(&socket), "READY=1\nSTATUS=site hpc");
        let moves = Arc::new(AtomicBool::new(true));
        let asked = Arc::new(AtomicUsize::new(0));
        let (stop, stopped) = watch::channel(false);
        let (seen, count) = (Arc::clone(&moves), Arc::clone(&asked));
        let is_moving = move || {
            count.fetch_add(1, Ordering::AcqRel);
            seen.load(Ordering::Acquire)
        };
        let feed = tokio::spawn(manager.clone().feed_watchdog(is_moving, stopped));
        assert_eq!((hear(&socket), hear(&socket)), ("WATCHDOG=1".into(), "WATCHDOG=1".into()));
        moves.store(false, Ordering::Release);
        let from = asked.load(Ordering::Acquire);
        while asked.load(Ordering::Acquire) < from + 5 {
            tokio::task::yield_now().await;
        }
        stop.send(true).unwrap();
        feed.await.unwrap();
        // A report that was under way when the thread stopped may be there; five would be wrong.
        socket.set_nonblocking(true).unwrap();
        let mut late = 0;
        while socket.recv(&mut [0; 64]).is_ok() {
            late += 1;
        }
        assert!(late < from + 2, "{late} reports of {from} asked");
        manager.reloading();
        let text = hear(&socket);
        let usec = text.split("MONOTONIC_USEC=").nth(1).and_then(|rest| rest.lines().next());
        assert!(text.starts_with("RELOADING=1\n"), "{text}");
        assert!(usec.unwrap().parse::<u64>().unwrap() > 0, "{text}");
        manager.stopping();
        assert!(hear(&socket).starts_with("STOPPING=1"));
        // Without a service manager nothing happens.
        ServiceManager::at(None, None).ready("");
    }
}
