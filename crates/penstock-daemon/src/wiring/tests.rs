//! The daemon of a site of one peer, without its sockets.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use penstock_api::endpoints::{self as api, TABLE};
use penstock_api::problem::ProblemCode;
use tower::ServiceExt as _;

use super::*;
use crate::http;
use crate::site::context::tests::site;

/// Returns the interfaces of a daemon that keeps its site in `directory`.
fn faces(directory: &Path, stopped: &watch::Receiver<bool>) -> Faces {
    fs::create_dir(directory.join(TRUST_DIRECTORY)).unwrap();
    let site = Arc::new(site(directory));
    let state = Arc::new(SqliteState::open(&directory.join("own.db")).unwrap());
    let parts = data_plane::peer(&site, directory).unwrap();
    let events = EventLog::open(directory, &site.config.peer);
    let runtime = tokio::runtime::Handle::current();
    let sites = Arc::new(Sites::new(Arc::clone(&site), runtime.clone()));
    let controller_parts = ControllerParts {
        site: Arc::clone(&site),
        sites: Arc::clone(&sites),
        source: parts.source,
        target: parts.target,
        events: Arc::clone(&events),
        webhooks: Webhooks::new(Arc::clone(&site), Arc::clone(&events)).unwrap(),
        signer: Arc::new(SiteSigner::new(&site).unwrap()),
        journal: directory.join("journal"),
    };
    let watched = Watched::new(&site, &[]).unwrap();
    let operate = OperateParts {
        site,
        sites,
        target: parts.lanes_target,
        source: parts.lanes_source,
        events,
        runtime,
    };
    Faces::open(controller_parts, state, parts.set_fence, operate, &watched, stopped).unwrap()
}

async fn ask(faces: &Faces, method: &str, uri: &str) -> (StatusCode, Option<ProblemCode>) {
    let request = Request::builder().method(method).uri(uri);
    let request = request.header(header::CONTENT_TYPE, "application/json");
    let reply = faces.local.clone().oneshot(request.body(Body::from("{}")).unwrap()).await.unwrap();
    let status = reply.status();
    if status.is_success() || status.is_redirection() {
        // A stream of events has no end.
        return (status, None);
    }
    let body = axum::body::to_bytes(reply.into_body(), usize::MAX).await.unwrap();
    (status, Some(http::problem_of(status.as_u16(), &body).code))
}

/// Promise: each endpoint of the table is answered by its handler, with an answer or with a problem
/// of the request; no other path and no other method is.
#[tokio::test(flavor = "multi_thread")]
async fn each_endpoint_is_answered() {
    let directory = tempfile::tempdir().unwrap();
    let (_stop, stopped) = watch::channel(false);
    let faces = faces(directory.path(), &stopped);
    for endpoint in TABLE.iter().flat_map(|group| group.endpoints) {
        let values: Vec<&dyn std::fmt::Display> = endpoint
            .path
            .split('/')
            .filter(|part| part.starts_with('{'))
            .map(|_| &"7" as _)
            .collect();
        let uri = endpoint.uri(&values);
        let (status, code) = ask(&faces, endpoint.method.as_str(), uri.as_str()).await;
        // These answer a body that is no form by an error of RFC 8628, which is no problem.
        let is_form = [&api::BEGIN_DEVICE, &api::GET_DEVICE_TOKEN].contains(endpoint);
        let answered = status.is_success()
            || status.is_redirection()
            || code.as_ref().is_some_and(is_of_a_handler)
            || (is_form && status == StatusCode::BAD_REQUEST);
        assert!(answered, "{}: {status} {code:?}", endpoint.name);
    }
    for (method, uri, wanted) in [
        ("GET", "/api/v1/nothing", ProblemCode::NotFound),
        ("DELETE", "/api/v1/peers", ProblemCode::MethodUnknown),
        ("POST", "/api/v1/orders/rotate", ProblemCode::NotFound),
    ] {
        let (status, code) = ask(&faces, method, uri).await;
        assert_eq!((status.as_u16(), code), (wanted.facts().status, Some(wanted)), "{uri}");
    }
    assert!((faces.leave)(Duration::from_secs(10)));
}

fn is_of_a_handler(code: &ProblemCode) -> bool {
    // The first two are the router's; the others come of a reply that is no problem, or of a panic.
    let others = [
        ProblemCode::NotFound,
        ProblemCode::MethodUnknown,
        ProblemCode::Http,
        ProblemCode::Internal,
    ];
    !others.contains(code)
}

/// Promise: a state that a later release has written stops the daemon with the ways out; A10.
#[test]
fn a10_a_newer_state_is_refused_with_the_ways_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.db");
    drop(SqliteState::open(&path).unwrap());
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let failure = format!("{:?}", unusable(SqliteState::open(&path).err().unwrap()));
    assert!(failure.contains("Fatal") && failure.contains("found: 99"), "{failure}");
    assert!(failure.contains("install the release that wrote it"), "{failure}");
}
