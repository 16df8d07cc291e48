//! Problem details, as the answers to users carry them (RFC 9457).

use serde::{Deserialize, Serialize};

use super::code::{ProblemCode, Retry};
use super::context::{FieldFault, ObjectRef, ProblemContext};
use super::exit::Exit;
use super::occurrence::Problem;
use crate::options::deadline::DeadlineOutlook;

/// Beginning of the type of a problem; its code follows (RFC 9457, 3.1.1).
const TYPE_PREFIX: &str = "urn:penstock:problem:";
/// Seconds until a request may be sent again that the daemon could not take: if it was one too
/// many, and otherwise.
const RETRY_AFTER_TOO_MANY_S: u32 = 1;
const RETRY_AFTER_S: u32 = 2;

/// A problem as users and programs see it, in answers and in events.
///
/// `code` and `title` are the same for all problems of a kind. The other fields tell of one
/// occurrence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[error("{detail}{}{}", if cause.is_empty() { "" } else { ": " }, cause)]
pub struct ProblemDetails {
    /// The kind of the problem, for programs.
    pub code: ProblemCode,
    /// The kind of the problem, for people.
    #[serde(deserialize_with = "crate::text::field")]
    pub title: String,
    /// Operation that failed and its subject, in one line.
    #[serde(deserialize_with = "crate::text::field")]
    pub detail: String,
    /// Reason; the chain of causes in one line. May be empty.
    #[serde(default)]
    #[serde(deserialize_with = "crate::text::field")]
    pub cause: String,
    /// Next step for the user. May be empty.
    #[serde(default)]
    #[serde(deserialize_with = "crate::text::field")]
    pub hint: String,
    /// HTTP status.
    pub status: u16,
    /// Exit status of a command that meets this problem.
    pub exit: Exit,
    /// True if the same request may succeed later without a change.
    #[serde(default)]
    pub retryable: bool,
    /// Fields of the request that are at fault.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldFault>,
    /// The object that the problem is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectRef>,
    /// The figures of a deadline that cannot be promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<DeadlineOutlook>,
}

/// An error as the body of an answer, of the type `application/problem+json` (RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ProblemDocument {
    /// `urn:penstock:problem:` and the code.
    pub r#type: String,
    /// The problem.
    #[serde(flatten)]
    pub details: ProblemDetails,
    /// Least time in seconds after which the same request may be sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u32>,
    /// Id of the request, for the operators of the site: their logs have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Path of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
}

impl From<Problem> for ProblemDetails {
    fn from(problem: Problem) -> Self {
        let Problem { code, title: detail, detail: cause, hint, exit, status, context } = problem;
        let facts = code.facts();
        let context = context.map(|context| *context).unwrap_or_default();
        Self {
            title: facts.title.to_owned(),
            retryable: facts.retry == Retry::Later || exit == Exit::Temporary,
            code,
            detail,
            cause,
            hint,
            status,
            exit,
            errors: context.errors,
            object: context.object,
            deadline: context.deadline,
        }
    }
}

impl ProblemDocument {
    /// Returns the body of the answer to the request of this id and path.
    pub fn of(problem: Problem, request_id: &str, path: &str) -> Self {
        let default = match problem.status {
            429 => Some(RETRY_AFTER_TOO_MANY_S),
            503 => Some(RETRY_AFTER_S),
            _ => None,
        };
        let own = problem.context.as_ref().and_then(|context| context.retry_after_s);
        Self {
            r#type: format!("{TYPE_PREFIX}{}", problem.code),
            retry_after_s: own.or(default),
            request_id: Some(request_id.to_owned()),
            instance: Some(path.to_owned()),
            details: problem.into(),
        }
    }
}

impl From<ProblemDocument> for Problem {
    fn from(document: ProblemDocument) -> Self {
        let ProblemDocument { details, retry_after_s, request_id, .. } = document;
        let ProblemDetails { errors, object, deadline, .. } = details;
        let context = ProblemContext { errors, object, deadline, retry_after_s, request_id };
        Self {
            code: details.code,
            title: details.detail,
            detail: details.cause,
            hint: details.hint,
            exit: details.exit,
            status: details.status,
            context: (context != ProblemContext::default()).then(|| Box::new(context)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::context::ObjectKind;
    use super::*;

    fn problem() -> Problem {
        Problem::new(ProblemCode::StoreReadOnly, "store `raw` of site `lab` is read-only")
            .because("the operator set it so")
            .hint("submit to another store")
            .about(ObjectKind::Store, "raw")
            .at("/target")
    }

    /// Promise: what is the same for all problems of a kind is fixed, and what tells of one
    /// occurrence is apart from it (RFC 9457, 3.1).
    #[test]
    fn a_document_has_the_members_of_the_standard() {
        let document = ProblemDocument::of(problem(), "7f", "/api/v1/transfers");
        let json = serde_json::to_value(&document).unwrap();
        assert_eq!(json["type"], "urn:penstock:problem:store-read-only");
        assert_eq!(json["title"], ProblemCode::StoreReadOnly.facts().title);
        assert_eq!(json["detail"], "store `raw` of site `lab` is read-only");
        assert_eq!(json["cause"], "the operator set it so");
        assert_eq!(json["status"], 409);
        assert_eq!(json["retryable"], false);
        assert_eq!(
            (&json["request_id"], &json["instance"]),
            (&"7f".into(), &"/api/v1/transfers".into())
        );
        assert_eq!(json["errors"][0]["pointer"], "/target");
        assert_eq!(json["object"], serde_json::json!({"kind": "store", "name": "raw"}));
        assert!(json["retry_after_s"].is_null());
    }

    /// Promise: a client gets back the problem that the daemon met, with the id of the request.
    #[test]
    fn a_document_is_read_as_the_problem_that_it_tells_of() {
        let json = serde_json::to_string(&ProblemDocument::of(problem(), "7f", "/x")).unwrap();
        let read: Problem = serde_json::from_str::<ProblemDocument>(&json).unwrap().into();
        assert_eq!(read.request_id(), Some("7f"));
        let wanted = problem();
        assert_eq!((read.to_string(), &read.hint), (wanted.to_string(), &wanted.hint));
        assert_eq!(read.context.unwrap().errors, wanted.context.unwrap().errors);
    }

    /// Promise: whoever is to try again is told when.
    #[test]
    fn a_passing_problem_says_when_to_try_again() {
        let after = |problem| ProblemDocument::of(problem, "7f", "/x").retry_after_s;
        let busy = || Problem::new(ProblemCode::Busy, "too much to do");
        assert_eq!(after(busy()), Some(RETRY_AFTER_S));
        assert_eq!(after(busy().status(429)), Some(RETRY_AFTER_TOO_MANY_S));
        assert_eq!(after(busy().retry_after(9)), Some(9));
    }

    /// Promise: the status says whether waiting helps, and that of a code with a lasting cause is
    /// no fault of the daemon.
    #[test]
    fn a_status_follows_its_meaning() {
        let status = |code, exit| Problem::new(code, "x").exit(exit).status;
        assert_eq!(status(ProblemCode::Target, Exit::Temporary), 503);
        assert_eq!(status(ProblemCode::Target, Exit::Fatal), 422);
        assert_eq!(status(ProblemCode::SourceMissing, Exit::SourceChanged), 404);
        assert_eq!(status(ProblemCode::State, Exit::Fatal), 500);
    }
}
