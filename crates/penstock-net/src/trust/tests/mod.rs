//! The promises of trust, on handshakes in memory and keys in temporary directories.

use crate::trust::preferred_suites;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use penstock_proto::capability::Capability;
use penstock_proto::id::{Name, PeerId, TransferId};
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

use super::*;

pub(crate) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub(crate) fn peer(site: &str, peer: &str) -> PeerId {
    PeerId { site: name(site), peer: name(peer) }
}

/// A site with one peer, for tests here and of lanes.
pub(crate) struct Site {
    pub(crate) authority: SiteAuthority,
    pub(crate) identity: PeerCertificate,
    pub(crate) trust: Arc<TrustStore>,
}

impl Site {
    pub(crate) fn new(site: &str) -> Self {
        let authority = SiteAuthority::create(name(site)).unwrap();
        let identity = authority.issue_peer(&peer(site, "dtn1")).unwrap();
        let trust = Arc::new(TrustStore::new(authority.certificate().clone()).unwrap());
        Self { authority, identity, trust }
    }

    pub(crate) fn pair(&self, other: &Self) {
        self.trust.pin(other.authority.certificate().clone()).unwrap();
        other.trust.pin(self.authority.certificate().clone()).unwrap();
    }

    pub(crate) fn server(&self, purpose: Purpose) -> Arc<ServerConfig> {
        server_config(purpose, &self.identity, &self.trust, &preferred_suites()).unwrap()
    }

    pub(crate) fn client(&self, purpose: Purpose, expected: Option<&str>) -> Arc<ClientConfig> {
        self.client_as(&self.identity, purpose, expected)
    }

    fn client_as(
        &self,
        identity: &PeerCertificate,
        purpose: Purpose,
        expected: Option<&str>,
    ) -> Arc<ClientConfig> {
        let suites = preferred_suites();
        client_config(purpose, identity, &self.trust, expected.map(name), &suites).unwrap()
    }
}

pub(crate) fn paired(one: &str, other: &str) -> (Site, Site) {
    let sites = (Site::new(one), Site::new(other));
    sites.0.pair(&sites.1);
    sites
}

/// Performs a handshake in memory; the error is that of the end that found it.
pub(super) fn handshake(
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
) -> Result<(ClientConnection, ServerConnection), rustls::Error> {
    let mut client = ClientConnection::new(client, peer_server_name())?;
    let mut server = ServerConnection::new(server)?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut flight = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut flight).unwrap();
        }
        server.read_tls(&mut flight.as_slice()).unwrap();
        server.process_new_packets()?;
        flight.clear();
        while server.wants_write() {
            server.write_tls(&mut flight).unwrap();
        }
        client.read_tls(&mut flight.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    Ok((client, server))
}

fn refusal(client: Arc<ClientConfig>, server: Arc<ServerConfig>) -> String {
    match handshake(client, server) {
        Ok(_) => panic!("the handshake must be refused"),
        Err(error) => explain(&error),
    }
}

/// Two paired sites know each other by name, over hybrid key exchange and the lane's ALPN.
#[test]
fn paired_sites_know_each_other() {
    let (lab, hpc) = paired("lab", "hpc");
    let (client, server) =
        handshake(lab.client(Purpose::Lane, Some("hpc")), hpc.server(Purpose::Lane)).unwrap();
    assert_eq!(peer_id_of(client.peer_certificates().unwrap()).unwrap(), peer("hpc", "dtn1"));
    assert_eq!(peer_id_of(server.peer_certificates().unwrap()).unwrap(), peer("lab", "dtn1"));
    assert_eq!(client.alpn_protocol(), Some(ALPN_LANE));
    assert_eq!(
        client.negotiated_key_exchange_group().unwrap().name(),
        rustls::NamedGroup::X25519MLKEM768
    );
    assert_eq!(client.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
}

/// D4: site-c is paired with site-a, and makes itself a certificate for a peer of site-b.
#[test]
fn d4_a_paired_third_site_cannot_impersonate_a_second() {
    let (a, b) = paired("site-a", "site-b");
    let c = Site::new("site-c");
    a.pair(&c);
    let day = Duration::from_secs(86_400);
    let now = SystemTime::now();
    let forged = c.authority.issue_between(&peer("site-b", "dtn1"), now - day, now + day).unwrap();

    let suites = preferred_suites();
    let as_client = client_config(Purpose::Lane, &forged, &c.trust, None, &suites).unwrap();
    let error = refusal(as_client, a.server(Purpose::Lane));
    assert!(error.contains("not signed by the authority pinned for its site"), "{error}");

    let as_server = server_config(Purpose::Lane, &forged, &c.trust, &suites).unwrap();
    for expected in [None, Some("site-b")] {
        let error = refusal(a.client(Purpose::Lane, expected), Arc::clone(&as_server));
        assert!(error.contains("not signed by the authority pinned for its site"), "{error}");
    }
    // The true site-b still gets in: the refusals above are not for another reason.
    handshake(b.client(Purpose::Lane, Some("site-a")), a.server(Purpose::Lane)).unwrap();
}

/// D4: a certificate for two peers at once is ambiguous, and an authority speaks for one site.
#[test]
fn d4_an_authority_without_its_constraint_is_not_pinned() {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, "anywhere");
    let unbound = params.self_signed(&key).unwrap().der().clone();
    let lab = Site::new("lab");
    let error = lab.trust.pin(unbound).unwrap_err().to_string();
    assert!(error.contains("constrained"), "{error}");
    let leaf = lab.identity.chain()[0].clone();
    assert!(lab.trust.pin(leaf).unwrap_err().to_string().contains("authority"));
}

/// A client that wants one site is not content with another, though both are paired.
#[test]
fn a_peer_of_another_site_than_wanted_is_refused() {
    let (lab, hpc) = paired("lab", "hpc");
    let cloud = Site::new("cloud");
    lab.pair(&cloud);
    let error = refusal(lab.client(Purpose::Lane, Some("cloud")), hpc.server(Purpose::Lane));
    assert!(error.contains("expected a peer of site `cloud`, found `hpc/dtn1`"), "{error}");
}

/// Promise: unpaired, unpinned and expired certificates are refused, and the error names the case.
#[test]
fn expired_and_unpaired_certificates_are_refused() {
    let (lab, hpc) = paired("lab", "hpc");
    let stranger = Site::new("stranger");
    stranger.trust.pin(hpc.authority.certificate().clone()).unwrap();
    let error = refusal(stranger.client(Purpose::Lane, None), hpc.server(Purpose::Lane));
    assert!(error.contains("`stranger` is not paired with this site"), "{error}");

    let hour = Duration::from_secs(3600);
    let past = SystemTime::now() - hour * 48;
    let old = lab.authority.issue_between(&peer("lab", "dtn1"), past, past + hour).unwrap();
    let client = lab.client_as(&old, Purpose::Lane, None);
    let error = refusal(client, hpc.server(Purpose::Lane));
    assert!(error.contains("has expired"), "{error}");

    assert!(hpc.trust.unpin(&name("lab")));
    assert!(!hpc.trust.unpin(&name("hpc")), "one's own site stays");
    let error = refusal(lab.client(Purpose::Lane, None), hpc.server(Purpose::Lane));
    assert!(error.contains("`lab` is not paired"), "{error}");
}

/// Promise: existing TLS configurations show a renewed certificate from the next handshake on, at
/// both ends. A certificate is due for renewal when a third of its time is left. One that was
/// issued by a clock that was ahead is valid at once.
#[test]
fn a_renewed_certificate_is_shown_at_once() {
    let day = Duration::from_secs(24 * 3600);
    let now = SystemTime::now();
    let (mut lab, mut hpc) = paired("lab", "hpc");
    let until = |site: &Site| site.authority.begins().unwrap() + day / 2;
    for site in [&mut lab, &mut hpc] {
        let begins = site.authority.begins().unwrap();
        site.identity =
            site.authority.issue_between(site.identity.peer(), begins, until(site)).unwrap();
    }
    let (client, server) = (lab.client(Purpose::Lane, Some("hpc")), hpc.server(Purpose::Lane));
    let error = refusal(Arc::clone(&client), Arc::clone(&server));
    assert!(error.contains("expired"), "{error}");
    for site in [&lab, &hpc] {
        assert!(site.identity.is_stale(now));
        let ahead = now + day * 3000;
        let renewed = site.authority.issue_peer_at(site.identity.peer(), ahead).unwrap();
        site.identity.become_like(&renewed).unwrap();
        assert!(!site.identity.is_stale(ahead + day * 486));
        assert!(site.identity.is_stale(ahead + day * 487));
    }
    let (client, server) = handshake(client, server).unwrap();
    assert_eq!(client.peer_certificates().unwrap(), hpc.identity.chain());
    assert_eq!(server.peer_certificates().unwrap(), lab.identity.chain());
    assert!(lab.identity.become_like(&hpc.identity).is_err(), "another peer's");
}

/// The end of a pairing is counted, also where the site is paired again at once; a change of its
/// revoked keys alone ends none.
#[test]
fn an_ended_pairing_stays_visible() {
    let (hpc, lab) = paired("hpc", "lab");
    let endings = || hpc.trust.endings().get(&name("lab")).copied().unwrap_or_default();
    hpc.trust
        .replace(lab.authority.certificate().clone(), [lab.authority.fingerprint()].into())
        .unwrap();
    assert_eq!(endings(), 0);
    assert!(hpc.trust.unpin(&name("lab")));
    hpc.pair(&lab);
    assert_eq!(endings(), 1);
    hpc.trust.replace(Site::new("lab").authority.certificate().clone(), [].into()).unwrap();
    assert_eq!(endings(), 2);
}

/// Promise: a second authority cannot take a site's name by pairing once more.
#[test]
fn a_pinned_name_is_not_taken_over() {
    let (lab, hpc) = paired("lab", "hpc");
    let impostor = SiteAuthority::create(name("hpc")).unwrap();
    let error = lab.trust.pin(impostor.certificate().clone()).unwrap_err();
    assert!(matches!(error, TrustError::SiteTaken(_)), "{error}");
    assert_eq!(lab.trust.pin(hpc.authority.certificate().clone()).unwrap(), name("hpc"));
    let own = SiteAuthority::create(name("lab")).unwrap();
    assert!(lab.trust.pin(own.certificate().clone()).is_err(), "nor one's own");
}

/// D5: the site API lets in a client without certificate (for pairing), but none with a bad one;
/// lanes let in neither.
#[test]
fn d5_no_certificate_is_better_than_a_bad_one() {
    let (lab, hpc) = paired("lab", "hpc");
    let suites = preferred_suites();
    let nobody = pairing_client_config(hpc.authority.fingerprint(), &suites).unwrap();
    let (_, server) = handshake(nobody, hpc.server(Purpose::SiteApi)).unwrap();
    assert!(server.peer_certificates().is_none());

    let impostor = SiteAuthority::create(name("lab")).unwrap();
    let forged = impostor.issue_peer(&peer("lab", "dtn1")).unwrap();
    refusal(lab.client_as(&forged, Purpose::SiteApi, None), hpc.server(Purpose::SiteApi));

    let nobody = pairing_client_config(hpc.authority.fingerprint(), &suites).unwrap();
    let mut nobody = (*nobody).clone();
    nobody.alpn_protocols = vec![ALPN_LANE.to_vec()];
    let error = refusal(Arc::new(nobody), hpc.server(Purpose::Lane));
    assert!(error.contains("no certificates"), "{error}");
}

/// D5: a token survives pasting, pins the issuer, proves the joiner once and on one connection.
#[test]
fn d5_pairing_by_token() {
    let (lab, hpc) = (Site::new("lab"), Site::new("hpc"));
    let (issuer, joiner) = (lab.authority.fingerprint(), hpc.authority.fingerprint());
    let mut offer = PairingOffer::create("dtn1.lab.example:7443", issuer, 1_000).unwrap();
    let text = offer.token().to_text();
    let pasted = format!("  {}\n  {}\n", &text[..40], &text[40..]);
    let token: PairingToken = pasted.parse().unwrap();
    assert_eq!(token, *offer.token());
    assert!(!format!("{token:?}").contains("secret"), "the secret stays out of logs");

    let connect = || {
        let client = pairing_client_config(token.authority, &preferred_suites()).unwrap();
        handshake(client, lab.server(Purpose::SiteApi)).unwrap()
    };
    let (client, server) = connect();
    let chain = client.peer_certificates().unwrap();
    let authority = issuing_authority(chain, &token.authority).unwrap();
    assert_eq!(authority, *lab.authority.certificate());
    let exporter = pairing_exporter(&client).unwrap();
    assert_eq!(exporter, pairing_exporter(&server).unwrap());

    let proof = token.proof(&exporter, &joiner);
    let (_, elsewhere) = connect();
    let elsewhere = pairing_exporter(&elsewhere).unwrap();
    assert_eq!(offer.redeem(1_001, &elsewhere, &joiner, &proof), Err(PairingRefused::WrongProof));
    assert_eq!(offer.redeem(1_001, &exporter, &issuer, &proof), Err(PairingRefused::WrongProof));
    assert_eq!(offer.redeem(1_002, &exporter, &joiner, &proof), Ok(()));
    assert_eq!(offer.redeem(1_003, &exporter, &joiner, &proof), Err(PairingRefused::UsedUp));
}

/// D5: an offer ends after five wrong guesses or 15 minutes. A joiner that has not seen the token
/// uses up no guess.
#[test]
fn d5_a_token_is_not_guessed_and_not_kept() {
    let issuer = Site::new("lab").authority.fingerprint();
    let joiner = Fingerprint([1; 32]);
    let exporter = [2; 32];
    let mut offer = PairingOffer::create("h:1", issuer, 0).unwrap();
    let right = offer.token().proof(&exporter, &joiner);
    assert_eq!(
        offer.redeem(PAIRING_SECONDS + 1, &exporter, &joiner, &right),
        Err(PairingRefused::Expired)
    );
    let stranger = PairingOffer::create("h:1", issuer, 0).unwrap();
    let stranger = stranger.token().proof(&exporter, &joiner);
    for guess in [&stranger[..], &[], &[0; 48], &right[..8]] {
        for _ in 0..=PAIRING_TRIES {
            let refused = offer.redeem(1, &exporter, &joiner, guess);
            assert_eq!(refused, Err(PairingRefused::OtherOffer), "it costs no try");
        }
    }
    assert!(offer.is_open(1));
    let mut wrong = right;
    wrong[47] ^= 1;
    for _ in 0..PAIRING_TRIES {
        let refused = offer.redeem(1, &exporter, &joiner, &wrong);
        assert_eq!(refused, Err(PairingRefused::WrongProof));
    }
    assert!(!offer.is_open(1));
    assert_eq!(offer.redeem(1, &exporter, &joiner, &right), Err(PairingRefused::UsedUp));
}

/// D5: a joiner whose token names one authority does not speak to another.
#[test]
fn d5_the_joiner_refuses_another_issuer() {
    let (lab, evil) = (Site::new("lab"), Site::new("lab"));
    let client = pairing_client_config(lab.authority.fingerprint(), &preferred_suites()).unwrap();
    let error = refusal(client, evil.server(Purpose::SiteApi));
    assert!(error.contains("not the one that the token names"), "{error}");
}

/// Promise: damaged tokens are distinguished from other texts, and none causes a panic.
#[test]
fn damaged_tokens_are_refused() {
    let offer = PairingOffer::create("h:1", Fingerprint([7; 32]), 0).unwrap();
    let text = offer.token().to_text();
    for at in 0..text.len() {
        let mut damaged = text.to_string().into_bytes();
        damaged[at] = if damaged[at] == b'A' { b'B' } else { b'A' };
        let damaged = String::from_utf8(damaged).unwrap();
        assert!(damaged.parse::<PairingToken>().is_err(), "{damaged}");
        assert!(text[..at].parse::<PairingToken>().is_err());
    }
    assert_eq!("hello".parse::<PairingToken>(), Err(ParseTokenError::Prefix));
}

fn capability() -> Capability {
    Capability {
        transfer: TransferId([3; 16]),
        source: name("lab"),
        target: name("hpc"),
        store: name("raw"),
        root: b"run7".to_vec(),
        remove: true,
        expires: 5_000,
    }
}

/// C4: only a capability that this site signed grants a right, unaltered and until it expires.
#[test]
fn c4_capabilities_cannot_be_made_or_altered() {
    let (lab, other) = (Site::new("lab"), Site::new("lab"));
    let key = lab.authority.capability_key();
    let public = key.public_key();
    let signed = key.sign(&capability());
    assert_eq!(verify_capability(&signed, &public, 5_000), Ok(capability()));
    assert_eq!(
        verify_capability(&signed, &public, 5_007),
        Err(CapabilityError::Expired { seconds: 7 })
    );
    for at in 0..signed.len() {
        let mut altered = signed.clone();
        altered[at] ^= 1;
        let refused = verify_capability(&altered, &public, 0);
        assert_eq!(refused, Err(CapabilityError::Signature), "byte {at}");
    }
    let stranger = other.authority.capability_key().public_key();
    assert_eq!(verify_capability(&signed, &stranger, 0), Err(CapabilityError::Signature));
    assert_eq!(verify_capability(&signed[..63], &public, 0), Err(CapabilityError::Length));
}

/// Keys come back from disk as they were, and are refused if others may read them.
#[test]
fn keys_are_kept_private() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("trust");
    let lab = Site::new("lab");
    lab.authority.save(&path).unwrap();
    lab.identity.save(&path).unwrap();
    lab.identity.save(&path).unwrap();

    let authority = SiteAuthority::load(&path).unwrap();
    assert_eq!(authority.fingerprint(), lab.authority.fingerprint());
    assert_eq!(authority.site(), &name("lab"));
    let public = authority.capability_key().public_key();
    assert_eq!(public, lab.authority.capability_key().public_key());
    let identity = PeerCertificate::load(&path).unwrap();
    assert_eq!(identity.peer(), &peer("lab", "dtn1"));
    assert_eq!(identity.expires(), lab.identity.expires());
    let second = authority.issue_peer(&peer("lab", "dtn2")).unwrap();
    let client = lab.client_as(&second, Purpose::Lane, None);
    let suites = preferred_suites();
    let server = server_config(Purpose::Lane, &identity, &lab.trust, &suites).unwrap();
    handshake(client, server).unwrap();
    assert!(authority.issue_peer(&peer("hpc", "dtn1")).is_err(), "not for another site");

    for key in ["authority.key", "capability.key", "peer.key"] {
        let mode = std::fs::metadata(path.join(key)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{key}");
    }
    let open = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(path.join("authority.key"), open).unwrap();
    let error = SiteAuthority::load(&path).unwrap_err().to_string();
    assert!(error.contains("chmod 600"), "{error}");
}
