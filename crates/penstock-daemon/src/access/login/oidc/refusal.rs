//! The reasons why a log-in at the provider fails.

use penstock_api::problem::{Problem, ProblemCode};
use penstock_proto::id::Name;

use super::id_token::TokenFault;
use super::pending::PendingFault;

/// Seconds after which a provider that does not answer may be asked again.
const DOWN_WAIT_S: u32 = 10;

/// Returns the problem of a provider that cannot be reached.
pub(super) fn down(why: impl std::fmt::Display) -> Problem {
    let title = "the site's OpenID provider does not answer";
    Problem::new(ProblemCode::OidcProviderDown, title)
        .because(why)
        .hint("try again in a minute; sessions that have begun continue meanwhile")
        .retry_after(DOWN_WAIT_S)
}

/// Returns the problem of a provider that answers in a way that is of no use.
pub(super) fn wrong(why: impl std::fmt::Display) -> Problem {
    let title = "the site cannot use the answer of its OpenID provider";
    Problem::new(ProblemCode::OidcProviderWrong, title).because(why).hint(
        "an administrator compares the table `auth.oidc` of penstock.toml with the client that is \
         registered at the provider",
    )
}

/// Returns the problem of a site without a provider.
pub(super) fn off() -> Problem {
    let title = "nobody logs in at a provider at this site";
    Problem::new(ProblemCode::LoginOff, title)
        .hint("log in by name and password, or have an administrator set the table `auth.oidc`")
}

impl From<PendingFault> for Problem {
    fn from(fault: PendingFault) -> Self {
        let (code, title) = match fault {
            PendingFault::Unknown => {
                (ProblemCode::OidcState, "the log-in was not begun here, is over, or was finished")
            }
            PendingFault::OtherBrowser => {
                (ProblemCode::OidcBrowser, "the log-in was begun by another browser")
            }
        };
        Self::new(code, title).hint("begin the log-in again, from the page of this site")
    }
}

impl From<TokenFault> for Problem {
    fn from(fault: TokenFault) -> Self {
        Self::new(fault.code(), "the token of the OpenID provider is not accepted").because(fault)
    }
}

/// Returns the problem of a log-in that the provider has refused.
pub(super) fn denied(error: &str, description: Option<&str>) -> Problem {
    let shown = |text: &str| penstock_proto::text::field(text);
    let why = match description.filter(|text| !text.is_empty()) {
        Some(description) => format!("it says `{}`: {}", shown(error), shown(description)),
        None => format!("it says `{}`", shown(error)),
    };
    Problem::new(ProblemCode::OidcDenied, "the OpenID provider has refused the log-in")
        .because(why)
        .hint("begin the log-in again; ask those who run the provider, if it refuses again")
}

/// Returns the problem of a user whose groups have no role.
pub(super) fn no_role(claim: &str, groups: &[String]) -> Problem {
    let why = match groups.len() {
        0 => format!("the provider tells no groups in the claim `{claim}`"),
        count => format!("none of the {count} groups in the claim `{claim}` has a role here"),
    };
    Problem::new(ProblemCode::OidcRole, "you have no role at this site")
        .because(why)
        .hint("ask an administrator of the site for a group that has one")
}

/// Returns the problem of a name that another user has.
pub(super) fn name_taken(name: &Name, subject: &str) -> Problem {
    let title = format!("the name `{name}` is that of another user of this site");
    Problem::new(ProblemCode::OidcNameTaken, title)
        .because("the provider says nothing of that user")
        .hint(format!(
            "if both are you, have an administrator run `penstock user set {name} --subject {}`",
            penstock_proto::text::field(subject)
        ))
}

/// Returns the problem of claims without a name.
pub(super) fn no_name(claim: &str) -> Problem {
    let title = "the provider tells no name that a user of this site can have";
    Problem::new(ProblemCode::OidcName, title)
        .because(format!("the claim `{claim}` is missing, too long, or has no letter"))
        .hint("an administrator names another one as `user_claim` in the table `auth.oidc`")
}

/// Returns the problem of a user whom an administrator has locked out.
pub(super) fn locked(name: &Name) -> Problem {
    let title = format!("user `{name}` is locked out");
    Problem::new(ProblemCode::OidcLocked, title).hint("ask an administrator of the site")
}
