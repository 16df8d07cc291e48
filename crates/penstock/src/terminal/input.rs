//! Keys, resizes and signals, as messages to a full-screen program.

use std::sync::mpsc::Sender;
use std::thread;

use crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use penstock_exit::Failure;
use tokio::signal::unix::{SignalKind, signal};

use crate::signals::{Ending, Endings};

/// A message of the terminal or of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// A key was pressed, or is held down.
    Key(KeyEvent),
    /// The terminal has another size.
    Resized,
    /// The process continues after it was stopped.
    Continued,
    /// SIGTERM, SIGINT, SIGHUP or SIGQUIT, or the terminal is gone: the program has to end.
    Ended,
}

/// Sends all input from now on, by threads that end with the receiver or the process.
///
/// # Errors
/// No thread can be started, or no signal be received.
pub(crate) fn listen<T: From<Input> + Send + 'static>(to: &Sender<T>) -> Result<(), Failure> {
    let (keys, signals) = (to.clone(), to.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::no_thread)?;
    let started = thread::Builder::new().name("signals".into()).spawn(move || {
        // Without handlers the signals end the process as ever.
        let _ = runtime.block_on(send_signals(&signals));
    });
    started.map_err(Failure::no_thread)?;
    let started = thread::Builder::new().name("keys".into()).spawn(move || {
        while let Ok(event) = event::read() {
            let input = match event {
                Event::Key(key) if key.kind != KeyEventKind::Release => Input::Key(key),
                Event::Resize(..) => Input::Resized,
                _ => continue,
            };
            if keys.send(input.into()).is_err() {
                return;
            }
        }
        let _ = keys.send(Input::Ended.into());
    });
    started.map(drop).map_err(Failure::no_thread)
}

async fn send_signals<T: From<Input>>(to: &Sender<T>) -> std::io::Result<()> {
    let mut endings =
        Endings::catch(&[Ending::Terminate, Ending::Interrupt, Ending::HangUp, Ending::Quit])?;
    let number = rustix::process::Signal::CONT.as_raw();
    let mut cont = signal(SignalKind::from_raw(number))?;
    loop {
        let input = tokio::select! {
            _ = endings.next() => Input::Ended,
            _ = cont.recv() => Input::Continued,
        };
        if to.send(input.into()).is_err() {
            return Ok(());
        }
    }
}
