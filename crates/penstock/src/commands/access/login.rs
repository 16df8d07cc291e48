//! `penstock login`, `logout` and `whoami`: the log-in of the user of this host at a site.

use std::time::{Duration, Instant};

use hyper::header::SET_COOKIE;
use penstock_api::access::{
    DEVICE_GRANT, DeviceAuthorization, DeviceError, DeviceErrorCode, DeviceToken, MeView, Scope,
    Secret, SessionRequest, SessionView, TokenRequest, TokenView,
};
use penstock_api::endpoints::{
    BEGIN_DEVICE, CREATE_TOKEN, END_SESSION, EndpointUri, GET_DEVICE_TOKEN, LOG_IN, REVOKE_TOKEN,
    SHOW_ME,
};
use penstock_daemon::http;
use penstock_exit::{self as exit, ExitCode, Failure, failure};
use penstock_net::trust::Fingerprint;
use penstock_proto::id::Name;
use penstock_sys::now_seconds;

use super::password_prompt::PasswordSource;
use super::user;
use crate::client::credentials::{Credentials, Login};
use crate::client::{Client, look_at, stored_url};
use crate::consent;
use crate::options::directory::DirectoryArgs;
use crate::output::time::minute;

/// Seconds that an interval grows by when the site asks for it (RFC 8628, 3.5).
const SLOW_DOWN: Duration = Duration::from_secs(5);

/// Logs in to a site over HTTPS; commands then ask its daemon
///
/// It shows a code, which you approve where you are logged in already: at the page that is named,
/// or by `penstock auth approve CODE`. The token is kept in `~/.config/penstock/credentials`, for
/// you alone. At the first log-in it shows the fingerprint of the site's authority: compare it with
/// what `penstock site list` shows at the site.
#[derive(clap::Args)]
pub(crate) struct LoginArgs {
    /// The address, `https://HOST:PORT`. Default: the last log-in
    #[arg(env = "PENSTOCK_URL")]
    url: Option<String>,
    /// Log in by name and password
    #[arg(long)]
    password: bool,
    /// The user, with `--password`. Default: the name of the last log-in, or `USER`
    #[arg(long, requires = "password")]
    user: Option<Name>,
    /// Read the password from standard input
    #[arg(long, requires = "password")]
    stdin: bool,
    /// Trust the authority with this fingerprint, and do not ask
    #[arg(long)]
    fingerprint: Option<Fingerprint>,
    /// Ask for a token with this scope only. May be repeated
    #[arg(long = "scope")]
    scopes: Vec<Scope>,
}

/// Revokes the token of a log-in, and forgets it
#[derive(clap::Args)]
pub(crate) struct LogoutArgs {
    /// The address, `https://HOST:PORT`. Default: the last log-in
    #[arg(env = "PENSTOCK_URL")]
    url: Option<String>,
}

/// Prints which daemon commands ask, as which user, and with which rights
#[derive(clap::Args)]
pub(crate) struct WhoamiArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `penstock login`.
///
/// # Errors
/// The authority is not trusted, the daemon refuses, or the log-in cannot be kept.
pub(crate) fn login(args: LoginArgs) -> anyhow::Result<ExitCode> {
    let before = Credentials::load()?;
    let url = chosen(args.url.as_deref(), &before)?;
    let known = before.sites.get(&url);
    let ca = authority(&url, known, args.fingerprint.as_ref())?;
    let client = Client::anonymous(&url, &ca)?;
    let token = match args.password {
        true => by_password(&client, &url, known, &args)?,
        false => by_device(&client, &args.scopes)?,
    };
    let me: MeView = {
        let answer = client.exchange(&SHOW_ME.uri(&[]), None, &[bearer(&token.0)])?;
        answer.object()?
    };
    let (token, expires) = token;
    // Another log-in may have been stored while this one waited.
    let mut stored = Credentials::load()?;
    stored.sites.insert(url.clone(), Login { user: me.user.clone(), token, expires, ca });
    stored.default = Some(url.clone());
    stored.save()?;
    let until = minute(expires);
    exit::print(&format!("logged in at {url} as {}, until {until} UTC", me.user))?;
    Ok(ExitCode::Done)
}

/// Runs `penstock logout`. A token that the site does not accept any more is forgotten too.
///
/// # Errors
/// There is no log-in, no daemon answers, or the file cannot be written.
pub(crate) fn logout(args: &LogoutArgs) -> anyhow::Result<ExitCode> {
    let mut stored = Credentials::load()?;
    let url = chosen(args.url.as_deref(), &stored)?;
    let Some(login) = stored.sites.get(&url) else {
        return Err(Failure::new(ExitCode::Usage, format!("there is no log-in at `{url}`")).into());
    };
    let client = Client::anonymous(&url, &login.ca)?;
    let headers = [bearer(&login.token)];
    let answer = client.exchange(&SHOW_ME.uri(&[]), None, &headers)?;
    if answer.status.as_u16() == 401 {
        exit::warn("the site did not accept the token any more");
    } else {
        let me: MeView = answer.object()?;
        let id = me.via_id.unwrap_or_default();
        let answer = client.exchange(&REVOKE_TOKEN.uri(&[&id]), None, &headers)?;
        if !answer.status.is_success() {
            let status = answer.status.as_u16();
            return Err(failure(http::problem_of(status, &answer.body)).into());
        }
    }
    stored.sites.remove(&url);
    if stored.default.as_ref() == Some(&url) {
        stored.default = None;
    }
    stored.save()?;
    exit::print(&format!("logged out at {url}"))?;
    Ok(ExitCode::Done)
}

/// Runs `penstock whoami`.
///
/// # Errors
/// No daemon answers, or the token is not accepted.
pub(crate) fn whoami(args: &WhoamiArgs) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.directory.directory)?;
    if !args.json {
        exit::print(&format!("at {}", client.place()))?;
    }
    user::me(&client.get(&SHOW_ME.uri(&[]))?, args.json)?;
    Ok(ExitCode::Done)
}

fn chosen(url: Option<&str>, stored: &Credentials) -> Result<String, Failure> {
    match url.or(stored.default.as_deref()) {
        Some(url) => stored_url(url),
        None => Err(Failure::new(ExitCode::Usage, "no address of a site is known")
            .hint("name it, as in `penstock login https://dtn1.example.org:7443`")),
    }
}

/// Returns the authority that the daemon is trusted by: the one that `PENSTOCK_CA` names, the one
/// of the last log-in, or the one that the daemon shows and the user accepts.
fn authority(
    url: &str,
    known: Option<&Login>,
    expected: Option<&Fingerprint>,
) -> anyhow::Result<String> {
    if let Some(path) = std::env::var_os("PENSTOCK_CA").filter(|path| !path.is_empty()) {
        let text = std::fs::read_to_string(&path);
        let shown = path.to_string_lossy();
        return Ok(text.map_err(|error| Failure::io(format!("read `{shown}`"), error))?);
    }
    let shown = look_at(url)?;
    let found = shown.fingerprint.to_string();
    if let Some(expected) = expected {
        if *expected == shown.fingerprint {
            return Ok(shown.pem);
        }
        let title = format!("the authority at `{url}` has another fingerprint: {found}");
        return Err(Failure::new(ExitCode::NotAuthorised, title)
            .hint("do not log in before you know why; `penstock site list` shows the right one")
            .into());
    }
    if known.is_some_and(|known| known.ca == shown.pem) {
        return Ok(shown.pem);
    }
    let whose = match &shown.site {
        Some(site) => format!("of site `{site}`"),
        None => "of the operator's own certificate".to_owned(),
    };
    exit::warn(&format!("the authority at {url}, {whose}, has the fingerprint\n  {found}"));
    if known.is_some() {
        exit::warn(
            "It is not the one of the last log-in: the site has new keys, or this is not it.",
        );
    }
    if !consent::can_ask() {
        return Err(Failure::new(ExitCode::NotAuthorised, "nobody has accepted the authority")
            .hint(
                "compare it with `penstock site list` at the site, and name it by `--fingerprint`",
            )
            .into());
    }
    if consent::answer("is it the one that `penstock site list` shows at the site?")? {
        return Ok(shown.pem);
    }
    Err(Failure::new(ExitCode::NotAuthorised, "the authority was not accepted").into())
}

fn bearer(token: &Secret) -> (&'static str, String) {
    ("authorization", format!("Bearer {}", token.expose()))
}

/// Logs in by the device grant; returns the token, and the time at which it expires. Blocks until
/// somebody has decided.
fn by_device(client: &Client, scopes: &[Scope]) -> anyhow::Result<(Secret, u64)> {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let name: String = format!("penstock on {host}").chars().take(80).collect();
    let scope = scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" ");
    let begin = BEGIN_DEVICE.uri(&[]).query("client_id", name);
    let begin = if scope.is_empty() { begin } else { begin.query("scope", scope) };
    let codes: DeviceAuthorization = post_form(client, &begin)?.object()?;
    exit::warn(&format!(
        "open {}\nand approve {}, or run where you are logged in\n  penstock auth approve {}",
        codes.verification_uri, codes.user_code, codes.user_code
    ));
    let until = Instant::now() + Duration::from_secs(codes.expires_in);
    let mut interval = Duration::from_secs(codes.interval.max(1));
    let ask = GET_DEVICE_TOKEN
        .uri(&[])
        .query("grant_type", DEVICE_GRANT)
        .query("device_code", codes.device_code.expose());
    while Instant::now() < until {
        std::thread::sleep(interval);
        let answer = post_form(client, &ask)?;
        if answer.status.is_success() {
            let token: DeviceToken = answer.object()?;
            return Ok((token.access_token, now_seconds() + token.expires_in));
        }
        let Ok(refused) = serde_json::from_slice::<DeviceError>(&answer.body) else {
            // A problem of the API: a controller that changes, or too many requests, may pass.
            if answer.status.as_u16() == 429 || answer.status.is_server_error() {
                continue;
            }
            return answer.object::<DeviceToken>().map(|_| (Secret::default(), 0));
        };
        match refused.error {
            DeviceErrorCode::AuthorizationPending => {}
            DeviceErrorCode::SlowDown => interval += SLOW_DOWN,
            _ => {
                let title = "the log-in has failed";
                return Err(Failure::new(ExitCode::NotAuthorised, title)
                    .caused_by(refused.error_description)
                    .hint("begin again with `penstock login`")
                    .into());
            }
        }
    }
    Err(Failure::new(ExitCode::NotAuthorised, "nobody has approved the code in time")
        .hint("begin again with `penstock login`")
        .into())
}

/// POSTs the query of an address as a form (RFC 6749, appendix B).
fn post_form(client: &Client, uri: &EndpointUri) -> anyhow::Result<crate::client::Answer> {
    let form = uri.as_str().split_once('?').map_or("", |(_, form)| form);
    let kind = ("content-type", "application/x-www-form-urlencoded".to_owned());
    client.exchange(&uri.endpoint.uri(&[]), Some(form.into()), &[kind])
}

/// Logs in by name and password; returns a token, and the time at which it expires. The session
/// that it needs for this ends at once.
fn by_password(
    client: &Client,
    url: &str,
    known: Option<&Login>,
    args: &LoginArgs,
) -> anyhow::Result<(Secret, u64)> {
    let own = || std::env::var("USER").ok().and_then(|name| name.parse().ok());
    let name = args.user.clone().or_else(|| known.map(|known| known.user.clone())).or_else(own);
    let name = name.ok_or_else(|| {
        Failure::new(ExitCode::Usage, "the name of the user is not known")
            .hint("name it by `--user`")
    })?;
    let source = PasswordSource::choose(args.stdin)?;
    let password = source.read(&format!("password of {name} at {url}"))?;
    let request = http::encode(&SessionRequest { name, password }).map_err(failure)?;
    let answer = client.exchange(&LOG_IN.uri(&[]), Some(request), &[])?;
    let session: SessionView = answer.object()?;
    let cookie = answer.headers.get(SET_COOKIE).and_then(|cookie| cookie.to_str().ok());
    let cookie = cookie.and_then(|cookie| cookie.split(';').next()).unwrap_or_default();
    let headers = [("cookie", cookie.to_owned()), ("origin", url.to_owned())];
    let scopes = (!args.scopes.is_empty()).then(|| args.scopes.clone());
    let label = "penstock login".to_owned();
    let request = TokenRequest { user: None, label, scopes, days: None };
    let body = http::encode(&request).map_err(failure)?;
    let made = client
        .exchange(&CREATE_TOKEN.uri(&[]), Some(body), &headers)
        .and_then(|answer| answer.object::<TokenView>());
    // Whether or not there is a token, the session has served.
    if let Err(error) = client.exchange(&END_SESSION.uri(&[&session.id]), None, &headers) {
        exit::warn(&format!("the session of this log-in stays until it is idle too long: {error}"));
    }
    let made = made?;
    Ok((Secret::new(made.token.unwrap_or_default()), made.expires_at.seconds()))
}
