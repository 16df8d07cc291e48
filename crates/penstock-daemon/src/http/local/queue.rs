//! The queue: its order, the rules of operators, the turns of single transfers.

use axum::extract::{Extension, Json, Path};
use axum::http::StatusCode;
use penstock_api::access::Principal;
use penstock_api::deadline::Deadline;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::queue::{
    BulkReply, BulkRequest, LimitKind, PauseRule, PauseRuleRequest, QueueGroupShare, QueueLimit,
    QueueLimitRequest, QueueRule, QueueShare, QueueShareRequest, QueueView, QueueWindow,
    QueueWindowRequest,
};
use penstock_api::timestamp::Timestamp;
use penstock_proto::id::Name;
use penstock_sys::now_seconds;

use super::state::{Leading, User};
use super::transfers::{Shown, shown};
use crate::http::reply::{ProblemReply, Reply, blocking};
use crate::http::request::{StrictBody, parsed};

/// A rule, with 201 if it is new.
type RuleReply<T> = Result<(StatusCode, Json<T>), ProblemReply>;
/// The reply to a removal.
type Removed = Result<StatusCode, ProblemReply>;

pub(super) async fn show(Leading(manager): Leading) -> Reply<QueueView> {
    blocking(move || Ok(manager.queue())).await.map(Json)
}

/// Sets a rule, and replies with its part that is `shown`.
async fn put<T: Send + 'static>(
    Leading(manager): Leading,
    make: impl FnOnce() -> Result<(QueueRule, T), Problem> + Send + 'static,
) -> RuleReply<T> {
    let put = move || {
        let (rule, shown) = make()?;
        Ok((manager.put_rule(rule)?, shown))
    };
    let (is_new, shown) = blocking(put).await?;
    Ok((if is_new { StatusCode::CREATED } else { StatusCode::OK }, Json(shown)))
}

async fn remove(
    Leading(manager): Leading,
    key: impl FnOnce() -> Result<String, Problem> + Send + 'static,
) -> Removed {
    blocking(move || manager.remove_rule(&key()?)).await.map(|()| StatusCode::NO_CONTENT)
}

pub(super) async fn set_limit(
    leading: Leading,
    Path((kind, name)): Path<(String, String)>,
    StrictBody(request): StrictBody<QueueLimitRequest>,
) -> RuleReply<QueueLimit> {
    put(leading, move || {
        let QueueLimitRequest { running, rate_bits_per_s } = request;
        let limit = QueueLimit { kind: kind_of(&kind)?, name, running, rate_bits_per_s };
        Ok((QueueRule::Limit(limit.clone()), limit))
    })
    .await
}

pub(super) async fn remove_limit(
    leading: Leading,
    Path((kind, name)): Path<(String, String)>,
) -> Removed {
    remove(leading, move || Ok(QueueRule::limit_key(kind_of(&kind)?, &name))).await
}

pub(super) async fn set_share(
    leading: Leading,
    Path(user): Path<String>,
    StrictBody(request): StrictBody<QueueShareRequest>,
) -> RuleReply<QueueShare> {
    put(leading, move || {
        let share = QueueShare { user, weight: request.weight };
        Ok((QueueRule::Share(share.clone()), share))
    })
    .await
}

pub(super) async fn remove_share(leading: Leading, Path(user): Path<String>) -> Removed {
    remove(leading, move || Ok(QueueRule::share_key(&user))).await
}

pub(super) async fn set_group_share(
    leading: Leading,
    Path(group): Path<String>,
    StrictBody(request): StrictBody<QueueShareRequest>,
) -> RuleReply<QueueGroupShare> {
    put(leading, move || {
        let share = QueueGroupShare { group: parsed(&group)?, weight: request.weight };
        Ok((QueueRule::GroupShare(share.clone()), share))
    })
    .await
}

pub(super) async fn remove_group_share(leading: Leading, Path(group): Path<String>) -> Removed {
    remove(leading, move || Ok(QueueRule::group_share_key(parsed::<Name>(&group)?.as_str()))).await
}

pub(super) async fn set_window(
    leading: Leading,
    Path(name): Path<String>,
    StrictBody(rule): StrictBody<QueueWindowRequest>,
) -> RuleReply<QueueWindow> {
    put(leading, move || {
        let window = QueueWindow { name: parsed(&name)?, rule };
        Ok((QueueRule::Window(window.clone()), window))
    })
    .await
}

pub(super) async fn remove_window(leading: Leading, Path(name): Path<String>) -> Removed {
    remove(leading, move || Ok(QueueRule::window_key(&parsed(&name)?))).await
}

pub(super) async fn set_pause_rule(
    leading: Leading,
    Extension(caller): Extension<Principal>,
    Path(name): Path<String>,
    StrictBody(request): StrictBody<PauseRuleRequest>,
) -> RuleReply<PauseRule> {
    put(leading, move || {
        let PauseRuleRequest { filter, reason, until } = request;
        let (by, since) = (caller.user, Timestamp::of_seconds(now_seconds()));
        let rule = PauseRule { name: parsed(&name)?, filter, reason, until, by, since };
        Ok((QueueRule::PauseRule(rule.clone()), rule))
    })
    .await
}

pub(super) async fn remove_pause_rule(leading: Leading, Path(name): Path<String>) -> Removed {
    remove(leading, move || Ok(QueueRule::pause_key(&parsed(&name)?))).await
}

pub(super) async fn act_on_many(
    Leading(manager): Leading,
    User(caller): User,
    StrictBody(request): StrictBody<BulkRequest>,
) -> Reply<BulkReply> {
    blocking(move || manager.act_on_many(&request, &caller)).await.map(Json)
}

pub(super) async fn set_deadline(
    leading: Leading,
    user: User,
    id: Path<String>,
    StrictBody(deadline): StrictBody<Deadline>,
) -> Result<Shown, ProblemReply> {
    change_deadline(leading, user, id, Some(deadline)).await
}

pub(super) async fn remove_deadline(
    leading: Leading,
    user: User,
    id: Path<String>,
) -> Result<Shown, ProblemReply> {
    change_deadline(leading, user, id, None).await
}

async fn change_deadline(
    Leading(manager): Leading,
    User(caller): User,
    Path(id): Path<String>,
    deadline: Option<Deadline>,
) -> Result<Shown, ProblemReply> {
    blocking(move || {
        let report = manager.set_deadline(manager.resolve(&id, &caller)?, deadline, &caller)?;
        Ok(shown(report, &manager))
    })
    .await
}

pub(super) async fn set_urgent(
    Leading(manager): Leading,
    User(caller): User,
    Path(id): Path<String>,
) -> Result<Shown, ProblemReply> {
    blocking(move || {
        let report = manager.set_urgent(manager.resolve(&id, &caller)?, true, &caller)?;
        Ok(shown(report, &manager))
    })
    .await
}

pub(super) async fn remove_urgent(
    Leading(manager): Leading,
    User(caller): User,
    Path(id): Path<String>,
) -> Result<Shown, ProblemReply> {
    blocking(move || {
        let report = manager.set_urgent(manager.resolve(&id, &caller)?, false, &caller)?;
        Ok(shown(report, &manager))
    })
    .await
}

fn kind_of(text: &str) -> Result<LimitKind, Problem> {
    text.parse().map_err(|why: String| Problem::new(ProblemCode::Name, why))
}
