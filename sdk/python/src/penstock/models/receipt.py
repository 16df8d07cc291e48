"""Receipts: what was moved and proved, signed by both sites."""

from typing import Any, Self

from pydantic import PrivateAttr

from .base import OpenEnum, View
from .options import ChecksumKind, DigestKind
from .place import Location, PathText
from .transfer import Exit, FailedItem, TransferState


class Verified(View):
    """A way in which the data was verified."""

    what: str = ""
    """`arrival`: each piece against its source's digest, before it was written; `readback`:
    each file from storage, after its sync; `again`: each file from the target's file
    system.
    """
    digest: DigestKind = DigestKind.BLAKE3
    """Hash."""
    bytes: int = 0
    """Number of bytes."""
    bytes_direct: int = 0
    """Bytes of these that were read by direct I/O; for the others the page cache was dropped."""
    until: int = 0
    """Time when the last of them was verified."""


class CatalogueList(View):
    """A list of checksums."""

    kind: ChecksumKind
    """Kind."""
    lines: int = 0
    """Lines, one for each file."""
    list_digest: str = ""
    """BLAKE3 of the list as it was written, in hex."""


class Role(OpenEnum):
    """Side of a signer."""

    SOURCE = "source"
    """The site served the data."""
    TARGET = "target"
    """The site owned the transfer."""


class ReceiptSignature(View):
    """A signature."""

    role: Role
    """Side of the signer."""
    site: str
    """Its site; `local` for a user's own copy."""
    vouches: list[str] = []
    """Fields that the signer has checked itself."""
    algorithm: str = ""
    """Always `ed25519`."""
    key: str = ""
    """Public key that checks the signature, in hex."""
    authority: str = ""
    """Certificate of the site's authority, DER in base64; empty for a user's own key."""
    certification: str = ""
    """The authority's signature (ECDSA P-256, SHA-256, DER) of the key, in hex; empty for
    a user's own key.
    """
    signature: str = ""
    """The signature of the statement and of the fields above, in hex."""


class ReceiptFacts(View):
    """Facts from the ledger when a run has ended."""

    root_digest: str | None = None
    """Root of the Merkle tree over the digests of all files (docs/protocol.md, "Root digest"),
    in hex. None if the transfer's digest gives no digests of files.
    """
    root_files: int = 0
    """Files below that root."""
    root_bytes: int = 0
    """Bytes of these."""
    sparse_files: int = 0
    """Files that were verified, and have no standard digest: their holes were not hashed."""
    pages: int = 0
    """Pages of the manifest."""
    manifest_digest: str = ""
    """BLAKE3 over the digests of the pages, in order, in hex."""
    entries_found: int = 0
    """Entries that the scan found."""
    files_found: int = 0
    """Files among these."""
    bytes_found: int = 0
    """Bytes of these."""
    files: int = 0
    """Files verified and written."""
    bytes: int = 0
    """Bytes verified and written."""
    skipped: int = 0
    """Items that were passed over, or stay as they were at the target."""
    failed: int = 0
    """Items that failed."""
    removed: int = 0
    """Items removed at the source, where that was asked for."""
    stayed: int = 0
    """Items that stay at the source although they were to be removed."""
    verified: list[Verified] = []
    """Verifications: method, hash and time."""
    paths: list[str] = []
    """Addresses over which the lanes of the last run went, and their protection, in words."""
    catalogue: list[CatalogueList] = []
    """Lists of checksums that were made."""


class ReceiptBody(View):
    """Statement of a receipt. All counts are of payload; all times are seconds since 1970."""

    version: int = 0
    """Version of the format."""
    program: str = ""
    """Release of the program that made it."""
    id: str
    """The transfer."""
    state: TransferState
    """Final state."""
    exit: Exit
    """Exit status of the command."""
    source: Location
    """Source."""
    target: Location
    """Target."""
    root: PathText
    """The root of the data set within the target's store, which the source became."""
    options: dict[str, Any] = {}
    """Options of the request, as they were written then."""
    submitted: int = 0
    """Time of submission."""
    ended: int = 0
    """Time of the end."""
    milliseconds: int = 0
    """Duration, pauses excluded."""
    durable_by: str = ""
    """Method by which the data was made durable, in words."""
    facts: ReceiptFacts
    """Facts from the ledger."""
    failures: list[FailedItem] = []
    """The first failed items."""
    withheld: dict[str, int] = {}
    """Attributes that were not kept, by class and reason, and of how many entries."""


class Receipt(View):
    """A receipt, as it is stored and handed out."""

    receipt: ReceiptBody
    """The statement."""
    signatures: list[ReceiptSignature] = []
    """Signatures of the statement."""
    _raw: bytes = PrivateAttr(default=b"")

    @property
    def raw(self) -> bytes:
        """The receipt as it was sent: for a file, and for `penstock receipt check`."""
        return self._raw

    def read_from(self, raw: bytes) -> Self:
        """Returns the receipt with the text that it was read from."""
        self._raw = raw
        return self
