"""Errors. All of them are `PenstockError`.

A reply of the daemon that says no is an `ApiError`; its class tells the family of its code, as
`docs/problems.md` groups them. Programs branch on `code`, which never changes its meaning.
"""

import errno
import ssl

import httpx2

from ._address import Address
from ._codes import RETRIED_LATER
from .models.event import TransferEvent
from .models.problem import NO_TYPE, FieldFault, ProblemDocument
from .models.transfer import Exit, TransferView

PASSING = frozenset({429, 502, 503, 504})
"""HTTP statuses of what may pass."""


class PenstockError(Exception):
    """What this package raises."""

    transfer_id: str | None = None
    """The transfer that was to be submitted or waited for, if the call was about one."""

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later without a change."""
        return False


class ApiError(PenstockError):
    """The daemon's answer that it did not do what was asked for."""

    def __init__(self, problem: ProblemDocument, retry_after: float | None = None) -> None:
        cause = f": {problem.cause}" if problem.cause else ""
        hint = f"; {problem.hint}" if problem.hint else ""
        super().__init__(f"{problem.detail}{cause} ({problem.code}){hint}")
        self.problem = problem
        """The whole problem, with fields of later releases."""
        self.retry_after = problem.retry_after_s if retry_after is None else retry_after
        """Seconds after which the daemon wants to be asked again, if it said so."""

    @property
    def code(self) -> str:
        """The kind of the problem, for programs."""
        return self.problem.code

    @property
    def title(self) -> str:
        """The kind of the problem, for people: the same for all problems of a code."""
        return self.problem.title

    @property
    def detail(self) -> str:
        """Operation that failed and its subject, in one line."""
        return self.problem.detail

    @property
    def cause(self) -> str:
        """Reason, in one line. May be empty."""
        return self.problem.cause

    @property
    def faults(self) -> list[FieldFault]:
        """Fields of the request that are at fault, as far as the daemon names them."""
        return self.problem.errors

    @property
    def request_id(self) -> str | None:
        """Id of the request, for the operators of the site: their logs have it."""
        return self.problem.request_id

    @property
    def hint(self) -> str:
        """Next step for the user. May be empty."""
        return self.problem.hint

    @property
    def status(self) -> int:
        """HTTP status."""
        return self.problem.status

    @property
    def exit(self) -> Exit:
        """Exit status of a command that meets this problem."""
        return self.problem.exit

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later without a change."""
        if self.problem.type != NO_TYPE:
            return self.problem.retryable
        return self.code in RETRIED_LATER or self.status in PASSING


class RequestProblem(ApiError):
    """The request is wrong, or the daemon cannot take it now."""


class RightsProblem(ApiError):
    """The caller may not do this."""


class TransferProblem(ApiError):
    """A transfer is unknown, or its state or target forbids what was asked for."""


class PlanProblem(ApiError):
    """A plan is damaged, stale or too long."""


class SourceProblem(ApiError):
    """The source cannot be listed or read."""


class StoreProblem(ApiError):
    """A store is unknown, offline, full or read-only."""


class LaneProblem(ApiError):
    """Data cannot pass between two sites."""


class PeerProblem(ApiError):
    """A peer is unknown, silent, or must not be taken away."""


class SiteProblem(ApiError):
    """A site is unknown, unreachable or not trusted."""


class ReceiptProblem(ApiError):
    """A receipt cannot be had."""


class StateProblem(ApiError):
    """The state of the site cannot be read or written."""


class ClusterProblem(ApiError):
    """The site's etcd or its records are in trouble."""


class SshProblem(ApiError):
    """A copy over ssh failed."""


FAMILIES: dict[str, type[ApiError]] = {
    "Requests": RequestProblem,
    "Rights": RightsProblem,
    "Transfers": TransferProblem,
    "Plans": PlanProblem,
    "Source": SourceProblem,
    "Stores and targets": StoreProblem,
    "Lanes and paths": LaneProblem,
    "Peers": PeerProblem,
    "Sites and pairing": SiteProblem,
    "Receipts": ReceiptProblem,
    "Journal and state": StateProblem,
    "Cluster and etcd": ClusterProblem,
    "Copies over ssh": SshProblem,
}
"""The class of each area of `docs/problems.md`."""


class ConnectionFailed(PenstockError):
    """No daemon answered, or the connection broke."""

    def __init__(self, address: Address, cause: Exception, *, was_sent: bool) -> None:
        what = "the connection broke at" if was_sent else "no daemon answers at"
        super().__init__(f"{what} {address}: {_reason(cause)}; {_advice(address, cause)}")
        self.address = str(address)
        """The socket or URL, as in `PENSTOCK_URL`."""
        self.was_sent = was_sent
        """Whether the daemon may have received the request, and acted on it."""
        self.timed_out = isinstance(cause, httpx2.TimeoutException)
        """Whether the time for an answer was over."""

    @property
    def retryable(self) -> bool:
        """Always true: the daemon may be back later."""
        return True


class ReplyUnreadable(PenstockError):
    """The reply is not what this release of the SDK understands."""

    def __init__(self, operation: str, cause: object) -> None:
        super().__init__(
            f"the reply to {operation} is not what this release understands: {cause}; use the "
            "release of the SDK that belongs to the daemon"
        )


class TransferFailed(PenstockError):
    """A transfer ended, and not as done."""

    def __init__(self, transfer: TransferView) -> None:
        reason = f": {transfer.reason}" if transfer.reason else ""
        super().__init__(f"transfer {transfer.id[:8]} {transfer.state}{reason}")
        self.transfer = transfer
        """The transfer as it ended."""
        self.transfer_id = transfer.id


class WaitTimeout(PenstockError, TimeoutError):
    """A transfer has not ended within the time that the caller allowed. It goes on."""

    def __init__(self, transfer_id: str, seconds: float, last: TransferEvent | None) -> None:
        state = f" and is {last.state}" if last else ""
        reason = f": {last.reason}" if last and last.reason else ""
        super().__init__(
            f"transfer {transfer_id[:8]} has not ended within {seconds:g} s{state}{reason}"
        )
        self.transfer_id = transfer_id
        self.last = last
        """The last state that was heard of."""

    @property
    def retryable(self) -> bool:
        """Always true: wait again."""
        return True


def _chain(error: BaseException | None) -> list[BaseException]:
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain


def _reason(cause: Exception) -> str:
    if isinstance(cause, httpx2.ReadTimeout):
        return "no answer in time"
    told = [str(error) for error in _chain(cause) if str(error)]
    return told[-1] if told else type(cause).__name__


def _advice(address: Address, cause: Exception) -> str:
    chain = _chain(cause)
    if any(isinstance(error, ssl.SSLCertVerificationError) for error in chain):
        return "give the certificate of the site's authority as `ca=`"
    if address.socket is None:
        return "check the address, and whether the daemon runs there"
    numbers = {error.errno for error in chain if isinstance(error, OSError)}
    if numbers & {errno.EACCES, errno.EPERM}:
        return "be in the group of the daemon's socket for accounts, or log in: `penstock login`"
    return (
        "start it with `penstock daemon --dir DIR`, or name another site directory by "
        "PENSTOCK_DIR, or another daemon by PENSTOCK_URL"
    )
