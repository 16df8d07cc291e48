//! The table of all endpoints.

use super::{AnsweredBy, Endpoint, EndpointGroup, Method, Repeat};
use crate::access::Right;

macro_rules! endpoints {
    ($( $group:literal: $(
        $name:ident $method:ident $path:literal $answered_by:ident $repeat:ident $right:ident
        $summary:literal;
    )+ )+) => {
        $($(
            #[doc = $summary]
            pub static $name: Endpoint = Endpoint {
                name: stringify!($name),
                method: Method::$method,
                path: $path,
                answered_by: AnsweredBy::$answered_by,
                repeat: Repeat::$repeat,
                right: Right::$right,
                summary: $summary,
            };
        )+)+

        /// Every endpoint, by areas.
        pub static TABLE: &[EndpointGroup] = &[$( EndpointGroup {
            name: $group,
            endpoints: &[$( &$name, )+],
        }, )+];
    };
}

endpoints! {
    "Transfers":
    LIST_TRANSFERS Get "/api/v1/transfers" Controller Safe SeeTransfers
        "Lists transfers, newest first, by filters, `sort`, `cursor` and `limit`.";
    SUBMIT_TRANSFER Post "/api/v1/transfers" Controller ByClientId Submit
        "Submits a transfer under the id in the request: 201, or 200 if the id exists.";
    SHOW_TRANSFER Get "/api/v1/transfers/{id}" Controller Safe SeeTransfers
        "Shows a transfer, by its id or a unique prefix of it; `include=options` adds its paths.";
    CHANGE_TRANSFER Patch "/api/v1/transfers/{id}" Controller Idempotent Steer
        "Changes the label, priority, limits or start of a transfer, by a merge patch.";
    PAUSE_TRANSFER Post "/api/v1/transfers/{id}/pause" Controller Idempotent Steer
        "Stops a transfer and keeps its ledger; it resumes by itself at the time `until`.";
    RESUME_TRANSFER Post "/api/v1/transfers/{id}/resume" Controller Idempotent Steer
        "Continues a paused transfer.";
    CANCEL_TRANSFER Post "/api/v1/transfers/{id}/cancel" Controller Idempotent Steer
        "Cancels a transfer and removes its temporary files.";
    RETRY_TRANSFER Post "/api/v1/transfers/{id}/retry" Controller Once Steer
        "Retries a failed transfer with the files that are missing.";
    ACT_ON_TRANSFERS Post "/api/v1/transfer-actions" Controller Once Steer
        "Pauses, resumes, cancels or retries up to 500 transfers, by ids or by a filter.";
    SET_DEADLINE Put "/api/v1/transfers/{id}/deadline" Controller Idempotent Steer
        "Sets the deadline of a transfer: 422 with the forecast if it cannot be promised.";
    REMOVE_DEADLINE Delete "/api/v1/transfers/{id}/deadline" Controller Idempotent Steer
        "Removes the deadline of a transfer.";
    SET_URGENT Put "/api/v1/transfers/{id}/urgent" Controller Idempotent Operate
        "Makes a transfer urgent: it starts before all fair shares.";
    REMOVE_URGENT Delete "/api/v1/transfers/{id}/urgent" Controller Idempotent Operate
        "Returns an urgent transfer to its turn in the queue.";
    LIMIT_TRANSFER Post "/api/v1/transfers/{id}/limits" Controller Idempotent Steer
        "Changes the limits of a transfer. Deprecated: `PATCH` the transfer.";
    GET_FAILURES Get "/api/v1/transfers/{id}/failures" Controller Safe SeeTransfers
        "Returns the list of failed items.";
    GET_DIGESTS Get "/api/v1/transfers/{id}/digests" Controller Safe SeeTransfers
        "Returns the digests of all files, as `b3sum --check` reads them.";
    GET_CHECKSUMS Get "/api/v1/transfers/{id}/checksums/{kind}" Controller Safe SeeTransfers
        "Returns the checksums of a further kind.";
    GET_RECEIPT Get "/api/v1/transfers/{id}/receipt" Controller Safe SeeTransfers
        "Returns the signed receipt of a transfer that has ended.";
    GET_FLIGHT Get "/api/v1/transfers/{id}/flight" Controller Safe SeeTransfers
        "Returns the last decisions about a transfer, as its flight recorder keeps them.";
    GET_PIECES Get "/api/v1/transfers/{id}/pieces" Controller Safe SeeTransfers
        "Returns the piece map of a transfer: the state of its bytes, in planned order.";
    FOLLOW_TRANSFER Get "/api/v1/transfers/{id}/events" Controller Safe SeeTransfers
        "Streams the status of a transfer until it ends (server-sent events).";
    SHOW_TRANSFER_PATHS Get "/api/v1/transfers/{id}/paths" Controller Safe SeeTransfers
        "Shows the peers that work for a transfer, and their paths; `owner` names its site.";
    GET_SERIES Get "/api/v1/transfers/{id}/series" Controller Safe SeeTransfers
        "Returns the figures of a transfer over time, as this site measured them.";
    GET_STATISTICS Get "/api/v1/transfers/{id}/statistics" Controller Safe SeeTransfers
        "Returns quantiles of the figures of a transfer and of each processor; its energy.";
    FOLLOW_TRANSFERS Get "/api/v1/events" Controller Safe SeeTransfers
        "Streams the events of all transfers of the site (server-sent events).";
    LIST_ORPHANS Get "/api/v1/orphans" Controller Safe Operate
        "Lists the temporary files of abandoned transfers.";
    REMOVE_ORPHANS Delete "/api/v1/orphans" Controller Idempotent Operate
        "Removes the temporary files of abandoned transfers.";

    "Queue":
    SHOW_QUEUE Get "/api/v1/queue" Controller Safe Operate
        "Shows the transfers that wait in order, with reasons and forecasts; users, limits, rules.";
    SET_QUEUE_LIMIT Put "/api/v1/queue/limits/{kind}/{name}" Controller Idempotent Operate
        "Limits the transfers of the site, or of a pair, store or user, together.";
    REMOVE_QUEUE_LIMIT Delete "/api/v1/queue/limits/{kind}/{name}" Controller Idempotent Operate
        "Removes a limit.";
    SET_SHARE Put "/api/v1/queue/shares/{user}" Controller Idempotent Operate
        "Sets the weight of the share of a user.";
    REMOVE_SHARE Delete "/api/v1/queue/shares/{user}" Controller Idempotent Operate
        "Resets the weight of the share of a user.";
    SET_GROUP_SHARE Put "/api/v1/queue/group-shares/{group}" Controller Idempotent Operate
        "Sets the weight of the share of a group; the group `none` has all users without a group.";
    REMOVE_GROUP_SHARE Delete "/api/v1/queue/group-shares/{group}" Controller Idempotent Operate
        "Resets the weight of the share of a group.";
    SET_WINDOW Put "/api/v1/queue/windows/{name}" Controller Idempotent Operate
        "Creates or changes a window: a time of the week with limits of its own.";
    REMOVE_WINDOW Delete "/api/v1/queue/windows/{name}" Controller Idempotent Operate
        "Removes a window.";
    SET_PAUSE_RULE Put "/api/v1/queue/pause-rules/{name}" Controller Idempotent Operate
        "Pauses all transfers that match a filter, running ones too.";
    REMOVE_PAUSE_RULE Delete "/api/v1/queue/pause-rules/{name}" Controller Idempotent Operate
        "Removes a pause rule, and releases its transfers.";

    "Plans":
    MAKE_PLAN Post "/api/v1/plans" Controller ByClientId Submit
        "Lists the changes that a transfer would make, and makes none.";
    UPLOAD_PLAN Post "/api/v1/plans/{id}" Controller Idempotent Submit
        "Stores a part of a plan at its `offset`, for the transfer of this id to follow.";

    "Sites and stores":
    LIST_SITES Get "/api/v1/sites" Controller Safe SeeSite
        "Lists this site and those that it is paired with.";
    UNPAIR Delete "/api/v1/sites/{site}" Controller Idempotent Administer
        "Ends the pairing with a site.";
    OFFER_PAIRING Post "/api/v1/pairing-offers" Controller Idempotent Administer
        "Makes a token with which another site pairs with this one.";
    PAIR Post "/api/v1/pairings" Controller Once Administer
        "Pairs with the site that issued a token.";
    SHOW_PATHS Get "/api/v1/sites/{site}/paths" AnyPeer Safe Operate
        "Tests each path to a paired site, from both ends.";
    EXAMINE_PAIR Get "/api/v1/sites/{site}/doctor" AnyPeer Safe Operate
        "Tests the paths to a paired site, and describes the fault of each.";
    LIST_STORES Get "/api/v1/stores" ThisPeer Safe SeeSite
        "Lists the stores of the peer, with their rights.";
    SHOW_STORE Get "/api/v1/stores/{store}" AnyPeer Safe SeeSite
        "Shows a store: its state, its room, the peers that have it, the caller's rights.";
    LIST_ENTRIES Get "/api/v1/stores/{store}/entries" AnyPeer Safe ListStores
        "Lists a directory, by `path`, `prefix`, `kind`, `sort`, `cursor` and `limit`.";
    MAKE_DIRECTORY Post "/api/v1/stores/{store}/directories" AnyPeer Idempotent Submit
        "Makes a directory whose parent exists; code `entry-exists` if the directory exists.";
    LIST_BENCHMARKS Get "/api/v1/stores/{store}/benchmarks" Controller Safe SeeSite
        "Lists the benchmarks of a store: the running one, and the results of others.";
    START_BENCHMARK Post "/api/v1/stores/{store}/benchmarks" Controller Once Operate
        "Measures a store on several peers at once; 409 while another benchmark runs.";
    END_BENCHMARK Delete "/api/v1/stores/{store}/benchmarks/{id}" Controller Idempotent Operate
        "Ends a running benchmark, or removes a result.";
    CLEAN_BENCHMARKS Post "/api/v1/stores/{store}/benchmark-cleanups" Controller Idempotent Operate
        "Removes the files of interrupted benchmarks in a directory of a store.";
    LIST_SITE_STORES Get "/api/v1/sites/{site}/stores" AnyPeer Safe ListStores
        "Lists the stores of a paired site that this site may read or write.";
    LIST_SITE_ENTRIES Get "/api/v1/sites/{site}/stores/{store}/entries" AnyPeer Safe ListStores
        "Lists a directory of a store of a paired site, as one of this site.";
    SHOW_SITE_STORE_USAGE Get "/api/v1/sites/{site}/stores/{store}/usage" AnyPeer Safe ListStores
        "Shows the size of a store of a paired site, and its free bytes.";
    MAKE_SITE_DIRECTORY Post "/api/v1/sites/{site}/stores/{store}/directories" AnyPeer Idempotent
        Submit
        "Makes a directory in a store of a paired site, if this site may write there.";

    "Peers":
    LIST_PEERS Get "/api/v1/peers" AnyPeer Safe SeeSite
        "Lists the peers of the site with their work.";
    INVITE_PEER Post "/api/v1/peer-invitations" Controller Idempotent Administer
        "Makes a token with which a host joins the site.";
    DRAIN_PEER Post "/api/v1/peers/{peer}/drain" Controller Idempotent Operate
        "Drains a peer, which then gets no new work, or ends the drain.";
    FORGET_PEER Post "/api/v1/peers/{peer}/forget" Controller Idempotent Administer
        "Forgets a peer that will not return, and locks its host out.";

    "The site":
    SHOW_STATUS Get "/api/v1/status" ThisPeer Safe SeeSite
        "Shows the daemon and its site in short.";
    SHOW_HEALTH Get "/api/v1/site/health" AnyPeer Safe SeeSite
        "Shows the health of the site, and its problems.";
    LIST_EVENTS Get "/api/v1/site/events" AnyPeer Safe SeeSite
        "Lists the events of the site, by `transfer` and `limit`.";
    SHOW_STATISTICS Get "/api/v1/statistics" AnyPeer Safe SeeSite
        "Returns the figures of the peers over time, the last hour by default.";
    ROTATE_KEYS Post "/api/v1/site/rotate-keys" Controller Idempotent Administer
        "Replaces the keys of the site while it works.";
    EXAMINE_HOST Get "/api/v1/doctor" ThisPeer Safe SeeSite
        "Checks the host, and lists its problems.";
    GET_OPENAPI Get "/api/v1/openapi.json" ThisPeer Safe Public
        "Returns the OpenAPI 3.1 document of this API.";

    "Settings":
    SHOW_SETTINGS Get "/api/v1/settings" ThisPeer Safe Operate
        "Shows the configuration in force, each value with the layer that sets it.";
    CHECK_SETTINGS Post "/api/v1/settings/check" ThisPeer Idempotent Administer
        "Checks a text as the main file of the configuration, and lists all its faults.";
    RELOAD_SETTINGS Post "/api/v1/settings/reload" ThisPeer Idempotent Administer
        "Reads the configuration again, and applies the settings that need no restart.";

    "Users":
    SHOW_ME Get "/api/v1/me" AnyPeer Safe Own
        "Shows the caller: its user, role and rights.";
    LIST_USERS Get "/api/v1/users" AnyPeer Safe Administer
        "Lists the users of the site.";
    SHOW_USER Get "/api/v1/users/{name}" AnyPeer Safe Administer
        "Shows a user.";
    PUT_USER Put "/api/v1/users/{name}" Controller Idempotent Administer
        "Creates a user, or changes its role, grants, account or lock.";
    REMOVE_USER Delete "/api/v1/users/{name}" Controller Idempotent Administer
        "Removes a user and all its tokens.";
    LIST_TOKENS Get "/api/v1/tokens" AnyPeer Safe Own
        "Lists the caller's tokens, for administrators those of all users; `user` names one.";
    CREATE_TOKEN Post "/api/v1/tokens" Controller Idempotent Own
        "Makes a token; only this reply contains its text.";
    REVOKE_TOKEN Delete "/api/v1/tokens/{id}" Controller Idempotent Own
        "Revokes a token; every peer rejects it within two seconds.";
    SET_PASSWORD Put "/api/v1/users/{name}/password" Controller Idempotent Own
        "Sets the caller's password, for administrators that of any user; its other sessions end.";
    INVITE_USER Post "/api/v1/users/{name}/invite" Controller Idempotent Administer
        "Makes a link by which the user sets its own password, once.";
    LIST_AUDIT Get "/api/v1/audit" AnyPeer Safe Own
        "Lists the audit logs of all peers, newest first; without `audit` only the caller's lines.";

    "Webhooks":
    LIST_WEBHOOKS Get "/api/v1/webhooks" Controller Safe Operate
        "Lists the webhooks of the site.";
    SHOW_WEBHOOK Get "/api/v1/webhooks/{name}" Controller Safe Operate
        "Shows a webhook, and the result of its last delivery.";
    PUT_WEBHOOK Put "/api/v1/webhooks/{name}" Controller Idempotent Operate
        "Creates a webhook, or replaces its settings; the reply to a creation has its secret.";
    REMOVE_WEBHOOK Delete "/api/v1/webhooks/{name}" Controller Idempotent Operate
        "Removes a webhook and the messages that wait for it.";
    TEST_WEBHOOK Post "/api/v1/webhooks/{name}/test" Controller Once Operate
        "Delivers a test message now, and returns the result.";
    ROTATE_WEBHOOK Post "/api/v1/webhooks/{name}/rotate" Controller Once Operate
        "Makes a new secret; the previous one also signs for a day.";
    LIST_DELIVERIES Get "/api/v1/webhooks/{name}/deliveries" Controller Safe Operate
        "Lists the attempts of the controller to deliver messages, newest first.";
    REDELIVER Post "/api/v1/webhooks/{name}/deliveries/{id}/redeliver" Controller Once Operate
        "Delivers a message of an ended transfer again, and returns the result.";

    "Log-in":
    LIST_AUTH_METHODS Get "/api/v1/auth/methods" AnyPeer Safe Public
        "Lists the ways to log in.";
    LOG_IN Post "/api/v1/sessions" Controller Idempotent Public
        "Begins a session by name and password; its secret is in a cookie.";
    LIST_SESSIONS Get "/api/v1/sessions" AnyPeer Safe Own
        "Lists the caller's sessions; for administrators `user` names another user.";
    END_SESSION Delete "/api/v1/sessions/{id}" Controller Idempotent Own
        "Ends a session, or `current`, that of the request; no peer accepts it two seconds later.";
    MAKE_SETUP_LINK Post "/api/v1/auth/setup-links" Controller Idempotent LocalRoot
        "Makes a link by which a new administrator is made, once, within 15 minutes.";
    SET_UP Post "/api/v1/auth/setup" Controller Once Public
        "Makes an administrator by the code of a link, and begins a session of it.";
    ACCEPT_INVITATION Post "/api/v1/auth/invitation" Controller Once Public
        "Sets a user's password by the code of a link, and begins a session of it.";
    BEGIN_DEVICE Post "/api/v1/auth/device" Controller Idempotent Public
        "Begins the log-in of a program without a browser (RFC 8628, form-encoded).";
    GET_DEVICE_TOKEN Post "/api/v1/auth/device/token" Controller Once Public
        "Returns the token of such a log-in once it is approved (RFC 8628, form-encoded).";
    SHOW_DEVICE Get "/api/v1/auth/device" Controller Safe Own
        "Shows the log-in that waits under the code `user_code`.";
    APPROVE_DEVICE Post "/api/v1/auth/device/approve" Controller Idempotent Own
        "Approves or refuses the log-in of a program by the code that it shows.";

    "Lost hosts":
    TAKE_OVER Post "/api/v1/cluster/takeover" ThisPeer Once LocalRoot
        "Continues with the etcd of this host alone, after the loss of the other hosts with etcd.";
    RECOVER Post "/api/v1/cluster/recover" ThisPeer Once LocalRoot
        "Recovers the records of the site after the loss of etcd, or its restore from a backup.";
    REMOVE_HOST Delete "/api/v1/cluster/hosts/{host}" ThisPeer Idempotent LocalRoot
        "Removes a host that will not return from the etcd of the site.";

    "Outside of /api/v1":
    BEGIN_OIDC Get "/auth/oidc/start" Controller Safe Public
        "Sends a browser to the site's OpenID provider, to log in; `return` names its way back.";
    FINISH_OIDC Get "/auth/oidc/callback" Controller Once Public
        "Begins a session of the user that the provider names; the provider sends a browser here.";
    END_OIDC Get "/auth/oidc/end" Controller Safe Public
        "Sends a browser to the page of the provider that ends its log-in there, if it has one.";
    CHECK_LIFE Get "/healthz" ThisPeer Safe Public
        "Answers `ok` as long as the daemon answers at all.";
    CHECK_READINESS Get "/readyz" ThisPeer Safe Public
        "Answers `ok` while this peer serves its site; else with 503, code `not-ready`.";
    GET_METRICS Get "/metrics" ThisPeer Safe Metrics
        "Returns the figures of this peer for Prometheus, as text or as OpenMetrics.";
}
