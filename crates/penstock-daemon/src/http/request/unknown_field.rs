//! Fields and parameters that do not exist, with the name that was probably meant.

use penstock_api::problem::{FieldFault, Problem, ProblemCode};

use crate::settings::nearest;

/// Returns the problem of a field that does not exist, if an error of serde tells of one. `pointer`
/// places the field in the request.
pub(super) fn problem_of(error: &str, pointer: impl Fn(&str) -> String) -> Option<Problem> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: who mistypes a field is told which one was probably meant.
    #[test]
    fn the_nearest_name_is_suggested() {
        let error = "unknown field `lanse`, expected one of `lanes`, `label`, `priority`";
        let problem = problem_of(error, |name| format!("/options/{name}")).unwrap();
        assert_eq!(problem.code, ProblemCode::UnknownField);
        assert_eq!(problem.detail, "`lanse` does not exist; did you mean `lanes`?");
        assert_eq!(problem.context.unwrap().errors[0].pointer, "/options/lanse");
        let error = "unknown field `x`, expected `lanes` or `label`";
        let problem = problem_of(error, str::to_owned).unwrap();
        assert_eq!(problem.detail, "`x` does not exist; there are: lanes, label");
        assert!(problem_of("missing field `id`", str::to_owned).is_none());
    }
}
