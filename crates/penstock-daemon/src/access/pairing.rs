//! Pairing over a TLS connection that the token pins (hard case D5): the joiner's half, and the
//! issuer's.

use std::time::Duration;

use hyper::Method;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::JoinReply;
use penstock_api::site::PairHalf;
use penstock_cluster::state::Pairing;
use penstock_net::trust::{
    ALPN_HTTP1, Fingerprint, PROOF_BYTES, PairingToken, explain, inspect_authority,
    issuing_authority, pairing_client_config, pairing_exporter, peer_server_name, verify_pairing,
};
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::http;
use crate::site::context::Site;

/// The time that the other site has for the whole exchange.
const DEADLINE: Duration = Duration::from_secs(20);

/// Joins the site that issued `token`.
///
/// # Errors
/// The token is no good, the site cannot be reached, or it refuses.
pub(crate) async fn join(site: &Site, token: &str, now: u64) -> Result<JoinReply, Problem> {
    let token: PairingToken = token.parse().map_err(|error| {
        Problem::new(ProblemCode::Token, "the text is not a pairing token").because(error)
    })?;
    if token.authority == site.keys().authority.fingerprint() {
        let title = "the pairing token is of this very site";
        return Err(Problem::new(ProblemCode::Token, title).hint("use it at the other site"));
    }
    match tokio::time::timeout(DEADLINE, talk(site, &token, now)).await {
        Ok(result) => result,
        Err(_) => Err(unreachable_site(&token, format!("no answer in {} s", DEADLINE.as_secs()))),
    }
}

async fn talk(site: &Site, token: &PairingToken, now: u64) -> Result<JoinReply, Problem> {
    let internal = |error: penstock_net::trust::TrustError| {
        Problem::new(ProblemCode::Trust, "cannot start to pair").because(error)
    };
    let mut config =
        (*pairing_client_config(token.authority, &site.suites).map_err(internal)?).clone();
    config.alpn_protocols = vec![ALPN_HTTP1.to_vec()];
    let tcp = TcpStream::connect(&token.address)
        .await
        .map_err(|error| unreachable_site(token, error.to_string()))?;
    let connector = TlsConnector::from(std::sync::Arc::new(config));
    let tls = connector.connect(peer_server_name(), tcp).await.map_err(|error| refused(&error))?;
    let connection = tls.get_ref().1;
    let exporter = pairing_exporter(connection).map_err(internal)?;
    let chain = connection.peer_certificates().unwrap_or_default();
    let ca = issuing_authority(chain, &token.authority).map_err(internal)?;
    let own = site.keys().authority.fingerprint();
    let signature =
        site.keys().authority.sign_pairing(&exporter, &token.authority).map_err(internal)?;
    let half = half_of(site, Some((token.proof(&exporter, &own), signature)));
    let body = http::encode(&half)?;
    let reply = http::send(tls, Method::POST, "/site/v1/pair", Some(body)).await?;
    let theirs: PairHalf = http::decode(&http::read(reply).await?)?;
    // The authority that the token pinned counts, not that of the reply.
    let pairing = checked(site, &theirs, ca.as_ref(), now)?.0;
    site.pair(&pairing)?;
    tracing::info!(site = %pairing.site, "paired");
    let own_fingerprint = own.to_string();
    Ok(JoinReply { site: site.pairing_view(&pairing), own_fingerprint })
}

/// Returns a site's own half of a pairing. A site that joins adds a proof of the token and the
/// signature of its authority.
fn half_of(site: &Site, proof: Option<([u8; PROOF_BYTES], Vec<u8>)>) -> PairHalf {
    let hex = |bytes: &[u8]| data_encoding::HEXLOWER.encode(bytes);
    let (proof, signature) =
        proof.map_or_else(Default::default, |(proof, signature)| (hex(&proof), hex(&signature)));
    PairHalf {
        site: site.config.site.clone(),
        ca: hex(site.keys().authority.certificate()),
        capability_key: hex(&site.keys().authority.capability_key().public_key()),
        keys: site.keys().sequence(),
        addresses: site.addresses().addresses,
        proof,
        signature,
    }
}

/// Accepts a joiner: checks its authority and its proof, stores the pairing, returns our half.
///
/// # Errors
/// The proof is wrong, or the name is taken.
pub(crate) fn accept(
    site: &Site,
    half: &PairHalf,
    exporter: &[u8; 32],
    now: u64,
) -> Result<PairHalf, Problem> {
    let ca = decode_hex(&half.ca, "ca")?;
    let (pairing, fingerprint) = checked(site, half, &ca, now)?;
    if pairing.site == site.config.site {
        let title = format!("both sites are called `{}`", pairing.site);
        return Err(Problem::new(ProblemCode::SiteTaken, title));
    }
    if let Some(known) = site.trust.authority_of(&pairing.site)
        && known.as_ref() != ca
    {
        let title = format!("another site is paired under the name `{}`", pairing.site);
        return Err(Problem::new(ProblemCode::SiteTaken, title)
            .hint("run `penstock site unpair` there first if the site was set up again"));
    }
    let signature = decode_hex(&half.signature, "signature")?;
    let own = site.keys().authority.fingerprint();
    verify_pairing(&ca, exporter, &own, &signature).map_err(|error| {
        let title = format!("site `{}` cannot be paired", pairing.site);
        Problem::new(ProblemCode::Authority, title).because(error)
    })?;
    let proof = decode_hex(&half.proof, "proof")?;
    site.redeem(|offer| offer.redeem(now, exporter, &fingerprint, &proof).is_ok())?;
    site.pair(&pairing)?;
    tracing::info!(site = %pairing.site, %fingerprint, "paired");
    Ok(half_of(site, None))
}

/// Returns a half as a pairing with the authority `ca`, and that authority's fingerprint.
fn checked(
    own: &Site,
    half: &PairHalf,
    ca: &[u8],
    now: u64,
) -> Result<(Pairing, Fingerprint), Problem> {
    let facts = inspect_authority(&CertificateDer::from(ca)).map_err(|error| {
        Problem::new(ProblemCode::Authority, "the authority of the site is not valid")
            .because(error)
    })?;
    if facts.site != half.site {
        let title = format!("site `{}` showed the authority of `{}`", half.site, facts.site);
        return Err(Problem::new(ProblemCode::Authority, title));
    }
    let pairing = Pairing {
        site: facts.site,
        ca: ca.to_vec(),
        capability_key: decode_hex(&half.capability_key, "capability_key")?,
        addresses: half.addresses.clone(),
        paired: now,
        keys: half.keys,
        revoked: Vec::new(),
        told: own.keys().sequence(),
    };
    Ok((pairing, facts.fingerprint))
}

fn decode_hex(text: &str, field: &str) -> Result<Vec<u8>, Problem> {
    data_encoding::HEXLOWER.decode(text.as_bytes()).map_err(|error| {
        Problem::new(ProblemCode::Body, format!("`{field}` is no hexadecimal text")).because(error)
    })
}

pub(crate) fn unreachable_site(token: &PairingToken, why: String) -> Problem {
    let title = format!("the site at {} cannot be reached", token.address);
    Problem::new(ProblemCode::SiteUnreachable, title).because(why)
}

pub(crate) fn refused(error: &std::io::Error) -> Problem {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let why = tls.map_or_else(|| error.to_string(), explain);
    let title = "another site than the one that issued the token answers there";
    Problem::new(ProblemCode::Certificate, title).because(why)
}
