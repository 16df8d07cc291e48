//! Renews this peer's certificate in good time: its host has the site's authority.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use penstock_net::trust::{PeerCertificate, SiteAuthority, TrustError};
use penstock_proto::id::PeerId;
use tokio::sync::watch;

use crate::site::context::Site;
use crate::site_directory::TRUST_DIRECTORY;

/// The interval at which certificates are checked.
const LOOK: Duration = Duration::from_secs(3600);

/// Returns the certificate that is on disk. Key and certificate are two files: where they do not
/// belong together, as after a crash between the two, both are made again. Blocks on storage.
///
/// # Errors
/// The certificate cannot be read, or not be made.
pub(crate) fn load(
    authority: &SiteAuthority,
    peer: &PeerId,
    trust: &Path,
) -> Result<PeerCertificate, TrustError> {
    match PeerCertificate::load(trust) {
        Err(TrustError::Tls(error)) => {
            tracing::warn!(%error, "the key does not match the certificate of this peer; making a \
                                    new one");
            let issued = authority.issue_peer(peer)?;
            // A disk that is full, as it may have been when the pair was torn, stops no host.
            if let Err(error) = issued.save(trust) {
                tracing::error!(%error, "the certificate cannot be stored; the next start makes \
                                         another one");
            }
            Ok(issued)
        }
        loaded => loaded,
    }
}

/// Issues another certificate if a third of this one's time is left; it is shown from the next
/// connection on. Returns whether one was issued. Blocks on storage.
///
/// # Errors
/// The new certificate cannot be stored. The old one stays in use while it is valid, then the new
/// one is used without being stored.
pub(crate) fn renew(
    identity: &PeerCertificate,
    authority: &SiteAuthority,
    trust: &Path,
    now: SystemTime,
) -> Result<bool, TrustError> {
    if !identity.is_stale(now) {
        return Ok(false);
    }
    let issued = authority.issue_peer_at(identity.peer(), now)?;
    let stored = issued.save(trust);
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    if stored.is_ok() || identity.expires() <= now {
        identity.become_like(&issued)?;
    }
    stored.map(|()| true)
}

/// Looks at this peer's certificate until `stop` is true.
pub(crate) async fn watch(site: Arc<Site>, mut stop: watch::Receiver<bool>) {
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            _ = stop.changed() => return,
            _ = look.tick() => {}
        }
        let own = Arc::clone(&site);
        let renewed = tokio::task::spawn_blocking(move || {
            let trust = own.directory.join(TRUST_DIRECTORY);
            let _turn = own.rotation.lock().unwrap_or_else(PoisonError::into_inner);
            renew(&own.identity, &own.keys().authority, &trust, SystemTime::now())
        });
        match renewed.await {
            Ok(Ok(false)) => {}
            Ok(Ok(true)) => tracing::info!("this peer's certificate was renewed"),
            Ok(Err(error)) => {
                let expires = site.identity.expires();
                tracing::error!(%error, expires, "this peer's certificate cannot be renewed");
            }
            Err(error) => tracing::error!(%error, "cannot check the certificate of this peer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// Promise: a peer's certificate never expires while its daemon runs or is started: the
    /// certificate is renewed in good time, and on disk. If it cannot be stored, the old one is
    /// used while it is valid, and the new one after that. A crash during a renewal costs nothing.
    #[test]
    fn a_certificate_is_renewed_in_good_time() {
        let directory = tempfile::tempdir().unwrap();
        let trust = directory.path().join("trust");
        let authority = SiteAuthority::create("lab".parse().unwrap()).unwrap();
        let peer = PeerId { site: "lab".parse().unwrap(), peer: "dtn1".parse().unwrap() };
        let first = authority.issue_peer(&peer).unwrap();
        first.save(&trust).unwrap();
        let identity = load(&authority, &peer, &trust).unwrap();
        let now = SystemTime::now();
        assert!(!renew(&identity, &authority, &trust, now + DAY * 400).unwrap());
        assert_eq!(identity.expires(), first.expires());
        // A file in the place of the directory: nothing can be stored there.
        let nowhere = directory.path().join("file/trust");
        std::fs::write(directory.path().join("file"), "").unwrap();
        renew(&identity, &authority, &nowhere, now + DAY * 500).unwrap_err();
        assert_eq!(identity.expires(), first.expires(), "it is good for a while");
        renew(&identity, &authority, &nowhere, now + DAY * 731).unwrap_err();
        assert!(identity.expires() > first.expires(), "better one that is not stored than none");
        let identity = load(&authority, &peer, &trust).unwrap();
        assert!(renew(&identity, &authority, &trust, now + DAY * 500).unwrap());
        let stored = load(&authority, &peer, &trust).unwrap();
        assert_eq!(stored.chain(), identity.chain());
        assert_ne!(stored.chain(), first.chain());
        // Cut short between the key and the certificate.
        let old = std::fs::read(trust.join("peer.pem")).unwrap();
        authority.issue_peer(&peer).unwrap().save(&trust).unwrap();
        std::fs::write(trust.join("peer.pem"), old).unwrap();
        let mended = load(&authority, &peer, &trust).unwrap();
        assert_eq!(*mended.peer(), peer);
        assert_eq!(load(&authority, &peer, &trust).unwrap().chain(), mended.chain());
    }
}
