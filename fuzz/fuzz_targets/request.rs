//! Requests of users (docs/api.md), by the parser that the handlers have. Each body and query is
//! read, or refused with a problem that names the field. What is read reads back as it was. No
//! field that does not exist is taken, and no array for an object, however deep.
#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use penstock_api::access::{
    DeviceApproval, DeviceRequest, DeviceTokenRequest, InvitationRequest, PasswordRequest,
    SessionRequest, SetUpRequest, TokenId, TokenRequest, UserRequest,
};
use penstock_api::cluster::{RecoverRequest, TakeoverRequest};
use penstock_api::deadline::Deadline;
use penstock_api::keys::ForgetRequest;
use penstock_api::limits::LimitRequest;
use penstock_api::operate::DrainRequest;
use penstock_api::problem::{Problem, ProblemCode, ProblemDocument};
use penstock_api::queue::{
    BulkRequest, LimitKind, PauseRuleRequest, QueueLimitRequest, QueueShareRequest,
    QueueWindowRequest,
};
use penstock_api::rest::request_body::{parse, unknown_field};
use penstock_api::rest::{
    AuditQuery, DirectoryRequest, EntriesQuery, JoinRequest, SubmitRequest, TransferPatch,
    TransferQuery,
};
use penstock_api::settings::SettingsCheck;
use penstock_api::webhook::WebhookSettings;
use penstock_proto::checksum::ChecksumKind;
use penstock_proto::id::{Name, TransferId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A field that no request has.
const NO_FIELD: &str = "no such field";
/// Objects that are no structures: grants by the names of stores, and places, which are texts too.
const OTHERS: [&str; 3] = ["/grants", "/source", "/target"];

/// The readers, chosen by the first byte: `A` is the first.
static READERS: &[fn(&[u8])] = &[
    body::<SubmitRequest>,
    body::<TransferPatch>,
    body::<BulkRequest>,
    body::<Deadline>,
    body::<LimitRequest>,
    body::<QueueLimitRequest>,
    body::<QueueShareRequest>,
    body::<QueueWindowRequest>,
    body::<PauseRuleRequest>,
    body::<JoinRequest>,
    body::<DirectoryRequest>,
    body::<DrainRequest>,
    body::<ForgetRequest>,
    body::<SettingsCheck>,
    body::<UserRequest>,
    body::<TokenRequest>,
    body::<PasswordRequest>,
    body::<WebhookSettings>,
    body::<SessionRequest>,
    body::<SetUpRequest>,
    body::<InvitationRequest>,
    body::<DeviceApproval>,
    body::<TakeoverRequest>,
    body::<RecoverRequest>,
    query::<TransferQuery>,
    query::<EntriesQuery>,
    query::<AuditQuery>,
    form::<DeviceRequest>,
    form::<DeviceTokenRequest>,
    path,
];

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, rest)) = bytes.split_first() else { return };
    READERS[usize::from(which.wrapping_sub(b'A')) % READERS.len()](rest);
});

fn body<T: DeserializeOwned + Serialize + PartialEq + Debug>(bytes: &[u8]) {
    let value = match parse::<T>(bytes) {
        Ok(value) => value,
        Err(problem) => return check_refusal(&problem),
    };
    let text = serde_json::to_vec(&value).unwrap();
    assert_eq!(parse::<T>(&text).unwrap(), value, "of {}", String::from_utf8_lossy(&text));
    let whole: Value = serde_json::from_slice(bytes).unwrap();
    for place in objects(&whole, "") {
        let mut more = whole.clone();
        more.pointer_mut(&place).unwrap()[NO_FIELD] = json!(null);
        let text = serde_json::to_vec(&more).unwrap();
        assert!(parse::<T>(&text).is_err(), "`{place}` takes any field: {more}");
        let mut other = whole.clone();
        *other.pointer_mut(&place).unwrap() = values(&other, &place);
        let text = serde_json::to_vec(&other).unwrap();
        assert!(parse::<T>(&text).is_err(), "`{place}` is an array: {other}");
    }
}

/// Returns the values of an object as an array.
fn values(whole: &Value, place: &str) -> Value {
    let fields = whole.pointer(place).and_then(Value::as_object);
    Value::Array(fields.into_iter().flat_map(|fields| fields.values().cloned()).collect())
}

/// Checks a problem of a body: clients and people work with it.
fn check_refusal(problem: &Problem) {
    assert!(matches!(problem.code, ProblemCode::Body | ProblemCode::UnknownField));
    assert_eq!(problem.status, 400);
    let [fault] = &problem.context.as_ref().unwrap().errors[..] else { panic!("not one fault") };
    assert!(fault.pointer.is_empty() || fault.pointer.starts_with('/'), "{}", fault.pointer);
    let document = serde_json::to_vec(&ProblemDocument::of(problem.clone(), "7f", "/")).unwrap();
    serde_json::from_slice::<ProblemDocument>(&document).unwrap();
}

/// Returns the places of all objects that have fields, as JSON Pointers.
fn objects(value: &Value, place: &str) -> Vec<String> {
    let mut found = Vec::new();
    match value {
        Value::Object(fields) => {
            if !OTHERS.contains(&place) {
                found.push(place.to_owned());
            }
            for (key, value) in fields {
                let key = key.replace('~', "~0").replace('/', "~1");
                found.extend(objects(value, &format!("{place}/{key}")));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                found.extend(objects(item, &format!("{place}/{index}")));
            }
        }
        _ => {}
    }
    found
}

/// Reads a query, which has parameters that exist only.
fn query<T: DeserializeOwned + Debug>(bytes: &[u8]) {
    match serde_urlencoded::from_bytes::<T>(bytes) {
        Ok(_) => {
            let mut more = bytes.to_vec();
            more.extend_from_slice(b"&no_such_parameter=1");
            let error = serde_urlencoded::from_bytes::<T>(&more).unwrap_err().to_string();
            let problem = unknown_field(&error, |name| format!("?{name}")).unwrap();
            assert_eq!(problem.context.unwrap().errors[0].pointer, "?no_such_parameter");
        }
        Err(error) => drop(unknown_field(&error.to_string(), |name| format!("?{name}"))),
    }
}

/// Reads a form of RFC 8628: what it has beyond is ignored (RFC 6749, 3.1).
fn form<T: DeserializeOwned + Debug>(bytes: &[u8]) {
    drop(serde_urlencoded::from_bytes::<T>(bytes));
}

/// Reads the parts of a path: what is read prints as the same thing.
fn path(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(name) = text.parse::<Name>() {
        assert_eq!(name.to_string(), text);
    }
    if let Ok(id) = text.parse::<TransferId>() {
        assert_eq!(id.to_string().parse::<TransferId>().unwrap(), id);
    }
    if let Ok(id) = text.parse::<TokenId>() {
        assert_eq!(id.to_string().parse::<TokenId>().unwrap(), id);
    }
    drop(text.parse::<ChecksumKind>());
    drop(text.parse::<LimitKind>());
}
