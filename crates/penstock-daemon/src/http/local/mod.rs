//! The local API of a daemon, for the command line and any other program: the handlers of all
//! endpoints ([`penstock_api::endpoints`]).
//!
//! Errors are RFC 9457 problem details. A process that may open the socket, and is root or the
//! daemon's own user, may do everything; no other process may do anything.
//!
//! | module | endpoints |
//! |---|---|
//! | `transfers` | transfers, their documents and plans |
//! | `queue` | the queue, its rules, the turns of single transfers |
//! | `events` | streams of events |
//! | `sites` | pairings, paths to other sites, the list of stores |
//! | `stores` | a store and its entries, also of paired sites; benchmarks |
//! | `audit` | the audit log |
//! | `peers` | the site and its peers |
//! | `users` | users, tokens, the caller itself |
//! | `figures` | figures for Prometheus, and those of transfers and peers over time |
//! | `webhooks` | webhooks and their deliveries |
//! | `login` | passwords, sessions, one-time links, approved programs |
//! | `recovery` | orders when hosts that run etcd are lost |
//! | `openapi` | the OpenAPI document, and the messages of all endpoints |
//! | `settings` | the configuration of the peer |
//! | `state` | none: the state that the handlers share |

mod audit;
mod events;
mod figures;
mod login;
pub(crate) mod openapi;
mod peers;
mod queue;
mod recovery;
mod settings;
mod sites;
mod state;
mod stores;
mod transfers;
mod users;
mod webhooks;

use penstock_api::endpoints::{self as api, TABLE};

use super::handlers::Handlers;
pub(crate) use state::LocalApi;

/// Returns the handlers of all endpoints.
///
/// # Errors
/// The handlers do not fit the table.
pub(crate) fn handlers() -> anyhow::Result<Handlers<LocalApi>> {
    let handlers = store_handlers(document_handlers(queue_handlers(Handlers::new())))
        .on(&api::LIST_TRANSFERS, transfers::list)
        .on(&api::SUBMIT_TRANSFER, transfers::submit)
        .on(&api::SHOW_TRANSFER, transfers::show)
        .on(&api::CHANGE_TRANSFER, transfers::change)
        .on(&api::PAUSE_TRANSFER, transfers::pause)
        .on(&api::RESUME_TRANSFER, transfers::resume)
        .on(&api::CANCEL_TRANSFER, transfers::cancel)
        .on(&api::RETRY_TRANSFER, transfers::retry)
        .on(&api::LIMIT_TRANSFER, transfers::limit)
        .on(&api::FOLLOW_TRANSFER, events::one)
        .on(&api::SHOW_TRANSFER_PATHS, transfers::paths)
        .on(&api::GET_SERIES, figures::series)
        .on(&api::GET_STATISTICS, figures::summary)
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
        .on(&api::LIST_PEERS, peers::list)
        .on(&api::INVITE_PEER, peers::invite)
        .on(&api::DRAIN_PEER, peers::drain)
        .on(&api::FORGET_PEER, peers::forget)
        .on(&api::SHOW_STATUS, peers::status)
        .on(&api::SHOW_HEALTH, peers::health)
        .on(&api::LIST_EVENTS, peers::events)
        .on(&api::SHOW_STATISTICS, figures::peers)
        .on(&api::ROTATE_KEYS, peers::rotate)
        .on(&api::EXAMINE_HOST, peers::doctor)
        .on(&api::SHOW_SETTINGS, settings::show)
        .on(&api::CHECK_SETTINGS, settings::check)
        .on(&api::RELOAD_SETTINGS, settings::reload)
        .on(&api::GET_OPENAPI, openapi::show)
        .on(&api::SHOW_ME, users::me)
        .on(&api::LIST_USERS, users::list)
        .on(&api::SHOW_USER, users::show)
        .on(&api::PUT_USER, users::put)
        .on(&api::REMOVE_USER, users::remove)
        .on(&api::LIST_TOKENS, users::tokens)
        .on(&api::CREATE_TOKEN, users::create_token)
        .on(&api::REVOKE_TOKEN, users::revoke_token)
        .on(&api::LIST_AUDIT, audit::list)
        .on(&api::TAKE_OVER, recovery::take_over)
        .on(&api::RECOVER, recovery::recover)
        .on(&api::REMOVE_HOST, recovery::remove)
        .on(&api::CHECK_LIFE, async || "ok\n")
        .on(&api::CHECK_READINESS, peers::ready)
        .on(&api::GET_METRICS, figures::metrics);
    let handlers = webhook_handlers(login_handlers(benchmark_handlers(handlers)));
    handlers.check(TABLE)?;
    Ok(handlers)
}

/// Adds the handlers of a transfer's documents, beside its state.
fn document_handlers(handlers: Handlers<LocalApi>) -> Handlers<LocalApi> {
    handlers
        .on(&api::GET_FAILURES, transfers::failures)
        .on(&api::GET_DIGESTS, transfers::digests)
        .on(&api::GET_CHECKSUMS, transfers::checksums)
        .on(&api::GET_RECEIPT, transfers::receipt)
        .on(&api::GET_FLIGHT, transfers::flight)
        .on(&api::GET_PIECES, transfers::pieces)
}

/// Adds the handlers of the queue.
fn queue_handlers(handlers: Handlers<LocalApi>) -> Handlers<LocalApi> {
    handlers
        .on(&api::SHOW_QUEUE, queue::show)
        .on(&api::SET_QUEUE_LIMIT, queue::set_limit)
        .on(&api::REMOVE_QUEUE_LIMIT, queue::remove_limit)
        .on(&api::SET_SHARE, queue::set_share)
        .on(&api::REMOVE_SHARE, queue::remove_share)
        .on(&api::SET_GROUP_SHARE, queue::set_group_share)
        .on(&api::REMOVE_GROUP_SHARE, queue::remove_group_share)
        .on(&api::SET_WINDOW, queue::set_window)
        .on(&api::REMOVE_WINDOW, queue::remove_window)
        .on(&api::SET_PAUSE_RULE, queue::set_pause_rule)
        .on(&api::REMOVE_PAUSE_RULE, queue::remove_pause_rule)
        .on(&api::ACT_ON_TRANSFERS, queue::act_on_many)
        .on(&api::SET_DEADLINE, queue::set_deadline)
        .on(&api::REMOVE_DEADLINE, queue::remove_deadline)
        .on(&api::SET_URGENT, queue::set_urgent)
        .on(&api::REMOVE_URGENT, queue::remove_urgent)
}

/// Registers the handlers of stores.
fn store_handlers(handlers: Handlers<LocalApi>) -> Handlers<LocalApi> {
    handlers
        .on(&api::LIST_STORES, sites::stores)
        .on(&api::SHOW_STORE, stores::show)
        .on(&api::LIST_ENTRIES, stores::entries)
        .on(&api::MAKE_DIRECTORY, stores::make_directory)
        .on(&api::LIST_SITE_STORES, stores::of_site)
        .on(&api::LIST_SITE_ENTRIES, stores::entries_of_site)
        .on(&api::SHOW_SITE_STORE_USAGE, stores::usage_of_site)
        .on(&api::MAKE_SITE_DIRECTORY, stores::make_directory_at)
}

/// Registers the handlers of benchmarks of stores.
fn benchmark_handlers(handlers: Handlers<LocalApi>) -> Handlers<LocalApi> {
    handlers
        .on(&api::LIST_BENCHMARKS, stores::benchmarks)
        .on(&api::START_BENCHMARK, stores::start_benchmark)
        .on(&api::END_BENCHMARK, stores::end_benchmark)
        .on(&api::CLEAN_BENCHMARKS, stores::clean_benchmarks)
}

/// Registers the handlers of webhooks.
fn webhook_handlers(handlers: Handlers<LocalApi>) -> Handlers<LocalApi> {
    handlers
        .on(&api::LIST_WEBHOOKS, webhooks::list)
        .on(&api::SHOW_WEBHOOK, webhooks::show)
        .on(&api::PUT_WEBHOOK, webhooks::put)
        .on(&api::REMOVE_WEBHOOK, webhooks::remove)
        .on(&api::TEST_WEBHOOK, webhooks::test)
        .on(&api::ROTATE_WEBHOOK, webhooks::rotate)
        .on(&api::LIST_DELIVERIES, webhooks::deliveries)
        .on(&api::REDELIVER, webhooks::redeliver)
}

/// Registers the handlers of log-ins.
fn login_handlers(handlers: Handlers<LocalApi>) -> Handlers<LocalApi> {
    handlers
        .on(&api::SET_PASSWORD, login::set_password)
        .on(&api::INVITE_USER, login::invite)
        .on(&api::LIST_AUTH_METHODS, login::methods)
        .on(&api::LOG_IN, login::log_in)
        .on(&api::LIST_SESSIONS, login::sessions)
        .on(&api::END_SESSION, login::end_session)
        .on(&api::MAKE_SETUP_LINK, login::make_setup_link)
        .on(&api::SET_UP, login::set_up)
        .on(&api::ACCEPT_INVITATION, login::accept_invitation)
        .on(&api::BEGIN_DEVICE, login::begin_device)
        .on(&api::GET_DEVICE_TOKEN, login::device_token)
        .on(&api::SHOW_DEVICE, login::show_device)
        .on(&api::APPROVE_DEVICE, login::approve_device)
        .on(&api::BEGIN_OIDC, login::begin_oidc)
        .on(&api::FINISH_OIDC, login::finish_oidc)
        .on(&api::END_OIDC, login::end_oidc)
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
