"""Plans: what a transfer would do, item by item."""

from pydantic import Field

from .base import OpenEnum, View
from .options import TransferOptions
from .place import PathText
from .problem import Problem
from .transfer import FailedItem


class PlanAction(OpenEnum):
    """Action that a plan names for an item."""

    COPY = "copy"
    """Move the item, or make the directory: nothing has its name."""
    REPLACE = "replace"
    """Replace what is there."""
    LINK = "link"
    """Make a further name of a file that is there by then."""
    ATTRIBUTES = "attributes"
    """Set only attributes: of a file that is otherwise the same, or of a directory."""
    DELETE = "delete"
    """Delete it at the target, or move it to the backup directory."""
    SKIP = "skip"
    """Leave it as it is."""
    FAIL = "fail"
    """Report it as failed."""


class ItemKind(OpenEnum):
    """Kind of an item."""

    FILE = "file"
    """A regular file."""
    DIRECTORY = "directory"
    """A directory."""
    SYMLINK = "symlink"
    """A symbolic link."""
    FIFO = "fifo"
    """A named pipe."""
    CHAR_DEVICE = "chardevice"
    """A character device."""
    BLOCK_DEVICE = "blockdevice"
    """A block device."""
    HARD_LINK = "hardlink"
    """A further name of another item of the source."""
    OTHER = "other"
    """A socket, or an unknown kind."""


class PlanHead(View):
    """First line of a plan."""

    v: int = 0
    """Version of the lines of a plan."""
    source: PathText
    """Source as it was asked for: a location, or an absolute path."""
    target: PathText
    """Target as it was asked for, likewise."""
    root: PathText
    """Root of the data set within the target's store."""
    store: str | None = None
    """Identity of the target's store, in hexadecimal digits; none if it has none yet."""
    made: int = 0
    """Time when it was made, in seconds since 1970. Ages in the options are counted from an
    earlier moment, and settled.
    """
    options: TransferOptions = TransferOptions()
    """Options of the transfer."""


class ThereItem(View):
    """The item under the same name at the target, as it was when it was examined."""

    kind: ItemKind
    """Kind."""
    size: int = 0
    """Size in bytes."""
    mtime: tuple[int, int]
    """Time of last modification."""
    inode: int = 0
    """Inode number."""
    ctime: tuple[int, int]
    """Change time."""
    links: int = 0
    """Number of names."""


class PlanItem(View):
    """An item of a plan."""

    action: PlanAction
    """Action."""
    path: PathText
    """Path relative to the data set's root; empty for the root itself."""
    kind: ItemKind
    """Kind: at the source, or at the target for an item that is deleted."""
    size: int = 0
    """Size in bytes, likewise."""
    mtime: tuple[int, int]
    """Time of last modification, likewise."""
    link: PathText | None = None
    """Text of a symbolic link; of a hard link the path that it is a further name of."""
    why: str = ""
    """Reason why it is skipped or fails, in words."""
    there: ThereItem | None = None
    """Item under its name at the target."""


class PlanCount(View):
    """Items and bytes of one action."""

    items: int = 0
    """Items."""
    bytes: int = 0
    """Bytes of content of these."""


class PlanTotals(View):
    """Totals of a plan."""

    copy_: PlanCount = Field(default=PlanCount(), alias="copy")
    """See `PlanAction.Copy`."""
    replace: PlanCount = PlanCount()
    """See `PlanAction.Replace`."""
    link: PlanCount = PlanCount()
    """See `PlanAction.Link`."""
    attributes: PlanCount = PlanCount()
    """See `PlanAction.Attributes`."""
    delete: PlanCount = PlanCount()
    """See `PlanAction.Delete`."""
    skip: PlanCount = PlanCount()
    """See `PlanAction.Skip`."""
    fail: PlanCount = PlanCount()
    """See `PlanAction.Fail`."""


class Forecast(View):
    """Estimate of the time that a plan would take."""

    seconds: float = 0.0
    """Seconds for the bytes that are moved."""
    rate_bits_per_s: float = 0.0
    """Rate on which the estimate is based."""
    basis: str = ""
    """Origin of that rate, in words."""


class PlanEnd(View):
    """Last line of a plan."""

    totals: PlanTotals = PlanTotals()
    """Totals."""
    forecast: Forecast | None = None
    """Time that it would take; none if nothing is known of the rate."""
    not_carried: int = 0
    """Items of kinds that are not carried, such as sockets."""
    not_chosen: int = 0
    """Items that were not chosen; an excluded directory counts as one."""
    unlisted: int = 0
    """Items that could not be listed or examined: they will count as failed."""
    unlisted_items: list[FailedItem] = []
    """The first items of these, by name."""
    own_state: int = 0
    """Left out: state of runs, markers of copies, private directories of stores."""
    refused: Problem | None = None
    """Reason why nothing would be deleted although deletion was asked for."""
    digest: str
    """BLAKE3 of all lines before, in hexadecimal digits."""
