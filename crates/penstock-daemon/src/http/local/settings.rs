//! The configuration of the peer: shown, checked, reloaded.

use std::sync::Arc;

use axum::extract::{Json, State};
use penstock_api::settings::{SettingsCheck, SettingsFaults, SettingsReload, SettingsView};

use crate::cluster::member::Member;
use crate::http::reply::{Reply, blocking};
use crate::http::request::StrictBody;

pub(super) async fn show(State(member): State<Arc<Member>>) -> Reply<SettingsView> {
    let site = Arc::clone(&member.parts.site);
    blocking(move || Ok(site.settings.view(&site.exports))).await.map(Json)
}

pub(super) async fn check(
    State(member): State<Arc<Member>>,
    StrictBody(request): StrictBody<SettingsCheck>,
) -> Reply<SettingsFaults> {
    let site = Arc::clone(&member.parts.site);
    blocking(move || Ok(site.settings.check(&request.text))).await.map(Json)
}

pub(super) async fn reload(State(member): State<Arc<Member>>) -> Reply<SettingsReload> {
    let site = Arc::clone(&member.parts.site);
    blocking(move || Ok(site.settings.reload())).await.map(Json)
}
