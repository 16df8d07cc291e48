//! Tokens that are wrong in one way each.

use jsonwebtoken::{EncodingKey, Header, encode};
use penstock_sys::now_seconds;
use serde_json::json;

use super::*;

const EXPECTED: Expected<'static> =
    Expected { issuer: "https://sso.example.org", client_id: "penstock", nonce: "n-0" };
const ALL: [Algorithm; 3] = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];

/// A provider with one key on P-256, which it calls `one`.
struct Issuer {
    key: EncodingKey,
    jwk: Value,
}

impl Issuer {
    fn new() -> Self {
        use aws_lc_rs::signature::{
            ECDSA_P256_SHA256_FIXED_SIGNING as KIND, EcdsaKeyPair, KeyPair,
        };
        let random = aws_lc_rs::rand::SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&KIND, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&KIND, document.as_ref()).unwrap();
        // An uncompressed point: 4, x, y.
        let point = pair.public_key().as_ref();
        let part = |at: usize| BASE64URL_NOPAD.encode(&point[at..at + 32]);
        let jwk = json!({ "kty": "EC", "crv": "P-256", "kid": "one", "x": part(1), "y": part(33) });
        Self { key: EncodingKey::from_ec_der(document.as_ref()), jwk }
    }

    fn keys(&self) -> KeySet {
        KeySet::read(json!({ "keys": [self.jwk] }).to_string().as_bytes()).unwrap()
    }

    fn sign(&self, claims: &Value) -> String {
        let head = Header { kid: Some("one".to_owned()), ..Header::new(Algorithm::ES256) };
        encode(&head, claims, &self.key).unwrap()
    }

    fn judge(&self, token: &str) -> Result<Claims, TokenFault> {
        let head = TokenHead::of(token, &ALL)?;
        claims_of(token, &head, self.keys().find(&head)?, EXPECTED)
    }
}

fn claims() -> Value {
    json!({
        "iss": EXPECTED.issuer, "aud": "penstock", "sub": "7", "nonce": "n-0",
        "exp": now_seconds() + 600, "iat": now_seconds(),
    })
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

/// Promise (C8): a token has the required claims, or is refused with the reason.
#[test]
fn c8_a_token_says_what_it_must() {
    let issuer = Issuer::new();
    assert_eq!(issuer.judge(&issuer.sign(&claims())).unwrap()["sub"], "7");
    let good = [
        with("aud", json!(["penstock"])),
        with("exp", json!(now_seconds() - 30)),
        with("azp", json!("penstock")),
    ];
    for claims in good {
        assert!(issuer.judge(&issuer.sign(&claims)).is_ok(), "{claims}");
    }
    let fault = |name: &str, value: Value| {
        issuer.judge(&issuer.sign(&with(name, value))).unwrap_err().code().as_str().to_owned()
    };
    let bad = [
        ("iss", json!("https://evil.org"), "oidc-issuer"),
        ("iss", json!(["https://sso.example.org", "https://evil.org"]), "oidc-issuer"),
        ("iss", Value::Null, "oidc-token"),
        ("aud", json!("other"), "oidc-audience"),
        ("aud", json!(["other"]), "oidc-audience"),
        ("aud", json!(["penstock", "other"]), "oidc-audience"),
        ("azp", json!("other"), "oidc-audience"),
        ("nonce", json!("n-1"), "oidc-nonce"),
        ("nonce", Value::Null, "oidc-nonce"),
        ("exp", json!(now_seconds() - 90), "oidc-expired"),
        ("exp", Value::Null, "oidc-token"),
        ("nbf", json!(now_seconds() + 90), "oidc-expired"),
        ("sub", Value::Null, "oidc-token"),
    ];
    for (name, value, code) in bad {
        assert_eq!(fault(name, value.clone()), code, "{name}: {value}");
    }
}

/// Promise (C8): no token chooses how it is judged: `none`, a public key as the secret of HMAC, an
/// algorithm of another kind of key, and unknown extensions are refused.
#[test]
fn c8_a_token_does_not_choose_its_algorithm() {
    let issuer = Issuer::new();
    let token = issuer.sign(&claims());
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let payload = signed.split_once('.').unwrap().1;
    let code = |token: &str| issuer.judge(token).unwrap_err().code();
    let headed = |head: Value| {
        let head = BASE64URL_NOPAD.encode(head.to_string().as_bytes());
        format!("{head}.{payload}.{signature}")
    };
    for algorithm in ["none", "None", "", "HS256", "ES512"] {
        let token = headed(json!({ "alg": algorithm, "kid": "one" }));
        assert_eq!(code(&token), ProblemCode::OidcAlgorithm, "{algorithm}");
    }
    let unsigned = headed(json!({ "alg": "none" }));
    let unsigned = format!("{}.", unsigned.rsplit_once('.').unwrap().0);
    assert_eq!(code(&unsigned), ProblemCode::OidcAlgorithm);
    let secret = EncodingKey::from_secret(issuer.jwk["x"].as_str().unwrap().as_bytes());
    let head = Header { kid: Some("one".to_owned()), ..Header::new(Algorithm::HS256) };
    assert_eq!(code(&encode(&head, &claims(), &secret).unwrap()), ProblemCode::OidcAlgorithm);
    let other_kind = headed(json!({ "alg": "RS256", "kid": "one" }));
    assert_eq!(code(&other_kind), ProblemCode::OidcAlgorithm);
    let extended = headed(json!({ "alg": "ES256", "kid": "one", "crit": ["b64"], "b64": false }));
    assert_eq!(code(&extended), ProblemCode::OidcToken);
    assert_eq!(code(&headed(json!({ "alg": "ES256", "kid": "two" }))), ProblemCode::OidcKey);
    assert_eq!(code(&headed(json!({ "alg": "ES256" }))), ProblemCode::OidcSignature);
    let other = Issuer::new().sign(&claims());
    assert_eq!(code(&other), ProblemCode::OidcSignature, "the key of another provider");
    for damaged in ["", ".", "..", "a.b.c", "e30.e30.", signed, &format!("{token}.x")] {
        assert!(issuer.judge(damaged).is_err(), "{damaged}");
    }
}

/// Promise (C8): signatures by secrets, keys for encryption and unknown keys are refused. An
/// announcement of the provider cannot make a secret of a public key.
#[test]
fn c8_only_public_keys_for_signatures_count() {
    let read = |key: Value| KeySet::read(json!({ "keys": [key] }).to_string().as_bytes()).unwrap();
    let own = Issuer::new().jwk;
    let with = |name: &str, value: &str| {
        let mut key = own.clone();
        key[name] = value.into();
        read(key).0.len()
    };
    assert_eq!((with("use", "sig"), with("use", "enc"), with("alg", "ES256")), (1, 0, 1));
    assert_eq!((with("alg", "HS256"), with("crv", "P-521"), with("kty", "new")), (0, 0, 0));
    assert!(read(json!({ "kty": "oct", "k": "c2VjcmV0", "kid": "one" })).0.is_empty());
    assert!(KeySet::read(b"{}").is_err() && KeySet::read(b"[").is_err());
    let announced = ["none", "HS256", "ES256", "RS256", "XX"].map(str::to_owned);
    assert_eq!(accepted_algorithms(&announced), [Algorithm::ES256, Algorithm::RS256]);
    assert_eq!(accepted_algorithms(&[]), [Algorithm::RS256]);
    assert!(accepted_algorithms(&["HS256".to_owned()]).is_empty());
}
