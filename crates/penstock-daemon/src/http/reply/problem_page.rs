//! Problems as pages, for people whose browser opens an address of a log-in.

use axum::body::Body;
use axum::http::response::Parts;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;
use penstock_api::problem::ProblemDetails;

/// Headers of a page without scripts, which neither leads nor is shown elsewhere. Its address may
/// hold a code, which no other page learns.
const HEADERS: [(HeaderName, HeaderValue); 4] = [
    (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'",
        ),
    ),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
];

const STYLE: &str = ":root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}\
    body{margin:0;min-height:100vh;display:grid;place-items:center}\
    main{max-width:34rem;padding:2rem}h1{font-size:1.4rem;line-height:1.3;margin:0 0 1rem}\
    p{margin:0 0 1rem;overflow-wrap:anywhere}a{color:inherit;font-weight:600}\
    small{opacity:.75}code{font-size:.95em}";

/// Returns a problem as the page of an answer with this head. `id` is that of the request.
pub(super) fn response(mut parts: Parts, problem: &ProblemDetails, id: &str) -> Response {
    for (name, value) in HEADERS {
        parts.headers.insert(name, value);
    }
    Response::from_parts(parts, Body::from(page(problem, id)))
}

fn page(problem: &ProblemDetails, id: &str) -> String {
    let paragraph = |text: &str| match text {
        "" => String::new(),
        text => format!("<p>{}</p>\n", escaped(&sentence(text))),
    };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Log-in failed - Penstock</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <main>\n<h1>{}</h1>\n{}{}<p><a href=\"../../\">Back to Penstock</a></p>\n\
         <p><small>Code <code>{}</code>, request <code>{}</code></small></p>\n</main>\n</body>\n\
         </html>\n",
        escaped(&capitalised(&problem.detail)),
        paragraph(&problem.cause),
        paragraph(&problem.hint),
        escaped(problem.code.as_str()),
        escaped(id),
    )
}

/// Returns a text as a sentence.
fn sentence(text: &str) -> String {
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    capitalised(text) + end
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns a text as the text of an element or the value of an attribute.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use penstock_api::problem::{Problem, ProblemCode, ProblemDocument};

    use super::*;

    /// Promise (C8): a problem is shown in sentences, and nothing in it becomes a part of the page.
    #[test]
    fn c8_no_text_becomes_a_part_of_a_page() {
        let problem = Problem::new(ProblemCode::OidcDenied, "the provider <b>refuses</b>")
            .because("<script>alert(\"1\")</script> & 'more'")
            .hint("begin again!");
        let page = page(&ProblemDocument::of(problem, "7\"f", "/x").details, "7\"f");
        assert!(page.contains("<h1>The provider &lt;b&gt;refuses&lt;/b&gt;</h1>"), "{page}");
        let cause = "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;more&#39;.";
        assert!(page.contains(&format!("<p>{cause}</p>")), "{page}");
        assert!(page.contains("<p>Begin again!</p>") && page.contains("7&quot;f"), "{page}");
    }
}
