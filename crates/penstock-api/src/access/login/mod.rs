//! The ways in which people prove who they are: passwords, browser sessions, one-time links, an
//! OpenID provider, and the device grant of RFC 8628.

mod device;
mod identity;
mod link;
mod methods;
mod secret;
mod session;

pub use device::{
    DEVICE_CODE_SECONDS, DEVICE_GRANT, DeviceApproval, DeviceAuthorization, DeviceDecision,
    DeviceError, DeviceErrorCode, DeviceRequest, DeviceToken, DeviceTokenRequest, DeviceView,
    UserCode,
};
pub use identity::ProviderIdentity;
pub use link::{InvitationRequest, Link, LinkCode, LinkPurpose, LinkView, SetUpRequest};
pub use methods::{AuthMethods, ProviderMethod};
pub use secret::{PASSWORD_BYTES_MAX, PASSWORD_CHARS_MIN, PasswordHash, PasswordRequest, Secret};
pub use session::{
    SESSION_COOKIE, SESSIONS_OF_USER_MAX, Session, SessionCookie, SessionLimits, SessionRequest,
    SessionView,
};
