//! Requests over HTTP, and the port that receives them.
//!
//! | module | duty |
//! |---|---|
//! | `port` | the data port: lanes and HTTP, and their distinction |
//! | `web` | the HTTPS listener of the API, and the web page |
//! | `origin` | the address of a client, the host it asked for, the page that sent the request |
//! | `client` | the principal and the id of a request |
//! | `socket` | the Unix socket of the local API |
//! | `exchange` | one request over a stream that is open already, and its reply |
//! | `connection` | the facts of a request's connection |
//! | `router` | routes: requests that this peer answers, and those for the controller |
//! | `forward` | a request on its way to the controller |
//! | `handlers` | handlers of endpoints, registered by their entries in the table |
//! | `local` | the local API `/api/v1` |
//! | `site` | the site API `/site/v1` |
//! | `request_budget` | requests of paired sites, kept within their budgets |
//! | `request`, `reply`, `compressed` | bodies, parameters, answers |

pub(crate) mod client;
pub(crate) mod compressed;
pub(crate) mod connection;
mod exchange;
pub(crate) mod forward;
mod handlers;
pub(crate) mod local;
pub(crate) mod origin;
pub(crate) mod port;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod request_budget;
pub(crate) mod router;
pub(crate) mod site;
pub(crate) mod socket;
pub mod web;

pub use exchange::{decode, encode, exchange, problem_of, read, send, send_as};
