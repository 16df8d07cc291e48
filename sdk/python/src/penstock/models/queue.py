"""The queue: its order, the rules of operators, deadlines."""

from datetime import datetime

from pydantic import Field

from .base import OpenEnum, View
from .place import Location
from .problem import ProblemDetails
from .transfer import DeadlineView, TransferState, WaitingView


class LimitKind(OpenEnum):
    """Kind of object that a limit holds for."""

    SITE = "site"
    """All transfers of this site."""
    PAIR = "pair"
    """Transfers with a paired site."""
    STORE = "store"
    """Transfers that read or write a store of this site."""
    USER = "user"
    """Transfers of a user."""


class Day(OpenEnum):
    """Day of the week."""

    MON = "mon"
    """Monday."""
    TUE = "tue"
    """Tuesday."""
    WED = "wed"
    """Wednesday."""
    THU = "thu"
    """Thursday."""
    FRI = "fri"
    """Friday."""
    SAT = "sat"
    """Saturday."""
    SUN = "sun"
    """Sunday."""


class QueueLimit(View):
    """Limit of what the transfers of one object use together."""

    kind: LimitKind
    """Kind of the object."""
    name: str
    """Name of the object."""
    running: int | None = None
    """Most transfers that run at a time."""
    rate_bits_per_s: int | None = None
    """Most bits of file content per second."""


class QueueLimitView(QueueLimit):
    """A limit and its use."""

    running_now: int = 0
    """Number of transfers that run under it now."""
    rate_now_bits_per_s: int = 0
    """Bits of file content per second of them together, over the last second or so."""
    by_window: str | None = None
    """Window by which its values differ from those of the limit itself."""


class QueueShare(View):
    """Share of a user."""

    user: str
    """The user."""
    weight: int
    """Its weight."""


class QueueGroupShare(View):
    """Share of a group of users."""

    group: str
    """The group; `none` for the users without one."""
    weight: int
    """Its weight."""


class QueueWindow(View):
    """Time of the week in which other limits hold."""

    name: str
    """Its name."""
    days: list[Day] = []
    """Days on which it begins."""
    from_: str = Field(default="00:00", alias="from")
    """Its begin, as `08:00`."""
    to: str = "00:00"
    """Its end: on the next day if that is not after its begin."""
    zone: str = "UTC"
    """Time zone of both."""
    pair: str | None = None
    """Paired site whose transfers it limits."""
    store: str | None = None
    """Store of this site whose transfers it limits."""
    user: str | None = None
    """User whose transfers it limits."""
    running: int | None = None
    """Most transfers that run at a time within it; with 0 none runs."""
    rate_bits_per_s: int | None = None
    """Most bits of file content per second within it."""


class WindowView(QueueWindow):
    """A window and its state."""

    in_force: bool = False
    """True if it is in force now."""
    turns_at: datetime | None = None
    """Its next begin or end; none if that is far."""


class QueueFilter(View):
    """Choice of transfers: those that fit all that is given."""

    user: str | None = None
    """The user."""
    store: str | None = None
    """A store of this site that the transfer reads or writes."""
    site: str | None = None
    """The other site."""
    label: str | None = None
    """A part of the label."""


class PauseRule(View):
    """Rule that holds transfers."""

    name: str
    """Its name."""
    filter: QueueFilter = QueueFilter()
    """The transfers that it holds."""
    reason: str = ""
    """The reason, for their users."""
    until: datetime | None = None
    """Its end; none if it holds until it is removed."""
    by: str = ""
    """The principal that made it."""
    since: datetime | None = None
    """Time when it was made, or changed last."""


class PauseRuleView(PauseRule):
    """A pause rule and its effect."""

    in_force: bool = False
    """True if its time is not over."""
    holds: int = 0
    """Number of transfers that it holds."""


class QueueGroupView(View):
    """Share and use of a group of users."""

    group: str
    """The group; `none` for the users without one."""
    weight: int = 1
    """Weight of its share."""
    served_bytes: int = 0
    """Bytes that its users were served lately: a byte counts half after 12 hours."""
    expected_bytes: int = 0
    """Bytes that their running transfers still have to move."""
    running: int = 0
    """Number of their transfers that run."""
    waiting: int = 0
    """Number of their transfers that wait."""


class QueueUserView(View):
    """Share and use of a user."""

    user: str
    """The user; `@SITE` for those that a paired site submits."""
    group: str | None = None
    """Its group; none if it has none."""
    weight: int = 1
    """Weight of its share, within its group."""
    served_bytes: int = 0
    """Bytes that it was served lately: a byte counts half after 12 hours."""
    expected_bytes: int = 0
    """Bytes that its running transfers still have to move."""
    running: int = 0
    """Number of its transfers that run."""
    waiting: int = 0
    """Number of its transfers that wait."""


class QueueEntry(View):
    """A transfer that waits."""

    id: str
    """The transfer."""
    owner: str | None = None
    """Its user; none where another site submitted it, or the administrator of the host."""
    label: str = ""
    """Note of its user."""
    source: Location
    """Source."""
    target: Location
    """Target."""
    waiting: WaitingView
    """Reason for which it waits."""
    urgent: bool = False
    """True if an operator has put it before all fair shares."""
    deadline: DeadlineView | None = None
    """Its deadline."""
    forecast_start: datetime | None = None
    """Forecast start; none where nothing is known."""
    forecast_end: datetime | None = None
    """Forecast end; none where nothing is known."""


class QueueView(View):
    """The queue of a site."""

    running: int = 0
    """Number of transfers that run."""
    waiting: int = 0
    """Number of transfers that wait."""
    transfers: list[QueueEntry] = []
    """The first of those that wait, in the order in which they would start; at most 500."""
    groups: list[QueueGroupView] = []
    """Groups that such users are in, or that have a share. `none` is that of all other users."""
    users: list[QueueUserView] = []
    """Users that have transfers in the queue, were served lately, or have a share."""
    limits: list[QueueLimitView] = []
    """Limits in force."""
    windows: list[WindowView] = []
    """Windows."""
    pause_rules: list[PauseRuleView] = []
    """Pause rules."""


class BulkItem(View):
    """What came of an action on one transfer."""

    id: str
    """The transfer."""
    state: TransferState | None = None
    """Its state now; none if the action failed."""
    problem: ProblemDetails | None = None
    """Reason why the action failed."""


class BulkReply(View):
    """What came of an action on many transfers."""

    items: list[BulkItem] = []
    """Each transfer, in the order of the request."""
    more: bool = False
    """True if more than 500 fit the filter."""
    next: str | None = None
    """Place of the last transfer, if there are more: as `after` it leads to the next ones."""
