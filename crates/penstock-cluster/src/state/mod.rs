//! The state of a site: transfers, heads of ledgers, pairings, stubs.
//!
//! A site of one peer keeps it in SQLite, one of several in etcd ([`EtcdState`]); callers see a
//! [`SiteState`]. In SQLite it is one database in the site directory, in WAL mode, with two kinds
//! of commit (hard case A8):
//!
//! - *plain*: `synchronous=NORMAL`. The frames are in the page cache when it returns: it survives
//!   `kill -9` of the process, and a power cut may take the last of them.
//! - *durable*: `synchronous=FULL`. The WAL is fsynced before it returns, and with it every plain
//!   commit before: it survives a power cut.
//!
//! The 1 Hz heads are plain. Facts reported to a user, and heads that call something durable, are
//! durable. The caller holds the lock of the site directory: one daemon per database.

mod benchmarks;
mod etcd;
mod heads;
mod principals;
mod queue_rules;
mod sites;
mod sqlite;
mod transfers;

pub use etcd::{
    EtcdState, JournalError, KnownMember, RecoverError, Recovered, SharedJournal, is_cut_short,
    recover,
};
pub use sites::Pairing;
pub use sqlite::{SqliteState, StateError};
pub use transfers::{ListKey, ListOrder, Listed, Listing};
pub use transfers::{StoredIn, Stub, Submitted, TransferRecord, Wish};

use benchmarks::BenchmarkTable;
use penstock_api::access::{Link, Session, SessionId, Token, TokenId, User};
use penstock_api::benchmark::Benchmark;
use penstock_api::heads::HeadStore;
use penstock_api::queue::QueueRule;
use penstock_api::webhook::Webhook;
use penstock_proto::id::{Name, TransferId};
use penstock_proto::version;
use queue_rules::QueueRuleTable;

/// The persistent state of a site and of its manager. Methods block for a transaction.
///
/// # Errors
/// Of all methods: the state cannot be read or written; with etcd, that this peer is no longer the
/// controller.
pub trait SiteState: HeadStore {
    /// Returns the format of the state ([`penstock_proto::version`]).
    fn format(&self) -> u16;
    /// Stores a transfer, durably.
    fn put_transfer(&self, record: &TransferRecord) -> Result<(), StateError>;
    /// Returns one transfer that this site owns.
    fn transfer(&self, id: TransferId) -> Result<Option<TransferRecord>, StateError>;
    /// Returns all transfers of this site that have not ended, oldest first.
    fn open_transfers(&self) -> Result<Vec<TransferRecord>, StateError>;
    /// Stores the known state of another site's transfer. Losing it costs a request.
    fn put_stub(&self, stub: &Stub) -> Result<(), StateError>;
    /// Returns one stub.
    fn stub(&self, id: TransferId) -> Result<Option<Stub>, StateError>;
    /// Stubs of transfers that had not ended when last seen.
    fn open_stubs(&self) -> Result<Vec<Stub>, StateError>;
    /// Forgets a stub.
    fn remove_stub(&self, id: TransferId) -> Result<(), StateError>;
    /// Returns up to `limit` transfers and stubs behind `after` in an order, without their lists:
    /// of paths, of rules, of failed items.
    fn overview(
        &self,
        order: ListOrder,
        after: Option<ListKey>,
        limit: usize,
    ) -> Result<Vec<Listed>, StateError>;
    /// Returns the part of [`SiteState::overview`] that is stored in a state. Costs as much as it
    /// returns.
    fn overview_in(
        &self,
        stored: StoredIn,
        order: ListOrder,
        after: Option<ListKey>,
        limit: usize,
    ) -> Result<Vec<Listed>, StateError>;
    /// Returns the ids of transfers and stubs that begin with the hexadecimal digits `prefix`.
    fn ids_with_prefix(&self, prefix: &str) -> Result<Vec<TransferId>, StateError>;
    /// Returns the transfers of which a ledger is kept.
    fn ledgers(&self) -> Result<Vec<TransferId>, StateError>;
    /// Returns all pairings, by name.
    fn pairings(&self) -> Result<Vec<Pairing>, StateError>;
    /// Returns one pairing.
    fn pairing(&self, site: &Name) -> Result<Option<Pairing>, StateError>;
    /// Stores a pairing, or replaces the one with the same site. Durable.
    fn pair(&self, pairing: &Pairing) -> Result<(), StateError>;
    /// Forgets a pairing; whether there was one. Durable.
    fn unpair(&self, site: &Name) -> Result<bool, StateError>;
    /// Returns all users, by name.
    fn users(&self) -> Result<Vec<User>, StateError>;
    /// Stores a user, or replaces the one with the same name. Durable.
    fn put_user(&self, user: &User) -> Result<(), StateError>;
    /// Removes a user. Durable.
    fn remove_user(&self, name: &Name) -> Result<(), StateError>;
    /// Returns all tokens.
    fn tokens(&self) -> Result<Vec<Token>, StateError>;
    /// Stores a token. Durable.
    fn put_token(&self, token: &Token) -> Result<(), StateError>;
    /// Removes a token. Durable.
    fn remove_token(&self, id: TokenId) -> Result<(), StateError>;
    /// Returns all webhooks, by name.
    fn webhooks(&self) -> Result<Vec<Webhook>, StateError>;
    /// Stores a webhook, or replaces the one with the same name. Durable.
    fn put_webhook(&self, webhook: &Webhook) -> Result<(), StateError>;
    /// Removes a webhook. Durable.
    fn remove_webhook(&self, name: &Name) -> Result<(), StateError>;
    /// Returns all rules of the queue, by key.
    fn queue_rules(&self) -> Result<Vec<QueueRule>, StateError>;
    /// Stores a rule of the queue, or replaces the one with the same key. Durable.
    fn put_queue_rule(&self, rule: &QueueRule) -> Result<(), StateError>;
    /// Removes a rule of the queue. Durable.
    fn remove_queue_rule(&self, key: &str) -> Result<(), StateError>;
    /// Returns the results of all benchmarks of stores, oldest first.
    fn benchmarks(&self) -> Result<Vec<Benchmark>, StateError>;
    /// Stores the result of a benchmark, or replaces the one with the same id. Durable.
    fn put_benchmark(&self, benchmark: &Benchmark) -> Result<(), StateError>;
    /// Removes the result of a benchmark. Durable.
    fn remove_benchmark(&self, id: TransferId) -> Result<(), StateError>;
    /// Returns all sessions.
    fn sessions(&self) -> Result<Vec<Session>, StateError>;
    /// Stores a session. Durable.
    fn put_session(&self, session: &Session) -> Result<(), StateError>;
    /// Removes a session. Durable.
    fn remove_session(&self, id: SessionId) -> Result<(), StateError>;
    /// Returns all one-time links.
    fn links(&self) -> Result<Vec<Link>, StateError>;
    /// Stores a link, or replaces the one for the same purpose. Durable.
    fn put_link(&self, link: &Link) -> Result<(), StateError>;
    /// Removes the link under a key. Durable.
    fn remove_link(&self, key: &str) -> Result<(), StateError>;
}

impl SiteState for SqliteState {
    fn format(&self) -> u16 {
        version::known().formats().newest
    }

    fn put_transfer(&self, record: &TransferRecord) -> Result<(), StateError> {
        self.put_transfer(record)
    }

    fn transfer(&self, id: TransferId) -> Result<Option<TransferRecord>, StateError> {
        self.transfer(id)
    }

    fn open_transfers(&self) -> Result<Vec<TransferRecord>, StateError> {
        self.open_transfers()
    }

    fn put_stub(&self, stub: &Stub) -> Result<(), StateError> {
        self.put_stub(stub)
    }

    fn stub(&self, id: TransferId) -> Result<Option<Stub>, StateError> {
        self.stub(id)
    }

    fn open_stubs(&self) -> Result<Vec<Stub>, StateError> {
        self.open_stubs()
    }

    fn remove_stub(&self, id: TransferId) -> Result<(), StateError> {
        self.remove_stub(id)
    }

    fn overview(
        &self,
        order: ListOrder,
        after: Option<ListKey>,
        limit: usize,
    ) -> Result<Vec<Listed>, StateError> {
        self.overview(order, after, limit)
    }

    fn overview_in(
        &self,
        stored: StoredIn,
        order: ListOrder,
        after: Option<ListKey>,
        limit: usize,
    ) -> Result<Vec<Listed>, StateError> {
        self.overview_in(stored, order, after, limit)
    }

    fn ids_with_prefix(&self, prefix: &str) -> Result<Vec<TransferId>, StateError> {
        self.ids_with_prefix(prefix)
    }

    fn ledgers(&self) -> Result<Vec<TransferId>, StateError> {
        self.ledgers()
    }

    fn pairings(&self) -> Result<Vec<Pairing>, StateError> {
        self.pairings()
    }

    fn pairing(&self, site: &Name) -> Result<Option<Pairing>, StateError> {
        self.pairing(site)
    }

    fn pair(&self, pairing: &Pairing) -> Result<(), StateError> {
        self.pair(pairing)
    }

    fn unpair(&self, site: &Name) -> Result<bool, StateError> {
        self.unpair(site)
    }

    fn users(&self) -> Result<Vec<User>, StateError> {
        self.users()
    }

    fn put_user(&self, user: &User) -> Result<(), StateError> {
        self.put_user(user)
    }

    fn remove_user(&self, name: &Name) -> Result<(), StateError> {
        self.remove_user(name)
    }

    fn tokens(&self) -> Result<Vec<Token>, StateError> {
        self.tokens()
    }

    fn put_token(&self, token: &Token) -> Result<(), StateError> {
        self.put_token(token)
    }

    fn remove_token(&self, id: TokenId) -> Result<(), StateError> {
        self.remove_token(id)
    }

    fn webhooks(&self) -> Result<Vec<Webhook>, StateError> {
        self.webhooks()
    }

    fn put_webhook(&self, webhook: &Webhook) -> Result<(), StateError> {
        self.put_webhook(webhook)
    }

    fn remove_webhook(&self, name: &Name) -> Result<(), StateError> {
        self.remove_webhook(name)
    }

    fn queue_rules(&self) -> Result<Vec<QueueRule>, StateError> {
        QueueRuleTable(self).all()
    }

    fn put_queue_rule(&self, rule: &QueueRule) -> Result<(), StateError> {
        QueueRuleTable(self).put(rule)
    }

    fn remove_queue_rule(&self, key: &str) -> Result<(), StateError> {
        QueueRuleTable(self).remove(key)
    }

    fn benchmarks(&self) -> Result<Vec<Benchmark>, StateError> {
        BenchmarkTable(self).all()
    }

    fn put_benchmark(&self, benchmark: &Benchmark) -> Result<(), StateError> {
        BenchmarkTable(self).put(benchmark)
    }

    fn remove_benchmark(&self, id: TransferId) -> Result<(), StateError> {
        BenchmarkTable(self).remove(id)
    }

    fn sessions(&self) -> Result<Vec<Session>, StateError> {
        self.sessions()
    }

    fn put_session(&self, session: &Session) -> Result<(), StateError> {
        self.put_session(session)
    }

    fn remove_session(&self, id: SessionId) -> Result<(), StateError> {
        self.remove_session(id)
    }

    fn links(&self) -> Result<Vec<Link>, StateError> {
        self.links()
    }

    fn put_link(&self, link: &Link) -> Result<(), StateError> {
        self.put_link(link)
    }

    fn remove_link(&self, key: &str) -> Result<(), StateError> {
        self.remove_link(key)
    }
}
