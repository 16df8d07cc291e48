//! Webhooks and their deliveries.

use std::sync::Arc;

use axum::extract::{Json, Path, State};
use axum::http::StatusCode;
use penstock_api::webhook::{Delivery, DeliveryList, WebhookList, WebhookSettings, WebhookView};
use penstock_controller::manager::Caller;
use penstock_proto::id::Name;

use super::state::Leading;
use crate::http::reply::{ProblemReply, Reply, blocking};
use crate::http::request::{StrictBody, parsed};
use crate::webhooks::Webhooks;

type Hooks = State<Arc<Webhooks>>;

pub(super) async fn list(_: Leading, State(hooks): Hooks) -> Reply<WebhookList> {
    blocking(move || hooks.list()).await.map(Json)
}

pub(super) async fn show(
    _: Leading,
    State(hooks): Hooks,
    Path(name): Path<String>,
) -> Reply<WebhookView> {
    blocking(move || hooks.show(&parsed(&name)?)).await.map(Json)
}

pub(super) async fn put(
    _: Leading,
    State(hooks): Hooks,
    Path(name): Path<String>,
    StrictBody(settings): StrictBody<WebhookSettings>,
) -> Result<(StatusCode, Json<WebhookView>), ProblemReply> {
    let (view, is_new) = blocking(move || hooks.put(&parsed(&name)?, settings)).await?;
    Ok((if is_new { StatusCode::CREATED } else { StatusCode::OK }, Json(view)))
}

pub(super) async fn remove(
    _: Leading,
    State(hooks): Hooks,
    Path(name): Path<String>,
) -> Result<StatusCode, ProblemReply> {
    blocking(move || hooks.remove(&parsed(&name)?)).await.map(|()| StatusCode::NO_CONTENT)
}

pub(super) async fn rotate(
    _: Leading,
    State(hooks): Hooks,
    Path(name): Path<String>,
) -> Reply<WebhookView> {
    blocking(move || hooks.rotate(&parsed(&name)?)).await.map(Json)
}

pub(super) async fn test(
    _: Leading,
    State(hooks): Hooks,
    Path(name): Path<String>,
) -> Reply<Delivery> {
    let finder = Arc::clone(&hooks);
    let hook = blocking(move || finder.find(&parsed(&name)?)).await?;
    Ok(Json(hooks.test(&hook).await))
}

pub(super) async fn deliveries(
    _: Leading,
    State(hooks): Hooks,
    Path(name): Path<String>,
) -> Reply<DeliveryList> {
    blocking(move || hooks.deliveries(&parsed(&name)?)).await.map(Json)
}

pub(super) async fn redeliver(
    Leading(manager): Leading,
    State(hooks): Hooks,
    Path((name, id)): Path<(String, String)>,
) -> Reply<Delivery> {
    let (finder, message) = (Arc::clone(&hooks), id.clone());
    let (hook, view) = blocking(move || {
        let hook = finder.find(&parsed::<Name>(&name)?)?;
        let view = manager.show(Webhooks::transfer_of(&message)?, &Caller::local())?;
        Ok((hook, view))
    })
    .await?;
    Ok(Json(hooks.redeliver(&hook, &id, &view).await?))
}
