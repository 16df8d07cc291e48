//! The log on standard error: one line a record, whatever is in its fields.
//!
//! Where standard error is the journal of systemd, its records have time, host and process already.
//! A line then begins with the priority instead, as `<6>` (sd-daemon(3)), by which `journalctl -p`
//! chooses.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::OnceLock;

use penstock_proto::text;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Format;
use tracing_subscriber::layer::{Layer, Layered, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

/// What is under the layers of the log: the filter of records and spans, which can be replaced.
pub type FilteredLog = Layered<reload::Layer<EnvFilter, Registry>, Registry>;
/// A layer of the log, which receives all records and spans that pass the filter.
pub type LogLayer = Box<dyn Layer<FilteredLog> + Send + Sync>;

/// The filter of the log that was started.
static LOG_FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Starts the log on standard error. `PENSTOCK_LOG` chooses records, as in tracing's `EnvFilter`;
/// without it `level` does.
pub fn start_log(level: &str) {
    start_log_with(level, Vec::new());
}

/// Starts the log as [`start_log`] does, with more layers.
pub fn start_log_with(level: &str, mut layers: Vec<LogLayer>) {
    let filter = EnvFilter::try_from_env("PENSTOCK_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let (filter, handle) = reload::Layer::new(filter);
    let is_journal = std::env::var("JOURNAL_STREAM").is_ok_and(|stream| is_stderr(&stream));
    let log = fmt::layer().with_ansi(false);
    // Lines have no spans: these are for programs that follow a transfer through several hosts.
    let is_record = filter_fn(|metadata| metadata.is_event());
    layers.push(match is_journal {
        true => {
            let log = log.event_format(journal_format()).with_writer(Journal(io::stderr));
            log.with_filter(is_record).boxed()
        }
        false => {
            let log = log.with_writer(|| Records::new(io::stderr()));
            log.with_filter(is_record).boxed()
        }
    });
    // A second subscriber is refused; there is one only in tests of this process.
    if tracing_subscriber::registry().with(filter).with(layers).try_init().is_ok() {
        let _ = LOG_FILTER.set(handle);
    }
}

/// Checks the level of a log: `info`, or per module as `info,penstock_peer=debug`.
///
/// # Errors
/// The text is no level; the message says why.
pub fn check_log(level: &str) -> Result<(), String> {
    level.parse::<EnvFilter>().map(drop).map_err(|error| format!("`{level}`: {error}"))
}

/// Changes the level of the log that was started; without one does nothing.
///
/// # Errors
/// The text is no level.
pub fn set_log(level: &str) -> Result<(), String> {
    let filter = level.parse::<EnvFilter>().map_err(|error| format!("`{level}`: {error}"))?;
    let changed = LOG_FILTER.get().map_or(Ok(()), |handle| handle.reload(filter));
    changed.map_err(|error| error.to_string())
}

/// Returns the format of a record for the journal.
fn journal_format() -> Format<fmt::format::Full, ()> {
    Format::default().without_time().with_level(false).with_ansi(false)
}

/// Returns whether standard error is this stream of the journal, by its device and inode
/// (systemd.exec(5), `$JOURNAL_STREAM`). A daemon that writes to a file may have inherited the
/// variable.
fn is_stderr(stream: &str) -> bool {
    let own = io::stderr().as_fd().try_clone_to_owned();
    let own = own.and_then(|stderr| File::from(stderr).metadata());
    own.is_ok_and(|own| stream == format!("{}:{}", own.dev(), own.ino()))
}

/// Makes writers of records for the journal.
struct Journal<F>(F);

impl<'a, W: Write, F: Fn() -> W + 'a> MakeWriter<'a> for Journal<F> {
    type Writer = Records<W>;

    fn make_writer(&'a self) -> Self::Writer {
        Records::new((self.0)())
    }

    fn make_writer_for(&'a self, meta: &tracing::Metadata<'_>) -> Self::Writer {
        Records { prefix: priority(*meta.level()), inner: (self.0)() }
    }
}

/// Returns the prefix of a priority (syslog(3)).
fn priority(level: tracing::Level) -> &'static str {
    match level {
        tracing::Level::ERROR => "<3>",
        tracing::Level::WARN => "<4>",
        tracing::Level::INFO => "<6>",
        _ => "<7>",
    }
}

/// The log: each write is one record.
struct Records<W> {
    prefix: &'static str,
    inner: W,
}

impl<W> Records<W> {
    fn new(inner: W) -> Self {
        Self { prefix: "", inner }
    }
}

impl<W: Write> Write for Records<W> {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(record);
        let text = text::line(text.trim_end_matches('\n'));
        self.inner.write_all(format!("{}{text}\n", self.prefix).as_bytes())?;
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Promise: a record of the log is one line, whatever is in it.
    #[test]
    fn a_record_is_one_line() {
        let mut log = Vec::new();
        Records::new(&mut log).write_all(b"WARN a\nINFO forged\x1b[2J\n").unwrap();
        assert_eq!(String::from_utf8(log).unwrap(), "WARN a\\nINFO forged\\u001b[2J\n");
    }

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Promise: a record for the journal has its priority, and neither a time nor a colour, which
    /// the journal has or does not want.
    #[test]
    fn records_for_the_journal_have_a_priority() {
        let shared = Shared::default();
        let sink = shared.clone();
        let log = tracing_subscriber::fmt().event_format(journal_format());
        let log = log.with_writer(Journal(move || sink.clone())).finish();
        tracing::subscriber::with_default(log, || {
            tracing::error!(target: "penstock", site = "hpc", "lost");
            tracing::warn!(target: "penstock", "late");
            tracing::info!(target: "penstock", "two\nlines");
        });
        let text = String::from_utf8(shared.0.lock().unwrap().clone()).unwrap();
        assert_eq!(
            text,
            "<3>penstock: lost site=\"hpc\"\n<4>penstock: late\n<6>penstock: two\\nlines\n"
        );
    }

    /// Promise: a stream of the journal that is not standard error is none.
    #[test]
    fn another_stream_is_not_the_journal() {
        let own = File::from(io::stderr().as_fd().try_clone_to_owned().unwrap());
        let own = own.metadata().unwrap();
        assert!(is_stderr(&format!("{}:{}", own.dev(), own.ino())));
        assert!(!is_stderr(&format!("{}:{}", own.dev(), own.ino() + 1)));
        assert!(!is_stderr(""));
    }
}
