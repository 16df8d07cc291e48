//! The webhooks of a site, as operators see and change them at the controller.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::TransferReport;
use penstock_api::webhook::{
    Delivery, DeliveryList, DeliveryResult, NOTIFY_COMMAND, SECRET_OVERLAP_SECONDS, Webhook,
    WebhookList, WebhookSecret, WebhookSettings, WebhookView,
};
use penstock_cluster::state::{SiteState, StateError};
use penstock_proto::id::{Name, TransferId};
use penstock_sys::now_seconds;
use tokio::sync::Notify;

use super::command::NotifyCommand;
use super::delivery_log::DeliveryLog;
use super::message::Message;
use super::receiver::{Attempt, Sender};
use crate::events::log::{EventLog, now_ms};
use crate::site::context::Site;

/// Webhooks of a site, beside the command.
const WEBHOOKS_MAX: usize = 100;
/// Most attempts in one answer.
const DELIVERIES_MAX: usize = 500;

/// Knows and changes the webhooks of a site, and delivers to them while this peer is the
/// controller.
pub(crate) struct Webhooks {
    site: Arc<Site>,
    sender: Sender,
    log: DeliveryLog,
    /// Receives the events about dropped messages.
    events: Arc<EventLog>,
    /// Held while a webhook is read, changed and stored.
    turn: Mutex<()>,
    /// Told when an operator has changed webhooks.
    changed: Notify,
    /// Messages that wait, and the last failure, by webhook.
    backlog: Mutex<BTreeMap<Name, Backlog>>,
}

/// The state of deliveries to a webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Backlog {
    pub(super) pending: u64,
    pub(super) error: Option<String>,
}

impl Webhooks {
    /// Returns the webhooks of a site. `events` receives the events about dropped messages.
    ///
    /// # Errors
    /// The authorities in `webhook.ca` cannot be read.
    pub(crate) fn new(site: Arc<Site>, events: Arc<EventLog>) -> anyhow::Result<Arc<Self>> {
        let config = &site.config;
        let destinations = config.webhook.destinations()?;
        let ca = config.webhook.ca.as_ref().map(|path| site.directory.join(path));
        let command = config.notify.as_ref().map(NotifyCommand::of).transpose()?;
        let sender = Sender::new(destinations, ca.as_deref(), command)?;
        let log = DeliveryLog::open(&site.directory);
        let (turn, changed, backlog) = (Mutex::default(), Notify::new(), Mutex::default());
        Ok(Arc::new(Self { site, sender, log, events, turn, changed, backlog }))
    }

    /// Returns all webhooks, by name. Blocks.
    ///
    /// # Errors
    /// The state cannot be read.
    pub(crate) fn list(&self) -> Result<WebhookList, Problem> {
        let hooks = self.site.state().webhooks()?;
        Ok(WebhookList { items: hooks.iter().map(|hook| self.view(hook, false)).collect() })
    }

    /// Returns a webhook. Blocks.
    ///
    /// # Errors
    /// No webhook has that name, or the state cannot be read.
    pub(crate) fn show(&self, name: &Name) -> Result<WebhookView, Problem> {
        self.find(name).map(|hook| self.view(&hook, false))
    }

    /// Makes a webhook, or replaces its settings. Also returns whether it is new. Blocks.
    ///
    /// # Errors
    /// The configuration does not allow its address, there are too many, the name is that of the
    /// command, or the state cannot be written.
    pub(crate) fn put(
        &self,
        name: &Name,
        settings: WebhookSettings,
    ) -> Result<(WebhookView, bool), Problem> {
        check_name(name)?;
        self.sender.destinations().check(&settings.url)?;
        let _turn = self.turn();
        let state = self.site.state();
        let hooks = state.webhooks()?;
        let known = hooks.iter().find(|hook| hook.name == *name).cloned();
        let others = hooks.iter().filter(|hook| hook.name.as_str() != NOTIFY_COMMAND).count();
        if known.is_none() && others >= WEBHOOKS_MAX {
            let title = format!("the site has {WEBHOOKS_MAX} webhooks");
            let problem = Problem::new(ProblemCode::TooMany, title);
            return Err(problem.hint("remove some with `penstock webhook remove`"));
        }
        let is_new = known.is_none();
        let hook = match known {
            Some(hook) => Webhook { settings, ..hook },
            None => new_hook(name.clone(), settings),
        };
        state.put_webhook(&hook)?;
        self.changed.notify_one();
        Ok((self.view(&hook, is_new), is_new))
    }

    /// Removes a webhook, and the messages that wait for it. Blocks.
    ///
    /// # Errors
    /// No webhook has that name, or the state cannot be written.
    pub(crate) fn remove(&self, name: &Name) -> Result<(), Problem> {
        check_name(name)?;
        let _turn = self.turn();
        self.find(name)?;
        self.site.state().remove_webhook(name)?;
        self.backlog().remove(name);
        self.changed.notify_one();
        Ok(())
    }

    /// Makes another secret; the former one signs too for [`SECRET_OVERLAP_SECONDS`]. Blocks.
    ///
    /// # Errors
    /// No webhook has that name, or the state cannot be written.
    pub(crate) fn rotate(&self, name: &Name) -> Result<WebhookView, Problem> {
        check_name(name)?;
        let _turn = self.turn();
        let mut hook = self.find(name)?;
        let fresh = WebhookSecret::new(rand::random());
        let former = std::mem::replace(&mut hook.secret, fresh);
        hook.former = Some((former, now_seconds() + SECRET_OVERLAP_SECONDS));
        self.site.state().put_webhook(&hook)?;
        self.changed.notify_one();
        Ok(self.view(&hook, true))
    }

    /// Delivers a test message now.
    pub(crate) async fn test(&self, hook: &Webhook) -> Delivery {
        let message = Message::test(&self.site.config.site, now_seconds());
        self.deliver_now(hook, &message).await
    }

    /// Delivers the message of this id about an ended transfer now.
    ///
    /// # Errors
    /// The transfer has another end by now than the one of the message.
    pub(crate) async fn redeliver(
        &self,
        hook: &Webhook,
        id: &str,
        view: &TransferReport,
    ) -> Result<Delivery, Problem> {
        let message = Message::again(&self.site.config.site, hook, view);
        let message = message.filter(|message| message.id == id).ok_or_else(|| unknown(id))?;
        Ok(self.deliver_now(hook, &message).await)
    }

    /// Returns the transfer of a message.
    ///
    /// # Errors
    /// The id is of no message about a transfer.
    pub(crate) fn transfer_of(id: &str) -> Result<TransferId, Problem> {
        Message::transfer_of(id).ok_or_else(|| unknown(id))
    }

    /// Returns the attempts of this peer for a webhook, newest first. Blocks.
    ///
    /// # Errors
    /// No webhook has that name, or the state cannot be read.
    pub(crate) fn deliveries(&self, name: &Name) -> Result<DeliveryList, Problem> {
        self.find(name)?;
        Ok(DeliveryList { items: self.log.last(name, DELIVERIES_MAX) })
    }

    /// Returns a webhook as the state keeps it. Blocks.
    ///
    /// # Errors
    /// No webhook has that name, or the state cannot be read.
    pub(crate) fn find(&self, name: &Name) -> Result<Webhook, Problem> {
        let hooks = self.site.state().webhooks()?;
        hooks.into_iter().find(|hook| hook.name == *name).ok_or_else(|| {
            Problem::new(ProblemCode::WebhookUnknown, format!("webhook `{name}` does not exist"))
                .hint("`penstock webhook list` shows the webhooks of this site")
        })
    }

    async fn deliver_now(&self, hook: &Webhook, message: &Message) -> Delivery {
        let attempt = self.sender.attempt(hook, message).await;
        let result = match attempt.is_delivered() {
            true => DeliveryResult::Delivered,
            false => DeliveryResult::GivenUp,
        };
        self.record(&hook.name, message, 1, (&attempt, result))
    }

    /// Adds an attempt to the log.
    pub(super) fn record(
        &self,
        name: &Name,
        message: &Message,
        number: u32,
        (attempt, result): (&Attempt, DeliveryResult),
    ) -> Delivery {
        let delivery = Delivery {
            webhook: name.clone(),
            id: message.id.clone(),
            kind: message.kind,
            transfer: message.transfer,
            at: Timestamp::of_ms(now_ms()),
            attempt: number,
            result,
            status: attempt.status,
            error: attempt.error.clone(),
            took_ms: attempt.took.as_millis() as u64,
        };
        self.log.add(delivery.clone());
        delivery
    }

    /// Tells operators of messages that no attempt will deliver.
    pub(super) fn tell_given_up(&self, name: &Name, id: &str, why: &str) {
        let text = format!("message {id} is given up: {why}");
        self.events.add("webhook", name.as_str(), None, &text);
    }

    /// Returns the webhooks that are delivered to, the command among them. Blocks.
    ///
    /// # Errors
    /// The state cannot be read or written.
    pub(super) fn receivers(&self, state: &dyn SiteState) -> Result<Vec<Webhook>, StateError> {
        let _turn = self.turn();
        let mut hooks = state.webhooks()?;
        if let Some(command) = self.sender.command() {
            let settings = WebhookSettings {
                url: format!("command:{}", command.words()),
                kinds: command.kinds().to_vec(),
                user: None,
                include_paths: true,
                disabled: false,
            };
            let known = hooks.iter_mut().find(|hook| command.is(&hook.name));
            match known {
                Some(hook) if hook.settings == settings => {}
                Some(hook) => {
                    hook.settings = settings;
                    state.put_webhook(hook)?;
                }
                None => {
                    let hook = new_hook(command.name().clone(), settings);
                    state.put_webhook(&hook)?;
                    hooks.push(hook);
                }
            }
        } else {
            hooks.retain(|hook| hook.name.as_str() != NOTIFY_COMMAND);
        }
        Ok(hooks)
    }

    /// Stores the times before which everything is delivered, by webhook. Blocks.
    ///
    /// # Errors
    /// The state cannot be written.
    pub(super) fn store_marks(
        &self,
        state: &dyn SiteState,
        marks: &BTreeMap<Name, u64>,
    ) -> Result<(), StateError> {
        let _turn = self.turn();
        for mut hook in state.webhooks()? {
            let Some(mark) = marks.get(&hook.name).filter(|mark| **mark > hook.delivered_ms) else {
                continue;
            };
            hook.delivered_ms = *mark;
            state.put_webhook(&hook)?;
        }
        Ok(())
    }

    pub(super) fn sender(&self) -> &Sender {
        &self.sender
    }

    pub(super) fn site_name(&self) -> &Name {
        &self.site.config.site
    }

    /// Waits until an operator has changed webhooks.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns the attempts of this process by result, and the messages that wait.
    pub(crate) fn figures(&self) -> (BTreeMap<&'static str, u64>, u64) {
        let backlog = self.backlog();
        (self.log.results(), backlog.values().map(|hook| hook.pending).sum())
    }

    /// Notes how delivery to each webhook goes.
    pub(super) fn show_backlog(&self, backlog: BTreeMap<Name, Backlog>) {
        *self.backlog() = backlog;
    }

    fn view(&self, hook: &Webhook, with_secret: bool) -> WebhookView {
        let backlog = self.backlog().get(&hook.name).cloned().unwrap_or_default();
        WebhookView {
            name: hook.name.clone(),
            settings: hook.settings.clone(),
            created_at: Timestamp::of_seconds(hook.created),
            pending: backlog.pending,
            error: backlog.error,
            secret: with_secret.then(|| hook.secret.expose()),
        }
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn backlog(&self) -> MutexGuard<'_, BTreeMap<Name, Backlog>> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a webhook that gets messages about ends from now on.
fn new_hook(name: Name, settings: WebhookSettings) -> Webhook {
    Webhook {
        name,
        settings,
        secret: WebhookSecret::new(rand::random()),
        former: None,
        created: now_seconds(),
        delivered_ms: now_ms(),
    }
}

fn unknown(id: &str) -> Problem {
    let title = format!("message `{id}` of a webhook does not exist");
    Problem::new(ProblemCode::WebhookUnknown, title)
        .hint("`penstock webhook deliveries NAME` shows messages; a retry of a transfer ends anew")
}

fn check_name(name: &Name) -> Result<(), Problem> {
    if name.as_str() != NOTIFY_COMMAND {
        return Ok(());
    }
    let title = format!("`{NOTIFY_COMMAND}` stands for `notify.command` of the configuration");
    Err(Problem::new(ProblemCode::Name, title).hint("change the table `[notify]` instead"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use penstock_api::webhook::WebhookKind;

    use super::*;
    use crate::site::context::tests::site_of;

    fn webhooks(directory: &Path) -> Arc<Webhooks> {
        let allow = "[webhook]\nallow = [\"https://hooks.lab.example/\"]\n";
        let site = Arc::new(site_of(directory, allow));
        let events = EventLog::open(directory, &site.config.peer);
        Webhooks::new(site, events).unwrap()
    }

    fn settings(path: &str) -> WebhookSettings {
        WebhookSettings {
            url: format!("https://hooks.lab.example/{path}"),
            kinds: vec![WebhookKind::Done],
            user: None,
            include_paths: false,
            disabled: false,
        }
    }

    /// Promise (g): a site has at most 100 webhooks, beside its command. Existing ones can be
    /// changed, and a removed one makes room.
    #[test]
    fn g_webhooks_are_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let webhooks = webhooks(directory.path());
        let name = |number: usize| format!("hook{number}").parse::<Name>().unwrap();
        let command = new_hook(NOTIFY_COMMAND.parse().unwrap(), settings("command"));
        webhooks.site.state().put_webhook(&command).unwrap();
        for number in 0..WEBHOOKS_MAX {
            assert!(webhooks.put(&name(number), settings("a")).unwrap().1, "{number}");
        }
        let refused = webhooks.put(&name(WEBHOOKS_MAX), settings("a")).unwrap_err();
        assert_eq!(refused.code, ProblemCode::TooMany);
        assert_eq!(refused.title, "the site has 100 webhooks");
        let (changed, is_new) = webhooks.put(&name(7), settings("b")).unwrap();
        assert!(changed.settings == settings("b") && !is_new && changed.secret.is_none());
        webhooks.remove(&name(7)).unwrap();
        webhooks.put(&name(WEBHOOKS_MAX), settings("a")).unwrap();
        assert_eq!(webhooks.list().unwrap().items.len(), WEBHOOKS_MAX + 1);
    }
}
