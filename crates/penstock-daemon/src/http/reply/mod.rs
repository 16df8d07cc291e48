//! Replies of handlers: problems, JSON bodies, files, blocking work.

pub(crate) mod entity_tag;
pub(crate) mod held_body;
mod problem_page;
pub(crate) mod problem_reply;

use axum::extract::{Json, Request};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::SILENT_HEADER;
use penstock_proto::id::Name;
use tokio::io::AsyncReadExt as _;

use crate::metrics::requests::BLOCKING;
pub(crate) use problem_reply::ProblemReply;

/// Bytes of a file that are sent at a time.
const FILE_PART_BYTES: usize = 64 * 1024;

/// A reply with a JSON body, or a problem.
pub(crate) type Reply<T> = Result<Json<T>, ProblemReply>;

/// Names the peers whose part is missing, if there are any, in the header of a reply.
pub(crate) fn name_silent(response: &mut Response, silent: &[Name]) {
    let names: Vec<&str> = silent.iter().map(Name::as_str).collect();
    if let Ok(value) = HeaderValue::from_str(&names.join(","))
        && !value.is_empty()
    {
        response.headers_mut().insert(HeaderName::from_static(SILENT_HEADER), value);
    }
}

/// Runs blocking work on a thread that may block.
///
/// # Errors
/// The error of `work`; code `internal` if it panics.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, ProblemReply> {
    let waits = BLOCKING.wait();
    let counted = move || {
        drop(waits);
        let _works = BLOCKING.work();
        work()
    };
    match tokio::task::spawn_blocking(counted).await {
        Ok(result) => result.map_err(ProblemReply),
        Err(error) => {
            tracing::error!(%error, "request handler");
            let title = "the daemon broke an assumption of ours";
            Err(ProblemReply(Problem::new(ProblemCode::Internal, title)))
        }
    }
}

/// Returns a file as the body of a reply of a media type, a bounded part of it in memory at a time.
pub(crate) fn stream_file(file: std::fs::File, media: &'static str) -> Response {
    let file = Some(tokio::fs::File::from_std(file));
    let stream = futures_util::stream::unfold(file, async |file| {
        let mut file = file?;
        let mut part = vec![0; FILE_PART_BYTES];
        match file.read(&mut part).await {
            Ok(0) => None,
            Ok(length) => {
                part.truncate(length);
                Some((Ok(part), Some(file)))
            }
            Err(error) => Some((Err(error), None)),
        }
    });
    let kind = [(header::CONTENT_TYPE, media)];
    (kind, axum::body::Body::from_stream(stream)).into_response()
}

/// Returns the reply to a path that does not exist.
pub(crate) async fn not_found(request: Request) -> ProblemReply {
    let title = format!("`{} {}` does not exist", request.method(), request.uri().path());
    ProblemReply(Problem::new(ProblemCode::NotFound, title))
}

/// Returns the reply to a method that a path does not have. The router adds those that it has.
pub(crate) async fn method_unknown(request: Request) -> ProblemReply {
    let title = format!("`{}` has no method {}", request.uri().path(), request.method());
    ProblemReply(Problem::new(ProblemCode::MethodUnknown, title))
}
