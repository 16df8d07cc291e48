//! The messages of all endpoints, and the OpenAPI document that is made of them.
//!
//! A row names the types of an endpoint, beside its row in the table of endpoints: `at` the
//! placeholders of its path in their order, then query, headers and body. `is(deprecated)` marks an
//! endpoint that a later release removes. After the arrow are the statuses and bodies of the
//! answers. An endpoint without a row does not compile.

use std::sync::OnceLock;

use axum::http::header;
use axum::response::IntoResponse;
use penstock_api::access::{
    AuthMethods, DeviceApproval, DeviceAuthorization, DeviceError, DeviceRequest, DeviceToken,
    DeviceTokenRequest, DeviceView, InvitationRequest, LinkView, MeView, PasswordRequest,
    SessionRequest, SessionView, SetUpRequest, TokenId, TokenRequest, TokenView, UserRequest,
    UserView,
};
use penstock_api::benchmark::{
    Benchmark, BenchmarkCleaned, BenchmarkCleanup, BenchmarkList, BenchmarkRequest,
};
use penstock_api::cluster::{RecoverRequest, RecoveredView, TakeoverRequest};
use penstock_api::deadline::Deadline;
use penstock_api::endpoints::{self as api, TABLE};
use penstock_api::keys::{ForgetRequest, RotateReply};
use penstock_api::limits::LimitRequest;
use penstock_api::openapi::{self, Media, Message, Operation, TransferKey, are_complete};
use penstock_api::operate::{
    DrainRequest, Finding, PeerView, PeersView, SiteEventView, SiteHealthView, TransferPaths,
};
use penstock_api::outcome::FailedItem;
use penstock_api::paths::{PairReport, PathsView};
use penstock_api::plan::PlanLine;
use penstock_api::queue::{
    BulkReply, BulkRequest, LimitKind, PauseRule, PauseRuleRequest, QueueGroupShare, QueueLimit,
    QueueLimitRequest, QueueShare, QueueShareRequest, QueueView, QueueWindow, QueueWindowRequest,
};
use penstock_api::receipt::Receipt;
use penstock_api::rest::{
    AuditList, AuditQuery, DirectoryRequest, EntriesQuery, EntryList, Event, FlightRecord,
    JoinReply, JoinRequest, Orphan, Page, PauseQuery, PieceMap, SiteStoreView, SiteView,
    StatusView, StoreDetails, StoreUsage, StoreView, SubmitRequest, TokenReply, TransferPatch,
    TransferQuery, TransferSummary, TransferView,
};
use penstock_api::settings::{SettingsCheck, SettingsFaults, SettingsReload, SettingsView};
use penstock_api::statistics::{SeriesQuery, SiteStatistics, TransferSeries, TransferStatistics};
use penstock_api::webhook::{Delivery, DeliveryList, WebhookList, WebhookSettings, WebhookView};
use penstock_proto::checksum::ChecksumKind;
use penstock_proto::id::{Name, TransferId};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

use super::login::{CallbackQuery, DeviceQuery, ReturnQuery, SessionsQuery};
use super::peers::EventsQuery;
use super::transfers::{PathsQuery, ShowQuery};
use super::users::TokensQuery;
use crate::http::request::PlanQuery;

macro_rules! operations {
    ($(
        $name:ident
        $(at($($at:ty),+))? $(query($query:ty))? $(header($header:literal))?
        $(body($body_media:ident $body:ty))?
        $(is($word:ident))?
        => $($status:literal $($media:ident $answer:ty)?),+;
    )+) => {
        static OPERATIONS: &[Operation] = &[$( Operation {
            endpoint: &api::$name,
            path: &[$($( SchemaGenerator::subschema_for::<$at>, )+)?],
            query: operations!(@option $( <$query as JsonSchema>::json_schema )?),
            headers: &[$($header)?],
            body: operations!(@option $( message!($body_media $body) )?),
            answers: &[$(
                ($status, operations!(@option $( message!($media $answer) )?)),
            )+],
            is_deprecated: operations!(@word $($word)?),
        }, )+];
    };
    (@word) => { false };
    (@word deprecated) => { true };
    (@option) => { None };
    (@option $value:expr) => { Some($value) };
}

macro_rules! message {
    ($media:ident $type:ty) => {
        Message { media: Media::$media, schema: SchemaGenerator::subschema_for::<$type> }
    };
}

operations! {
    LIST_TRANSFERS query(TransferQuery) => 200 Json Page<TransferSummary>;
    SUBMIT_TRANSFER body(Json SubmitRequest) => 200 Json TransferView, 201 Json TransferView;
    SHOW_TRANSFER at(TransferKey) query(ShowQuery) => 200 Json TransferView;
    CHANGE_TRANSFER at(TransferKey) header("If-Match") body(Json TransferPatch)
        => 200 Json TransferView;
    PAUSE_TRANSFER at(TransferKey) query(PauseQuery) => 200 Json TransferView;
    RESUME_TRANSFER at(TransferKey) => 200 Json TransferView;
    CANCEL_TRANSFER at(TransferKey) => 200 Json TransferView;
    RETRY_TRANSFER at(TransferKey) => 200 Json TransferView;
    ACT_ON_TRANSFERS body(Json BulkRequest) => 200 Json BulkReply;
    SET_DEADLINE at(TransferKey) body(Json Deadline) => 200 Json TransferView;
    REMOVE_DEADLINE at(TransferKey) => 200 Json TransferView;
    SET_URGENT at(TransferKey) => 200 Json TransferView;
    REMOVE_URGENT at(TransferKey) => 200 Json TransferView;
    LIMIT_TRANSFER at(TransferKey) body(Json LimitRequest) is(deprecated)
        => 200 Json TransferView;
    GET_FAILURES at(TransferKey) => 200 JsonLines FailedItem;
    GET_DIGESTS at(TransferKey) => 200 Text String;
    GET_CHECKSUMS at(TransferKey, ChecksumKind) => 200 Text String;
    GET_RECEIPT at(TransferKey) => 200 Json Receipt;
    GET_FLIGHT at(TransferKey) => 200 JsonLines FlightRecord;
    GET_PIECES at(TransferKey) => 200 Json PieceMap;
    FOLLOW_TRANSFER at(TransferKey) => 200 Events Event;
    SHOW_TRANSFER_PATHS at(TransferId) query(PathsQuery) => 200 Json TransferPaths;
    GET_SERIES at(TransferKey) query(SeriesQuery)
        => 200 Json TransferSeries, 200 Csv String;
    GET_STATISTICS at(TransferKey) => 200 Json TransferStatistics;
    FOLLOW_TRANSFERS header("Last-Event-ID") => 200 Events Event;
    LIST_ORPHANS => 200 Json Page<Orphan>;
    REMOVE_ORPHANS => 200 Json Page<Orphan>;

    SHOW_QUEUE => 200 Json QueueView;
    SET_QUEUE_LIMIT at(LimitKind, Name) body(Json QueueLimitRequest)
        => 200 Json QueueLimit, 201 Json QueueLimit;
    REMOVE_QUEUE_LIMIT at(LimitKind, Name) => 204;
    SET_SHARE at(String) body(Json QueueShareRequest)
        => 200 Json QueueShare, 201 Json QueueShare;
    REMOVE_SHARE at(String) => 204;
    SET_GROUP_SHARE at(Name) body(Json QueueShareRequest)
        => 200 Json QueueGroupShare, 201 Json QueueGroupShare;
    REMOVE_GROUP_SHARE at(Name) => 204;
    SET_WINDOW at(Name) body(Json QueueWindowRequest)
        => 200 Json QueueWindow, 201 Json QueueWindow;
    REMOVE_WINDOW at(Name) => 204;
    SET_PAUSE_RULE at(Name) body(Json PauseRuleRequest)
        => 200 Json PauseRule, 201 Json PauseRule;
    REMOVE_PAUSE_RULE at(Name) => 204;

    MAKE_PLAN body(Json SubmitRequest) => 200 JsonLines PlanLine;
    UPLOAD_PLAN at(TransferId) query(PlanQuery) body(Bytes String) => 204;

    LIST_SITES => 200 Json Page<SiteView>;
    UNPAIR at(Name) => 204;
    OFFER_PAIRING => 200 Json TokenReply;
    PAIR body(Json JoinRequest) => 200 Json JoinReply;
    SHOW_PATHS at(Name) => 200 Json PathsView;
    EXAMINE_PAIR at(Name) => 200 Json PairReport;
    LIST_STORES => 200 Json Page<StoreView>;
    SHOW_STORE at(Name) => 200 Json StoreDetails;
    LIST_ENTRIES at(Name) query(EntriesQuery) => 200 Json EntryList;
    MAKE_DIRECTORY at(Name) body(Json DirectoryRequest) => 201;
    LIST_BENCHMARKS at(Name) => 200 Json BenchmarkList;
    START_BENCHMARK at(Name) body(Json BenchmarkRequest) => 201 Json Benchmark;
    END_BENCHMARK at(Name, TransferId) => 204;
    CLEAN_BENCHMARKS at(Name) body(Json BenchmarkCleanup) => 200 Json BenchmarkCleaned;
    LIST_SITE_STORES at(Name) => 200 Json Page<SiteStoreView>;
    LIST_SITE_ENTRIES at(Name, Name) query(EntriesQuery) => 200 Json EntryList;
    SHOW_SITE_STORE_USAGE at(Name, Name) => 200 Json StoreUsage;
    MAKE_SITE_DIRECTORY at(Name, Name) body(Json DirectoryRequest) => 201;

    LIST_PEERS => 200 Json PeersView;
    INVITE_PEER => 200 Json TokenReply;
    DRAIN_PEER at(Name) body(Json DrainRequest) => 200 Json PeerView;
    FORGET_PEER at(Name) body(Json ForgetRequest) => 200 Json RotateReply;

    SHOW_STATUS => 200 Json StatusView;
    SHOW_HEALTH => 200 Json SiteHealthView;
    LIST_EVENTS query(EventsQuery) => 200 Json Page<SiteEventView>;
    SHOW_STATISTICS query(SeriesQuery) => 200 Json SiteStatistics, 200 Csv String;
    ROTATE_KEYS => 200 Json RotateReply;
    EXAMINE_HOST => 200 Json Page<Finding>;
    GET_OPENAPI => 200 Json Map<String, Value>;

    SHOW_SETTINGS => 200 Json SettingsView;
    CHECK_SETTINGS body(Json SettingsCheck) => 200 Json SettingsFaults;
    RELOAD_SETTINGS => 200 Json SettingsReload;

    SHOW_ME => 200 Json MeView;
    LIST_USERS => 200 Json Page<UserView>;
    SHOW_USER at(Name) => 200 Json UserView;
    PUT_USER at(Name) header("If-Match") body(Json UserRequest)
        => 200 Json UserView, 201 Json UserView;
    REMOVE_USER at(Name) => 204;
    LIST_TOKENS query(TokensQuery) => 200 Json Page<TokenView>;
    CREATE_TOKEN body(Json TokenRequest) => 201 Json TokenView;
    REVOKE_TOKEN at(TokenId) => 204;
    SET_PASSWORD at(Name) body(Json PasswordRequest) => 204;
    INVITE_USER at(Name) => 201 Json LinkView;
    LIST_AUDIT query(AuditQuery) => 200 Json AuditList;

    LIST_WEBHOOKS => 200 Json WebhookList;
    SHOW_WEBHOOK at(Name) => 200 Json WebhookView;
    PUT_WEBHOOK at(Name) body(Json WebhookSettings)
        => 200 Json WebhookView, 201 Json WebhookView;
    REMOVE_WEBHOOK at(Name) => 204;
    TEST_WEBHOOK at(Name) => 200 Json Delivery;
    ROTATE_WEBHOOK at(Name) => 200 Json WebhookView;
    LIST_DELIVERIES at(Name) => 200 Json DeliveryList;
    REDELIVER at(Name, String) => 200 Json Delivery;

    LIST_AUTH_METHODS => 200 Json AuthMethods;
    LOG_IN body(Json SessionRequest) => 201 Json SessionView;
    LIST_SESSIONS query(SessionsQuery) => 200 Json Page<SessionView>;
    END_SESSION at(String) => 204;
    MAKE_SETUP_LINK => 201 Json LinkView;
    SET_UP body(Json SetUpRequest) => 201 Json SessionView;
    ACCEPT_INVITATION body(Json InvitationRequest) => 201 Json SessionView;
    BEGIN_DEVICE body(Form DeviceRequest) => 200 Json DeviceAuthorization, 400 Json DeviceError;
    GET_DEVICE_TOKEN body(Form DeviceTokenRequest) => 200 Json DeviceToken, 400 Json DeviceError;
    SHOW_DEVICE query(DeviceQuery) => 200 Json DeviceView;
    APPROVE_DEVICE body(Json DeviceApproval) => 204;

    TAKE_OVER body(Json TakeoverRequest) => 200 Json RecoveredView;
    RECOVER body(Json RecoverRequest) => 200 Json RecoveredView;
    REMOVE_HOST at(Name) => 204;

    BEGIN_OIDC query(ReturnQuery) => 303;
    FINISH_OIDC query(CallbackQuery) => 303;
    END_OIDC => 303;
    CHECK_LIFE => 200 Text String;
    CHECK_READINESS => 200 Text String;
    GET_METRICS => 200 Text String;
}

const _: () = assert!(
    are_complete(OPERATIONS, TABLE),
    "the rows here are not those of the table of endpoints, in its order"
);

/// Returns the OpenAPI document, as JSON text.
pub(crate) fn document() -> &'static str {
    static DOCUMENT: OnceLock<String> = OnceLock::new();
    DOCUMENT.get_or_init(|| openapi::document(OPERATIONS))
}

pub(super) async fn show() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, Media::Json.as_str())], document())
}
