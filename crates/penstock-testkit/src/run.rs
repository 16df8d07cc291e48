//! Commands that print JSON lines, followed while they run.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::program::signal;
use crate::wait::PATIENCE;

/// Returns a number of an event, a view or a summary, which must have it.
pub fn figure(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no `{key}` in {value}"))
}

/// Returns a number of an event, a view or a summary, 0 if it has none.
pub fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

/// Returns a test of events: are so many bytes verified?
pub fn verified_at_least(bytes: u64) -> impl Fn(&Value) -> bool {
    move |event| number(event, "bytes") >= bytes
}

/// A running command that prints JSON lines. Dropping it kills the command.
pub struct Run {
    child: Child,
    lines: Receiver<(Instant, Value)>,
    errors: Option<JoinHandle<String>>,
    seen: VecDeque<(Instant, Value)>,
}

/// The end of a run.
#[derive(Debug)]
pub struct Ended {
    /// Exit code; 128 and the signal's number after a signal.
    pub code: i32,
    /// The last line of standard output; null if there was none.
    pub last: Value,
    /// Standard error.
    pub errors: String,
    /// All lines, and when they came.
    pub seen: VecDeque<(Instant, Value)>,
}

impl Ended {
    /// Fails the test unless the command ended with `code`.
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}", self.last, self.errors);
        self
    }

    /// Returns a number of the last line.
    pub fn figure(&self, name: &str) -> u64 {
        figure(&self.last, name)
    }
}

impl Run {
    /// Starts a command.
    pub fn spawn(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut stderr = child.stderr.take().unwrap();
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // A line that a kill has cut short is no line.
                if let Ok(value) = serde_json::from_str(&line) {
                    let _ = send.send((Instant::now(), value));
                }
            }
        });
        let errors = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Self { child, lines, errors: Some(errors), seen: VecDeque::new() }
    }

    /// Returns the number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns all lines so far, and when they came.
    pub fn seen(&mut self) -> &VecDeque<(Instant, Value)> {
        self.seen.extend(self.lines.try_iter());
        &self.seen
    }

    /// Waits for a line; `None` if the output ends before it.
    pub fn wait_for(&mut self, wanted: impl FnMut(&Value) -> bool) -> Option<Value> {
        self.wait_within(PATIENCE, wanted)
    }

    /// Waits for a line for so long; `None` if the output ends before it.
    fn wait_within(
        &mut self,
        most: Duration,
        mut wanted: impl FnMut(&Value) -> bool,
    ) -> Option<Value> {
        let until = Instant::now() + most;
        for value in self.by_ref() {
            if wanted(&value) {
                return Some(value);
            }
            assert!(Instant::now() < until, "waited in vain; the last line: {value}");
        }
        None
    }

    /// Waits for a line, which must come.
    pub fn until(&mut self, wanted: impl FnMut(&Value) -> bool) -> Value {
        self.until_within(PATIENCE, wanted)
    }

    /// Waits for a line for so long; it must come.
    pub fn until_within(&mut self, most: Duration, wanted: impl FnMut(&Value) -> bool) -> Value {
        let found = self.wait_within(most, wanted);
        found.unwrap_or_else(|| panic!("the output ended with {:?}", self.seen.back()))
    }

    /// Reads lines until `time` has passed; `false` if the output ended before.
    pub fn watch_for(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.seen.push_back(line),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Sends a signal to the process.
    pub fn signal(&self, name: Signal) {
        signal(self.id(), name);
    }

    /// Kills the process by `kill -9`; returns how it ended.
    pub fn kill(mut self) -> Ended {
        self.child.kill().unwrap();
        self.end()
    }

    /// Waits for the end.
    pub fn end(mut self) -> Ended {
        while self.next().is_some() {}
        let status = self.child.wait().unwrap();
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        let errors = self.errors.take().map(|errors| errors.join().unwrap());
        let last = self.seen.back().map(|(_, value)| value.clone()).unwrap_or_default();
        let seen = std::mem::take(&mut self.seen);
        Ended { code, last, errors: errors.unwrap_or_default(), seen }
    }
}

impl Iterator for Run {
    type Item = Value;

    /// Waits for the next line; `None` at the end of the output.
    fn next(&mut self) -> Option<Value> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.seen.push_back(line.clone());
                Some(line.1)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no line for {PATIENCE:?}"),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that runs for a small part of the time, so that fast disks leave time to break things.
/// Dropping this lets it run freely again, after which it can be waited for or killed.
pub struct Slowly {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Slowly {
    /// Slows a process to a twentieth.
    pub fn new(process: u32) -> Self {
        Self::with_stops(process, Duration::from_millis(57))
    }

    /// Stops a process for `stops` at a time, with some milliseconds between.
    pub fn with_stops(process: u32, stops: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            // A process that has ended is a zombie until the test has waited for it.
            while !asked.load(Ordering::Acquire) {
                signal(process, Signal::STOP);
                std::thread::sleep(stops);
                signal(process, Signal::CONT);
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Slowly {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
