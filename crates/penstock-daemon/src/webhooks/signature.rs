//! Signatures of Standard Webhooks 1.0: HMAC-SHA256 over id, time and body.

use aws_lc_rs::hmac;
use data_encoding::BASE64;
use penstock_api::webhook::{Webhook, WebhookSecret};

/// Returns the header `webhook-signature` of a message: a signature of each secret that is in use
/// at `now`, in seconds since 1970.
pub(super) fn signatures(hook: &Webhook, id: &str, now: u64, body: &[u8]) -> String {
    let former = hook.former.as_ref().filter(|(_, until)| now < *until).map(|(secret, _)| secret);
    let secrets = std::iter::once(&hook.secret).chain(former);
    let signatures: Vec<_> = secrets.map(|secret| signature(secret, id, now, body)).collect();
    signatures.join(" ")
}

fn signature(secret: &WebhookSecret, id: &str, now: u64, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.key());
    let mut context = hmac::Context::with_key(&key);
    context.update(format!("{id}.{now}.").as_bytes());
    context.update(body);
    format!("v1,{}", BASE64.encode(context.sign().as_ref()))
}

#[cfg(test)]
mod tests {
    use penstock_api::webhook::WebhookSettings;

    use super::*;

    /// Promise: a receiver with a library of Standard Webhooks accepts the signed messages, and
    /// during a rotation it may hold either secret. The expected text was computed by `hmac` of
    /// Python.
    #[test]
    fn both_secrets_sign_while_they_overlap() {
        let settings = WebhookSettings {
            url: "https://hooks.example/".to_owned(),
            kinds: Vec::new(),
            user: None,
            include_paths: false,
            disabled: false,
        };
        let mut hook = Webhook {
            name: "ops".parse().unwrap(),
            settings,
            secret: WebhookSecret::new(std::array::from_fn(|at| at as u8)),
            former: None,
            created: 0,
            delivered_ms: 0,
        };
        let body = br#"{"type":"webhook.test"}"#;
        let now = 1_700_000_000;
        let alone = signatures(&hook, "msg_1", now, body);
        assert_eq!(alone, EXPECTED);
        hook.former = Some((WebhookSecret::new([9; 32]), now + 1));
        let both = signatures(&hook, "msg_1", now, body);
        assert_eq!(both.split(' ').count(), 2);
        assert!(both.starts_with(&alone));
        assert_eq!(signatures(&hook, "msg_1", now + 1, body).split(' ').count(), 1);
    }

    const EXPECTED: &str = "v1,xxZtt7j7yM1ifYrYyXeSlFsSXiLDory+irN4YhasdnI=";
}
