//! A daemon on any host, over its HTTPS API.
//!
//! The environment names it: `PENSTOCK_URL`, `PENSTOCK_TOKEN` or `PENSTOCK_TOKEN_FILE`, and
//! `PENSTOCK_CA`, the file with the authority of its certificate. What is missing there is taken
//! from the user's log-ins. A token on a command line would be seen by every user of the host.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hyper::body::Incoming;
use hyper::{Method, Response};
use penstock_api::access::TokenText;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_daemon::config::{DIRECTORY_DEFAULT, WEB_PORT_DEFAULT};
use penstock_daemon::http;
use penstock_exit::{ExitCode, Failure};
use penstock_net::trust::{
    IntroducedAuthority, introduced_authority, introduction_config, web_client_config,
};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::credentials::Credentials;

/// How long a daemon may take to show its authority.
const LOOK_DEADLINE: Duration = Duration::from_secs(20);

/// A daemon, and the token by which this program proves its user.
#[derive(Clone)]
pub(super) struct RemoteDaemon {
    host: String,
    port: u16,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
    token: Option<TokenText>,
}

impl RemoteDaemon {
    /// Returns the daemon at an address, or else the one that the environment names. Without one,
    /// and without a site directory of the user's choice, it is that of the last log-in.
    ///
    /// # Errors
    /// The address is none, or token or authority are missing.
    pub(super) fn chosen(url: Option<&str>, directory: &Path) -> anyhow::Result<Option<Self>> {
        let text = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        let named = url.map(str::to_owned).or_else(|| text("PENSTOCK_URL"));
        if named.is_none() && directory != Path::new(DIRECTORY_DEFAULT) {
            return Ok(None);
        }
        let token = match (text("PENSTOCK_TOKEN"), text("PENSTOCK_TOKEN_FILE")) {
            (Some(token), _) => Some(token),
            (None, Some(file)) => Some(read(Path::new(&file))?.trim().to_owned()),
            (None, None) => None,
        };
        let ca = text("PENSTOCK_CA").map(|file| read(Path::new(&file))).transpose()?;
        // With both in the environment no file of the user is read.
        let stored = match token.is_some() && ca.is_some() {
            true => Credentials::default(),
            false => Credentials::load()?,
        };
        let Some(url) = named.or_else(|| stored.default.clone()) else { return Ok(None) };
        let (host, port) = host_and_port(&url).ok_or_else(|| not_a_url(&url))?;
        let login = stored.sites.get(&shown(&host, port));
        let token = token.or_else(|| login.map(|login| login.token.expose().to_owned()));
        let token = token.ok_or_else(|| {
            Failure::new(ExitCode::Usage, format!("no token for `{url}`")).hint(format!(
                "run `penstock login {url}`, or set `PENSTOCK_TOKEN` or `PENSTOCK_TOKEN_FILE`"
            ))
        })?;
        let token = token.parse().map_err(|error| {
            Failure::new(ExitCode::Usage, "the token for the daemon cannot be used")
                .caused_by(error)
        })?;
        let ca = ca.or_else(|| login.map(|login| login.ca.clone())).ok_or_else(|| {
            Failure::new(ExitCode::Usage, format!("no authority to trust for `{url}`")).hint(
                "run `penstock login`, or write what `penstock site ca` prints at the site to a \
                 file, and name the file by `PENSTOCK_CA`",
            )
        })?;
        Ok(Some(Self { token: Some(token), ..Self::new(&url, &ca)? }))
    }

    /// Returns a daemon whose certificate is of an authority, PEM; without a token.
    ///
    /// # Errors
    /// The address or the authority is none.
    pub(super) fn new(url: &str, ca: &str) -> anyhow::Result<Self> {
        let (host, port) = host_and_port(url).ok_or_else(|| not_a_url(url))?;
        let tls = web_client_config(Some(ca.as_bytes()), None)
            .with_context(|| format!("cannot use the authority for `{url}`"))?;
        let name = server_name(&host)?;
        Ok(Self { host, port, name, tls, token: None })
    }

    /// Returns the address, as `https://HOST:PORT`.
    pub(super) fn url(&self) -> String {
        shown(&self.host, self.port)
    }

    /// Sends a request with further headers, and returns the reply, whatever its status, with its
    /// body still to be read.
    ///
    /// # Errors
    /// The daemon cannot be reached, or its certificate is not trusted.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        headers: &[(&'static str, String)],
    ) -> Result<Response<Incoming>, Problem> {
        let failed = |error: std::io::Error| {
            let title = format!("no daemon answers at `{}`", self.url());
            Problem::new(ProblemCode::NoDaemon, title).because(error).hint(
                "check the address, that the daemon's `penstock.toml` has the table `web`, and \
                 that `PENSTOCK_CA` or the log-in has the authority of that site",
            )
        };
        let host = format!("{}:{}", self.host, self.port);
        let token = self.token.iter();
        let token = token.map(|token| ("authorization", format!("Bearer {}", token.expose())));
        let headers: Vec<_> = headers.iter().cloned().chain(token).collect();
        let tcp = TcpStream::connect((bare(&self.host), self.port)).await;
        let connector = TlsConnector::from(Arc::clone(&self.tls));
        let tls = connector.connect(self.name.clone(), tcp.map_err(failed)?).await;
        http::exchange(tls.map_err(failed)?, method, path, body, (&host, &headers)).await
    }
}

/// Looks at the authority of the daemon at an address, which nothing vouches for yet. Blocks.
///
/// # Errors
/// The address is none, or no daemon answers.
pub(super) async fn look_at(url: &str) -> anyhow::Result<IntroducedAuthority> {
    let (host, port) = host_and_port(url).ok_or_else(|| not_a_url(url))?;
    let failed = |error: std::io::Error| {
        let title = format!("no daemon answers at `{}`", shown(&host, port));
        Failure::new(ExitCode::Temporary, title)
            .caused_by(error)
            .hint("check the address, and that the daemon's `penstock.toml` has the table `web`")
    };
    let look = async {
        let tcp = TcpStream::connect((bare(&host), port)).await.map_err(failed)?;
        let connector = TlsConnector::from(introduction_config()?);
        let tls = connector.connect(server_name(&host)?, tcp).await.map_err(failed)?;
        let chain = tls.get_ref().1.peer_certificates().unwrap_or_default();
        Ok(introduced_authority(chain)?)
    };
    match tokio::time::timeout(LOOK_DEADLINE, look).await {
        Ok(found) => found,
        Err(_) => Err(failed(std::io::ErrorKind::TimedOut.into()).into()),
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>, Failure> {
    ServerName::try_from(bare(host).to_owned())
        .map_err(|error| Failure::new(ExitCode::Usage, format!("`{host}` is no host: {error}")))
}

/// Returns a host without the brackets of an IPv6 address.
fn bare(host: &str) -> &str {
    host.trim_matches(['[', ']'])
}

fn shown(host: &str, port: u16) -> String {
    format!("https://{}:{port}", host.to_ascii_lowercase())
}

/// Returns an address as it is stored: `https://HOST:PORT`.
///
/// # Errors
/// It is none.
pub(crate) fn stored_url(url: &str) -> Result<String, Failure> {
    host_and_port(url).map(|(host, port)| shown(&host, port)).ok_or_else(|| not_a_url(url))
}

fn not_a_url(url: &str) -> Failure {
    Failure::new(ExitCode::Usage, format!("`{url}` is no https://HOST[:PORT]"))
}

fn read(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path);
    Ok(text.map_err(|error| Failure::io(format!("read `{}`", path.display()), error))?)
}

/// Returns host and port of `https://HOST[:PORT][/]`.
fn host_and_port(url: &str) -> Option<(String, u16)> {
    let rest = url.strip_prefix("https://")?.trim_end_matches('/');
    let behind_host = rest.rfind(']').map_or(0, |at| at + 1);
    let (host, port) = match rest[behind_host..].rfind(':') {
        Some(at) => rest.split_at(behind_host + at),
        None => (rest, ""),
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok()?,
        None => WEB_PORT_DEFAULT,
    };
    let is_host = !host.is_empty() && !host.contains(['/', '@', '?', '#']);
    is_host.then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: an address of a daemon is read with and without a port, and a wrong one is refused.
    #[test]
    fn addresses_of_daemons_are_read() {
        let read = |url| host_and_port(url).map(|(host, port)| format!("{host} {port}"));
        assert_eq!(read("https://hpc.example.org").unwrap(), "hpc.example.org 7443");
        assert_eq!(read("https://10.0.0.1:8443/").unwrap(), "10.0.0.1 8443");
        assert_eq!(read("https://[::1]").unwrap(), "[::1] 7443");
        assert_eq!(read("https://[::1]:9").unwrap(), "[::1] 9");
        for wrong in ["http://a", "a:7443", "https://", "https://a:b", "https://a/b", "https://u@a"]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
