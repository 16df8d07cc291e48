//! The rules of the queue as operators change them: checked, stored, then in force.

use std::sync::{Arc, Mutex, PoisonError};

use penstock_api::limits::RATE_MIN;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::queue::{
    LimitKind, PauseRule, QueueGroupShare, QueueLimit, QueueRule, QueueShare, QueueWindow,
    WEIGHT_MAX,
};
use penstock_cluster::clock::now_seconds;
use penstock_cluster::state::SiteState;
use penstock_proto::id::Name;

use super::calendar::WeekTimes;
use super::transfer_table::TransferTable;

/// Most rules of a site: each is looked at with each decision.
const RULES_MAX: usize = 500;
/// Most transfers that a limit may allow at a time.
const RUNNING_MAX: u32 = 10_000;
/// Most characters of a reason, and of a part of a label.
const TEXT_MAX: usize = 200;

/// Changes the rules of a site.
pub(crate) struct RuleBook {
    site: Name,
    state: Arc<dyn SiteState>,
    table: Arc<TransferTable>,
    /// Held while a rule is stored, so that the table equals the state.
    turn: Mutex<()>,
}

impl RuleBook {
    pub(crate) fn new(site: Name, state: Arc<dyn SiteState>, table: Arc<TransferTable>) -> Self {
        Self { site, state, table, turn: Mutex::default() }
    }

    /// Sets a rule, durably, and puts it in force. Returns whether it is new.
    ///
    /// # Errors
    /// Code `request`: it makes no sense, and why. Code `too-many`. The state cannot be written.
    pub(crate) fn put(&self, rule: QueueRule) -> Result<bool, Problem> {
        self.check(&rule).map_err(|why| Problem::new(ProblemCode::Request, why))?;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let key = rule.key();
        let (is_known, count) = {
            let table = self.table.lock();
            let rules = table.schedule.rules();
            (rules.has(&key), rules.count())
        };
        if !is_known && count >= RULES_MAX {
            let title = format!("the queue has {RULES_MAX} rules");
            let hint = "remove some: `penstock queue show` lists them";
            return Err(Problem::new(ProblemCode::TooMany, title).hint(hint));
        }
        self.state.put_queue_rule(&rule)?;
        self.table.lock().handle_rule(rule);
        self.table.notify();
        Ok(!is_known)
    }

    /// Removes a rule, durably.
    ///
    /// # Errors
    /// Code `queue-rule`: no rule has this key. The state cannot be written.
    pub(crate) fn remove(&self, key: &str) -> Result<(), Problem> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.table.lock().schedule.rules().has(key) {
            let title = format!("the queue has no rule `{key}`");
            let hint = "`penstock queue show` lists the rules";
            return Err(Problem::new(ProblemCode::QueueRule, title).hint(hint));
        }
        self.state.remove_queue_rule(key)?;
        self.table.lock().handle_rule_removed(key);
        self.table.notify();
        Ok(())
    }

    /// Checks a rule that came over the network.
    ///
    /// # Errors
    /// The reason why it makes no sense, for people.
    fn check(&self, rule: &QueueRule) -> Result<(), String> {
        match rule {
            QueueRule::Limit(limit) => self.check_limit(limit),
            QueueRule::Share(QueueShare { user, weight }) => {
                check_weight(*weight)?;
                check_user(user)
            }
            QueueRule::GroupShare(QueueGroupShare { weight, .. }) => check_weight(*weight),
            QueueRule::Window(window) => check_window(window),
            QueueRule::PauseRule(rule) => check_pause(rule),
        }
    }

    fn check_limit(&self, limit: &QueueLimit) -> Result<(), String> {
        if limit.running.is_none() && limit.rate_bits_per_s.is_none() {
            return Err(
                "a limit is of `running` transfers, of `rate_bits_per_s`, or of both".to_owned()
            );
        }
        if limit.running == Some(0) {
            return Err("a limit of 0 transfers holds them for ever: make a pause rule".to_owned());
        }
        check_values(limit.running, limit.rate_bits_per_s)?;
        let name = &limit.name;
        match limit.kind {
            LimitKind::Site if name == self.site.as_str() => Ok(()),
            LimitKind::Site => Err(format!("this site is `{}`, not `{name}`", self.site)),
            LimitKind::Pair | LimitKind::Store => check_name(name),
            LimitKind::User => check_user(name),
        }
    }
}

fn check_weight(weight: u32) -> Result<(), String> {
    let is_one = (1..=WEIGHT_MAX).contains(&weight);
    is_one.then_some(()).ok_or_else(|| format!("a weight is from 1 to {WEIGHT_MAX}"))
}

fn check_values(running: Option<u32>, rate: Option<u64>) -> Result<(), String> {
    if running.is_some_and(|running| running > RUNNING_MAX) {
        return Err(format!("a limit is of up to {RUNNING_MAX} transfers"));
    }
    if rate.is_some_and(|rate| rate < RATE_MIN) {
        return Err(format!("a rate limit is at least {} kbit/s", RATE_MIN / 1000));
    }
    Ok(())
}

fn check_name(text: &str) -> Result<(), String> {
    text.parse::<Name>().map(drop).map_err(|error| error.to_string())
}

/// Checks the name of a user, or `@SITE`.
fn check_user(text: &str) -> Result<(), String> {
    check_name(text.strip_prefix('@').unwrap_or(text))
}

fn check_text(what: &str, text: &str) -> Result<(), String> {
    if text.chars().count() > TEXT_MAX || text.chars().any(char::is_control) {
        return Err(format!("{what} has up to {TEXT_MAX} characters, without control ones"));
    }
    Ok(())
}

fn check_window(window: &QueueWindow) -> Result<(), String> {
    let rule = &window.rule;
    if rule.days.is_empty() {
        return Err("a window needs at least one day".to_owned());
    }
    let objects = [rule.pair.is_some(), rule.store.is_some(), rule.user.is_some()];
    if objects.into_iter().filter(|is_given| *is_given).count() > 1 {
        return Err("a window is of one `pair`, `store` or `user`, or of the site".to_owned());
    }
    if rule.running.is_none() && rule.rate_bits_per_s.is_none() {
        return Err("a window limits `running` transfers, `rate_bits_per_s`, or both".to_owned());
    }
    rule.user.as_deref().map_or(Ok(()), check_user)?;
    check_values(rule.running, rule.rate_bits_per_s)?;
    let times = WeekTimes::of(rule).map(drop);
    times.map_err(|why| format!("the zone of window `{}` is not known: {why}", window.name))
}

fn check_pause(rule: &PauseRule) -> Result<(), String> {
    check_text("a reason", &rule.reason)?;
    check_text("a label", rule.filter.label.as_deref().unwrap_or_default())?;
    rule.filter.user.as_deref().map_or(Ok(()), check_user)?;
    if rule.until.is_some_and(|until| until.seconds() <= now_seconds()) {
        return Err("the end of a pause rule is in the future".to_owned());
    }
    Ok(())
}
