//! The facts that a provider publishes about itself (OpenID Connect Discovery 1.0, 3).

use penstock_api::problem::{Problem, ProblemCode};
use reqwest::Url;
use serde::Deserialize;

use super::refusal::wrong;
use crate::config::{OidcConfig, is_private};

/// The facts that a provider publishes about itself. Others are ignored.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Metadata {
    issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    pub(super) jwks_uri: String,
    pub(super) userinfo_endpoint: Option<String>,
    /// The page that ends the log-in at the provider (RP-Initiated Logout 1.0).
    pub(super) end_session_endpoint: Option<String>,
    #[serde(default)]
    pub(super) id_token_signing_alg_values_supported: Vec<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// The answers of the provider name it (RFC 9207).
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

/// The way in which a client shows its secret (OpenID Connect Core 1.0, 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecretWay {
    /// In the `Authorization` header.
    Basic,
    /// In the body.
    Post,
}

impl Metadata {
    /// Returns the address of the facts of an issuer.
    pub(super) fn address(issuer: &str) -> String {
        format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'))
    }

    /// Reads the facts of the provider of a site.
    ///
    /// # Errors
    /// The facts are not complete, are of another provider, or lead over the network in clear.
    pub(super) fn read(bytes: &[u8], config: &OidcConfig) -> Result<Self, Problem> {
        let read: Self = serde_json::from_slice(bytes)
            .map_err(|error| wrong(format!("its facts cannot be read: {error}")))?;
        if read.issuer != config.issuer {
            let title = "the provider has another name than the configuration";
            let why = format!("it calls itself `{}`, not `{}`", shown(&read.issuer), config.issuer);
            return Err(Problem::new(ProblemCode::OidcIssuer, title).because(why).hint(
                "set `issuer` in the table `auth.oidc` exactly as the provider names itself",
            ));
        }
        let needed = [&read.authorization_endpoint, &read.token_endpoint, &read.jwks_uri];
        let more = [&read.userinfo_endpoint, &read.end_session_endpoint];
        for address in needed.into_iter().chain(more.into_iter().flatten()) {
            if !Url::parse(address).is_ok_and(|url| is_private(&url)) {
                return Err(wrong(format!("its address `{}` is not HTTPS", shown(address))));
            }
        }
        Ok(read)
    }

    /// Returns the way in which the client shows its secret: the first that the provider takes.
    ///
    /// # Errors
    /// The provider accepts neither of the known ways.
    pub(super) fn secret_way(&self) -> Result<SecretWay, Problem> {
        let Some(ways) = &self.token_endpoint_auth_methods_supported else {
            return Ok(SecretWay::Basic);
        };
        let known =
            [("client_secret_basic", SecretWay::Basic), ("client_secret_post", SecretWay::Post)];
        let found = known.into_iter().find(|(name, _)| ways.iter().any(|way| way == name));
        found.map(|(_, way)| way).ok_or_else(|| {
            wrong(format!("it takes the secret of a client by none of the known ways: {ways:?}"))
        })
    }
}

fn shown(text: &str) -> String {
    penstock_proto::text::field(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: &str = r#"{"issuer": "https://sso", "authorization_endpoint": "https://sso/a",
        "token_endpoint": "https://sso/t", "jwks_uri": "https://sso/k", "other": [1]}"#;

    fn read(facts: &str) -> Result<Metadata, Problem> {
        let config = "issuer = \"https://sso\"\nclient_id = \"penstock\"";
        Metadata::read(facts.as_bytes(), &toml::from_str(config).unwrap())
    }

    /// Promise (C8): facts of another provider, facts that lack an address, and addresses in clear
    /// are refused.
    #[test]
    fn c8_only_facts_of_the_own_provider_are_used() {
        let facts = read(FACTS).unwrap();
        assert_eq!(facts.secret_way().unwrap(), SecretWay::Basic);
        let other = read(&FACTS.replace("\"https://sso\"", "\"https://sso/\"")).unwrap_err();
        assert_eq!(other.code, ProblemCode::OidcIssuer);
        for (from, to) in [("https://sso/t", "http://sso/t"), ("jwks_uri", "x"), ("{", "[")] {
            let refused = read(&FACTS.replace(from, to)).unwrap_err();
            assert_eq!(refused.code, ProblemCode::OidcProviderWrong, "{to}");
        }
        let ways = |list: &str| {
            let more = format!("\"token_endpoint_auth_methods_supported\": {list}, \"other\"");
            read(&FACTS.replace("\"other\"", &more)).unwrap().secret_way()
        };
        assert_eq!(ways("[\"x\", \"client_secret_post\"]").unwrap(), SecretWay::Post);
        assert!(ways("[\"private_key_jwt\"]").is_err());
    }
}
