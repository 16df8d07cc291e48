//! Succession of a site's authority: the statement about its keys.
//!
//! A statement names the new authority, a sequence number and the keys of peers that are revoked.
//! The earlier authority and the new one sign its bytes. This module signs and checks the bytes;
//! the caller reads their content.

use std::path::Path;

use super::authority::SiteAuthority;
use super::error::TrustError;
use super::facts::AuthorityFacts;
use super::pem;
use super::receipt::verify_by_authority;

/// Beginning of the signed bytes, so that no other signature of an authority is one of these.
const DOMAIN: &[u8] = b"penstock keys of a site 1\n";

fn signed(statement: &[u8]) -> Vec<u8> {
    [DOMAIN, statement].concat()
}

impl SiteAuthority {
    /// Signs a statement about the site's keys: ECDSA P-256 with SHA-256, DER.
    ///
    /// # Errors
    /// `Make` if the cryptographic library fails, which it does not in practice.
    pub fn sign_keys(&self, statement: &[u8]) -> Result<Vec<u8>, TrustError> {
        Ok(rcgen::SigningKey::sign(self.issuer.key(), &signed(statement))?)
    }
}

/// Checks that the authority with this certificate signed a statement about its site's keys, and
/// returns the site of the authority.
///
/// # Errors
/// `Certificate`: it is not that of a site, or did not sign these bytes.
pub fn verify_keys(
    authority: &[u8],
    statement: &[u8],
    signature: &[u8],
) -> Result<AuthorityFacts, TrustError> {
    verify_by_authority(authority, &signed(statement), signature)
}

/// Writes an authority's certificate, DER, as PEM; an existing file is replaced. Blocks on storage.
///
/// # Errors
/// `File` if it cannot be written.
pub fn save_authority(path: &Path, certificate: &[u8]) -> Result<(), TrustError> {
    pem::write_file(path, 0o644, pem::section("CERTIFICATE", certificate).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{handshake, name, paired, peer};
    use super::super::{LINKS_MAX, PeerCertificate, Purpose};
    use super::*;

    /// Promise: peers with certificates of a new authority are accepted where the old one is still
    /// pinned, and few rotations later. Once the new one is pinned, signatures of the old one are
    /// refused.
    #[test]
    fn a_new_authority_is_accepted_by_the_pin_of_the_old_one() {
        let (lab, hpc) = paired("lab", "hpc");
        let mut authority = lab.authority.succeed().unwrap();
        for rotation in 1..LINKS_MAX {
            lab.identity.become_like(&authority.issue_peer(&peer("lab", "dtn1")).unwrap()).unwrap();
            let server = lab.server(Purpose::Lane);
            let client = hpc.client(Purpose::Lane, Some("lab"));
            handshake(client, server).unwrap_or_else(|error| panic!("{rotation}: {error}"));
            let (server, client) = (hpc.server(Purpose::Lane), lab.client(Purpose::Lane, None));
            handshake(client, server).unwrap();
            authority = authority.succeed().unwrap();
        }
        hpc.trust.replace(authority.certificate().clone(), [].into()).unwrap();
        let refused = handshake(hpc.client(Purpose::Lane, None), lab.server(Purpose::Lane));
        assert!(refused.is_err(), "an authority of before signs for a peer");
        lab.identity.become_like(&authority.issue_peer(&peer("lab", "dtn1")).unwrap()).unwrap();
        handshake(hpc.client(Purpose::Lane, None), lab.server(Purpose::Lane)).unwrap();
        let other = SiteAuthority::create(name("lab")).unwrap();
        assert!(
            verify_keys(other.certificate(), b"x", &authority.sign_keys(b"x").unwrap()).is_err()
        );
        verify_keys(authority.certificate(), b"x", &authority.sign_keys(b"x").unwrap()).unwrap();
    }

    /// Promise: a revoked key is refused in both directions, though its certificate is sound, and
    /// connections with it lose their trust; another key of the same peer is accepted.
    #[test]
    fn a_revoked_key_is_refused() {
        let (lab, hpc) = paired("lab", "hpc");
        let standing = hpc.trust.vouched(&lab.identity.chain()).unwrap();
        assert!(hpc.trust.vouches(&standing));
        let ca = lab.authority.certificate().clone();
        hpc.trust.replace(ca, [lab.identity.key().unwrap()].into()).unwrap();
        assert!(!hpc.trust.vouches(&standing));
        assert!(hpc.trust.vouched(&lab.identity.chain()).is_err());
        let refused = handshake(hpc.client(Purpose::Lane, None), lab.server(Purpose::Lane));
        let why = super::super::explain(&refused.unwrap_err());
        assert_eq!(why, "site `lab` has revoked the key of its peer `dtn1`");
        let refused = handshake(lab.client(Purpose::Lane, None), hpc.server(Purpose::Lane));
        assert!(refused.is_err());
        lab.identity.become_like(&lab.authority.issue_peer(&peer("lab", "dtn1")).unwrap()).unwrap();
        handshake(lab.client(Purpose::Lane, None), hpc.server(Purpose::Lane)).unwrap();
    }

    /// Promise: the links by which earlier pins accept a site survive on disk.
    #[test]
    fn links_are_saved_with_the_authority() {
        let directory = tempfile::tempdir().unwrap();
        let authority = SiteAuthority::create(name("lab")).unwrap().succeed().unwrap();
        authority.save(directory.path()).unwrap();
        let loaded = SiteAuthority::load(directory.path()).unwrap();
        let chain = |authority: &SiteAuthority| {
            authority.issue_peer(&peer("lab", "dtn1")).unwrap().chain()[1..].to_vec()
        };
        assert_eq!((chain(&loaded), chain(&loaded).len()), (chain(&authority), 2));
        authority.issue_peer(&peer("lab", "dtn1")).unwrap().save(directory.path()).unwrap();
        assert_eq!(PeerCertificate::load(directory.path()).unwrap().chain().len(), 3);
    }
}
