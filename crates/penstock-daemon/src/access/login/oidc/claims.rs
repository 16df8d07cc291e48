//! The person whom the claims of the provider describe: its name here, and its groups.

use penstock_proto::id::Name;
use serde_json::Value;

use super::id_token::Claims;

/// Longest name that is derived from a claim, in characters.
const NAME_CHARS_MAX: usize = 63;
/// Groups of a person that are looked at.
const GROUPS_MAX: usize = 10_000;

/// Returns a claim. A claim whose name has dots may also lie in nested objects.
pub(super) fn find<'a>(claims: &'a Claims, name: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(name) {
        return Some(value);
    }
    let mut parts = name.split('.');
    let first = claims.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))
}

/// Returns the groups that a claim lists: a list of texts, or one text.
pub(super) fn groups(claims: &Claims, name: &str) -> Vec<String> {
    match find(claims, name) {
        Some(Value::String(group)) => vec![group.clone()],
        Some(Value::Array(groups)) => {
            let texts = groups.iter().take(GROUPS_MAX).filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the name of a user by a claim. Letters become lower case; characters that a name cannot
/// have, as dots and `@`, become `-`.
pub(super) fn user_name(claims: &Claims, name: &str) -> Option<Name> {
    let text = find(claims, name)?.as_str()?;
    if text.chars().count() > NAME_CHARS_MAX {
        return None;
    }
    let fitting = |letter: char| {
        let small = letter.to_ascii_lowercase();
        let is_fit = small.is_ascii_lowercase() || small.is_ascii_digit() || "-_".contains(small);
        if is_fit { small } else { '-' }
    };
    let text: String = text.chars().map(fitting).collect();
    text.trim_matches('-').parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(value: Value) -> Claims {
        value.as_object().unwrap().clone()
    }

    /// Promise (C8): names and groups are found where providers write them, and other values do not
    /// count as either.
    #[test]
    fn c8_a_person_is_read_from_claims() {
        let claims = claims(json!({
            "preferred_username": "Anna.Smith@example.org",
            "groups": ["staff", 7, "ops"],
            "one": "staff",
            "realm_access": { "roles": ["admin"] },
            "https://lab/groups.v1": ["a"],
            "empty": "@@", "root": "root", "number": 7, "long": "x".repeat(64), "umlaut": "jörg",
        }));
        let name = |claim: &str| user_name(&claims, claim).map(String::from);
        assert_eq!(name("preferred_username").unwrap(), "anna-smith-example-org");
        assert_eq!(name("umlaut").unwrap(), "j-rg");
        for none in ["empty", "number", "long", "groups", "missing"] {
            assert_eq!(name(none), None, "{none}");
        }
        assert_eq!(groups(&claims, "groups"), ["staff", "ops"]);
        assert_eq!(groups(&claims, "one"), ["staff"]);
        assert_eq!(groups(&claims, "realm_access.roles"), ["admin"]);
        assert_eq!(groups(&claims, "https://lab/groups.v1"), ["a"]);
        for none in ["realm_access", "realm_access.roles.0", "number", "missing.x"] {
            assert!(groups(&claims, none).is_empty(), "{none}");
        }
    }
}
