//! The local API of a daemon, for the command line and any other program: the handlers of all
//! endpoints ([`penstock_api::endpoints`]).
//!
//! Errors are RFC 9457 problem details. A process that may open the socket, and is root or the
//! daemon's own user, may do everything; no other process may do anything.
//!
//! | module | endpoints |
//! |---|---|
//! | `transfers` | transfers, their documents and plans |
//! | `events` | streams of events |
//! | `sites` | pairings, paths to other sites, stores |
//! | `peers` | the site and its peers |
//! | `users` | users, tokens, the caller itself |
//! | `webhooks` | webhooks and their deliveries |
//! | `recovery` | orders when hosts that run etcd are lost |
//! | `settings` | the configuration of the peer |
//! | `state` | none: what the handlers share |

mod events;
mod peers;
mod recovery;
mod settings;
mod sites;
mod state;
mod transfers;
mod users;
mod webhooks;

use penstock_api::endpoints::{self as api, TABLE};

use super::handlers::Handlers;
pub(crate) use state::LocalApi;

/// Returns the handlers of all endpoints.
///
/// # Errors
/// They do not fit the table.
pub(crate) fn handlers() -> anyhow::Result<Handlers<LocalApi>> {
    let handlers = Handlers::new()
        .on(&api::LIST_TRANSFERS, transfers::list)
        .on(&api::SUBMIT_TRANSFER, transfers::submit)
        .on(&api::SHOW_TRANSFER, transfers::show)
        .on(&api::CHANGE_TRANSFER, transfers::change)
        .on(&api::PAUSE_TRANSFER, transfers::pause)
        .on(&api::RESUME_TRANSFER, transfers::resume)
        .on(&api::CANCEL_TRANSFER, transfers::cancel)
        .on(&api::RETRY_TRANSFER, transfers::retry)
        .on(&api::LIMIT_TRANSFER, transfers::limit)
        .on(&api::GET_FAILURES, transfers::failures)
        .on(&api::GET_DIGESTS, transfers::digests)
        .on(&api::GET_CHECKSUMS, transfers::checksums)
        .on(&api::GET_RECEIPT, transfers::receipt)
        .on(&api::FOLLOW_TRANSFER, events::one)
        .on(&api::SHOW_TRANSFER_PATHS, transfers::paths)
        .on(&api::FOLLOW_TRANSFERS, events::all)
        .on(&api::LIST_ORPHANS, transfers::orphans)
        .on(&api::REMOVE_ORPHANS, transfers::remove_orphans)
        .on(&api::MAKE_PLAN, transfers::make_plan)
        .on(&api::UPLOAD_PLAN, transfers::upload_plan)
        .on(&api::LIST_SITES, sites::list)
        .on(&api::UNPAIR, sites::unpair)
        .on(&api::OFFER_PAIRING, sites::offer)
        .on(&api::PAIR, sites::pair)
        .on(&api::SHOW_PATHS, sites::paths)
        .on(&api::EXAMINE_PAIR, sites::doctor)
        .on(&api::LIST_STORES, sites::stores)
        .on(&api::LIST_PEERS, peers::list)
        .on(&api::INVITE_PEER, peers::invite)
        .on(&api::DRAIN_PEER, peers::drain)
        .on(&api::FORGET_PEER, peers::forget)
        .on(&api::SHOW_STATUS, peers::status)
        .on(&api::SHOW_HEALTH, peers::health)
        .on(&api::LIST_EVENTS, peers::events)
        .on(&api::ROTATE_KEYS, peers::rotate)
        .on(&api::EXAMINE_HOST, peers::doctor)
        .on(&api::SHOW_QUEUE, transfers::queue)
        .on(&api::SHOW_SETTINGS, settings::show)
        .on(&api::CHECK_SETTINGS, settings::check)
        .on(&api::RELOAD_SETTINGS, settings::reload)
        .on(&api::SHOW_ME, users::me)
        .on(&api::LIST_USERS, users::list)
        .on(&api::SHOW_USER, users::show)
        .on(&api::PUT_USER, users::put)
        .on(&api::REMOVE_USER, users::remove)
        .on(&api::LIST_TOKENS, users::tokens)
        .on(&api::CREATE_TOKEN, users::create_token)
        .on(&api::REVOKE_TOKEN, users::revoke_token)
        .on(&api::LIST_WEBHOOKS, webhooks::list)
        .on(&api::SHOW_WEBHOOK, webhooks::show)
        .on(&api::PUT_WEBHOOK, webhooks::put)
        .on(&api::REMOVE_WEBHOOK, webhooks::remove)
        .on(&api::TEST_WEBHOOK, webhooks::test)
        .on(&api::ROTATE_WEBHOOK, webhooks::rotate)
        .on(&api::LIST_DELIVERIES, webhooks::deliveries)
        .on(&api::REDELIVER, webhooks::redeliver)
        .on(&api::TAKE_OVER, recovery::take_over)
        .on(&api::RECOVER, recovery::recover)
        .on(&api::REMOVE_HOST, recovery::remove)
        .on(&api::CHECK_LIFE, async || "ok\n")
        .on(&api::GET_METRICS, transfers::metrics);
    handlers.check(TABLE)?;
    Ok(handlers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the daemon has one handler for each endpoint of the table, and no other.
    #[test]
    fn each_endpoint_has_a_handler() {
        handlers().map(drop).unwrap();
    }
}
