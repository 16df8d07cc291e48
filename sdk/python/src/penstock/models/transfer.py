"""Transfers and their figures."""

from datetime import datetime

from pydantic import Field

from .base import OpenEnum, View
from .bottleneck import Bottleneck, TransferTime
from .options import Limits, TransferOptions
from .place import Location, PathText
from .reference import ObjectRef


class TransferState(OpenEnum):
    """State of a transfer."""

    QUEUED = "queued"
    """Accepted and stored, waiting to be started."""
    RUNNING = "running"
    """Scanning, moving, verifying."""
    PAUSED = "paused"
    """Stopped by a user; keeps its ledger."""
    DONE = "done"
    """Every planned item is verified and durable under the stated policy."""
    FAILED = "failed"
    """Ended with failures; `retry` moves only what is missing."""
    CANCELLED = "cancelled"
    """Given up by a user; nothing temporary remains."""


class Exit(OpenEnum):
    """Exit status of a command."""

    DONE = "done"
    """0: every planned item is verified."""
    UNCLASSIFIED = "unclassified"
    """1: unclassified."""
    USAGE = "usage"
    """2: the command line or configuration is wrong."""
    SOME_FAILED = "some-failed"
    """3: some items failed; a list of them was written."""
    SOURCE_CHANGED = "source-changed"
    """4: a source changed or vanished."""
    TEMPORARY = "temporary"
    """5: temporary, a retry may help."""
    REFUSED = "refused"
    """6: refused by a safety guard."""
    FATAL = "fatal"
    """7: fatal, a retry will not help."""
    INTEGRITY = "integrity"
    """8: integrity failure."""
    NOT_AUTHORISED = "not-authorised"
    """12: not authorised."""
    INTERRUPTED = "interrupted"
    """130: interrupted."""


class FailedItem(View):
    """An item that failed."""

    path: PathText
    """Path relative to the data set's root."""
    code: str
    """Stable code: `vanished`, `changed`, `denied`, `read`, `write`, `digest`, `publish`,
    `exists`, `link`, `readback`, `scan`, `delete`, `remove`.
    """
    message: str = ""
    """Message for people, with the reason."""


class FlightKind(OpenEnum):
    """Kind of a decision about a transfer."""

    ATTEMPT_BEGIN = "attempt-begin"
    """An attempt began."""
    ATTEMPT_END = "attempt-end"
    """An attempt ended; the text says what follows."""
    PHASE = "phase"
    """The run entered another phase or another round."""
    GRANT = "grant"
    """A peer got work."""
    PEER_IN = "peer-in"
    """A peer takes part."""
    PEER_OUT = "peer-out"
    """A peer cannot take part, or not any more."""
    LANES = "lanes"
    """The number of lanes of a peer changed."""
    PATH = "path"
    """A path of a peer changed its state."""
    SHARE = "share"
    """A peer got another share of the limits."""
    RATE = "rate"
    """The limit of the rate changed."""
    BOTTLENECK = "bottleneck"
    """A part of the transfer limited its rate."""
    WAIT = "wait"
    """The run or a peer waited."""
    STALL = "stall"
    """An attempt was ended because it made no progress."""
    TENURE = "tenure"
    """The right of the controller to act changed."""
    OTHER = "other"
    """A kind of another release."""


class FlightRecord(View):
    """A decision about a transfer. Repetitions of the same one are counted in one record."""

    at: datetime
    """Time of the decision, by the clock of the controller."""
    until: datetime | None = None
    """Time of its last repetition; none if it was made once."""
    count: int
    """Number of times that it was made. The bottleneck is looked at five times a second."""
    attempt: int
    """Number of the attempt, from 1 on."""
    kind: FlightKind
    """The kind."""
    peer: str = ""
    """The peer that it is about; empty if it is about the whole transfer."""
    code: str = ""
    """Code of the problem that led to it; empty if there was none."""
    pieces: int = 0
    """Pieces of work that were granted, all repetitions together; 0 for other kinds."""
    bytes: int = 0
    """Bytes of these pieces."""
    text: str
    """The decision and its reason, in words."""


class AttributeClass(OpenEnum):
    """A class of attributes: kept, withheld or refused as a whole."""

    OWNER = "owner"
    """User and group."""
    SPECIAL_MODE = "special-mode"
    """The setuid, setgid and sticky bits."""
    ACLS = "acls"
    """POSIX ACLs."""
    USER_XATTRS = "user-xattrs"
    """Extended attributes `user.*`."""
    TRUSTED_XATTRS = "trusted-xattrs"
    """Extended attributes `trusted.*`."""
    SECURITY_XATTRS = "security-xattrs"
    """Extended attributes `security.*`, capabilities among them."""
    DEVICES = "devices"
    """FIFOs and device nodes: entries that are nothing but an attribute."""
    MODE = "mode"
    """Permission bits, without those of `SPECIAL_MODE`."""
    TIMES = "times"
    """Times of last modification of files, links and devices: a later comparison distinguishes
    versions of a file by them.
    """
    DIRECTORY_TIMES = "directory-times"
    """Times of last modification of directories."""


class NotKeptWhy(OpenEnum):
    """Reason why attributes were not preserved."""

    WITHHELD = "withheld"
    """The target's store does not let them in from other sites."""
    NOT_PERMITTED = "not-permitted"
    """The process lacks the right to set them."""
    NOT_SUPPORTED = "not-supported"
    """The target's file system does not have them."""
    UNFIT = "unfit"
    """The attributes are too large to be carried, or their values mean nothing there."""
    NO_ROOM = "no-room"
    """The target's file system, or the user's quota, has no room for them beside this item."""


class NotKept(View):
    """Attributes of one class that were not preserved, for one reason. No item has failed."""

    class_: AttributeClass = Field(alias="class")
    """Class."""
    why: NotKeptWhy
    """Reason."""
    items: int = 0
    """Number of items."""


class PeerShare(View):
    """Part of a target peer in a transfer."""

    peer: str
    """Its name."""
    state: str = ""
    """`working`, `joining`, `draining`, `leaving: WHY`, `resting: WHY` or `out: WHY`, in
    words.
    """
    lanes: int = 0
    """Its lanes that are open now."""
    bytes_verified: int = 0
    """Bytes that it has verified in this run, since it joined last."""
    waiting: str = ""
    """Event that it waits for, and until when; empty if it moves."""


class Progress(View):
    """Figures of a transfer, while it runs and in its summary. All counts are of payload."""

    entries_found: int = 0
    """Entries found so far: files, directories and links."""
    files_found: int = 0
    """Files found so far."""
    bytes_found: int = 0
    """Bytes of files found so far."""
    scan_complete: bool = False
    """True if the scan is complete, so that the three above are totals."""
    files: int = 0
    """Files verified and written."""
    bytes: int = 0
    """Bytes verified and written, in this run and before."""
    bytes_durable: int = 0
    """Bytes durable under the stated policy."""
    bytes_verified: int = 0
    """Bytes that were hashed at the source and found equal at the target, in this run."""
    bytes_read_back: int = 0
    """Bytes that were read again at the target after they were durable, and were right."""
    bytes_resumed: int = 0
    """Bytes that were there from an earlier run and were not sent again."""
    bytes_resent: int = 0
    """Bytes that had to be sent once more."""
    repairs: int = 0
    """Pieces repaired after a digest mismatch."""
    skipped: int = 0
    """Items passed over on purpose, files that stay as they are at the target among them."""
    bytes_skipped: int = 0
    """Bytes of files that stay as they are at the target."""
    excluded: int = 0
    """Items that were not chosen; an excluded directory counts as one."""
    sockets: int = 0
    """Sockets among these."""
    own_state: int = 0
    """Items passed over at the source: state of runs, markers of copies, private directories
    of stores.
    """
    not_kept: list[NotKept] = []
    """Attributes that were not preserved; no item has failed by that."""
    not_listed: int = 0
    """Files that a digest list lacks, because nearly all of each is holes."""
    deleted: int = 0
    """Items deleted at the target."""
    removed: int = 0
    """Items removed at the source, as `remove_source` wants."""
    stayed: int = 0
    """Items that stay at the source though it was to be emptied: they failed or changed,
    stayed as they were at the target, or are directories that hold something.
    """
    errors: int = 0
    """Items that failed."""
    lanes: int = 0
    """Lanes that are open now."""
    peers: list[PeerShare] = []
    """Share of each target peer, at a site of several."""
    rate_bits_per_s: float = 0.0
    """Bits per second now, over the last second or so."""
    rate_max_bits_per_s: float = 0.0
    """Greatest such rate."""
    seconds: float = 0.0
    """Seconds since the transfer was started, pauses left out."""
    cpu_seconds: float = 0.0
    """CPU seconds that this process used for it, as far as they can be told apart."""
    limit: str = ""
    """Limit of the rate now, in words: `reading at the source`, `the network`, …."""
    bottleneck: Bottleneck | None = None
    """The same with its share of the time; of a transfer that has ended, for all of it."""
    time: TransferTime = TransferTime()
    """Time of its threads, by side, peer and activity, since it was started."""


class WaitingView(View):
    """Reason for which a transfer waits."""

    code: str
    """Kind of the reason: `turn`, `retry`, `room`, `user`, …."""
    since: datetime
    """Time since which it waits for this reason."""
    until: datetime | None = None
    """End of the wait; none where an event ends it."""
    on: ObjectRef | None = None
    """Object for which it waits, or the user who paused it; none if there is none."""
    position: int | None = None
    """Number of transfers that would start before it; none where that is not known."""
    text: str = ""
    """Reason in words."""


class Direction(OpenEnum):
    """Direction of a transfer, as seen from the site that answers."""

    IN = "in"
    """From another site to this one."""
    OUT = "out"
    """From this site to another one."""
    WITHIN = "within"
    """Within this site."""


class ProgressSummary(View):
    """Figures of a transfer in a list. All counts are of payload."""

    files_found: int = 0
    """Files found so far."""
    bytes_found: int = 0
    """Bytes of files found so far."""
    scan_complete: bool = False
    """True if the scan is complete, so that the two above are totals."""
    files: int = 0
    """Files verified and written."""
    bytes: int = 0
    """Bytes verified and written, in this run and before."""
    bytes_durable: int = 0
    """Bytes durable under the stated policy."""
    bytes_settled: int = 0
    """Bytes that need not be moved any more: verified, parts of files too, or left as they are."""
    errors: int = 0
    """Items that failed."""
    rate_bits_per_s: float = 0.0
    """Bits per second now, over the last second or so; 0 if it does not run."""
    seconds: float = 0.0
    """Seconds since the transfer was started, pauses left out."""
    eta_seconds: int | None = None
    """Seconds until its end at the rate of now; none where that cannot be told."""


class FailureCount(View):
    """Failed items of a transfer in a list."""

    count: int = 0
    """Number of failed items."""


class FailureSummary(FailureCount):
    """Failed items of a transfer."""

    first: list[FailedItem] = []
    """The first of them; all are in the failure list."""


class DeadlinePolicy(OpenEnum):
    """Meaning of a deadline."""

    PROMISE = "promise"
    """The site accepts it only if the forecast keeps it, and then reserves a place for it."""
    BEST_EFFORT = "best_effort"
    """The site accepts it, and reports when it is at risk."""
    CANCEL = "cancel"
    """As best effort; a transfer that has not ended by then is cancelled."""


class Promise(OpenEnum):
    """Outlook of a deadline."""

    KEPT = "kept"
    """The forecast keeps it, or nothing speaks against it."""
    AT_RISK = "at_risk"
    """The forecast does not keep it, or there is none ten minutes before."""
    MISSED = "missed"
    """The time is over."""


class DeadlineView(View):
    """Time by which a transfer has to be done."""

    at: datetime
    """The time."""
    policy: DeadlinePolicy
    """Its meaning."""
    promise: Promise
    """Its outlook."""
    forecast_at: datetime | None = None
    """Forecast end of the transfer; none if there is none."""


class _TransferFields(View):
    """What lists and single transfers have in common."""

    id: str
    """Its id."""
    label: str = ""
    """Note of its user."""
    owner: str | None = None
    """User that submitted it; none where another site did, or the administrator of the host."""
    source: Location
    """Source."""
    target: Location
    """Target."""
    direction: Direction
    """Direction, as seen from the site that answers."""
    state: TransferState
    """State."""
    waiting: WaitingView | None = None
    """Reason for which it waits; none if it moves or has ended."""
    reason: str = ""
    """Reason of the state in words. May be empty."""
    created_at: datetime
    """Time of its submission."""
    started_at: datetime | None = None
    """Begin of its first attempt; none until then."""
    ended_at: datetime | None = None
    """Time of its end; none until then."""
    not_before: datetime | None = None
    """Earliest start, if one was given."""
    priority: int | None = None
    """Priority among the transfers of one user, 0 to 100; none for the usual one, 50."""
    urgent: bool = False
    """True if an operator has put it before all fair shares."""
    deadline: DeadlineView | None = None
    """Time by which it has to be done, and the outlook."""
    attempt: int = 0
    """Number of attempts that were begun."""
    bottleneck: Bottleneck | None = None
    """Cause that limits its rate; none if it waits or is paused.

    Of a single transfer that has ended: what limited it as a whole.
    """
    files_from_count: int = 0
    """Number of paths in the request; 0 for a whole directory."""
    exit: Exit | None = None
    """Exit status of `--wait`, once the transfer has ended."""


class TransferSummary(_TransferFields):
    """A transfer as lists show it: without lists of its own."""

    progress: ProgressSummary
    """Figures."""
    failure_count: FailureCount = Field(default=FailureCount(), alias="failures")
    """Number of failed items."""


class TransferView(_TransferFields):
    """A transfer."""

    options: TransferOptions = TransferOptions()
    """Options of the request. `files_from` is left out, unless it was asked for."""
    limits: Limits = Limits()
    """Limits that hold now."""
    progress: Progress
    """Figures."""
    eta_seconds: int | None = None
    """Seconds until its end at the rate of now; none where that cannot be told."""
    failure_summary: FailureSummary = Field(default=FailureSummary(), alias="failures")
    """Failed items."""
    durable_by: str = ""
    """Method by which the data was made durable, in words; empty before the first sync."""

    @property
    def first_failures(self) -> list[FailedItem]:
        """The first failed items; all of them are in the failure list."""
        return self.failure_summary.first
