//! The terminal while a full-screen program has it.

use std::io::{self, IsTerminal as _, Stdout, Write};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute};
use penstock_exit::{ExitCode, Failure};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rustix::process::{Signal, kill_current_process_group};

/// Bytes of a frame that go to the terminal at once.
const FRAME_BYTES: usize = 64 << 10;

/// True while the terminal is in raw mode, with the alternate screen.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Returns whether this process has a terminal that can show a full-screen program: standard input
/// and output are one, and `TERM` does not say that it is dumb.
pub(crate) fn is_capable() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb
}

/// The terminal, in raw mode and with the alternate screen until this is dropped. A panic of any
/// thread restores it too, before its message is printed.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<io::BufWriter<Stdout>>>,
}

impl Screen {
    /// Takes the terminal. At most one screen may be there at a time.
    ///
    /// # Errors
    /// The terminal cannot be set up.
    pub(crate) fn enter() -> Result<Self, Failure> {
        restore_at_panic();
        take().map_err(unusable)?;
        let out = io::BufWriter::with_capacity(FRAME_BYTES, io::stdout());
        let terminal = Terminal::new(CrosstermBackend::new(out)).map_err(unusable)?;
        Ok(Self { terminal })
    }

    /// Paints a frame. Only cells that differ from the frame before are sent to the terminal.
    /// Blocks while the terminal does not take them. Does nothing after a panic of another thread,
    /// whose message stays.
    ///
    /// # Errors
    /// The terminal cannot be written.
    pub(crate) fn paint(&mut self, view: impl FnOnce(Rect, &mut Buffer)) -> Result<(), Failure> {
        if !IS_TAKEN.load(Ordering::SeqCst) {
            return Ok(());
        }
        let painted = self.terminal.draw(|frame| view(frame.area(), frame.buffer_mut()));
        painted.map(drop).map_err(unusable)
    }

    /// Restores the terminal and stops the foreground job, as Ctrl-Z does it elsewhere; returns
    /// when the job is continued, with the terminal taken again. Must be called by the main thread:
    /// the kernel delivers the signal to it before the call returns. A job that nobody could
    /// continue is not stopped (POSIX: an orphaned process group).
    ///
    /// # Errors
    /// The terminal cannot be set up again.
    pub(crate) fn suspend(&mut self) -> Result<(), Failure> {
        restore(&mut io::stdout());
        // It can fail only for a group that does not exist.
        let _ = kill_current_process_group(Signal::TSTP);
        self.resume()
    }

    /// Takes the terminal again after the process was stopped, and has the next frame painted as a
    /// whole.
    ///
    /// # Errors
    /// The terminal cannot be set up again.
    pub(crate) fn resume(&mut self) -> Result<(), Failure> {
        // A shell may have changed the modes of the terminal meanwhile.
        disable_raw_mode().map_err(unusable)?;
        take().map_err(unusable)?;
        self.repaint()
    }

    /// Has the next frame painted as a whole.
    ///
    /// # Errors
    /// The terminal cannot be written.
    pub(crate) fn repaint(&mut self) -> Result<(), Failure> {
        let size = self.terminal.size().map_err(unusable)?;
        self.terminal.resize(Rect::from((Default::default(), size))).map_err(unusable)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore(&mut io::stdout());
    }
}

fn unusable(error: io::Error) -> Failure {
    Failure::new(ExitCode::Temporary, "cannot use the terminal").caused_by(error)
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    IS_TAKEN.store(true, Ordering::SeqCst);
    execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)
}

/// Restores the terminal, if it is taken. What fails is left: there is nothing to report it on.
fn restore(out: &mut impl Write) {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(out, cursor::Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

fn restore_at_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            restore(&mut io::stdout());
            report(info);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a terminal is restored once, and a panic of any thread restores it before its
    /// message is printed.
    #[test]
    fn a_panic_restores_the_terminal() {
        restore_at_panic();
        IS_TAKEN.store(true, Ordering::SeqCst);
        let ended = std::thread::spawn(|| panic!("on purpose")).join();
        assert!(ended.is_err() && !IS_TAKEN.load(Ordering::SeqCst));
        let mut out = Vec::new();
        restore(&mut out);
        assert!(out.is_empty(), "{out:?}");
        IS_TAKEN.store(true, Ordering::SeqCst);
        restore(&mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("\u{1b}[?25h") && text.contains("\u{1b}[?1049l"), "{text:?}");
    }
}
