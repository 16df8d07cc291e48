//! The user's own ssh: starts it, finds the far end's first line, sends the program where it is
//! missing, forwards a port where lanes need it.
//!
//! One connection, one authentication: what runs at the far host is a small script for its shell
//! that takes the copy of `penstock` in the user's cache, else the one in the `PATH`, if it is of
//! the same release; else it reads one from its standard input. The connection is also the master
//! of a private control socket (ssh_config(5), `ControlPath`), so that a port can be forwarded
//! later without another login.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use penstock_proto::text;

use super::arguments::SshArgs;
use super::bootstrap::{own_digest, send, unfit};
use super::destination::Destination;
use super::message::{MAGIC, READY, version};
use crate::signals::{self, Ending};
use penstock_exit::{self as exit, ExitCode, Failure};

/// How long a login may take, with a person who types a password; and again, once the program was
/// sent, until that has answered.
const START_MAX: Duration = Duration::from_secs(600);
/// How long the sending of the program may stand still.
const SEND_SILENCE_MAX: Duration = Duration::from_secs(60);
/// Bytes of the program that are written at a time: at 2 kB/s they take half of that.
const SEND_BYTES: usize = 64 << 10;
/// How long ssh may take to forward a port: a few round trips.
const FORWARD_MAX: Duration = Duration::from_secs(30);
/// How long ssh may take to tell how it is configured, which it does without the network.
const CONFIGURATION_MAX: Duration = Duration::from_secs(5);
/// How long ssh is given to end once the far end has been told to.
const END_MAX: Duration = Duration::from_secs(5);
/// What a shell's start-up files may print before the far end's first line.
const NOISE_BYTES_MAX: u64 = 1 << 20;
/// What is kept of ssh's own messages, to tell why it failed.
const SAID_BYTES_MAX: usize = 8 << 10;

/// Longest directory for the control socket. A socket's path has 107 bytes at most, unix(7); below
/// the directory there are 32 of ours, and ssh first makes the socket with 17 more behind its name.
const PARENT_BYTES_MAX: usize = 107 - 32 - 17;

/// A running ssh.
pub(super) struct Ssh {
    child: Arc<Mutex<Child>>,
    words: Vec<String>,
    destination: Destination,
    control: ControlDirectory,
    said: Arc<Mutex<String>>,
}

/// Watches for Ctrl-C until the copy itself does. ssh ignores it, and is not to be left at a prompt
/// of which nobody knows any more.
pub(super) struct Starting {
    over: AtomicBool,
    interrupted: AtomicBool,
    child: Mutex<Option<Arc<Mutex<Child>>>>,
}

impl Starting {
    /// Watches from now on.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn watch() -> anyhow::Result<Arc<Self>> {
        let starting = Arc::new(Self {
            over: false.into(),
            interrupted: false.into(),
            child: Mutex::new(None),
        });
        let watching = Arc::clone(&starting);
        signals::watch(&[Ending::Interrupt], move |_| {
            if watching.over.load(Ordering::Acquire) {
                return;
            }
            watching.interrupted.store(true, Ordering::Release);
            let child = watching.child.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(child) = child {
                // Whoever waits for it, or for the far end, hears of it at once.
                let _ = child.lock().unwrap_or_else(PoisonError::into_inner).kill();
            }
        })?;
        Ok(starting)
    }

    fn started(&self, child: &Arc<Mutex<Child>>) {
        *self.child.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(child));
        // The interrupt may have come before there was anything to end.
        if self.interrupted.load(Ordering::Acquire) {
            let _ = child.lock().unwrap_or_else(PoisonError::into_inner).kill();
        }
    }

    /// Why it ended: what was found, unless that is only what the interrupt has caused.
    pub(super) fn why(&self, error: anyhow::Error) -> anyhow::Error {
        if self.interrupted.load(Ordering::Acquire) && !self.over.load(Ordering::Acquire) {
            return Failure::new(ExitCode::Interrupted, "interrupted").into();
        }
        error
    }

    /// The copy watches itself from now on.
    pub(super) fn is_over(&self) {
        self.over.store(true, Ordering::Release);
    }
}

/// The private directory of the control socket; removed with this.
struct ControlDirectory(PathBuf);

impl Drop for ControlDirectory {
    fn drop(&mut self) {
        // It is empty or holds a dead socket; one that cannot be removed harms nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl ControlDirectory {
    fn make() -> anyhow::Result<Self> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let make = |parent: &Path| {
            let path = parent.join(format!("penstock-ssh-{:016x}", rand::random::<u64>()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => Ok(Self(path)),
                Err(error) => Err(Failure::io(format!("make `{}`", path.display()), error)),
            }
        };
        // The directory may be that of the user who became this one with su(1).
        let runtime = runtime.filter(|path| path.as_os_str().len() <= PARENT_BYTES_MAX);
        match runtime.map(|parent| make(&parent)) {
            Some(Ok(made)) => Ok(made),
            _ => Ok(make(Path::new("/tmp"))?),
        }
    }

    fn socket(&self) -> PathBuf {
        self.0.join("c")
    }
}

/// Refuses a command for ssh that is no program of this host.
fn check_program(program: &str) -> Result<(), Failure> {
    let runs = |path: &Path| {
        let mode = fs::metadata(path).map(|meta| if meta.is_file() { meta.mode() } else { 0 });
        mode.is_ok_and(|mode| mode & 0o111 != 0)
    };
    let found = if program.contains('/') {
        runs(Path::new(program))
    } else {
        let places = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&places).any(|place| runs(&place.join(program)))
    };
    if found {
        return Ok(());
    }
    let message = format!("cannot run `{program}`: this host has no such program");
    Err(Failure::new(ExitCode::Fatal, message)
        .hint("install ssh, or name its command with `--ssh`"))
}

/// What the far end's first lines say.
enum Greeting {
    Ready(BufReader<ChildStdout>),
    /// There is no program of this release; its words: why, system, machine.
    Absent(String),
    /// It was sent and does not run there.
    Unfit(String),
    Closed(String),
}

impl Ssh {
    /// Logs in and starts the far end; gives its input and output, at which messages follow.
    ///
    /// # Errors
    /// ssh fails (exit 12 if it may not log in, else 5), or the program is not there and may not or
    /// cannot be sent.
    pub(super) fn start(
        args: &SshArgs,
        destination: &Destination,
        starting: &Starting,
    ) -> anyhow::Result<(Self, ChildStdin, BufReader<ChildStdout>)> {
        let words = split(&args.ssh)?;
        check_program(words.first().map_or("", String::as_str))?;
        let control = ControlDirectory::make()?;
        let digest = own_digest()?;
        let script = script(&digest, args.remote_penstock.as_deref());
        let mut command = Command::new("sh");
        // ssh keeps an ignored signal ignored: at Ctrl-C the far end is asked to stop in order,
        // which needs the connection.
        command.args(["-c", "trap '' INT; exec \"$@\"", "sh"]).args(&words);
        command.args(["-T", "-M", "-S"]).arg(control.socket());
        for option in ["ControlPersist=no", "RemoteCommand=none", "ClearAllForwardings=yes"] {
            command.args(["-o", option]);
        }
        destination.add_to(&mut command);
        command.arg(&script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| Failure::io("start `sh`", error))?;
        let missing = || anyhow::anyhow!("ssh has no standard input or output: a bug of penstock");
        let mut input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        let said = pass_on(child.stderr.take().ok_or_else(missing)?)?;
        let child = Arc::new(Mutex::new(child));
        starting.started(&child);
        let ssh = Self { child, words, destination: destination.clone(), control, said };
        let greetings = listen(output)?;
        let ready = ssh.greet(args, &mut input, &greetings, &digest);
        match ready {
            Ok(output) => Ok((ssh, input, output)),
            Err(error) => {
                ssh.kill();
                Err(error)
            }
        }
    }

    fn greet(
        &self,
        args: &SshArgs,
        input: &mut ChildStdin,
        greetings: &Receiver<Greeting>,
        digest: &str,
    ) -> anyhow::Result<BufReader<ChildStdout>> {
        let mut until = Instant::now() + START_MAX;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(greeting) = greetings.recv_timeout(left) else {
                let host = &self.destination;
                let message = format!("{host} has not answered in {} s", START_MAX.as_secs());
                return Err(Failure::new(ExitCode::Temporary, message).into());
            };
            match greeting {
                Greeting::Ready(output) => return Ok(output),
                Greeting::Absent(words) => {
                    let mut watched = Watched::start(input, Arc::clone(&self.child))?;
                    let to = &self.destination;
                    send(args, to, &words, digest, &mut watched)?;
                    until = Instant::now() + START_MAX;
                }
                Greeting::Unfit(words) => {
                    return Err(unfit(&self.destination, &words).into());
                }
                Greeting::Closed(noise) => return Err(self.failed(&noise).into()),
            }
        }
    }

    /// Why ssh ended before the far end's first line.
    fn failed(&self, noise: &str) -> Failure {
        let status = self.wait(END_MAX);
        // Its last words may still be on their way.
        std::thread::sleep(Duration::from_millis(50));
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let code = status.and_then(|status| status.code());
        let host = &self.destination;
        let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
        if code == Some(255) {
            let message = format!("ssh to {host} failed");
            return if has(&["Permission denied", "Host key verification failed", "authentication"])
            {
                Failure::new(ExitCode::NotAuthorised, message)
                    .hint(format!("make `{} {host}` work first", self.words.join(" ")))
            } else {
                Failure::new(ExitCode::Temporary, message).hint(
                    "the messages of ssh are above: correct what they name, and run the same \
                         command again",
                )
            };
        }
        let ended = code.map_or("a signal".to_owned(), |code| format!("status {code}"));
        let message = format!("no penstock has answered at {host}: ssh ended with {ended}");
        let noise = noise.trim();
        let failure = Failure::new(ExitCode::Fatal, message);
        if noise.is_empty() {
            return failure.hint(
                "the login shell there must run commands; `--remote-penstock PATH` names the \
                 program",
            );
        }
        let shown: String = noise.chars().take(200).collect();
        failure.hint(format!("what came instead: `{}`", text::line(&shown)))
    }

    /// Forwards a free port of this host's loopback address to `port` at the far end's.
    ///
    /// # Errors
    /// ssh or its server refuses.
    pub(super) fn forward(&self, port: u16) -> io::Result<SocketAddr> {
        let mut why = String::new();
        // Another program may take the port between our look and ssh's: then another one.
        for _ in 0..3 {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
            let way = format!("127.0.0.1:{}:127.0.0.1:{port}", free.port());
            let mut command = Command::new(&self.words[0]);
            command.args(&self.words[1..]).arg("-S").arg(self.control.socket());
            command.args(["-O", "forward", "-L", &way]);
            self.destination.add_to(&mut command);
            let done = output_within(command.stdin(Stdio::null()), FORWARD_MAX)?;
            if done.status.success() {
                return Ok(free);
            }
            why = text::field(String::from_utf8_lossy(&done.stderr).trim());
        }
        Err(io::Error::other(why))
    }

    /// The name or address that ssh connects to, as its own configuration has it; `None` if it does
    /// not say. The far end has no part in it.
    pub(super) fn host(&self) -> Option<String> {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).arg("-G");
        self.destination.add_to(&mut command);
        let told = output_within(command.stdin(Stdio::null()), CONFIGURATION_MAX).ok()?;
        let text = String::from_utf8(told.stdout).ok().filter(|_| told.status.success())?;
        text.lines().find_map(|line| line.strip_prefix("hostname ")).map(str::to_owned)
    }

    /// Ends ssh: at once, for the far end is gone or not wanted.
    pub(super) fn kill(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have ended already.
        let _ = child.kill();
        let _ = child.wait();
    }

    /// What ends it from another thread.
    pub(super) fn killer(&self) -> impl FnOnce() + Send + 'static {
        let child = Arc::clone(&self.child);
        move || {
            let until = Instant::now() + END_MAX;
            while Instant::now() < until {
                let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
                if !matches!(child.try_wait(), Ok(None)) {
                    return;
                }
                drop(child);
                std::thread::sleep(Duration::from_millis(20));
            }
            let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = child.kill();
        }
    }

    fn wait(&self, most: Duration) -> Option<std::process::ExitStatus> {
        let until = Instant::now() + most;
        loop {
            let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
            match child.try_wait() {
                Ok(None) if Instant::now() < until => {}
                Ok(status) => return status,
                Err(_) => return None,
            }
            drop(child);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until ssh has ended, which it does when its input is closed; ends it if it does not.
    pub(super) fn end(&self) {
        if self.wait(END_MAX).is_none() {
            self.kill();
        }
    }
}

/// ssh's input while much is written to it: ssh is ended if nothing is taken for
/// [`SEND_SILENCE_MAX`], so that the write fails.
struct Watched<'a> {
    input: &'a mut ChildStdin,
    tell: mpsc::SyncSender<()>,
}

impl<'a> Watched<'a> {
    fn start(input: &'a mut ChildStdin, child: Arc<Mutex<Child>>) -> anyhow::Result<Self> {
        let (tell, told) = mpsc::sync_channel(1);
        let watch = move || loop {
            match told.recv_timeout(SEND_SILENCE_MAX) {
                Ok(()) => {}
                // All was sent, or the sending has failed.
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
                    // It may have ended already.
                    let _ = child.kill();
                    return;
                }
            }
        };
        let spawned = std::thread::Builder::new().name("ssh-send".to_owned()).spawn(watch);
        spawned.map_err(Failure::no_thread)?;
        Ok(Self { input, tell })
    }
}

impl io::Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.input.write(&bytes[..bytes.len().min(SEND_BYTES)])?;
        // If something is told already, that will do.
        let _ = self.tell.try_send(());
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.input.flush()
    }
}

/// Runs a command that says little, and ends it if it takes longer than `most`.
fn output_within(command: &mut Command, most: Duration) -> io::Result<Output> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let until = Instant::now() + most;
    while child.try_wait()?.is_none() {
        if Instant::now() >= until {
            // It may have ended at this moment.
            let _ = child.kill();
            let _ = child.wait();
            let message = format!("ssh has not answered in {} s", most.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output()
}

/// Passes ssh's messages on to standard error, each line marked as one of ssh's and escaped, for
/// the far host may have written it; and keeps the last of them.
fn pass_on(mut from: impl Read + Send + 'static) -> anyhow::Result<Arc<Mutex<String>>> {
    let said = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&said);
    std::thread::Builder::new()
        .name("ssh-err".to_owned())
        .spawn(move || {
            let mut shown = exit::Shown::new(std::io::stderr(), "ssh: ");
            let mut bytes = [0; 4096];
            while let Ok(count) = from.read(&mut bytes)
                && count > 0
            {
                // Nobody is left to tell if this fails.
                let _ = shown.write_all(&bytes[..count]);
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push_str(&String::from_utf8_lossy(&bytes[..count]));
                if kept.len() > SAID_BYTES_MAX {
                    kept.clear();
                }
            }
            let _ = shown.flush();
        })
        .map_err(Failure::no_thread)?;
    Ok(said)
}

/// Reads the far end's lines up to the one after which messages follow, on a thread of its own.
fn listen(output: ChildStdout) -> anyhow::Result<Receiver<Greeting>> {
    let (tell, greetings) = mpsc::channel();
    let read = move || {
        let mut output = BufReader::new(output);
        let mut noise = String::new();
        loop {
            let mut line = Vec::new();
            let count = (&mut output).take(NOISE_BYTES_MAX).read_until(b'\n', &mut line);
            let line = String::from_utf8_lossy(&line).into_owned();
            let too_much = noise.len() as u64 >= NOISE_BYTES_MAX;
            if count.is_err() || line.is_empty() || too_much {
                let _ = tell.send(Greeting::Closed(noise));
                return;
            }
            let greeting = match line.trim_end().strip_prefix(MAGIC) {
                None => {
                    noise.push_str(&line);
                    continue;
                }
                Some(said) => match said.split_once(' ').unwrap_or((said, "")) {
                    (READY, _) => {
                        let _ = tell.send(Greeting::Ready(output));
                        return;
                    }
                    ("absent", words) => Greeting::Absent(text::field(words)),
                    (_, words) => Greeting::Unfit(text::field(words)),
                },
            };
            if tell.send(greeting).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("ssh-hello".to_owned())
        .spawn(read)
        .map_err(Failure::no_thread)?;
    Ok(greetings)
}

/// What the far host's shell is to do. One line without single quotes, backslashes or exclamation
/// marks within the quotes, so that every login shell takes it; all else is done by its `sh`.
fn script(digest: &str, named: Option<&Path>) -> String {
    let named = named.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    let named = named.replace('\'', r"'\''");
    let version = version();
    let steps = [
        // A program that runs and is of this release takes over.
        r#"s() { "$@" </dev/null >/dev/null 2>&1 && exec "$1" ssh-serve; }"#,
        r#"say() { echo; echo "penstock-ssh $*"; }"#,
        r#"m="$(uname -s) $(uname -m)""#,
        r#"c="$HOME/.cache/penstock/bin"; f="$c/penstock-${v%/*}-$d""#,
        // A named one or none.
        r#"case "$r" in "~/"*) r="$HOME/${r#??}";; esac"#,
        r#"if [ -n "$r" ]; then s "$r" ssh-serve --check "$v"; say absent named "$m"; exit 0; fi"#,
        r#"u() { touch -c "$f" 2>/dev/null; s "$f" ssh-serve --check "$v" --digest "$d"; }"#,
        r#"[ -x "$f" ] && u"#,
        r#"p=$(command -v penstock) && s "$p" ssh-serve --check "$v""#,
        r#"say absent "${p:-none}" "$m""#,
        // The program, as many bytes as the line before it says.
        r#"read -r n && [ "$n" -gt 0 ] || exit 0"#,
        r#"umask 077; t="$c/.new-$$""#,
        r#"w() { mkdir -p "$c" && head -c "$n" > "$t" && [ "$(wc -c < "$t")" -eq "$n" ]; }"#,
        r#"k() { chmod 700 "$t" && mv -f "$t" "$f"; }"#,
        r#"w && k || { rm -f "$t"; say unfit unwritten "$c"; exit 0; }"#,
        // Of the programs that were sent before, the two that were used last stay.
        r#"o() { cd "$c" && ls -t | grep "^penstock-" | tail -n +4 | xargs rm -f; }"#,
        r#"(o) 2>/dev/null"#,
        r#"s "$f" ssh-serve --check "$v" --digest "$d""#,
        r#"w=$("$f" --version 2>&1 </dev/null | head -n 1); rm -f "$f"; say unfit "$m" "$w""#,
    ];
    format!("exec sh -c 'v=$1; d=$2; r=$3; {}' sh {version} {digest} '{named}'", steps.join("; "))
}

/// Splits a command into words as a shell would, with quotes and backslashes and nothing else.
fn split(text: &str) -> anyhow::Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                word.get_or_insert_default().extend(letters.next());
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    if quote.is_some() || words.is_empty() {
        let message = format!("--ssh `{text}` is no command");
        return Err(Failure::new(ExitCode::Usage, message).into());
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: `--ssh` takes what one would type before a host name.
    #[test]
    fn a_command_is_split_as_a_shell_does() {
        let words = split(r#"ssh -p 22 -o "ProxyCommand=nc -x 'a b' %h" -i my\ key ''"#).unwrap();
        let expected = ["ssh", "-p", "22", "-o", "ProxyCommand=nc -x 'a b' %h", "-i", "my key", ""];
        assert_eq!(words, expected);
        for bad in ["", "  ", "ssh 'x"] {
            assert!(split(bad).is_err(), "{bad}");
        }
    }

    /// Promise (f): a command that does not answer is ended, and one that does is heard.
    #[test]
    fn f_a_command_that_hangs_is_ended() {
        let mut hangs = Command::new("sleep");
        let began = Instant::now();
        let ended = output_within(hangs.arg("100"), Duration::from_millis(50));
        assert!(ended.is_err() && began.elapsed() < Duration::from_secs(50));
        let mut says = Command::new("sh");
        let output = output_within(says.args(["-c", "echo no >&2; exit 3"]), FORWARD_MAX).unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(3), &b"no\n"[..]));
    }

    /// Promise: the script survives any login shell's idea of quoting.
    #[test]
    fn the_script_is_one_quoted_line() {
        let script = script("d1", Some(Path::new("/opt/it's/penstock")));
        let (_, rest) = script.split_once('\'').unwrap();
        let (inner, _) = rest.split_once('\'').unwrap();
        assert!(!inner.contains(['\n', '\\', '!']), "{inner}");
        assert!(script.ends_with(r"'/opt/it'\''s/penstock'"), "{script}");
    }
}
