//! Answers to browsers: the files of the web page, on the port of the API.
//!
//! Every path outside the API is a path of the page. A path that names no file is an address within
//! the page, and gets `index.html`, whose program shows the content of the address. The page has no
//! secrets, so it needs no credentials, and an expired cookie does not block it.

use std::io;
use std::sync::Arc;

use anyhow::Context as _;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use penstock_api::endpoints::TABLE;
use penstock_api::problem::{Problem, ProblemCode};

use super::page_files::{PageFile, PageFiles};
use crate::http::reply::ProblemReply;

/// The first part of the paths of the API.
const API: &str = "/api/";
/// The file that shows each address within the page.
const INDEX: &str = "index.html";
/// Levels of the deepest address within the page.
const LEVELS_MAX: usize = 32;
/// Directory of the files whose names contain a digest of their content.
const HASHED: &str = "assets/";

/// The policy of the page (W3C Content Security Policy 3): it runs and shows only files of this
/// listener. It has no scripts, styles or data within its code, no frames, and no forms that a
/// browser would send by itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data:; font-src 'self'; connect-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Headers of each file of the page.
const PROTECTION: [(HeaderName, HeaderValue); 5] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// The web page.
#[derive(Debug)]
pub(crate) struct WebPage {
    files: PageFiles,
}

impl WebPage {
    /// Returns the page that the program contains.
    ///
    /// # Errors
    /// The page was damaged when the program was built.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let files = PageFiles::built_in().context("the web page in this program is damaged")?;
        Ok(Self { files })
    }

    /// Answers a request by a file of the page; `None` if there is no such file.
    fn answer(&self, request: &Request) -> Option<Response> {
        #[cfg(debug_assertions)]
        match PageFiles::of_directory() {
            Ok(None) => {}
            Ok(Some(files)) => return answer_from(&files, request),
            Err(error) => tracing::error!(%error, "the page cannot be read"),
        }
        answer_from(&self.files, request)
    }
}

/// Serves the page at each path outside the API.
pub(crate) async fn serve_page(
    State(page): State<Arc<WebPage>>,
    request: Request,
    next: Next,
) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let answer = (is_read && !is_of_api(request.uri().path())).then(|| page.answer(&request));
    match answer.flatten() {
        Some(answer) => answer,
        None => next.run(request).await,
    }
}

fn is_of_api(path: &str) -> bool {
    let mut endpoints = TABLE.iter().flat_map(|group| group.endpoints);
    path.starts_with(API) || endpoints.any(|endpoint| endpoint.path == path)
}

fn answer_from(files: &PageFiles, request: &Request) -> Option<Response> {
    let path = request.uri().path().trim_start_matches('/');
    let headers = request.headers();
    // A browser that opens an address asks for HTML. A file that the page or a program loads is
    // reported as missing if it does not exist, as is a file of another release.
    let is_address = path.is_empty() || lists(headers, &header::ACCEPT, "text/html");
    let is_address = is_address && !path.starts_with(HASHED);
    if let Some(file) = files.get(path) {
        return Some(file_answer(path, file, headers));
    }
    // The browser takes names in the index as relative to the last `/` of the address.
    let levels = request.uri().path().matches('/').count().saturating_sub(1);
    if !is_address || levels > LEVELS_MAX {
        return None;
    }
    let index = files.get(INDEX)?;
    let answer = match levels {
        0 => file_answer(INDEX, index, headers),
        levels => match index.below(levels) {
            Ok(index) => file_answer(INDEX, &index, headers),
            Err(error) => damaged(error),
        },
    };
    Some(answer)
}

fn damaged(error: io::Error) -> Response {
    let title = "the web page in this program is damaged";
    ProblemReply(Problem::new(ProblemCode::Internal, title).because(error)).into_response()
}

fn file_answer(name: &str, file: &PageFile, headers: &HeaderMap) -> Response {
    let is_gzip = lists(headers, &header::ACCEPT_ENCODING, "gzip");
    // Two forms of a file are two representations (RFC 9110, 8.8.3).
    let tag = format!("\"{}{}\"", file.digest, if is_gzip { "-gzip" } else { "" });
    // A proxy may weaken a tag (RFC 9110, 13.1.2).
    let tags = [tag.clone(), format!("W/{tag}"), "*".to_owned()];
    let is_known = tags.iter().any(|tag| lists(headers, &header::IF_NONE_MATCH, tag));
    let body = match (is_known, is_gzip) {
        (true, _) => Ok(Bytes::new()),
        (false, true) => Ok(file.gzip.clone()),
        (false, false) => file.plain(),
    };
    let body = match body {
        Ok(body) => Body::from(body),
        Err(error) => return damaged(error),
    };
    let mut response = Response::new(body);
    let found = response.headers_mut();
    found.extend(PROTECTION);
    let lasts = name.starts_with(HASHED);
    let cache = if lasts { "public, max-age=31536000, immutable" } else { "no-cache" };
    found.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    found.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    found.extend(HeaderValue::from_str(&tag).ok().map(|tag| (header::ETAG, tag)));
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    found.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type(name)));
    if is_gzip {
        found.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// Returns whether a header lists a word. A word of quality 0 is not wanted (RFC 9110, 12.4.2).
fn lists(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|one| {
        let mut parts = one.split(';').map(str::trim);
        let is_refused = |part: &str| {
            let quality = part.strip_prefix("q=").and_then(|text| text.parse::<f32>().ok());
            quality == Some(0.0)
        };
        parts.next().is_some_and(|one| one.eq_ignore_ascii_case(word)) && !parts.any(is_refused)
    })
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(path: &str, headers: &[(&str, &str)]) -> Request {
        let mut builder = Request::builder().uri(path);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(Body::empty()).unwrap()
    }

    fn header_of(response: &Response, name: HeaderName) -> &str {
        response.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Promise: an address within the page gets the page; a file that is missing gets none.
    #[test]
    fn an_address_gets_the_page_and_a_missing_file_does_not() {
        let page = WebPage::new().unwrap();
        let browser = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
        for path in ["/", "/setup", "/transfers/1a2b", "/stores/raw/a.txt"] {
            let answer = page.answer(&request(path, &browser)).unwrap();
            assert_eq!(header_of(&answer, header::CONTENT_TYPE), "text/html; charset=utf-8");
            assert_eq!(header_of(&answer, header::CACHE_CONTROL), "no-cache");
            assert_eq!(header_of(&answer, header::CONTENT_SECURITY_POLICY), POLICY);
        }
        for path in ["/assets/none.js", "/favicon.ico", "/../Cargo.toml"] {
            assert!(page.answer(&request(path, &[("accept", "*/*")])).is_none(), "{path}");
        }
        assert!(page.answer(&request("/assets/none.js", &browser)).is_none());
        assert!(page.answer(&request(&"/a".repeat(LEVELS_MAX + 2), &browser)).is_none());
    }

    /// Promise: no path of the API is one of the page.
    #[test]
    fn paths_of_the_api_are_not_those_of_the_page() {
        for path in ["/api/v1/me", "/api/none", "/healthz", "/metrics"] {
            assert!(is_of_api(path), "{path}");
        }
        for path in ["/", "/apiary", "/metrics/x", "/setup"] {
            assert!(!is_of_api(path), "{path}");
        }
    }

    /// Promise: a browser that has a file does not get it again, and gets it in a form that it
    /// takes.
    #[test]
    fn a_file_is_sent_once_and_in_a_form_that_is_wanted() {
        let page = WebPage::new().unwrap();
        let gzip = page.answer(&request("/", &[("accept-encoding", "br, GZIP;q=0.5")])).unwrap();
        assert_eq!(header_of(&gzip, header::CONTENT_ENCODING), "gzip");
        let plain = page.answer(&request("/", &[("accept-encoding", "gzip;q=0, br")])).unwrap();
        assert_eq!(header_of(&plain, header::CONTENT_ENCODING), "");
        let tag = header_of(&gzip, header::ETAG).to_owned();
        assert_ne!(tag, header_of(&plain, header::ETAG));
        let known = [("if-none-match", &*tag), ("accept-encoding", "gzip")];
        assert_eq!(page.answer(&request("/", &known)).unwrap().status(), 304);
        let other = [("if-none-match", &*tag)];
        assert_eq!(page.answer(&request("/", &other)).unwrap().status(), 200);
    }

    /// Promise: files whose names change with their bytes are kept for ever.
    #[test]
    fn hashed_files_are_kept() {
        let page = WebPage::new().unwrap();
        let index = page.files.get(INDEX).unwrap().plain().unwrap();
        let text = String::from_utf8(index.to_vec()).unwrap();
        let script = text.split('"').find(|part| part.starts_with("./assets/")).unwrap();
        let answer = page.answer(&request(&script[1..], &[])).unwrap();
        assert!(header_of(&answer, header::CACHE_CONTROL).contains("immutable"));
    }
}
