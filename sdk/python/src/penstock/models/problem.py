"""Problems, as replies and events carry them."""

from datetime import datetime

from .base import View
from .reference import ObjectRef
from .transfer import Exit

NO_TYPE = "about:blank"
"""The type of a problem without one (RFC 9457)."""


class FieldFault(View):
    """A field of a request that is at fault."""

    pointer: str = ""
    """The field, as a JSON Pointer into the body; `?` and the name for a parameter."""
    code: str = ""
    """The kind of the fault: `unknown-field`, or the code of the problem."""
    detail: str = ""
    """The fault, for people."""


class DeadlineOutlook(View):
    """Reason why a deadline cannot be promised, in figures."""

    forecast_at: datetime | None = None
    """Forecast end of the transfer; none if nothing is known of what runs before it."""
    missing_factor: float | None = None
    """Time until the forecast end, divided by the time until the deadline."""
    would_yield: list[str] = []
    """Transfers that would have to start later, or stop, so that it is kept."""


class Problem(View):
    """A problem as the file of a plan has it."""

    code: str = ""
    """The kind of the problem, for programs."""
    title: str = ""
    """Operation that failed and its subject, in one line."""
    detail: str = ""
    """Reason; the chain of causes in one line. May be empty."""
    hint: str = ""
    """Next step for the user. May be empty."""
    exit: Exit = Exit.UNCLASSIFIED
    """Exit status of a command that meets this problem."""
    status: int = 0
    """HTTP status."""


class ProblemDetails(View):
    """A problem: what failed, why, and what to do next."""

    code: str = "http"
    """The kind of the problem, for programs."""
    title: str = ""
    """The kind of the problem, for people: the same for all problems of a code."""
    detail: str = ""
    """Operation that failed and its subject, in one line."""
    cause: str = ""
    """Reason; the chain of causes in one line. May be empty."""
    hint: str = ""
    """Next step for the user. May be empty."""
    status: int = 0
    """HTTP status."""
    exit: Exit = Exit.UNCLASSIFIED
    """Exit status of a command that meets this problem."""
    retryable: bool = False
    """True if the same request may succeed later without a change."""
    errors: list[FieldFault] = []
    """Fields of the request that are at fault."""
    object: ObjectRef | None = None
    """The object that the problem is about."""
    deadline: DeadlineOutlook | None = None
    """Figures of a deadline that cannot be promised."""


class ProblemDocument(ProblemDetails):
    """An error as the body of a reply (RFC 9457)."""

    type: str = NO_TYPE
    """`urn:penstock:problem:` and the code."""
    retry_after_s: int | None = None
    """Least time in seconds after which the same request may be sent again."""
    request_id: str | None = None
    """Id of the request, for the operators of the site: their logs have it."""
    instance: str | None = None
    """Path of the request."""
