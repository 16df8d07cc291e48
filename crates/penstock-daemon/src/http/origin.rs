//! The origin of a request over HTTPS: the client's address, the host that it asked for, and the
//! page that sent it.
//!
//! A browser sends the cookie of a session with requests of any page. Three things keep pages of
//! other sites out. The cookie is `SameSite=Strict`. A request that changes state must come from
//! the own page, as `Sec-Fetch-Site` or `Origin` of the browser shows. And only the own names are
//! served as `Host`, so that no foreign name that leads here (DNS rebinding) is an own page. The
//! cookie of a browser that logs in at the provider is `Lax`: it returns from a page of that.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use penstock_api::access::Secret;
use penstock_api::problem::{Problem, ProblemCode};

use super::reply::ProblemReply;
use crate::access::login::ClientOrigin;
use crate::networks::Prefix;

/// Header with the addresses of a client and of proxies, in the order of the way.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Header with the path below which a proxy serves this peer, as Traefik and Spring have it.
const FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");
/// Longest such path, in bytes.
const PREFIX_BYTES_MAX: usize = 100;
/// Header by which a browser names the relation of the page that sent a request (W3C Fetch
/// Metadata).
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Longest name of a program that is taken over, in characters.
const AGENT_CHARS_MAX: usize = 200;

/// Name of the cookie of a browser that has begun a log-in at the provider.
const LOGIN_COOKIE: &str = "__Host-penstock-login";
/// Longest value of that cookie, in bytes.
const LOGIN_COOKIE_MAX: usize = 64;
/// Attributes of that cookie: as those of a session, but the browser also sends it when a page of
/// the provider leads here.
const LOGIN_ATTRIBUTES: &str = "Path=/; Secure; HttpOnly; SameSite=Lax";

/// The address at the other end of a connection: of the client, or of a proxy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FarEnd(pub(crate) SocketAddr);

/// The names of the HTTPS API of this peer, and the proxies before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Door {
    /// DNS names in lower case. A name that begins with `*.` matches each name with one more label.
    names: Arc<[String]>,
    proxies: Arc<[Prefix]>,
}

/// The door of the HTTPS API, which a reload replaces.
pub(crate) type SharedDoor = Arc<RwLock<Door>>;

impl Door {
    pub(crate) fn new(names: impl IntoIterator<Item = String>, proxies: &[Prefix]) -> Self {
        let names = names.into_iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { names, proxies: proxies.into() }
    }

    /// Returns whether a host is this peer's. An address always is: a browser never takes it for
    /// the name of another party.
    fn serves(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let fits = |name: &String| match name.strip_prefix("*.") {
            Some(domain) => host.split_once('.').is_some_and(|(_, rest)| rest == domain),
            None => host == *name,
        };
        bare.parse::<IpAddr>().is_ok() || host == "localhost" || self.names.iter().any(fits)
    }

    /// Returns the address of the client behind proxies that are trusted: the last one that is no
    /// trusted proxy.
    fn client_of(&self, from: SocketAddr, headers: &HeaderMap) -> IpAddr {
        let is_proxy =
            |address: &IpAddr| self.proxies.iter().any(|prefix| prefix.contains(*address));
        let mut client = from.ip().to_canonical();
        let values = headers.get_all(FORWARDED_FOR).iter().rev();
        let texts = values.filter_map(|value| value.to_str().ok());
        for text in texts.flat_map(|value| value.rsplit(',')) {
            if !is_proxy(&client) {
                break;
            }
            // A proxy that is trusted writes addresses; behind anything else nothing is known.
            let Ok(address) = text.trim().parse::<IpAddr>() else { break };
            client = address.to_canonical();
        }
        client
    }

    /// Returns the path below which the proxy at the other end serves this peer, without a `/` at
    /// its end. The path is empty if there is no such path, or if the proxy is not trusted.
    fn path_of<'a>(&self, from: SocketAddr, headers: &'a HeaderMap) -> &'a str {
        let from = from.ip().to_canonical();
        if !self.proxies.iter().any(|prefix| prefix.contains(from)) {
            return "";
        }
        let value = headers.get(FORWARDED_PREFIX).and_then(|value| value.to_str().ok());
        let path = value.unwrap_or_default().trim().trim_end_matches('/');
        let is_name = |part: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            !part.is_empty() && part.bytes().all(plain) && !part.bytes().all(|byte| byte == b'.')
        };
        let is_path = path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_name));
        if is_path && path.len() <= PREFIX_BYTES_MAX { path } else { "" }
    }
}

/// Finds the origin of a request, and refuses one for a host that is not this peer's.
pub(crate) async fn admit(
    State(door): State<SharedDoor>,
    mut request: Request,
    next: Next,
) -> Response {
    let door = door.read().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(authority) = authority_of(&request) else {
        let title = "the request names no host";
        let problem = Problem::new(ProblemCode::HostUnknown, title).status(400);
        return ProblemReply(problem).into_response();
    };
    if !door.serves(authority.host()) {
        let title = "the request is for a host that is not served here";
        let problem = Problem::new(ProblemCode::HostUnknown, title).hint(
            "use a name or an address of this host, or list the name under `names` in the table \
             `web` of penstock.toml",
        );
        return ProblemReply(problem).into_response();
    }
    let headers = request.headers();
    let far_end = request.extensions().get::<FarEnd>();
    let path = far_end.map_or("", |far_end| door.path_of(far_end.0, headers));
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    let origin = ClientOrigin {
        from: far_end.map(|far_end| door.client_of(far_end.0, headers)),
        url: Some(format!("https://{authority}{path}")),
        agent: agent.unwrap_or_default().chars().take(AGENT_CHARS_MAX).collect(),
        browser: login_cookie(headers),
    };
    request.extensions_mut().insert(origin);
    next.run(request).await
}

/// Returns the host and port that a request is for: `:authority` in HTTP/2, else `Host`.
fn authority_of(request: &Request) -> Option<Authority> {
    if let Some(authority) = request.uri().authority() {
        return Some(authority.clone());
    }
    let host = request.headers().get(header::HOST)?;
    // A name before the host, as in `user@host`, is no part of this header.
    let text = host.to_str().ok().filter(|text| !text.contains('@'))?;
    text.parse().ok()
}

/// Returns the value of `Set-Cookie` that marks a browser which begins a log-in at the provider.
pub(crate) fn set_login_cookie(browser: &Secret, seconds: u64) -> HeaderValue {
    let value = browser.expose();
    let text = format!("{LOGIN_COOKIE}={value}; Max-Age={seconds}; {LOGIN_ATTRIBUTES}");
    // Letters, digits and signs of ASCII are always a value.
    let value = HeaderValue::from_str(&text);
    let mut value = value.unwrap_or_else(|_| HeaderValue::from_static(""));
    value.set_sensitive(true);
    value
}

/// Returns the mark of a browser that has begun a log-in at the provider.
fn login_cookie(headers: &HeaderMap) -> Option<Secret> {
    let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        values.flat_map(|value| value.split(';')).filter_map(|it| it.trim().split_once('='));
    let (_, value) = pairs.find(|(name, _)| *name == LOGIN_COOKIE)?;
    (value.len() <= LOGIN_COOKIE_MAX).then(|| Secret::new(value))
}

/// Checks that a request which changes something comes from the own page, or from no page.
/// `has_cookie` is true if the cookie of a session proves its user: a browser may have sent it, so
/// the request must name its origin.
///
/// # Errors
/// The request comes from another page, or does not name its origin: code `cross-site`.
pub(crate) fn check_page(request: &Request, has_cookie: bool) -> Result<(), Problem> {
    let headers = request.headers();
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    // No browser adds this header by itself.
    if is_read || headers.contains_key(header::AUTHORIZATION) {
        return Ok(());
    }
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let is_own = match (text(FETCH_SITE), text(header::ORIGIN)) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => authority_of(request).is_some_and(|authority| {
            origin.strip_prefix("https://").is_some_and(|host| is_same(host, &authority))
        }),
        (None, None) => !has_cookie,
    };
    is_own.then_some(()).ok_or_else(|| {
        let title = "the request does not come from a page of this site";
        Problem::new(ProblemCode::CrossSite, title)
            .hint("a program sends a token, or `Origin: https://HOST:PORT` as it is in its address")
    })
}

/// Returns whether an origin has this host and port; 443 is the port of one that names none.
fn is_same(origin: &str, authority: &Authority) -> bool {
    let Ok(origin) = origin.parse::<Authority>() else { return false };
    let port = |of: &Authority| of.port_u16().unwrap_or(443);
    origin.host().eq_ignore_ascii_case(authority.host()) && port(&origin) == port(authority)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn request(method: &str, headers: &[(&str, &str)]) -> Request {
        let mut request = Request::builder().method(method).uri("/api/v1/me");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    /// Promise (C7): only the own names and addresses are served, so that no foreign name that
    /// leads to this host reaches anything.
    #[test]
    fn c7_foreign_names_are_not_served() {
        let names = ["dtn1.Example.org", "*.lab.example.org"].map(str::to_owned);
        let door = Door::new(names, &[]);
        for own in ["dtn1.example.org", "DTN1.example.org.", "a.lab.example.org", "localhost"] {
            assert!(door.serves(own), "{own}");
        }
        assert!(door.serves("10.0.0.1") && door.serves("[::1]"));
        let foreign =
            ["evil.org", "dtn1.example.org.evil.org", "lab.example.org", "", "10.0.0.1.a"];
        for host in foreign.into_iter().chain(["a.b.lab.example.org", "localhost.evil.org"]) {
            assert!(!door.serves(host), "{host}");
        }
        for bad in ["", "a b", "x@dtn1.example.org", "a/b"] {
            assert_eq!(authority_of(&request("GET", &[("host", bad)])), None, "{bad}");
        }
    }

    /// Promise (C8): the browser that began a log-in at the provider is recognized when a page of
    /// the provider leads it back here. A cookie that is too long is ignored.
    #[test]
    fn c8_a_browser_is_known_by_its_cookie() {
        let set = set_login_cookie(&Secret::new("abc"), 600);
        let set = set.to_str().unwrap();
        assert!(set.starts_with("__Host-penstock-login=abc; ") && set.contains("SameSite=Lax"));
        let read = |value: &str| {
            let found = login_cookie(request("GET", &[("cookie", value)]).headers());
            found.map(|found| found.expose().to_owned())
        };
        let value = "__Host-penstock=x; __Host-penstock-login=abc; a=b";
        assert_eq!(read(value).as_deref(), Some("abc"));
        assert_eq!(read(&format!("{LOGIN_COOKIE}={}", "x".repeat(65))), None);
        assert_eq!(read("penstock-login=abc"), None);
    }

    /// Promise (C10): `X-Forwarded-For` counts only from proxies that are trusted, and no client
    /// behind one can set another address.
    #[test]
    fn c10_only_trusted_proxies_name_a_client() {
        let proxies = ["10.0.0.5/32", "fd00::/64"].map(|text| text.parse().unwrap());
        let door = Door::new([], &proxies);
        let client = |from: &str, values: &[&str]| {
            let headers: Vec<_> = values.iter().map(|value| ("x-forwarded-for", *value)).collect();
            let request = request("GET", &headers);
            let from = SocketAddr::new(from.parse().unwrap(), 1);
            door.client_of(from, request.headers()).to_string()
        };
        assert_eq!(client("192.0.2.1", &["203.0.113.9"]), "192.0.2.1");
        assert_eq!(client("10.0.0.5", &[]), "10.0.0.5");
        assert_eq!(client("10.0.0.5", &["203.0.113.9"]), "203.0.113.9");
        assert_eq!(client("::ffff:10.0.0.5", &["203.0.113.9"]), "203.0.113.9");
        assert_eq!(client("10.0.0.5", &["1.1.1.1, 203.0.113.9"]), "203.0.113.9");
        assert_eq!(client("10.0.0.5", &["1.1.1.1", "203.0.113.9, fd00::7"]), "203.0.113.9");
        assert_eq!(client("10.0.0.5", &["203.0.113.9, what"]), "10.0.0.5");
    }

    /// Promise (C10): a trusted proxy names the path below which it serves the page, and no path
    /// that leads elsewhere is accepted.
    #[test]
    fn c10_a_trusted_proxy_names_its_path() {
        let door = Door::new([], &["10.0.0.5/32".parse().unwrap()]);
        let path = |from: &str, value: &str| {
            let request = request("GET", &[("x-forwarded-prefix", value)]);
            let from = SocketAddr::new(from.parse().unwrap(), 1);
            door.path_of(from, request.headers()).to_owned()
        };
        assert_eq!(path("10.0.0.5", "/penstock"), "/penstock");
        assert_eq!(path("::ffff:10.0.0.5", "/a/b-1/"), "/a/b-1");
        assert_eq!(path("192.0.2.1", "/penstock"), "");
        let long = format!("/{}", "x".repeat(PREFIX_BYTES_MAX));
        let escaping = ["//evil.org", "/a/../b", "/a?b", "/a@b", "/a b", &*long];
        for bad in ["", "/", "penstock"].into_iter().chain(escaping) {
            assert_eq!(path("10.0.0.5", bad), "", "{bad}");
        }
    }

    /// Promise (C7): a request that changes state by a cookie must come from the own page; a token
    /// needs no page, and reads are not restricted.
    #[test]
    fn c7_pages_of_other_sites_change_nothing() {
        let host = ("host", "hpc.example.org:7443");
        let check = |headers: &[(&str, &str)], cookie| {
            check_page(&request("POST", &[&[host], headers].concat()), cookie).is_ok()
        };
        let own = ("origin", "https://HPC.example.org:7443");
        for good in [[("sec-fetch-site", "same-origin")], [("sec-fetch-site", "none")], [own]] {
            assert!(check(&good, true), "{good:?}");
        }
        let crossed = ["cross-site", "same-site", "", "x"].map(|value| ("sec-fetch-site", value));
        let origins = [
            "https://evil.org",
            "https://hpc.example.org",
            "http://hpc.example.org:7443",
            "null",
            "https://hpc.example.org:7443.evil.org",
            "",
        ];
        let origins = origins.map(|value| ("origin", value));
        for bad in crossed.into_iter().chain(origins) {
            assert!(!check(&[bad], true) && !check(&[bad], false), "{bad:?}");
            assert!(check(&[bad, ("authorization", "Bearer x")], false), "{bad:?}");
        }
        assert!(!check(&[own, ("sec-fetch-site", "cross-site")], true));
        assert!(!check(&[], true), "a browser of old says nothing");
        assert!(check(&[], false), "a program without a cookie");
        assert!(check_page(&request("GET", &[host]), true).is_ok());
    }
}
