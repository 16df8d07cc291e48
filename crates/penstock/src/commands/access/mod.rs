//! Commands about users, their log-ins and tokens, and the audit log.

pub(crate) mod audit;
pub(crate) mod auth;
pub(crate) mod login;
mod password_prompt;
pub(crate) mod token;
pub(crate) mod user;
pub(crate) mod web;
