//! Requests and replies of handlers: problems, JSON bodies, files, blocking work.

use axum::extract::{Json, Request};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use penstock_api::problem::{Problem, ProblemCode};
use tokio::io::AsyncReadExt as _;

/// Bytes of a file that are sent at a time.
const FILE_PART_BYTES: usize = 64 * 1024;

/// A problem as an HTTP reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProblemReply(pub(crate) Problem);

impl From<Problem> for ProblemReply {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for ProblemReply {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self.0)).into_response();
        let kind = header::HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}

/// A reply with a JSON body, or a problem.
pub(crate) type Reply<T> = Result<Json<T>, ProblemReply>;

/// Runs blocking work on a thread that may block.
///
/// # Errors
/// The error of `work`; code `internal` if it panics.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, ProblemReply> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(ProblemReply),
        Err(error) => {
            tracing::error!(%error, "request handler");
            let title = "the daemon broke an assumption of ours";
            Err(ProblemReply(Problem::new(ProblemCode::Internal, title)))
        }
    }
}

/// A file as the body of a reply, a bounded part of it in memory at a time.
pub(crate) fn stream_file(file: std::fs::File) -> Response {
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
    let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
    (kind, axum::body::Body::from_stream(stream)).into_response()
}

/// The reply to a path or method that does not exist.
pub(crate) async fn not_found(request: Request) -> ProblemReply {
    let title = format!("`{} {}` does not exist", request.method(), request.uri().path());
    ProblemReply(Problem::new(ProblemCode::NotFound, title))
}
