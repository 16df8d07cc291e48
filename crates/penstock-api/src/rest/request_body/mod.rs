//! Reading of users' requests: JSON of which each field has to exist. A fault has its place, and an
//! unknown field the name that was probably meant.

mod objects;

use serde::de::DeserializeOwned;
use serde_path_to_error::{Path, Segment};

use crate::problem::{FieldFault, Problem, ProblemCode};
use objects::Objects;

/// Reads the body of a request. The type has to reject unknown fields. An array is no object.
///
/// # Errors
/// Code `unknown-field`, or `body`; the field is in its errors, as a JSON Pointer (RFC 6901).
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = serde_path_to_error::deserialize(Objects(&mut json));
    let value = read.map_err(|error| {
        let (path, message) = (pointer_of(error.path()), error.inner().to_string());
        fault(&path, &message)
    })?;
    json.end().map_err(|error| fault("", &error.to_string()))?;
    Ok(value)
}

/// Returns the problem of a field that does not exist, if an error of serde tells of one. `pointer`
/// places the field in the request.
pub fn unknown_field(error: &str, pointer: impl Fn(&str) -> String) -> Option<Problem> {
    let (_, named) = error.split_once("unknown field `")?;
    let (name, rest) = named.split_once('`')?;
    let pointer = pointer(name);
    let title = format!("the request has an unknown field: `{pointer}`");
    // The odd parts are the names in back-quotes.
    let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    let problem = Problem::new(ProblemCode::UnknownField, title);
    let detail = match nearest(name, known.iter().copied()) {
        Some(meant) => format!("`{name}` does not exist; did you mean `{meant}`?"),
        None if known.is_empty() => format!("`{name}` does not exist"),
        None => format!("`{name}` does not exist; there are: {}", known.join(", ")),
    };
    let code = problem.code.as_str().to_owned();
    Some(problem.because(&detail).with_fault(FieldFault { pointer, code, detail }))
}

/// Returns the problem of a body with an error at a place.
fn fault(path: &str, message: &str) -> Problem {
    // The path may end with the field itself, or with the object that has it.
    let within = |name: &str| match path.rsplit_once('/') {
        Some((_, last)) if last == escape(name) => path.to_owned(),
        _ => format!("{path}/{}", escape(name)),
    };
    if let Some(problem) = unknown_field(message, within) {
        return problem;
    }
    let missing = message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    let pointer = missing.map_or_else(|| path.to_owned(), within);
    let problem = Problem::new(ProblemCode::Body, "the request's body is wrong").because(message);
    let code = problem.code.as_str().to_owned();
    problem.with_fault(FieldFault { pointer, code, detail: message.to_owned() })
}

/// Returns a place as a JSON Pointer (RFC 6901).
fn pointer_of(path: &Path) -> String {
    let mut pointer = String::new();
    for segment in path.iter() {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                pointer.push_str(&format!("/{}", escape(key)));
            }
            Segment::Unknown => {}
        }
    }
    pointer
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Returns the known name that a wrong one is a misspelling of.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |known: &&str| strsim::damerau_levenshtein(name, known);
    let found = known.min_by_key(distance)?;
    (distance(&found) <= 1 + name.len() / 4).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::SubmitRequest;
    use crate::transfer::TransferOptions;

    /// Promise: a request with a fault is told its place, as a JSON Pointer.
    #[test]
    fn a_fault_has_its_place() {
        let fault = |body: &str| {
            let problem = parse::<TransferOptions>(body.as_bytes()).unwrap_err();
            (problem.code, problem.context.unwrap().errors.remove(0).pointer)
        };
        let unknown = ProblemCode::UnknownField;
        assert_eq!(fault(r#"{"lanse": 1}"#), (unknown.clone(), "/lanse".to_owned()));
        let nested = r#"{"limits": {"rate": 1}}"#;
        assert_eq!(fault(nested), (unknown, "/limits/rate".to_owned()));
        assert_eq!(fault(r#"{"lanes": "2"}"#), (ProblemCode::Body, "/lanes".to_owned()));
        assert_eq!(fault("{").0, ProblemCode::Body);
        assert_eq!(fault("{} x"), (ProblemCode::Body, String::new()));
    }

    /// Promise: a location is a text or an object, and a mistyped field of it is refused by its
    /// place, with the name that was probably meant; the forms mean the same.
    #[test]
    fn a_location_has_no_unknown_field() {
        let submit = |source: &str| {
            let id = "07070707070707070707070707070707";
            let body = format!(r#"{{"id": "{id}", "source": {source}, "target": "hpc:s/a"}}"#);
            parse::<SubmitRequest>(body.as_bytes())
        };
        let fault = |source: &str| {
            let problem = submit(source).unwrap_err();
            let at = problem.context.unwrap().errors.remove(0).pointer;
            (problem.code, at, problem.detail)
        };
        let unknown = |pointer: &str, detail: &str| {
            (ProblemCode::UnknownField, pointer.to_owned(), detail.to_owned())
        };
        let meant = "`pth` does not exist; did you mean `path`?";
        assert_eq!(fault(r#"{"store": "x", "pth": "/y"}"#), unknown("/source/pth", meant));
        let whole = r#""site": "lab", "store": "raw", "path": "run7", "slash": true"#;
        let others = "`comment` does not exist; there are: site, store, path, slash";
        assert_eq!(
            fault(&format!(r#"{{{whole}, "comment": 1}}"#)),
            unknown("/source/comment", others)
        );
        let object = submit(&format!("{{{whole}}}")).unwrap();
        assert_eq!(submit(r#""lab:raw/run7/""#).unwrap(), object);
        let (code, at, detail) = fault(r#"{"site": "lab", "store": "raw", "path": "run7"}"#);
        assert_eq!((code, at.as_str()), (ProblemCode::Body, "/source/slash"), "{detail}");
        let (_, at, detail) = fault(r#""raw/run7""#);
        assert_eq!(at, "/source");
        assert!(detail.starts_with("`raw/run7` is not SITE:STORE/PATH: it has no `:`"), "{detail}");
        let (_, at, detail) = fault(r#"["lab", "raw", "run7", true]"#);
        assert!(at == "/source" && detail.starts_with("invalid type: sequence"), "{detail}");
        assert_eq!(fault(r#"{"site": "L!"}"#).1, "/source/site");
    }

    /// Promise: no request depends on the order of fields: an array is not taken for an object.
    #[test]
    fn an_array_is_no_object() {
        let fault = |body: &str| {
            let problem = parse::<TransferOptions>(body.as_bytes()).unwrap_err();
            (problem.detail, problem.context.unwrap().errors.remove(0).pointer)
        };
        let (detail, pointer) = fault(r#"{"limits": [500000, null]}"#);
        assert!(detail.starts_with("invalid type: sequence, expected struct Limits"), "{detail}");
        assert_eq!(pointer, "/limits");
        assert_eq!(fault("[]").1, "");
        assert_eq!(fault(r#"{"select": {"rules": [[true, "*"]]}}"#).1, "/select/rules/0");
        assert!(parse::<TransferOptions>(br#"{"files_from": ["a", "b"]}"#).is_ok());
    }

    /// Promise: who mistypes a field is told which one was probably meant.
    #[test]
    fn the_nearest_name_is_suggested() {
        let error = "unknown field `lanse`, expected one of `lanes`, `label`, `priority`";
        let problem = unknown_field(error, |name| format!("/options/{name}")).unwrap();
        assert_eq!(problem.code, ProblemCode::UnknownField);
        assert_eq!(problem.detail, "`lanse` does not exist; did you mean `lanes`?");
        assert_eq!(problem.context.unwrap().errors[0].pointer, "/options/lanse");
        let error = "unknown field `x`, expected `lanes` or `label`";
        let problem = unknown_field(error, str::to_owned).unwrap();
        assert_eq!(problem.detail, "`x` does not exist; there are: lanes, label");
        assert!(unknown_field("missing field `id`", str::to_owned).is_none());
    }
}
