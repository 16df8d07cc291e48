//! The part of the configuration about log-ins at an OpenID provider.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use penstock_api::access::Role;
use reqwest::Url;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::error::OidcConfigError;
use super::secret::{Secret, SecretPlaces};

/// Longest name of a provider on a button, in characters.
const NAME_CHARS_MAX: usize = 40;

/// The OpenID provider of the site, by OpenID Connect Core 1.0 with its Discovery 1.0. All peers of
/// a site should have the same values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcConfig {
    /// Address of the provider, exactly as it names itself: the file
    /// `.well-known/openid-configuration` below it has this text as `issuer`.
    pub issuer: String,
    /// Name of this site as a client that is registered at the provider.
    pub client_id: String,
    /// File with the client's secret; for its owner alone. It is read at each log-in. Default:
    /// none, for a client without a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret_file: Option<PathBuf>,
    /// Program, with its arguments, that prints the secret; it runs without a shell, at each
    /// log-in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_secret_command: Vec<String>,
    /// The secret itself. No file may have it: `PENSTOCK_AUTH__OIDC__CLIENT_SECRET` sets it.
    #[serde(default, skip_serializing)]
    pub client_secret: Option<Secret>,
    /// Authorities of the provider's certificate beside those that the host trusts, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Name of the provider on the button of the page. Default: the host of `issuer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Scopes that are asked for, beside `openid`. Default: `["profile"]`.
    #[serde(default = "scopes_default")]
    pub scopes: Vec<String>,
    /// Claim that names the user at its first log-in. Default: `preferred_username`.
    #[serde(default = "user_claim_default")]
    pub user_claim: String,
    /// Claim with the groups of the user; dots lead into objects, as in `realm_access.roles`.
    /// Default: `groups`.
    #[serde(default = "groups_claim_default")]
    pub groups_claim: String,
    /// Roles of groups; a user of several has the strongest. Default: none.
    #[serde(default, skip_serializing_if = "GroupRoles::is_empty")]
    pub roles: GroupRoles,
    /// Role of people without a role from a group: `none` refuses them. Default: none.
    #[serde(default, skip_serializing_if = "DefaultRole::is_none")]
    pub default: DefaultRole,
}

fn scopes_default() -> Vec<String> {
    vec!["profile".to_owned()]
}

fn user_claim_default() -> String {
    "preferred_username".to_owned()
}

fn groups_claim_default() -> String {
    "groups".to_owned()
}

/// Role of people without a role from a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DefaultRole {
    /// No role: they are refused.
    #[default]
    None,
    /// The role [`Role::Viewer`].
    Viewer,
    /// The role [`Role::User`].
    User,
    /// The role [`Role::Operator`].
    Operator,
    /// The role [`Role::Administrator`].
    Administrator,
}

impl DefaultRole {
    fn is_none(&self) -> bool {
        *self == Self::None
    }

    fn role(self) -> Option<Role> {
        match self {
            Self::None => None,
            Self::Viewer => Some(Role::Viewer),
            Self::User => Some(Role::User),
            Self::Operator => Some(Role::Operator),
            Self::Administrator => Some(Role::Administrator),
        }
    }
}

/// Roles by groups of the provider. A file has a table, a variable of the environment a list such
/// as `dtn-admins=administrator,staff=user`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct GroupRoles(pub BTreeMap<String, Role>);

impl GroupRoles {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de> Deserialize<'de> for GroupRoles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(GroupRolesVisitor)
    }
}

struct GroupRolesVisitor;

impl<'de> Visitor<'de> for GroupRolesVisitor {
    type Value = GroupRoles;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of roles by groups, such as `{ \"dtn-admins\" = \"administrator\" }`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<GroupRoles, A::Error> {
        let mut roles = BTreeMap::new();
        while let Some((group, role)) = map.next_entry()? {
            roles.insert(group, role);
        }
        Ok(GroupRoles(roles))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<GroupRoles, A::Error> {
        let mut roles = BTreeMap::new();
        while let Some(text) = list.next_element::<String>()? {
            // A group may have `=` in its name, as in an LDAP one.
            let (group, role) = text
                .rsplit_once('=')
                .ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not GROUP=ROLE")))?;
            let role = role.parse().map_err(serde::de::Error::custom)?;
            roles.insert(group.to_owned(), role);
        }
        Ok(GroupRoles(roles))
    }
}

impl OidcConfig {
    /// Returns every statement that cannot be followed, with its key.
    pub(crate) fn wrong_statements(&self) -> Vec<(&'static str, OidcConfigError)> {
        let mut wrong = Vec::new();
        if !is_issuer(&self.issuer) {
            wrong.push(("issuer", OidcConfigError::Issuer(self.issuer.clone())));
        }
        let texts = [
            ("client_id", &self.client_id),
            ("user_claim", &self.user_claim),
            ("groups_claim", &self.groups_claim),
        ];
        for (key, _) in texts.into_iter().filter(|(_, text)| text.trim().is_empty()) {
            wrong.push((key, OidcConfigError::Empty(key)));
        }
        if self.secret_places().count() > 1 {
            wrong.push(("client_secret_file", OidcConfigError::Secrets));
        }
        let is_name = |name: &String| {
            let chars = name.chars().count();
            (1..=NAME_CHARS_MAX).contains(&chars) && !name.chars().any(char::is_control)
        };
        if self.name.as_ref().is_some_and(|name| !is_name(name)) {
            wrong.push(("name", OidcConfigError::Name(NAME_CHARS_MAX)));
        }
        let bad = self.scopes.iter().filter(|scope| !is_scope(scope));
        wrong.extend(bad.map(|scope| ("scopes", OidcConfigError::Scope(scope.clone()))));
        wrong
    }

    /// Returns whether no person can log in, as no group has a role, and `default` is none.
    pub(crate) fn admits_nobody(&self) -> bool {
        self.roles.is_empty() && self.default.is_none()
    }

    /// Returns the places of the client's secret.
    fn secret_places(&self) -> SecretPlaces<'_> {
        SecretPlaces {
            key: "client_secret",
            itself: self.client_secret.as_ref(),
            file: self.client_secret_file.as_deref(),
            command: &self.client_secret_command,
        }
    }

    /// Returns the client's secret, if it has one. Relative paths are taken from the site
    /// directory. Blocks on storage, and for up to 30 s on the command.
    ///
    /// # Errors
    /// The file cannot be read; the command fails, prints nothing, or does not end in time.
    pub(crate) fn read_secret(&self, directory: &Path) -> anyhow::Result<Option<Secret>> {
        self.secret_places().read(directory)
    }

    /// Returns the name of the provider for people.
    pub(crate) fn shown_name(&self) -> String {
        let host = || Url::parse(&self.issuer).ok()?.host_str().map(str::to_owned);
        self.name.clone().or_else(host).unwrap_or_else(|| self.issuer.clone())
    }

    /// Returns the scopes of a request (OpenID Connect Core 1.0, 3.1.2.1).
    pub(crate) fn scope(&self) -> String {
        let others = self.scopes.iter().map(String::as_str).filter(|scope| *scope != "openid");
        std::iter::once("openid").chain(others).collect::<Vec<_>>().join(" ")
    }

    /// Returns the strongest role of these groups, or else that of people without such a group.
    pub(crate) fn role_of(&self, groups: &[String]) -> Option<Role> {
        let roles = groups.iter().filter_map(|group| self.roles.0.get(group)).copied();
        roles.max().or(self.default.role())
    }
}

/// Returns whether a text is an address that a provider may have (Discovery 1.0, 3).
fn is_issuer(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else { return false };
    let has_user = !url.username().is_empty() || url.password().is_some();
    is_private(&url) && url.query().is_none() && url.fragment().is_none() && !has_user
}

/// Returns whether requests to an address are protected on the way: it is HTTPS, or of this host.
pub(crate) fn is_private(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    let is_here = host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback());
    url.scheme() == "https" || url.scheme() == "http" && is_here
}

/// Returns whether a text is a scope (RFC 6749, 3.3).
fn is_scope(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    !text.is_empty() && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        issuer = "https://sso.example.org/realms/lab"
        client_id = "penstock"
        roles = { "dtn-admins" = "administrator", "cn=staff,dc=lab" = "user" }
    "#;

    fn read(more: &str) -> OidcConfig {
        toml::from_str(&format!("{TEXT}\n{more}")).unwrap()
    }

    /// Promise (C8): a person gets the strongest role of its groups. A person without such a group
    /// is refused unless `default` sets a role.
    #[test]
    fn c8_groups_give_roles() {
        let role = |config: &OidcConfig, groups: &[&str]| {
            config.role_of(&groups.iter().map(|group| (*group).to_owned()).collect::<Vec<_>>())
        };
        let config = read("");
        assert_eq!(
            role(&config, &["x", "dtn-admins", "cn=staff,dc=lab"]),
            Some(Role::Administrator)
        );
        assert_eq!(role(&config, &["cn=staff,dc=lab"]), Some(Role::User));
        assert_eq!((role(&config, &["DTN-admins"]), role(&config, &[])), (None, None));
        let config = read("default = \"viewer\"");
        assert_eq!((role(&config, &[]), config.admits_nobody()), (Some(Role::Viewer), false));
        let list: OidcConfig = serde_json::from_str(
            r#"{"issuer": "https://h", "client_id": "x", "roles": ["cn=a=user", "b=viewer"]}"#,
        )
        .unwrap();
        assert_eq!(list.roles.0["cn=a"], Role::User);
        for bad in [r#"["a"]"#, r#"["a=boss"]"#, r#"{"a": "boss"}"#, r#""a""#] {
            let text = format!(r#"{{"issuer": "https://h", "client_id": "x", "roles": {bad}}}"#);
            assert!(serde_json::from_str::<OidcConfig>(&text).is_err(), "{bad}");
        }
        let text = toml::to_string(&read("")).unwrap();
        assert_eq!(toml::from_str::<OidcConfig>(&text).unwrap(), read(""));
    }

    /// Promise: each faulty statement is found with its key, and no provider is asked in clear but
    /// on this host.
    #[test]
    fn wrong_statements_are_found() {
        let wrong = |text: &str| {
            let config: OidcConfig = toml::from_str(text).unwrap();
            config.wrong_statements().into_iter().map(|(key, _)| key).collect::<Vec<_>>()
        };
        assert!(wrong(TEXT).is_empty());
        assert!(wrong("issuer = \"http://127.0.0.1:9/x\"\nclient_id = \"p\"").is_empty());
        assert!(wrong("issuer = \"http://[::1]:9\"\nclient_id = \"p\"").is_empty());
        for bad in ["http://sso.example.org", "sso", "https://h/?x=1", "https://a:b@h", "ftp://h"] {
            assert_eq!(
                wrong(&format!("issuer = \"{bad}\"\nclient_id = \"p\"")),
                ["issuer"],
                "{bad}"
            );
        }
        let more = "client_secret_file = \"a\"\nclient_secret_command = [\"b\"]\nname = \"\"\n\
                    scopes = [\"a b\"]\nuser_claim = \" \"";
        let found = wrong(&format!("{TEXT}\n{more}"));
        assert_eq!(found, ["user_claim", "client_secret_file", "name", "scopes"]);
        assert_eq!(read("scopes = [\"openid\", \"email\"]").scope(), "openid email");
        assert_eq!(read("").shown_name(), "sso.example.org");
    }
}
