//! Faults of certificates, keys and pairings, for rustls and for an operator.

use std::path::PathBuf;
use std::sync::Arc;

use penstock_proto::frame::CipherSuite;
use penstock_proto::id::{Name, PeerId};
use rustls::{AlertDescription, CertificateError, Error, OtherError};

/// A fault of a certificate, a key or a pairing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// A file of keys or certificates could not be read or written.
    #[error("{action} `{path}`")]
    File {
        /// The action that failed: "read", "write", …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Users besides its owner may read a private key.
    #[error("`{path}` holds a private key and is open to others (mode {mode:o}); `chmod 600` it")]
    KeyExposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A file holds no such thing.
    #[error("`{path}` holds no {what}")]
    Content {
        /// The file.
        path: PathBuf,
        /// The kind of section that was expected.
        what: &'static str,
    },
    /// A certificate could not be made.
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    /// A key could not be made or used.
    #[error("the cryptographic library refused a key")]
    Key,
    /// A certificate has a fault.
    #[error("certificate refused: {0}")]
    Certificate(&'static str),
    /// The peer's site has revoked the key of its certificate.
    #[error("site `{}` has revoked the key of its peer `{}`", .0.site, .0.peer)]
    Revoked(PeerId),
    /// A certificate belongs to a peer of a site that is not paired with ours.
    #[error("`{0}` is not paired with this site")]
    NotPaired(Name),
    /// The peer is of another site than the one wanted.
    #[error("expected a peer of site `{expected}`, found `{found}`")]
    WrongSite {
        /// The site that was wanted.
        expected: Name,
        /// The peer that answered.
        found: PeerId,
    },
    /// A different authority is already pinned under the same site name.
    #[error("site `{0}` is known already, with another authority; unpair it first")]
    SiteTaken(Name),
    /// A transfer asks for a suite that the site's configuration excludes.
    #[error("this site does not allow the cipher suite `{0}`; see `cipher_suites`")]
    SuiteNotAllowed(CipherSuite),
    /// TLS configuration was refused.
    #[error("TLS cannot be configured")]
    Tls(#[from] rustls::Error),
}

/// Turns an error of ours into one that rustls reports, with an alert to the other end.
pub(super) fn refused(error: TrustError) -> rustls::Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
}

/// Returns whether a TLS error means that one end does not trust the other, so that a retry will
/// not help. Any other error may come from a bit that was flipped on the way, which breaks a
/// handshake as well, and a retry may succeed.
pub fn is_distrust(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(_)
            | Error::NoCertificatesPresented
            | Error::AlertReceived(
                AlertDescription::BadCertificate
                    | AlertDescription::UnsupportedCertificate
                    | AlertDescription::CertificateRevoked
                    | AlertDescription::CertificateExpired
                    | AlertDescription::CertificateUnknown
                    | AlertDescription::UnknownCA
                    | AlertDescription::AccessDenied
                    | AlertDescription::DecryptError
                    | AlertDescription::CertificateRequired
            )
    )
}

/// Returns whether the other end sent `handshake_failure` (RFC 8446, section 6.2). rustls sends it
/// where no cipher suite or key exchange is common, and where the hello was damaged on the way.
pub fn has_no_common_suite(error: &Error) -> bool {
    matches!(error, Error::AlertReceived(AlertDescription::HandshakeFailure))
}

/// Returns a TLS error in the words of an operator: the certificate that was rejected, by which
/// end, and the reason.
pub fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::Other(inner)) => inner.to_string(),
        Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "the peer's certificate has expired".to_owned(),
        Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => "the peer's certificate is not valid yet; compare the clocks".to_owned(),
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => "the peer's certificate is not signed by the authority pinned for its site".to_owned(),
        Error::AlertReceived(
            alert @ (AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied),
        ) => format!("the other end refuses our certificate ({alert:?}); its log says why"),
        Error::AlertReceived(AlertDescription::CertificateExpired) => {
            "the other end reports that our certificate has expired".to_owned()
        }
        error if has_no_common_suite(error) => {
            "the other end has no cipher suite in common with this one; compare `cipher_suites` of \
             both sites, and `--cipher-suite`"
                .to_owned()
        }
        other => other.to_string(),
    }
}
