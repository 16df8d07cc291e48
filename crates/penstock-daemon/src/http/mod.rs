//! Requests over HTTP, and the port that they come to.
//!
//! | module | what it owns |
//! |---|---|
//! | `port` | the data port: lanes and HTTP, told apart |
//! | `socket` | the Unix socket of the local API |
//! | `exchange` | one request over a stream that is open already, and its reply |
//! | `connection` | the facts of a connection that a request came over |
//! | `router` | the routes of a peer of several: what it answers, what it forwards |
//! | `forward` | a request on its way to the controller |
//! | `local` | the local API `/api/v1` |
//! | `recovery` | the routes of the local API that need no controller |
//! | `site` | the site API `/site/v1` |
//! | `request_budget` | requests of paired sites, kept within their budgets |
//! | `request`, `reply`, `compressed` | bodies, parameters, answers |

pub(crate) mod compressed;
pub(crate) mod connection;
mod exchange;
pub(crate) mod forward;
pub(crate) mod local;
pub(crate) mod port;
pub(crate) mod recovery;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod request_budget;
pub(crate) mod router;
pub(crate) mod site;
pub(crate) mod socket;

pub use exchange::{decode, encode, problem_of, read, send};
