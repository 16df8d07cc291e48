//! Asks the daemon of a site directory over its Unix socket, or one on another host over HTTPS.

pub(crate) mod credentials;
mod entries;
mod remote_daemon;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::{HeaderMap, Method, StatusCode};
use penstock_api::endpoints::{self as api, EndpointUri};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::{Event, Page, SILENT_HEADER, SOCKET_NAME};
use penstock_proto::id::Name;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

use penstock_daemon::config::{ACCOUNT_SOCKET_DEFAULT, Config, DIRECTORY_DEFAULT};
use penstock_daemon::http;
use penstock_exit::{ExitCode, Failure, failure};
use penstock_net::trust::IntroducedAuthority;
use remote_daemon::RemoteDaemon;
pub(crate) use remote_daemon::stored_url;

/// How long the daemon may take for one answer; it may have to ask another site meanwhile.
const DEADLINE: Duration = Duration::from_secs(60);
/// How long an event stream may be silent: it tells something every second.
const SILENCE: Duration = Duration::from_secs(90);
/// Header with the id of the event that was received last (WHATWG HTML, 9.2.3).
const LAST_EVENT_ID: &str = "last-event-id";

/// A client of the API. Its methods block.
pub(crate) struct Client {
    way: Way,
    runtime: Runtime,
}

/// The way to the daemon.
#[derive(Clone)]
enum Way {
    /// Its Unix socket on this host.
    Socket(PathBuf),
    /// HTTPS, to a daemon on any host.
    Https(RemoteDaemon),
}

/// A reply, whatever its status.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Returns the object in the reply.
    ///
    /// # Errors
    /// The reply is a problem, or another object.
    pub(crate) fn object<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        match self.problem() {
            Some(problem) => Err(failure(problem).into()),
            None => Ok(http::decode(&self.body).map_err(failure)?),
        }
    }

    /// Returns the problem in the reply; none of a success.
    pub(crate) fn problem(&self) -> Option<Problem> {
        let is_problem = !self.status.is_success();
        is_problem.then(|| http::problem_of(self.status.as_u16(), &self.body))
    }
}

/// News of an event stream.
pub(crate) enum Told<'a> {
    /// The daemon has accepted the request: events follow.
    Open,
    /// An event, and its id if it has one.
    Event { event: &'a Event, id: Option<&'a str> },
}

/// What the reader of an event stream wants next.
pub(crate) enum Next {
    /// The next event.
    More,
    /// No more events.
    Enough,
}

impl Client {
    /// Returns a client of the daemon that `PENSTOCK_URL` names, of the one of a site directory
    /// that the user names, or of the one that the user has logged in to last; else of the default
    /// site directory. The daemon is not asked yet.
    ///
    /// # Errors
    /// There are no threads or descriptors left; `PENSTOCK_URL` is wrong or lacks a token.
    pub(crate) fn new(directory: &Path) -> anyhow::Result<Self> {
        Self::at(None, directory)
    }

    /// Returns a client of the daemon at an address; without one, as [`Client::new`].
    ///
    /// # Errors
    /// As [`Client::new`].
    pub(crate) fn at(url: Option<&str>, directory: &Path) -> anyhow::Result<Self> {
        match RemoteDaemon::chosen(url, directory)? {
            Some(remote) => Self::by(Way::Https(remote)),
            None => Self::local(directory),
        }
    }

    /// Returns a client of the daemon that a user names: by its address, or its site directory.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub(crate) fn named(daemon: &str) -> anyhow::Result<Self> {
        match daemon.starts_with("https://") {
            true => Self::at(Some(daemon), Path::new("")),
            false => Self::local(Path::new(daemon)),
        }
    }

    /// Returns a client of the daemon of a site directory, by its socket.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub(crate) fn local(directory: &Path) -> anyhow::Result<Self> {
        Self::by(Way::Socket(socket_of(directory)))
    }

    /// Returns a client of the daemon at an address, whose certificate is of an authority, PEM. It
    /// has no token.
    ///
    /// # Errors
    /// The address or the authority is none.
    pub(crate) fn anonymous(url: &str, ca: &str) -> anyhow::Result<Self> {
        Self::by(Way::Https(RemoteDaemon::new(url, ca)?))
    }

    fn by(way: Way) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { way, runtime })
    }

    /// Returns the daemon in words: its address, or its socket.
    pub(crate) fn place(&self) -> String {
        match &self.way {
            Way::Https(remote) => remote.url(),
            Way::Socket(socket) => socket.display().to_string(),
        }
    }

    /// Returns the site directory of the daemon, if it is one of this host.
    pub(crate) fn site_directory(&self) -> Option<&Path> {
        match &self.way {
            Way::Https(_) => None,
            Way::Socket(socket) => socket.parent(),
        }
    }

    /// Sends a request with headers of its own, and returns the reply, whatever its status.
    ///
    /// # Errors
    /// No daemon answers.
    pub(crate) fn exchange(
        &self,
        uri: &EndpointUri,
        body: Option<Vec<u8>>,
        headers: &[(&'static str, String)],
    ) -> anyhow::Result<Answer> {
        self.exchange_within(uri, body, headers, DEADLINE)
    }

    /// As [`Client::exchange`], for a request that may take the daemon up to `deadline`.
    ///
    /// # Errors
    /// No daemon answers in that time.
    pub(crate) fn exchange_within(
        &self,
        uri: &EndpointUri,
        body: Option<Vec<u8>>,
        headers: &[(&'static str, String)],
        deadline: Duration,
    ) -> anyhow::Result<Answer> {
        let talk = async {
            let response = self.reply(uri, body, headers).await?;
            let status = response.status();
            let headers = response.headers().clone();
            Ok(Answer { status, headers, body: http::read(response).await?.to_vec() })
        };
        let reply = self.runtime.block_on(async { tokio::time::timeout(deadline, talk).await });
        reply.map_err(|_| late(deadline))?.map_err(|problem| failure(problem).into())
    }

    /// Another client of the same daemon, for another thread.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub(crate) fn another(&self) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { way: self.way.clone(), runtime })
    }

    /// GETs an object.
    ///
    /// # Errors
    /// What the daemon answers, or that there is none.
    pub(crate) fn get<T: DeserializeOwned>(&self, uri: &EndpointUri) -> anyhow::Result<T> {
        self.get_within(uri, DEADLINE)
    }

    /// GETs an object for which the daemon may take up to `deadline`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) fn get_within<T: DeserializeOwned>(
        &self,
        uri: &EndpointUri,
        deadline: Duration,
    ) -> anyhow::Result<T> {
        Ok(http::decode(&self.call(uri, None, deadline)?).map_err(failure)?)
    }

    /// GETs bytes as they are, which have to be there within `deadline`.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) fn get_bytes_within(
        &self,
        uri: &EndpointUri,
        deadline: Duration,
    ) -> anyhow::Result<Vec<u8>> {
        self.call(uri, None, deadline)
    }

    /// GETs all items of a list, part by part.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) fn list<T: DeserializeOwned>(&self, uri: &EndpointUri) -> anyhow::Result<Vec<T>> {
        let (mut items, mut part) = (Vec::new(), uri.clone());
        loop {
            let Page { items: more, next } = self.get(&part)?;
            items.extend::<Vec<T>>(more);
            let Some(next) = next else { return Ok(items) };
            part = uri.clone().query("cursor", next);
        }
    }

    /// GETs bytes as they are, and writes them to `out` as they come.
    ///
    /// # Errors
    /// As [`Client::get`]; `out` cannot be written.
    pub(crate) fn get_into(&self, uri: &EndpointUri, out: &mut dyn Write) -> anyhow::Result<()> {
        self.call_into(uri, None, out).map(drop)
    }

    /// GETs a table, as [`Client::get_into`]; returns the peers whose part of it is missing.
    ///
    /// # Errors
    /// As [`Client::get_into`].
    pub(crate) fn get_table_into(
        &self,
        uri: &EndpointUri,
        out: &mut dyn Write,
    ) -> anyhow::Result<Vec<Name>> {
        self.call_into(uri, None, out).map(|headers| silent_of(&headers))
    }

    /// POSTs an object, and writes the bytes that are answered to `out`, however long they take.
    ///
    /// # Errors
    /// As [`Client::get_into`].
    pub(crate) fn post_into(
        &self,
        uri: &EndpointUri,
        body: &impl Serialize,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let body = http::encode(body).map_err(failure)?;
        self.call_into(uri, Some(body), out).map(drop)
    }

    /// POSTs bytes as they are.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) fn post_bytes(&self, uri: &EndpointUri, body: Vec<u8>) -> anyhow::Result<()> {
        self.call(uri, Some(body), DEADLINE).map(drop)
    }

    fn call_into(
        &self,
        uri: &EndpointUri,
        body: Option<Vec<u8>>,
        out: &mut dyn Write,
    ) -> anyhow::Result<HeaderMap> {
        self.runtime.block_on(async {
            let (head, mut body) = self.send(uri, body).await.map_err(failure)?.into_parts();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| {
                    Failure::new(ExitCode::Temporary, "the reply broke off").caused_by(error)
                })?;
                if let Some(part) = frame.data_ref() {
                    out.write_all(part)?;
                }
            }
            Ok(head.headers)
        })
    }

    /// POSTs or PATCHes an object, and gives the one that is answered.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        uri: &EndpointUri,
        body: &impl Serialize,
    ) -> anyhow::Result<T> {
        self.post_within(uri, body, DEADLINE)
    }

    /// POSTs or PUTs an object, and expects no answer but that it was taken.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) fn post_empty(
        &self,
        uri: &EndpointUri,
        body: &impl Serialize,
    ) -> anyhow::Result<()> {
        self.post_bytes(uri, http::encode(body).map_err(failure)?)
    }

    /// POSTs an object that may take the daemon up to `deadline`, and gives the one that is
    /// answered.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) fn post_within<T: DeserializeOwned>(
        &self,
        uri: &EndpointUri,
        body: &impl Serialize,
        deadline: Duration,
    ) -> anyhow::Result<T> {
        let body = http::encode(body).map_err(failure)?;
        let reply = self.call(uri, Some(body), deadline)?;
        Ok(http::decode(&reply).map_err(failure)?)
    }

    /// DELETEs something, and gives what is answered.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) fn delete(&self, uri: &EndpointUri) -> anyhow::Result<Vec<u8>> {
        self.call(uri, None, DEADLINE)
    }

    fn call(
        &self,
        uri: &EndpointUri,
        body: Option<Vec<u8>>,
        deadline: Duration,
    ) -> anyhow::Result<Vec<u8>> {
        let talk = async {
            let response = self.send(uri, body).await?;
            http::read(response).await
        };
        let reply = self.runtime.block_on(async { tokio::time::timeout(deadline, talk).await });
        match reply {
            Ok(Ok(body)) => Ok(body.to_vec()),
            Ok(Err(problem)) => Err(failure(problem).into()),
            Err(_) => Err(late(deadline).into()),
        }
    }

    async fn send(
        &self,
        uri: &EndpointUri,
        body: Option<Vec<u8>>,
    ) -> Result<hyper::Response<hyper::body::Incoming>, Problem> {
        succeeded(self.reply(uri, body, &[]).await?).await
    }

    async fn reply(
        &self,
        uri: &EndpointUri,
        body: Option<Vec<u8>>,
        headers: &[(&'static str, String)],
    ) -> Result<hyper::Response<hyper::body::Incoming>, Problem> {
        let method = match uri.endpoint.method {
            api::Method::Get => Method::GET,
            api::Method::Post => Method::POST,
            api::Method::Put => Method::PUT,
            api::Method::Patch => Method::PATCH,
            api::Method::Delete => Method::DELETE,
        };
        let path = uri.as_str();
        match &self.way {
            Way::Https(remote) => remote.send(method, path, body, headers).await,
            Way::Socket(socket) => {
                let stream = UnixStream::connect(socket).await;
                let stream = stream.map_err(|error| unanswered(socket, &error))?;
                http::exchange(stream, method, path, body, ("penstock", headers)).await
            }
        }
    }

    /// Follows a stream of events until it ends, `each` has enough, or the user interrupts.
    ///
    /// # Errors
    /// What the daemon answers; that it went away; exit 130 when interrupted.
    pub(crate) fn follow(
        &self,
        uri: &EndpointUri,
        mut each: impl FnMut(&Event) -> anyhow::Result<Next>,
    ) -> anyhow::Result<()> {
        let mut each = |told: Told<'_>| match told {
            Told::Open => Ok(Next::More),
            Told::Event { event, .. } => each(event),
        };
        self.runtime.block_on(async {
            tokio::select! {
                followed = self.events(uri, None, SILENCE, &mut each) => followed,
                _ = tokio::signal::ctrl_c() => Err(interrupted()),
            }
        })
    }

    /// Follows a stream of events until it ends or `each` has enough: from now on, or after the
    /// event with the id `after`. Leaves signals to others. A daemon that is silent for `silence`
    /// is lost.
    ///
    /// # Errors
    /// What the daemon answers; that it went away.
    pub(crate) fn follow_after(
        &self,
        uri: &EndpointUri,
        after: Option<&str>,
        silence: Duration,
        mut each: impl FnMut(Told<'_>) -> anyhow::Result<Next>,
    ) -> anyhow::Result<()> {
        self.runtime.block_on(self.events(uri, after, silence, &mut each))
    }

    async fn events(
        &self,
        uri: &EndpointUri,
        after: Option<&str>,
        silence: Duration,
        each: &mut impl FnMut(Told<'_>) -> anyhow::Result<Next>,
    ) -> anyhow::Result<()> {
        let after: Vec<_> = after.map(|id| (LAST_EVENT_ID, id.to_owned())).into_iter().collect();
        let open = async { succeeded(self.reply(uri, None, &after).await?).await };
        let reply = tokio::time::timeout(silence, open).await.map_err(|_| late(silence))?;
        let mut body = reply.map_err(failure)?.into_body();
        if matches!(each(Told::Open)?, Next::Enough) {
            return Ok(());
        }
        let mut lines = EventLines::default();
        loop {
            let frame = match tokio::time::timeout(silence, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => return Ok(()),
                Ok(Some(Err(error))) => {
                    let failure = Failure::new(ExitCode::Temporary, "the daemon went away");
                    return Err(failure.caused_by(error).into());
                }
                Err(_) => {
                    let message = "the daemon has been silent for too long";
                    return Err(Failure::new(ExitCode::Temporary, message).into());
                }
            };
            lines.text.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            while let Some((json, id)) = lines.next_event() {
                let event = http::decode(&json).map_err(failure)?;
                if matches!(each(Told::Event { event: &event, id: id.as_deref() })?, Next::Enough) {
                    return Ok(());
                }
            }
        }
    }
}

/// The text of a stream of events that was received and is not parsed yet (WHATWG HTML, 9.2.6).
#[derive(Default)]
struct EventLines {
    text: Vec<u8>,
    data: Vec<u8>,
    id: Option<String>,
}

impl EventLines {
    /// Returns the data and the id of the next event that is whole.
    fn next_event(&mut self) -> Option<(Vec<u8>, Option<String>)> {
        while let Some(end) = self.text.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.text.drain(..=end).collect();
            let line = line.trim_ascii();
            if let Some(data) = line.strip_prefix(b"data:") {
                self.data.extend_from_slice(data.trim_ascii());
            } else if let Some(id) = line.strip_prefix(b"id:") {
                self.id = Some(String::from_utf8_lossy(id.trim_ascii()).into_owned());
            } else if line.is_empty() {
                let id = self.id.take();
                if !self.data.is_empty() {
                    return Some((std::mem::take(&mut self.data), id));
                }
            }
        }
        None
    }
}

/// Returns a reply that is a success.
///
/// # Errors
/// The problem in any other reply.
async fn succeeded(
    response: hyper::Response<hyper::body::Incoming>,
) -> Result<hyper::Response<hyper::body::Incoming>, Problem> {
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status().as_u16();
    Err(http::problem_of(status, &http::read(response).await?))
}

/// Returns the authority of the daemon at an address, which nothing vouches for yet. Blocks.
///
/// # Errors
/// The address is none, or no daemon answers.
pub(crate) fn look_at(url: &str) -> anyhow::Result<IntroducedAuthority> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(remote_daemon::look_at(url))
}

fn late(deadline: Duration) -> Failure {
    let message = format!("the daemon gave no answer in {} s", deadline.as_secs());
    Failure::new(ExitCode::Temporary, message)
}

/// Returns the socket of a site directory. Where the default one is closed to the user, that is the
/// one for accounts of this host, if there is one.
fn socket_of(directory: &Path) -> PathBuf {
    let own = directory.join(SOCKET_NAME);
    let is_closed =
        || std::fs::metadata(&own).is_err_and(|it| it.kind() == io::ErrorKind::PermissionDenied);
    let for_accounts = Path::new(ACCOUNT_SOCKET_DEFAULT);
    if directory == Path::new(DIRECTORY_DEFAULT) && is_closed() && for_accounts.exists() {
        return for_accounts.to_owned();
    }
    own
}

/// Returns the problem of a socket at which no daemon answers.
fn unanswered(socket: &Path, error: &io::Error) -> Problem {
    let directory = socket.parent().unwrap_or(socket);
    let (shown, named) = (directory.display(), "name another site directory by `--dir`");
    if error.kind() == io::ErrorKind::PermissionDenied {
        let title = format!("this user may not ask the daemon at `{}`", socket.display());
        let hint = format!(
            "log in with `penstock login`, run it as the user of the daemon, be in the group of \
                 its socket for accounts (docs/users.md), or {named}"
        );
        return Problem::new(ProblemCode::NotAuthorised, title).because(error).hint(hint);
    }
    let is_site = Config::found(directory).exists();
    let hint = match is_site {
        true => format!("start it with `penstock daemon --dir {shown}`, or {named}"),
        false => format!("`{shown}` is not a site directory: {named} or `PENSTOCK_DIR`"),
    };
    let title = format!("no daemon answers at `{}`", socket.display());
    Problem::new(ProblemCode::NoDaemon, title).because(error).hint(hint)
}

fn interrupted() -> anyhow::Error {
    Failure::new(ExitCode::Interrupted, "interrupted").into()
}

/// Returns the peers that a reply says to be missing.
fn silent_of(headers: &HeaderMap) -> Vec<Name> {
    let names = headers.get(SILENT_HEADER).and_then(|names| names.to_str().ok());
    names.unwrap_or_default().split(',').filter_map(|name| name.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the peers whose part of a table is missing are known from its header.
    #[test]
    fn silent_peers_are_read() {
        let mut headers = HeaderMap::new();
        assert_eq!(silent_of(&headers), []);
        headers.insert(SILENT_HEADER, "h2, h3".parse().unwrap());
        assert_eq!(silent_of(&headers), ["h2", "h3"].map(|name| name.parse().unwrap()));
    }

    /// Promise: events are read with their ids, wherever the network cuts the stream; comments and
    /// fields that are not known are passed over.
    #[test]
    fn events_are_read_in_parts() {
        let stream = b": beat\n\ndata: {\"a\":1}\nid: 7-1\n\nretry: 3\ndata:{}\r\n\r\nid: 7-2\n\n";
        for step in 1..stream.len() {
            let (mut lines, mut found) = (EventLines::default(), Vec::new());
            for part in stream.chunks(step) {
                lines.text.extend_from_slice(part);
                while let Some((data, id)) = lines.next_event() {
                    found.push((String::from_utf8(data).unwrap(), id));
                }
            }
            let first = ("{\"a\":1}".to_owned(), Some("7-1".to_owned()));
            assert_eq!(found, [first, ("{}".to_owned(), None)], "parts of {step} bytes");
        }
    }
}
