"""Client of Penstock: moves data sets between sites, verified and resumable.

    from penstock import Penstock

    with Penstock.from_env() as p:
        transfer = p.transfers.submit("lab:raw/run7", "hpc:scratch/")
        transfer.wait()

`AsyncPenstock` has the same methods for `async` code.
"""

from ._async.client import AsyncPenstock
from ._async.documents import AsyncDocument
from ._async.pages import AsyncAuditPages, AsyncEntryPages, AsyncTransferPages
from ._async.transfers import AsyncListedTransfer, AsyncTransfer
from ._retry import RetryPolicy
from ._sync.client import Penstock
from ._sync.documents import Document
from ._sync.pages import AuditPages, EntryPages, TransferPages
from ._sync.transfers import ListedTransfer, Transfer
from .errors import (
    ApiError,
    ConnectionFailed,
    PenstockError,
    ReplyUnreadable,
    TransferFailed,
    WaitTimeout,
)
from .models.access import Scope, StoreGrant, UserRole
from .models.entry import AuditEntry, EntryView
from .models.event import ErrorEvent, Event, ResetEvent, StatusEvent, SummaryEvent, TransferEvent
from .models.options import (
    ChecksumKind,
    CipherSuite,
    CompareBy,
    DigestKind,
    Durability,
    Encryption,
    FileTime,
    IfExists,
    Limits,
    Newer,
    Preserve,
    Proof,
    Selection,
    SelectRule,
    TransferOptions,
    UpdateOptions,
)
from .models.place import Location, PathText
from .models.transfer import (
    Exit,
    FailedItem,
    Progress,
    TransferState,
    TransferSummary,
    TransferView,
)

__version__ = "0.1.0"

__all__ = [
    "ApiError",
    "AsyncAuditPages",
    "AsyncDocument",
    "AsyncEntryPages",
    "AsyncListedTransfer",
    "AsyncPenstock",
    "AsyncTransfer",
    "AsyncTransferPages",
    "AuditEntry",
    "AuditPages",
    "ChecksumKind",
    "CipherSuite",
    "CompareBy",
    "ConnectionFailed",
    "DigestKind",
    "Document",
    "Durability",
    "Encryption",
    "EntryPages",
    "EntryView",
    "ErrorEvent",
    "Event",
    "Exit",
    "FailedItem",
    "FileTime",
    "IfExists",
    "Limits",
    "ListedTransfer",
    "Location",
    "Newer",
    "PathText",
    "Penstock",
    "PenstockError",
    "Preserve",
    "Progress",
    "Proof",
    "ReplyUnreadable",
    "ResetEvent",
    "RetryPolicy",
    "Scope",
    "SelectRule",
    "Selection",
    "StatusEvent",
    "StoreGrant",
    "SummaryEvent",
    "Transfer",
    "TransferEvent",
    "TransferFailed",
    "TransferOptions",
    "TransferPages",
    "TransferState",
    "TransferSummary",
    "TransferView",
    "UpdateOptions",
    "UserRole",
    "WaitTimeout",
]
