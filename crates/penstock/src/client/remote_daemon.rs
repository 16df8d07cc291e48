//! A daemon on any host, over its HTTPS API.
//!
//! The environment names it: `PENSTOCK_URL`, `PENSTOCK_TOKEN` or `PENSTOCK_TOKEN_FILE`, and
//! `PENSTOCK_CA`, the file with the authority of its certificate. A token on a command line would
//! be seen by every user of the host.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use hyper::body::Incoming;
use hyper::{Method, Response};
use penstock_api::access::TokenText;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_daemon::config::WEB_PORT_DEFAULT;
use penstock_daemon::http;
use penstock_exit::{ExitCode, Failure};
use penstock_net::trust::web_client_config;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A daemon, and the token by which this program proves its user.
#[derive(Clone)]
pub(super) struct RemoteDaemon {
    host: String,
    port: u16,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
    token: TokenText,
}

impl RemoteDaemon {
    /// Returns the daemon that the environment names, if it names one.
    ///
    /// # Errors
    /// The address is none, or token or authority are missing.
    pub(super) fn of_environment() -> anyhow::Result<Option<Self>> {
        let text = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        let Some(url) = text("PENSTOCK_URL") else { return Ok(None) };
        let (host, port) = host_and_port(&url).ok_or_else(|| {
            let title = format!("`PENSTOCK_URL` is `{url}`, which is no https://HOST[:PORT]");
            Failure::new(ExitCode::Usage, title)
        })?;
        let token = match (text("PENSTOCK_TOKEN"), text("PENSTOCK_TOKEN_FILE")) {
            (Some(token), _) => token,
            (None, Some(file)) => read(Path::new(&file))?.trim().to_owned(),
            (None, None) => {
                return Err(Failure::new(ExitCode::Usage, format!("no token for `{url}`"))
                    .hint(
                        "set `PENSTOCK_TOKEN` or `PENSTOCK_TOKEN_FILE`; `penstock token create` \
                         makes a token",
                    )
                    .into());
            }
        };
        let token = token.parse().map_err(|error| {
            Failure::new(ExitCode::Usage, "the token for the daemon cannot be used")
                .caused_by(error)
        })?;
        let ca = text("PENSTOCK_CA").map(PathBuf::from).ok_or_else(|| {
            Failure::new(ExitCode::Usage, format!("no authority to trust for `{url}`")).hint(
                "write what `penstock site ca` prints at the site to a file, and name the file by \
                 `PENSTOCK_CA`",
            )
        })?;
        let tls = web_client_config(Some(read(&ca)?.as_bytes()), None)
            .with_context(|| format!("cannot use the authority in `{}`", ca.display()))?;
        let name =
            ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(|error| {
                Failure::new(ExitCode::Usage, format!("`{host}` is no host: {error}"))
            })?;
        Ok(Some(Self { host, port, name, tls, token }))
    }

    /// Sends a request, and returns the reply with its body still to be read.
    ///
    /// # Errors
    /// The daemon cannot be reached, its certificate is not trusted, or what it answers.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Response<Incoming>, Problem> {
        let failed = |error: std::io::Error| {
            let title = format!("no daemon answers at `https://{}:{}`", self.host, self.port);
            Problem::new(ProblemCode::NoDaemon, title).because(error).hint(
                "check `PENSTOCK_URL`, that the daemon's `penstock.toml` has the table `web`, and \
                 that `PENSTOCK_CA` is the authority of that site",
            )
        };
        let tcp = TcpStream::connect((self.host.trim_matches(['[', ']']), self.port)).await;
        let connector = TlsConnector::from(Arc::clone(&self.tls));
        let tls = connector.connect(self.name.clone(), tcp.map_err(failed)?).await;
        let host = format!("{}:{}", self.host, self.port);
        let token = self.token.expose();
        http::send_as(tls.map_err(failed)?, method, path, body, (&host, Some(token))).await
    }
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
