//! The code of a problem, and the one table of all codes.
//!
//! `docs/problems.md` is written from the table by `cargo xtask reference`.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::exit::Exit;

/// Whether the same request may succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same request may succeed later. A transfer waits and tries again by itself.
    Later,
    /// The same request may succeed after the change that the advice names.
    AfterChange,
    /// The same request never succeeds.
    Never,
}

impl Retry {
    /// Returns the word of the reference.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Later => "later",
            Self::AfterChange => "after a change",
            Self::Never => "never",
        }
    }
}

/// Facts of a code that hold for every problem with it.
#[derive(Clone, Copy, Debug)]
pub struct ProblemFacts {
    /// The text of the code in JSON, in logs and in events.
    pub code: &'static str,
    /// HTTP status, unless a problem sets another.
    pub status: u16,
    /// Exit status of a command, unless a problem sets another.
    pub exit: Exit,
    /// Whether the same request may succeed later.
    pub retry: Retry,
    /// The kind of failure, in one sentence.
    pub title: &'static str,
    /// The next step of a user or an operator, in one sentence.
    pub advice: &'static str,
}

/// Codes of one area, in the order of the reference.
#[derive(Clone, Copy, Debug)]
pub struct ProblemGroup {
    /// The area.
    pub name: &'static str,
    /// The facts of its codes.
    pub codes: &'static [ProblemFacts],
}

/// The facts of a code that this release does not know.
const OTHER: ProblemFacts = ProblemFacts {
    code: "other",
    status: 500,
    exit: Exit::Unclassified,
    retry: Retry::AfterChange,
    title: "Another release of penstock reports this problem.",
    advice: "Look at the message, and use the same release of penstock everywhere.",
};

macro_rules! problem_codes {
    ($( $group:literal: $(
        $name:ident $code:literal $status:literal $exit:ident $retry:ident
        $title:literal $advice:literal;
    )+ )+) => {
        /// The kind of a problem. Programs branch on it; its text in JSON never changes.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum ProblemCode {
            $($( #[doc = $title] $name, )+)+
            /// A code of another release. Its text is kept.
            Other(Box<str>),
        }

        impl ProblemCode {
            /// Every code that this release knows, by areas.
            pub const TABLE: &[ProblemGroup] = &[$( ProblemGroup {
                name: $group,
                codes: &[$( ProblemFacts {
                    code: $code,
                    status: $status,
                    exit: Exit::$exit,
                    retry: Retry::$retry,
                    title: $title,
                    advice: $advice,
                }, )+],
            }, )+];

            /// Returns the text of the code in JSON.
            pub fn as_str(&self) -> &str {
                match self {
                    $($( Self::$name => $code, )+)+
                    Self::Other(code) => code,
                }
            }

            /// Returns the code of a text. A text that this release does not know is kept.
            fn of(text: Cow<'_, str>) -> Self {
                match &*text {
                    $($( $code => Self::$name, )+)+
                    _ => Self::Other(text.into()),
                }
            }
        }
    };
}

problem_codes! {
    "Requests":
    Body "body" 400 Usage AfterChange
        "The body of the request is wrong, too long or late."
        "Send the JSON that the reference of the API describes, within its limits.";
    Request "request" 400 Usage AfterChange
        "The request asks for something that does not exist or makes no sense."
        "Correct the options that the message names.";
    RequestUnreadable "request-unreadable" 502 Fatal AfterChange
        "A peer cannot read a request of its controller."
        "Install the same release of penstock at all peers of the site.";
    Query "query" 400 Usage AfterChange
        "The query of the URL is wrong."
        "Correct the parameter that the message names.";
    Cursor "cursor" 400 Usage AfterChange
        "The cursor of a list is not one that the site issued."
        "Start at the first page of the list again.";
    TargetPrivate "target-private" 400 Usage AfterChange
        "The target lies in the private directory of a store."
        "Choose another target.";
    Id "id" 400 Usage AfterChange
        "The text is not the id of a transfer."
        "Copy the id from `penstock transfer list`.";
    Name "name" 400 Usage AfterChange
        "The text is not a name."
        "Use lower-case letters, digits, `-` and `_`, as the message says.";
    UnknownField "unknown-field" 400 Usage AfterChange
        "The request has a field or a parameter that does not exist."
        "Correct or leave out the field that the message names.";
    NotFound "not-found" 404 Usage AfterChange
        "The API has no such path."
        "Compare the path with the reference of the API.";
    MethodUnknown "method-unknown" 405 Usage AfterChange
        "The path has no such method."
        "Use one of the methods that the header `Allow` lists.";
    ChangedMeanwhile "changed-meanwhile" 412 Refused AfterChange
        "The object was changed since the caller has read it."
        "Read it again, and repeat the change with its new `ETag` if it is still wanted.";
    TooLong "too-long" 413 Usage AfterChange
        "The body of the request is too long."
        "Split the request, or keep within the limits of the reference.";
    MediaType "media-type" 415 Usage AfterChange
        "The body of the request is not of a type that the path takes."
        "Send JSON with `Content-Type: application/json`.";
    HeadTooLong "head-too-long" 431 Usage AfterChange
        "The head of the request is too long."
        "Send fewer or shorter headers, or a shorter path.";
    Path "path" 404 Usage AfterChange
        "The API between peers has no such path."
        "Install the same release of penstock at all peers of the site.";
    UnknownAction "unknown-action" 404 Usage AfterChange
        "A transfer has no such action."
        "Use one of the actions that the reference lists.";
    Checksum "checksum" 404 Usage AfterChange
        "The kind of checksum is not known."
        "Use one of the kinds that `penstock transfer submit --help` lists.";
    Select "select" 400 Usage AfterChange
        "A filter cannot be read."
        "Correct the pattern or the rule that the message names.";
    OwnerMap "owner-map" 400 Usage AfterChange
        "An owner map names an account that the target host does not know."
        "Name an account of the target host, or give its number.";
    Asked "asked" 400 Usage AfterChange
        "A controller asked about entries in a form that the source rejects."
        "Install the same release of penstock at both sites.";
    Wish "wish" 400 Usage AfterChange
        "A controller asked for digests of entries that are not files."
        "Install the same release of penstock at both sites.";
    Http "http" 502 Unclassified Later
        "The reply is an HTTP error that penstock did not write."
        "Check whether a proxy or another program answers at this address.";
    Connection "connection" 503 Temporary Later
        "The connection to the daemon broke."
        "Look at the log of the daemon, and run the command again.";
    NoDaemon "no-daemon" 503 Temporary Later
        "No daemon answers at the socket."
        "Start the daemon, or name its directory with `--dir`.";
    Version "version" 426 Fatal AfterChange
        "The sites speak different versions of the protocol."
        "Upgrade the site with the older release of penstock.";
    ReplyUnreadable "reply-unreadable" 502 Fatal AfterChange
        "The reply is not what this release understands."
        "Use the same release of penstock everywhere.";
    Internal "internal" 500 Unclassified Never
        "Penstock broke one of its own assumptions."
        "Report the message and the log to the maintainers.";
    Threads "threads" 503 Temporary Later
        "The host cannot start another thread."
        "Raise the limit of processes and threads, or end other programs.";
    Busy "busy" 503 Temporary Later
        "The site has too many requests of this kind in hand."
        "Repeat the request after some seconds.";
    MaybeDone "maybe-done" 503 Temporary Later
        "The controller was lost before it answered."
        "Check whether the request was carried out before you repeat it.";

    "Rights":
    NotAuthorised "not-authorised" 403 NotAuthorised AfterChange
        "The caller may not make this request."
        "Ask an operator of the site for the right.";
    Unauthenticated "unauthenticated" 401 NotAuthorised AfterChange
        "The request proves no identity, or its token is not accepted."
        "Send a token that is valid; `penstock token create` makes one.";
    UserUnknown "user-unknown" 404 Usage AfterChange
        "The site has no user of that name."
        "Look at `penstock user list`.";
    TooMany "too-many" 409 Usage AfterChange
        "The site keeps no more users, grants or tokens."
        "Remove some that are not in use.";
    TokenUnknown "token-unknown" 404 Usage AfterChange
        "The site has no token of that id."
        "Look at `penstock token list`.";
    WebhookUnknown "webhook-unknown" 404 Usage AfterChange
        "The site has no webhook of that name, or no message of that id for it."
        "Look at `penstock webhook list` and `penstock webhook deliveries`.";
    WebhookAddress "webhook-address" 409 Refused AfterChange
        "The configuration does not allow this address of a webhook."
        "Add the beginning of the address to `webhook.allow`, and restart the daemon.";
    UserKnown "user-known" 409 Usage AfterChange
        "The site has a user of that name."
        "Choose another name, or have an administrator change the user.";
    LoginRefused "login-refused" 401 NotAuthorised AfterChange
        "Name and password are not those of a user who may log in."
        "Check both; an administrator makes a link for a new password by `penstock user invite`.";
    LoginLater "login-later" 429 Temporary Later
        "Too many log-ins from there, or to that user, have failed."
        "Wait for the seconds in `Retry-After`.";
    LoginOff "login-off" 403 NotAuthorised AfterChange
        "This way to log in is switched off at the site."
        "Use another way to log in, or have an administrator change the table `auth`.";
    OidcProviderDown "oidc-provider-down" 503 Temporary Later
        "The site's OpenID provider cannot be reached, or does not answer in time."
        "Try again in a minute; sessions that have begun continue meanwhile.";
    OidcProviderWrong "oidc-provider-wrong" 502 Fatal AfterChange
        "The site's OpenID provider answers in a way that the site cannot use."
        "Compare the table `auth.oidc` with the client that is registered at the provider.";
    OidcState "oidc-state" 403 NotAuthorised AfterChange
        "The log-in at the provider was never begun here, is over, or was finished already."
        "Begin the log-in again, from the page of this site.";
    OidcBrowser "oidc-browser" 403 NotAuthorised Never
        "The log-in at the provider was begun by another browser."
        "Begin the log-in again, in this browser; follow no link that somebody sent.";
    OidcDenied "oidc-denied" 403 NotAuthorised AfterChange
        "The provider has refused the log-in, or its user has given it up."
        "Begin the log-in again; ask those who run the provider, if it refuses again.";
    OidcCode "oidc-code" 403 NotAuthorised AfterChange
        "The provider does not accept the code of the log-in: it was used, or is too old."
        "Begin the log-in again.";
    OidcToken "oidc-token" 502 NotAuthorised AfterChange
        "The token of the provider is damaged, or lacks a claim that it must have."
        "Ask those who run the provider; the log of the daemon has the reason.";
    OidcAlgorithm "oidc-algorithm" 502 NotAuthorised AfterChange
        "The token of the provider is signed in a way that the site does not accept."
        "Have the provider sign with RS256, ES256 or another algorithm of public keys.";
    OidcKey "oidc-key" 502 NotAuthorised Later
        "The token of the provider is signed with a key that the provider does not publish."
        "Try again in a minute, if the provider has just changed its keys.";
    OidcSignature "oidc-signature" 502 NotAuthorised Never
        "The signature of the provider's token is wrong."
        "Find out who answers at the address of the provider: the token is not of it.";
    OidcIssuer "oidc-issuer" 502 NotAuthorised AfterChange
        "The answer or the token is of another provider than the site's."
        "Set `issuer` in the table `auth.oidc` exactly as the provider names itself.";
    OidcAudience "oidc-audience" 502 NotAuthorised AfterChange
        "The token of the provider is for another program than this site."
        "Set `client_id` in the table `auth.oidc` as it is registered at the provider.";
    OidcExpired "oidc-expired" 502 NotAuthorised AfterChange
        "The token of the provider is not valid at this time."
        "Compare the clocks of this host and of the provider.";
    OidcNonce "oidc-nonce" 502 NotAuthorised Never
        "The token of the provider belongs to another log-in."
        "Begin the log-in again, in one window.";
    OidcSubject "oidc-subject" 502 NotAuthorised Never
        "The provider's facts about the user are about another one."
        "Ask those who run the provider.";
    OidcName "oidc-name" 403 NotAuthorised AfterChange
        "The provider tells no name that a user of this site can have."
        "Name a claim that has one as `user_claim` in the table `auth.oidc`.";
    OidcNameTaken "oidc-name-taken" 403 NotAuthorised AfterChange
        "The name is that of a user who is not bound to this person at the provider."
        "Have an administrator bind them, by `penstock user set NAME --subject SUBJECT`.";
    OidcRole "oidc-role" 403 NotAuthorised AfterChange
        "No group of the user has a role at this site."
        "Ask an administrator of the site for a group that is named in `auth.oidc.roles`.";
    OidcLocked "oidc-locked" 403 NotAuthorised AfterChange
        "An administrator of the site has locked the user out."
        "Ask an administrator of the site; `penstock user set NAME --enable` ends the lock.";
    PasswordUnfit "password-unfit" 400 Usage AfterChange
        "The password is too short or too long."
        "Choose a password of at least 12 characters.";
    LinkVoid "link-void" 410 NotAuthorised AfterChange
        "The link was used, replaced or is too old."
        "Have an administrator make another one: `penstock web setup` or `penstock user invite`.";
    SessionUnknown "session-unknown" 404 Usage AfterChange
        "The site has no session of that id."
        "Look at `penstock auth sessions`.";
    DeviceUnknown "device-unknown" 404 Usage AfterChange
        "No program waits under that code."
        "Compare the code with the one that `penstock login` shows; it is good for ten minutes.";
    CrossSite "cross-site" 403 NotAuthorised Never
        "A page of another site has sent the request, by the browser of a user."
        "Send the request from the site's own page, or with a token.";
    HostUnknown "host-unknown" 421 Usage AfterChange
        "The request is for another host than those that the site serves."
        "Use a name or an address of the site, or list the name under `names` in the table `web`.";
    NotExported "not-exported" 403 NotAuthorised AfterChange
        "The store is not exported to the calling site."
        "Ask an operator of the other site to list your site at the store.";
    DeleteNotAllowed "delete-not-allowed" 403 NotAuthorised AfterChange
        "The calling site may not replace or delete files in the store."
        "Ask an operator of the target site for the right `delete`.";
    RemoveNotAllowed "remove-not-allowed" 403 NotAuthorised AfterChange
        "The transfer may not remove files at the source."
        "Ask an operator of the source site for the right `remove`, or copy instead.";
    CapabilityVoid "capability" 403 NotAuthorised AfterChange
        "The capability does not permit to remove files at the source."
        "Penstock asks for another one; check the clocks of both sites if the error persists.";
    CapabilityUnreadable "capability-unreadable" 400 Fatal AfterChange
        "The capability for a scan cannot be read."
        "Install the same release of penstock at both sites.";
    LaneCapability "lane-capability" 503 Temporary Later
        "The source rejects the capability of a lane."
        "Penstock asks for another one; check the clocks of both sites if the error persists.";
    Policy "policy" 403 NotAuthorised AfterChange
        "The source requires lanes that are encrypted."
        "Submit the transfer again without `--encryption off`.";

    "Transfers":
    TransferUnknown "transfer-unknown" 404 Usage AfterChange
        "The site knows no such transfer."
        "Look at `penstock transfer list`.";
    TransferAmbiguous "transfer-ambiguous" 400 Usage AfterChange
        "More than one transfer begins with this text."
        "Give more digits of the id.";
    TransferBusy "transfer-busy" 503 Temporary Later
        "The files of the transfer are being removed."
        "Repeat the request in a moment.";
    WrongState "wrong-state" 409 Refused AfterChange
        "The state of the transfer does not permit the action."
        "Look at its state with `penstock transfer show`.";
    IdTaken "id-taken" 409 Refused AfterChange
        "Another transfer has this id."
        "Submit the transfer with a new id.";
    Overlap "overlap" 409 Refused AfterChange
        "The target overlaps with that of another transfer."
        "Wait until the other transfer has ended, or choose another target.";
    SamePlace "same-place" 409 Refused AfterChange
        "The source and the target overlap."
        "Choose a target that is neither inside the source nor around it.";
    NotADirectory "not-a-directory" 409 Fatal AfterChange
        "A place that must be a directory is not one."
        "Correct the path of the source or of the target.";
    DeadlineUnkeepable "deadline-unkeepable" 422 Refused AfterChange
        "The forecast does not keep the deadline that is to be promised."
        "Choose a later time or the policy best_effort, or ask an operator to let others wait.";
    DeadlineAtRisk "deadline-at-risk" 409 Refused Later
        "The forecast no longer keeps the deadline of a transfer."
        "Look at the queue; an operator can make the transfer urgent or let others wait.";
    DeadlineMissed "deadline-missed" 409 Refused Never
        "The deadline of a transfer is over, and the transfer has not ended."
        "Look at what the transfer waits for.";
    QueueRule "queue-rule" 404 Usage Never
        "The queue has no rule of this name."
        "List the rules with `penstock queue show`.";
    QueueFull "queue-full" 503 Temporary Later
        "Too many transfers wait at the site."
        "Submit again when some of them have ended.";
    Room "room" 503 Temporary Later
        "The free space of the store is not known."
        "Check whether a peer reaches the store.";
    ListAnew "list-anew" 503 Temporary Later
        "The target is older than the ledger of the transfer."
        "Wait: the next attempt lists the source again.";
    Stalled "stalled" 503 Temporary Later
        "The transfer has moved no data for too long."
        "Look at the reason in the message; the transfer is tried again.";
    Stopped "stopped" 409 Interrupted Later
        "The work was stopped at the user's request."
        "Resume the transfer, or run the command again.";
    SomeFailed "some-failed" 409 SomeFailed AfterChange
        "Some items failed; all others are done."
        "Look at the list of failed items, and transfer them again.";
    SourceChanged "source-changed" 409 SourceChanged AfterChange
        "Some items changed or vanished at the source."
        "Transfer the items again when nothing writes to them.";
    Integrity "integrity" 409 Integrity AfterChange
        "The bytes of some items are not those of their digests."
        "Check the memory and the disks of both hosts, and transfer the items again.";
    NoDigestList "no-digest-list" 404 Refused AfterChange
        "The transfer has no list of digests."
        "Submit with `--write-digests FILE`, and wait until the transfer has ended.";
    NoChecksums "no-checksums" 404 Refused AfterChange
        "The transfer has no list of this kind of checksum."
        "Submit with `--also-digest LIST`, and wait until the transfer has ended.";
    NoReceipt "no-receipt" 404 Refused AfterChange
        "The transfer has no receipt."
        "Wait until the transfer has ended; one that failed before the source was listed has none.";

    "Plans":
    PlanBroken "plan-broken" 400 Usage AfterChange
        "The plan is damaged or incomplete."
        "Make another plan.";
    PlanCompare "plan-compare" 400 Usage AfterChange
        "A plan cannot compare the contents of files."
        "Leave out `--compare digest`, or transfer without a plan.";
    PlanMissing "plan-missing" 400 Usage AfterChange
        "The site has not received the plan of the transfer."
        "Submit the plan with `penstock transfer submit --plan FILE`.";
    PlanOptions "plan-options" 400 Usage AfterChange
        "The options differ from those of the plan."
        "Submit with the options of the plan, or make another plan.";
    PlanPart "plan-part" 409 Refused AfterChange
        "The site lacks an earlier part of the plan."
        "Submit the plan again.";
    PlanStale "plan-stale" 409 SourceChanged AfterChange
        "The source or the target is no longer as the plan says."
        "Make another plan, and compare both.";
    PlanUsed "plan-used" 409 Refused AfterChange
        "The transfer followed a plan that no longer holds."
        "Make another plan, and submit it.";
    PlanTooLong "plan-too-long" 409 Refused AfterChange
        "The plan is longer than a site accepts."
        "Split the data set, or transfer without a plan.";
    PlansFull "plans-full" 503 Temporary Later
        "The site is making too many plans."
        "Repeat the request in a moment.";

    "Source":
    Source "source" 503 Temporary Later
        "The source cannot be examined now."
        "Check the disk, server or mount of the source.";
    SourceUnreadable "source-unreadable" 422 Fatal AfterChange
        "The source cannot be examined."
        "Look at the reason in the message.";
    SourceMissing "source-missing" 404 SourceChanged AfterChange
        "The source does not exist."
        "Correct the path of the source.";
    SourceDenied "source-denied" 403 NotAuthorised AfterChange
        "The daemon's user may not enter the source."
        "Ask the owner of the source for the right to read it.";
    SourceUnlisted "source-unlisted" 403 Fatal AfterChange
        "The daemon's user may enter the source but not list it."
        "Ask the owner for the right to list it, or name its items with `--files-from`.";
    SourceKind "source-kind" 400 Usage AfterChange
        "The source is of a kind that cannot be transferred."
        "Give a file or a directory outside the state of penstock.";
    SourceSync "source-sync" 503 Temporary Later
        "The source store cannot be synced after files were removed."
        "Look at the kernel log of the source host.";
    ScanUnknown "scan-unknown" 404 Temporary Later
        "The scan of the transfer is not open at the source."
        "Wait: the owner of the transfer opens the scan again.";
    ScanKnown "scan-known" 403 NotAuthorised AfterChange
        "The source has a scan of another data set for this transfer."
        "Submit the transfer with a new id.";
    ScanOpening "scan-opening" 503 Temporary Later
        "The scan of the transfer is being opened."
        "Wait: the transfer continues by itself.";
    ScanBusy "scan-busy" 503 Temporary Later
        "An earlier request to the scan is still in progress."
        "Check the disk or server of the source store if the error persists.";
    ScanGivenUp "scan-given-up" 503 Temporary Later
        "The scan was stopped while it was opened."
        "Wait: the next attempt opens the scan again.";
    ScanIncomplete "scan-incomplete" 503 Temporary Later
        "The scan of the transfer is not complete."
        "Wait until the source has been listed.";
    ScansFull "scans-full" 503 Temporary Later
        "The calling site has too many scans open."
        "Wait until some of its transfers have ended.";
    PageUnknown "page-unknown" 404 Temporary Later
        "The source does not have this page of the data set."
        "Wait: the next attempt asks for the page again.";
    PageDiffers "page-differs" 409 Fatal AfterChange
        "The source has no page with this number and digest."
        "Submit the transfer again.";
    PageDamaged "page-damaged" 500 Fatal AfterChange
        "A page of the data set is damaged at the source."
        "Check the disk of the journal, and submit the transfer again.";
    Page "page" 503 Temporary Later
        "The source does not send a lost page of the data set again."
        "Check whether the source site answers.";
    Manifest "manifest" 502 Fatal AfterChange
        "The source sent a page that is not part of the data set."
        "Install the same release of penstock at both sites, and submit again.";
    ManifestIncomplete "manifest-incomplete" 503 Temporary Later
        "The list of items that could not be listed is not complete."
        "Wait: the next attempt asks for the list again.";
    ManifestLost "manifest-lost" 410 Fatal Never
        "A page of the data set is lost at both sites."
        "Submit the transfer again.";

    "Stores and targets":
    StoreUnknown "store-unknown" 404 Usage AfterChange
        "The site has no such store."
        "Use one of the stores that `penstock store list` shows.";
    StoreKind "store-kind" 400 Usage AfterChange
        "The kind of the store does not permit the request."
        "Choose another store, or leave out the option that the message names.";
    StoreReadOnly "store-read-only" 409 Refused AfterChange
        "The store is configured as read-only."
        "Choose another store, or change the configuration.";
    StoreOffline "store-offline" 503 Temporary Later
        "The store is offline, or its disk or server fails."
        "Mount the store, or correct its path in the configuration.";
    StoreHung "store-hung" 503 Temporary Later
        "A call to the store does not return."
        "Check the disk or server of the store.";
    StoreDenied "store-denied" 503 Temporary Later
        "The daemon's user may not open the store."
        "Give the user the right to enter the directory and those above it.";
    AccountMissing "account-missing" 403 NotAuthorised AfterChange
        "The store is used as the account of a user, and the request has no account on this host."
        "Ask an administrator of the site to map the user or the paired site to an account.";
    AccountRefused "account-refused" 403 NotAuthorised AfterChange
        "The daemon may not use files as the account of the user."
        "Run the daemon as root or with CAP_SETUID and CAP_SETGID, and name no account of root's.";
    AccountUnknown "account-unknown" 503 Temporary Later
        "The name service of the host does not answer for an account."
        "Check the name service of the host: `getent passwd ACCOUNT`.";
    StoreElsewhere "store-elsewhere" 503 Temporary Later
        "No peer that is up now has the store."
        "Start a peer that has the store.";
    StoreInUse "store-in-use" 409 Refused Later
        "A transfer uses the store."
        "Wait for its end, or measure beside it with `--with-load`.";
    BenchmarkRoom "benchmark-room" 409 Refused AfterChange
        "The store has too little room for a benchmark."
        "Free some space, or give a smaller budget or smaller sizes.";
    BenchmarkRunning "benchmark-running" 409 Refused Later
        "A benchmark runs at the site."
        "Wait for its end (`penstock bench show`), or end it (`penstock bench cancel`).";
    BenchmarkUnknown "benchmark-unknown" 404 Usage AfterChange
        "No benchmark of the store has this id."
        "`penstock bench show STORE` lists them.";
    BenchmarkFailed "benchmark-failed" 503 Temporary Later
        "A file of a benchmark could not be written or read."
        "Look at the reason, mend it, and measure again.";
    EntryUnknown "entry-unknown" 404 Usage AfterChange
        "The store has no such entry."
        "Look for its name with `penstock store ls`.";
    EntryKind "entry-kind" 409 Usage AfterChange
        "The entry is not a directory, or a link or a file is on the way to it."
        "Name a directory by a path without links.";
    EntryExists "entry-exists" 409 Refused AfterChange
        "The store has an entry of this name."
        "Choose another name, or use what is there.";
    EntryDenied "entry-denied" 409 Refused AfterChange
        "The daemon's user may not read or change the directory."
        "Give that user the right at the host of the store.";
    HostShort "host-short" 503 Temporary Later
        "The host is short of descriptors or memory."
        "Raise the limit of open files, or end other programs.";
    Target "target" 422 Fatal AfterChange
        "The target cannot be examined."
        "Look at the reason in the message.";
    TargetFull "target-full" 503 Temporary Later
        "The target store is full."
        "Make room at the target; the transfer resumes.";
    TargetReadOnly "target-read-only" 409 Fatal AfterChange
        "The target store is mounted read-only, or its user may not write to it."
        "Mount it writable, or choose another directory.";
    TargetReplaced "target-replaced" 503 Temporary Later
        "The target was removed or replaced while files were moved to it."
        "Run the same command again.";
    Sync "sync" 500 Fatal AfterChange
        "The target store failed to sync several times."
        "Look at the kernel log of the target host for I/O errors.";
    Clean "clean" 422 Fatal AfterChange
        "Penstock cannot look through the target for its temporary files."
        "Look at the reason in the message.";
    Mend "mend" 503 Temporary Later
        "The peer cannot examine attributes at the target again."
        "Install the same release of penstock at all peers of the site.";
    Proof "proof" 400 Usage AfterChange
        "The store keeps nothing that could be read again."
        "Leave out `--readback` and `--also-digest`.";
    ProofUnsupported "proof-unsupported" 422 Fatal AfterChange
        "The peer cannot read files of the store again."
        "Install the same release of penstock at all peers of the site.";
    DeleteRefused "delete-refused" 409 Refused AfterChange
        "A safety guard does not permit to delete at the target."
        "Look at the reason in the message; all other work is done.";
    DeleteSlow "delete-slow" 503 Temporary Later
        "A peer makes no progress with its deletions."
        "Check the disk or server of the target store.";
    FinderLost "finder-lost" 503 Temporary Later
        "The peer that found the items to delete is gone."
        "Wait: the next attempt looks for them again.";

    "Lanes and paths":
    Lanes "lanes" 403 NotAuthorised AfterChange
        "The peer cannot open lanes to the source site."
        "Read the reason: allow the cipher suite at both sites, or pair the sites again.";
    LaneDistrust "lane-certificate" 503 Temporary Later
        "The two ends of a lane do not trust each other."
        "Pair the sites again if the error persists.";
    LaneVersion "lane-version" 426 Fatal AfterChange
        "The two ends of a lane speak different versions of the protocol."
        "Upgrade the site with the older release of penstock.";
    Protocol "protocol" 502 Fatal AfterChange
        "The other end of a lane breaks the protocol."
        "Check the release and the memory of the other host, and retry the transfer.";
    WrongPeer "wrong-peer" 403 NotAuthorised AfterChange
        "Another site than expected answers at a data address."
        "Check the addresses of the pairing, or pair the sites again.";
    NoPath "no-path" 503 Temporary Later
        "No data path leads to the other site."
        "Look at the addresses of both ends with `penstock site paths`.";
    Grant "grant" 500 Fatal AfterChange
        "The controller granted a piece that does not exist."
        "Install the same release of penstock at all peers of the site.";
    GrantOver "grant-over" 503 Temporary Later
        "The controller has not renewed the right of the peer to write."
        "Check the management network of the site.";

    "Peers":
    PeerUnknown "peer-unknown" 404 Usage AfterChange
        "The site has no such peer."
        "Use one of the peers that `penstock peer list` shows.";
    PeerUnreachable "peer-unreachable" 503 Temporary Later
        "A peer cannot be reached."
        "Check whether its daemon runs and its addresses are reachable.";
    PeerLost "peer-lost" 503 Temporary Later
        "A peer has stopped answering."
        "Check whether its daemon runs.";
    PeerLeftOut "peer-left-out" 503 Temporary Later
        "A peer takes no part in the transfer."
        "Look at the reason in the message.";
    PeerVersion "peer-version" 426 Temporary Later
        "The peers of the site have different releases of penstock."
        "Install the same release at all peers.";
    NotAPeer "not-a-peer" 503 Temporary Later
        "The program at the address is not a peer of this site."
        "Check which program listens there, and its configuration.";
    PeerNotUnderstood "peer-not-understood" 503 Temporary Later
        "A peer sent a message that the controller does not understand."
        "Install the same release of penstock at all peers of the site.";
    PeerReply "peer-reply" 503 Temporary Later
        "A peer sent a reply that this release does not understand."
        "Install the same release of penstock at all peers of the site.";
    PeerPage "peer-page" 503 Temporary Later
        "The controller did not send a page in time."
        "Check the management network of the site.";
    PeerThere "peer-there" 409 Refused AfterChange
        "The peer is up, so it cannot be forgotten."
        "End its daemon first, or give `--stolen` if the host is in other hands.";
    PeerTaken "peer-taken" 409 Refused AfterChange
        "Another peer of the site has this name."
        "Join with another `--peer`.";
    PeerLives "peer-lives" 409 Refused AfterChange
        "A host with the name of the peer answers."
        "Switch that host off, or join with another `--peer`.";
    NoPeer "no-peer" 503 Temporary Later
        "No peer of the site reaches the target store."
        "Look at `penstock peer list`.";
    LastPeer "last-peer" 409 Refused AfterChange
        "The peer is the last one that reaches a store with waiting transfers."
        "Mount the store at another peer, or give `--force`.";
    OnePeer "one-peer" 409 Refused AfterChange
        "The site has one peer only, and the order is for a site of several."
        "Do what the message says; `penstock site grow` makes a site of several peers.";
    TaskUnknown "task-unknown" 404 Temporary Later
        "The peer has no such task, or has ended it."
        "Wait: the controller starts another task.";
    TaskHangs "task-hangs" 503 Temporary Later
        "A peer does not end its task."
        "Check the disk or server of the target store.";
    SilentWriter "silent-writer" 503 Temporary Later
        "A peer without contact may still write to finished files."
        "Start the peer, or make sure that its host is off.";
    LeaseOver "lease-over" 503 Temporary Later
        "The lease of a request to a peer is over."
        "Wait: the controller sends the request again if it still needs it.";
    NotController "not-controller" 503 Temporary Later
        "The peer is not the controller of its site."
        "Wait: the transfer continues under the next controller.";
    NotReady "not-ready" 503 Temporary Later
        "The peer does not serve its site now."
        "Send requests to another peer of the site; `penstock site status` shows what is wrong.";
    TenureOver "tenure-over" 503 Temporary Later
        "The peer has not heard in time that the controller still leads."
        "Check the management network of the site.";

    "Sites and pairing":
    NotPaired "not-paired" 403 NotAuthorised AfterChange
        "The sites are not paired."
        "Pair the sites with `penstock site pair`.";
    SiteUnknown "site-unknown" 404 Usage AfterChange
        "No site of this name is paired with this one."
        "Use one of the sites that `penstock site list` shows.";
    SiteUnreachable "site-unreachable" 503 Temporary Later
        "The other site cannot be reached."
        "Check whether its daemon runs and its addresses are reachable.";
    SiteBroken "site-broken" 503 Temporary Later
        "The connection to the other site broke."
        "Check the network between the sites.";
    SiteCut "site-cut" 503 Temporary Later
        "The reply of the other site stopped in the middle."
        "Check the network between the sites.";
    SiteAddress "site-address" 409 Fatal AfterChange
        "The other site has no known address."
        "Pair the sites again.";
    SiteReply "site-reply" 502 Fatal AfterChange
        "The other site sent another transfer than the one asked for."
        "Install the same release of penstock at both sites.";
    SiteTaken "site-taken" 409 Refused AfterChange
        "Another site is paired under this name."
        "Unpair that site first, or rename one of the two.";
    Reply "reply" 502 Fatal AfterChange
        "A reply cannot be stored, decompressed, or is too long."
        "Look at the reason in the message.";
    Address "address" 400 Usage AfterChange
        "The site has no address for a token."
        "Set `advertise` in penstock.toml.";
    Token "token" 400 Usage AfterChange
        "The text is not a token."
        "Copy the whole token, or make a new one.";
    TokenRefused "token-refused" 403 NotAuthorised AfterChange
        "The token is wrong, used up or too old."
        "Make a new token.";
    TokenFailed "token-failed" 500 Fatal AfterChange
        "The site cannot make a token."
        "Look at the reason in the message.";
    Authority "authority" 403 NotAuthorised AfterChange
        "The authority of the other site is not valid."
        "Check which site answers at the address, and pair again.";
    Certificate "certificate" 403 NotAuthorised AfterChange
        "The certificate of the other site is not trusted."
        "Unpair the sites and pair them again if one was set up anew.";
    Trust "trust" 500 Fatal AfterChange
        "TLS cannot be set up to pair or to join."
        "Look at the reason in the message.";
    Tls "tls" 500 Fatal AfterChange
        "TLS cannot be set up."
        "Check the certificates and keys below the directory of the site.";
    Keys "keys" 500 Fatal AfterChange
        "The keys of the site cannot be read, trusted or replaced."
        "Look at the reason in the message.";
    KeysRefused "keys-refused" 403 NotAuthorised AfterChange
        "A statement about the keys of another site is rejected."
        "Check with its operators, and pair the sites again.";
    PeerKeys "peer-keys" 503 Temporary Later
        "A peer cannot accept new keys now."
        "Repeat the command when the peer answers, or forget the peer.";

    "Receipts":
    Receipt "receipt" 503 Temporary Later
        "The receipt cannot be written or read."
        "Check the disk of the state directory.";
    ReceiptDamaged "receipt-damaged" 500 Fatal Never
        "The facts for the receipt are damaged."
        "Check the disk of the journal.";
    ReceiptDiffers "receipt-differs" 409 Refused AfterChange
        "The receipt names other facts than the source recorded."
        "Compare the receipt with the transfer at the source.";
    ReceiptForeign "receipt-foreign" 403 NotAuthorised AfterChange
        "The receipt is not of a transfer from this site to the caller."
        "Ask the site that was the source.";
    ReceiptKey "receipt-key" 422 Fatal AfterChange
        "The key that signs receipts cannot be used."
        "Check the keys below the directory of the site.";
    ReceiptSignature "receipt-signature" 422 Integrity AfterChange
        "The signature of the source site is not valid."
        "Ask the operators of the source site about its keys.";

    "Journal and state":
    Journal "journal" 503 Temporary Later
        "A file of the journal cannot be read or written."
        "Check the disk, server or mount of the journal.";
    JournalDamaged "journal-damaged" 500 Fatal Never
        "A file of the journal is missing or damaged."
        "Check the disk of the journal, and submit the transfer again.";
    JournalVersion "journal-version" 500 Fatal AfterChange
        "A later release of penstock wrote the journal."
        "Install that release again, and retry the transfer.";
    JournalNeeded "journal-needed" 409 Refused AfterChange
        "The order needs the journal of the site, which is not accessible."
        "Mount the journal, and repeat the order.";
    StateVersion "state-version" 500 Fatal AfterChange
        "A later release of penstock wrote the state."
        "Install that release again.";
    AuditLog "audit-log" 503 Temporary Later
        "The audit log of a peer cannot be read."
        "Check the disk of the site directory of that peer.";
    State "state" 503 Temporary Later
        "The state of the site cannot be read or written."
        "Check the disk of the site directory.";

    "Cluster and etcd":
    Etcd "etcd" 503 Temporary Later
        "A request to etcd failed."
        "Look at `penstock site status`.";
    EtcdAlone "etcd-alone" 409 Fatal AfterChange
        "The etcd of this host cannot continue alone."
        "Repeat the takeover, or start other hosts and run `penstock site recover`.";
    EtcdNotBegun "etcd-not-begun" 409 Refused AfterChange
        "This host cannot start a new etcd."
        "Look at the reason in the message.";
    OwnEtcd "own-etcd" 409 Refused AfterChange
        "Operators run the etcd of this site, not penstock."
        "Restore the majority of etcd, then run `penstock site recover`.";
    NoEtcd "no-etcd" 409 Refused AfterChange
        "This host has no etcd of its own."
        "Run the command at a host that has one.";
    Witness "witness" 409 Refused AfterChange
        "This host is a witness, without the journal of the site."
        "Run the command at a host that moves data.";
    HasMajority "has-majority" 409 Refused AfterChange
        "Etcd has its majority, so no takeover is needed."
        "Look at `penstock site status`.";
    NotFenced "not-fenced" 409 Refused AfterChange
        "A host that may still vote is not fenced."
        "Switch it off or cut it off, and name it with `--i-have-fenced`.";
    UnknownHost "unknown-host" 404 Usage AfterChange
        "No etcd of this site runs at the host."
        "Use one of the hosts that `penstock site status` shows.";
    VotersUnknown "voters-unknown" 409 Refused AfterChange
        "The hosts that may vote are not known."
        "Look at the reason in the message.";
    Led "led" 409 Refused AfterChange
        "A controller of this site is at work."
        "Look at `penstock site status`.";
    TakeoverBusy "takeover-busy" 409 Refused AfterChange
        "Another takeover or recovery runs at this host."
        "Wait until it has ended.";
    Recover "recover" 409 Refused AfterChange
        "The records of the site cannot be recovered."
        "Look at the reason in the message.";
    RecoverEtcd "recover-etcd" 503 Temporary Later
        "Etcd failed while the records of the site were recovered."
        "Repeat the command when etcd is well.";
    Members "members" 500 Fatal AfterChange
        "A recorded member of etcd has no name of a peer."
        "Check the list of members in the site directory.";
    NoCluster "no-cluster" 409 Refused AfterChange
        "The site has one peer only, so no peer can join."
        "Run `penstock site grow` first.";

    "Copies over ssh":
    Ssh "ssh" 500 Unclassified AfterChange
        "The other end of the ssh connection failed."
        "Look at the reason in the message.";
    SshLost "ssh-lost" 503 Temporary Later
        "The ssh connection was lost."
        "Run the same command again; it resumes.";
    SshProtocol "ssh-protocol" 500 Fatal AfterChange
        "The other end sent a message out of place."
        "Install the same release of penstock at both hosts.";
    SshKeys "ssh-keys" 500 Fatal AfterChange
        "The one-time certificates cannot be used."
        "Look at the reason in the message.";
    SshListen "ssh-listen" 500 Fatal AfterChange
        "The other end cannot listen at its loopback address."
        "Look at the reason in the message.";
    SshPath "ssh-path" 400 Usage AfterChange
        "The path begins with the home directory of another user."
        "Give the path from `/`, or put `./` in front.";
    SshFile "ssh-file" 500 Fatal AfterChange
        "A file of the run cannot be read or written."
        "Check the disk of the state directory.";
}

impl ProblemCode {
    /// Returns the facts of the code. A code of another release has general ones.
    pub fn facts(&self) -> &'static ProblemFacts {
        let code = self.as_str();
        let mut known = Self::TABLE.iter().flat_map(|group| group.codes);
        known.find(|facts| facts.code == code).unwrap_or(&OTHER)
    }
}

impl std::fmt::Display for ProblemCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ProblemCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ProblemCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::field(deserializer).map(|text| Self::of(Cow::Owned(text)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all() -> impl Iterator<Item = &'static ProblemFacts> {
        ProblemCode::TABLE.iter().flat_map(|group| group.codes)
    }

    /// Promise: programs can rely on codes. Each is unique and in kebab-case, and its row in the
    /// reference says what failed and what to do.
    #[test]
    fn every_code_is_unique_and_explained() {
        let mut seen = BTreeSet::new();
        for facts in all() {
            let code = facts.code;
            assert!(seen.insert(code), "`{code}` is in the table twice");
            let is_part =
                |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase());
            assert!(code.split('-').all(is_part), "`{code}` is not kebab-case");
            for text in [facts.title, facts.advice] {
                assert!(text.ends_with('.') && text.len() > 10, "`{code}`: {text}");
                assert!(!text.contains(['\n', '|']), "`{code}`: {text}");
            }
            assert!((400..600).contains(&facts.status), "`{code}`: {}", facts.status);
        }
        assert!(!seen.contains(OTHER.code));
    }

    /// Promise: a transfer waits after a temporary problem, so the reference must not say that only
    /// a change helps.
    #[test]
    fn a_temporary_problem_is_tried_again_later() {
        for facts in all().filter(|facts| facts.exit == Exit::Temporary) {
            assert_eq!(facts.retry, Retry::Later, "`{}`", facts.code);
        }
    }

    /// Promise: a code comes back from JSON as it was, also one of a later release.
    #[test]
    fn a_code_survives_json() {
        for facts in all() {
            let code: ProblemCode = serde_json::from_value(facts.code.into()).unwrap();
            assert!(!matches!(code, ProblemCode::Other(_)), "`{}`", facts.code);
            assert_eq!(serde_json::to_value(&code).unwrap(), facts.code);
            assert_eq!(code.facts().title, facts.title);
        }
        let later: ProblemCode = serde_json::from_str("\"of-a-later-release\"").unwrap();
        assert_eq!(later, ProblemCode::Other("of-a-later-release".into()));
        assert_eq!(serde_json::to_string(&later).unwrap(), "\"of-a-later-release\"");
        assert_eq!((later.facts().exit, later.facts().status), (Exit::Unclassified, 500));
    }
}
