//! `iperf3` to a server at the other end, beside the transfers.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use penstock_exit::{ExitCode, Failure};
use serde::Serialize;
use serde_json::Value;

use crate::commands::plan::nameless;

/// Longest time until the server accepts the connection, in milliseconds.
const CONNECT_MS: &str = "5000";
/// Time beyond its own after which a run is killed.
const LATE: Duration = Duration::from_secs(30);
/// Interval at which the end of a run is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// Connections of a run.
const CONNECTIONS: &str = "4";
/// Port of a server unless another one is given.
const PORT: u16 = 5201;

/// A server of iperf3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Iperf3Server {
    host: String,
    port: u16,
}

impl FromStr for Iperf3Server {
    type Err = String;

    /// Reads `HOST`, `HOST:PORT`, an IPv6 address or `[ADDRESS]:PORT`.
    fn from_str(text: &str) -> Result<Self, String> {
        let bare = |text: &str| text.trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_address = text.parse::<std::net::Ipv6Addr>().is_ok();
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !is_address && !port.contains(']') => {
                (host, port.parse().map_err(|_| format!("`{port}` is no port"))?)
            }
            _ => (text, PORT),
        };
        match bare(host) {
            host if host.is_empty() || host.starts_with('-') => {
                Err(format!("`{text}` is not HOST[:PORT]"))
            }
            host => Ok(Self { host, port }),
        }
    }
}

/// A run of iperf3.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Iperf3Run {
    pub(super) is_outward: bool,
    /// As it was received.
    pub(super) bits_per_s: f64,
}

impl Iperf3Server {
    /// Checks that `iperf3` is installed, before anything is measured.
    ///
    /// # Errors
    /// It cannot be run.
    pub(super) fn check() -> Result<(), Failure> {
        let mut command = Command::new("iperf3");
        command.arg("--version").stdin(Stdio::null()).output().map_err(cannot_run)?;
        Ok(())
    }

    /// Runs iperf3 for some seconds, from this host or to it. Blocks so long, and 30 s more at
    /// most.
    ///
    /// # Errors
    /// It is not installed, the server does not answer, it reports an error, or it does not end.
    pub(super) fn measure(&self, seconds: u32, is_outward: bool) -> anyhow::Result<Iperf3Run> {
        let most = Duration::from_secs(seconds.into()) + LATE;
        let (port, seconds) = (self.port.to_string(), seconds.to_string());
        let mut command = Command::new("iperf3");
        command.args(["--client", &self.host, "--port", &port, "--time", &seconds]);
        command.args(["--json", "--parallel", CONNECTIONS, "--connect-timeout", CONNECT_MS]);
        if !is_outward {
            command.arg("--reverse");
        }
        let report = output_within(&mut command, most).map_err(cannot_run)?;
        let late = || format!("it did not end within {} s, and was killed", most.as_secs());
        let rate = report.ok_or_else(late).and_then(|report| rate_of(&report));
        let bits_per_s = rate.map_err(|why| {
            let message = format!("`iperf3` to {}:{} failed", self.host, self.port);
            Failure::new(ExitCode::Temporary, message)
                .caused_by(why)
                .hint("`iperf3 --server` has to run there, and serves one client at a time")
        })?;
        Ok(Iperf3Run { is_outward, bits_per_s })
    }
}

fn cannot_run(error: io::Error) -> Failure {
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    let failure = Failure::io("run `iperf3`", error);
    if is_missing { failure.hint("install iperf3, or leave out `--iperf3`") } else { failure }
}

/// Runs a command, and returns its standard output. A command that does not end within `most` is
/// killed, and there is no output then.
fn output_within(command: &mut Command, most: Duration) -> io::Result<Option<Vec<u8>>> {
    // No pipe, which would have to be read meanwhile.
    let mut output: File = nameless()?;
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let kill_at = Instant::now() + most;
    while child.try_wait()?.is_none() {
        if Instant::now() >= kill_at {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(LOOK);
    }
    let mut text = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut text)?;
    Ok(Some(text))
}

/// Returns the rate in the JSON that iperf3 writes, or the error in it.
fn rate_of(json: &[u8]) -> Result<f64, String> {
    let value: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    if let Some(error) = value["error"].as_str() {
        return Err(error.to_owned());
    }
    value["end"]["sum_received"]["bits_per_second"]
        .as_f64()
        .ok_or_else(|| "its report has no rate".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a server is read with and without a port, and no option of iperf3 is taken for one.
    #[test]
    fn servers_are_read() {
        let server = |text: &str| text.parse::<Iperf3Server>().map(|it| (it.host, it.port));
        assert_eq!(server("dtn1"), Ok(("dtn1".to_owned(), 5201)));
        assert_eq!(server("dtn1:99"), Ok(("dtn1".to_owned(), 99)));
        assert_eq!(server("fd00::7"), Ok(("fd00::7".to_owned(), 5201)));
        assert_eq!(server("[fd00::7]:99"), Ok(("fd00::7".to_owned(), 99)));
        assert_eq!(server("[fd00::7]"), Ok(("fd00::7".to_owned(), 5201)));
        for wrong in ["", ":99", "dtn1:x", "--server"] {
            assert!(server(wrong).is_err(), "{wrong}");
        }
    }

    /// Promise: the output of a run is read as a whole, and a run that does not end is killed.
    #[test]
    fn a_run_has_an_end() {
        let run = |words: &[&str], most| {
            let mut command = Command::new(words[0]);
            output_within(command.args(&words[1..]), most)
        };
        let hour = Duration::from_secs(3600);
        assert_eq!(run(&["echo", "{}"], hour).unwrap().as_deref(), Some(&b"{}\n"[..]));
        assert!(run(&["sleep", "3600"], Duration::ZERO).unwrap().is_none());
        let error = run(&["no-such-program"], hour).unwrap_err();
        assert!(cannot_run(error).to_string().contains("iperf3"));
    }

    /// Promise: the rate is that of the receiver, and an error is shown as iperf3 words it.
    #[test]
    fn a_report_has_a_rate_or_an_error() {
        let report = br#"{"end":{"sum_sent":{"bits_per_second":9.0},
            "sum_received":{"bits_per_second":8.5}}}"#;
        assert_eq!(rate_of(report), Ok(8.5));
        let refused = br#"{"start":{},"error":"unable to connect to server"}"#;
        assert_eq!(rate_of(refused), Err("unable to connect to server".to_owned()));
        assert!(rate_of(b"{}").is_err() && rate_of(b"iperf3").is_err());
    }
}
